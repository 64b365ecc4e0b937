/* Turns the bytes that a server sends into replies. See reader.c for the bounds. */
#ifndef SIMBA_BACKENDS_REDIS_READER_H
#define SIMBA_BACKENDS_REDIS_READER_H

#include <hiredis/hiredis.h>
#include <simba.h>

typedef struct redis_reader redis_reader;

/* NULL: out of memory. */
redis_reader *simba__redis_reader_new(void);
void simba__redis_reader_free(redis_reader *reader); /* NULL is fine */
/* SIMBA_ECORRUPT: the reply is larger than any answer to our commands. SIMBA_ENOMEM. Do not use the reader after an
 * error. */
int simba__redis_reader_feed(redis_reader *reader, const char *data, size_t length);
/* The next whole reply, which the caller frees with freeReplyObject; NULL: none has come yet. SIMBA_ECORRUPT: the bytes
 * are not Redis's protocol, or the reply has too many elements. */
int simba__redis_reader_next(redis_reader *reader, redisReply **ret_reply);

#endif
