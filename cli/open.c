/* How commands open the store: one place that turns the global options into those of the library, and the library's
 * log into lines on standard error. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "config.h"
#include "secret.h"
#include "util/escape.h"

enum { REPEATED_S = 60 }; /* what was said is not said again for so long */

/* Where the log of the one client goes. */
static struct {
    const char *command;
    _Atomic simba_log_level shown; /* on standard error */
    int events;                    /* descriptor of the event log, -1: none */
    pthread_mutex_t lock;          /* of what follows */
    char said[CLI_WARNING_SIZE];
    time_t said_at;
    cli_warnings kept_back; /* those that were not shown, the first and the last */
} journal = {.events = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

static char *opened_url;

/* Several processes may share an event log: a line is one write. */
static void add_event(const char *text)
{
    char line[2048];
    const int length = snprintf(line, sizeof line, "%s\n", text);
    if (journal.events >= 0 && length < (int)sizeof line)
        (void)!write(journal.events, line, (size_t)length);
}

/* With the lock. The last one is always there: it tells the state of things. */
static void keep_back(const char *line)
{
    cli_warnings *kept = &journal.kept_back;
    const unsigned at = kept->count < CLI_WARNINGS ? kept->count : CLI_WARNINGS - 1;
    memcpy(kept->lines[at], line, sizeof kept->lines[0]);
    kept->count++;
}

/* With the lock. */
static void say(const char *line)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const bool verbose = journal.shown > SIMBA_LOG_WARN;
    if (!verbose && strcmp(line, journal.said) == 0 && now.tv_sec - journal.said_at < REPEATED_S)
        return;
    snprintf(journal.said, sizeof journal.said, "%s", line);
    journal.said_at = now.tv_sec;
    cli_say(journal.command, "%s", line);
}

static void print_log(void *user, simba_log_level level, const char *text)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    const unsigned known = (unsigned)level < 4 ? (unsigned)level : 3;
    char whole[2 * CLI_WARNING_SIZE];
    char line[CLI_WARNING_SIZE];
    (void)user;
    if (level == SIMBA_LOG_EVENT) {
        add_event(text);
        return;
    }
    snprintf(whole, sizeof whole, "%s: %s", names[known], text);
    simba__escape(whole, line, sizeof line); /* marks what does not fit */
    pthread_mutex_lock(&journal.lock);
    if (level <= journal.shown)
        say(line);
    else if (level == SIMBA_LOG_WARN)
        keep_back(line);
    pthread_mutex_unlock(&journal.lock);
}

void cli_show_warnings(bool show)
{
    pthread_mutex_lock(&journal.lock);
    if (journal.shown <= SIMBA_LOG_WARN) /* otherwise more was asked for */
        journal.shown = show ? SIMBA_LOG_WARN : SIMBA_LOG_ERROR;
    const unsigned kept = journal.kept_back.count;
    if (show && kept > 0)
        say(journal.kept_back.lines[kept <= CLI_WARNINGS ? kept - 1 : CLI_WARNINGS - 1]);
    journal.kept_back.count = 0;
    pthread_mutex_unlock(&journal.lock);
}

void cli_take_warnings(cli_warnings *ret_warnings)
{
    pthread_mutex_lock(&journal.lock);
    *ret_warnings = journal.kept_back;
    journal.kept_back.count = 0;
    pthread_mutex_unlock(&journal.lock);
}

static int open_event_log(const char *command, const char *path)
{
    if (path == NULL || journal.events >= 0)
        return CLI_GO;
    journal.events = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (journal.events >= 0)
        return CLI_GO;
    cli_say(command, "the event log %s cannot be opened: %s.", path, strerror(errno));
    return CLI_USAGE;
}

int cli_url(const char *command, cli_globals *globals, char **ret_url)
{
    const char *path = NULL;
    *ret_url = NULL;
    const int code = config_apply(command, globals);
    if (code != CLI_GO)
        return code;
    const char *secret = globals->password;
    const char *url = globals->url != NULL ? globals->url : getenv("SIMBA_URL");
    if (url == NULL || url[0] == '\0')
        return CLI_GO;
    if (secret == NULL && secret_from_environment(command, &secret, &path) < 0) {
        cli_say(command, "SIMBA_PASSWORD_FILE: %s cannot be read: %s.", path, strerror(errno));
        return CLI_CONFIG;
    }
    *ret_url = secret_into_url(url, secret);
    if (*ret_url == NULL) {
        cli_say(command, "out of memory.");
        return CLI_SYSTEM;
    }
    /* It is an argument of this process, or a string of ours. */
    if (globals->url != NULL)
        secret_hide((char *)globals->url);
    return CLI_GO;
}

int cli_try_open(const char *command, cli_globals *globals, simba_error *ret_error, simba_client **ret_client)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    char *url = NULL;
    *ret_client = NULL;
    int code = open_event_log(command, globals->event_log);
    if (code == CLI_GO)
        code = cli_url(command, globals, &url);
    if (code != CLI_GO)
        return code;

    options.timing.ttl_ms = globals->ttl_ms;
    options.timing.transition_ms = globals->transition_ms;
    options.dispatch = globals->dispatch;
    options.log = print_log;
    if (globals->verbose > 0)
        options.log_level = globals->verbose > 1 ? SIMBA_LOG_DEBUG : SIMBA_LOG_INFO;
    journal.command = command;
    journal.shown = options.log_level;
    if (globals->quiet)
        cli_show_warnings(false);
    if (globals->event_log != NULL)
        options.log_level = SIMBA_LOG_EVENT;
    (void)simba_client_open(url, &options, ret_error, ret_client);
    free(opened_url);
    opened_url = url;
    return CLI_GO;
}

const char *cli_opened_url(void)
{
    return opened_url;
}

int cli_open(const char *command, cli_globals *globals, simba_client **ret_client)
{
    simba_error error;
    const int code = cli_try_open(command, globals, &error, ret_client);
    return code == CLI_GO && *ret_client == NULL ? cli_failure(command, &error) : code;
}

int64_t cli_duration(int64_t option_ms, const char *url, const char *key, int64_t fallback_ms)
{
    const char *at = url != NULL ? strchr(url, '?') : NULL;
    const size_t length = strlen(key);
    if (option_ms != SIMBA_INHERIT)
        return option_ms;
    for (; at != NULL; at = strchr(at, '&')) {
        char value[32];
        int64_t ms;
        at++;
        if (strncmp(at, key, length) != 0 || at[length] != '=')
            continue;
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at + length + 1, "&"), at + length + 1);
        if (simba_duration_parse(value, &ms) == 0)
            return ms;
    }
    return fallback_ms;
}
