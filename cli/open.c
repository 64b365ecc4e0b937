/* How commands open the store, and take leave of it: one place that turns the global options into those of the library. */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <simba/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli.h"
#include "config.h"
#include "log.h"
#include "secret.h"

#define LABEL_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

static char *opened_url;

bool cli_names_store(const cli_globals *globals)
{
    const char *variable = getenv("SIMBA_URL");
    return globals->url != NULL || (variable != NULL && variable[0] != '\0');
}

int cli_url(const char *command, cli_globals *globals, char **ret_url)
{
    const char *path = NULL;
    *ret_url = NULL;
    if (!globals->configured && (globals->config != NULL || !cli_names_store(globals))) {
        const int code = config_apply(command, globals);
        if (code != CLI_GO)
            return code;
    }
    const char *secret = globals->password;
    const char *url = globals->url != NULL ? globals->url : getenv("SIMBA_URL");
    if (url == NULL || url[0] == '\0')
        return CLI_GO;
    if (secret == NULL && secret_from_environment(command, &secret, &path) < 0)
        return cli_fail(command, CLI_CONFIG, "SIMBA_PASSWORD_FILE: %s cannot be read: %s.", path, strerror(errno));
    *ret_url = secret_into_url(url, secret);
    if (*ret_url == NULL)
        return cli_fail(command, CLI_SYSTEM, "out of memory.");
    /* It is an argument of this process, or a copy of the setting. */
    if (globals->url != NULL)
        secret_hide((char *)globals->url);
    return CLI_GO;
}

/* The default store needs no such check: nobody types its path. */
static int refuse_missing(const char *command, const char *url)
{
    simba_url *parsed = NULL;
    int code = CLI_GO;
    if (url == NULL || simba_url_parse(url, NULL, &parsed) < 0)
        return CLI_GO;
    const char *path = simba_url_path(parsed);
    if (strcmp(simba_url_scheme(parsed), "sqlite") == 0 && simba_url_authority(parsed)[0] == '\0' && path[0] == '/' &&
        access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
        code = cli_fail(command, CLI_CONFIG, "there is no database %s; correct the URL, or make it by `simba init`.",
                        path);
    simba_url_free(parsed);
    return code;
}

/* `--label KEY=VALUE` is a setting of the store. */
static int add_label(const char *command, const char *label, char **ref_url)
{
    const char *url = *ref_url;
    char *whole = NULL;
    const char *value = strchr(label, '=');
    if (value == NULL || value == label || label[strspn(label, LABEL_CHARACTERS "/")] != '=' ||
        value[1 + strspn(value + 1, LABEL_CHARACTERS)] != '\0')
        return cli_usage_error(command, "--label wants KEY=VALUE, as Kubernetes has labels");
    if (url == NULL || strncmp(url, "kubernetes:", strlen("kubernetes:")) != 0)
        return cli_usage_error(command, "--label is for the store kubernetes://");
    if (asprintf(&whole, "%s%slabel=%.*s%%3D%s", url, strchr(url, '?') != NULL ? "&" : "?", (int)(value - label), label,
                 value + 1) < 0)
        return cli_fail(command, CLI_SYSTEM, "out of memory.");
    free(*ref_url);
    *ref_url = whole;
    return CLI_GO;
}

int cli_try_open(const char *command, cli_globals *globals, simba_error *ret_error, simba_client **ret_client)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    char *url = NULL;
    *ret_client = NULL;
    int code = cli_url(command, globals, &url);
    if (code == CLI_GO && globals->label != NULL)
        code = add_label(command, globals->label, &url);
    if (code == CLI_GO && globals->only_looks)
        code = refuse_missing(command, url);
    if (code == CLI_GO)
        code = log_open(command, globals, &options);
    if (code != CLI_GO) {
        free(url);
        return code;
    }
    options.timing.ttl_ms = globals->ttl_ms;
    options.timing.transition_ms = globals->transition_ms;
    options.dispatch = globals->dispatch;
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

int cli_open_once(const char *command, cli_globals *globals, bool only_looks, simba_client **ret_client)
{
    globals->quiet = true;
    globals->only_looks = globals->only_looks || only_looks;
    return cli_open(command, globals, ret_client);
}

int cli_begin(const cli_syntax *syntax, cli_globals *globals, int *argc, char **argv, simba_client **ret_client)
{
    const int parsed = cli_parse(syntax, globals, argc, argv);
    return parsed == CLI_GO ? cli_open_once(syntax->command, globals, false, ret_client) : parsed;
}

int cli_open_shared(const char *command, cli_globals *globals, simba_client **ret_client)
{
    simba_settings settings = SIMBA_SETTINGS_INIT;
    const int code = cli_open(command, globals, ret_client);
    if (code != CLI_GO || simba_client_settings(*ret_client, &settings) < 0)
        return code;
    if (settings.reach == SIMBA_REACH_PROCESS) {
        cli_error(command, "%s is seen by this process only, so it would keep out nobody; sqlite:// covers this host.",
                  simba_client_url(*ret_client));
        return cli_close(*ret_client, CLI_CONFIG);
    }
    /* Whoever named the store has chosen it. */
    if (settings.reach == SIMBA_REACH_HOST && !cli_names_store(globals) && globals->verbose == 0 &&
        isatty(STDERR_FILENO) == 1) {
        char users[CLI_USERS_MAX];
        cli_users(simba_client_url(*ret_client), users, sizeof users);
        cli_info(command, "no store was named; this one covers %s only: %s.", users, simba_client_url(*ret_client));
    }
    return code;
}

bool cli_users(const char *url, char *text, size_t size)
{
    simba_url *parsed = NULL;
    struct stat file = {0};
    struct stat folder;
    char *above = simba_url_parse(url, NULL, &parsed) == 0 ? strdup(simba_url_path(parsed)) : NULL;
    char *slash = above != NULL ? strrchr(above, '/') : NULL;
    bool known = slash != NULL && stat(above, &file) == 0;
    if (slash != NULL)
        slash[slash == above] = '\0';
    known = known && stat(above, &folder) == 0;
    free(above);
    simba_url_free(parsed);
    /* Who cannot enter the folder cannot use the file. */
    if (!known || ((file.st_mode & 0020) != 0 && (folder.st_mode & 0010) != 0) ||
        ((file.st_mode & 0002) != 0 && (folder.st_mode & 0001) != 0)) {
        snprintf(text, size, "the users of this host who may write its file");
        return true;
    }
    const struct passwd *owner = getpwuid(file.st_uid);
    if (owner != NULL)
        snprintf(text, size, "the processes of user %s on this host", owner->pw_name);
    else
        snprintf(text, size, "the processes of user %" PRIdMAX " on this host", (intmax_t)file.st_uid);
    return false;
}

int64_t cli_duration(int64_t option_ms, const char *url, const char *key, int64_t fallback_ms)
{
    simba_url *parsed = NULL;
    int64_t ms = fallback_ms;
    if (option_ms != SIMBA_INHERIT)
        return option_ms;
    /* Opening the store reports what is wrong with the URL. */
    if (url != NULL && simba_url_parse(url, NULL, &parsed) == 0) {
        const char *value = simba_url_query(parsed, key);
        if (value == NULL || simba_duration_parse(value, &ms) < 0)
            ms = fallback_ms;
    }
    simba_url_free(parsed);
    return ms;
}

FILE *cli_open_file(const char *command, const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (file == NULL)
        cli_error(command, "%s cannot be %s: %s.", path, mode[0] == 'r' ? "read" : "written", strerror(errno));
    return file;
}

bool cli_close_file(const char *command, FILE *file, const char *path)
{
    const bool failed = ferror(file) != 0;
    if (fclose(file) == 0 && !failed)
        return true;
    cli_error(command, "%s cannot be written: %s.", path, strerror(errno));
    return false;
}

/* --- leaving --------------------------------------------------------------------------------------- */

/* How a command takes leave of the store. Closing a client takes back the request that is on its way and leaves queues, so
 * it waits for answers, for seconds if the store does not answer. That is right while something is held. Afterwards, or if
 * nothing ever was, nobody who has pressed Ctrl-C should wait for that: the process ends with the client open, which the
 * library allows, and the store forgets waiters that are gone. */
enum { LEAVE_MS = 300 }; /* enough for a store that answers */

static volatile sig_atomic_t exit_code;

static void end_now(int number)
{
    (void)number;
    _exit(exit_code);
}

int cli_flush(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    clearerr(stdout); /* print it once */
    return cli_fail(NULL, code == CLI_OK ? CLI_FAILED : code, "standard output could not be written.");
}

int cli_leave(int code)
{
    const struct sigaction action = {.sa_handler = end_now};
    const struct itimerval limit = {.it_value = {.tv_usec = LEAVE_MS * 1000}};
    sigset_t alarm_only;
    code = cli_flush(code);
    exit_code = code;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    setitimer(ITIMER_REAL, &limit, NULL);
    return code;
}

int cli_close(simba_client *client, int code)
{
    code = cli_leave(code);
    simba_client_close(client);
    return code;
}
