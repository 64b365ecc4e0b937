/* The pictures of docs/safety.md. They are drawn from simulated runs, so a test can check that they are up to date. */
#ifndef TESTS_SIM_SCENARIOS_H
#define TESTS_SIM_SCENARIOS_H

#include "sim/sim.h"

/* False: there is no such scenario. */
bool sim_draw_scenario(const char *name, FILE *svg);

#endif
