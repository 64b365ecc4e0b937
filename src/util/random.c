/* See random.h. */
#include "util/random.h"

#include <errno.h>
#include <simba.h>
#include <sys/random.h>

int simba__random_bytes(void *out, size_t size)
{
    unsigned char *bytes = out;
    while (size > 0) {
        const ssize_t got = getrandom(bytes, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return SIMBA_ESYSTEM;
        bytes += got;
        size -= (size_t)got;
    }
    return 0;
}

uint64_t simba__random_next(uint64_t *seed)
{
    uint64_t z = (*seed += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

int64_t simba__random_range(uint64_t *seed, int64_t low, int64_t high)
{
    if (high <= low)
        return low;
    const uint64_t span = (uint64_t)high - (uint64_t)low;
    return (int64_t)((uint64_t)low + simba__random_next(seed) % span);
}
