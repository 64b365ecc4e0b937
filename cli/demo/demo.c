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
#include <unistd.h>

#include "cli.h"
#include "demo/demo.h"
#include "secret.h"

#define LEASE_MS 1000    /* ttl and transition, unless the options or the URL say otherwise */
#define PATIENCE_MS 5000 /* for steps that should take milliseconds */
#define DWELL_MS 1000    /* leadership long enough to be seen */

typedef struct demo {
    demo_cast cast;
    term term;
    simba_timing timing;   /* as asked for, and then as the client has it */
    const char *event_log; /* NULL: none */
    int64_t start_ns;
    char dir[512]; /* our own store; "": the store is the user's */
    char mutex[32];
} demo;

/* --- the store ---------------------------------------------------------------------------------- */

/* The path may contain characters that a URL may not. */
static void write_url(const char *path, char *ret_url, size_t size)
{
    size_t length = (size_t)snprintf(ret_url, size, "sqlite://");
    for (const unsigned char *c = (const unsigned char *)path; *c != '\0' && length + 4 < size; c++) {
        const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                           strchr("/-._~", *c) != NULL;
        length += (size_t)snprintf(ret_url + length, size - length, plain ? "%c" : "%%%02X", *c);
    }
}

static int make_store(demo *d)
{
    const char *tmp = getenv("TMPDIR");
    char path[600];
    char url[2048];
    snprintf(d->dir, sizeof d->dir, "%s/simba-demo-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(d->dir) == NULL) {
        cli_say("demo", "no directory for the store could be made in %s: %s.", d->dir, strerror(errno));
        d->dir[0] = '\0';
        return CLI_FAILED;
    }
    snprintf(path, sizeof path, "%s/demo.db", d->dir);
    write_url(path, url, sizeof url);
    setenv("SIMBA_URL", url, 1);
    return CLI_GO;
}

/* The contenders find the URL in their environment, where a password in it is not visible as it would be in their
 * arguments. */
static int choose_store(demo *d, const cli_globals *globals)
{
    char id[SIMBA_ID_MAX + 1];
    if (globals->url == NULL) {
        snprintf(d->mutex, sizeof d->mutex, "demo");
        return make_store(d);
    }
    if (simba_id_uuid(id) < 0) {
        cli_say("demo", "the system has no randomness to give.");
        return CLI_FAILED;
    }
    snprintf(d->mutex, sizeof d->mutex, "demo-%.12s", id);
    setenv("SIMBA_URL", globals->url, 1);
    secret_hide((char *)globals->url); /* among the arguments of this process it would be on show as well */
    return CLI_GO;
}

static int try_mutex(demo *d, simba_client *client)
{
    simba_locker *locker = NULL;
    simba_error error = {0, ""};
    simba_settings settings = SIMBA_SETTINGS_INIT;
    if (simba_client_settings(client, &settings) == 0 && settings.reach == SIMBA_REACH_PROCESS)
        return cli_usage_error("demo", "such a store lives inside one process, and this takes three");
    d->timing = settings.timing;
    error.code = simba_locker_new(client, d->mutex, NULL, &error, &locker);
    if (error.code == 0)
        error.code = simba_locker_acquire(locker, 0, &error);
    simba_locker_free(locker); /* gives it back */
    return error.code == 0 ? CLI_GO : cli_failure("demo", &error);
}

/* Open the store and take the mutex once: then a problem with the options, the store or the password is reported
 * once, with its exit code. The contenders would report it three times. */
static int try_store(demo *d, const cli_globals *globals)
{
    cli_globals tried = *globals;
    simba_client *client = NULL;
    tried.url = NULL; /* it is in the environment */
    tried.ttl_ms = d->timing.ttl_ms;
    tried.transition_ms = d->timing.transition_ms;
    tried.quiet = true;
    const int opened = cli_open("demo", &tried, &client);
    if (opened != CLI_GO)
        return opened;
    const int code = try_mutex(d, client);
    simba_client_close(client);
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

/* --- telling ------------------------------------------------------------------------------------ */

static void log_kill(const demo *d, const demo_event *event)
{
    FILE *log = fopen(d->event_log, "ae");
    if (log == NULL)
        return;
    fprintf(log, "%lld %s/%s killed\n", (long long)event->at_ns, d->mutex, d->cast.nodes[event->node].name);
    fclose(log);
}

static void show_event(const demo_event *event, void *user)
{
    const demo *d = user;
    if (event->kind == DEMO_KILLED && d->event_log != NULL)
        log_kill(d, event); /* it cannot say so itself */
    demo_show_event(&d->term, &d->cast, event, d->start_ns);
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

static const char *name(const demo *d, int node)
{
    return d->cast.nodes[node].name;
}

/* Wait, or report what it waited for in vain. True: go on. */
static bool await(demo *d, demo_condition condition, int64_t patience_ms, const char *what)
{
    const demo_cast *cast = &d->cast;
    if (ferror(d->term.stream))
        return false; /* nobody watches */
    switch (demo_cast_await(&d->cast, condition, patience_ms)) {
    case DEMO_DONE:
        return true;
    case DEMO_LATE:
        say(d, "Gave up: within %.1f s it did not happen that %s.", (double)patience_ms / 1e3, what);
        return false;
    case DEMO_BROKEN:
        say(d, "Gave up: %s %s while waiting until %s.", name(d, cast->broken), cast->broken_text, what);
        return false;
    case DEMO_INTERRUPTED:
        say(d, "Interrupted; tidying up.");
        return false;
    }
    return false;
}

static bool dwell(demo *d)
{
    return await(d, NULL, DWELL_MS, "some time had passed");
}

/* --- the story ---------------------------------------------------------------------------------- */

static bool leads_and_all_know(const demo_cast *cast)
{
    for (int n = 0; n < DEMO_NODES; n++) {
        const demo_node *node = &cast->nodes[n];
        if (!node->may_end && (!node->ready || node->sees != cast->leader))
            return false;
    }
    return cast->leader != DEMO_NOBODY;
}

static bool leader_has_renewed(const demo_cast *cast)
{
    return cast->leader != DEMO_NOBODY && cast->nodes[cast->leader].renewals > 0;
}

static bool somebody_leads(const demo_cast *cast)
{
    return cast->leader != DEMO_NOBODY;
}

/* The processes that were asked to end have ended: the pipe is read to its end. */
static bool the_asked_have_ended(const demo_cast *cast)
{
    for (int n = 0; n < DEMO_NODES; n++) {
        if (cast->nodes[n].may_end && cast->nodes[n].fd >= 0)
            return false;
    }
    return true;
}

static bool next_leads_and_asked_have_ended(const demo_cast *cast)
{
    return cast->leader != DEMO_NOBODY && !cast->nodes[cast->leader].may_end && the_asked_have_ended(cast);
}

static bool act_one_contend(demo *d, const cli_globals *globals)
{
    say(d,
        "Three processes contend for the mutex \"%s\" in %s. The leader renews its lease every %g s (ttl); should it"
        " fail to, the others wait for another %g s (transition).",
        d->mutex, d->dir[0] != '\0' ? "a fresh SQLite file" : "your store", (double)d->timing.ttl_ms / 1e3,
        (double)d->timing.transition_ms / 1e3);
    const int code = demo_cast_start(&d->cast, d->mutex, &d->timing, globals);
    if (code < 0) {
        say(d, "Gave up: the processes could not be started: %s.", strerror(-code));
        return false;
    }
    return await(d, leads_and_all_know, PATIENCE_MS, "one process leads and the others know it");
}

static bool act_two_kill(demo *d)
{
    say(d, "%s leads. It keeps the mutex by renewing its lease in time; the others wait.", name(d, d->cast.leader));
    if (!await(d, leader_has_renewed, d->timing.ttl_ms + PATIENCE_MS, "the leader renews its lease"))
        return false;
    const int victim = d->cast.leader;
    say(d, "Now %s is killed with SIGKILL. It can tell nobody, so the others have to wait until its lease is over.",
        name(d, victim));
    demo_cast_kill(&d->cast, victim);
    return await(d, somebody_leads, demo_failover_limit_ms(&d->timing) + PATIENCE_MS, "another process takes over");
}

static bool act_three_hand_over(demo *d)
{
    if (!dwell(d) || !await(d, leads_and_all_know, PATIENCE_MS, "the waiting process knows the new leader"))
        return false;
    const int leader = d->cast.leader;
    say(d, "%s took over. Now it is asked to stop: it tidies up and gives the mutex back, and who waits is woken.",
        name(d, leader));
    demo_cast_stop(&d->cast, leader);
    return await(d, next_leads_and_asked_have_ended, demo_failover_limit_ms(&d->timing) + PATIENCE_MS,
                 "the last process leads and the one before has ended");
}

static bool act_four_end(demo *d)
{
    if (!dwell(d))
        return false;
    if (!somebody_leads(&d->cast)) {
        say(d, "Gave up: the last process lost the mutex, although nobody else wanted it.");
        return false;
    }
    say(d, "%s leads, alone. It is asked to stop as well.", name(d, d->cast.leader));
    demo_cast_stop(&d->cast, d->cast.leader);
    return await(d, the_asked_have_ended, PATIENCE_MS, "the last process has ended");
}

/* A contender that could not open the store has said why; use its exit code. */
static int failure_code(const demo_cast *cast)
{
    if (cast->interrupted != 0)
        return 128 + cast->interrupted;
    if (cast->broken != DEMO_NOBODY && cast->nodes[cast->broken].ended) {
        const int status = cast->nodes[cast->broken].exit_status;
        if (WIFEXITED(status) && WEXITSTATUS(status) >= CLI_USAGE)
            return WEXITSTATUS(status);
    }
    return CLI_FAILED;
}

static int play(demo *d, const cli_globals *globals)
{
    demo_verdict verdict;
    const bool told = act_one_contend(d, globals) && act_two_kill(d) && act_three_hand_over(d) && act_four_end(d);
    if (!told)
        return failure_code(&d->cast);
    demo_judge(&d->cast, &d->timing, &verdict);
    demo_show_timeline(&d->term, &d->cast, d->start_ns);
    demo_show_verdict(&d->term, &d->cast, &verdict);
    return verdict.passed ? CLI_OK : CLI_FAILED;
}

int cmd_demo(cli_globals *globals, int argc, char **argv)
{
    const cli_syntax syntax = {
        .command = "demo",
        .about = "Three processes contend for one mutex. The demo kills the leader, and another takes\n"
                 "over when the lease has ended. Then it asks that one to stop, and the last takes\n"
                 "over at once. The demo checks everything that it shows. Without --url it uses a\n"
                 "SQLite file in a fresh directory; ttl and transition are 1s each by default.\n"
                 "Takes about five seconds.",
        .takes = CLI_TAKES_URL | CLI_TAKES_TIMING | CLI_TAKES_EVENTS,
    };
    static demo d;
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;

    term_open(stdout, &d.term);
    d.event_log = globals->event_log;
    d.timing.ttl_ms = cli_duration(globals->ttl_ms, globals->url, "ttl", LEASE_MS);
    d.timing.transition_ms = cli_duration(globals->transition_ms, globals->url, "transition", LEASE_MS);
    int code = demo_cast_init(&d.cast);
    if (code < 0) {
        cli_say("demo", "signals cannot be watched: %s.", strerror(-code));
        return CLI_FAILED;
    }
    d.cast.show = show_event;
    d.cast.show_user = &d;
    code = choose_store(&d, globals);
    if (code == CLI_GO)
        code = try_store(&d, globals);
    if (code == CLI_GO) {
        d.start_ns = demo_now_ns();
        code = play(&d, globals);
    }
    demo_cast_end(&d.cast);
    remove_store(&d);
    return code;
}
