/* `simba demo`: three processes contend for one mutex. It kills the leader, and the next one takes over; it asks
 * that one to stop, and the last takes over at once. It reports this as it happens. The contenders are processes of
 * `simba torture`, whose judge decides at the end whether every promise was kept. */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "clock.h"
#include "secret.h"
#include "signals.h"
#include "timeline/timeline.h"
#include "torture/contenders.h"

#define COMMAND "demo"
#define NODES 3
#define TIMEOUT_MS 5000     /* for steps that should take milliseconds */
#define DWELL_MS 1000       /* leadership long enough to be seen */
#define WORD_COLUMN 10      /* wide enough for the longest word and a gap */
#define RENEWED_NS (5 * MS) /* a lease that ends later by so much was renewed */

/* What the scenario knows of a contender, beside what its process does. */
typedef struct node {
    int sees; /* the leader it last heard of */
    unsigned renewals;
    uint64_t token;   /* under which it led last; 0: never */
    int64_t until_ns; /* when that lease ends, as it reported */
} node;

typedef struct demo {
    torture_options options;
    torture_outcome outcome;
    torture_contenders contenders;
    cli_signals signals;
    term term;
    node nodes[NODES];
    size_t shown;  /* how many events of the history */
    int broken;    /* the contender that ended by itself; TORTURE_NOBODY: none did */
    char how[32];  /* it did */
    char *url;     /* with its password */
    char dir[512]; /* a store of the demo's own; "": the store is the user's */
} demo;

/* --- the store ---------------------------------------------------------------------------------- */

static int make_store(demo *d)
{
    const char *tmp = getenv("TMPDIR");
    char path[600];
    char url[32 + 3 * sizeof path] = "sqlite://";
    snprintf(d->dir, sizeof d->dir, "%s/simba-demo-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(d->dir) == NULL) {
        cli_error(COMMAND, "no directory for the store could be made in %s: %s.", d->dir, strerror(errno));
        d->dir[0] = '\0';
        return CLI_FAILED;
    }
    snprintf(path, sizeof path, "%s/demo.db", d->dir);
    secret_escape(path, "/-._~", url + strlen(url));
    d->url = strdup(url);
    return d->url != NULL ? CLI_GO : CLI_SYSTEM;
}

/* In a store of its own the mutex has a plain name. */
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
    (void)info, (void)type, (void)where;
    return remove(path);
}

/* --- events ------------------------------------------------------------------------------------- */

static const char *name(const demo *d, int number)
{
    return d->options.ids[number];
}

static void __attribute__((format(printf, 2, 3))) announce(demo *d, const char *format, ...)
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

/* One line for an event that people want to see. */
static void show_event(const demo *d, const torture_event *event, bool acquired, bool renewed)
{
    static const struct {
        const char *word; /* NULL: it is not shown */
        term_style style;
    } words[TORTURE_KIND_COUNT] = {
        [TORTURE_CONTENDS] = {"contends", TERM_DIM}, [TORTURE_SEES] = {"waits", TERM_DIM},
        [TORTURE_HOLDS] = {"acquired", TERM_GREEN},  [TORTURE_RELEASED] = {"released", TERM_BOLD},
        [TORTURE_STOPPED] = {"ended", TERM_DIM},     [TORTURE_KILLED] = {"killed", TERM_RED},
    };
    const term *t = &d->term;
    const char *who = name(d, event->contender);
    const char *word = renewed ? "renewed" : words[event->kind].word;
    const term_style style = renewed ? TERM_DIM : words[event->kind].style;
    char detail[80] = "";
    if (word == NULL || (event->kind == TORTURE_HOLDS && !acquired && !renewed) ||
        (event->kind == TORTURE_SEES && (event->what[0] == '\0' || strcmp(event->what, who) == 0)))
        return;
    if (acquired)
        snprintf(detail, sizeof detail, "token %" PRIu64, event->token);
    else if (renewed)
        snprintf(detail, sizeof detail, "lease valid until %.3fs by its own clock", seconds(event->until_ns));
    else if (event->kind == TORTURE_KILLED)
        snprintf(detail, sizeof detail, "by SIGKILL");
    else
        snprintf(detail, sizeof detail, event->kind == TORTURE_SEES ? "%s leads" : "%s", event->what);
    fprintf(t->stream, "  %7.3fs  %s%s%s  %s%s%s", seconds(event->at_ns),
            term_on(t, timeline_style((size_t)event->contender)), who, term_off(t), term_on(t, style), word,
            term_off(t));
    if (detail[0] != '\0')
        fprintf(t->stream, "%*s%s%s%s", (int)(WORD_COLUMN - strlen(word)), "", term_on(t, TERM_DIM), detail,
                term_off(t));
    fputc('\n', t->stream);
    fflush(t->stream);
}

/* A process that is killed cannot write that itself. */
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

/* Show the event, and update what the conditions of the scenario ask for. */
static void take_event(demo *d, const torture_event *event)
{
    node *n = &d->nodes[event->contender];
    const bool acquired = event->kind == TORTURE_HOLDS && event->token != n->token;
    const bool renewed =
        event->kind == TORTURE_HOLDS && event->token == n->token && event->until_ns > n->until_ns + RENEWED_NS;
    show_event(d, event, acquired, renewed);
    if (event->kind == TORTURE_KILLED)
        log_kill(d, event);
    if (event->kind == TORTURE_ENDED) {
        d->broken = event->contender;
        memcpy(d->how, event->what, sizeof d->how);
    }
    if (event->kind == TORTURE_SEES) {
        n->sees = TORTURE_NOBODY;
        for (int i = 0; i < NODES; i++)
            if (strcmp(name(d, i), event->what) == 0)
                n->sees = i;
    }
    if (acquired) {
        *n = (node){.sees = event->contender, .token = event->token, .until_ns = event->until_ns};
    } else if (renewed) {
        n->renewals++;
        n->until_ns = event->until_ns;
    }
}

/* Wait until the condition holds (NULL: for the whole time), or report what it waited for in vain. True: go on. */
static bool await(demo *d, bool (*condition)(const demo *d), int64_t timeout_ms, const char *what)
{
    const torture_history *history = &d->outcome.history;
    const int64_t until_ns = torture_contenders_now(&d->contenders) + timeout_ms * MS;
    while (!ferror(d->term.stream)) { /* otherwise nobody watches */
        /* The news, in the order in which they happened. */
        torture_history news = {.events = history->events + d->shown, .count = history->count - d->shown};
        if (news.count > 0)
            torture_history_sort(&news);
        for (size_t i = 0; i < news.count; i++)
            take_event(d, &news.events[i]);
        d->shown = history->count;
        const bool is_late = torture_contenders_now(&d->contenders) >= until_ns;
        if (d->outcome.interrupted != 0) {
            announce(d, "Interrupted; tidying up.");
            return false;
        }
        if (d->broken != TORTURE_NOBODY) {
            announce(d, "Gave up: %s ended by itself (%s) while waiting until %s.", name(d, d->broken), d->how, what);
            return false;
        }
        if (condition != NULL ? condition(d) : is_late)
            return true;
        if (is_late) {
            announce(d, "Gave up: within %.1f s it did not happen that %s.", (double)timeout_ms / 1e3, what);
            return false;
        }
        if (!torture_contenders_listen(&d->contenders, d->signals.fd, until_ns))
            continue;
        const int number = signals_read(&d->signals);
        if (signals_is_ending(number))
            d->outcome.interrupted = number;
        else if (number == SIGTSTP)
            raise(SIGSTOP);
    }
    return false;
}

/* --- the scenario ---------------------------------------------------------------------------------- */

static int leader(const demo *d)
{
    return d->contenders.leaders[0];
}

static bool somebody_leads(const demo *d)
{
    return leader(d) != TORTURE_NOBODY;
}

static bool leads_and_all_know(const demo *d)
{
    for (int n = 0; n < NODES; n++) {
        const torture_node_state state = d->contenders.nodes[n].state;
        if (state == NODE_AWAY || (state == NODE_RUNS && d->nodes[n].sees != leader(d)))
            return false;
    }
    return somebody_leads(d);
}

static bool leader_has_renewed(const demo *d)
{
    return somebody_leads(d) && d->nodes[leader(d)].renewals > 0;
}

static bool stopping_has_ended(const demo *d)
{
    for (int n = 0; n < NODES; n++)
        if (d->contenders.nodes[n].state == NODE_ENDING)
            return false;
    return true;
}

static bool next_leads(const demo *d)
{
    return somebody_leads(d) && d->contenders.nodes[leader(d)].state == NODE_RUNS && stopping_has_ended(d);
}

/* False: it came to an end before its time, and the reason was printed. */
static bool play(demo *d)
{
    const torture_options *o = &d->options;
    const char *where = d->dir[0] != '\0' ? "a fresh SQLite file" : "your store";
    const int64_t lease_ms = o->setup.lease_ns / MS;
    const int64_t failover_ms = o->setup.takeover_ns / MS + TIMEOUT_MS;
    if (o->sessions)
        announce(d,
                 "Three processes contend for the mutex \"%s\" in %s. The leader keeps its session alive; should it "
                 "fail to, the others wait until it is over, for up to %g s.",
                 o->mutexes[0], where, (double)lease_ms / 1e3);
    else
        announce(d,
                 "Three processes contend for the mutex \"%s\" in %s. The leader renews its lease every %g s (ttl); "
                 "should it fail to, the others wait for another %g s (transition).",
                 o->mutexes[0], where, (double)o->timing.ttl_ms / 1e3, (double)o->timing.transition_ms / 1e3);
    const int code = torture_contenders_start(&d->contenders, o, &d->outcome);
    if (code < 0) {
        announce(d, "Gave up: the processes could not be started: %s.", strerror(-code));
        return false;
    }
    if (!await(d, leads_and_all_know, TIMEOUT_MS, "one process leads and the others know it"))
        return false;
    announce(d, "%s leads. It keeps the mutex by renewing its lease in time; the others wait.", name(d, leader(d)));
    if (!await(d, leader_has_renewed, lease_ms + TIMEOUT_MS, "the leader renews its lease"))
        return false;

    announce(d, "Now %s is killed with SIGKILL. It can tell nobody, so the others must wait until its lease is over.",
             name(d, leader(d)));
    torture_contenders_inflict(&d->contenders, leader(d), &(torture_step){.fault = TORTURE_FAULT_KILL});
    /* Where contenders queue by sessions, one that waits need not hear who is before it. */
    if (!await(d, somebody_leads, failover_ms, "another process takes over") ||
        !await(d, NULL, DWELL_MS, "some time had passed") ||
        !await(d, o->sessions ? somebody_leads : leads_and_all_know, TIMEOUT_MS,
               "the waiting process knows the new leader"))
        return false;

    announce(d, "%s took over. Now it is asked to stop: it gives the mutex back, and the next waiter is woken.",
             name(d, leader(d)));
    torture_contenders_ask_to_end(&d->contenders, leader(d));
    if (!await(d, next_leads, failover_ms, "the last process leads and the one before has ended") ||
        !await(d, NULL, DWELL_MS, "some time had passed"))
        return false;
    if (!somebody_leads(d)) {
        announce(d, "Gave up: the last process lost the mutex, although nobody else wanted it.");
        return false;
    }
    announce(d, "%s leads, alone. It is asked to stop as well.", name(d, leader(d)));
    torture_contenders_ask_to_end(&d->contenders, leader(d));
    return await(d, stopping_has_ended, TIMEOUT_MS, "the last process has ended");
}

/* --- the verdict ------------------------------------------------------------------------------------ */

static void show_time(const term *t, const char *what, int64_t ns, const char *from_to)
{
    char time[32];
    snprintf(time, sizeof time, ns < INT64_C(1000000000) ? "%.1f ms" : "%.3f s",
             ns < INT64_C(1000000000) ? (double)ns / 1e6 : seconds(ns));
    fprintf(t->stream, "  %-10s %s%9s%s   %s\n", what, term_on(t, TERM_BOLD), time, term_off(t), from_to);
}

/* Was it all as promised, and did each of the three lead once? */
static int judge(demo *d)
{
    static torture_verdict found;
    const term *t = &d->term;
    const torture_reign *r;
    char from_to[96];
    torture_judge(&d->options.setup, &d->outcome.history, &found);
    const torture_report report = {.setup = &d->options.setup,
                                   .history = &d->outcome.history,
                                   .verdict = &found,
                                   .ids = d->options.ids,
                                   .is_whole = true};
    fputc('\n', t->stream);
    torture_picture_text(&report, t);
    fputc('\n', t->stream);
    r = found.reigns;
    bool good = found.reign_count == NODES && r[0].killed && r[1].released && r[2].released;
    if (good) {
        snprintf(from_to, sizeof from_to, "kill -9 to next leader; %.3f s of its lease were left",
                 seconds(r[0].until_ns - r[0].ended_ns));
        show_time(t, "fail-over", r[1].begun_ns - r[0].ended_ns, from_to);
        snprintf(from_to, sizeof from_to, "release by %s to on_acquired in %s", name(d, r[1].contender),
                 name(d, r[2].contender));
        show_time(t, "hand-over", r[2].begun_ns - r[1].ended_ns, from_to);
        fputc('\n', t->stream);
    }
    torture_report_checks(&found, t);
    if (found.kept)
        fprintf(t->stream, "\n  %severy promise was kept%s\n", term_on(t, TERM_GREEN), term_off(t));
    else
        torture_report_findings(&found, t);
    if (!good)
        fprintf(t->stream, "\n  %snot each of the three led once%s\n", term_on(t, TERM_RED), term_off(t));
    for (int n = 0; n < NODES; n++) {
        const torture_node *ended = &d->contenders.nodes[n];
        if (ended->state != NODE_ENDED || ended->status == 0)
            continue;
        good = false;
        fprintf(t->stream, "\n  %s%s did not exit with 0%s\n", term_on(t, TERM_RED), name(d, n), term_off(t));
    }
    const int code = good && found.kept ? CLI_OK : CLI_FAILED;
    torture_verdict_free(&found);
    return code;
}

int cmd_demo(cli_globals *globals, int argc, char **argv)
{
    const cli_syntax syntax = {
        .command = COMMAND,
        .about = "Three processes contend for one mutex. The demo kills the leader, and another takes\n"
                 "over when the lease has ended. Then it asks that one to stop, and the last takes\n"
                 "over at once. The demo judges what it shows as `simba torture` does. Without --url it\n"
                 "uses a SQLite file in a fresh directory; ttl and transition are 1s each by default.\n"
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
    d.options.setup.contenders = NODES;
    d.options.setup.mutexes = 1;
    d.options.report_owners = true;
    d.options.flag = globals->verbose > 1 ? "-vv" : globals->verbose > 0 ? "-v" : NULL;
    for (int n = 0; n < NODES; n++) {
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
    if (code == CLI_GO && play(&d)) {
        code = judge(&d);
    } else if (code == CLI_GO) {
        /* A contender that could not open the store has printed why; use its exit code. */
        const int status = d.broken != TORTURE_NOBODY ? d.contenders.nodes[d.broken].status : 0;
        code = d.outcome.interrupted != 0                              ? CLI_SIGNAL + d.outcome.interrupted
               : WIFEXITED(status) && WEXITSTATUS(status) >= CLI_USAGE ? WEXITSTATUS(status)
                                                                       : CLI_FAILED;
    }
    torture_contenders_end(&d.contenders);
    torture_history_free(&d.outcome.history);
    if (d.dir[0] != '\0')
        nftw(d.dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(d.url);
    return code;
}
