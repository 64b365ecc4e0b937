/* Gathers bytes, to send them in one write. */
#ifndef SIMBA_NET_BUFFER_H
#define SIMBA_NET_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct simba__buffer {
    char *data;
    size_t length, capacity;
    bool failed; /* there was no memory: the contents are incomplete */
} simba__buffer;

void simba__buffer_put(simba__buffer *buffer, const void *data, size_t length);
void simba__buffer_free(simba__buffer *buffer);

#endif
