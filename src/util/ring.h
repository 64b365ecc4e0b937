/* A list whose links are members of its elements, so that adding and removing allocate nothing and need no search.
 * The list is a ring that contains a place of its own. A zeroed place is in no list. */
#ifndef SIMBA_UTIL_RING_H
#define SIMBA_UTIL_RING_H

#include <stdbool.h>
#include <stddef.h>

typedef struct simba__ring simba__ring;
struct simba__ring {
    simba__ring *before, *after;
};

/* The struct whose member `field` this place is. */
#define SIMBA__OF_RING(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

/* An empty list. */
static inline void simba__ring_init(simba__ring *ring)
{
    *ring = (simba__ring){ring, ring};
}

/* The first place. NULL: the list is empty. */
static inline simba__ring *simba__ring_first(const simba__ring *ring)
{
    return ring->after == ring ? NULL : ring->after;
}

/* Make sure that the place is in the list, at the end if it was not in it; or that it is out. It must be in no other
 * list. */
static inline void simba__ring_set(simba__ring *ring, simba__ring *place, bool in)
{
    if (in == (place->after != NULL))
        return;
    if (in) {
        *place = (simba__ring){ring->before, ring};
        place->before->after = ring->before = place;
    } else {
        place->before->after = place->after;
        place->after->before = place->before;
        *place = (simba__ring){NULL, NULL};
    }
}

#endif
