/* `simba watch`: changes of ownership as they happen, without contending. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "json.h"
#include "refusal.h"
#include "signals.h"
#include "term.h"
#include "util/escape.h"

#define COMMAND "watch"
#define SHOWN_SIZE SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES) /* an id is shorter */

typedef struct watcher {
    term t;
    bool json;
    int width;     /* of the longest name */
    bool answered; /* somebody's state is known */
} watcher;

static void format_now(char *text, size_t size, const char *format)
{
    struct timespec now;
    struct tm parts;
    char whole[64];
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &parts);
    strftime(whole, sizeof whole, format, &parts);
    const size_t at = strcspn(whole, "|");
    snprintf(text, size, "%.*s.%03d%s", (int)at, whole, (int)(now.tv_nsec / 1000000),
             whole[at] != '\0' ? whole + at + 1 : "");
}

static void on_changed(simba_observer *observer, const simba_state *state, void *user)
{
    watcher *w = user;
    const char *mutex = simba_observer_mutex(observer);
    const simba_owner *after = simba_owner_is_none(&state->after) ? NULL : &state->after;
    char now[64];
    char name[SHOWN_SIZE];
    char id[SHOWN_SIZE];
    w->answered = true;
    if (w->json) {
        json_writer j = {.to = stdout};
        format_now(now, sizeof now, "%Y-%m-%dT%H:%M:%S|%z");
        json_open(&j, NULL, '{');
        json_text(&j, "time", now);
        json_text(&j, "mutex", mutex);
        json_text(&j, "before", simba_owner_is_none(&state->before) ? NULL : state->before.id);
        json_text(&j, "owner", after != NULL ? after->id : NULL);
        json_token(&j, "token", after != NULL ? &after->token : NULL);
        json_close(&j, '}');
        putchar('\n');
    } else {
        format_now(now, sizeof now, "%H:%M:%S");
        printf("%s%s%s  ", term_on(&w->t, TERM_DIM), now, term_off(&w->t));
        term_cell(&w->t, simba__escape(mutex, name, sizeof name), w->width);
        if (after == NULL)
            printf("  %sfree%s\n", term_on(&w->t, TERM_YELLOW), term_off(&w->t));
        else
            printf("  %s%s%s  token %" PRIu64 "\n", term_on(&w->t, TERM_GREEN), simba__escape(after->id, id, sizeof id),
                   term_off(&w->t), after->token);
    }
    fflush(stdout);
}

static int start_observers(simba_client *client, watcher *w, char **mutexes, size_t count, simba_observer **observers,
                           simba_error *error)
{
    simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    options.on_changed = on_changed;
    options.user = w;
    for (size_t i = 0; i < count; i++) {
        int code = simba_observer_new(client, mutexes[i], &options, error, &observers[i]);
        if (code == 0)
            code = simba_observer_start(observers[i]);
        if (code < 0) {
            error->code = code;
            return code;
        }
    }
    return 0;
}

/* Until a signal ends it, nobody reads, or the store refuses from the first. Warnings are kept back until it answers or
 * cannot be reached, because a refusal is printed as the reason for the end. */
static int listen(simba_client *client, const watcher *w, const cli_signals *signals)
{
    simba_error refusal;
    bool settled = false;
    struct pollfd fds[] = {{.fd = simba_client_fd(client), .events = POLLIN}, {.fd = signals->fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[0].revents != 0)
            simba_client_dispatch(client);
        if (!w->answered && refusal_of_reading(&refusal))
            return cli_failure(COMMAND, &refusal);
        if (!settled && (w->answered || refusal_is_settled(client))) {
            settled = true;
            cli_take_warnings();
            cli_show_warnings(true);
        }
        const int number = fds[1].revents != 0 ? signals_read(signals) : 0;
        if (signals_is_ending(number))
            return CLI_SIGNAL + number;
        if (number == SIGTSTP)
            raise(SIGSTOP);
        if (ferror(stdout))
            return CLI_FAILED;
    }
}

static int watch(cli_globals *globals, watcher *w, char **mutexes, size_t count)
{
    cli_signals signals;
    simba_client *client = NULL;
    simba_error error = {0, ""};
    globals->dispatch = SIMBA_DISPATCH_FD;
    int code = cli_open_once(COMMAND, globals, true, &client);
    if (code != CLI_GO)
        return code;
    code = signals_open(COMMAND, &signals);
    if (code != CLI_GO)
        return cli_close(client, code);
    simba_observer **observers = calloc(count, sizeof *observers);
    if (observers == NULL)
        error.code = SIMBA_ENOMEM;
    else
        start_observers(client, w, mutexes, count, observers, &error);
    code = cli_leave(error.code == 0 ? listen(client, w, &signals) : cli_failure(COMMAND, &error));
    for (size_t i = 0; observers != NULL && i < count; i++)
        simba_observer_free(observers[i]);
    free(observers);
    return cli_close(client, code);
}

int cmd_watch(cli_globals *globals, int argc, char **argv)
{
    watcher w = {.json = false, .width = 0};
    const cli_option own[] = {{"json", 0, CLI_FLAG, NULL, "Print one object per line", &w.json}};
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX...",
        .about = "Prints who owns the mutexes, and every change as it happens, until it is\n"
                 "interrupted. It does not contend.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_URL,
        .min_operands = 1,
        .max_operands = -1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    term_open(stdout, &w.t);
    for (int i = 0; i < argc; i++) {
        char name[SHOWN_SIZE];
        const int columns = term_columns(simba__escape(argv[i], name, sizeof name));
        w.width = columns > w.width ? columns : w.width;
    }
    return watch(globals, &w, argv, (size_t)argc);
}
