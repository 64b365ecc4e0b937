/* Somebody else writes to the nodes of contenders, or removes them: an administrator with a shell. One leads at a time all
 * the same, and whoever is concerned gets to know. Each contender has a client of its own. */
#include <simba.h>
#include <stdio.h>

#include "lib/cm.h"
#include "lib/raw_zookeeper.h"
#include "lib/referee.h"
#include "lib/run_zookeeper.h"
#include "lib/server.h"

#include "client/client.h"
#include "stores/zookeeper/zookeeper.h"

#define SOON_MS (ref_scaled_ms(3000)) /* there is no fallback: what is not told is never known */

enum { N = 3, NAME_MAX_HERE = 128 };

static server zookeeper;
static simba_client *clients[N];
static ref_arena arena;
static zhandle_t *raw;
static char folder[64];
static unsigned round_number;

/* The contender of a client that has one; NULL: none. The client is locked. */
static const zk_contender *contender_of(unsigned i)
{
    simba__node *node = simba__table_first(&((zk_store *)clients[i]->store)->contenders);
    return node ? SIMBA__OF_NODE(node, zk_contender, node) : NULL;
}

/* The node of a contender, as its client knows it; "" while it has none. */
static void node_of(unsigned i, char ret_path[2 * NAME_MAX_HERE])
{
    ret_path[0] = '\0';
    simba__lock(clients[i]);
    const zk_contender *c = contender_of(i);
    if (c && (c->place == ZK_WAITS || c->place == ZK_LEADS))
        snprintf(ret_path, 2 * NAME_MAX_HERE, "%s/%s", folder, c->name);
    simba__unlock(clients[i]);
}

/* Its watches are set: of the one before it, if it waits; of its own node, if it leads. */
static bool is_settled(unsigned i)
{
    simba__lock(clients[i]);
    const zk_contender *c = contender_of(i);
    const bool settled = c && c->stage == ZK_RESTS && (c->place == ZK_LEADS ? c->own.path : c->before.path);
    simba__unlock(clients[i]);
    return settled;
}

static void wait_until_settled(void)
{
    for (unsigned i = 0; i < N; i++)
        if (arena.contenders[i].handle)
            assert_true(REF_WITHIN(SOON_MS, is_settled(i)));
}

static int setup(void **state)
{
    char url[96];
    char mutex[16];
    ref_arena_init(&arena);
    ref_watchdog(60);
    snprintf(mutex, sizeof mutex, "m%u", ++round_number);
    snprintf(folder, sizeof folder, "/simba/%s", mutex);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d", zookeeper.port);
    for (unsigned i = 0; i < N; i++) {
        const simba_contender_options options = ref_options(&arena, i);
        assert_int_equal(simba_client_open(url, NULL, NULL, &clients[i]), 0);
        assert_int_equal(simba_contender_new(clients[i], mutex, &options, NULL, &arena.contenders[i].handle), 0);
    }
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(ref_start(&arena.contenders[i]), 0);
        char path[2 * NAME_MAX_HERE] = "";
        assert_true(REF_WITHIN(SOON_MS, (node_of(i, path), path[0] != '\0')));
    }
    assert_true(REF_WITHIN(SOON_MS, arena.inside == &arena.contenders[0]));
    wait_until_settled();
    raw = raw_zookeeper_open(zookeeper.port, NULL);
    return 0;
}

static int teardown(void **state)
{
    zookeeper_close(raw);
    for (unsigned i = N; i-- > 0;) {
        ref_stop(&arena.contenders[i]);
        ref_free(&arena.contenders[i]);
        simba_client_close(clients[i]);
    }
    ref_watchdog(0);
    ref_arena_check_end(&arena);
    return 0;
}

static bool leads(unsigned i)
{
    ref_lock();
    const bool inside = arena.inside == &arena.contenders[i];
    ref_unlock();
    return inside;
}

static unsigned grants_now(void)
{
    ref_lock();
    const unsigned grants = arena.grants;
    ref_unlock();
    return grants;
}

static void remove_node_of(unsigned i)
{
    char path[2 * NAME_MAX_HERE];
    node_of(i, path);
    assert_int_equal(raw_zookeeper_delete(raw, path), ZOK);
}

static void ignore_row(const simba_listing *row, void *user)
{
}

/* Write to a node, and wait until all who watch it have heard of it and watch again. */
static void touch_node_of(unsigned i)
{
    char path[2 * NAME_MAX_HERE];
    const double fired = server_zookeeper_counter(&zookeeper, "zk_sum_node_changed_watch_count");
    node_of(i, path);
    assert_int_equal(raw_zookeeper_set(raw, path, "somebody else"), ZOK);
    assert_true(REF_WITHIN(SOON_MS, server_zookeeper_counter(&zookeeper, "zk_sum_node_changed_watch_count") > fired));
    for (unsigned n = 0; n < N; n++)
        simba_client_list(clients[n], "none", ignore_row, NULL,
                          NULL); /* a round trip: the event comes before its answer */
    wait_until_settled();
}

/* A node that is written to is still there: who waits behind it does not lead. */
static void touched_leader(void **state)
{
    ref_scene("the leader's node is written to");
    for (int i = 0; i < 3; i++) {
        touch_node_of(0);
        assert_true(leads(0));
        assert_int_equal(grants_now(), 1);
    }
    ref_stop(&arena.contenders[0]);
    assert_true(REF_WITHIN(SOON_MS, arena.inside == &arena.contenders[1]));
}

/* A holder whose node was written to goes on watching it, and is told when it is removed. */
static void touched_then_removed(void **state)
{
    ref_scene("the leader's node is written to, then removed");
    touch_node_of(0);
    touch_node_of(0);
    ref_force(&arena);
    remove_node_of(0);
    assert_true(REF_WITHIN(SOON_MS, arena.contenders[0].released == 1));
    assert_int_equal(arena.contenders[0].reason, SIMBA_REASON_REVOKED);
    assert_true(REF_WITHIN(SOON_MS, ref_settled(&arena)));
}

/* A waiter whose node was removed has lost its place: it does not lead when the one before it goes, but the next one does,
 * and it enters the queue again. */
static void removed_waiter(void **state)
{
    ref_scene("a waiter's node is removed");
    remove_node_of(1);
    ref_stop(&arena.contenders[0]);
    assert_true(REF_WITHIN(SOON_MS, arena.grants == 2));
    assert_true(leads(2));
    ref_stop(&arena.contenders[2]);
    assert_true(REF_WITHIN(SOON_MS, arena.inside == &arena.contenders[1]));
}

/* --- a child that comes back ------------------------------------------------------------------------------- */

static void made_again(zk_op *op, const zk_call *call, zk_result *result)
{
    assert_int_equal(result->error, ZK_OK);
}

/* The session of this client has a child that was removed long ago: the ensemble has lost the removal. */
static void bring_back_child_of(unsigned i)
{
    enum { EPHEMERAL = 1 };
    static const zk_kind making = {.step = simba__zk_op_end, .lost = simba__zk_op_end, .stays = true};
    char path[2 * NAME_MAX_HERE];
    char name[NAME_MAX_HERE];
    zk_store *store = clients[i]->store;
    snprintf(path, sizeof path, "%s/_c_01234567-89ab-cdef-0123-456789abcdef-latch-0000000000", folder);
    simba__lock(clients[i]);
    zk_op *op = simba__zk_op_new(store, &making, sizeof *op, NULL);
    assert_true(
        simba__zk_ask(op, made_again, &(zk_request){.type = ZK_CREATE, .path = path, .data = "again", .length = 5}));
    store->session.link.out.data[store->session.link.out.length - 1] = EPHEMERAL; /* the store makes no such nodes */
    simba__zk_session_flush(&store->session);
    simba__unlock(clients[i]);
    assert_true(REF_WITHIN(SOON_MS, raw_zookeeper_child(raw, folder, "89ab-cdef", sizeof name, name) == ZOK));
}

static void stop_all(void)
{
    for (unsigned i = N; i-- > 0;)
        ref_stop(&arena.contenders[i]);
}

/* It leads the queue. Its client removes it when it gets into it itself. */
static void child_comes_back(void **state)
{
    ref_scene("a child that was removed is there again, and leads");
    stop_all();
    bring_back_child_of(0);
    assert_int_equal(ref_start(&arena.contenders[0]), 0);
    assert_true(REF_WITHIN(SOON_MS, arena.inside == &arena.contenders[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(touched_leader, setup, teardown),
        cmocka_unit_test_setup_teardown(touched_then_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(removed_waiter, setup, teardown),
        cmocka_unit_test_setup_teardown(child_comes_back, setup, teardown),
    };
    return RUN_ZOOKEEPER_TESTS(tests, &zookeeper, server_start_zookeeper);
}
