/* FNV-1a, for tables of names; the same in every process. Names are not chosen by attackers to collide: programs
 * name their own locks. */
#ifndef SIMBA_UTIL_HASH_H
#define SIMBA_UTIL_HASH_H

#include <stdint.h>

static inline uint64_t simba__hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash ^ (hash >> 32);
}

#endif
