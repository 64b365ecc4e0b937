/* Bounds in, words out: simba-sim --explore. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/explore_world.h"
#include "timeline/log.h"

typedef struct bound {
    const char *name;
    size_t offset;
    unsigned most;
} bound;

static const bound bounds_known[] = {
    {"contenders", offsetof(explore_bounds, contenders), EXPLORE_CONTENDERS},
    {"tick", offsetof(explore_bounds, tick_ms), 1000},
    {"ttl", offsetof(explore_bounds, ttl), 8},
    {"transition", offsetof(explore_bounds, transition), 8},
    {"margin", offsetof(explore_bounds, margin), 8},
    {"limit", offsetof(explore_bounds, limit), 8},
    {"losses", offsetof(explore_bounds, losses), 9},
    {"kills", offsetof(explore_bounds, kills), 9},
    {"starts", offsetof(explore_bounds, starts), 9},
    {"stops", offsetof(explore_bounds, stops), 9},
    {"forces", offsetof(explore_bounds, forces), 9},
    {"pauses", offsetof(explore_bounds, pauses), 9},
    {"delays", offsetof(explore_bounds, delays), 9},
    {"drift", offsetof(explore_bounds, drifts), 9},
};

static unsigned *value_of(explore_bounds *bounds, const bound *which)
{
    return (unsigned *)(void *)((char *)bounds + which->offset);
}

static const bound *find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof bounds_known / sizeof *bounds_known; i++)
        if (strlen(bounds_known[i].name) == length && strncmp(bounds_known[i].name, name, length) == 0)
            return &bounds_known[i];
    return NULL;
}

bool explore_parse(const char *text, explore_bounds *bounds)
{
    if (strncmp(text, "none", 4) == 0 && (text[4] == '\0' || text[4] == ',')) { /* nothing goes wrong */
        bounds->losses = bounds->kills = bounds->starts = bounds->stops = bounds->forces = 0;
        bounds->pauses = bounds->delays = bounds->drifts = 0;
        text += text[4] ? 5 : 4;
    }
    while (*text) {
        const size_t length = strcspn(text, "=");
        const bound *which = find(text, length);
        char *end = NULL;
        const unsigned long value = which && text[length] ? strtoul(text + length + 1, &end, 10) : 0;
        if (!end || end == text + length + 1 || value > which->most || (*end != '\0' && *end != ','))
            return false;
        *value_of(bounds, which) = (unsigned)value;
        text = *end ? end + 1 : end;
    }
    simba__timing timing;
    return bounds->contenders > 0 && bounds->tick_ms > 0 && bounds->ttl > 0 && bounds->transition > 0 &&
           world_timing(bounds, &timing);
}

static void draw(const char *text, size_t size, int64_t end_ms, const char *path, FILE *out)
{
    timeline line;
    term t;
    timeline_log *lines = timeline_log_new();
    FILE *log = fmemopen((void *)(uintptr_t)text, size ? size : 1, "r");
    timeline_log_read(lines, log);
    fclose(log);
    term_open(out, &t);
    if (timeline_log_draw(lines, 0, end_ms, &line)) {
        timeline_print(&line, &t);
        FILE *svg = path ? fopen(path, "w") : NULL;
        if (path && !svg)
            fprintf(stderr, "simba-sim: %s cannot be written: %s\n", path, strerror(errno));
        if (svg) {
            timeline_svg(&line, "simba-sim --explore", svg);
            fclose(svg);
        }
    }
    timeline_log_free(lines);
}

bool explore_and_tell(explore_bounds *bounds, const char *svg, FILE *out)
{
    explore_verdict verdict;
    char *text = NULL;
    size_t size = 0;
    FILE *log = open_memstream(&text, &size);
    fprintf(out, "%s:", explore_store_name(bounds->store));
    for (size_t i = 0; i < sizeof bounds_known / sizeof *bounds_known; i++)
        fprintf(out, " %s %u", bounds_known[i].name, *value_of(bounds, &bounds_known[i]));
    fprintf(out, "\n");
    fflush(out);
    explore(bounds, log, &verdict);
    fclose(log);
    fprintf(out, "%" PRIu64 " states, %" PRIu64 " choices, %u deep: %s\n", verdict.states, verdict.choices,
            verdict.depth,
            verdict.promise       ? "a promise was broken"
            : verdict.is_complete ? "all promises were kept in all of them"
                                  : "there are more than fit, and all promises were kept in these");
    if (verdict.promise) {
        fprintf(out, "%s: %s\nthe shortest way there:\n%s", verdict.promise, verdict.text, text);
        draw(text, size, verdict.at_ns / 1000000 + bounds->tick_ms / 2, svg, out);
    }
    free(text);
    return !verdict.promise && verdict.is_complete;
}
