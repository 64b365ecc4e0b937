/* What the library has to say, to the log function of the application. */
#ifndef SIMBA_RUNTIME_LOG_H
#define SIMBA_RUNTIME_LOG_H

#include <simba.h>
#include <stdarg.h>

/* Any thread. What cannot be shown is escaped. */
void simba__log(const simba_client_options *options, simba_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void simba__log_args(const simba_client_options *options, simba_log_level level, const char *format, va_list args);
/* As it stands. */
void simba__log_text(const simba_client_options *options, simba_log_level level, const char *text);

#endif
