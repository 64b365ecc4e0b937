/* Asking a store at the level of its contract, and what its answers must be. */
#ifndef TESTS_BACKENDS_ASKING_H
#define TESTS_BACKENDS_ASKING_H

#include "lib/cm.h"
#include "lib/testhost.h"

/* One request, answered; the reply is copied. */
static inline simba_reply ask(testhost *h, simba_op op, const char *mutex, const char *id, uint64_t nonce,
                              uint64_t token)
{
    testhost_request r = testhost_request_of(h, op, mutex, id, nonce, token);
    testhost_ask(h, &r);
    if (r.request.reply.status < 0)
        fail_msg("%s", r.error.text);
    return r.request.reply;
}

static inline simba_reply acquire(testhost *h, const char *mutex, const char *id, uint64_t nonce)
{
    return ask(h, SIMBA_OP_ACQUIRE, mutex, id, nonce, 0);
}

static inline void assert_mine(simba_reply reply)
{
    assert_int_equal(reply.outcome, SIMBA_MINE);
}

static inline void assert_owned_by(simba_reply reply, const char *id)
{
    assert_int_equal(reply.outcome, SIMBA_NOT_MINE);
    assert_string_equal(reply.owner.id, id);
}

#endif
