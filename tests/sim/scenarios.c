/* See scenarios.h. */
#include "sim/scenarios.h"

#include <string.h>

#include "sim/report.h"

bool sim_draw_scenario(const char *name, FILE *svg)
{
    sim_plan plan;
    if (!sim_plan_scenario(&plan, name))
        return false;
    sim *s = sim_new();
    const bool outage = strcmp(name, "outage") == 0;
    sim_draw(s, &plan,
             outage ? "The store is away for 5.9 s (ttl 10 s, transition 6 s), and nobody loses the leadership"
                    : "The leader is killed (ttl 10 s, transition 6 s); later its successor stops and hands over",
             svg);
    sim_free(s);
    return true;
}
