/* See condition.h. */
#include "runtime/condition.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

void simba__sleeper_wake(simba__sleeper *sleeper, simba__wakeups *wakeups, bool let_go)
{
    simba__list_remove(&sleeper->of_condition);
    simba__list_remove(&sleeper->of_turn);
    sleeper->noted = true;
    sleeper->let_go = let_go;
    *(wakeups->last ? &wakeups->last->next : &wakeups->first) = sleeper;
    wakeups->last = sleeper;
}

void simba__condition_wake(simba__condition *condition, simba__wakeups *wakeups, bool let_go)
{
    while (condition->sleepers.first)
        simba__sleeper_wake(SIMBA__OF_ITEM(condition->sleepers.first, simba__sleeper, of_condition), wakeups, let_go);
}

/* A thread that finds that it was called may be gone at once, and the sleeper with it: the futex is only an address then. */
static void call(simba__sleeper *sleeper)
{
    atomic_uint *futex = &sleeper->called;
    if (atomic_exchange(futex, SIMBA__CALLED) == SIMBA__ASLEEP)
        syscall(SYS_futex, futex, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void simba__wakeups_make(simba__wakeups *wakeups)
{
    for (simba__sleeper *sleeper = wakeups->first, *next; sleeper; sleeper = next) {
        next = sleeper->next;
        call(sleeper);
    }
}

/* The kernel does not know the boot-time clock here. The other clock only decides how long to sleep. */
static struct timespec on_other_clock(simba_local until)
{
    const int64_t left_ns = until.ns - simba__clock_boot().ns;
    const int64_t at_ns = simba__clock_mono_ns() + (left_ns > 0 ? left_ns : 0);
    return (struct timespec){(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)};
}

bool simba__sleep(simba__sleeper *self, simba_local until)
{
    const bool limited = until.ns != INT64_MAX;
    struct timespec at = {0};
    if (limited)
        at = on_other_clock(until);
    unsigned awake = SIMBA__AWAKE;
    (void)atomic_compare_exchange_strong(&self->called, &awake, SIMBA__ASLEEP);
    while (atomic_load_explicit(&self->called, memory_order_acquire) != SIMBA__CALLED)
        if (syscall(SYS_futex, &self->called, FUTEX_WAIT_BITSET_PRIVATE, SIMBA__ASLEEP, limited ? &at : NULL, NULL,
                    FUTEX_BITSET_MATCH_ANY) != 0 &&
            errno == ETIMEDOUT)
            return false;
    return true;
}
