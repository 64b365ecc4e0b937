/* Makes a failing scenario small: leaves things out as long as the same promise is still broken. */
#include <string.h>

#include "sim/sim.h"

static bool breaks(sim *s, const sim_plan *plan, const char *promise)
{
    sim_verdict verdict;
    sim_run(s, plan, NULL, &verdict);
    return verdict.promise && strcmp(verdict.promise, promise) == 0;
}

static void leave_out(sim_plan *plan, unsigned from, unsigned count)
{
    memmove(&plan->item[from], &plan->item[from + count], (plan->items - from - count) * sizeof plan->item[0]);
    plan->items -= count;
}

void sim_shrink(sim *s, sim_plan *plan, const char *promise)
{
    for (unsigned size = plan->items / 2; size > 0;) {
        bool less = false;
        for (unsigned from = 0; from + size <= plan->items;) {
            sim_plan smaller = *plan;
            leave_out(&smaller, from, size);
            if (breaks(s, &smaller, promise)) {
                *plan = smaller;
                less = true;
            } else {
                from += size;
            }
        }
        if (!less || size > 1)
            size /= 2;
    }
}
