/* What an answer or a refusal of a server means. See reply.c for the table. */
#ifndef SIMBA_BACKENDS_REDIS_REPLY_H
#define SIMBA_BACKENDS_REDIS_REPLY_H

#include <hiredis/hiredis.h>
#include <simba/backend.h>

#include "net/endpoint.h"

/* The meaning of an error reply: one of our codes, and a text that holds nothing that the server could have repeated
 * from a password. `ret_drop`: give this connection up. */
int simba__redis_error(const simba__endpoint *at, const char *text, simba_error *ret_error, bool *ret_drop);
/* Parse the answer of a script to this request, and the number at its end. That number is: for READ, how many wait; for
 * ACQUIRE, the place in the queue; otherwise 0. False: it is no such answer. */
bool simba__redis_parse(const redisReply *reply, const simba_request *request, simba_reply *ret_reply,
                        int64_t *ret_more);

/* Parse a note as it is stored; a size of 0: there is none. False: the text is no note. */
bool simba__redis_take_note(const redisReply *text, simba_stored_note *ret_note);
/* Is this an answer to READ_NOTE, that is, the server's clock and a string for take_note? */
bool simba__redis_is_note(const redisReply *reply, int64_t *ret_now_ms);

#endif
