/* What proves that a ZooKeeper session lives, and when a connection is given up: without any server. */
#include <signal.h>
#include <sys/wait.h>

#include "lib/cm.h"

#include "stores/zookeeper/liveness.h"
#include "util/clock.h"

/* All times here are in ms, and the timeout is 8800: a beat each 800, a quarter is 2200. */
enum { T = 8800 };

static zk_liveness live;

static simba_local at(int64_t ms)
{
    return (simba_local){ms * SIMBA__NS_PER_MS};
}

static int64_t proven_ms(void)
{
    return live.proven.ns / SIMBA__NS_PER_MS;
}

static unsigned beat(int64_t ms)
{
    return simba__zk_live_beat(&live, at(ms));
}

static bool answer_at(int64_t ms, zk_answer answer)
{
    return simba__zk_live_answer(&live, at(ms), live.connection, answer);
}

/* At once. */
static bool answer(zk_answer answer)
{
    return simba__zk_live_answer(&live, live.seen, live.connection, answer);
}

/* Begun, made and answered at these times. */
static void connect_at(int64_t attempt_ms, int64_t greet_ms, int64_t connect_ms)
{
    simba__zk_live_attempt(&live, at(attempt_ms));
    simba__zk_live_greet(&live, at(greet_ms));
    simba__zk_live_connect(&live, at(connect_ms), T);
}

static int setup(void **state)
{
    simba__zk_live_begin(&live, T);
    connect_at(100, 110, 120);
    return 0;
}

/* --- what is proven ----------------------------------------------------------------------------------------- */

/* The handshake that makes a session counts from when its connection was begun. */
static void new_session(void **state)
{
    assert_int_equal(proven_ms(), 100);
    assert_true(live.has_session);
}

/* The server decides how long the session lasts: for half as long as was asked for. So beats and quarters are half as long. */
static void granted_less(void **state)
{
    simba__zk_live_begin(&live, T);
    simba__zk_live_attempt(&live, at(100));
    simba__zk_live_greet(&live, at(110));
    simba__zk_live_connect(&live, at(120), T / 2);
    assert_int_equal(live.timeout_ns, at(T / 2).ns);
    assert_int_equal(simba__zk_live_next(&live).ns, at(120 + 400).ns);
    beat(600);
    answer(ZK_ANSWER_AGREED);
    beat(1699);
    answer(ZK_ANSWER_AGREED);
    assert_int_equal(proven_ms(), 100);
    beat(1700);
    answer(ZK_ANSWER_AGREED);
    assert_int_equal(proven_ms(), 600);
}

/* A beat does not count by its own answer: the server that answered may die before it has told its leader. */
static void beat_alone(void **state)
{
    beat(1000);
    assert_true(answer(ZK_ANSWER_AGREED));
    assert_int_equal(proven_ms(), 100);
    beat(2000);
    answer(ZK_ANSWER_AGREED);
    assert_int_equal(proven_ms(), 100);
}

/* It counts when one that was sent a quarter of the timeout after its answer is answered, and no earlier. */
static void quarter_later(void **state)
{
    static const int64_t times[] = {1000, 2000, 3199, 3200, 4300, 5400};
    static const int64_t proven[] = {100, 100, 100, 1000, 2000, 3200};
    for (int i = 0; i < 6; i++) {
        beat(times[i]);
        answer(ZK_ANSWER_AGREED);
        assert_int_equal(proven_ms(), proven[i]);
    }
}

/* A slow beat may have come to the server just after the server's report to its leader, and just before the server answered it.
 * The next report comes within a quarter of the timeout from then on. So one that was sent within a quarter of the answer, although
 * more than a quarter after the slow one was sent, proves nothing. */
static void slow_beat(void **state)
{
    beat(1000);
    answer_at(2500, ZK_ANSWER_AGREED);
    static const int64_t times[] = {3200, 4000, 4699};
    for (int i = 0; i < 3; i++) {
        beat(times[i]);
        answer(ZK_ANSWER_AGREED);
        assert_int_equal(proven_ms(), 100);
    }
    beat(4700);
    answer(ZK_ANSWER_AGREED);
    assert_int_equal(proven_ms(), 1000);
}

/* The answer counts for the beat that it is for, also when several are under way. */
static void several_under_way(void **state)
{
    for (int i = 1; i <= ZK_BEATS_UNANSWERED; i++)
        beat(i * 800);
    for (int i = 1; i <= ZK_BEATS_UNANSWERED; i++) {
        answer_at(3300 + i, ZK_ANSWER_AGREED);
        assert_int_equal(proven_ms(), 100);
    }
    static const int64_t proven[] = {100, 800, 1600, 2400, 3200};
    for (int i = 0; i <= ZK_BEATS_UNANSWERED; i++) {
        beat(5500 + i);
        answer(ZK_ANSWER_AGREED);
        assert_int_equal(proven_ms(), proven[i]);
    }
}

/* With the usual cadence, and answers that take a fiftieth of the timeout, the latest beat that counts is at most four elevenths old
 * and the time of an answer. */
static void age_of_what_counts(void **state)
{
    const int64_t pause = T / ZK_BEATS, answered_after = T / 50;
    for (int i = 1; i <= 40; i++) {
        beat(i * pause);
        assert_true(i < 5 || i * pause - proven_ms() <= 4 * pause);
        answer_at(i * pause + answered_after, ZK_ANSWER_AGREED);
        assert_true(i < 4 || proven_ms() == (i - 3) * pause);
    }
}

/* Another handshake proves nothing by itself: a leader that was replaced and does not know it answers it. With the first
 * beat that is agreed to, it counts from its beginning. */
static void deposed_leader(void **state)
{
    simba__zk_live_lose(&live);
    connect_at(5000, 5010, 5020);
    assert_int_equal(proven_ms(), 100);
    beat(5020);
    assert_false(answer(ZK_ANSWER_REFUSED));
    assert_int_equal(proven_ms(), 100);
    beat(6000);
    assert_true(answer(ZK_ANSWER_AGREED));
    assert_int_equal(proven_ms(), 5000);
}

/* A beat is lost with its connection: its answer, which comes when there is another one, is not counted for that. */
static void lost_with_connection(void **state)
{
    const unsigned first = beat(1000);
    beat(2000);
    simba__zk_live_lose(&live);
    assert_false(simba__zk_live_answer(&live, live.seen, first, ZK_ANSWER_AGREED));
    connect_at(5000, 5010, 5020);
    beat(5020);
    assert_false(simba__zk_live_answer(&live, live.seen, first, ZK_ANSWER_AGREED));
    assert_int_equal(proven_ms(), 100);
    assert_int_equal(live.answered, 0);
    assert_false(answer(ZK_ANSWER_LOST));
    assert_int_equal(live.answered, 0);
    answer(ZK_ANSWER_AGREED);
    assert_int_equal(proven_ms(), 5000);
}

/* Beats of two connections are no pair: the server of the first may never have told its leader. */
static void no_pair_over_connections(void **state)
{
    beat(1000);
    answer(ZK_ANSWER_AGREED);
    beat(2000);
    answer(ZK_ANSWER_AGREED);
    simba__zk_live_lose(&live);
    connect_at(2100, 2110, 2120);
    beat(4500);
    answer(ZK_ANSWER_AGREED);
    assert_int_equal(proven_ms(), 2100);
}

/* What is proven never goes back. */
static void never_back(void **state)
{
    int64_t before = proven_ms();
    for (int i = 1; i < 50; i++) {
        if (i % 7 == 0) {
            simba__zk_live_lose(&live);
            connect_at(i * 1000 - 500, i * 1000 - 400, i * 1000 - 300);
        }
        beat(i * 1000);
        answer(i % 3 ? ZK_ANSWER_AGREED : ZK_ANSWER_REFUSED);
        assert_true(proven_ms() >= before && proven_ms() < i * 1000);
        before = proven_ms();
    }
}

/* A new session begins with nothing. */
static void begin_anew(void **state)
{
    beat(1000);
    simba__zk_live_begin(&live, T);
    assert_false(live.has_session);
    connect_at(9000, 9010, 9020);
    assert_int_equal(proven_ms(), 9000);
}

/* --- what to do when -------------------------------------------------------------------------------------------- */

static void assert_advice(int64_t ms, zk_advice advice)
{
    assert_int_equal(simba__zk_live_advise(&live, at(ms)), advice);
}

static int64_t next_ms(void)
{
    return simba__zk_live_next(&live).ns / SIMBA__NS_PER_MS;
}

/* A beat each eleventh of the timeout, and at once in a session that goes on. */
static void beats_are_due(void **state)
{
    assert_int_equal(next_ms(), 120 + T / 11);
    assert_advice(919, ZK_WAIT);
    assert_advice(920, ZK_SEND_BEAT);
    beat(920);
    assert_advice(920, ZK_WAIT);
    assert_int_equal(next_ms(), 1720);
    simba__zk_live_lose(&live);
    connect_at(5000, 5010, 5020);
    assert_advice(5020, ZK_SEND_BEAT);
}

/* An answer that is owed for a quarter of the timeout is not waited for. */
static void about_silence(void **state)
{
    beat(1000);
    beat(2600);
    assert_int_equal(next_ms(), 3200);
    assert_advice(3199, ZK_WAIT);
    assert_advice(3200, ZK_GIVE_UP);
    answer_at(3200, ZK_ANSWER_AGREED);
    assert_advice(3400, ZK_SEND_BEAT);
    beat(3400);
    assert_advice(4800, ZK_GIVE_UP);
}

/* While the session may be saved, a connection has little time: its first packet may have been lost. */
static void connects_in_a_hurry(void **state)
{
    simba__zk_live_lose(&live);
    simba__zk_live_attempt(&live, at(3000));
    assert_int_equal(next_ms(), 3000 + T / 24);
    assert_advice(3000 + T / 24, ZK_WAIT); /* a fraction of a ms is left */
    assert_advice(3000 + T / 24 + 1, ZK_GIVE_UP);
    simba__zk_live_greet(&live, at(3100)); /* that is slow here */
    assert_advice(3100 + T / 5 - 1, ZK_WAIT);
    assert_advice(3100 + T / 5, ZK_GIVE_UP);
    simba__zk_live_lose(&live);
    simba__zk_live_attempt(&live, at(5000));
    assert_int_equal(next_ms(), 5400); /* four times as long as the last one took */
}

/* When it is lost anyway, and before there is one, there is time. */
static void connects_patiently(void **state)
{
    simba__zk_live_lose(&live);
    simba__zk_live_attempt(&live, at(100 + T));
    assert_int_equal(next_ms(), 100 + T + T / 5);
    simba__zk_live_begin(&live, T);
    assert_true(simba__zk_live_next(&live).ns == INT64_MAX);
    simba__zk_live_attempt(&live, at(100));
    assert_int_equal(next_ms(), 100 + T / 5);
}

/* --- what cannot be ----------------------------------------------------------------------------------------------- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(new_session, setup),
        cmocka_unit_test_setup(granted_less, setup),
        cmocka_unit_test_setup(beat_alone, setup),
        cmocka_unit_test_setup(quarter_later, setup),
        cmocka_unit_test_setup(slow_beat, setup),
        cmocka_unit_test_setup(several_under_way, setup),
        cmocka_unit_test_setup(age_of_what_counts, setup),
        cmocka_unit_test_setup(deposed_leader, setup),
        cmocka_unit_test_setup(lost_with_connection, setup),
        cmocka_unit_test_setup(no_pair_over_connections, setup),
        cmocka_unit_test_setup(never_back, setup),
        cmocka_unit_test_setup(begin_anew, setup),
        cmocka_unit_test_setup(beats_are_due, setup),
        cmocka_unit_test_setup(about_silence, setup),
        cmocka_unit_test_setup(connects_in_a_hurry, setup),
        cmocka_unit_test_setup(connects_patiently, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
