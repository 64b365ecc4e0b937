/* See gate.h. */
#include "runtime/gate.h"

#include <time.h>

#include "util/clock.h"
#include "util/thread.h"

enum {
    HOT = 8,      /* a thread that comes so often in a row will come again */
    HOTTEST = 64, /* and so will the next one, at first */
    TRIES = 200   /* a thread holds the lock for a microsecond or less, as a rule: that often, before it sleeps */
};

typedef struct place {
    simba__list_item item;
    pthread_cond_t moved; /* it is the first now, and what it may do has changed */
} place;

void simba__gate_init(simba__gate *gate)
{
    pthread_mutex_init(&gate->line_lock, NULL);
}

void simba__gate_fini(simba__gate *gate)
{
    pthread_mutex_destroy(&gate->line_lock);
}

/* The first in line, once it was woken. It does not come before a thread of the client's own, which calls it in turn. */
static void wait_for_call(simba__gate *gate, place *self)
{
    do {
        const int64_t until_ns = simba__clock_mono_ns() + SIMBA__GATE_MOMENT_US * INT64_C(1000);
        const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
        int rc = 0;
        while (rc == 0 && gate->first != SIMBA__FIRST_CALLED)
            rc = pthread_cond_timedwait(&self->moved, &gate->line_lock, &until);
    } while (gate->first != SIMBA__FIRST_CALLED && atomic_load(&gate->urgent) > 0);
    gate->first = SIMBA__FIRST_CALLED; /* nobody need wake it */
}

/* Does the thread that came through last come again and again? */
static bool is_hot(const simba__gate *gate)
{
    return atomic_load_explicit(&gate->heat, memory_order_relaxed) >= HOT;
}

static void tell_first(simba__gate *gate, simba__first state)
{
    if (!gate->line.first || gate->first >= state)
        return;
    gate->first = state;
    pthread_cond_signal(&SIMBA__OF_ITEM(gate->line.first, place, item)->moved);
}

static void stand_in_line(simba__gate *gate, place *self)
{
    pthread_mutex_lock(&gate->line_lock);
    simba__list_append(&gate->line, &self->item);
    atomic_store(&gate->length, gate->line.count);
    if (gate->line.first == &self->item)
        gate->first = SIMBA__FIRST_WAITS;
    else if (is_hot(gate))
        tell_first(gate, SIMBA__FIRST_WAITS); /* otherwise the thread that has just got the lock would have to */
    while (gate->line.first != &self->item || gate->first == SIMBA__FIRST_SLEEPS)
        pthread_cond_wait(&self->moved, &gate->line_lock);
    wait_for_call(gate, self);
    pthread_mutex_unlock(&gate->line_lock);
}

static void leave_line(simba__gate *gate, place *self)
{
    pthread_mutex_lock(&gate->line_lock);
    simba__list_remove(&self->item);
    atomic_store(&gate->length, gate->line.count);
    gate->first = SIMBA__FIRST_SLEEPS; /* until this thread leaves the lock */
    pthread_mutex_unlock(&gate->line_lock);
}

static void take(pthread_mutex_t *lock)
{
    for (int i = 0; i < TRIES; i++)
        if (pthread_mutex_trylock(lock) == 0)
            return;
    pthread_mutex_lock(lock);
}

static void pass_in_line(simba__gate *gate, pthread_mutex_t *lock)
{
    place self = {.item = {0}};
    if (simba__cond_init(&self.moved) != 0) {
        pthread_mutex_lock(lock);
        return;
    }
    stand_in_line(gate, &self);
    take(lock);
    leave_line(gate, &self);
    pthread_cond_destroy(&self.moved);
}

/* Under the lock. */
static void take_heat(simba__gate *gate)
{
    const pthread_t self = pthread_self();
    const unsigned heat = atomic_load_explicit(&gate->heat, memory_order_relaxed);
    if (!pthread_equal(gate->last, self))
        atomic_store_explicit(&gate->heat, heat / 2, memory_order_relaxed);
    else if (heat < HOTTEST)
        atomic_store_explicit(&gate->heat, heat + 1, memory_order_relaxed);
    gate->last = self;
}

static bool is_free(simba__gate *gate, pthread_mutex_t *lock)
{
    return atomic_load(&gate->urgent) == 0 && pthread_mutex_trylock(lock) == 0;
}

bool simba__gate_try(simba__gate *gate, pthread_mutex_t *lock)
{
    const bool taken = is_free(gate, lock);
    if (taken)
        take_heat(gate);
    return taken;
}

void simba__gate_pass(simba__gate *gate, pthread_mutex_t *lock)
{
    if (!is_free(gate, lock))
        pass_in_line(gate, lock);
    take_heat(gate);
}

void simba__gate_pass_by(simba__gate *gate, pthread_mutex_t *lock)
{
    if (pthread_mutex_trylock(lock) == 0)
        return;
    atomic_fetch_add(&gate->urgent, 1);
    pthread_mutex_lock(lock);
    atomic_fetch_sub(&gate->urgent, 1);
}

void simba__gate_call_first(simba__gate *gate)
{
    const simba__first state = is_hot(gate) ? SIMBA__FIRST_WAITS : SIMBA__FIRST_CALLED;
    if (atomic_load_explicit(&gate->first, memory_order_relaxed) >= state)
        return;
    pthread_mutex_lock(&gate->line_lock);
    tell_first(gate, state);
    pthread_mutex_unlock(&gate->line_lock);
}
