/* See mem.h. */
#include "util/mem.h"

#include <simba.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct {
    void *(*malloc_fn)(size_t);
    void *(*realloc_fn)(void *, size_t);
    void (*free_fn)(void *);
} allocator = {malloc, realloc, free};

int simba_set_allocator(void *(*malloc_fn)(size_t), void *(*realloc_fn)(void *, size_t), void (*free_fn)(void *))
{
    const int given = (malloc_fn != NULL) + (realloc_fn != NULL) + (free_fn != NULL);
    if (given != 0 && given != 3)
        return SIMBA_EINVAL;
    allocator.malloc_fn = given ? malloc_fn : malloc;
    allocator.realloc_fn = given ? realloc_fn : realloc;
    allocator.free_fn = given ? free_fn : free;
    return 0;
}

void simba__mem_share(int (*set)(void *(*malloc_fn)(size_t), void *(*realloc_fn)(void *, size_t),
                                 void (*free_fn)(void *)))
{
    set(allocator.malloc_fn, allocator.realloc_fn, allocator.free_fn);
}

void *simba__malloc(size_t size)
{
    return allocator.malloc_fn(size);
}

void *simba__calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    void *pointer = allocator.malloc_fn(total ? total : 1);
    if (pointer)
        memset(pointer, 0, total);
    return pointer;
}

void *simba__realloc(void *pointer, size_t size)
{
    return allocator.realloc_fn(pointer, size);
}

char *simba__strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = allocator.malloc_fn(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void simba__free(void *pointer)
{
    if (pointer)
        allocator.free_fn(pointer);
}
