/* What owners have in common, and what sets them apart. */
#ifndef SIMBA_CORE_VALUES_H
#define SIMBA_CORE_VALUES_H

#include <simba.h>
#include <string.h>

#include "util/assert.h"

/* Another contender, or another grant of the same one. */
static inline bool simba__is_another(const simba_owner *one, const simba_owner *other)
{
    return one->token != other->token || strcmp(one->id, other->id) != 0;
}

/* An owner as a machine knows it: a simba_owner without a copy of the id, because many machines know the same one. The id belongs to
 * whoever runs the machine. Zeroes: nobody. */
typedef struct simba__known {
    const char *id; /* NULL: nobody */
    int64_t acquired_at_ms;
    int64_t ttl_at_ms;
    int64_t transition_at_ms;
    uint64_t token;
} simba__known;

/* `id` has the same text as that of the owner, and lasts as long as somebody knows this owner. */
static inline simba__known simba__known_of(const simba_owner *owner, const char *id)
{
    const bool none = owner->id[0] == '\0';
    SIMBA__ASSERT(none || id);
    return (simba__known){none ? NULL : id, owner->acquired_at_ms, owner->ttl_at_ms, owner->transition_at_ms,
                          owner->token};
}

static inline bool simba__knows_another(const simba__known *one, const simba__known *other)
{
    if (one->token != other->token)
        return true;
    return one->id != other->id && (!one->id || !other->id || strcmp(one->id, other->id) != 0);
}

simba_owner simba__known_shown(const simba__known *known);

#endif
