/* What an answer or a refusal of a server means. See reply.c for the table. */
#ifndef SIMBA_BACKENDS_REDIS_REPLY_H
#define SIMBA_BACKENDS_REDIS_REPLY_H

#include <hiredis/hiredis.h>
#include <simba/backend.h>

#include "net/endpoint.h"

/* What the text of an error reply means, as a code of ours with words about it; never any that the server could have repeated
 * from a password. `ret_drop`: this connection is of no use any more. */
int simba__redis_error(const simba__endpoint *at, const char *text, simba_error *ret_error, bool *ret_drop);
/* The answer of a script to this request, and the number at its end: READ: how many wait; ACQUIRE: its place among those; otherwise 0.
 * False: it is none. */
bool simba__redis_parse(const redisReply *reply, const simba_request *request, simba_reply *ret_reply,
                        int64_t *ret_more);

/* A note as it is stored; a size of 0: there is none. False: that is no note. */
bool simba__redis_take_note(const redisReply *text, simba_stored_note *ret_note);
/* Is it an answer to READ_NOTE: the server's clock, and a string for take_note? */
bool simba__redis_is_note(const redisReply *reply, int64_t *ret_now_ms);

#endif
