/* See log.h. */
#include "runtime/log.h"

#include "util/escape.h"

void simba__log_text(const simba_client_options *options, simba_log_level level, const char *text)
{
    if (options->log && level <= options->log_level)
        options->log(options->log_user, level, text);
}

void simba__log_args(const simba_client_options *options, simba_log_level level, const char *format, va_list args)
{
    char text[512];
    simba__escape_format(text, sizeof text, format, args);
    simba__log_text(options, level, text);
}

void simba__log(const simba_client_options *options, simba_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    simba__log_args(options, level, format, args);
    va_end(args);
}
