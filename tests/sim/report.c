/* See report.h. */
#include "sim/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/log.h"

static void print_command(const sim_plan *plan, FILE *out)
{
    static const char *const broken[] = {"", " --broken drift", " --broken lost-writes"};
    fprintf(out, "replay: simba-sim --seed %" PRIu64 " --store %s%s\n", plan->seed, sim_store_name(plan->store),
            broken[plan->broken]);
}

static void draw_svg(const timeline *line, const sim_plan *plan, const char *path)
{
    char title[96];
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "simba-sim: %s cannot be written: %s\n", path, strerror(errno));
        return;
    }
    snprintf(title, sizeof title,
             "simba-sim --seed %" PRIu64 " --store %s: ttl %" PRId64 " ms, transition %" PRId64 " ms", plan->seed,
             sim_store_name(plan->store), plan->timing.ttl_ms, plan->timing.transition_ms);
    timeline_svg(line, title, file);
    fclose(file);
}

/* Run it once more, this time with a log. */
static timeline_log *logged(sim *s, const sim_plan *plan, sim_verdict *ret_verdict)
{
    char *text = NULL;
    size_t size = 0;
    FILE *log = open_memstream(&text, &size);
    sim_run(s, plan, log, ret_verdict);
    fclose(log);
    timeline_log *lines = timeline_log_new();
    log = fmemopen(text, size ? size : 1, "r");
    timeline_log_read(lines, log);
    fclose(log);
    free(text);
    return lines;
}

void sim_draw(sim *s, const sim_plan *plan, const char *title, FILE *svg)
{
    sim_verdict verdict;
    timeline line;
    timeline_log *lines = logged(s, plan, &verdict);
    if (timeline_log_draw(lines, 0, plan->horizon_ns / SIM_MS, &line))
        timeline_svg(&line, title, svg);
    timeline_log_free(lines);
}

/* The end of the run, where it went wrong, or all of it. */
static void draw(sim *s, const sim_plan *plan, const char *svg, FILE *out)
{
    sim_verdict verdict;
    timeline_log *lines = logged(s, plan, &verdict);
    const int64_t end_ms = (verdict.promise ? verdict.at_ns : plan->horizon_ns) / SIM_MS;
    const int64_t span_ms = 3 * (plan->timing.ttl_ms + plan->timing.transition_ms);
    const int64_t from_ms = verdict.promise && end_ms > span_ms ? end_ms - span_ms : 0;
    timeline line;
    term t;
    term_open(out, &t);
    if (timeline_log_draw(lines, from_ms, end_ms, &line)) {
        fprintf(out, "from %" PRId64 ".%03d s on:\n", from_ms / 1000, (int)(from_ms % 1000));
        timeline_print(&line, &t);
        if (svg) {
            draw_svg(&line, plan, svg);
            fprintf(out, "drawn: %s\n", svg);
        }
    }
    timeline_log_free(lines);
}

void sim_report(sim *s, const sim_plan *plan, const sim_verdict *verdict, const char *svg, FILE *out)
{
    sim_plan smallest = *plan;
    char path[96];
    if (!svg && verdict->promise) {
        snprintf(path, sizeof path, "simba-sim-%" PRIu64 "-%s.svg", plan->seed, sim_store_name(plan->store));
        svg = path;
    }
    print_command(plan, out);
    if (verdict->promise) {
        sim_verdict again;
        fprintf(out, "broken at %.6f s: %s: %s\n", (double)verdict->at_ns / 1e9, verdict->promise, verdict->text);
        sim_shrink(s, &smallest, verdict->promise);
        sim_run(s, &smallest, NULL, &again);
        fprintf(out, "the smallest scenario that breaks it, at %.6f s: %s\n", (double)again.at_ns / 1e9, again.text);
    }
    sim_plan_print(&smallest, out);
    draw(s, &smallest, svg, out);
}
