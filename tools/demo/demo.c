/* `simba demo`: three processes contend for one mutex. It kills the leader, and the next one takes over; it asks
 * that one to stop, and the last takes over at once. It reports this as it happens, and checks everything that it
 * reports. */
#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "clock.h"
#include "demo/demo.h"
#include "secret.h"
#include "signals.h"

#define COMMAND "demo"
#define TIMEOUT_MS 5000 /* for steps that should take milliseconds */
#define DWELL_MS 1000   /* leadership long enough to be seen */

typedef struct demo {
    torture_options options;
    torture_outcome outcome;
    torture_contenders contenders;
    cli_signals signals;
    term term;
    demo_node nodes[DEMO_NODES];
    size_t told;   /* how many events of the history */
    int broken;    /* the contender that ended by itself; TORTURE_NOBODY: none did */
    char how[32];  /* it did */
    char *url;     /* with its password */
    char dir[512]; /* our own store; "": the store is the user's */
} demo;

/* --- the store ---------------------------------------------------------------------------------- */

static int make_store(demo *d)
{
    const char *tmp = getenv("TMPDIR");
    char path[600];
    char url[32 + 3 * sizeof path] = "sqlite://";
    snprintf(d->dir, sizeof d->dir, "%s/simba-demo-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(d->dir) == NULL) {
        cli_say(COMMAND, "no directory for the store could be made in %s: %s.", d->dir, strerror(errno));
        d->dir[0] = '\0';
        return CLI_FAILED;
    }
    snprintf(path, sizeof path, "%s/demo.db", d->dir);
    secret_escape(path, "/-._~", url + strlen(url));
    d->url = strdup(url);
    return d->url != NULL ? CLI_GO : CLI_SYSTEM;
}

/* In a store of our own the mutex has a plain name. */
static int choose_store(demo *d, cli_globals *globals)
{
    if (globals->url == NULL)
        snprintf(d->options.mutexes[0], sizeof d->options.mutexes[0], "demo");
    const int code = globals->url == NULL ? make_store(d) : cli_url(COMMAND, globals, &d->url);
    d->options.url = d->url;
    return code;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static void remove_store(demo *d)
{
    if (d->dir[0] != '\0')
        nftw(d->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    d->dir[0] = '\0';
}

/* --- printing ----------------------------------------------------------------------------------- */

static const char *name(const demo *d, int node)
{
    return d->options.ids[node];
}

/* A process that is killed cannot say so itself. */
static void log_kill(const demo *d, const torture_event *event)
{
    const char *path = d->options.globals->event_log;
    FILE *log = path != NULL ? fopen(path, "ae") : NULL;
    if (log == NULL)
        return;
    fprintf(log, "%lld %s/%s killed\n", (long long)(d->contenders.epoch_ns + event->at_ns), d->options.mutexes[0],
            name(d, event->contender));
    fclose(log);
}

static void __attribute__((format(printf, 2, 3))) say(demo *d, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputc('\n', d->term.stream);
    term_wrap(&d->term, TERM_BOLD, 0, text);
    fflush(d->term.stream);
}

/* --- listening ---------------------------------------------------------------------------------- */

static int node_by_name(const demo *d, const char *text)
{
    for (int n = 0; n < DEMO_NODES; n++)
        if (strcmp(name(d, n), text) == 0)
            return n;
    return TORTURE_NOBODY;
}

/* Show the event, and update what the conditions of the scenario ask for. */
static void take_event(demo *d, const torture_event *event)
{
    demo_node *node = &d->nodes[event->contender];
    demo_show_event(&d->term, name(d, event->contender), node, event);
    if (event->kind == TORTURE_KILLED)
        log_kill(d, event);
    if (event->kind == TORTURE_ENDED) {
        d->broken = event->contender;
        memcpy(d->how, event->what, sizeof d->how);
    }
    if (event->kind == TORTURE_SEES)
        node->sees = node_by_name(d, event->what);
    if (demo_is_acquired(node, event)) {
        *node = (demo_node){.sees = event->contender, .token = event->token, .until_ns = event->until_ns};
    } else if (demo_is_renewed(node, event)) {
        node->renewals++;
        node->until_ns = event->until_ns;
    }
}

/* In the order in which it happened. */
static void take_news(demo *d)
{
    const torture_history *history = &d->outcome.history;
    if (d->told == history->count)
        return;
    torture_history news = {.events = history->events + d->told, .count = history->count - d->told};
    torture_history_sort(&news);
    for (size_t i = 0; i < news.count; i++)
        take_event(d, &news.events[i]);
    d->told = history->count;
}

static void take_signal(demo *d)
{
    const int number = signals_read(&d->signals);
    if (signals_is_ending(number))
        d->outcome.interrupted = number;
    else if (number == SIGTSTP)
        raise(SIGSTOP);
}

/* Wait until the condition holds (NULL: for the whole time), or report what it waited for in vain. True: go on. */
static bool await(demo *d, bool (*condition)(const demo *d), int64_t timeout_ms, const char *what)
{
    const int64_t until_ns = torture_contenders_now(&d->contenders) + timeout_ms * MS;
    while (!ferror(d->term.stream)) { /* otherwise nobody watches */
        take_news(d);
        const bool is_late = torture_contenders_now(&d->contenders) >= until_ns;
        if (d->outcome.interrupted != 0) {
            say(d, "Interrupted; tidying up.");
            return false;
        }
        if (d->broken != TORTURE_NOBODY) {
            say(d, "Gave up: %s ended by itself (%s) while waiting until %s.", name(d, d->broken), d->how, what);
            return false;
        }
        if (condition != NULL ? condition(d) : is_late)
            return true;
        if (is_late) {
            say(d, "Gave up: within %.1f s it did not happen that %s.", (double)timeout_ms / 1e3, what);
            return false;
        }
        if (torture_contenders_listen(&d->contenders, d->signals.fd, until_ns))
            take_signal(d);
    }
    return false;
}

static bool dwell(demo *d)
{
    return await(d, NULL, DWELL_MS, "some time had passed");
}

/* --- the scenario ---------------------------------------------------------------------------------- */

static int leader(const demo *d)
{
    return d->contenders.leaders[0];
}

static bool leads_and_all_know(const demo *d)
{
    for (int n = 0; n < DEMO_NODES; n++) {
        const torture_node_state state = d->contenders.nodes[n].state;
        if (state == NODE_AWAY || (state == NODE_RUNS && d->nodes[n].sees != leader(d)))
            return false;
    }
    return leader(d) != TORTURE_NOBODY;
}

static bool leader_has_renewed(const demo *d)
{
    return leader(d) != TORTURE_NOBODY && d->nodes[leader(d)].renewals > 0;
}

static bool somebody_leads(const demo *d)
{
    return leader(d) != TORTURE_NOBODY;
}

static bool the_asked_have_ended(const demo *d)
{
    for (int n = 0; n < DEMO_NODES; n++)
        if (d->contenders.nodes[n].state == NODE_ENDING)
            return false;
    return true;
}

static bool next_leads_and_asked_have_ended(const demo *d)
{
    return leader(d) != TORTURE_NOBODY && d->contenders.nodes[leader(d)].state == NODE_RUNS && the_asked_have_ended(d);
}

static int64_t failover_timeout_ms(const demo *d)
{
    return demo_failover_limit_ns(&d->options.setup) / MS + TIMEOUT_MS;
}

static void introduce(demo *d)
{
    const torture_options *o = &d->options;
    const char *where = d->dir[0] != '\0' ? "a fresh SQLite file" : "your store";
    if (o->sessions)
        say(d,
            "Three processes contend for the mutex \"%s\" in %s. The leader keeps its session alive; should it fail "
            "to, "
            "the others wait until it is over, for up to %g s.",
            o->mutexes[0], where, (double)o->setup.lease_ns / 1e9);
    else
        say(d,
            "Three processes contend for the mutex \"%s\" in %s. The leader renews its lease every %g s (ttl); should "
            "it"
            " fail to, the others wait for another %g s (transition).",
            o->mutexes[0], where, (double)o->timing.ttl_ms / 1e3, (double)o->timing.transition_ms / 1e3);
}

static bool act_one_contend(demo *d)
{
    introduce(d);
    const int code = torture_contenders_start(&d->contenders, &d->options, &d->outcome);
    if (code < 0) {
        say(d, "Gave up: the processes could not be started: %s.", strerror(-code));
        return false;
    }
    return await(d, leads_and_all_know, TIMEOUT_MS, "one process leads and the others know it");
}

static bool act_two_kill(demo *d)
{
    say(d, "%s leads. It keeps the mutex by renewing its lease in time; the others wait.", name(d, leader(d)));
    if (!await(d, leader_has_renewed, d->options.setup.lease_ns / MS + TIMEOUT_MS, "the leader renews its lease"))
        return false;
    say(d, "Now %s is killed with SIGKILL. It can tell nobody, so the others must wait until its lease is over.",
        name(d, leader(d)));
    torture_contenders_inflict(&d->contenders, leader(d), &(torture_step){.fault = TORTURE_FAULT_KILL});
    return await(d, somebody_leads, failover_timeout_ms(d), "another process takes over");
}

static bool act_three_hand_over(demo *d)
{
    /* Where contenders queue by sessions, one that waits need not hear who is before it. */
    if (!dwell(d) || !await(d, d->options.sessions ? somebody_leads : leads_and_all_know, TIMEOUT_MS,
                            "the waiting process knows the new leader"))
        return false;
    say(d,
        "%s took over. Now it is asked to stop: it tidies up and gives the mutex back, and the next waiter is woken.",
        name(d, leader(d)));
    torture_contenders_ask_to_end(&d->contenders, leader(d));
    return await(d, next_leads_and_asked_have_ended, failover_timeout_ms(d),
                 "the last process leads and the one before has ended");
}

static bool act_four_end(demo *d)
{
    if (!dwell(d))
        return false;
    if (!somebody_leads(d)) {
        say(d, "Gave up: the last process lost the mutex, although nobody else wanted it.");
        return false;
    }
    say(d, "%s leads, alone. It is asked to stop as well.", name(d, leader(d)));
    torture_contenders_ask_to_end(&d->contenders, leader(d));
    return await(d, the_asked_have_ended, TIMEOUT_MS, "the last process has ended");
}

/* A contender that could not open the store has said why; use its exit code. */
static int failure_code(const demo *d)
{
    const int status = d->broken != TORTURE_NOBODY ? d->contenders.nodes[d->broken].status : 0;
    if (d->outcome.interrupted != 0)
        return CLI_SIGNAL + d->outcome.interrupted;
    return WIFEXITED(status) && WEXITSTATUS(status) >= CLI_USAGE ? WEXITSTATUS(status) : CLI_FAILED;
}

static int play(demo *d)
{
    torture_verdict found;
    demo_verdict verdict;
    if (!act_one_contend(d) || !act_two_kill(d) || !act_three_hand_over(d) || !act_four_end(d))
        return failure_code(d);
    torture_judge(&d->options.setup, &d->outcome.history, &found);
    demo_judge(&d->contenders, &found, &verdict);
    fputc('\n', d->term.stream);
    torture_picture_text(&(torture_report){.setup = &d->options.setup,
                                           .history = &d->outcome.history,
                                           .verdict = &found,
                                           .ids = d->options.ids,
                                           .is_whole = true},
                         &d->term);
    demo_show_verdict(&d->term, &d->contenders, &found, &verdict);
    torture_verdict_free(&found);
    return verdict.passed ? CLI_OK : CLI_FAILED;
}

int cmd_demo(cli_globals *globals, int argc, char **argv)
{
    const cli_syntax syntax = {
        .command = COMMAND,
        .about = "Three processes contend for one mutex. The demo kills the leader, and another takes\n"
                 "over when the lease has ended. Then it asks that one to stop, and the last takes\n"
                 "over at once. The demo checks everything that it shows. Without --url it uses a\n"
                 "SQLite file in a fresh directory; ttl and transition are 1s each by default.\n"
                 "Takes about five seconds.",
        .takes = CLI_TAKES_URL | CLI_TAKES_TIMING | CLI_TAKES_EVENTS,
    };
    static demo d;
    int code = cli_parse(&syntax, globals, &argc, argv);
    if (code != CLI_GO)
        return code;
    term_open(stdout, &d.term);
    d.broken = TORTURE_NOBODY;
    d.options.command = COMMAND;
    d.options.globals = globals;
    d.options.setup.contenders = DEMO_NODES;
    d.options.setup.mutexes = 1;
    d.options.tell_owners = true;
    d.options.flag = globals->verbose > 1 ? "-vv" : globals->verbose > 0 ? "-v" : NULL;
    for (int n = 0; n < DEMO_NODES; n++) {
        d.nodes[n].sees = TORTURE_NOBODY;
        snprintf(d.options.ids[n], sizeof d.options.ids[n], "node-%c", 'a' + n);
    }
    /* From now on nothing is left behind. That the reader is gone is noticed when the output is flushed. */
    signal(SIGPIPE, SIG_IGN);
    code = signals_open(COMMAND, &d.signals);
    if (code == CLI_GO)
        code = choose_store(&d, globals);
    if (code == CLI_GO)
        code = torture_store_try(globals, &d.options);
    if (code == CLI_GO)
        code = play(&d);
    torture_contenders_end(&d.contenders);
    torture_history_free(&d.outcome.history);
    remove_store(&d);
    free(d.url);
    return code;
}
