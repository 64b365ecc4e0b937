/* See kit.h. */
#include "kit.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How often a wait looks again without having been woken: some conditions of cases notify nobody. */
#define GLANCE_NS (3 * TCK_NS_PER_MS)

struct tck_cleanup {
    tck_cleanup *next;
    void (*interrupt)(void *arg);
    void (*destroy)(void *arg);
    void *arg;
};

struct tck_thread {
    tck_thread *next;
    pthread_t thread;
    void (*run)(void *arg);
    void *arg;
    bool joined;
};

/* --- checks and waiting ------------------------------------------------------------------------- */

static void record(tck *t, const char *file, int line, const char *format, va_list args)
{
    if (t->failed)
        return;
    const char *base = file ? strrchr(file, '/') : NULL;
    const int used = file ? snprintf(t->failure, sizeof t->failure, "%s:%d: ", base ? base + 1 : file, line) : 0;
    vsnprintf(t->failure + used, sizeof t->failure - (size_t)used, format, args);
    t->failed = true;
    pthread_cond_broadcast(&t->changed);
}

void tck_fail(tck *t, const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tck_lock(t);
    record(t, file, line, format, args);
    tck_unlock(t);
    va_end(args);
}

void tck_fail_locked(tck *t, const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(t, file, line, format, args);
    va_end(args);
}

void tck_give_up(tck *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tck_lock(t);
    record(t, NULL, 0, format, args);
    tck_unlock(t);
    va_end(args);
    longjmp(t->given_up, 1);
}

const char *tck_code(int code)
{
    return code == 0 ? "0" : simba_error_name(code);
}

void tck_lock(tck *t)
{
    pthread_mutex_lock(&t->lock);
}

void tck_unlock(tck *t)
{
    pthread_mutex_unlock(&t->lock);
}

void tck_notify(tck *t)
{
    pthread_cond_broadcast(&t->changed);
}

static void notify(void *user)
{
    tck_notify(user);
}

int64_t tck_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

bool tck_is_interrupted(const tck *t)
{
    return t->interrupted &&
           __atomic_load_n(t->interrupted, __ATOMIC_RELAXED) != 0; /* a handler may run on any thread */
}

bool tck_pause(tck *t, int64_t deadline_ns)
{
    const int64_t now = tck_now_ns();
    if (now >= deadline_ns || t->failed || t->ending || tck_is_interrupted(t))
        return false;
    const int64_t until = deadline_ns - now < GLANCE_NS ? deadline_ns : now + GLANCE_NS;
    const struct timespec at = {until / 1000000000, until % 1000000000};
    pthread_cond_timedwait(&t->changed, &t->lock, &at);
    return true;
}

/* --- leases ------------------------------------------------------------------------------------- */

simba_timing tck_timing(const tck *t)
{
    return (simba_timing){
        .ttl_ms = t->ttl_ms,
        .transition_ms = t->transition_ms,
        .initial_delay_ms = 0,
        .stop_margin_ms = t->transition_ms / 4,
        .hold_limit_ms = 0,
        .jitter_min_ms = t->transition_ms > 0 ? -t->ttl_ms / 8 : 0,
        .jitter_max_ms = t->ttl_ms / 4,
    };
}

simba_timing tck_timing_steady(const tck *t)
{
    simba_timing timing = tck_timing(t);
    if (t->caps & SIMBA_CAP_PUSH)
        timing.transition_ms = t->timeout_ms;
    return timing;
}

simba_timing tck_timing_long(const tck *t)
{
    simba_timing timing = tck_timing(t);
    timing.ttl_ms = t->timeout_ms;
    timing.transition_ms = t->timeout_ms;
    return timing;
}

simba_timing tck_timing_option(const tck *t, simba_timing timing)
{
    if (t->caps & SIMBA_CAP_SESSION)
        timing.ttl_ms = timing.transition_ms = SIMBA_INHERIT;
    return timing;
}

/* --- what a case makes -------------------------------------------------------------------------- */

static void *must_alloc(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory) {
        fputs("Bail out! out of memory\n", stderr);
        abort();
    }
    return memory;
}

void tck_defer(tck *t, void (*interrupt)(void *arg), void (*destroy)(void *arg), void *arg)
{
    tck_cleanup *cleanup = must_alloc(sizeof *cleanup);
    cleanup->interrupt = interrupt;
    cleanup->destroy = destroy;
    cleanup->arg = arg;
    tck_lock(t);
    cleanup->next = t->cleanups;
    t->cleanups = cleanup;
    tck_unlock(t);
}

/* A cleanup that runs at the very end. */
static void free_memory(void *memory)
{
    free(memory);
}

void *tck_alloc(tck *t, size_t size)
{
    void *memory = must_alloc(size);
    tck_defer(t, NULL, free_memory, memory);
    return memory;
}

static void on_log(void *user, simba_log_level level, const char *text)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    tck *t = user;
    if (t->verbose)
        fprintf(t->out, "# %s: %s\n", names[level], text);
    if (level > SIMBA_LOG_WARN)
        return;
    char said[sizeof *t->said.texts];
    snprintf(said, sizeof said, "%s: %s", names[level], text);
    pthread_mutex_lock(&t->said.lock);
    const size_t most = TCK_COUNT_OF(t->said.texts);
    if (t->said.count == 0 || strcmp(t->said.texts[(t->said.count - 1) % most], said) != 0)
        strcpy(t->said.texts[t->said.count++ % most], said);
    pthread_mutex_unlock(&t->said.lock);
}

void tck_said_dump(tck *t)
{
    const unsigned most = TCK_COUNT_OF(t->said.texts);
    pthread_mutex_lock(&t->said.lock);
    for (unsigned i = t->said.count > most ? t->said.count - most : 0; i < t->said.count; i++)
        fprintf(t->out, "#   a client said: %s\n", t->said.texts[i % most]);
    pthread_mutex_unlock(&t->said.lock);
}

static simba_client_options usual_options(tck *t, int64_t op_timeout_ms)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.timing = tck_timing_option(t, tck_timing(t));
    if (op_timeout_ms > 0)
        options.op_timeout_ms = op_timeout_ms;
    options.log = on_log;
    options.log_user = t;
    if (t->verbose)
        options.log_level = SIMBA_LOG_DEBUG;
    return options;
}

static tck_client *open_client(tck *t, const char *url, tck_fault *fault, const simba_client_options *options)
{
    simba_error err = {0};
    simba_client *handle;
    const int rc = simba_client_open(url, options, &err, &handle);
    if (rc < 0) {
        tck_fault_free(fault);
        tck_give_up(t, "cannot open a client: %s: %s", tck_code(rc), err.text);
    }
    tck_client *client = must_alloc(sizeof *client);
    client->kit = t;
    client->handle = handle;
    client->fault = fault;
    client->next = t->clients;
    t->clients = client;
    return client;
}

tck_client *tck_client_new(tck *t)
{
    const simba_client_options options = usual_options(t, 0);
    return open_client(t, t->url, NULL, &options);
}

static tck_client *open_faulty(tck *t, const simba_client_options *options)
{
    simba_error err = {0};
    tck_fault *fault;
    const int rc = tck_fault_new(t->url, notify, t, &err, &fault);
    if (rc < 0)
        tck_give_up(t, "cannot wrap the store: %s: %s", tck_code(rc), err.text);
    return open_client(t, tck_fault_url(fault), fault, options);
}

tck_client *tck_client_faulty(tck *t, int64_t op_timeout_ms)
{
    const simba_client_options options = usual_options(t, op_timeout_ms);
    return open_faulty(t, &options);
}

tck_client *tck_client_heard(tck *t, simba_log_record_fn hear, void *user)
{
    simba_client_options options = usual_options(t, 0);
    options.log_record = hear;
    options.log_user = user;
    options.log_level = SIMBA_LOG_INFO;
    return open_faulty(t, &options);
}

tck_client *tck_client_nervous(tck *t)
{
    return tck_client_faulty(t, tck_lease_ms(t) / 4);
}

tck_client *tck_client_patient(tck *t)
{
    return tck_client_faulty(t, t->timeout_ms);
}

int tck_client_close(tck_client *client)
{
    const int rc = simba_client_close(client->handle);
    client->handle = NULL;
    return rc;
}

simba_stats tck_client_stats(const tck_client *client)
{
    simba_stats stats = SIMBA_STATS_INIT;
    simba_client_stats(client->handle, &stats);
    return stats;
}

bool tck_outlive(tck_client *client, unsigned renewals)
{
    tck *t = client->kit;
    if (t->caps & SIMBA_CAP_SESSION)
        return !TCK_WAIT_UNTIL(t, t->failed, renewals * t->ttl_ms);
    const uint64_t enough = tck_client_count(client, SIMBA_OP_RENEW, TCK_WON) + renewals;
    return TCK_WAIT_UNTIL(t, tck_client_count(client, SIMBA_OP_RENEW, TCK_WON) >= enough, t->timeout_ms);
}

static void *thread_main(void *arg)
{
    tck_thread *thread = arg;
    thread->run(thread->arg);
    return NULL;
}

void tck_thread_run(tck *t, void (*run)(void *arg), void *arg)
{
    tck_thread *thread = must_alloc(sizeof *thread);
    thread->run = run;
    thread->arg = arg;
    if (pthread_create(&thread->thread, NULL, thread_main, thread) != 0) {
        free(thread);
        tck_give_up(t, "cannot start a thread");
    }
    thread->next = t->threads;
    t->threads = thread;
}

void tck_threads_join(tck *t)
{
    for (tck_thread *thread = t->threads; thread; thread = thread->next) {
        if (!thread->joined)
            pthread_join(thread->thread, NULL);
        thread->joined = true;
    }
}

const char *tck_mutex(tck *t, const char *suffix)
{
    char *name = tck_alloc(t, SIMBA_MUTEX_BYTES + 1);
    snprintf(name, SIMBA_MUTEX_BYTES + 1, "tck-%s-%s%s%s", t->slot, t->name, suffix ? "-" : "", suffix ? suffix : "");
    return name;
}

void tck_mutex_widest(const tck *t, char ret_name[SIMBA_MUTEX_BYTES + 1])
{
    char *end = ret_name;
    for (const char *digit = t->slot; *digit; digit++, end += 4)
        memcpy(end, (char[]){'\xF0', '\x9F', '\x98', (char)(0x80 + *digit % 0x40)}, 4);
    for (; end < ret_name + SIMBA_MUTEX_BYTES; end += 4)
        memcpy(end, "\U0001F512", 4);
    *end = '\0';
}

/* --- begin and end of a case -------------------------------------------------------------------- */

void tck_begin(tck *t, const char *name)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&t->lock, NULL);
    pthread_mutex_init(&t->said.lock, NULL);
    t->said.count = 0;
    t->name = name;
    t->began_ns = tck_now_ns();
    t->ending = t->failed = false;
    t->clients = NULL;
    t->probes = NULL;
    t->cleanups = NULL;
    t->threads = NULL;
}

/* Interrupt everything that may keep a thread waiting. */
static void interrupt_all(tck *t)
{
    tck_lock(t);
    t->ending = true;
    tck_notify(t);
    tck_unlock(t);
    for (tck_client *client = t->clients; client; client = client->next)
        if (client->fault && client->handle)
            tck_fault_heal(client->fault);
    for (tck_cleanup *cleanup = t->cleanups; cleanup; cleanup = cleanup->next)
        if (cleanup->interrupt)
            cleanup->interrupt(cleanup->arg);
}

static void free_threads(tck *t)
{
    while (t->threads) {
        tck_thread *thread = t->threads;
        t->threads = thread->next;
        free(thread);
    }
}

/* Free handles before their clients, and plain memory after them, because callbacks may still look at it. */
static void run_cleanups(tck *t, bool memory)
{
    for (tck_cleanup **at = &t->cleanups; *at;) {
        tck_cleanup *cleanup = *at;
        if ((cleanup->destroy == free_memory) != memory) {
            at = &cleanup->next;
            continue;
        }
        *at = cleanup->next;
        cleanup->destroy(cleanup->arg);
        free(cleanup);
    }
}

static void close_clients(tck *t)
{
    while (t->clients) {
        tck_client *client = t->clients;
        t->clients = client->next;
        if (client->handle) {
            const int rc = simba_client_close(client->handle);
            if (rc != 0)
                tck_fail(t, __FILE__, __LINE__, "simba_client_close is %s, not 0", tck_code(rc));
        }
        if (client->fault && tck_fault_count(client->fault, TCK_ANY_OP, TCK_BREACHES) > 0)
            tck_fail(t, __FILE__, __LINE__, "the store did not let go of a request that it was told to cancel");
        tck_fault_free(client->fault);
        free(client);
    }
}

void tck_settle(tck *t)
{
    interrupt_all(t);
    tck_threads_join(t);
    free_threads(t);
    run_cleanups(t, false);
    close_clients(t);
}

void tck_end(tck *t)
{
    run_cleanups(t, true);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->said.lock);
    pthread_mutex_destroy(&t->lock);
}

/* --- lockers ------------------------------------------------------------------------------------ */

static void cancel_locker(void *arg)
{
    simba_locker_cancel(arg);
}

static void free_locker(void *arg)
{
    simba_locker_free(arg);
}

simba_locker *tck_locker_new(tck *t, tck_client *client, const char *mutex, simba_timing timing)
{
    return tck_locker_slots(t, client, mutex, timing, 0);
}

simba_locker *tck_locker_slots(tck *t, tck_client *client, const char *mutex, simba_timing timing, int slots)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    options.slots = slots;
    options.timing = tck_timing_option(t, timing);
    simba_error err = {0};
    simba_locker *locker;
    const int rc = simba_locker_new(client->handle, mutex, &options, &err, &locker);
    if (rc < 0)
        tck_give_up(t, "simba_locker_new is %s: %s", tck_code(rc), err.text);
    tck_defer(t, cancel_locker, free_locker, locker);
    return locker;
}
