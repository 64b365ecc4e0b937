/* The worst moment of `simba torture`, or all of `simba demo`, drawn: who led, who believed to lead, and what was done to whom. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "timeline/timeline.h"
#include "torture/torture.h"

typedef struct picture {
    int64_t from_ns;
    int64_t to_ns;
    unsigned mutex;
    timeline_row rows[TORTURE_CONTENDERS_MAX];
    char names[TORTURE_CONTENDERS_MAX][24];
    timeline_segment *segments;
    size_t segment_count;
    timeline_mark *marks;
    size_t mark_count;
    size_t capacity; /* of each of the two */
    char (*texts)[48];
} picture;

/* --- which moment ------------------------------------------------------------------------------------ */

/* If nothing is broken it is the longest time without a leader. */
static void find_moment(const torture_report *report, picture *p)
{
    const torture_verdict *verdict = report->verdict;
    if (report->is_whole) {
        p->to_ns = verdict->length_ns + MS;
        return;
    }
    int64_t at_ns = verdict->worst.at_ns;
    int64_t for_ns = verdict->worst.for_ns;
    p->mutex = verdict->worst.mutex;
    if (verdict->kept) {
        const torture_times *longest = &verdict->times[TORTURE_END_START];
        for (int end = 0; end < TORTURE_END_COUNT; end++)
            if (verdict->times[end].longest_ns > longest->longest_ns)
                longest = &verdict->times[end];
        at_ns = longest->longest_at_ns;
        for_ns = longest->longest_ns;
        p->mutex = longest->longest_mutex;
    }
    const int64_t around_ns = report->setup->lease_ns + 500 * MS;
    p->from_ns = at_ns > around_ns ? at_ns - around_ns : 0;
    p->to_ns = at_ns + for_ns + around_ns;
    p->to_ns = p->to_ns < verdict->length_ns ? p->to_ns : verdict->length_ns;
    p->to_ns = p->to_ns > p->from_ns + MS ? p->to_ns : p->from_ns + MS;
}

/* --- what is in it ----------------------------------------------------------------------------------- */

static int64_t ms_of(const picture *p, int64_t ns)
{
    return (ns - p->from_ns) / MS;
}

static void add_segment(picture *p, int contender, int64_t from_ns, int64_t to_ns, timeline_kind kind, const char *text)
{
    from_ns = from_ns > p->from_ns ? from_ns : p->from_ns;
    to_ns = to_ns < p->to_ns ? to_ns : p->to_ns;
    if (to_ns <= from_ns || p->segment_count == p->capacity)
        return;
    char *copy = p->texts[p->segment_count];
    snprintf(copy, sizeof p->texts[0], "%s", text);
    p->segments[p->segment_count++] =
        (timeline_segment){(size_t)contender, ms_of(p, from_ns), ms_of(p, to_ns) + 1, kind, copy};
}

static void add_mark(picture *p, int contender, int64_t at_ns, timeline_sign sign)
{
    if (at_ns >= p->from_ns && at_ns <= p->to_ns && p->mark_count < p->capacity)
        p->marks[p->mark_count++] = (timeline_mark){(size_t)contender, ms_of(p, at_ns), sign, NULL};
}

/* From CONTENDS to death or stop. */
static void draw_waiting(picture *p, const torture_history *history, int contender)
{
    int64_t since_ns = -1;
    for (size_t i = 0; i < history->count; i++) {
        const torture_event *event = &history->events[i];
        const bool ends =
            event->kind == TORTURE_KILLED || event->kind == TORTURE_ENDED || event->kind == TORTURE_STOPPED;
        if (event->contender != contender)
            continue;
        if (event->kind == TORTURE_KILLED)
            add_mark(p, contender, event->at_ns, TIMELINE_KILLED);
        if (event->kind == TORTURE_CONTENDS && since_ns < 0)
            since_ns = event->at_ns;
        if (ends && since_ns >= 0) {
            add_segment(p, contender, since_ns, event->at_ns, TIMELINE_WAITING, "waits");
            since_ns = -1;
        }
    }
    if (since_ns >= 0)
        add_segment(p, contender, since_ns, p->to_ns, TIMELINE_WAITING, "waits");
}

static void draw(const torture_report *report, picture *p)
{
    const torture_spans spans = torture_spans_of(report->history, report->verdict->length_ns);
    find_moment(report, p);
    for (int i = 0; i < report->setup->contenders; i++) {
        snprintf(p->names[i], sizeof p->names[i], "contender-%d", i);
        p->rows[i] = (timeline_row){report->ids != NULL ? report->ids[i] : p->names[i], timeline_style((size_t)i)};
        draw_waiting(p, report->history, i);
    }
    for (const torture_span *span = spans.spans; span < spans.spans + spans.count && !report->is_whole; span++) {
        if (span->trouble == TORTURE_BY_DEATH || span->trouble == TORTURE_BY_STORE)
            continue;
        for (int i = 0; i < report->setup->contenders; i++)
            if (torture_span_hits(span, i))
                add_segment(p, i, span->from_ns, span->to_ns, TIMELINE_FAULT,
                            span->trouble == TORTURE_BY_HOST ? "late" : span->what);
    }
    for (size_t i = 0; i < report->verdict->reign_count; i++) {
        const torture_reign *reign = &report->verdict->reigns[i];
        char text[48];
        if (reign->mutex != p->mutex)
            continue;
        const int64_t led_to_ns = reign->killed ? min64(reign->ended_ns, reign->claim_ns) : reign->claim_ns;
        snprintf(text, sizeof text, "token %" PRIu64, reign->token);
        add_segment(p, reign->contender, reign->from_ns, led_to_ns, TIMELINE_OWNER, text);
        if (reign->killed)
            add_segment(p, reign->contender, led_to_ns, reign->claim_ns, TIMELINE_REMAINS, text);
        add_mark(p, reign->contender, reign->from_ns, TIMELINE_ACQUIRED);
        if (reign->released)
            add_mark(p, reign->contender, reign->ended_ns,
                     strcmp(reign->why, "stopped") == 0 ? TIMELINE_RELEASED : TIMELINE_LOST);
    }
    free(spans.spans);
}

/* As characters to the terminal, or as SVG to the file; NULL: not there. */
static void print(const torture_report *report, const term *t, FILE *svg)
{
    picture *p = calloc(1, sizeof *p);
    if (p == NULL)
        abort();
    /* An event makes one segment and one mark at most, and a fault of the store one for each contender. */
    p->capacity = 4 * report->history->count + TORTURE_CONTENDERS_MAX;
    p->segments = calloc(p->capacity, sizeof *p->segments);
    p->marks = calloc(p->capacity, sizeof *p->marks);
    p->texts = calloc(p->capacity, sizeof *p->texts);
    if (p->segments == NULL || p->marks == NULL || p->texts == NULL)
        abort();
    draw(report, p);
    const timeline line = {
        .rows = p->rows,
        .row_count = (size_t)report->setup->contenders,
        .segments = p->segments,
        .segment_count = p->segment_count,
        .marks = p->marks,
        .mark_count = p->mark_count,
        .to_ms = ms_of(p, p->to_ns),
        .from_ms = p->from_ns / MS,
    };
    const bool kept = report->verdict->kept;
    if (t != NULL)
        timeline_print(&line, t);
    if (svg != NULL)
        timeline_svg(&line, kept ? "simba torture: the longest time without a leader" : report->verdict->worst.text,
                     svg);
    free(p->segments);
    free(p->marks);
    free(p->texts);
    free(p);
}

void torture_picture_text(const torture_report *report, const term *t)
{
    print(report, t, NULL);
}

void torture_picture_svg(const torture_report *report, FILE *out)
{
    print(report, NULL, out);
}
