/* The axis of a timeline: where its ticks are, and their labels. A label is the wall clock if the log has it, otherwise
 * the time since the first line. A part of a log is drawn at the times that it has in the whole. */
#include <inttypes.h>
#include <time.h>

#include "timeline/timeline.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* The shortest step of which at most `most` fit into the picture. */
static int64_t tick_for(int64_t to_ms, int64_t most)
{
    static const int64_t steps[] = {
        1,           2,           5,           10,          20,          50,          100,      200,        500,
        SECOND,      2 * SECOND,  5 * SECOND,  10 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE,   2 * MINUTE, 5 * MINUTE,
        10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR,        2 * HOUR,    3 * HOUR,    6 * HOUR, 12 * HOUR};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (steps[i] >= to_ms / most + (to_ms % most != 0))
            return steps[i];
    int64_t days = 1;
    while (days * DAY < to_ms / most + 1)
        days *= 2;
    return days * DAY;
}

/* Seconds to the east of UTC at that moment. */
static int64_t zone_s(int64_t wall_ms)
{
    const time_t at = wall_ms / 1000;
    struct tm local;
    return localtime_r(&at, &local) != NULL ? local.tm_gmtoff : 0;
}

timeline_axis timeline_axis_of(const timeline *line, int64_t most)
{
    timeline_axis axis = {.wall = line->wall_ms > 0, .zero_ms = line->from_ms};
    if (axis.wall)
        axis.zero_ms = line->wall_ms + zone_s(line->wall_ms) * 1000;
    axis.tick_ms = tick_for(line->to_ms, most > 0 ? most : 1);
    axis.first_ms = (axis.tick_ms - axis.zero_ms % axis.tick_ms) % axis.tick_ms;
    return axis;
}

static void wall_label(const timeline_axis *axis, int64_t at_ms, char *label, size_t size)
{
    const time_t at = at_ms / 1000;
    struct tm tm;
    label[0] = '\0';
    if (gmtime_r(&at, &tm) == NULL)
        return;
    const char *format = axis->tick_ms >= DAY ? "%m-%d" : axis->tick_ms >= MINUTE ? "%H:%M" : "%H:%M:%S";
    const size_t length = strftime(label, size, format, &tm);
    if (axis->tick_ms < SECOND)
        snprintf(label + length, size - length, ".%03d", (int)(at_ms % 1000));
}

void timeline_axis_label(const timeline_axis *axis, int64_t ms, char *label, size_t size)
{
    const int64_t at_ms = axis->zero_ms + ms;
    if (axis->wall)
        wall_label(axis, at_ms, label, size);
    else if (axis->tick_ms < 100)
        snprintf(label, size, "%" PRId64 "ms", at_ms);
    else if (axis->tick_ms < SECOND)
        snprintf(label, size, "%" PRId64 ".%" PRId64 "s", at_ms / SECOND, at_ms % SECOND / 100);
    else if (axis->tick_ms < MINUTE)
        snprintf(label, size, "%" PRId64 "s", at_ms / SECOND);
    else if (axis->tick_ms < HOUR)
        snprintf(label, size, "%" PRId64 "m", at_ms / MINUTE);
    else
        snprintf(label, size, "%" PRId64 "h", at_ms / HOUR);
}

bool timeline_axis_caption(const timeline *line, char *caption, size_t size)
{
    const time_t at = line->wall_ms / 1000;
    struct tm local;
    return line->wall_ms > 0 && localtime_r(&at, &local) != NULL &&
           strftime(caption, size, "%Y-%m-%d, UTC%z", &local) > 0;
}
