/* The report of a run: how to replay it, which promise broke, the smallest scenario that breaks it, and a timeline. */
#ifndef TESTS_SIM_REPORT_H
#define TESTS_SIM_REPORT_H

#include "sim/sim.h"

/* The whole scenario as SVG. */
void sim_draw(sim *sim, const sim_plan *plan, const char *title, FILE *svg);

/* `svg`: the file to draw it into as well; NULL: one that is named after the seed, if a promise was broken. */
void sim_report(sim *sim, const sim_plan *plan, const sim_verdict *verdict, const char *svg, FILE *out);

#endif
