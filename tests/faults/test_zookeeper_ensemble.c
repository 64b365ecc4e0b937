/* An ensemble of three ZooKeeper servers, whose members die one after the other while contenders hand a mutex round: the
 * leader of the ensemble among them, or stand still. Nobody loses anything: the session moves on to another server in time. */
#include <netinet/in.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "faults/arena.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

#include "client/client.h"
#include "stores/zookeeper/zookeeper.h"

#define SESSION_MS (ref_scaled_ms(12000))
/* Outlives an election on a machine that has other things to do: candidates that miss each other wait twice as long each time. */
#define LONG_SESSION_MS 90000

static server ensemble;

static int setup(void **state)
{
    char url[256];
    snprintf(url, sizeof url, "zookeeper://%s/deep/down?session-timeout=%dms", ensemble.hosts, LONG_SESSION_MS);
    open_arena(url, (simba_timing)SIMBA_TIMING_INHERIT);
    return 0;
}

static int teardown(void **state)
{
    close_arena();
    return 0;
}

static server *leader_of_ensemble(void)
{
    for (int tries = 0; tries < 1000; tries++) {
        for (unsigned i = 0; i < SERVER_ENSEMBLE; i++) {
            char text[2048];
            server *s = server_nth(&ensemble, i);
            if (s->pid && server_ask_zookeeper(s, "srvr", text, sizeof text) > 0 && strstr(text, "Mode: leader"))
                return s;
        }
        usleep(10000);
    }
    fail_msg("the ensemble has no leader");
    return NULL;
}

/* Every contender leads once more. */
static void assert_goes_round(void)
{
    for (unsigned i = 0; i < N; i++)
        assert_hands_over();
    assert_int_equal(ref_complaints(), 0);
}

/* The leader dies, another is elected, the dead one comes back; and so on. */
static void leader_killed(void **state)
{
    ref_scene("leader of the ensemble killed");
    assert_goes_round();
    for (int i = 0; i < 2; i++) {
        ref_lock();
        const unsigned grants = arena.grants;
        const ref_contender *inside = arena.inside;
        ref_unlock();
        server *victim = leader_of_ensemble();
        server_signal(victim, SIGKILL);
        leader_of_ensemble();
        ref_lock();
        const bool kept = arena.grants == grants && arena.inside == inside;
        ref_unlock();
        assert_true(kept);
        assert_goes_round();
        assert_true(server_restart_zookeeper(victim));
    }
}

/* The server that a client is connected to; NULL: none just now. */
static server *server_of(simba_client *client)
{
    simba__lock(client);
    const zk_session *session = &((zk_store *)client->store)->session;
    const int port = session->live.link == ZK_CONNECTED ? session->link.at.port : 0;
    simba__unlock(client);
    for (unsigned i = 0; port && i < SERVER_ENSEMBLE; i++)
        if (server_nth(&ensemble, i)->port == port)
            return server_nth(&ensemble, i);
    return NULL;
}

static simba_client *leading_client(void)
{
    for (unsigned i = 0; i < N; i++)
        if (arena.inside == &arena.contenders[i])
            return clients[i];
    return NULL;
}

/* Everybody knows the followers only. */
static int setup_followers(void **state)
{
    char url[256];
    const server *leader = leader_of_ensemble();
    int length = snprintf(url, sizeof url, "zookeeper://");
    for (unsigned i = 0; i < SERVER_ENSEMBLE; i++)
        if (server_nth(&ensemble, i) != leader)
            length +=
                snprintf(url + length, sizeof url - (size_t)length, "127.0.0.1:%d,", server_nth(&ensemble, i)->port);
    snprintf(url + length - 1, sizeof url - (size_t)length, "/deep/down?session-timeout=%lldms", (long long)SESSION_MS);
    open_arena(url, (simba_timing)SIMBA_TIMING_INHERIT);
    return 0;
}

/* The server of the one that leads, a follower, stands still: its connections stay, and it accepts new ones, but it answers nothing. The session moves
 * to another server in time; when the first one goes on, it knows nothing of that, and answers from the past. */
static void server_frozen(void **state)
{
    ref_scene("server frozen");
    simba_client *client = leading_client();
    server *frozen = server_of(client);
    assert_non_null(frozen);
    const unsigned grants = grants_now();
    server_signal(frozen, SIGSTOP);
    assert_true(REF_WITHIN(ARENA_LONG_MS, server_of(client) && server_of(client) != frozen));
    assert_int_equal(grants_now(), grants);
    server_signal(frozen, SIGCONT);
    assert_goes_round();
}

static bool start(server *s)
{
    return server_start_ensemble(s, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(server_frozen, setup_followers, teardown),
        cmocka_unit_test_setup_teardown(leader_killed, setup, teardown),
    };
    return RUN_ZOOKEEPER_TESTS(tests, &ensemble, start);
}
