/* See sized.h. */
#include "util/sized.h"

#include <string.h>

#include "util/assert.h"
#include "util/error.h"

/* No struct of ours will ever be larger: a greater size was never initialised, and must not be read that far. */
enum { LARGEST = 4096 };

/* Every sizeof is a multiple of the alignment, so any other size is garbage. */
static bool is_possible(size_t size)
{
    return size >= sizeof(size_t) && size <= LARGEST && size % _Alignof(size_t) == 0;
}

static size_t size_of(const void *sized)
{
    size_t size;
    memcpy(&size, sized, sizeof size);
    return size;
}

bool simba__sized_possible(const void *sized)
{
    return is_possible(size_of(sized));
}

/* Everything except the size: each keeps its own. */
static void copy_known(void *to, const void *from)
{
    const size_t known = size_of(to) < size_of(from) ? size_of(to) : size_of(from);
    memcpy((char *)to + sizeof(size_t), (const char *)from + sizeof(size_t), known - sizeof(size_t));
}

int simba__sized_take(const char *what, const void *given, void *own, simba_error *err)
{
    SIMBA__ASSERT(is_possible(size_of(own)));
    if (!given)
        return 0;
    const size_t size = size_of(given);
    if (!is_possible(size))
        return simba__fail(err, SIMBA_EINVAL, "%s.size is %zu, which cannot be: initialise with its _INIT macro", what,
                           size);
    for (size_t i = size_of(own); i < size; i++)
        if (((const char *)given)[i] != 0)
            return simba__fail(
                err, SIMBA_EINVAL,
                "%s.size is %zu, and a member at byte %zu is set, which simba %s does not know: the program was "
                "compiled for a newer version",
                what, size, i, simba_version());
    copy_known(own, given);
    return 0;
}

int simba__sized_tell(void *to, const void *from)
{
    if (!simba__sized_possible(to) || !simba__sized_possible(from))
        return SIMBA_EINVAL;
    copy_known(to, from);
    return 0;
}
