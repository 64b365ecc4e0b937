/* Clocks of the simulated machines. There is one true time, which nobody in the simulation can see; every process
 * and the store have a clock that begins anywhere and runs a little too fast or too slow. Only integers, so that a
 * run is the same everywhere. */
#ifndef TESTS_SIM_CLOCK_H
#define TESTS_SIM_CLOCK_H

#include <stdint.h>

#define SIM_MS INT64_C(1000000)
#define SIM_S INT64_C(1000000000)
#define SIM_NEVER INT64_MAX

typedef struct sim_clock {
    int64_t base_true;
    int64_t base_shown;
    int64_t ppm; /* how much too fast */
} sim_clock;

int64_t sim_clock_read(const sim_clock *clock, int64_t at);
/* The first moment at which the clock shows at least `shown`. */
int64_t sim_clock_when(const sim_clock *clock, int64_t shown);
void sim_clock_jump(sim_clock *clock, int64_t ns);
void sim_clock_set_rate(sim_clock *clock, int64_t at, int64_t ppm);

#endif
