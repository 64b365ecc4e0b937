/* `simba torture-contender`, not for people: one contender process of `simba torture` and `simba demo`. It contends for all mutexes, and its
 * "work" is to look at its lease, again and again, as a program does before it acts. It reports each look as a line of a
 * history, see history.h. SIGUSR1: it hands over and contends again. SIGTERM: it stops and ends. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"
#include "torture/history.h"
#include "torture/torture.h"

#define COMMAND "torture-contender"
#define LOOK_MS 5                    /* how often it looks */
#define REPORT_NS (50 * MS)          /* how many looks one line sums up */
#define MOVED_NS (2 * MS)            /* a lease that ends later than this was renewed */
#define LATE_NS (100 * MS)           /* a look that is later than this was held up by the host */
#define STATS_NS (100 * MS)          /* how often it asks whether the store has failed requests */
#define UNTIL_MAX_NS (86400000 * MS) /* a day: leases that are longer are reported as that long */

typedef struct watched {
    struct process *process;
    unsigned mutex;
    simba_contender *contender;
    bool acts;             /* between on_acquired and on_released */
    torture_event pending; /* looks that were not reported yet; token 0: none */
    int64_t until_ns;      /* the end of the lease that was reported last */
} watched;

typedef struct process {
    simba_client *client;
    int number;
    unsigned life;
    int64_t epoch_ns;
    bool reports_owners;
    pthread_mutex_t lock; /* callbacks come on other threads */
    watched mutexes[TORTURE_MUTEXES_MAX];
    unsigned count;
    int64_t looked_ns; /* when it looked last */
    int64_t asked_ns;  /* when it last asked for statistics */
    uint64_t errors;
} process;

static int64_t now_ns(const process *p)
{
    return clock_boot_ns() - p->epoch_ns;
}

/* One write per line, which a pipe keeps whole whichever threads write. */
static void report(const process *p, torture_event event)
{
    char line[TORTURE_LINE_MAX];
    event.contender = p->number;
    event.life = p->life;
    const size_t length = torture_event_write(&event, line);
    if (write(STDOUT_FILENO, line, length) != (ssize_t)length)
        _exit(CLI_FAILED); /* nobody listens any more */
}

/* --- looking --------------------------------------------------------------------------------------- */

static void report_pending(watched *at)
{
    if (at->pending.token == 0)
        return;
    report(at->process, at->pending);
    at->until_ns = at->pending.until_ns;
    at->pending.token = 0;
}

/* Looks at the lease, as a program does before it acts. It reads the clock before the lease, so that the end that is
 * reported is never later than the truth, and again after it, so that nothing is claimed of the time before the lease was
 * seen. With the lock. */
static void look(watched *at)
{
    simba_lease lease = SIMBA_LEASE_INIT;
    if (!at->acts)
        return;
    const int64_t before_ns = now_ns(at->process);
    if (simba_contender_lease(at->contender, &lease) < 0 || lease.token == 0 || lease.held_for_ms <= 0) {
        report_pending(at);
        return;
    }
    const int64_t after_ns = now_ns(at->process);
    const int64_t held_ns = lease.held_for_ms < UNTIL_MAX_NS / MS ? lease.held_for_ms * MS : UNTIL_MAX_NS;
    torture_event *pending = &at->pending;
    if (pending->token != 0 && pending->token != lease.token)
        report_pending(at);
    if (pending->token == 0)
        *pending = (torture_event){
            .kind = TORTURE_HOLDS, .at_ns = before_ns, .seen_ns = after_ns, .mutex = at->mutex, .token = lease.token};
    pending->to_ns = before_ns;
    if (before_ns + held_ns > pending->until_ns)
        pending->until_ns = before_ns + held_ns;
    if (pending->until_ns > at->until_ns + MOVED_NS || before_ns - pending->at_ns >= REPORT_NS)
        report_pending(at);
}

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    watched *at = user;
    (void)contender;
    (void)state;
    pthread_mutex_lock(&at->process->lock);
    at->acts = true;
    at->until_ns = 0;
    look(at);
    pthread_mutex_unlock(&at->process->lock);
}

/* The mutex is given back after this has returned, and nothing is done as leader any more. */
static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    watched *at = user;
    torture_event event = {.kind = TORTURE_RELEASED, .mutex = at->mutex, .token = state->before.token};
    (void)contender;
    pthread_mutex_lock(&at->process->lock);
    report_pending(at);
    at->acts = false;
    event.at_ns = now_ns(at->process);
    snprintf(event.what, sizeof event.what, "%s", simba_reason_name(reason));
    report(at->process, event);
    pthread_mutex_unlock(&at->process->lock);
}

static void on_changed(simba_contender *contender, const simba_state *state, void *user)
{
    const watched *at = user;
    torture_event event = {.kind = TORTURE_SEES, .mutex = at->mutex, .token = state->after.token};
    (void)contender;
    event.at_ns = now_ns(at->process);
    snprintf(event.what, sizeof event.what, "%s", state->after.id);
    report(at->process, event);
}

/* Was this process held up, and did the store fail requests? */
static void look_around(process *p)
{
    simba_stats stats = SIMBA_STATS_INIT;
    const int64_t at_ns = now_ns(p);
    if (at_ns - p->looked_ns > LATE_NS)
        report(p, (torture_event){.kind = TORTURE_LATE, .at_ns = p->looked_ns, .to_ns = at_ns});
    p->looked_ns = at_ns;
    if (at_ns - p->asked_ns < STATS_NS || simba_client_stats(p->client, &stats) < 0)
        return;
    if (stats.errors > p->errors)
        report(p, (torture_event){.kind = TORTURE_FAILED, .at_ns = p->asked_ns, .to_ns = at_ns});
    p->errors = stats.errors;
    p->asked_ns = at_ns;
}

/* --- contending ------------------------------------------------------------------------------------- */

static int start(process *p)
{
    int code = 0;
    report(p, (torture_event){.kind = TORTURE_CONTENDS, .at_ns = now_ns(p)});
    for (unsigned i = 0; i < p->count && code == 0; i++)
        code = simba_contender_start(p->mutexes[i].contender);
    p->looked_ns = now_ns(p); /* stopping took its time, and that was not the host's fault */
    return code;
}

static void stop(process *p)
{
    for (unsigned i = 0; i < p->count; i++)
        (void)simba_contender_stop(p->mutexes[i].contender); /* a store that cannot be reached is to be expected here */
    report(p, (torture_event){.kind = TORTURE_STOPPED, .at_ns = now_ns(p)});
}

static int contend(process *p, const sigset_t *orders)
{
    const struct timespec pause = {0, LOOK_MS * MS};
    int code = start(p);
    while (code == 0) {
        const int number = sigtimedwait(orders, NULL, &pause);
        if (number == SIGTERM)
            break;
        pthread_mutex_lock(&p->lock);
        for (unsigned i = 0; i < p->count; i++)
            look(&p->mutexes[i]);
        look_around(p);
        pthread_mutex_unlock(&p->lock);
        if (number == SIGUSR1) {
            stop(p);
            code = start(p);
        }
    }
    stop(p);
    return code;
}

static int make_contenders(process *p, char **mutexes, const char *id, simba_error *error)
{
    int code = 0;
    for (unsigned i = 0; i < p->count && code == 0; i++) {
        simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
        watched *at = &p->mutexes[i];
        at->process = p;
        at->mutex = i;
        options.id = id;
        options.on_acquired = on_acquired;
        options.on_released = on_released;
        options.on_changed = p->reports_owners ? on_changed : NULL;
        options.user = at;
        code = simba_contender_new(p->client, mutexes[i], &options, error, &at->contender);
    }
    return code;
}

int cmd_torture_contender(cli_globals *globals, int argc, char **argv)
{
    uint64_t number = 0;
    uint64_t life = 0;
    uint64_t epoch_ns = 0;
    static process p = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const cli_option own[] = {
        {"number", 0, CLI_NUMBER, "N", "Which contender it is", &number},
        {"life", 0, CLI_NUMBER, "N", "How often it was started before", &life},
        {"epoch", 0, CLI_NUMBER, "NS", "When the run began", &epoch_ns},
        {"report-owners", 0, CLI_FLAG, NULL, "Report whom it takes for the leader, too", &p.reports_owners},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX...",
        .about =
            "Used by `simba torture` and `simba demo`: contends until SIGTERM and prints events for a program to read.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_ALL,
        .min_operands = 1,
        .max_operands = TORTURE_MUTEXES_MAX,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (number >= TORTURE_CONTENDERS_MAX || life > UINT32_MAX || epoch_ns > (uint64_t)clock_boot_ns())
        return cli_usage_error(COMMAND, "it is started by `simba torture`, not by hand");
    p.number = (int)number;
    p.life = (unsigned)life;
    p.epoch_ns = (int64_t)epoch_ns;
    p.count = (unsigned)argc;

    /* Before the library makes threads, so that the signals find nobody but sigtimedwait. */
    sigset_t orders;
    sigemptyset(&orders);
    sigaddset(&orders, SIGTERM);
    sigaddset(&orders, SIGUSR1);
    sigprocmask(SIG_BLOCK, &orders, NULL);

    globals->quiet = true; /* a store out of reach is no news here: torture cuts the contender off */
    const int opened = cli_open(COMMAND, globals, &p.client);
    if (opened != CLI_GO)
        return opened;
    simba_error error = {0, ""};
    error.code = make_contenders(&p, argv, globals->id, &error);
    if (error.code == 0)
        error.code = contend(&p, &orders);
    for (unsigned i = 0; i < p.count; i++)
        simba_contender_free(p.mutexes[i].contender);
    simba_client_close(p.client);
    return error.code == 0 ? CLI_OK : cli_failure(COMMAND, &error);
}
