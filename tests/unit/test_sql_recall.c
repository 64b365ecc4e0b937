/* What a client remembers of rows, so that a server which has forgotten does not make it contradict itself: without any
 * server. */
#include <stdio.h>

#include "lib/cm.h"

#include "backends/sql/recall.h"
#include "util/clock.h"

enum { TTL_MS = 10000, TRANSITION_MS = 6000 };

static simba__sql_recall recall;

static int setup(void **state)
{
    (void)state;
    recall = (simba__sql_recall){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    simba__sql_recall_fini(&recall);
    return 0;
}

static simba_local at(int64_t ms)
{
    return (simba_local){ms * SIMBA__NS_PER_MS};
}

static void saw(uint64_t version)
{
    simba__sql_recall_saw(&recall, "m", version, at(0));
}

/* A request about "m" was answered, which had been sent at that time. */
static void answered(simba_op op, uint64_t nonce, simba_outcome outcome, int64_t since_ms)
{
    const simba_request request = {.op = op,
                                   .mutex = "m",
                                   .nonce = nonce,
                                   .ttl_ms = TTL_MS,
                                   .transition_ms = TRANSITION_MS,
                                   .reply = {.outcome = outcome}};
    simba__sql_recall_answered(&recall, &request, at(since_ms));
}

/* May the contender of nonce 2 not have it, because nonce 1 of this client does? */
static bool is_guarded(int64_t now_ms)
{
    return simba__sql_recall_is_held(&recall, "m", 2, at(now_ms));
}

/* --- tokens --------------------------------------------------------------------------------------------- */

/* A promoted replica that is behind shows a smaller version: new tokens stay above the greatest that was seen. */
static void floor_survives_a_row_that_is_behind(void **state)
{
    (void)state;
    assert_int_equal(simba__sql_recall_floor(&recall, "m"), 0);
    saw(7);
    saw(9);
    saw(4);
    assert_int_equal(simba__sql_recall_floor(&recall, "m"), 9);
    assert_int_equal(simba__sql_recall_floor(&recall, "other"), 0);
}

/* --- grants --------------------------------------------------------------------------------------------- */

/* Whatever the row says after a fail-over: until the lease has ended by our own clock it is held, but not from its holder. */
static void grant_lasts_by_our_own_clock(void **state)
{
    (void)state;
    saw(1);
    answered(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE, 1000);
    assert_true(is_guarded(1000));
    assert_true(is_guarded(1000 + TTL_MS + TRANSITION_MS - 1));
    assert_false(is_guarded(1000 + TTL_MS + TRANSITION_MS));
    assert_false(simba__sql_recall_is_held(&recall, "m", 1, at(1001)));
    assert_int_equal(simba__sql_recall_holder(&recall, "m"), 1);
}

/* Renewing extends it; an acquire that was refused does not. */
static void renewal_extends(void **state)
{
    (void)state;
    saw(1);
    answered(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE, 0);
    answered(SIMBA_OP_ACQUIRE, 2, SIMBA_NOT_MINE, 4000);
    assert_false(is_guarded(TTL_MS + TRANSITION_MS));
    answered(SIMBA_OP_RENEW, 1, SIMBA_MINE, 5000);
    assert_true(is_guarded(TTL_MS + TRANSITION_MS));
    assert_false(is_guarded(5000 + TTL_MS + TRANSITION_MS));
}

/* It ends when its holder is about to release, is told that it has lost it, or when somebody forces it away. */
static void grant_ends(void **state)
{
    (void)state;
    saw(1);
    answered(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE, 0);
    simba__sql_recall_releasing(&recall, "m", 2); /* not the holder */
    assert_true(is_guarded(1));
    simba__sql_recall_releasing(&recall, "m", 1);
    assert_false(is_guarded(1));

    answered(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE, 0);
    answered(SIMBA_OP_RENEW, 1, SIMBA_NOT_MINE, 1);
    assert_false(is_guarded(1));

    answered(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE, 0);
    answered(SIMBA_OP_FORCE_RELEASE, 0, SIMBA_MINE, 1);
    assert_false(is_guarded(1));
}

/* --- lanes ---------------------------------------------------------------------------------------------- */

/* One lane works on a mutex at a time, on as many requests as it has; others may when the last one is finished. */
static void one_lane_at_a_time(void **state)
{
    (void)state;
    assert_true(simba__sql_recall_begin(&recall, "m", 1, at(0)));
    assert_true(simba__sql_recall_begin(&recall, "m", 1, at(0)));
    assert_false(simba__sql_recall_begin(&recall, "m", 2, at(0)));
    assert_true(simba__sql_recall_begin(&recall, "other", 2, at(0)));
    simba__sql_recall_finish(&recall, "m", 1);
    simba__sql_recall_finish(&recall, "m", 2); /* which has not begun */
    assert_false(simba__sql_recall_begin(&recall, "m", 2, at(0)));
    simba__sql_recall_finish(&recall, "m", 1);
    assert_true(simba__sql_recall_begin(&recall, "m", 2, at(0)));
}

/* A lane that takes too long is overtaken until it has finished, and not for longer. */
static void slow_lane_is_overtaken(void **state)
{
    (void)state;
    simba__sql_recall_overtake(&recall, "m");
    assert_false(simba__sql_recall_is_overtaken(&recall, "m"));
    assert_true(simba__sql_recall_begin(&recall, "m", 1, at(0)));
    assert_true(simba__sql_recall_begin(&recall, "m", 1, at(0)));
    simba__sql_recall_overtake(&recall, "m");
    assert_true(simba__sql_recall_is_overtaken(&recall, "m"));
    assert_false(simba__sql_recall_begin(&recall, "m", 2, at(0)));
    simba__sql_recall_finish(&recall, "m", 1);
    assert_true(simba__sql_recall_is_overtaken(&recall, "m"));
    simba__sql_recall_finish(&recall, "m", 1);
    assert_false(simba__sql_recall_is_overtaken(&recall, "m"));
    assert_true(simba__sql_recall_begin(&recall, "m", 2, at(0)));
    assert_false(simba__sql_recall_is_overtaken(&recall, "m"));
}

/* --- how much it remembers ------------------------------------------------------------------------------ */

static void saw_many(int from, int to, int64_t now_ms)
{
    for (int i = from; i < to; i++) {
        char name[32];
        snprintf(name, sizeof name, "mutex-%d", i);
        simba__sql_recall_saw(&recall, name, 1, at(now_ms));
    }
}

/* The one that was used least recently is forgotten, but not while it is held or worked on. */
static void forgets_the_oldest(void **state)
{
    (void)state;
    saw_many(0, SIMBA__SQL_ENTRIES_MAX, 0);
    simba__sql_recall_saw(&recall, "mutex-0", 2, at(0)); /* used again */
    saw_many(SIMBA__SQL_ENTRIES_MAX, SIMBA__SQL_ENTRIES_MAX + 1, 0);
    assert_int_equal(simba__sql_recall_floor(&recall, "mutex-0"), 2);
    assert_int_equal(simba__sql_recall_floor(&recall, "mutex-1"), 0);
    assert_int_equal(recall.entries.count, SIMBA__SQL_ENTRIES_MAX);
}

static void does_not_forget_what_is_held(void **state)
{
    (void)state;
    saw(5);
    answered(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE, 0);
    saw_many(0, SIMBA__SQL_ENTRIES_MAX, 1);
    assert_int_equal(simba__sql_recall_floor(&recall, "m"), 5);
    assert_true(is_guarded(1));
    saw_many(SIMBA__SQL_ENTRIES_MAX, SIMBA__SQL_ENTRIES_MAX + 1, TTL_MS + TRANSITION_MS);
    assert_int_equal(simba__sql_recall_floor(&recall, "m"), 0);
}

static void does_not_forget_what_is_worked_on(void **state)
{
    (void)state;
    assert_true(simba__sql_recall_begin(&recall, "m", 1, at(0)));
    saw_many(0, SIMBA__SQL_ENTRIES_MAX + 1, 0);
    assert_false(simba__sql_recall_begin(&recall, "m", 2, at(0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(floor_survives_a_row_that_is_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(grant_lasts_by_our_own_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(renewal_extends, setup, teardown),
        cmocka_unit_test_setup_teardown(grant_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(one_lane_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(slow_lane_is_overtaken, setup, teardown),
        cmocka_unit_test_setup_teardown(forgets_the_oldest, setup, teardown),
        cmocka_unit_test_setup_teardown(does_not_forget_what_is_held, setup, teardown),
        cmocka_unit_test_setup_teardown(does_not_forget_what_is_worked_on, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
