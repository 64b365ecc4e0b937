/* Randomness: from the kernel if it must not repeat, from a small generator if it only needs to spread. */
#ifndef SIMBA_UTIL_RANDOM_H
#define SIMBA_UTIL_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Fill from the kernel. 0 or SIMBA_ESYSTEM. */
int simba__random_bytes(void *out, size_t size);

/* One step of splitmix64: the same seed gives the same numbers everywhere. */
uint64_t simba__random_next(uint64_t *seed);

/* In [low, high); low when the range is empty. */
int64_t simba__random_range(uint64_t *seed, int64_t low, int64_t high);

#endif
