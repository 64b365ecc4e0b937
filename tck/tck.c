/* The runner of the conformance kit: picks the cases that apply to a store, runs one after the other, writes TAP. */
#include <fnmatch.h>
#include <simba/tck.h>
#include <stdlib.h>
#include <time.h>

#include "kit.h"
#include "probe.h"

static const tck_case *const themes[] = {
    tck_cases_lifecycle, tck_cases_callbacks, tck_cases_contention, tck_cases_takeover,
    tck_cases_faults,    tck_cases_pushes,    tck_cases_scheduler,  tck_cases_observer,
    tck_cases_locker,    tck_cases_names,     tck_cases_limits,
};

/* What a store lacks, or has too much of, for a case. */
static const struct {
    unsigned cap;
    const char *without; /* why a case that needs it is skipped */
    const char *with;    /* why a case that cannot have it is */
} reasons[] = {
    {SIMBA_CAP_PUSH, "the store does not push releases", NULL},
    {SIMBA_CAP_PUSH_EVERY, "the store does not push every change", NULL},
    {SIMBA_CAP_SESSION, NULL, "leases of the store are sessions"},
    {SIMBA_CAP_LIST, "the store cannot list and revoke", NULL},
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

static bool is_selected(const tck_case *wanted, const char *only)
{
    return !only || fnmatch(only, wanted->name, 0) == 0;
}

/* Call `visit` for every case, in order. */
static void each_case(void (*visit)(const tck_case *visited, void *user), void *user)
{
    for (size_t i = 0; i < TCK_COUNT_OF(themes); i++)
        for (const tck_case *c = themes[i]; c->name; c++)
            visit(c, user);
}

/* Calls of the library that never return cannot be unwound: when a case takes far too long, say which and abort, so
 * that there is a core to look at and no build that hangs. */
struct watchdog {
    tck *kit;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t bell;
    int64_t deadline_ns; /* of the case that runs; 0: it is time to go */
};

static void *watch(void *arg)
{
    struct watchdog *dog = arg;
    pthread_mutex_lock(&dog->lock);
    while (dog->deadline_ns != 0) {
        if (tck_now_ns() >= dog->deadline_ns) {
            fprintf(dog->kit->out, "Bail out! %s hangs\n", dog->kit->name);
            fflush(dog->kit->out);
            abort();
        }
        const struct timespec at = {dog->deadline_ns / 1000000000, dog->deadline_ns % 1000000000};
        pthread_cond_timedwait(&dog->bell, &dog->lock, &at);
    }
    pthread_mutex_unlock(&dog->lock);
    return NULL;
}

/* Enough for every wait of a case to be in vain. */
static void feed(struct watchdog *dog, int64_t patience_ms)
{
    pthread_mutex_lock(&dog->lock);
    dog->deadline_ns = patience_ms > 0 ? tck_now_ns() + 10 * patience_ms * TCK_NS_PER_MS : 0;
    pthread_cond_signal(&dog->bell);
    pthread_mutex_unlock(&dog->lock);
}

static bool start_watchdog(struct watchdog *dog, tck *kit)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&dog->bell, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&dog->lock, NULL);
    dog->kit = kit;
    feed(dog, kit->patience_ms);
    return pthread_create(&dog->thread, NULL, watch, dog) == 0;
}

static void stop_watchdog(struct watchdog *dog)
{
    feed(dog, 0);
    pthread_join(dog->thread, NULL);
    pthread_cond_destroy(&dog->bell);
    pthread_mutex_destroy(&dog->lock);
}

struct run {
    tck kit;
    const char *only;
    struct watchdog dog;
    unsigned selected, number;
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
    if (!is_selected(wanted, run->only))
        return;
    run->number++;

    const char *reason = why_not(wanted, t->caps);
    if (reason) {
        fprintf(t->out, "ok %u - %s # SKIP %s\n", run->number, wanted->name, reason);
        run->result.skipped++;
        return;
    }

    feed(&run->dog, t->patience_ms);
    tck_begin(t, wanted->name);
    wanted->run(t);
    tck_settle(t);
    if (t->failed) {
        fprintf(t->out, "not ok %u - %s\n#   %s\n", run->number, wanted->name, t->failure);
        tck_probes_dump(t);
        tck_said_dump(t);
        run->result.failed++;
    } else {
        fprintf(t->out, "ok %u - %s\n", run->number, wanted->name);
        run->result.passed++;
    }
    fflush(t->out);
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
    if (options->ttl_ms < 50 || options->transition_ms < 50 || options->patience_ms < 1000)
        return fail(err, SIMBA_EINVAL, "the kit needs ttl and transition of at least 50 ms, and a second of patience");
    if (options->patience_ms < 8 * (options->ttl_ms + options->transition_ms))
        return fail(err, SIMBA_EINVAL, "the kit's patience must be at least eight times ttl + transition");
    return 0;
}

/* A mutex can be had and given back. */
static int try_mutex(simba_client *client, const tck *t, simba_error *err)
{
    char mutex[40];
    snprintf(mutex, sizeof mutex, "tck-%s-first", t->random);
    simba_locker *locker;
    int rc = simba_locker_new(client, mutex, NULL, err, &locker);
    if (rc < 0)
        return rc;
    rc = simba_locker_acquire(locker, 0, err); /* nobody else knows the name */
    if (rc == 0)
        rc = simba_locker_release(locker, err);
    simba_locker_free(locker);
    return rc;
}

/* What is wrong with a URL, or that there is no store behind it, should be said once, and not by every case. */
static int try_store(const tck *t, simba_error *err)
{
    simba_client *client;
    int rc = simba_client_open(t->url, NULL, err, &client);
    if (rc < 0)
        return rc;
    rc = try_mutex(client, t, err);
    simba_client_close(client);
    return rc;
}

/* What the store behind the URL is capable of. */
static int find_caps(const char *url, simba_error *err, unsigned *ret_caps)
{
    simba_url *parsed;
    const int rc = simba_url_parse(url, err, &parsed);
    if (rc < 0)
        return rc;
    *ret_caps = simba_backend_find(simba_url_scheme(parsed))->caps;
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

    struct run run = {.only = options->only};
    tck *t = &run.kit;
    char random[SIMBA_ID_MAX + 1];
    if (simba_id_uuid(random) < 0)
        return fail(err, SIMBA_ESYSTEM, "no randomness");
    snprintf(t->random, sizeof t->random, "%.8s", random);
    t->url = url;
    t->out = options->out ? options->out : stdout;
    t->ttl_ms = options->ttl_ms;
    t->transition_ms = options->transition_ms;
    t->patience_ms = options->patience_ms;
    t->verbose = options->verbose;
    rc = try_store(t, err);
    if (rc == 0)
        rc = find_caps(url, err, &t->caps);
    if (rc < 0)
        return rc;

    if (!start_watchdog(&run.dog, t))
        return fail(err, SIMBA_ESYSTEM, "cannot start a thread");
    each_case(count_case, &run);
    fprintf(t->out, "1..%u\n", run.selected);
    each_case(run_case, &run);
    stop_watchdog(&run.dog);
    if (ret_result)
        *ret_result = run.result;
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
