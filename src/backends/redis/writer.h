/* Writes commands in the form of the protocol. */
#ifndef SIMBA_BACKENDS_REDIS_WRITER_H
#define SIMBA_BACKENDS_REDIS_WRITER_H

#include "net/buffer.h"

/* One command. */
void simba__redis_put(simba__buffer *buffer, size_t argc, const char *const *argv);
/* A command in pieces: first the number of words, then each word. */
void simba__redis_put_count(simba__buffer *buffer, size_t argc);
void simba__redis_put_word(simba__buffer *buffer, const char *word);
void simba__redis_put_bytes(simba__buffer *buffer, const void *bytes, size_t size); /* a word of any bytes */

#endif
