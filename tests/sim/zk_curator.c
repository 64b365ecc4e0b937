/* Contenders of Simba on the JVM, beside ours: Curator's LeaderLatch. Such a contender makes a child with a random
 * uuid in its name and lists the children; the first leads, every other one watches the child before it and lists
 * again when that goes. It does not watch its own child. When its connection is lost it no longer leads, and lists
 * when it has another one; it uses the uuid to find a child whose creation went unanswered. It reads what its server
 * has, without a sync. The checks ignore who it believes leads: ours must never lead while its child is the first.
 * It talks to a server directly, and not over a wire. All of them leave when everything heals. */
#include <string.h>

#include "sim/zk_model.h"
#include "stores/zookeeper/zookeeper.h"

typedef enum curator_step {
    CURATOR_CONNECT,
    CURATOR_PARENTS,
    CURATOR_CREATE,
    CURATOR_FIND, /* was it made? */
    CURATOR_LIST,
    CURATOR_RELEASE,
    CURATOR_DIE,
    CURATOR_CLOSE,
    CURATOR_PING, /* this one does not wait for the others */
} curator_step;

static zk_curator *curator_at(sim *s, unsigned i)
{
    return &zk_state_of(s)->curator[i];
}

static int64_t trip(sim *s)
{
    return s->plan->latency_ns * sim_pick(s, 50, 150) / 100;
}

/* Only the step that was planned last is taken. */
static void plan_step(sim *s, unsigned i, curator_step step, int64_t after_ns)
{
    sim_plan_event(s, EV_SERVER, ZK_CURATOR_FIRST + i, s->now + after_ns, ++curator_at(s, i)->version, step);
}

static void plan_ping(sim *s, unsigned i)
{
    sim_plan_event(s, EV_SERVER, ZK_CURATOR_FIRST + i, s->now + s->plan->session_ns / 3, curator_at(s, i)->connection,
                   CURATOR_PING);
}

static bool answers(const sim *s, unsigned server)
{
    return ensemble_serves(s, server) && s->now >= zk_state_of(s)->server[server].frozen_until;
}

/* Nothing that was under way counts any more. */
static void lose_connection(zk_curator *curator)
{
    curator->connection++;
    curator->connected = false;
    curator->watched[0] = '\0';
}

static void disconnect(sim *s, unsigned i)
{
    lose_connection(curator_at(s, i));
    plan_step(s, i, CURATOR_CONNECT, sim_pick(s, 10, 1000) * SIM_MS);
}

/* A write. If nothing is heard of it, the connection is given up, as after a connection that was lost. */
static void ask(sim *s, unsigned i, zk_txn_kind kind, const char *path, bool sequential)
{
    zk_curator *curator = curator_at(s, i);
    zk_txn txn = {.kind = kind,
                  .server = curator->server,
                  .session = curator->session,
                  .curator = i + 1,
                  .wire_version = curator->connection,
                  .ctime_ms = s->plan->session_ns / SIM_MS,
                  .ephemeral = sequential,
                  .container = kind == ZK_TXN_CREATE && !sequential};
    strcpy(txn.path, path);
    strcpy(txn.data, sequential ? curator->id : "");
    txn.length = strlen(txn.data);
    writes_ask(s, curator->server, &txn, sequential);
    plan_step(s, i, curator->leaves ? CURATOR_CLOSE : CURATOR_CONNECT, s->plan->session_ns);
}

/* --- steps ------------------------------------------------------------------------------------------- */

static void connect_to(sim *s, unsigned i, unsigned server)
{
    zk_curator *curator = curator_at(s, i);
    const int64_t granted_ms = curator->session ? ensemble_validate(s, server, curator->session) : 0;
    lose_connection(curator);
    curator->server = server;
    if (granted_ms < 0) {
        disconnect(s, i);
        return;
    }
    if (granted_ms == 0) { /* there is no session, or none any more */
        curator->session = 0;
        curator->node[0] = '\0';
        curator->creating = false;
        ask(s, i, ZK_TXN_OPEN, "", false);
        return;
    }
    curator->connected = true;
    plan_ping(s, i);
    plan_step(s, i, curator->creating ? CURATOR_FIND : curator->node[0] ? CURATOR_LIST : CURATOR_CREATE, trip(s));
}

static void connect_anywhere(sim *s, unsigned i)
{
    const zk_curator *curator = curator_at(s, i);
    const unsigned server = (unsigned)sim_pick(s, 0, zk_state_of(s)->servers - 1);
    if (answers(s, server) && ensemble_zxid(s, server) >= curator->seen)
        connect_to(s, i, server);
    else
        disconnect(s, i);
}

static void mutex_path(const sim *s, unsigned i, char path[ZK_PATH])
{
    snprintf(path, ZK_PATH, "/simba/%s", sim_mutex_name(zk_state_of(s)->curator[i].mutex));
}

static void make_parents(sim *s, unsigned i)
{
    char path[ZK_PATH];
    mutex_path(s, i, path);
    ask(s, i, ZK_TXN_CREATE, "/simba", false);
    ask(s, i, ZK_TXN_CREATE, path, false);
    plan_step(s, i, CURATOR_CREATE, 2 * trip(s) + 10 * SIM_MS);
}

static void make_child(sim *s, unsigned i)
{
    zk_curator *curator = curator_at(s, i);
    char path[ZK_PATH];
    mutex_path(s, i, path);
    const uint64_t left = (uint64_t)sim_pick(s, 0, INT64_MAX - 1), right = (uint64_t)sim_pick(s, 0, INT64_MAX - 1);
    snprintf(curator->prefix, sizeof curator->prefix, "%.40s/_c_%08x-%04x-%04x-%04x-%012llx-latch-", path,
             (unsigned)(left >> 31), (unsigned)left & 0xffff, (unsigned)(left >> 16) & 0x7fff, (unsigned)right & 0xffff,
             (unsigned long long)(right >> 16));
    curator->creating = true;
    ask(s, i, ZK_TXN_CREATE, curator->prefix, true);
}

/* It takes what its server has. */
static void find_child(sim *s, unsigned i)
{
    zk_curator *curator = curator_at(s, i);
    zk_tree *tree = &ensemble_server(s, curator->server)->tree;
    char path[ZK_PATH];
    mutex_path(s, i, path);
    curator->creating = false;
    for (const zk_znode *child = tree_child(tree, path, NULL); child;
         child = tree_child(tree, path, (zk_znode *)(uintptr_t)child))
        if (strncmp(child->path, curator->prefix, strlen(curator->prefix)) == 0)
            strcpy(curator->node, child->path);
    plan_step(s, i, curator->node[0] ? CURATOR_LIST : CURATOR_CREATE, trip(s));
}

static void lead(sim *s, unsigned i)
{
    sim_tell(s, "curator %s leads by server %u", curator_at(s, i)->id, curator_at(s, i)->server);
    plan_step(s, i, sim_chance(s, 200) ? CURATOR_DIE : CURATOR_RELEASE, sim_pick(s, 1, 20000) * SIM_MS);
}

static void list(sim *s, unsigned i)
{
    zk_curator *curator = curator_at(s, i);
    zk_tree *tree = &ensemble_server(s, curator->server)->tree;
    const zk_znode *before = NULL;
    char path[ZK_PATH];
    mutex_path(s, i, path);
    if (!tree_find(tree, curator->node)) {
        curator->node[0] = '\0'; /* somebody has removed it */
        plan_step(s, i, CURATOR_CREATE, trip(s));
        return;
    }
    for (zk_znode *child = tree_child(tree, path, NULL); child; child = tree_child(tree, path, child))
        if (simba__zk_order(child->path, curator->node) < 0 &&
            (!before || simba__zk_order(child->path, before->path) > 0))
            before = child;
    strcpy(curator->watched, before ? before->path : "");
    if (!before)
        lead(s, i);
    else if (sim_chance(s, 100))
        plan_step(s, i, CURATOR_RELEASE, sim_pick(s, 1, 20000) * SIM_MS); /* it does not want to wait for ever */
    else
        curator->version++;
}

/* Its process is gone, and the next one knows nothing of it. */
static void die(sim *s, unsigned i)
{
    zk_curator *curator = curator_at(s, i);
    sim_tell(s, "curator %s dies", curator->id);
    disconnect(s, i);
    curator->session = 0;
    curator->seen = 0;
    plan_step(s, i, CURATOR_CONNECT, sim_pick(s, 0, 2 * s->plan->session_ns));
}

static void close_session(sim *s, unsigned i)
{
    zk_curator *curator = curator_at(s, i);
    curator->alive = curator->session != 0;
    curator->server = (unsigned)sim_pick(s, 0, zk_state_of(s)->servers - 1);
    if (curator->alive && answers(s, curator->server))
        ask(s, i, ZK_TXN_CLOSE, "", false);
    if (curator->alive)
        plan_step(s, i, CURATOR_CLOSE, SIM_S);
}

/* --- what it is told ---------------------------------------------------------------------------------- */

static void child_made(sim *s, unsigned i, const zk_txn *txn)
{
    zk_curator *curator = curator_at(s, i);
    if (txn->container)
        return;
    curator->creating = false;
    if (!txn->error)
        strcpy(curator->node, txn->path);
    plan_step(s, i, txn->error ? CURATOR_PARENTS : CURATOR_LIST, trip(s));
}

void curators_applied(sim *s, const zk_txn *txn)
{
    const unsigned i = txn->curator - 1;
    zk_curator *curator = curator_at(s, i);
    if (!curator->alive || txn->wire_version != curator->connection)
        return;
    curator->seen = ensemble_zxid(s, curator->server);
    if (txn->kind == ZK_TXN_CLOSE) {
        curator->alive = false;
    } else if (curator->leaves) {
        return;
    } else if (txn->error == ZK_ERR_MOVED || txn->error == ZK_ERR_EXPIRED) {
        disconnect(s, i);
    } else if (txn->kind == ZK_TXN_OPEN) {
        curator->session = txn->session;
        curator->connected = true;
        plan_ping(s, i);
        plan_step(s, i, CURATOR_CREATE, trip(s));
    } else if (txn->kind == ZK_TXN_CREATE) {
        child_made(s, i, txn);
    } else {
        curator->node[0] = '\0';
        plan_step(s, i, CURATOR_CREATE, sim_pick(s, 0, 5000) * SIM_MS);
    }
}

void curators_changed(sim *s, unsigned server, const char *path, int type)
{
    for (unsigned i = 0; i < s->plan->jvms && type == ZK_DELETED; i++) {
        zk_curator *curator = curator_at(s, i);
        if (!curator->connected || curator->leaves || curator->server != server || strcmp(curator->watched, path) != 0)
            continue;
        curator->watched[0] = '\0';
        plan_step(s, i, CURATOR_LIST, 2 * trip(s));
    }
}

static void ping(sim *s, unsigned i)
{
    zk_curator *curator = curator_at(s, i);
    if (curator->connected && answers(s, curator->server) && ensemble_touch(s, curator->server, curator->session))
        plan_ping(s, i);
    else if (curator->connected)
        disconnect(s, i);
}

/* --- life --------------------------------------------------------------------------------------------- */

static void take_step(sim *s, unsigned i, curator_step step)
{
    if (step > CURATOR_CONNECT && step < CURATOR_DIE && !answers(s, curator_at(s, i)->server)) {
        disconnect(s, i);
        return;
    }
    switch (step) {
    case CURATOR_CONNECT:
        connect_anywhere(s, i);
        break;
    case CURATOR_PARENTS:
        make_parents(s, i);
        break;
    case CURATOR_CREATE:
        make_child(s, i);
        break;
    case CURATOR_FIND:
        find_child(s, i);
        break;
    case CURATOR_LIST:
        list(s, i);
        break;
    case CURATOR_RELEASE:
        ask(s, i, ZK_TXN_DELETE, curator_at(s, i)->node, false);
        break;
    case CURATOR_DIE:
        die(s, i);
        break;
    case CURATOR_CLOSE:
        close_session(s, i);
        break;
    case CURATOR_PING:
        break;
    }
}

void curators_event(sim *s, const sim_event *event)
{
    const unsigned i = event->who - ZK_CURATOR_FIRST;
    const zk_curator *curator = curator_at(s, i);
    if (event->arg == CURATOR_PING) {
        if (curator->alive && !curator->leaves && event->version == curator->connection)
            ping(s, i);
    } else if (curator->alive && event->version == curator->version) {
        take_step(s, i, (curator_step)event->arg);
    }
}

void curators_begin(sim *s)
{
    for (unsigned i = 0; i < s->plan->jvms; i++) {
        zk_curator *curator = curator_at(s, i);
        *curator = (zk_curator){.alive = true, .mutex = i % s->plan->mutexes};
        snprintf(curator->id, sizeof curator->id, "%u:1@jvm", i);
        if (sim_chance(s, 200))
            strcpy(curator->id, s->plan->member[0].id); /* it is foreign all the same */
        plan_step(s, i, CURATOR_CONNECT, sim_pick(s, 0, sim_chance(s, 700) ? 30 * SIM_MS : 10 * SIM_S));
    }
}

void curators_leave(sim *s)
{
    for (unsigned i = 0; i < s->plan->jvms; i++) {
        curator_at(s, i)->leaves = true;
        plan_step(s, i, CURATOR_CLOSE, trip(s));
    }
}
