/* Contenders on a cluster whose slots move and whose masters die. The referee must have nothing to complain about. The
 * servers write every change to disk, and with replicas=1 to a replica, since a store that forgets can promise nothing. */
#include <signal.h>

#include "faults/redis_arena.h"
#include "stores/redis/redis.h"

static server group;
static server *home; /* of the mutex */

static void start(void)
{
    server_init(&group);
    if (!server_start_redis_cluster(&group))
        fail_msg("the cluster does not start");
    const unsigned nth = simba__redis_slot("orders") / 5461;
    home = server_nth(&group, nth > 2 ? 2 : nth);
}

static void contend(const char *settings)
{
    char url[256];
    snprintf(url, sizeof url, "redis+cluster://%s%s", group.hosts, settings);
    open_redis_arena(url);
    await_queue(home);
}

static int teardown(void **state)
{
    close_arena();
    server_fini(&group);
    return 0;
}

static void await_successor(server *replica)
{
    assert_true(server_await_redis(replica, "ROLE", "master"));
    assert_true(server_await_redis(replica, "PUBSUB CHANNELS", "orders")); /* it has been found */
}

/* The master is killed, and its replica takes its place; then that one is frozen, and the first is the master again.
 * Without another replica nothing is granted: so each comes back as that. */
static void about_failover(void **state)
{
    start();
    server *replica = server_add(&group);
    assert_true(server_start_redis_replica(replica, home));
    for (unsigned i = 0; i < 3; i++) /* who have to vote for it */
        assert_true(server_await_redis(server_nth(&group, i), "CLUSTER NODES", "slave"));
    contend("?replicas=1&timeout=1m"); /* not by a connection's silence does one learn of a frozen server */
    ref_scene("failover");
    server_signal(home, SIGKILL);
    await_successor(replica);
    assert_true(server_start_redis_master(home));
    assert_hands_over();

    ref_scene("failover from a frozen master");
    assert_true(server_await_redis(home, "INFO replication", "master_link_status:up"));
    server_signal(replica, SIGSTOP);
    await_successor(home);
    server_signal(replica, SIGCONT);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(about_failover, teardown)};
    return SERVER_RUN_TESTS("redis-server", tests, NULL, NULL);
}
