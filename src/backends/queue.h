/* Requests that wait inside a store, in order of arrival, linked through `next`. While a request is in a queue, its backend_data
 * is the queue's: it leads back to the link that leads to the request, so that a million of them can be cancelled in any order. */
#ifndef SIMBA_BACKENDS_QUEUE_H
#define SIMBA_BACKENDS_QUEUE_H

#include <simba/backend.h>

#include <stdint.h>

typedef struct simba__queue {
    simba_request *first, **end;
} simba__queue;

static inline void simba__queue_init(simba__queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

/* Nothing else that a store keeps in backend_data has an odd address. */
static inline void *simba__queue_mark(simba_request **link)
{
    return (void *)((uintptr_t)(void *)link | 1);
}

/* Is this request in a queue, rather than what the store does with it afterwards? */
static inline bool simba__queue_has(const simba_request *request)
{
    return ((uintptr_t)request->backend_data & 1) != 0;
}

static inline void simba__queue_append(simba__queue *queue, simba_request *request)
{
    request->next = NULL;
    request->backend_data = simba__queue_mark(queue->end);
    *queue->end = request;
    queue->end = &request->next;
}

/* The request must be in the queue. Its backend_data becomes NULL. */
static inline void simba__queue_remove(simba__queue *queue, simba_request *request)
{
    simba_request **link = (simba_request **)((uintptr_t)request->backend_data & ~(uintptr_t)1);
    *link = request->next;
    if (request->next)
        request->next->backend_data = simba__queue_mark(link);
    else
        queue->end = link;
    request->backend_data = NULL;
}

/* The first. NULL: there is none. */
static inline simba_request *simba__queue_take(simba__queue *queue)
{
    simba_request *first = queue->first;
    if (first)
        simba__queue_remove(queue, first);
    return first;
}

/* Remove all requests; returns the first, and they are linked through `next`. The caller gives each a new backend_data. */
static inline simba_request *simba__queue_take_all(simba__queue *queue)
{
    simba_request *first = queue->first;
    simba__queue_init(queue);
    return first;
}

#endif
