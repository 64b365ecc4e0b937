/* See report.h. */
#include "sim/report.h"

#include <inttypes.h>
#include <string.h>

static void print_command(const sim_plan *plan, FILE *out)
{
    static const char *const stores[] = {"push", "poll", "session"};
    static const char *const broken[] = {"", " --broken drift", " --broken lost-writes"};
    fprintf(out, "replay: simba-sim --seed %" PRIu64 " --store %s%s\n", plan->seed, stores[plan->store],
            broken[plan->broken]);
}

void sim_report(sim *s, const sim_plan *plan, const sim_verdict *verdict, const char *svg, FILE *out)
{
    sim_plan smallest = *plan;
    sim_verdict again = *verdict;
    print_command(plan, out);
    if (verdict->promise) {
        fprintf(out, "broken at %.6f s: %s: %s\n", (double)verdict->at_ns / 1e9, verdict->promise, verdict->text);
        sim_shrink(s, &smallest, verdict->promise);
        sim_run(s, &smallest, NULL, &again);
        fprintf(out, "the smallest scenario that breaks it, at %.6f s: %s\n", (double)again.at_ns / 1e9, again.text);
    }
    sim_plan_print(&smallest, out);
    (void)svg;
}
