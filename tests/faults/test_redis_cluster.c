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
    (void)state;
    close_arena();
    server_fini(&group);
    return 0;
}

static const char *id_of(const server *s)
{
    static char ids[2][48];
    static unsigned next;
    char *id = ids[next++ % 2];
    sscanf(server_tell_redis(s, "CLUSTER MYID"), "$40\r\n%40s", id);
    return id;
}

/* As redis-cli --cluster reshard does it. The keys come and go while this runs. */
static void move_slot_to(server *to)
{
    const unsigned slot = simba__redis_slot("orders");
    server_tell_redis(to, "CLUSTER SETSLOT %u IMPORTING %s", slot, id_of(home));
    server_tell_redis(home, "CLUSTER SETSLOT %u MIGRATING %s", slot, id_of(to));
    for (int i = 0; i < 100; i++) {
        const char *moved = server_tell_redis(home,
                                              "MIGRATE 127.0.0.1 %d \"\" 0 5000 KEYS simba:{orders} "
                                              "simba:{orders}:grant simba:{orders}:contender",
                                              to->port);
        if (strncmp(moved, "+NOKEY", 6) == 0)
            break;
        usleep(2000);
    }
    const char *id = id_of(to);
    server_tell_redis(to, "CLUSTER SETSLOT %u NODE %s", slot, id);
    server_tell_redis(home, "CLUSTER SETSLOT %u NODE %s", slot, id);
    home = to;
}

/* The slot moves while the mutex goes round, and then its master is killed and comes back. */
static void slot_moves(void **state)
{
    (void)state;
    start();
    contend("");
    ref_scene("slot moves");
    for (unsigned i = 0; i < 4; i++) {
        move_slot_to(server_nth(&group, home == server_nth(&group, i % 3) ? (i + 1) % 3 : i % 3));
        assert_hands_over();
    }
    ref_scene("master killed");
    server_signal(home, SIGKILL);
    usleep((unsigned)(ARENA_TTL_MS * 1000 / 2));
    assert_true(server_start_redis_master(home));
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
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
    (void)state;
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
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(slot_moves, teardown),
                                       cmocka_unit_test_teardown(about_failover, teardown)};
    return SERVER_RUN_TESTS("redis-server", tests, NULL, NULL);
}
