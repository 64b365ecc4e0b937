/* See writer.h. */
#include "backends/redis/writer.h"

#include <string.h>

#include "util/digits.h"

static void put_count(simba__buffer *buffer, char kind, size_t count)
{
    char text[SIMBA__DIGITS_SIZE + 3] = {kind};
    size_t length = 1 + simba__digits(text + 1, count, 1);
    text[length++] = '\r';
    text[length++] = '\n';
    simba__buffer_put(buffer, text, length);
}

void simba__redis_put_count(simba__buffer *buffer, size_t argc)
{
    put_count(buffer, '*', argc);
}

void simba__redis_put_bytes(simba__buffer *buffer, const void *bytes, size_t size)
{
    put_count(buffer, '$', size);
    if (size > 0)
        simba__buffer_put(buffer, bytes, size);
    simba__buffer_put(buffer, "\r\n", 2);
}

void simba__redis_put_word(simba__buffer *buffer, const char *word)
{
    simba__redis_put_bytes(buffer, word, strlen(word));
}

void simba__redis_put(simba__buffer *buffer, size_t argc, const char *const *argv)
{
    simba__redis_put_count(buffer, argc);
    for (size_t i = 0; i < argc; i++)
        simba__redis_put_word(buffer, argv[i]);
}
