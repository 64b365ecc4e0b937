/* What owners have in common, and what sets them apart. */
#ifndef SIMBA_CORE_VALUES_H
#define SIMBA_CORE_VALUES_H

#include <simba.h>
#include <string.h>

/* Another contender, or another grant of the same one. */
static inline bool simba__is_another(const simba_owner *one, const simba_owner *other)
{
    return one->token != other->token || strcmp(one->id, other->id) != 0;
}

#endif
