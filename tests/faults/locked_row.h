/* Eight mutexes of one client are renewed together, and somebody keeps one of their rows locked for longer than its lease: that
 * one is lost, and no other. For SQL stores. */
#ifndef TESTS_FAULTS_LOCKED_ROW_H
#define TESTS_FAULTS_LOCKED_ROW_H

#include <simba.h>
#include <stdio.h>
#include <unistd.h>

#include "faults/arena.h"

enum { HELD = 8, LOCKED = 3 }; /* the mutexes are held-0 to held-7 */

static unsigned losses[HELD]; /* with the referee's lock */

static void count_loss(simba_contender *contender, const simba_state *change, simba_reason reason, void *user)
{
    (void)contender;
    (void)change;
    (void)reason;
    ref_lock();
    (*(unsigned *)user)++;
    ref_unlock();
}

static unsigned leaders(simba_contender *const *all)
{
    unsigned n = 0;
    for (int i = 0; i < HELD; i++)
        n += simba_contender_is_owner(all[i]);
    return n;
}

/* `lock` locks the row of held-3, `unlock` lets go of it. */
static void play_locked_row(const char *url, void (*lock)(void), void (*unlock)(void))
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
    lock();
    assert_true(REF_WITHIN(ARENA_LONG_MS, losses[LOCKED] == 1));
    usleep((unsigned)(ref_scaled_ms(1000) * 1000));
    assert_int_equal(leaders(all), HELD - 1);
    unlock();
    assert_true(REF_WITHIN(ARENA_LONG_MS, leaders(all) == HELD));
    for (int i = 0; i < HELD; i++) {
        assert_int_equal(losses[i], i == LOCKED);
        simba_contender_free(all[i]);
    }
    simba_client_close(client);
    ref_watchdog(0);
}

#endif
