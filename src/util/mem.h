/* The library's own memory goes through here, so that a program can replace the allocator and a test can make the
 * Nth allocation fail. */
#ifndef SIMBA_UTIL_MEM_H
#define SIMBA_UTIL_MEM_H

#include <stddef.h>

void *simba__malloc(size_t size);
void *simba__calloc(size_t count, size_t size); /* zeroed; NULL also when count * size overflows */
void *simba__realloc(void *pointer, size_t size);
char *simba__strdup(const char *text);
void simba__free(void *pointer);

/* Hand the current allocator to the copy of this file in a module. */
void simba__mem_share(int (*set)(void *(*malloc_fn)(size_t), void *(*realloc_fn)(void *, size_t),
                                 void (*free_fn)(void *)));

#endif
