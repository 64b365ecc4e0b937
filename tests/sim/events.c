/* See events.h. */
#include "sim/events.h"

#include <stdbool.h>
#include <stdlib.h>

static bool earlier(const sim_event *a, const sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_events_plan(sim_events *events, sim_event event)
{
    if (events->count == events->capacity) {
        events->capacity = events->capacity ? events->capacity * 2 : 256;
        events->heap = realloc(events->heap, events->capacity * sizeof *events->heap);
        if (!events->heap)
            abort();
    }
    event.order = events->planned++;
    size_t at = events->count++;
    while (at > 0 && earlier(&event, &events->heap[(at - 1) / 2])) {
        events->heap[at] = events->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    events->heap[at] = event;
}

int sim_events_next(sim_events *events, sim_event *ret_event)
{
    if (events->count == 0)
        return false;
    *ret_event = events->heap[0];
    const sim_event last = events->heap[--events->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= events->count)
            break;
        if (child + 1 < events->count && earlier(&events->heap[child + 1], &events->heap[child]))
            child++;
        if (!earlier(&events->heap[child], &last))
            break;
        events->heap[at] = events->heap[child];
        at = child;
    }
    events->heap[at] = last;
    return true;
}

void sim_events_clear(sim_events *events)
{
    events->count = 0;
    events->planned = 0;
}

void sim_events_fini(sim_events *events)
{
    free(events->heap);
    *events = (sim_events){0};
}
