/* The runner of the conformance kit: picks the cases that apply to a store, runs them one after the other, writes
 * TAP. */
#include <fnmatch.h>
#include <simba/tck.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kit.h"
#include "probe.h"

static const tck_case *const themes[] = {
    tck_cases_lifecycle, tck_cases_callbacks, tck_cases_contention, tck_cases_takeover, tck_cases_faults,
    tck_cases_pushes,    tck_cases_scheduler, tck_cases_observer,   tck_cases_locker,   tck_cases_names,
    tck_cases_limits,    tck_cases_notes,     tck_cases_words,
};

/* Capabilities that a case needs, or that it cannot be run with. */
static const struct {
    unsigned cap;
    const char *without; /* why a case that needs it is skipped */
    const char *with;    /* why a case that does not allow it is skipped */
} reasons[] = {
    {SIMBA_CAP_PUSH, "the store does not push releases", NULL},
    {SIMBA_CAP_PUSH_EVERY, "the store does not push every change", NULL},
    {SIMBA_CAP_SESSION, NULL, "leases of the store are sessions"},
    {SIMBA_CAP_LIST, "the store cannot list and revoke", NULL},
    {SIMBA_CAP_NOTE, "the store keeps no notes", NULL},
};

static const char *why_not(const tck_case *wanted, unsigned caps)
{
    for (size_t i = 0; i < TCK_COUNT_OF(reasons); i++) {
        if ((wanted->needs & reasons[i].cap) && !(caps & reasons[i].cap))
            return reasons[i].without;
        if ((wanted->unless & reasons[i].cap) && (caps & reasons[i].cap))
            return reasons[i].with;
    }
    return NULL;
}

static bool matches(const tck_case *wanted, const char *pattern)
{
    return fnmatch(pattern, wanted->name, 0) == 0;
}

static bool is_selected(const tck_case *wanted, const char *only)
{
    return !only || matches(wanted, only);
}

/* Call `visit` for every case, in order. */
static void each_case(void (*visit)(const tck_case *visited, void *user), void *user)
{
    for (size_t i = 0; i < TCK_COUNT_OF(themes); i++)
        for (const tck_case *c = themes[i]; c->name; c++)
            visit(c, user);
}

/* Calls of the library that never return cannot be unwound. When a case takes far too long, the watchdog names it and
 * aborts: then there is a core to look at, and the build does not hang. */
struct watchdog {
    tck *kit;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int64_t deadline_ns; /* of the case that runs; 0: the watchdog ends */
};

static void *watch(void *arg)
{
    struct watchdog *watchdog = arg;
    pthread_mutex_lock(&watchdog->lock);
    while (watchdog->deadline_ns != 0) {
        if (tck_now_ns() >= watchdog->deadline_ns) {
            fprintf(watchdog->kit->out, "Bail out! %s hangs\n", watchdog->kit->name);
            fflush(watchdog->kit->out);
            abort();
        }
        const struct timespec at = {watchdog->deadline_ns / 1000000000, watchdog->deadline_ns % 1000000000};
        pthread_cond_timedwait(&watchdog->cond, &watchdog->lock, &at);
    }
    pthread_mutex_unlock(&watchdog->lock);
    return NULL;
}

/* Give the case enough time for every one of its waits to be in vain. */
static void feed(struct watchdog *watchdog, int64_t timeout_ms)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->deadline_ns = timeout_ms > 0 ? tck_now_ns() + 10 * timeout_ms * TCK_NS_PER_MS : 0;
    pthread_cond_signal(&watchdog->cond);
    pthread_mutex_unlock(&watchdog->lock);
}

static bool start_watchdog(struct watchdog *watchdog, tck *kit)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog->cond, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&watchdog->lock, NULL);
    watchdog->kit = kit;
    feed(watchdog, kit->timeout_ms);
    return pthread_create(&watchdog->thread, NULL, watch, watchdog) == 0;
}

static void stop_watchdog(struct watchdog *watchdog)
{
    feed(watchdog, 0);
    pthread_join(watchdog->thread, NULL);
    pthread_cond_destroy(&watchdog->cond);
    pthread_mutex_destroy(&watchdog->lock);
}

struct run {
    tck kit;
    const char *only, *except;
    struct watchdog watchdog;
    unsigned selected, number;
    bool over; /* interrupted, and that is said */
    simba_tck_result result;
};

static void count_case(const tck_case *counted, void *user)
{
    struct run *run = user;
    run->selected += is_selected(counted, run->only);
}

static void run_case(const tck_case *wanted, void *user)
{
    struct run *run = user;
    tck *t = &run->kit;
    if (!is_selected(wanted, run->only) || run->over)
        return;
    if (tck_is_interrupted(t)) {
        fprintf(t->out, "Bail out! interrupted before %s\n", wanted->name);
        run->over = true;
        return;
    }
    run->number++;

    const bool is_left_out = run->except && matches(wanted, run->except);
    const char *reason = is_left_out ? "left out by the options" : why_not(wanted, t->caps);
    if (reason) {
        fprintf(t->out, "ok %u - %s # SKIP %s\n", run->number, wanted->name, reason);
        run->result.skipped++;
        return;
    }

    feed(&run->watchdog, t->timeout_ms);
    tck_begin(t, wanted->name);
    if (setjmp(t->given_up) == 0)
        wanted->run(t);
    tck_settle(t);
    if (tck_is_interrupted(t)) {
        fprintf(t->out, "Bail out! interrupted in %s\n", wanted->name);
        run->over = true;
    } else if (t->failed) {
        fprintf(t->out, "not ok %u - %s\n#   %s\n", run->number, wanted->name, t->failure);
        tck_probes_dump(t);
        tck_said_dump(t);
        run->result.failed++;
    } else {
        fprintf(t->out, "ok %u - %s\n", run->number, wanted->name);
        run->result.passed++;
    }
    fflush(t->out);
    tck_probes_forget(t);
    tck_end(t);
}

static int fail(simba_error *err, int code, const char *text)
{
    if (err) {
        err->code = code;
        snprintf(err->text, sizeof err->text, "%s", text);
    }
    return code;
}

static int check_options(const simba_tck_options *options, simba_error *err)
{
    if (options->size != sizeof *options)
        return fail(err, SIMBA_EINVAL, "simba_tck_options.size: initialise with SIMBA_TCK_OPTIONS_INIT");
    if (options->ttl_ms < 50 || options->transition_ms < 50 || options->timeout_ms < 1000)
        return fail(err, SIMBA_EINVAL,
                    "the kit needs ttl and transition of at least 50 ms, and a timeout of at least a second");
    if (options->timeout_ms < 8 * (options->ttl_ms + options->transition_ms))
        return fail(err, SIMBA_EINVAL, "the kit's timeout must be at least eight times ttl + transition");
    return 0;
}

/* --- slots -----------------------------------------------------------------------------------------
 * A store keeps a row for every mutex that it has ever seen, and the kit uses more than a thousand. A run removes them. So that it
 * removes none of a run at the same time, but all of a run that was killed, it has a slot, which is a part of its mutexes'
 * names, and holds the slot's own mutex until it is over. */

#define SLOTS 8

struct slot {
    simba_client *client;
    simba_locker *locker;
};

/* The slot of a killed run stays taken for as long as any lease that the run may have left behind. */
static simba_timing slot_timing(const tck *t)
{
    simba_timing timing = tck_timing_long(t);
    timing.stop_margin_ms = 0;
    timing.transition_ms = 2 * t->timeout_ms;
    return tck_timing_option(t, timing);
}

static int try_slot(tck *t, unsigned number, struct slot *slot, simba_error *err)
{
    char mutex[40];
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    options.timing = slot_timing(t);
    snprintf(t->slot, sizeof t->slot, "%u", number);
    snprintf(mutex, sizeof mutex, "tck-slot-%s", t->slot);
    int rc = simba_locker_new(slot->client, mutex, &options, err, &slot->locker);
    if (rc < 0)
        return rc;
    rc = simba_locker_acquire(slot->locker, 0, err);
    if (rc == 0)
        return 0;
    simba_locker_free(slot->locker);
    slot->locker = NULL;
    return rc;
}

/* Report a bad URL, or a store that cannot be reached, once and here, and not in every case. */
static int take_slot(tck *t, struct slot *slot, simba_error *err)
{
    int rc = simba_client_open(t->url, NULL, err, &slot->client);
    if (rc < 0)
        return rc;
    simba_error taken = {0};
    for (unsigned i = 0; i < SLOTS; i++) {
        rc = try_slot(t, i, slot, &taken);
        if (rc != SIMBA_ETIMEDOUT)
            break;
    }
    if (rc < 0 && err)
        *err = taken;
    return rc;
}

/* 1: the mutex is gone. 0: it was not there, and some stores do not take such a name at all. Otherwise the store's error. */
static int forget(simba_client *client, const char *mutex, simba_error *err)
{
    int rc = simba_client_forget(client, mutex, err);
    if (rc == SIMBA_ESTATE && simba_client_force_release(client, mutex, NULL) == 0)
        rc = simba_client_forget(client, mutex, err); /* it was left by a run that was killed */
    return rc == 0 ? 1 : rc == SIMBA_ENOTFOUND || rc == SIMBA_EINVAL ? 0 : rc;
}

static void gather(const simba_listing *listing, void *user)
{
    fwrite(listing->mutex, strlen(listing->mutex) + 1, 1, user);
}

/* Remove the mutexes of the slot. Returns how many there were, or the store's error. */
static int forget_all(const tck *t, simba_client *client, simba_error *err)
{
    char pattern[16];
    char *names = NULL;
    size_t length = 0;
    int count = 0;
    FILE *to = open_memstream(&names, &length);
    if (!to)
        return fail(err, SIMBA_ENOMEM, "out of memory");
    snprintf(pattern, sizeof pattern, "tck-%s-*", t->slot);
    int rc = simba_client_list(client, pattern, gather, to, err);
    fclose(to);
    for (const char *name = names; rc >= 0 && name < names + length; name += strlen(name) + 1) {
        rc = forget(client, name, err);
        count += rc > 0;
    }
    free(names);
    return rc < 0 ? rc : count;
}

static void tidy_up(const tck *t, simba_client *client)
{
    char widest[SIMBA_MUTEX_BYTES + 1];
    simba_error err = {0};
    tck_mutex_widest(t, widest);
    int rc = forget(client, widest, &err);
    /* Where mutexes are nodes of a tree, a node is shown when the last one below it is gone. */
    for (int rounds = 0; rounds < 4 && rc >= 0; rounds++)
        if ((rc = forget_all(t, client, &err)) == 0)
            return;
    if (rc < 0)
        fprintf(t->out, "# mutexes of the kit stay in the store: %s\n", err.text);
}

static void leave_slot(const tck *t, struct slot *slot)
{
    char mutex[40];
    const bool is_ours = slot->locker != NULL && (t->caps & SIMBA_CAP_NOTE) != 0;
    if (is_ours)
        tidy_up(t, slot->client);
    simba_locker_free(slot->locker);
    snprintf(mutex, sizeof mutex, "tck-slot-%s", t->slot);
    if (is_ours)
        simba_client_forget(slot->client, mutex, NULL); /* unless another run has taken it already */
    simba_client_close(slot->client);
}

/* The capabilities of the store behind the URL. */
static int find_caps(const char *url, simba_error *err, unsigned *ret_caps)
{
    simba_url *parsed;
    const int rc = simba_url_parse(url, err, &parsed);
    if (rc < 0)
        return rc;
    const simba_backend *backend = simba_backend_find(simba_url_scheme(parsed));
    *ret_caps = backend ? backend->caps : 0; /* opening the client reports the mistake */
    simba_url_free(parsed);
    return 0;
}

int simba_tck_run(const char *url, const simba_tck_options *options, simba_error *err, simba_tck_result *ret_result)
{
    static const simba_tck_options defaults = SIMBA_TCK_OPTIONS_INIT;
    if (!options)
        options = &defaults;
    int rc = check_options(options, err);
    if (rc < 0)
        return rc;
    if (!url)
        url = getenv("SIMBA_URL");
    if (!url)
        return fail(err, SIMBA_EINVAL, "the kit needs a URL");

    struct run run = {.only = options->only, .except = options->except};
    struct slot slot = {NULL, NULL};
    tck *t = &run.kit;
    each_case(count_case, &run);
    if (run.selected == 0)
        return fail(err, SIMBA_ENOTFOUND, "no case has a name that matches");
    t->url = url;
    t->out = options->out ? options->out : stdout;
    t->ttl_ms = options->ttl_ms;
    t->transition_ms = options->transition_ms;
    t->timeout_ms = options->timeout_ms;
    t->verbose = options->verbose;
    t->interrupted = options->interrupted;
    rc = find_caps(url, err, &t->caps);
    if (rc == 0)
        rc = take_slot(t, &slot, err);
    if (rc == 0 && !start_watchdog(&run.watchdog, t))
        rc = fail(err, SIMBA_ESYSTEM, "cannot start a thread");
    if (rc < 0) {
        leave_slot(t, &slot);
        return rc;
    }
    fprintf(t->out, "1..%u\n", run.selected);
    each_case(run_case, &run);
    stop_watchdog(&run.watchdog);
    leave_slot(t, &slot);
    if (ret_result)
        *ret_result = run.result;
    if (tck_is_interrupted(t))
        return fail(err, SIMBA_ECANCELED, "the run was interrupted");
    return run.result.failed > 0;
}

static void print_name(const tck_case *printed, void *user)
{
    fprintf(user, "%s\n", printed->name);
}

void simba_tck_list(FILE *out)
{
    each_case(print_name, out);
}
