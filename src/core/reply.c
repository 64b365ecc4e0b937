/* See reply.h. */
#include "core/reply.h"

#include <string.h>

#include "util/error.h"

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
