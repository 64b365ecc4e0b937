/* What a contender of a mutex does next, event by event. The interleavings of several clients are the simulator's; these are
 * the ways that have a name. */
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"

#include "stores/zookeeper/zookeeper.h"

enum {
    ENTER = ZK_CALL_CREATE | ZK_CALL_LIST,
    FIND = ZK_CALL_SYNC | ZK_CALL_LIST,
    TRY = ZK_CALL_FIRST | ZK_CALL_DELETE
};

static zk_latch l;
static char name[ZK_NAME_MAX];

static int setup(void **state)
{
    simba__zk_latch_init(&l, 7, "me", 0);
    simba__zk_latch_connect(&l);
    return 0;
}

static const char *name_of(const char *number)
{
    snprintf(name, sizeof name, "%s%s", l.prefix, number);
    return name;
}

static void made(const char *number, int64_t czxid)
{
    simba__zk_latch_made(&l, name_of(number), czxid, 1, ZK_OK);
}

static zk_move listed(const char *mine, bool is_first)
{
    return simba__zk_latch_listed(&l, mine, is_first, ZK_OK);
}

static void assert_calls(zk_move move, unsigned calls)
{
    assert_int_equal(move.calls, calls);
    assert_int_equal(move.tell, ZK_TELL_NOTHING);
}

static void assert_told(zk_move move, zk_tell tell)
{
    assert_int_equal(move.calls, 0);
    assert_int_equal(move.tell, tell);
}

static void lead(void)
{
    assert_calls(simba__zk_latch_acquire(&l, true), ENTER);
    made("0000000001", 11);
    assert_told(listed(name_of("0000000001"), true), ZK_TELL_LEADS);
    assert_int_equal(l.place, ZK_LEADS);
}

static void wait_behind(void)
{
    assert_calls(simba__zk_latch_acquire(&l, true), ENTER);
    made("0000000002", 12);
    assert_calls(listed(name_of("0000000002"), false), ZK_CALL_BEFORE);
    simba__zk_latch_read(&l, ZK_CALL_BEFORE, ZK_OK);
    assert_told(simba__zk_latch_go(&l), ZK_TELL_WAITS);
}

/* The first of all leads, and is removed when it is released. */
static void first_leads(void **state)
{
    lead();
    assert_told(simba__zk_latch_acquire(&l, true), ZK_TELL_LEADS); /* the answer was lost */
    assert_calls(simba__zk_latch_release(&l), ZK_CALL_DELETE);
    simba__zk_latch_read(&l, ZK_CALL_DELETE, ZK_OK);
    assert_told(simba__zk_latch_go(&l), ZK_TELL_FREED);
}

/* Whoever waits lists again when the one before has changed, and leads if nobody is before it any more. */
static void waiter_lists_again(void **state)
{
    wait_behind();
    assert_calls(simba__zk_latch_before(&l), ZK_CALL_LIST);
    assert_calls(listed(l.name, false), ZK_CALL_BEFORE);
    simba__zk_latch_read(&l, ZK_CALL_BEFORE, ZK_NO_NODE); /* it has gone meanwhile */
    assert_calls(simba__zk_latch_go(&l), ZK_CALL_LIST);
    assert_told(listed(l.name, true), ZK_TELL_LEADS);
}

/* A mutex without a node gets one; the child that was not made is made then. */
static void node_is_made(void **state)
{
    assert_calls(simba__zk_latch_acquire(&l, true), ENTER);
    simba__zk_latch_made(&l, NULL, 0, 0, ZK_NO_NODE);
    assert_calls(simba__zk_latch_listed(&l, NULL, false, ZK_NO_NODE), ZK_CALL_CONTAINERS | ENTER);
    made("0000000000", 5);
    assert_told(listed(name_of("0000000000"), true), ZK_TELL_LEADS);
}

/* Nobody knows what became of a creation whose connection broke: it is looked for, and only then made again. */
static void lost_creation(void **state)
{
    simba__zk_latch_acquire(&l, true);
    simba__zk_latch_lose(&l);
    assert_int_equal(l.place, ZK_UNSURE);
    assert_calls(simba__zk_latch_connect(&l), FIND);
    assert_calls(listed(name_of("0000000003"), true), ZK_CALL_OWN);
    simba__zk_latch_own(&l, 33, 1, ZK_OK);
    assert_told(simba__zk_latch_go(&l), ZK_TELL_LEADS);
    assert_int_equal(l.czxid, 33);
    setup(NULL);
    simba__zk_latch_acquire(&l, true);
    simba__zk_latch_lose(&l);
    simba__zk_latch_connect(&l);
    assert_calls(listed(NULL, false), ENTER);
}

/* It leaves although it does not know whether it has a child: what is found is removed. */
static void leaves_unsure(void **state)
{
    simba__zk_latch_acquire(&l, true);
    simba__zk_latch_lose(&l);
    assert_told(simba__zk_latch_release(&l), ZK_TELL_NOTHING);
    assert_calls(simba__zk_latch_connect(&l), FIND);
    assert_calls(listed(name_of("0000000003"), false), ZK_CALL_DELETE);
    simba__zk_latch_read(&l, ZK_CALL_DELETE, ZK_OK);
    assert_told(simba__zk_latch_go(&l), ZK_TELL_GONE);
}

/* While a look is under way, a release waits for its answers. */
static void leaves_while_it_looks(void **state)
{
    simba__zk_latch_acquire(&l, true);
    assert_told(simba__zk_latch_release(&l), ZK_TELL_NOTHING);
    made("0000000004", 44);
    assert_calls(listed(name_of("0000000004"), true), ZK_CALL_DELETE);
    simba__zk_latch_lose(&l); /* nobody knows whether it is removed */
    assert_int_equal(l.place, ZK_UNSURE);
    assert_calls(simba__zk_latch_connect(&l), FIND);
    assert_told(listed(NULL, false), ZK_TELL_GONE);
}

/* Entering again while the removal is under way: another child is made behind it. */
static void enters_while_it_leaves(void **state)
{
    lead();
    simba__zk_latch_release(&l);
    assert_told(simba__zk_latch_acquire(&l, true), ZK_TELL_NOTHING);
    simba__zk_latch_read(&l, ZK_CALL_DELETE, ZK_OK);
    assert_calls(simba__zk_latch_go(&l), ENTER);
}

/* Nobody is to wait: the child is removed again, and who leads is read in the same step. */
static void tries(void **state)
{
    simba__zk_latch_acquire(&l, false);
    made("0000000002", 12);
    assert_calls(listed(name_of("0000000002"), false), TRY);
    simba__zk_latch_read(&l, ZK_CALL_FIRST, ZK_OK);
    simba__zk_latch_read(&l, ZK_CALL_DELETE, ZK_OK);
    assert_told(simba__zk_latch_go(&l), ZK_TELL_LOST);
    setup(NULL);
    simba__zk_latch_acquire(&l, false);
    made("0000000002", 12);
    listed(name_of("0000000002"), false);
    simba__zk_latch_read(&l, ZK_CALL_FIRST, ZK_NO_NODE); /* the winner has gone */
    simba__zk_latch_read(&l, ZK_CALL_DELETE, ZK_OK);
    assert_calls(simba__zk_latch_go(&l), ENTER);
}

/* Somebody removes the child of a leader, or of a waiter, who loses its place only. */
static void removed(void **state)
{
    lead();
    assert_told(simba__zk_latch_taken(&l), ZK_TELL_REVOKED);
    assert_int_equal(l.place, ZK_REVOKED);
    assert_told(simba__zk_latch_taken(&l), ZK_TELL_NOTHING);
    assert_calls(simba__zk_latch_acquire(&l, true), ENTER);
    setup(NULL);
    wait_behind();
    simba__zk_latch_before(&l);
    assert_calls(listed(NULL, false), ENTER);
}

/* A number that the server cannot count beyond does not say who was first. */
static void numbers_are_used_up(void **state)
{
    static const char *const bad[] = {"2147483647", "-214748364", "1", "00000000001"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setup(NULL);
        simba__zk_latch_acquire(&l, true);
        made(bad[i], 12);
        assert_calls(listed(name_of(bad[i]), true), ZK_CALL_DELETE);
        simba__zk_latch_read(&l, ZK_CALL_DELETE, ZK_OK);
        assert_told(simba__zk_latch_go(&l), ZK_TELL_NO_NUMBERS);
    }
}

/* Somebody removes each child that is made. */
static void goes_each_time(void **state)
{
    zk_move move = simba__zk_latch_acquire(&l, true);
    for (unsigned rounds = 0; rounds < 5; rounds++) {
        assert_calls(move, ENTER);
        made("0000000002", 12);
        move = listed(NULL, false);
    }
    assert_told(move, ZK_TELL_REFUSED);
}

/* An error that nobody expects ends the look; what is there stays. */
static void errors(void **state)
{
    simba__zk_latch_acquire(&l, true);
    simba__zk_latch_made(&l, NULL, 0, 0, ZK_UNIMPLEMENTED);
    assert_told(simba__zk_latch_listed(&l, NULL, false, ZK_NO_NODE), ZK_TELL_FAILED);
    assert_int_equal(l.error, ZK_UNIMPLEMENTED);
    assert_int_equal(l.place, ZK_NONE);
    setup(NULL);
    simba__zk_latch_acquire(&l, true);
    made("0000000001", 11);
    assert_told(simba__zk_latch_listed(&l, NULL, false, ZK_NO_AUTH), ZK_TELL_FAILED);
    assert_int_equal(l.place, ZK_WAITS);
}

/* Its own child is found by its whole name once that is known, and before by its uuid; others may have the same number. */
static void finds_its_own(void **state)
{
    char one[ZK_NAME_MAX];
    char two[ZK_NAME_MAX];
    snprintf(one, sizeof one, "%s0000000002", l.prefix);
    snprintf(two, sizeof two, "%s0000000005", l.prefix);
    const char *const names[] = {"_c_0-latch-0000000001", one, "_c_0-latch-0000000003", two, "b"};
    assert_int_equal(simba__zk_latch_find(&l, names, 5), 5);
    simba__zk_latch_acquire(&l, true);
    simba__zk_latch_lose(&l);
    assert_int_equal(simba__zk_latch_find(&l, names, 5), 1);
    simba__zk_latch_connect(&l);
    listed(two, false);
    assert_int_equal(simba__zk_latch_find(&l, names, 5), 3);
    assert_int_equal(simba__zk_latch_find(&l, names, 3), 3);
}

/* A child of the session before is nobody's. */
static void sessions_have_names_of_their_own(void **state)
{
    zk_latch next;
    uint64_t nonce;
    simba__zk_latch_init(&next, 7, "me", 1);
    assert_string_not_equal(l.prefix, next.prefix);
    assert_true(simba__zk_nonce_of(next.prefix, 1, &nonce) && nonce == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(first_leads, setup),
        cmocka_unit_test_setup(waiter_lists_again, setup),
        cmocka_unit_test_setup(node_is_made, setup),
        cmocka_unit_test_setup(lost_creation, setup),
        cmocka_unit_test_setup(leaves_unsure, setup),
        cmocka_unit_test_setup(leaves_while_it_looks, setup),
        cmocka_unit_test_setup(enters_while_it_leaves, setup),
        cmocka_unit_test_setup(tries, setup),
        cmocka_unit_test_setup(removed, setup),
        cmocka_unit_test_setup(numbers_are_used_up, setup),
        cmocka_unit_test_setup(goes_each_time, setup),
        cmocka_unit_test_setup(errors, setup),
        cmocka_unit_test_setup(finds_its_own, setup),
        cmocka_unit_test_setup(sessions_have_names_of_their_own, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
