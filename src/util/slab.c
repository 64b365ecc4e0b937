/* See slab.h. */
#include "util/slab.h"

#include <stdalign.h>

#include "util/assert.h"
#include "util/mem.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

/* How many objects a block has. The first blocks are small, because most clients need few objects; the largest have many pages. */
enum { FIRST = 8, LARGEST = 512 };

typedef struct block block;

/* What stands before each object. */
typedef struct place {
    alignas(max_align_t) block *of;
    struct place *next_free;
} place;

struct block {
    simba__ring open; /* in the slab's list */
    place *free;      /* objects that were given back */
    size_t used;      /* objects that are taken */
    size_t begun;     /* places from the first one on that were ever taken: the others need no memory yet */
    size_t count;     /* of places */
    alignas(max_align_t) char places[];
};

void simba__slab_init(simba__slab *slab, size_t size)
{
    const size_t alignment = alignof(max_align_t);
    *slab = (simba__slab){.size = sizeof(place) + (size + alignment - 1) / alignment * alignment};
    simba__ring_init(&slab->open);
}

static size_t size_of(const simba__slab *slab, size_t count)
{
    return sizeof(block) + count * slab->size;
}

static void drop(simba__slab *slab, block *self)
{
    SIMBA__ASSERT(self->used == 0);
    ASAN_UNPOISON_MEMORY_REGION(self->places, self->count * slab->size);
    simba__ring_set(&slab->open, &self->open, false);
    slab->blocks--;
    if (self->count == LARGEST)
        simba__unmap(self, size_of(slab, self->count));
    else
        simba__free(self);
}

void simba__slab_fini(simba__slab *slab)
{
    for (simba__ring *first; (first = simba__ring_first(&slab->open)) != NULL;)
        drop(slab, SIMBA__OF_RING(first, block, open));
    SIMBA__ASSERT(slab->blocks == 0);
}

static block *add_block(simba__slab *slab)
{
    size_t count = FIRST;
    for (size_t i = 0; i < slab->blocks && count < LARGEST; i++)
        count *= 2;
    block *self = (count == LARGEST ? simba__map : simba__malloc)(size_of(slab, count));
    if (!self)
        return NULL;
    *self = (block){.count = count};
    simba__ring_set(&slab->open, &self->open, true);
    slab->blocks++;
    return self;
}

void *simba__slab_take(simba__slab *slab)
{
    simba__ring *first = simba__ring_first(&slab->open);
    block *self = first ? SIMBA__OF_RING(first, block, open) : add_block(slab);
    if (!self)
        return NULL;
    place *taken = self->free;
    if (taken) {
        self->free = taken->next_free;
    } else {
        taken = (place *)(void *)(self->places + self->begun++ * slab->size);
        taken->of = self;
    }
    self->used++;
    simba__ring_set(&slab->open, &self->open, self->used < self->count);
    ASAN_UNPOISON_MEMORY_REGION(taken + 1, slab->size - sizeof *taken);
    return taken + 1;
}

/* Keep the last block that has room: otherwise a program that takes one object at a time would make a block for each. */
void simba__slab_give(simba__slab *slab, void *object)
{
    place *given = (place *)object - 1;
    block *self = given->of;
    SIMBA__ASSERT(self->used > 0);
    ASAN_POISON_MEMORY_REGION(object, slab->size - sizeof *given);
    given->next_free = self->free;
    self->free = given;
    self->used--;
    simba__ring_set(&slab->open, &self->open, true);
    if (self->used == 0 && slab->open.after != slab->open.before)
        drop(slab, self);
}
