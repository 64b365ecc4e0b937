/* See journal.h. */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "refusal.h"
#include "say.h"

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
    char said[512];
    time_t said_at;
    char *kept[KEPT_MAX]; /* lines */
    unsigned kept_count;  /* of all */
} journal = {.events = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

/* Several processes may share an event log: a line is one write. */
static void add_event(const char *text)
{
    char line[2048];
    const int length = snprintf(line, sizeof line, "%s\n", text);
    if (journal.events >= 0 && length < (int)sizeof line)
        (void)!write(journal.events, line, (size_t)length);
}

/* With the lock. The last one is always there: it tells the state of things. */
static void keep_back(char *line)
{
    const unsigned at = journal.kept_count < KEPT_MAX ? journal.kept_count : KEPT_MAX - 1;
    free(journal.kept[at]);
    journal.kept[at] = line;
    journal.kept_count++;
}

/* With the lock. */
static void forget_kept(void)
{
    for (unsigned i = 0; i < KEPT_MAX; i++) {
        free(journal.kept[i]);
        journal.kept[i] = NULL;
    }
    journal.kept_count = 0;
}

/* With the lock. */
static bool is_repeated(const simba_log_record *record)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (journal.shown <= SIMBA_LOG_WARN && now.tv_sec - journal.said_at < REPEATED_S &&
        strncmp(record->message, journal.said, sizeof journal.said - 1) == 0)
        return true;
    snprintf(journal.said, sizeof journal.said, "%s", record->message);
    journal.said_at = now.tv_sec;
    return false;
}

/* A command that keeps warnings back does so because their causes may pass. This one will not. */
static bool is_shown(const simba_log_record *record)
{
    const bool forgets = strcmp(record->event, "store-forgets") == 0;
    return forgets ? journal.warns_of_restarts || journal.shown > SIMBA_LOG_WARN : record->level <= journal.shown;
}

static void take(void *user, const simba_log_record *record)
{
    (void)user;
    if (record->level == SIMBA_LOG_EVENT) {
        add_event(record->message);
        return;
    }
    refusal_note(record);
    pthread_mutex_lock(&journal.lock);
    const bool show = is_shown(record);
    if (show ? !is_repeated(record) : record->level == SIMBA_LOG_WARN) {
        char *line = say_line(journal.command, SAY_LIBRARY, record);
        if (show) {
            say_write(line);
            free(line);
        } else {
            keep_back(line);
        }
    }
    pthread_mutex_unlock(&journal.lock);
}

void cli_show_warnings(bool show)
{
    pthread_mutex_lock(&journal.lock);
    if (journal.shown <= SIMBA_LOG_WARN) /* otherwise more was asked for */
        journal.shown = show ? SIMBA_LOG_WARN : SIMBA_LOG_ERROR;
    if (show && journal.kept_count > 0)
        say_write(journal.kept[journal.kept_count <= KEPT_MAX ? journal.kept_count - 1 : KEPT_MAX - 1]);
    forget_kept();
    pthread_mutex_unlock(&journal.lock);
}

void cli_take_warnings(void (*show)(void *user, const char *line), void *user)
{
    pthread_mutex_lock(&journal.lock);
    for (unsigned i = 0; i < KEPT_MAX && journal.kept[i] != NULL; i++) {
        if (show != NULL)
            show(user, journal.kept[i]);
        else
            say_write(journal.kept[i]);
    }
    if (show == NULL && journal.kept_count > KEPT_MAX)
        cli_warn(journal.command, "and %u more like these.", journal.kept_count - KEPT_MAX);
    forget_kept();
    pthread_mutex_unlock(&journal.lock);
}

static int open_event_log(const char *command, const char *path)
{
    if (path == NULL || journal.events >= 0)
        return CLI_GO;
    journal.events = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (journal.events >= 0)
        return CLI_GO;
    return cli_fail(command, CLI_USAGE, "the event log %s cannot be opened: %s.", path, strerror(errno));
}

int journal_open(const char *command, const cli_globals *globals, simba_client_options *options)
{
    const int code = open_event_log(command, globals->event_log);
    if (code != CLI_GO)
        return code;
    options->log_record = take;
    if (globals->verbose > 0)
        options->log_level = globals->verbose > 1 ? SIMBA_LOG_DEBUG : SIMBA_LOG_INFO;
    journal.command = command;
    journal.shown = options->log_level;
    journal.warns_of_restarts = globals->warns_of_restarts;
    if (globals->quiet)
        cli_show_warnings(false);
    if (options->log_level < SIMBA_LOG_DEBUG)
        options->log_level = SIMBA_LOG_DEBUG; /* refusals that the library has told before */
    if (globals->event_log != NULL)
        options->log_level = SIMBA_LOG_EVENT;
    return CLI_GO;
}
