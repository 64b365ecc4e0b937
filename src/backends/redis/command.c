/* See command.h. */
#include "backends/redis/command.h"

#include <stdio.h>
#include <string.h>

static void put_count(simba__buffer *buffer, char kind, size_t count)
{
    char text[32];
    const int length = snprintf(text, sizeof text, "%c%zu\r\n", kind, count);
    simba__buffer_put(buffer, text, (size_t)length);
}

void simba__redis_put(simba__buffer *buffer, size_t argc, const char *const *argv)
{
    put_count(buffer, '*', argc);
    for (size_t i = 0; i < argc; i++) {
        const size_t length = strlen(argv[i]);
        put_count(buffer, '$', length);
        simba__buffer_put(buffer, argv[i], length);
        simba__buffer_put(buffer, "\r\n", 2);
    }
}
