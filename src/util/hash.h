/* FNV-1a, for tables of names. Nobody outside chooses names to make them collide: they name their own locks. */
#ifndef SIMBA_UTIL_HASH_H
#define SIMBA_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline size_t simba__hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return (size_t)(hash ^ (hash >> 32));
}

#endif
