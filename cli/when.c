/* See when.h. */
#include "when.h"

#include <stdio.h>
#include <time.h>

const char *when_utc(int64_t ms, char ret_text[WHEN_SIZE])
{
    const int64_t fraction = (ms % 1000 + 1000) % 1000;
    const time_t seconds = (time_t)((ms - fraction) / 1000);
    struct tm parts;
    size_t length = 0;
    if (ms != 0 && gmtime_r(&seconds, &parts) != NULL)
        length = strftime(ret_text, WHEN_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    if (length == 0)
        snprintf(ret_text, WHEN_SIZE, "-");
    else if (fraction != 0)
        snprintf(ret_text + length, WHEN_SIZE - length, ".%03dZ", (int)fraction);
    else
        snprintf(ret_text + length, WHEN_SIZE - length, "Z");
    return ret_text;
}
