/* See buffer.h. */
#include "net/buffer.h"

#include <string.h>

#include "util/mem.h"

enum { FIRST = 1024 };

static bool reserve(simba__buffer *buffer, size_t more)
{
    if (buffer->failed)
        return false;
    if (buffer->capacity - buffer->length >= more)
        return true;
    size_t capacity = buffer->capacity ? buffer->capacity : FIRST;
    while (capacity - buffer->length < more)
        capacity *= 2;
    char *data = simba__realloc(buffer->data, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void simba__buffer_put(simba__buffer *buffer, const void *data, size_t length)
{
    if (length == 0 || !reserve(buffer, length))
        return;
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
}

void simba__buffer_free(simba__buffer *buffer)
{
    simba__free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}
