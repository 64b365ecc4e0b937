/* See say.h. */
#include "say.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "json.h"
#include "util/escape.h"

typedef enum say_format { FORMAT_UNKNOWN, FORMAT_TEXT, FORMAT_JOURNAL, FORMAT_JSON } say_format;

static const char *const format_names[] = {"", "text", "journal", "json"};
static _Atomic say_format chosen;

/* systemd says which socket is its journal's; standard error may have been redirected since. */
static bool is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat info;
    uintmax_t device;
    uintmax_t inode;
    return stream != NULL && sscanf(stream, "%ju:%ju", &device, &inode) == 2 && fstat(fd, &info) == 0 &&
           info.st_dev == device && info.st_ino == inode;
}

bool say_set_format(const char *name)
{
    say_format found = FORMAT_UNKNOWN;
    for (say_format f = FORMAT_TEXT; name != NULL && f <= FORMAT_JSON; f++)
        found = strcmp(name, format_names[f]) == 0 ? f : found;
    if (name == NULL)
        found = is_journal(STDERR_FILENO) ? FORMAT_JOURNAL : FORMAT_TEXT;
    if (found != FORMAT_UNKNOWN)
        chosen = found;
    return found != FORMAT_UNKNOWN;
}

/* --- one line ---------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int priority; /* of syslog(3) */
} levels[] = {[SIMBA_LOG_ERROR] = {"error", 3},
              [SIMBA_LOG_WARN] = {"warning", 4},
              [SIMBA_LOG_INFO] = {"info", 6},
              [SIMBA_LOG_DEBUG] = {"debug", 7}};

static simba_log_level level_of(const simba_log_record *record)
{
    return (unsigned)record->level <= SIMBA_LOG_DEBUG ? record->level : SIMBA_LOG_DEBUG;
}

/* Our own words need no level, but that of a warning. */
static void write_text(FILE *out, const char *command, say_whose whose, const simba_log_record *record)
{
    char text[SIMBA__FORMAT_MAX];
    fprintf(out, "simba%s%s: ", command != NULL ? " " : "", command != NULL ? command : "");
    if (whose == SAY_LIBRARY || record->level == SIMBA_LOG_WARN)
        fprintf(out, "%s: ", levels[level_of(record)].name);
    fputs(simba__escape(record->message, text, sizeof text), out);
    for (size_t i = 0; i < record->field_count; i++)
        fprintf(out, "%s %s=%s", i == 0 ? ";" : "", record->fields[i].key,
                simba__quote(record->fields[i].value, text, sizeof text));
}

/* A time is a number, or null if it is not known; all else is text. So are tokens, because JavaScript cannot count that far. */
static void write_json(FILE *out, const char *command, const simba_log_record *record)
{
    json_writer j = {.to = out};
    struct timespec now;
    struct tm utc;
    char time[32];
    char stamp[48];
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
    snprintf(stamp, sizeof stamp, "%s.%03ldZ", time, now.tv_nsec / 1000000);
    json_open(&j, NULL, '{');
    json_text(&j, "ts", stamp);
    json_text(&j, "level", levels[level_of(record)].name);
    json_text(&j, "command", command != NULL ? command : "");
    json_text(&j, "event", record->event);
    json_text(&j, "message", record->message);
    for (const simba_log_field *field = record->fields; field < record->fields + record->field_count; field++) {
        const size_t length = strlen(field->key);
        if (length < 3 || strcmp(field->key + length - 3, "_ms") != 0) {
            json_text(&j, field->key, field->value);
            continue;
        }
        json_name(&j, field->key);
        fputs(field->value[0] != '\0' ? field->value : "null", out);
    }
    json_close(&j, '}');
}

char *say_line(const char *command, say_whose whose, const simba_log_record *record)
{
    char *line = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&line, &size);
    if (out == NULL)
        return NULL;
    if (chosen == FORMAT_UNKNOWN)
        say_set_format(NULL);
    if (chosen == FORMAT_JSON) {
        write_json(out, command, record);
    } else {
        if (chosen == FORMAT_JOURNAL)
            fprintf(out, "<%d>", levels[level_of(record)].priority);
        write_text(out, command, whose, record);
    }
    if (fclose(out) == 0)
        return line;
    free(line);
    return NULL;
}

void say_write(const char *line)
{
    if (line == NULL)
        return;
    const struct iovec parts[] = {{(char *)line, strlen(line)}, {"\n", 1}};
    (void)!writev(STDERR_FILENO, parts, 2);
}

/* --- our own words ----------------------------------------------------------------------------------- */

static void say(const char *command, simba_log_level level, const char *format, va_list args)
{
    char text[SIMBA__FORMAT_MAX];
    const simba_log_record record = {.size = sizeof record, .level = level, .event = "note", .message = text};
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    char *line = say_line(command, SAY_OURS, &record);
    say_write(line);
    free(line);
}

void cli_say(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(command, SIMBA_LOG_ERROR, format, args);
    va_end(args);
}

int cli_fail(const char *command, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(command, SIMBA_LOG_ERROR, format, args);
    va_end(args);
    return code;
}

void cli_warn(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(command, SIMBA_LOG_WARN, format, args);
    va_end(args);
}

void cli_inform(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(command, SIMBA_LOG_INFO, format, args);
    va_end(args);
}
