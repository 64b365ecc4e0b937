/* Bytes on their way out: all commands of a turn gather in one buffer, so that they go out in one write. */
#ifndef SIMBA_BACKENDS_REDIS_BUFFER_H
#define SIMBA_BACKENDS_REDIS_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct redis_buffer {
    char *data;
    size_t length, capacity;
    bool failed; /* there was no memory: what is in here is not whole */
} redis_buffer;

void simba__redis_put_bytes(redis_buffer *buffer, const void *data, size_t length);
/* One command. */
void simba__redis_put(redis_buffer *buffer, size_t argc, const char *const *argv);
void simba__redis_buffer_free(redis_buffer *buffer);

#endif
