/* Memory for objects of one size, of which there may be a million for a moment and a few afterwards.
 *
 * By malloc, objects that live for a moment lie between objects that stay. When the former are gone, the process keeps the holes:
 * each is too small for anything else. Here they lie in blocks of their own, and the kernel has a block back when it is empty. */
#ifndef SIMBA_UTIL_SLAB_H
#define SIMBA_UTIL_SLAB_H

#include "util/ring.h"

typedef struct simba__slab {
    size_t size;      /* of an object, with what belongs to it */
    simba__ring open; /* blocks that have room */
    size_t blocks;    /* how many there are, full ones included */
} simba__slab;

/* For objects of `size` bytes. Allocates nothing. */
void simba__slab_init(simba__slab *slab, size_t size);
/* All objects have been given back. */
void simba__slab_fini(simba__slab *slab);

/* Not zeroed. NULL: out of memory. */
void *simba__slab_take(simba__slab *slab);
void simba__slab_give(simba__slab *slab, void *object);

#endif
