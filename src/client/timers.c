/* See timers.h. */
#include "client/timers.h"

#include <assert.h>

#include "core/timing.h"
#include "util/mem.h"

int simba__timers_reserve(simba__timers *timers, unsigned count)
{
    if (timers->reserved + count >= timers->capacity) {
        const size_t capacity = timers->capacity * 2 + count + 15;
        simba_timer **heap = simba__realloc(timers->heap, capacity * sizeof *heap);
        if (!heap)
            return SIMBA_ENOMEM;
        timers->heap = heap;
        timers->capacity = capacity;
    }
    timers->reserved += count;
    return 0;
}

void simba__timers_unreserve(simba__timers *timers, unsigned count)
{
    assert(timers->reserved >= count);
    timers->reserved -= count;
}

static void place(simba__timers *timers, size_t index, simba_timer *timer)
{
    timers->heap[index] = timer;
    timer->index = index;
}

static void sift_up(simba__timers *timers, size_t index, simba_timer *timer)
{
    for (; index > 1 && timers->heap[index / 2]->at.ns > timer->at.ns; index /= 2)
        place(timers, index, timers->heap[index / 2]);
    place(timers, index, timer);
}

static void sift_down(simba__timers *timers, size_t index, simba_timer *timer)
{
    for (;;) {
        size_t child = index * 2;
        if (child > timers->count)
            break;
        if (child < timers->count && timers->heap[child + 1]->at.ns < timers->heap[child]->at.ns)
            child++;
        if (timers->heap[child]->at.ns >= timer->at.ns)
            break;
        place(timers, index, timers->heap[child]);
        index = child;
    }
    place(timers, index, timer);
}

void simba__timers_clear(simba__timers *timers, simba_timer *timer)
{
    const size_t index = timer->index;
    if (index == 0)
        return;
    timer->index = 0;
    simba_timer *last = timers->heap[timers->count--];
    if (last == timer)
        return;
    if (index > 1 && timers->heap[index / 2]->at.ns > last->at.ns)
        sift_up(timers, index, last);
    else
        sift_down(timers, index, last);
}

void simba__timers_set(simba__timers *timers, simba_timer *timer, simba_local at)
{
    if (timer->index != 0 && timer->at.ns == at.ns)
        return;
    simba__timers_clear(timers, timer);
    if (at.ns == INT64_MAX)
        return;
    assert(timers->count < timers->reserved);
    timer->at = at;
    sift_up(timers, ++timers->count, timer);
}

simba_local simba__timers_earliest(const simba__timers *timers)
{
    return timers->count ? timers->heap[1]->at : SIMBA__NEVER;
}

simba_timer *simba__timers_pop(simba__timers *timers, simba_local now)
{
    if (timers->count == 0 || timers->heap[1]->at.ns > now.ns)
        return NULL;
    simba_timer *timer = timers->heap[1];
    simba__timers_clear(timers, timer);
    return timer;
}

void simba__timers_fini(simba__timers *timers)
{
    simba__free(timers->heap);
}
