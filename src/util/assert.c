/* See assert.h. */
#include "util/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void simba__assert_failed(const char *file, int line, const char *expression)
{
    /* Not through stdio, whose lock another thread may hold for ever. */
    char text[512];
    const int length = snprintf(text, sizeof text, "simba: %s:%d: assertion failed: %s\n", file, line, expression);
    if (length > 0)
        (void)!write(STDERR_FILENO, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
    abort();
}
