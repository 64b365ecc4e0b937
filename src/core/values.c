/* Predicates about owners and changes of ownership. Pure functions of their arguments; the caller brings the store's
 * time, because the owner's times mean nothing on any other clock. */
#include <string.h>

#include "core/contention.h"

bool simba_owner_is_none(const simba_owner *owner)
{
    return !owner || owner->id[0] == '\0';
}

bool simba_owner_in_ttl(const simba_owner *owner, int64_t now_ms)
{
    return owner && owner->ttl_at_ms > now_ms;
}

bool simba_owner_in_transition(const simba_owner *owner, int64_t now_ms)
{
    return owner && owner->transition_at_ms >= now_ms;
}

bool simba_owner_has_owner(const simba_owner *owner, int64_t now_ms)
{
    return !simba_owner_is_none(owner) && simba_owner_in_transition(owner, now_ms);
}

bool simba_owner_is(const simba_owner *owner, const char *id)
{
    return !simba_owner_is_none(owner) && id && strcmp(owner->id, id) == 0;
}

bool simba__is_another(const simba_owner *one, const simba_owner *other)
{
    return one->token != other->token || strcmp(one->id, other->id) != 0;
}

bool simba_state_changed(const simba_state *state)
{
    return state && simba__is_another(&state->before, &state->after);
}

bool simba_state_acquired(const simba_state *state, const char *id)
{
    return simba_state_changed(state) && simba_owner_is(&state->after, id);
}

bool simba_state_released(const simba_state *state, const char *id)
{
    return simba_state_changed(state) && simba_owner_is(&state->before, id);
}

const char *simba_reason_name(simba_reason reason)
{
    switch (reason) {
#define NAME(name, text)                                                                                               \
    case SIMBA_REASON_##name:                                                                                          \
        return text;
        SIMBA_REASONS(NAME)
#undef NAME
    }
    return "unknown reason";
}

const char *simba_status_name(simba_status status)
{
    switch (status) {
    case SIMBA_STATUS_INITIAL:
        return "initial";
    case SIMBA_STATUS_STARTING:
        return "starting";
    case SIMBA_STATUS_RUNNING:
        return "running";
    case SIMBA_STATUS_STOPPING:
        return "stopping";
    }
    return "unknown status";
}
