/* Every interleaving of the machines of stores within small bounds: see machine.h. */
#include <string.h>

#include "lib/cm.h"
#include "sim/machine.h"

static search_verdict explored(const char *name, const char *bounds_text, unsigned jobs)
{
    unsigned bounds[MACHINE_BOUNDS];
    search_verdict verdict;
    const machine *which = machine_find(name);
    assert_non_null(which);
    assert_true(machine_parse(which, bounds_text, bounds));
    assert_true(machine_explore(which, bounds, jobs, 1 << 20, stderr, &verdict));
    return verdict;
}

/* The number of worlds is as good as a checksum, whatever the number of threads. */
static void every_promise_is_kept(const char *name, const char *bounds_text)
{
    const search_verdict one = explored(name, bounds_text, 1);
    const search_verdict three = explored(name, bounds_text, 3);
    assert_in_range(one.states, 1000, 100000);
    assert_int_equal(one.states, three.states);
    assert_int_equal(one.choices, three.choices);
    assert_int_equal(one.depth, three.depth);
}

/* Beats that are late, servers that die before they have reported them. */
static void zookeeper_session_is_not_believed_in_for_too_long(void **state)
{
    (void)state;
    every_promise_is_kept("zk-liveness", "kills=1,breaks=0,changes=0,delays=1,pauses=0");
}

/* Two clients enter, wait, lead and leave, in every order. */
static void zookeeper_queue_has_one_leader(void **state)
{
    (void)state;
    every_promise_is_kept("zk-latch", "breaks=0,removals=0,leaves=0");
}

/* Two clients ask and listen on connections that break or not; a grant that too few replicas have; answers that come too late; messages
 * that are lost or come twice. */
static void redis_waiters_keep_their_place(void **state)
{
    (void)state;
    if (!machine_find("redis-waiters"))
        skip(); /* that store was left out */
    every_promise_is_kept("redis-waiters", "enters=2,breaks=1,leaves=0");
    every_promise_is_kept("redis-waiters", "enters=3,breaks=0,leaves=0,refusals=1");
    every_promise_is_kept("redis-waiters", "enters=2,breaks=0,leaves=0,expiries=1");
    every_promise_is_kept("redis-waiters", "enters=2,breaks=0,leaves=1,losses=1,repeats=1");
}

static void bounds_are_checked(void **state)
{
    (void)state;
    unsigned bounds[MACHINE_BOUNDS];
    const machine *which = machine_find("zk-liveness");
    assert_true(machine_parse(which, "kills=3,grain=2", bounds));
    assert_int_equal(bounds[0], 3);
    static const char *const wrong[] = {"kills", "kills=", "kills=x", "kill=1", "kills=10", "=1", "kills=1;breaks=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(machine_parse(which, wrong[i], bounds));
    assert_null(machine_find("nothing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zookeeper_session_is_not_believed_in_for_too_long),
        cmocka_unit_test(redis_waiters_keep_their_place),
        cmocka_unit_test(zookeeper_queue_has_one_leader),
        cmocka_unit_test(bounds_are_checked),
    };
    return machine_find("zk-liveness") ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
