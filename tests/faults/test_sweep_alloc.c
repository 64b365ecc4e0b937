/* What happens when memory runs out, at every place where it can: a scenario that uses all doors of the library is
 * played again and again, and each time another allocation fails, until it was played without one that did. Whatever
 * could not be made is made again, so the scenario always runs to its end: one failed allocation may cost time, never
 * more.
 *
 * The same with a row of allocations that fail, and with those of SQLite; with a URL as its argument, over that store. */
#include <simba.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/failing_alloc.h"
#include "lib/referee.h"

#define LONG_MS (ref_scaled_ms(20000)) /* for what must happen */
#define MUTEX "sweep"

enum { WATCHDOG_S = 60, STRIDED_ROUNDS = 60, GIVEN_ROUNDS = 20 };

typedef struct play {
    char url[160];
    unsigned retries; /* how often in a row something may fail for want of memory */
    bool close_first; /* before what hangs off the clients is freed */
    simba_client *clients[2];
    ref_arena arena;
    simba_locker *lockers[2];
    simba_scheduler *scheduler;
    simba_observer *observer;
    atomic_uint runs;
    simba_owner seen; /* by the observer; with the referee's lock */
    bool saw_an_owner;
} play;

static char folder[REF_FOLDER_MAX];
static const char *given_url; /* of a store with a server, to be swept instead; NULL: none */

/* --- things that may fail for want of memory --------------------------------------------------------- */

static bool is_want_of_memory(int rc)
{
    return rc == SIMBA_ENOMEM;
}

/* After a constructor: true when there is something to go on with, false to try again. */
static bool made(play *p, unsigned *tries, int rc, const simba_error *err, const void *ret, const void *untouched)
{
    if (rc == 0) {
        REF_EXPECT(ret != untouched && ret != NULL);
        return true;
    }
    REF_EXPECT(ret == untouched);
    REF_EXPECT(err->code == rc && err->text[0] != '\0');
    if (!is_want_of_memory(rc))
        REF_COMPLAIN("a constructor failed with %s: %s", simba_error_name(rc), err->text);
    if ((*tries)++ <= p->retries)
        return false;
    REF_COMPLAIN("still cannot be made: %s", err->text);
    ref_watchdog(1); /* nothing sensible can follow */
    pause();
    return true;
}

/* Call a constructor until it succeeds. `call` uses `err` and `ret`. */
#define MAKE(p, target, call)                                                                                          \
    do {                                                                                                               \
        unsigned tries_ = 0;                                                                                           \
        __typeof__(target) ret;                                                                                        \
        __typeof__(target) const untouched_ = (void *)&tries_;                                                         \
        simba_error err;                                                                                               \
        int rc_;                                                                                                       \
        do {                                                                                                           \
            ret = untouched_;                                                                                          \
            err = (simba_error){0};                                                                                    \
            rc_ = (call);                                                                                              \
        } while (!made(p, &tries_, rc_, &err, ret, untouched_));                                                       \
        (target) = ret;                                                                                                \
    } while (0)

/* A server that there was no memory to connect to is out of reach for a moment. */
static bool is_out_of_reach(int rc)
{
    return given_url && (rc == SIMBA_EUNAVAILABLE || is_want_of_memory(rc)) && usleep(1000) == 0;
}

/* Call a function until it does not fail for want of memory; its last answer. `call` uses `err`. */
#define UNTIL_ENOUGH(p, call)                                                                                          \
    ({                                                                                                                 \
        simba_error err = {0};                                                                                         \
        const int64_t until_ms_ = ref_now_ms() + LONG_MS;                                                              \
        int rc_ = (call);                                                                                              \
        for (unsigned tries_ = 0;                                                                                      \
             (is_want_of_memory(rc_) && tries_ <= (p)->retries) || (is_out_of_reach(rc_) && ref_now_ms() < until_ms_); \
             tries_++) {                                                                                               \
            REF_EXPECT(err.code == rc_ && err.text[0] != '\0');                                                        \
            rc_ = (call);                                                                                              \
        }                                                                                                              \
        rc_;                                                                                                           \
    })

#define AWAIT(condition)                                                                                               \
    do {                                                                                                               \
        if (!REF_WITHIN(LONG_MS, condition))                                                                           \
            REF_COMPLAIN("waited in vain for: %s", #condition);                                                        \
    } while (0)

/* --- the parts of the scenario ----------------------------------------------------------------------- */

static void work(simba_run *run, void *user)
{
    play *p = user;
    REF_EXPECT(simba_run_token(run) != 0 || simba_run_stopping(run));
    atomic_fetch_add(&p->runs, 1);
    ref_lock();
    ref_unlock();
}

static void observed(simba_observer *observer, const simba_state *state, void *user)
{
    play *p = user;
    ref_lock();
    p->seen = state->after;
    p->saw_an_owner |= !simba_owner_is_none(&state->after);
    ref_unlock();
}

static void open_clients(play *p)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    if (strncmp(p->url, "zookeeper", 9) != 0) {    /* whose leases are sessions */
        options.timing.ttl_ms = ref_scaled_ms(40); /* SQLite's holders learn of force when they renew */
        /* A request has a quarter of the lease. A server on a busy machine may need more than 110 ms to answer. */
        options.timing.transition_ms = ref_scaled_ms(given_url ? 8000 : 400);
    }
    for (int i = 0; i < 2; i++)
        MAKE(p, p->clients[i], simba_client_open(p->url, &options, &err, &ret));
}

static void make_handles(play *p)
{
    simba_observer_options observer = SIMBA_OBSERVER_OPTIONS_INIT;
    observer.on_changed = observed;
    observer.user = p;
    observer.poll_ms = 10;
    MAKE(p, p->observer, simba_observer_new(p->clients[1], MUTEX, &observer, &err, &ret));
    for (unsigned i = 0; i < 2; i++) {
        simba_contender_options contender = ref_options(&p->arena, i);
        contender.timing.stop_margin_ms = 1; /* settings of its own take memory of their own */
        MAKE(p, p->arena.contenders[i].handle, simba_contender_new(p->clients[i], MUTEX, &contender, &err, &ret));
        MAKE(p, p->lockers[i], simba_locker_new(p->clients[i], MUTEX "-locker", NULL, &err, &ret));
    }
    simba_scheduler_options scheduler = SIMBA_SCHEDULER_OPTIONS_INIT;
    scheduler.period_ms = 1;
    scheduler.work = work;
    scheduler.user = p;
    MAKE(p, p->scheduler, simba_scheduler_new(p->clients[0], MUTEX "-scheduler", &scheduler, &err, &ret));
}

static void stop_contender(play *p, int i)
{
    const int rc = ref_stop(&p->arena.contenders[i]);
    if (rc != 0 && !is_want_of_memory(rc))
        REF_COMPLAIN("stop answers %s", simba_error_name(rc));
}

/* The one that leads stops, and the other one must come to lead. */
static void hand_over(play *p)
{
    ref_contender *all = p->arena.contenders;
    AWAIT(p->arena.inside);
    ref_lock();
    const int from = p->arena.inside == &all[1];
    const int to = !from;
    const unsigned before = all[to].acquired;
    ref_unlock();
    stop_contender(p, from);
    AWAIT(all[to].acquired > before || all[to].leads);
    REF_EXPECT(ref_start(&all[from]) == 0);
}

static void note_listed(const simba_listing *listing, void *user)
{
    *(bool *)user |= strcmp(listing->mutex, MUTEX) == 0 && !simba_owner_is_none(listing->owner);
}

/* The list comes to show the owner. */
static void list(play *p)
{
    const int64_t deadline = ref_now_ms() + LONG_MS;
    bool found = false;
    while (!found && ref_now_ms() < deadline)
        REF_EXPECT(UNTIL_ENOUGH(p, simba_client_list(p->clients[0], "sw*", note_listed, &found, &err)) == 0);
    REF_EXPECT(found);
}

/* Taken away by force: the leadership ends, and another one begins. What has failed may have been carried out all the same; then
 * somebody leads anew, and is forced away next. */
static void force_release(play *p)
{
    int rc;
    AWAIT(p->arena.inside);
    for (unsigned tries = 0;; tries++) {
        simba_error err = {0};
        ref_force(&p->arena);
        rc = simba_client_force_release(p->clients[1], MUTEX, &err);
        if (!is_out_of_reach(rc) && (!is_want_of_memory(rc) || tries > p->retries))
            break;
        (void)REF_WITHIN(ref_scaled_ms(300), p->arena.last_token > p->arena.forced_at);
    }
    if (rc != 0 && rc != SIMBA_ENOTFOUND)
        REF_COMPLAIN("force release answers %s", simba_error_name(rc));
    AWAIT(ref_settled(&p->arena));
}

static void release_locker(play *p, int i)
{
    simba_error err = {0};
    const int rc = simba_locker_release(p->lockers[i], &err);
    if (rc != 0 && rc != SIMBA_ELOST && !is_want_of_memory(rc))
        REF_COMPLAIN("release answers %s: %s", simba_error_name(rc), err.text);
}

/* A lock that is held is refused, and passes on. */
static void lock_and_unlock(play *p)
{
    REF_EXPECT(UNTIL_ENOUGH(p, simba_locker_acquire(p->lockers[0], LONG_MS, &err)) == 0);
    const int rc = UNTIL_ENOUGH(p, simba_locker_acquire(p->lockers[1], 0, &err));
    if (rc == 0) {
        if (simba_locker_held_for_ms(p->lockers[0]) > 0)
            REF_COMPLAIN("two hold one lock");
        release_locker(p, 1); /* the other one's lease has ended: that can be when much goes wrong in a row */
    } else {
        REF_EXPECT(rc == SIMBA_ETIMEDOUT || rc == SIMBA_EUNAVAILABLE); /* a busy machine may not answer in time */
    }
    release_locker(p, 0);
    REF_EXPECT(UNTIL_ENOUGH(p, simba_locker_acquire(p->lockers[1], LONG_MS, &err)) == 0);
    release_locker(p, 1);
}

/* A note is written as a whole or not at all, and what is forgotten is gone. Its lease may end when much goes wrong in a row. */
static void note_and_forget(play *p)
{
    simba_note note = SIMBA_NOTE_INIT;
    REF_EXPECT(UNTIL_ENOUGH(p, simba_locker_acquire(p->lockers[0], LONG_MS, &err)) == 0);
    const int rc = UNTIL_ENOUGH(p, simba_locker_note_set(p->lockers[0], "noted", 5, &err));
    REF_EXPECT(rc == 0 || rc == SIMBA_ELOST || rc == SIMBA_ESTATE);
    REF_EXPECT(UNTIL_ENOUGH(p, simba_client_note(p->clients[1], MUTEX "-locker", &err, &note)) == 0);
    REF_EXPECT(rc != 0 || (note.length == 5 && strcmp(note.bytes, "noted") == 0));
    release_locker(p, 0);
    const int forgotten = UNTIL_ENOUGH(p, simba_client_forget(p->clients[1], MUTEX "-locker", &err));
    REF_EXPECT(forgotten == 0 || forgotten == SIMBA_ENOTFOUND || forgotten == SIMBA_ESTATE);
    REF_EXPECT(UNTIL_ENOUGH(p, simba_client_note(p->clients[0], MUTEX "-locker", &err, &note)) == 0);
    REF_EXPECT(forgotten == SIMBA_ESTATE || note.length == 0);
}

static void schedule(play *p)
{
    const unsigned before = atomic_load(&p->runs);
    REF_EXPECT(simba_scheduler_start(p->scheduler) == 0);
    AWAIT(atomic_load(&p->runs) >= before + 2);
    const int rc = simba_scheduler_stop(p->scheduler);
    REF_EXPECT(rc == 0 || is_want_of_memory(rc));
    const unsigned after = atomic_load(&p->runs);
    REF_EXPECT(!simba_scheduler_is_leader(p->scheduler) && atomic_load(&p->runs) == after);
}

static void free_handles(play *p)
{
    for (int i = 0; i < 2; i++) {
        ref_free(&p->arena.contenders[i]);
        simba_locker_free(p->lockers[i]);
    }
    simba_scheduler_free(p->scheduler);
    simba_observer_free(p->observer);
}

static void close_clients(play *p)
{
    for (int i = 0; i < 2; i++)
        REF_EXPECT(simba_client_close(p->clients[i]) == 0);
}

/* The scenario. */
static void perform(play *p)
{
    open_clients(p);
    make_handles(p);
    REF_EXPECT(simba_observer_start(p->observer) == 0);
    for (int i = 0; i < 2; i++)
        REF_EXPECT(ref_start(&p->arena.contenders[i]) == 0);
    hand_over(p);
    hand_over(p);
    list(p);
    force_release(p);
    lock_and_unlock(p);
    note_and_forget(p);
    schedule(p);
    AWAIT(p->saw_an_owner);
    if (p->close_first) {
        REF_EXPECT(simba_scheduler_start(p->scheduler) == 0);
        close_clients(p);
        free_handles(p);
    } else {
        stop_contender(p, 0);
        stop_contender(p, 1);
        AWAIT(simba_owner_is_none(&p->seen));
        free_handles(p);
        close_clients(p);
    }
    ref_arena_check_end(&p->arena);
}

/* --- rounds ------------------------------------------------------------------------------------------ */

typedef struct sweep {
    const char *store; /* "memory", "sqlite", or a URL */
    failing_kind kind;
    unsigned row;    /* how many fail, one after the other */
    unsigned stride; /* from one round to the next */
    long live[FAILING_KINDS];
    unsigned files, threads;
} sweep;

static void delete_files(const char *path)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    char name[200];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        unlink(name);
    }
}

/* One performance in which the nth allocation fails; 0: none does. How many failed. */
static unsigned play_once(const sweep *s, unsigned nth)
{
    char path[100];
    snprintf(path, sizeof path, "%s/sweep.db", folder);
    play *p = calloc(1, sizeof *p);
    assert_non_null(p);
    ref_scene("%s, kind %d, allocation %u and %u more", s->store, (int)s->kind, nth, s->row - 1);
    ref_watchdog(WATCHDOG_S);
    if (strcmp(s->store, "sqlite") == 0)
        snprintf(p->url, sizeof p->url, "sqlite://%s", path);
    else if (strcmp(s->store, "memory") == 0)
        snprintf(p->url, sizeof p->url, "memory://sweep");
    else
        snprintf(p->url, sizeof p->url, "%s", s->store);
    p->retries = s->row;
    p->close_first = nth % 2;
    ref_arena_init(&p->arena);
    failing_arm(s->kind, nth, s->row);
    perform(p);
    const unsigned fired = failing_disarm();
    delete_files(path);
    free(p);
    return fired;
}

/* What is left over when all is closed must be what was there before. */
static void measure(sweep *s)
{
    for (int i = 0; i < FAILING_KINDS; i++)
        s->live[i] = failing_live((failing_kind)i);
    s->files = ref_entries("/proc/self/fd");
    s->threads = ref_entries("/proc/self/task");
}

static void compare(const sweep *before)
{
    sweep now = *before;
    measure(&now);
    for (int i = 0; i < FAILING_KINDS; i++)
        if (now.live[i] != before->live[i])
            REF_COMPLAIN("kind %d has %ld allocations, and had %ld before", i, now.live[i], before->live[i]);
    if (now.files != before->files || now.threads != before->threads)
        REF_COMPLAIN("%u files and %u threads, and before %u and %u", now.files, now.threads, before->files,
                     before->threads);
}

static void run_sweep(const char *store, failing_kind kind, unsigned row, unsigned stride)
{
    sweep s = {.store = store, .kind = kind, .row = row, .stride = stride};
    const unsigned complaints = ref_complaints();
    play_once(&s, 0); /* what is made once in a program is made now */
    const unsigned calls = failing_calls(kind);
    if (stride == 0 && !getenv("SIMBA_SWEEP_ALL"))
        s.stride = calls / (given_url ? GIVEN_ROUNDS : STRIDED_ROUNDS);
    if (s.stride == 0)
        s.stride = 1;
    measure(&s);
    unsigned rounds = 0;
    unsigned all_fired = 0;
    unsigned fired = 1;
    for (unsigned nth = 1; fired > 0; nth += s.stride, rounds++) {
        fired = play_once(&s, nth);
        all_fired += fired;
        compare(&s);
        if (ref_complaints() != complaints)
            fail_msg("something went wrong in round %u; see above", rounds + 1);
    }
    ref_watchdog(0);
    print_message("# %s: %u rounds, %u of about %u allocations failed\n", store, rounds, all_fired, calls);
}

/* --- tests ------------------------------------------------------------------------------------------- */

/* Each single allocation of the library, over the store in memory. */
static void memory_one_by_one(void **state)
{
    run_sweep("memory", FAILING_SIMBA, 1, 1);
}

/* Rows of three and of twenty allocations of the library. */
static void memory_in_rows(void **state)
{
    run_sweep("memory", FAILING_SIMBA, 3, 2);
    run_sweep("memory", FAILING_SIMBA, 20, 7);
}

/* Each single allocation of the library, over SQLite. */
static void sqlite_one_by_one(void **state)
{
    run_sweep("sqlite", FAILING_SIMBA, 1, 1);
}

/* Rows of allocations of the library, over SQLite. */
static void sqlite_in_rows(void **state)
{
    run_sweep("sqlite", FAILING_SIMBA, 10, 7);
}

/* The allocations of SQLite itself: a sample of them, as there are thousands; all with SIMBA_SWEEP_ALL=1. */
static void sqlite_inside(void **state)
{
    run_sweep("sqlite", FAILING_SQLITE, 1, 0);
}

/* Rows of allocations of SQLite itself. */
static void sqlite_inside_in_rows(void **state)
{
    run_sweep("sqlite", FAILING_SQLITE, 25, 0);
}

/* The store of a URL: a sample of the library's allocations, one by one and in rows; all with SIMBA_SWEEP_ALL=1. */
static void given_one_by_one(void **state)
{
    run_sweep(given_url, FAILING_SIMBA, 1, 0);
}

static void given_in_rows(void **state)
{
    run_sweep(given_url, FAILING_SIMBA, 3, 0);
}

/* There is no memory for a release, several times in a row: the mutex becomes free all the same, also if its lease is a session. */
static void given_release(void **state)
{
    simba_client *client;
    simba_locker *lockers[2];
    simba_error err;
    (void)state;
    assert_int_equal(simba_client_open(given_url, NULL, &err, &client), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(simba_locker_new(client, MUTEX "-release", NULL, &err, &lockers[i]), 0);
    assert_int_equal(simba_locker_acquire(lockers[0], LONG_MS, &err), 0);
    failing_arm(FAILING_SIMBA, 1, 12);
    const int rc = simba_locker_release(lockers[0], &err);
    assert_true(failing_disarm() >= 3);
    assert_true(rc == 0 || is_want_of_memory(rc));
    assert_int_equal(simba_locker_acquire(lockers[1], LONG_MS, &err), 0);
    assert_int_equal(simba_locker_release(lockers[1], &err), 0);
    for (int i = 0; i < 2; i++)
        simba_locker_free(lockers[i]);
    assert_int_equal(simba_client_close(client), 0);
}

static int sweep_given(const char *url)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(given_one_by_one), cmocka_unit_test(given_in_rows),
                                       cmocka_unit_test(given_release)};
    given_url = url;
    return cmocka_run_group_tests_name("sweep_alloc", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    failing_install();
    if (argc > 1)
        return sweep_given(argv[1]);
    ref_make_folder(folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_one_by_one), cmocka_unit_test(memory_in_rows), cmocka_unit_test(sqlite_one_by_one),
        cmocka_unit_test(sqlite_in_rows),    cmocka_unit_test(sqlite_inside),  cmocka_unit_test(sqlite_inside_in_rows),
    };
    const int failed = cmocka_run_group_tests_name("sweep_alloc", tests, NULL, NULL);
    ref_delete_folder(folder);
    return failed;
}
