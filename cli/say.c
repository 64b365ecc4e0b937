/* The one way in which commands speak on standard error. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "util/escape.h"

/* One write, so that lines of several processes do not mix. */
void cli_say(const char *command, const char *format, ...)
{
    char text[SIMBA__FORMAT_MAX];
    char line[SIMBA__FORMAT_MAX + 32];
    va_list args;
    va_start(args, format);
    simba__escape_format(text, sizeof text, format, args);
    va_end(args);
    const int length = snprintf(line, sizeof line, "simba %s: %s\n", command, text);
    if (length < 0 || write(STDERR_FILENO, line, (size_t)length) < 0)
        return;
}
