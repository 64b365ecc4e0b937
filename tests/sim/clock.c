/* See clock.h. */
#include "sim/clock.h"

#define MILLION INT64_C(1000000)

int64_t sim_clock_read(const sim_clock *clock, int64_t at)
{
    const int64_t passed = at - clock->base_true;
    return clock->base_shown + passed + passed / MILLION * clock->ppm + passed % MILLION * clock->ppm / MILLION;
}

int64_t sim_clock_when(const sim_clock *clock, int64_t shown)
{
    if (shown == SIM_NEVER)
        return SIM_NEVER;
    const int64_t left = shown - clock->base_shown;
    const int64_t rate = MILLION + clock->ppm;
    int64_t at = clock->base_true + left / rate * MILLION + left % rate * MILLION / rate;
    while (sim_clock_read(clock, at) < shown)
        at++;
    while (sim_clock_read(clock, at - 1) >= shown)
        at--;
    return at;
}

void sim_clock_jump(sim_clock *clock, int64_t ns)
{
    clock->base_shown += ns;
}

void sim_clock_set_rate(sim_clock *clock, int64_t at, int64_t ppm)
{
    clock->base_shown = sim_clock_read(clock, at);
    clock->base_true = at;
    clock->ppm = ppm;
}
