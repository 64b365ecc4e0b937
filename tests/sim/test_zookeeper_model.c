/* What the model of a ZooKeeper ensemble promises the code that runs against it, as real servers do. */
#include <string.h>

#include "lib/cm.h"
#include "sim/sim.h"
#include "sim/zk_model.h"

static sim *begin(sim_plan *plan, uint64_t seed)
{
    sim *s = sim_new();
    memset(plan, 0, sizeof *plan);
    plan->servers = 3;
    plan->session_ns = 4 * SIM_S;
    plan->ticks = 10;
    s->plan = plan;
    s->random = seed;
    s->model = &sim_zookeeper;
    s->servers = s->kept[SIM_STORE_ZOOKEEPER] = s->model->new ();
    store_init(s);
    s->model->begin(s);
    return s;
}

static unsigned some_follower(sim *s)
{
    unsigned server = 0;
    while (ensemble_server(s, server)->role != ZK_FOLLOWS)
        server++;
    return server;
}

static bool answers_a_sync(sim *s, const sim_event *event)
{
    return event->kind == EV_SERVER && note_at(s, event->arg)->kind == ZK_NOTE_SYNCED;
}

/* A client has asked for a write and lost its connection; it comes back by the same server, and asks for a sync. When that is
 * answered, its server has the write, although it was cut off from its leader for a while. */
static void a_sync_comes_after_all_that_its_server_has_asked_for(void **state)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        sim_plan plan;
        sim_event event;
        sim *s = begin(&plan, seed);
        const unsigned server = some_follower(s);
        ensemble_server(s, server)->isolated_until = 50 * SIM_MS;
        writes_ask(s, server, &(zk_txn){.kind = ZK_TXN_CREATE, .server = server, .path = "/written"}, false);
        bool asked = false, synced = false;
        while (!synced) {
            assert_true(sim_events_next(&s->events, &event) && event.at < plan.session_ns);
            s->now = event.at;
            synced = answers_a_sync(s, &event);
            s->model->event(s, &event);
            if (!asked && s->now >= 50 * SIM_MS) {
                asked = true;
                writes_ask_sync(s, server, &(zk_txn){.server = server, .path = "/"});
            }
        }
        assert_non_null(tree_find(&ensemble_server(s, server)->tree, "/written"));
        sim_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sync_comes_after_all_that_its_server_has_asked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
