/* Contenders on a master with a replica, whose master is killed and frozen so that the sentinels appoint the other one. With
 * replicas=1 every grant is on both, so the referee must have nothing to complain about: one leader at a time, tokens that
 * grow, callbacks that alternate. */
#include <signal.h>

#include "faults/redis_arena.h"

static server group;
static server *master, *replica;

static int setup(void **state)
{
    char url[256];
    server_init(&group);
    if (!server_start_redis_sentinel(&group))
        fail_msg("the sentinels do not start");
    master = server_nth(&group, 3);
    replica = server_nth(&group, 4);
    snprintf(url, sizeof url, "redis+sentinel://%s/orders?replicas=1&restart-wait=no", group.hosts);
    open_redis_arena(url);
    await_queue(master);
    return 0;
}

static int teardown(void **state)
{
    close_arena();
    server_fini(&group);
    return 0;
}

/* Wait until the replica has been made the master, and swap the names. */
static void await_failover(void)
{
    bool promoted = false;
    for (int i = 0; i < 12000 && !promoted; i++) {
        promoted = strstr(server_tell_redis(replica, "ROLE"), "master") != NULL;
        usleep(5000);
    }
    for (unsigned i = 0; i < 3 && !promoted; i++)
        server_show_log(server_nth(&group, i));
    assert_true(promoted);
    server *old = master;
    master = replica;
    replica = old;
}

/* Killed for good, and then frozen and back as one of two that believe to be it. Whether whoever led goes on depends on how
 * long that takes; and the mutex goes on to the next one in any case. */
static void about_failovers(void **state)
{
    ref_scene("master killed");
    server_signal(master, SIGKILL);
    await_failover();
    /* Without a replica nothing is granted. */
    assert_true(
        server_start_redis(replica, (const char *const[]){"--replicaof", "127.0.0.1", master->port_text, NULL}));
    assert_hands_over();

    ref_scene("master frozen");
    server_signal(master, SIGSTOP);
    await_failover();
    server_signal(replica, SIGCONT); /* which takes itself for the master */
    usleep((unsigned)(ARENA_TTL_MS * 1000));
    server_tell_redis(replica, "REPLICAOF 127.0.0.1 %d", master->port);
    assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(about_failovers, setup, teardown)};
    return SERVER_RUN_TESTS("redis-server", tests, NULL, NULL);
}
