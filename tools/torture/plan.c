/* See plan.h. */
#include "torture/plan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define REST_MIN_MS 30
#define REST_MAX_MS 400
#define LATE_MIN_MS 5
#define LATE_MAX_MS 80

const char *torture_fault_word(torture_fault fault)
{
#define TORTURE_FAULT_WORD(name, word) word,
    static const char *const words[] = {TORTURE_FAULTS(TORTURE_FAULT_WORD)};
    assert(fault < TORTURE_FAULT_COUNT);
    return words[fault];
}

static unsigned bits_of_word(const char *word)
{
    if (strcmp(word, torture_fault_word(TORTURE_FAULT_CUT)) == 0)
        return TORTURE_NETWORK_FAULTS & ~TORTURE_FAULT_BIT(TORTURE_FAULT_DELAY);
    for (int fault = 0; fault < TORTURE_FAULT_COUNT; fault++)
        if (strcmp(word, torture_fault_word((torture_fault)fault)) == 0)
            return TORTURE_FAULT_BIT(fault);
    return 0;
}

bool torture_faults_parse(const char *text, unsigned *ret_faults, char *ret_bad, unsigned size)
{
    unsigned faults = 0;
    do {
        char word[16];
        const size_t length = strcspn(text, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), text);
        const unsigned bits = length < sizeof word ? bits_of_word(word) : 0;
        if (bits == 0) {
            snprintf(ret_bad, size, "%.*s", (int)length, text);
            return false;
        }
        faults |= bits;
        text += length;
    } while (*text++ == ',');
    *ret_faults = faults;
    return true;
}

/* splitmix64, which is good enough for faults and the same everywhere. */
static uint64_t draw(torture_plan *plan)
{
    uint64_t x = plan->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* From low to high, both included. */
static int64_t between(torture_plan *plan, int64_t low, int64_t high)
{
    assert(low <= high);
    return low + (int64_t)(draw(plan) % (uint64_t)(high - low + 1));
}

void torture_plan_init(torture_plan *plan, uint64_t seed, unsigned faults, unsigned mutexes, int64_t lease_ms,
                       int64_t short_ms)
{
    assert((faults & TORTURE_ALL_FAULTS) != 0 && mutexes > 0);
    *plan = (torture_plan){seed, faults & TORTURE_ALL_FAULTS, mutexes, lease_ms, short_ms};
}

/* Every value is drawn whether it is used or not, so that the steps that follow do not depend on it. */
torture_step torture_plan_next(torture_plan *plan)
{
    torture_step step;
    do
        step.fault = (torture_fault)(draw(plan) % TORTURE_FAULT_COUNT);
    while ((plan->faults & TORTURE_FAULT_BIT(step.fault)) == 0);
    step.to_leader = draw(plan) % 4 != 0;
    step.mutex = (unsigned)(draw(plan) % plan->mutexes);
    step.pick = (unsigned)(draw(plan) >> 33);
    step.rest_ms = between(plan, REST_MIN_MS, REST_MAX_MS);
    /* Two in three outlast the lease, so that somebody else takes over meanwhile. The third is too short to cost anything. */
    if (draw(plan) % 3 != 0)
        step.for_ms = between(plan, plan->lease_ms, plan->lease_ms + plan->lease_ms / 2);
    else
        step.for_ms = between(plan, plan->short_ms / 5, plan->short_ms * 4 / 5);
    step.late_ms = between(plan, LATE_MIN_MS, LATE_MAX_MS);
    step.goes_on = draw(plan) % (step.to_leader ? 4 : 2) == 0;
    return step;
}
