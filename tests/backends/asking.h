/* Asking a store at the level of its contract, and what its answers must be. */
#ifndef TESTS_BACKENDS_ASKING_H
#define TESTS_BACKENDS_ASKING_H

#include <string.h>

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

/* Write a note, a text, as the holder of this grant. */
static inline simba_reply write_note(testhost *h, const char *mutex, const char *id, uint64_t nonce, uint64_t token,
                                     uint64_t number, const char *text)
{
    testhost_request r = testhost_request_of(h, SIMBA_OP_WRITE_NOTE, mutex, id, nonce, token);
    r.request.note = text[0] ? text : NULL;
    r.request.note_size = strlen(text);
    r.request.note_number = number;
    testhost_ask(h, &r);
    if (r.request.reply.status < 0)
        fail_msg("%s", r.error.text);
    return r.request.reply;
}

/* The note of a mutex; one without bytes: there is none. */
static inline simba_note read_note(testhost *h, const char *mutex)
{
    h->note = (simba_note)SIMBA_NOTE_INIT;
    ask(h, SIMBA_OP_READ_NOTE, mutex, "", 0, 0);
    return h->note;
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
