/* What is done to every SQL server while contenders lead and wait. A program says how, in `acts`, and opens the arena. */
#ifndef TESTS_FAULTS_SQL_PLAYS_H
#define TESTS_FAULTS_SQL_PLAYS_H

#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "faults/arena.h"
#include "lib/server.h"
#include "util/random.h"

#define TTL_MS (ref_scaled_ms(500))
#define TRANSITION_MS (ref_scaled_ms(1500))

typedef struct sql_acts {
    void (*freeze)(bool frozen);
    void (*restart)(void); /* after a crash */
    void (*end_connections)(void);
    void (*make_read_only)(bool read_only);
    void (*lock_row)(const char *mutex); /* by a transaction that stays open */
    void (*unlock_row)(void);
} sql_acts;

static const sql_acts acts; /* the program defines it */

static inline void pass(int64_t ms)
{
    usleep((unsigned)(ms * 1000));
}

/* Frozen for less than the transition: nobody loses anything. */
static inline void short_freeze(void **state)
{
    (void)state;
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
    (void)state;
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
    (void)state;
    ref_scene("restart");
    acts.restart();
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* All connections are ended again and again while the mutex goes round. */
static inline void connections_ended(void **state)
{
    (void)state;
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
    (void)state;
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
    (void)state;
    ref_scene("row locked");
    acts.lock_row("orders");
    assert_true(REF_WITHIN(ARENA_LONG_MS, arena.contenders[0].released == 1));
    acts.unlock_row();
    assert_true(someone_leads());
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* All of those, in the program's own arena. */
#define SQL_PLAYS_TESTS                                                                                                \
    cmocka_unit_test_setup_teardown(short_freeze, setup, teardown),                                                    \
        cmocka_unit_test_setup_teardown(long_freeze, setup, teardown),                                                 \
        cmocka_unit_test_setup_teardown(about_restart, setup, teardown),                                               \
        cmocka_unit_test_setup_teardown(connections_ended, setup, teardown),                                           \
        cmocka_unit_test_setup_teardown(about_read_only, setup, teardown),                                             \
        cmocka_unit_test_setup_teardown(row_locked, setup, teardown)

/* Outages in which all packets get lost, and that end when a quarter of the transition is left: nobody loses anything (L3), although
 * TCP repeats what was lost in pauses. SIMBA_TEST_OUTAGES says how many there are. */
static inline void play_lossy_outages(proxy *network, int count)
{
    ref_scene("lossy outages");
    const char *wanted = getenv("SIMBA_TEST_OUTAGES");
    const unsigned grants = arena.grants;
    uint64_t seed = (uint64_t)getpid();
    count = wanted ? atoi(wanted) : count;
    for (int i = 0; i < count; i++) {
        pass(ref_outage_ms(simba__random_range(&seed, 300, 1300)));
        proxy_set(network, PROXY_LOSS);
        pass(ref_outage_ms(simba__random_range(&seed, 600, 750)));
        proxy_set(network, PROXY_PASS);
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
    (void)contender;
    (void)change;
    (void)reason;
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
static inline void play_locked_row(const char *url)
{
    simba_client *client;
    simba_contender *all[HELD];
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_error err = {0};
    ref_scene("locked row");
    ref_watchdog(ARENA_WATCHDOG_S);
    options.timing = arena_timing(ref_scaled_ms(1000), ref_scaled_ms(2000));
    assert_int_equal(simba_client_open(url, &options, &err, &client), 0);
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

#endif
