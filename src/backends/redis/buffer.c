/* See buffer.h. */
#include <stdio.h>
#include <string.h>

#include "backends/redis/buffer.h"
#include "util/mem.h"

enum { FIRST = 1024 };

static bool reserve(redis_buffer *buffer, size_t more)
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

void simba__redis_put_bytes(redis_buffer *buffer, const void *data, size_t length)
{
    if (length == 0 || !reserve(buffer, length))
        return;
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
}

static void put_count(redis_buffer *buffer, char kind, size_t count)
{
    char text[32];
    const int length = snprintf(text, sizeof text, "%c%zu\r\n", kind, count);
    simba__redis_put_bytes(buffer, text, (size_t)length);
}

void simba__redis_put(redis_buffer *buffer, size_t argc, const char *const *argv)
{
    put_count(buffer, '*', argc);
    for (size_t i = 0; i < argc; i++) {
        const size_t length = strlen(argv[i]);
        put_count(buffer, '$', length);
        simba__redis_put_bytes(buffer, argv[i], length);
        simba__redis_put_bytes(buffer, "\r\n", 2);
    }
}

void simba__redis_buffer_free(redis_buffer *buffer)
{
    simba__free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}
