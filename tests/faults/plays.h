/* What is done to a server of MySQL, PostgreSQL or Redis while contenders lead and wait: it is frozen, killed and cut off, and its
 * packets get lost. A program says how, in `acts`. Whatever happens, the referee must have nothing to complain about: one leader
 * at a time, tokens that grow, callbacks that alternate. */
#ifndef TESTS_FAULTS_PLAYS_H
#define TESTS_FAULTS_PLAYS_H

#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "faults/arena.h"
#include "lib/server.h"
#include "util/random.h"

#define TTL_MS (ref_scaled_ms(500))
#define TRANSITION_MS (ref_scaled_ms(1500))

typedef struct acts_on_server {
    const char *program; /* without it there is nothing to test */
    bool (*start)(void); /* `subject`, also when it has crashed */
    int crash;           /* the signal that it crashes by */
    const char *(*url)(int port);
    void (*freeze)(bool frozen);
    void (*end_connections)(void);
    /* Of an SQL server. */
    void (*make_read_only)(bool read_only);
    void (*lock_row)(const char *mutex); /* by a transaction that stays open */
    void (*unlock_row)(void);
} acts_on_server;

static const acts_on_server acts; /* the program defines it */
static server subject;
static proxy network; /* the way to it, of the tests with one */

static inline int start_subject(void **state)
{
    server_init(&subject);
    return acts.start() ? 0 : -1;
}

static inline int end_subject(void **state)
{
    server_fini(&subject);
    return 0;
}

static inline int setup(void **state)
{
    open_arena(acts.url(subject.port), arena_timing(TTL_MS, TRANSITION_MS));
    return 0;
}

static inline int teardown(void **state)
{
    close_arena();
    return 0;
}

static inline int network_setup(void **state)
{
    proxy_start(&network, subject.port);
    open_arena(acts.url(network.port), arena_timing(ref_outage_ms(1000), ref_outage_ms(1000)));
    return 0;
}

static inline int network_teardown(void **state)
{
    proxy_set(&network, PROXY_PASS);
    close_arena();
    proxy_stop(&network);
    return 0;
}

#define RUN_PLAYS(tests)                                                                                               \
    (server_has(acts.program) ? cmocka_run_group_tests(tests, start_subject, end_subject)                              \
                              : (puts("1..0 # SKIP the server is not installed"), 0))

static inline void pass(int64_t ms)
{
    usleep((unsigned)(ms * 1000));
}

/* Frozen for less than the transition: nobody loses anything. */
static inline void short_freeze(void **state)
{
    ref_scene("short freeze");
    const unsigned grants = arena.grants;
    for (int i = 0; i < 2; i++) {
        acts.freeze(true);
        pass(TRANSITION_MS / 3);
        acts.freeze(false);
        pass(TTL_MS);
    }
    assert_kept(grants);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Frozen for longer than the lease: the holder is told, and somebody leads again after the thaw. */
static inline void long_freeze(void **state)
{
    ref_scene("long freeze");
    acts.freeze(true);
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    ref_lock();
    const simba_reason reason = arena.contenders[0].reason;
    ref_unlock();
    assert_int_equal(reason, SIMBA_REASON_EXPIRED);
    acts.freeze(false);
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* It ends as in a crash, and is back when the lease may be over or not: what it has acknowledged is still there. */
static inline void about_restart(void **state)
{
    ref_scene("restart");
    const unsigned grants = arena.grants;
    const int64_t before_ms = ref_now_ms();
    server_signal(&subject, acts.crash);
    assert_true(acts.start());
    if (ref_now_ms() - before_ms < TTL_MS) { /* before the holder had reason to renew */
        pass(TTL_MS + TRANSITION_MS);
        assert_kept(grants);
    }
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* All connections are ended again and again while the mutex goes round. */
static inline void connections_ended(void **state)
{
    ref_scene("connections ended");
    for (int i = 0; i < 5; i++) {
        acts.end_connections();
        assert_hands_over();
    }
    assert_int_equal(ref_complaints(), 0);
}

/* The server is read-only for a moment, then for longer than the lease. */
static inline void about_read_only(void **state)
{
    ref_scene("read-only");
    const unsigned grants = arena.grants;
    acts.make_read_only(true);
    pass(TTL_MS);
    acts.make_read_only(false);
    pass(TTL_MS);
    assert_kept(grants);
    acts.make_read_only(true);
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    acts.make_read_only(false);
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* An administrator's transaction keeps the row locked for longer than the lease. */
static inline void row_locked(void **state)
{
    ref_scene("row locked");
    acts.lock_row("orders");
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    acts.unlock_row();
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* Outages in which all packets get lost, and that end when a quarter of the transition is left: nobody loses anything (L3), although
 * TCP repeats what was lost in pauses. SIMBA_TEST_OUTAGES says how many there are. */
static inline void lossy_outages(void **state)
{
    ref_scene("lossy outages");
    const char *wanted = getenv("SIMBA_TEST_OUTAGES");
    const unsigned grants = arena.grants;
    uint64_t seed = (uint64_t)getpid();
    const int count = wanted ? atoi(wanted) : 3;
    for (int i = 0; i < count; i++) {
        pass(ref_outage_ms(simba__random_range(&seed, 300, 1300)));
        proxy_set(&network, PROXY_LOSS);
        pass(ref_outage_ms(simba__random_range(&seed, 600, 750)));
        proxy_set(&network, PROXY_PASS);
        if (wanted)
            fprintf(stderr, "outage %d: %u grants\n", i, grants_now());
    }
    pass(ref_outage_ms(1000));
    assert_kept(grants);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* --- one locked row among others --------------------------------------------------------------------------- */

enum { HELD = 8, LOCKED = 3 }; /* mutexes held-0 to held-7, and the one whose row is locked */

static unsigned losses[HELD]; /* with the referee's lock */

static inline void count_loss(simba_contender *contender, const simba_state *change, simba_reason reason, void *user)
{
    ref_lock();
    (*(unsigned *)user)++;
    ref_unlock();
}

static inline unsigned leaders(simba_contender *const *all)
{
    unsigned n = 0;
    for (int i = 0; i < HELD; i++)
        n += simba_contender_is_owner(all[i]);
    return n;
}

/* Eight mutexes of one client are renewed together. One row stays locked for longer than its lease: that one is lost, and no
 * other (L3). */
static inline void locked_row_among_others(void **state)
{
    simba_client *client;
    simba_contender *all[HELD];
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_error err = {0};
    ref_scene("locked row");
    ref_watchdog(ARENA_WATCHDOG_S);
    options.timing = arena_timing(ref_scaled_ms(1000), ref_scaled_ms(2000));
    assert_int_equal(simba_client_open(acts.url(subject.port), &options, &err, &client), 0);
    for (int i = 0; i < HELD; i++) {
        simba_contender_options contender = SIMBA_CONTENDER_OPTIONS_INIT;
        char mutex[16];
        losses[i] = 0;
        contender.on_released = count_loss;
        contender.user = &losses[i];
        snprintf(mutex, sizeof mutex, "held-%d", i);
        assert_int_equal(simba_contender_new(client, mutex, &contender, &err, &all[i]), 0);
        assert_int_equal(simba_contender_start(all[i]), 0);
    }
    assert_true(REF_WITHIN(ARENA_LONG_MS, leaders(all) == HELD));
    acts.lock_row("held-3");
    assert_true(REF_WITHIN(ARENA_LONG_MS, losses[LOCKED] == 1));
    pass(ref_scaled_ms(1000)); /* the others could be lost by now, too */
    assert_int_equal(leaders(all), HELD - 1);
    acts.unlock_row();
    assert_true(REF_WITHIN(ARENA_LONG_MS, leaders(all) == HELD));
    for (int i = 0; i < HELD; i++) {
        assert_int_equal(losses[i], i == LOCKED);
        simba_contender_free(all[i]);
    }
    simba_client_close(client);
    ref_watchdog(0);
}

#define PLAYS_TESTS                                                                                                    \
    cmocka_unit_test_setup_teardown(short_freeze, setup, teardown),                                                    \
        cmocka_unit_test_setup_teardown(long_freeze, setup, teardown),                                                 \
        cmocka_unit_test_setup_teardown(about_restart, setup, teardown),                                               \
        cmocka_unit_test_setup_teardown(connections_ended, setup, teardown),                                           \
        cmocka_unit_test_setup_teardown(lossy_outages, network_setup, network_teardown)

#define SQL_PLAYS_TESTS                                                                                                \
    PLAYS_TESTS, cmocka_unit_test_setup_teardown(about_read_only, setup, teardown),                                    \
        cmocka_unit_test_setup_teardown(row_locked, setup, teardown), cmocka_unit_test(locked_row_among_others)

#endif
