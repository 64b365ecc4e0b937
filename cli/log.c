/* See log.h. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
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
#include "refusal.h"
#include "util/escape.h"

typedef enum log_form { FORMAT_UNKNOWN, FORMAT_TEXT, FORMAT_JOURNAL, FORMAT_JSON } log_form;

static const char *const format_names[] = {"", "text", "journal", "json"};
static _Atomic log_form chosen;

bool log_set_format(const char *name)
{
    log_form found = FORMAT_UNKNOWN;
    for (log_form f = FORMAT_TEXT; name != NULL && f <= FORMAT_JSON; f++)
        found = strcmp(name, format_names[f]) == 0 ? f : found;
    if (name == NULL) {
        /* systemd says which socket is its journal's; standard error may have been redirected since. */
        const char *stream = getenv("JOURNAL_STREAM");
        struct stat info;
        uintmax_t device;
        uintmax_t inode;
        const bool is_journal = stream != NULL && sscanf(stream, "%ju:%ju", &device, &inode) == 2 &&
                                fstat(STDERR_FILENO, &info) == 0 && info.st_dev == device && info.st_ino == inode;
        found = is_journal ? FORMAT_JOURNAL : FORMAT_TEXT;
    }
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
static void write_text(FILE *out, const char *command, log_source source, const simba_log_record *record)
{
    char text[SIMBA__FORMAT_MAX];
    fprintf(out, "simba%s%s: ", command != NULL ? " " : "", command != NULL ? command : "");
    if (source == LOG_LIBRARY || record->level == SIMBA_LOG_WARN)
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

char *log_line(const char *command, log_source source, const simba_log_record *record)
{
    char *line = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&line, &size);
    if (out == NULL)
        return NULL;
    if (chosen == FORMAT_UNKNOWN)
        log_set_format(NULL);
    if (chosen == FORMAT_JSON) {
        write_json(out, command, record);
    } else {
        if (chosen == FORMAT_JOURNAL)
            fprintf(out, "<%d>", levels[level_of(record)].priority);
        write_text(out, command, source, record);
    }
    if (fclose(out) == 0)
        return line;
    free(line);
    return NULL;
}

void log_write(const char *line)
{
    if (line == NULL)
        return;
    const struct iovec parts[] = {{(char *)line, strlen(line)}, {"\n", 1}};
    (void)!writev(STDERR_FILENO, parts, 2);
}

/* --- our own words ----------------------------------------------------------------------------------- */

static void print(const char *command, simba_log_level level, const char *format, va_list args)
{
    char text[SIMBA__FORMAT_MAX];
    const simba_log_record record = {.size = sizeof record, .level = level, .event = "note", .message = text};
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    char *line = log_line(command, LOG_COMMAND, &record);
    log_write(line);
    free(line);
}

void cli_error(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(command, SIMBA_LOG_ERROR, format, args);
    va_end(args);
}

int cli_fail(const char *command, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(command, SIMBA_LOG_ERROR, format, args);
    va_end(args);
    return code;
}

void cli_warn(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(command, SIMBA_LOG_WARN, format, args);
    va_end(args);
}

void cli_info(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(command, SIMBA_LOG_INFO, format, args);
    va_end(args);
}

bool cli_agrees(const char *format, ...)
{
    char answer[16];
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    fputs(" [y/N] ", stdout);
    fflush(stdout);
    return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}

/* --- the library's log -------------------------------------------------------------------------------- */

enum {
    REPEATED_S = 60, /* a message is not repeated for so long */
    KEPT_MAX = 16,   /* warnings that are kept back: the first, and the last */
};

static struct {
    const char *command;
    _Atomic simba_log_level shown; /* on standard error */
    bool warns_of_restarts;
    int events;           /* descriptor of the event log, -1: none */
    pthread_mutex_t lock; /* guards the members below */
    char latest[512];
    time_t latest_at;
    char *kept[KEPT_MAX]; /* lines */
    unsigned kept_count;  /* of all */
} messages = {.events = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock. */
static void forget_kept(void)
{
    for (unsigned i = 0; i < KEPT_MAX; i++) {
        free(messages.kept[i]);
        messages.kept[i] = NULL;
    }
    messages.kept_count = 0;
}

static void take(void *user, const simba_log_record *record)
{
    (void)user;
    if (record->level == SIMBA_LOG_EVENT) {
        /* Several processes may share an event log: a line is one write. */
        char event[2048];
        const int length = snprintf(event, sizeof event, "%s\n", record->message);
        if (messages.events >= 0 && length < (int)sizeof event)
            (void)!write(messages.events, event, (size_t)length);
        return;
    }
    if (strcmp(record->event, "store-failed") == 0)
        refusal_note(record);
    pthread_mutex_lock(&messages.lock);
    /* A command that keeps warnings back does so because their causes may pass. This one will not. */
    const bool forgets = strcmp(record->event, "store-forgets") == 0;
    const bool show =
        forgets ? messages.warns_of_restarts || messages.shown > SIMBA_LOG_WARN : record->level <= messages.shown;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const bool is_repeated = messages.shown <= SIMBA_LOG_WARN && now.tv_sec - messages.latest_at < REPEATED_S &&
                             strncmp(record->message, messages.latest, sizeof messages.latest - 1) == 0;
    if (show && !is_repeated) {
        snprintf(messages.latest, sizeof messages.latest, "%s", record->message);
        messages.latest_at = now.tv_sec;
    }
    if (show ? !is_repeated : record->level == SIMBA_LOG_WARN) {
        char *line = log_line(messages.command, LOG_LIBRARY, record);
        if (show) {
            log_write(line);
            free(line);
        } else {
            /* The last one is always kept: it has the present state. */
            const unsigned at = messages.kept_count < KEPT_MAX ? messages.kept_count : KEPT_MAX - 1;
            free(messages.kept[at]);
            messages.kept[at] = line;
            messages.kept_count++;
        }
    }
    pthread_mutex_unlock(&messages.lock);
}

void cli_show_warnings(bool show)
{
    pthread_mutex_lock(&messages.lock);
    if (messages.shown <= SIMBA_LOG_WARN) /* otherwise more was asked for */
        messages.shown = show ? SIMBA_LOG_WARN : SIMBA_LOG_ERROR;
    if (show && messages.kept_count > 0)
        log_write(messages.kept[messages.kept_count <= KEPT_MAX ? messages.kept_count - 1 : KEPT_MAX - 1]);
    forget_kept();
    pthread_mutex_unlock(&messages.lock);
}

void cli_take_warnings(void)
{
    pthread_mutex_lock(&messages.lock);
    for (unsigned i = 0; i < KEPT_MAX && messages.kept[i] != NULL; i++)
        log_write(messages.kept[i]);
    if (messages.kept_count > KEPT_MAX)
        cli_warn(messages.command, "and %u more like these.", messages.kept_count - KEPT_MAX);
    forget_kept();
    pthread_mutex_unlock(&messages.lock);
}

int log_open(const char *command, const cli_globals *globals, simba_client_options *options)
{
    const char *events = globals->event_log;
    if (events != NULL && messages.events < 0) {
        messages.events = open(events, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (messages.events < 0)
            return cli_fail(command, CLI_USAGE, "the event log %s cannot be opened: %s.", events, strerror(errno));
    }
    options->log_record = take;
    if (globals->verbose > 0)
        options->log_level = globals->verbose > 1 ? SIMBA_LOG_DEBUG : SIMBA_LOG_INFO;
    messages.command = command;
    messages.shown = options->log_level;
    messages.warns_of_restarts = globals->warns_of_restarts;
    if (globals->quiet)
        cli_show_warnings(false);
    if (options->log_level < SIMBA_LOG_DEBUG)
        options->log_level = SIMBA_LOG_DEBUG; /* refusals that the library does not repeat at a lower level */
    if (events != NULL)
        options->log_level = SIMBA_LOG_EVENT;
    return CLI_GO;
}

/* --- waiting ------------------------------------------------------------------------------------------ */

waiting_words waiting_words_for(const char *command, const char *mutex, const cli_globals *globals)
{
    const bool at_terminal = globals->verbose == 0 && isatty(STDERR_FILENO) == 1;
    return (waiting_words){.command = command, .mutex = mutex, .at_terminal = at_terminal};
}

void waiting_report(waiting_words *words, const simba_owner *owner, int64_t left_ms)
{
    const bool known = owner->token == words->reported.token && strcmp(owner->id, words->reported.id) == 0;
    if (!words->at_terminal || simba_owner_is_none(owner) || known)
        return;
    words->reported = *owner;
    char rest[64] = "";
    if (left_ms > 0 && left_ms <= SIMBA_LEASE_MAX_MS)
        snprintf(rest, sizeof rest, " for another %.1f s unless renewed", (double)left_ms / 1e3);
    cli_info(words->command, "waiting for %s, which is owned by %s%s.", words->mutex, owner->id, rest);
}

void outage_look(outage_words *words, const simba_lease *lease)
{
    if (lease->held_for_ms <= 0 || lease->overdue == words->reported)
        return;
    words->reported = lease->overdue;
    if (lease->overdue) {
        cli_show_warnings(true); /* the reason, if the library knows one */
        cli_warn(words->command, "the lease of %s cannot be renewed; %s in %.1f s unless the store answers.",
                 words->mutex, words->consequence, (double)lease->held_for_ms / 1e3);
    } else if (!words->verbose) {
        cli_info(words->command, "the lease of %s was renewed.", words->mutex);
    }
}
