/* Requests that wait inside a store, in order of arrival, linked through `next`. */
#ifndef SIMBA_BACKENDS_QUEUE_H
#define SIMBA_BACKENDS_QUEUE_H

#include <simba/backend.h>

typedef struct simba__queue {
    simba_request *first, **end;
} simba__queue;

static inline void simba__queue_init(simba__queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

static inline void simba__queue_append(simba__queue *queue, simba_request *request)
{
    request->next = NULL;
    *queue->end = request;
    queue->end = &request->next;
}

/* The request must be in the queue. Quick for one near the beginning, and those run out of time first. */
static inline void simba__queue_remove(simba__queue *queue, const simba_request *request)
{
    simba_request **at = &queue->first;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    if (!*at)
        queue->end = at;
}

/* The first. NULL: there is none. */
static inline simba_request *simba__queue_take(simba__queue *queue)
{
    simba_request *first = queue->first;
    if (first)
        simba__queue_remove(queue, first);
    return first;
}

/* Remove all requests; returns the first, and they are linked through `next`. */
static inline simba_request *simba__queue_take_all(simba__queue *queue)
{
    simba_request *first = queue->first;
    simba__queue_init(queue);
    return first;
}

#endif
