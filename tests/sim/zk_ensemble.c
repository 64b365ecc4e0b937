/* A model ZooKeeper ensemble. One log holds what most servers have agreed on; each server has applied a part of it.
 * A leader that the others have replaced, and that does not know it yet, goes on answering by itself: it reads,
 * answers a sync, renews sessions that it knows, and commits nothing. Followers tell their leader twice per tick
 * which sessions they have heard of; the leader ends the sessions that it has not heard of for their timeout. Grants
 * and releases in the log are reported to check.c. */
#include <stdlib.h>
#include <string.h>

#include "sim/zk_model.h"
#include "stores/zookeeper/zookeeper.h"

#define SYNC_LIMIT 5 /* ticks that servers go on without each other */

zk_state *zk_state_of(const sim *s)
{
    return s->servers;
}

zk_server *ensemble_server(sim *s, unsigned server)
{
    return &zk_state_of(s)->server[server];
}

/* --- who can be reached ------------------------------------------------------------------------------ */

bool ensemble_is_up(const sim *s, const zk_server *server)
{
    return s->now >= server->down_until;
}

static bool runs(const sim *s, const zk_server *server)
{
    return ensemble_is_up(s, server) && s->now >= server->frozen_until;
}

static bool reaches(sim *s, unsigned a, unsigned b)
{
    const zk_server *left = ensemble_server(s, a), *right = ensemble_server(s, b);
    return a == b ||
           (runs(s, left) && runs(s, right) && s->now >= left->isolated_until && s->now >= right->isolated_until);
}

bool ensemble_follows(sim *s, unsigned follower, unsigned leader)
{
    const zk_server *one = ensemble_server(s, follower), *other = ensemble_server(s, leader);
    return one->role == ZK_FOLLOWS && one->leader == leader && other->role == ZK_LEADS_ALL &&
           one->epoch == other->epoch && reaches(s, follower, leader);
}

/* Most servers follow it. */
bool ensemble_has_quorum(sim *s, unsigned leader)
{
    const zk_state *state = zk_state_of(s);
    unsigned count = 1;
    for (unsigned i = 0; i < state->servers; i++)
        count += i != leader && ensemble_follows(s, i, leader);
    return 2 * count > state->servers;
}

bool ensemble_serves(const sim *s, unsigned server)
{
    const zk_server *one = &zk_state_of(s)->server[server];
    return ensemble_is_up(s, one) && one->role != ZK_LOOKING;
}

int64_t ensemble_zxid(const sim *s, unsigned server)
{
    const zk_state *state = zk_state_of(s);
    const zk_server *one = &state->server[server];
    const int64_t last = one->applied ? state->log[one->applied - 1].zxid : 0;
    const int64_t begun = (int64_t)one->epoch << 32;
    return one->role != ZK_LOOKING && begun > last ? begun : last;
}

/* --- sessions ---------------------------------------------------------------------------------------- */

zk_tracked *ensemble_session(zk_server *server, uint64_t id)
{
    zk_tracked *session = &server->session[id % ZK_SESSIONS];
    return id && session->id == id ? session : NULL;
}

/* The leader looks at sessions once per tick: the end of one is rounded up. */
static void renew(sim *s, zk_tracked *session)
{
    session->expires_at = store_clock(s) + session->timeout_ms * SIM_MS;
}

bool ensemble_touch(sim *s, unsigned index, uint64_t id)
{
    zk_server *server = ensemble_server(s, index);
    zk_tracked *session = ensemble_session(server, id);
    if (!session || session->closing)
        return false;
    if (server->role == ZK_LEADS_ALL)
        renew(s, session);
    else
        server->touched[id % ZK_SESSIONS] = true;
    return true;
}

int64_t ensemble_validate(sim *s, unsigned index, uint64_t id)
{
    const zk_server *server = ensemble_server(s, index);
    const unsigned judge = server->role == ZK_LEADS_ALL ? index : server->leader;
    if (judge != index && !ensemble_follows(s, index, judge))
        return -1;
    zk_tracked *session = ensemble_session(ensemble_server(s, judge), id);
    if (!session || session->closing)
        return 0;
    renew(s, session);
    session->owner = index;
    if (!ensemble_session(ensemble_server(s, index), id))
        ensemble_server(s, index)->session[id % ZK_SESSIONS] = *session;
    return session->timeout_ms;
}

void ensemble_apply_session(sim *s, zk_server *server, const zk_txn *txn)
{
    zk_tracked *session = &server->session[txn->session % ZK_SESSIONS];
    server->touched[txn->session % ZK_SESSIONS] = false;
    if (txn->kind == ZK_TXN_CLOSE) {
        if (session->id == txn->session)
            session->id = 0;
        return;
    }
    *session = (zk_tracked){.id = txn->session, .timeout_ms = txn->ctime_ms, .owner = txn->server};
    renew(s, session);
}

/* --- leaders ------------------------------------------------------------------------------------------ */

void ensemble_look_for_leader(sim *s, unsigned index)
{
    sim_tell(s, "server %u looks", index);
    ensemble_server(s, index)->role = ZK_LOOKING;
    writes_forget(s, index);
    server_drop_all(s, index);
}

static int64_t draw_timeout(sim *s)
{
    const int64_t most = SYNC_LIMIT * zk_state_of(s)->tick_ns;
    return sim_chance(s, 500) ? most : sim_pick(s, 0, most);
}

static void join(sim *s, unsigned index, unsigned leader)
{
    zk_server *server = ensemble_server(s, index);
    server->role = ZK_FOLLOWS;
    server->leader = leader;
    server->epoch = ensemble_server(s, leader)->epoch;
    server->heard_at = s->now;
    server->timeout_ns = draw_timeout(s);
    memset(server->touched, 0, sizeof server->touched);
    writes_apply(s, index, ensemble_server(s, leader)->applied);
}

/* Everybody's time begins anew. */
static void lead(sim *s, unsigned index)
{
    zk_state *state = zk_state_of(s);
    zk_server *server = ensemble_server(s, index);
    sim_tell(s, "server %u leads", index);
    writes_apply(s, index, state->logged);
    server->role = ZK_LEADS_ALL;
    server->epoch = ++state->epoch;
    server->heard_at = s->now;
    server->timeout_ns = SYNC_LIMIT * state->tick_ns; /* it goes on for as long as it may */
    state->zxid = (int64_t)state->epoch << 32;
    for (unsigned i = 0; i < ZK_SESSIONS; i++) {
        server->session[i].closing = false;
        server->session[i].owner = SIM_NOBODY;
        if (server->session[i].id)
            renew(s, &server->session[i]);
    }
    uint32_t note;
    note_new(s, ZK_NOTE_EXPIRE, index, index, &note);
    note_post(s, note, 1);
}

static bool looks(sim *s, unsigned index)
{
    const zk_server *server = ensemble_server(s, index);
    return runs(s, server) && server->role == ZK_LOOKING && s->now >= server->isolated_until;
}

static void elect(sim *s)
{
    zk_state *state = zk_state_of(s);
    unsigned looking[SIM_SERVERS], count = 0;
    for (unsigned i = 0; i < state->servers; i++)
        if (looks(s, i))
            looking[count++] = i;
    if (2 * count <= state->servers)
        return;
    const unsigned leader = looking[sim_pick(s, 0, (int64_t)count - 1)];
    lead(s, leader);
    for (unsigned i = 0; i < count; i++)
        if (looking[i] != leader)
            join(s, looking[i], leader);
}

static void find_leader(sim *s, unsigned index)
{
    const zk_state *state = zk_state_of(s);
    for (unsigned i = 0; i < state->servers; i++)
        if (i != index && ensemble_server(s, i)->role == ZK_LEADS_ALL && reaches(s, index, i) &&
            ensemble_has_quorum(s, i) && ensemble_server(s, i)->epoch == state->epoch) {
            join(s, index, i);
            return;
        }
}

/* --- time --------------------------------------------------------------------------------------------- */

static void end_session(sim *s, unsigned leader, zk_tracked *session)
{
    session->closing = true;
    writes_propose(s, leader, &(zk_txn){.kind = ZK_TXN_CLOSE, .session = session->id}, false);
}

static void hear_follower(sim *s, zk_server *leader, unsigned index)
{
    zk_server *follower = ensemble_server(s, index);
    follower->heard_at = s->now;
    for (unsigned i = 0; i < ZK_SESSIONS; i++)
        if (follower->touched[i] && follower->session[i].id && leader->session[i].id == follower->session[i].id) {
            renew(s, &leader->session[i]);
            follower->touched[i] = false;
        }
}

/* The server removes containers that have become empty. */
static void tidy(sim *s, unsigned leader)
{
    zk_state *state = zk_state_of(s);
    if (s->now < state->tidy_at)
        return;
    state->tidy_at = s->now + sim_pick(s, 2, 20) * SIM_S;
    for (unsigned i = 0; i < state->truth.used; i++) {
        const zk_znode *node = &state->truth.node[i];
        if (!node->path[0] || !node->container || node->born == 0 || tree_has_children(&state->truth, node->path))
            continue;
        zk_txn txn = {.kind = ZK_TXN_DELETE};
        strcpy(txn.path, node->path);
        writes_propose(s, leader, &txn, false);
    }
}

static void tick_leader(sim *s, unsigned index)
{
    zk_server *leader = ensemble_server(s, index);
    for (unsigned i = 0; i < zk_state_of(s)->servers; i++)
        if (i != index && ensemble_follows(s, i, index))
            hear_follower(s, leader, i);
    if (ensemble_has_quorum(s, index))
        leader->heard_at = s->now;
    if (s->now - leader->heard_at > leader->timeout_ns) {
        ensemble_look_for_leader(s, index);
        return;
    }
    tidy(s, index);
}

/* A real leader looks once per tick, and ends sessions a little later than that. This one is as quick as it may be. */
static void expire(sim *s, unsigned index)
{
    zk_server *leader = ensemble_server(s, index);
    int64_t next = store_clock(s) + zk_state_of(s)->tick_ns;
    uint32_t note;
    for (unsigned i = 0; i < ZK_SESSIONS; i++) {
        zk_tracked *session = &leader->session[i];
        if (!session->id || session->closing)
            continue;
        if (store_clock(s) >= session->expires_at)
            end_session(s, index, session);
        else if (session->expires_at < next)
            next = session->expires_at;
    }
    note_new(s, ZK_NOTE_EXPIRE, index, index, &note);
    note_post(s, note, sim_clock_when(&s->store.clock, next) - s->now);
}

static void tick_one(sim *s, unsigned index)
{
    zk_server *server = ensemble_server(s, index);
    if (!runs(s, server))
        return;
    switch (server->role) {
    case ZK_LEADS_ALL:
        tick_leader(s, index);
        break;
    case ZK_FOLLOWS:
        if (s->now - server->heard_at > server->timeout_ns && !ensemble_follows(s, index, server->leader))
            ensemble_look_for_leader(s, index);
        break;
    case ZK_LOOKING:
        find_leader(s, index);
    }
}

static void tick(sim *s)
{
    zk_state *state = zk_state_of(s);
    uint32_t index;
    for (unsigned i = 0; i < state->servers; i++)
        tick_one(s, i);
    elect(s);
    note_new(s, ZK_NOTE_TICK, 0, 0, &index);
    note_post(s, index, state->tick_ns / 2);
}

/* --- what servers are told ----------------------------------------------------------------------------- */

/* Is the one that it was sent to still what it was then? */
static bool is_valid(sim *s, const zk_note *note)
{
    const zk_server *to = ensemble_server(s, note->to);
    const bool news = note->kind == ZK_NOTE_APPLY || note->kind == ZK_NOTE_SYNCED;
    return to->epoch == note->epoch && ensemble_is_up(s, to) &&
           (news ? to->role != ZK_LOOKING : to->role == ZK_LEADS_ALL);
}

void ensemble_event(sim *s, const sim_event *event)
{
    const zk_note note = zk_state_of(s)->note[event->arg];
    const zk_server *server = ensemble_server(s, note.to);
    if (note.kind != ZK_NOTE_TICK && ensemble_is_up(s, server) && s->now < server->frozen_until) {
        sim_plan_event(s, EV_SERVER, 0, server->frozen_until + sim_pick(s, 1, 100000), 0, event->arg);
        return;
    }
    note_free(s, event->arg);
    if (note.kind != ZK_NOTE_TICK && !is_valid(s, &note))
        return;
    if (!reaches(s, note.from, note.to)) {
        note_post_again(s, &note);
        return;
    }
    switch (note.kind) {
    case ZK_NOTE_TICK:
        tick(s);
        break;
    case ZK_NOTE_EXPIRE:
        expire(s, note.to);
        break;
    case ZK_NOTE_ASKED:
        writes_hear(s, note.from);
        break;
    case ZK_NOTE_COMMIT:
        writes_commit(s, &note);
        break;
    case ZK_NOTE_APPLY:
    case ZK_NOTE_SYNCED:
        writes_news(s, &note);
        break;
    case ZK_NOTE_WRITE:
    case ZK_NOTE_SYNC:
        break; /* these wait in lines */
    }
}

void ensemble_begin(sim *s)
{
    elect(s);
    tick(s);
}
