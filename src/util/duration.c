/* Durations as people write them. The unit is required: a bare number has been read as seconds and as milliseconds
 * by too many tools. */
#include <errno.h>
#include <simba.h>
#include <stdlib.h>
#include <string.h>

int simba_duration_parse(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

    if (!text || !ret_ms || text[0] < '0' || text[0] > '9')
        return SIMBA_EINVAL;
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno != 0)
        return SIMBA_EINVAL;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        int64_t ms;
        if (__builtin_mul_overflow((int64_t)number, units[i].ms, &ms))
            return SIMBA_EINVAL;
        *ret_ms = ms;
        return 0;
    }
    return SIMBA_EINVAL;
}
