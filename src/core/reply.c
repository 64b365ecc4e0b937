/* See reply.h. Pure functions of their arguments; the caller brings the store's time, because the owner's times mean nothing on any
 * other clock. */
#include "core/reply.h"

#include <string.h>

#include "util/error.h"

/* --- owners ---------------------------------------------------------------------------------------- */

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

/* --- replies and pushes ---------------------------------------------------------------------------- */

/* REVOKED answers only requests of a holder. MINE answers only requests that grant, write or end something. */
static bool fits(simba_op op, simba_outcome outcome)
{
    switch (outcome) {
    case SIMBA_NOT_MINE:
        return true;
    case SIMBA_MINE:
        return op == SIMBA_OP_ACQUIRE || op == SIMBA_OP_RENEW || op == SIMBA_OP_RELEASE ||
               op == SIMBA_OP_FORCE_RELEASE || op == SIMBA_OP_WRITE_NOTE || op == SIMBA_OP_FORGET;
    case SIMBA_REVOKED:
        return op == SIMBA_OP_RENEW || op == SIMBA_OP_RELEASE || op == SIMBA_OP_WRITE_NOTE;
    }
    return false;
}

int simba__reply_check(const simba_request *request, bool session, simba_error *err)
{
    const simba_reply *reply = &request->reply;
    const simba_owner *owner = &reply->owner;
    if (reply->status != 0)
        return reply->status < 0 ? 0
                                 : simba__fail(err, SIMBA_ESTORE, "the store answered with status %d", reply->status);
    if (!memchr(owner->id, '\0', sizeof owner->id))
        return simba__fail(err, SIMBA_ESTORE, "the store names an owner with an id of more than %d bytes",
                           SIMBA_ID_MAX);
    if (!fits(request->op, reply->outcome))
        return simba__fail(err, SIMBA_ESTORE, "the store answered with outcome %d, which does not fit the request",
                           (int)reply->outcome);
    if (reply->outcome != SIMBA_MINE || (request->op != SIMBA_OP_ACQUIRE && request->op != SIMBA_OP_RENEW))
        return 0;
    if (strcmp(owner->id, request->id) != 0)
        return simba__fail(err, SIMBA_ESTORE, "the store says that we own it, and names %s as the owner",
                           owner->id[0] ? "somebody else" : "nobody");
    if (owner->token == 0)
        return simba__fail(err, SIMBA_ESTORE, "the store says that we own it, without a token");
    if (request->op == SIMBA_OP_RENEW && owner->token != request->token)
        return simba__fail(err, SIMBA_ESTORE, "the store renewed token %llu under token %llu",
                           (unsigned long long)request->token, (unsigned long long)owner->token);
    if (!session && owner->transition_at_ms <= reply->now_ms)
        return simba__fail(err, SIMBA_ETIMEDOUT, "the lease was over when the store answered");
    return 0;
}

const simba_push *simba__push_check(const simba_push *push)
{
    static const simba_push ask = {.kind = SIMBA_PUSH_CHANGED};
    if (push->kind != SIMBA_PUSH_ACQUIRED)
        return push;
    return memchr(push->owner.id, '\0', sizeof push->owner.id) && push->owner.id[0] != '\0' ? push : &ask;
}
