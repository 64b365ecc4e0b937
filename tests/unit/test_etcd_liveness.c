/* What proves that an etcd lease lives, and what must be asked next: without any server. */
#include "lib/cm.h"

#include "stores/etcd/liveness.h"
#include "util/clock.h"

/* All times here are in ms, and the TTL is 6000: a keep-alive each 1000. */
enum { TTL = 6000 };

static etcd_liveness live;

static simba_local at(int64_t ms)
{
    return (simba_local){ms * SIMBA__NS_PER_MS};
}

static int64_t proven_ms(void)
{
    return live.proven.ns / SIMBA__NS_PER_MS;
}

static void ask(etcd_question question, int64_t ms)
{
    assert_int_equal(simba__etcd_live_due(&live, at(ms)), question);
    simba__etcd_live_asked(&live, question, at(ms));
    assert_int_equal(simba__etcd_live_due(&live, at(ms + TTL)), ETCD_ASK_NOTHING); /* one question at a time */
}

static int setup(void **state)
{
    (void)state;
    simba__etcd_live_begin(&live, TTL, at(100));
    ask(ETCD_ASK_GRANT, 100);
    simba__etcd_live_granted(&live, TTL, at(130));
    return 0;
}

/* Most servers have agreed to the grant: it counts from when it was asked for. */
static void grant(void **state)
{
    (void)state;
    assert_int_equal(proven_ms(), 100);
    assert_false(simba__etcd_live_is_past(&live, at(100 + TTL - 1)));
    assert_true(simba__etcd_live_is_past(&live, at(100 + TTL)));
}

/* The server decides how long a lease is. */
static void other_ttl(void **state)
{
    (void)state;
    simba__etcd_live_begin(&live, 1000, at(0));
    ask(ETCD_ASK_GRANT, 0);
    simba__etcd_live_granted(&live, 2000, at(5));
    assert_false(simba__etcd_live_is_past(&live, at(1999)));
    assert_true(simba__etcd_live_is_past(&live, at(2000)));
}

/* The lease was there already: how long it lasts nobody knows, so ask at once. */
static void granted_before(void **state)
{
    (void)state;
    simba__etcd_live_begin(&live, TTL, at(100));
    ask(ETCD_ASK_GRANT, 100);
    simba__etcd_live_granted(&live, 0, at(130));
    assert_true(simba__etcd_live_is_past(&live, at(130)));
    ask(ETCD_ASK_ALIVE, 130);
    simba__etcd_live_alive(&live, TTL, 7, at(140));
    assert_true(simba__etcd_live_is_past(&live, at(140)));
    ask(ETCD_ASK_TERM, 140);
    assert_true(simba__etcd_live_term(&live, 7, at(150)));
    assert_int_equal(proven_ms(), 130);
}

/* A keep-alive does not count by its own answer: a deposed leader gives that, too. The read behind it has to have the same term. */
static void alive_alone(void **state)
{
    (void)state;
    assert_int_equal(simba__etcd_live_due(&live, at(1099)), ETCD_ASK_NOTHING);
    ask(ETCD_ASK_ALIVE, 1100);
    simba__etcd_live_alive(&live, TTL, 7, at(1110));
    assert_int_equal(proven_ms(), 100);
    ask(ETCD_ASK_TERM, 1110);
    assert_true(simba__etcd_live_term(&live, 7, at(1120)));
    assert_int_equal(proven_ms(), 1100); /* from the sending of the keep-alive, not of the read */
    assert_int_equal(simba__etcd_live_next(&live).ns, at(2100).ns);
}

/* Another term: there was an election in between, so ask anew, at once. */
static void another_term(void **state)
{
    (void)state;
    ask(ETCD_ASK_ALIVE, 1100);
    simba__etcd_live_alive(&live, TTL, 7, at(1110));
    ask(ETCD_ASK_TERM, 1110);
    assert_false(simba__etcd_live_term(&live, 8, at(1120)));
    assert_int_equal(proven_ms(), 100);
    ask(ETCD_ASK_ALIVE, 1120);
    simba__etcd_live_alive(&live, TTL, 8, at(1130));
    ask(ETCD_ASK_TERM, 1130);
    assert_true(simba__etcd_live_term(&live, 8, at(1140)));
    assert_int_equal(proven_ms(), 1120);
}

/* A read that was not answered proves nothing for a keep-alive, and no later read makes up for it. */
static void read_lost(void **state)
{
    (void)state;
    ask(ETCD_ASK_ALIVE, 1100);
    simba__etcd_live_alive(&live, TTL, 7, at(1110));
    ask(ETCD_ASK_TERM, 1110);
    simba__etcd_live_unanswered(&live, at(1500));
    assert_int_equal(simba__etcd_live_due(&live, at(1499)), ETCD_ASK_NOTHING);
    ask(ETCD_ASK_ALIVE, 1500);
    assert_int_equal(proven_ms(), 100);
}

/* Somebody wants to know now. */
static void in_a_hurry(void **state)
{
    (void)state;
    simba__etcd_live_hurry(&live, at(200));
    ask(ETCD_ASK_ALIVE, 200);
}

/* A session of a day does not mean that a silent server is waited for all morning, nor that a lost lease is noticed by evening. */
static void long_session(void **state)
{
    (void)state;
    const int64_t day = INT64_C(24) * 3600 * 1000;
    simba__etcd_live_begin(&live, day, at(0));
    ask(ETCD_ASK_GRANT, 0);
    simba__etcd_live_granted(&live, day, at(10));
    assert_int_equal(simba__etcd_live_patience_ns(&live), 5000 * SIMBA__NS_PER_MS);
    assert_int_equal(simba__etcd_live_next(&live).ns, at(10000).ns);
    assert_false(simba__etcd_live_is_past(&live, at(day - 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(grant, setup),          cmocka_unit_test_setup(other_ttl, setup),
        cmocka_unit_test_setup(granted_before, setup), cmocka_unit_test_setup(alive_alone, setup),
        cmocka_unit_test_setup(another_term, setup),   cmocka_unit_test_setup(read_lost, setup),
        cmocka_unit_test_setup(in_a_hurry, setup),     cmocka_unit_test_setup(long_session, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
