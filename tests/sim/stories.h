/* The pictures of docs/safety.md. They are drawn from simulated runs, so a test can check that they are up to date. */
#ifndef TESTS_SIM_STORIES_H
#define TESTS_SIM_STORIES_H

#include "sim/sim.h"

/* False: there is no such story. */
bool sim_story(const char *name, FILE *svg);

#endif
