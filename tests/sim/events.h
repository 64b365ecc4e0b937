/* The events to come, earliest first. Two events of the same moment happen in the order in which they were planned,
 * so that a run depends only on its seed. */
#ifndef TESTS_SIM_EVENTS_H
#define TESTS_SIM_EVENTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct sim_event {
    int64_t at;
    uint64_t order;
    uint32_t version; /* lets the code that planned the event take it back */
    uint32_t arg;
    uint16_t kind;
    uint16_t who;
} sim_event;

typedef struct sim_events {
    sim_event *heap; /* heap[0] is the earliest */
    size_t count;
    size_t capacity;
    uint64_t planned;
} sim_events;

void sim_events_plan(sim_events *events, sim_event event);
/* False: there is none. */
int sim_events_next(sim_events *events, sim_event *ret_event);
void sim_events_clear(sim_events *events);
void sim_events_fini(sim_events *events);

#endif
