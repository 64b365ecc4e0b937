/* A model ZooKeeper ensemble. One log holds what most servers have agreed on; each server has applied a part of it. A leader
 * that the others have replaced, and that does not know it yet, goes on answering by itself: it reads, it answers a sync, it
 * renews sessions that it knows, and commits nothing. Followers tell their leader twice per tick whom they have heard of;
 * the leader ends the sessions that it has not heard of for their timeout. What is granted and freed is told to check.c, by
 * the log. */
#include <stdlib.h>
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "sim/zk_model.h"

#define SYNC_LIMIT 5 /* ticks that servers go on without each other */

zk_state *zk_state_of(const sim *s)
{
    return s->servers;
}

static zk_server *server_at(sim *s, unsigned server)
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
    const zk_server *left = server_at(s, a), *right = server_at(s, b);
    return a == b ||
           (runs(s, left) && runs(s, right) && s->now >= left->isolated_until && s->now >= right->isolated_until);
}

static bool follows(sim *s, unsigned follower, unsigned leader)
{
    const zk_server *one = server_at(s, follower), *other = server_at(s, leader);
    return one->role == ZK_FOLLOWS && one->leader == leader && other->role == ZK_LEADS_ALL &&
           one->epoch == other->epoch && reaches(s, follower, leader);
}

/* Most servers follow it. */
bool ensemble_has_quorum(sim *s, unsigned leader)
{
    const zk_state *state = zk_state_of(s);
    unsigned count = 1;
    for (unsigned i = 0; i < state->servers; i++)
        count += i != leader && follows(s, i, leader);
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

/* --- notes ------------------------------------------------------------------------------------------- */

static zk_note *note_new(sim *s, zk_note_kind kind, unsigned from, unsigned to, uint32_t *ret_index)
{
    zk_state *state = zk_state_of(s);
    uint32_t index = state->note_free;
    if (index) {
        state->note_free = state->note[index].next_free;
    } else {
        if (state->notes + 1 >= state->note_capacity) {
            state->note_capacity = state->note_capacity ? 2 * state->note_capacity : 64;
            if (!(state->note = realloc(state->note, state->note_capacity * sizeof *state->note)))
                abort();
        }
        index = ++state->notes;
    }
    zk_note *note = &state->note[index];
    memset(note, 0, sizeof *note);
    note->kind = kind;
    note->from = from;
    note->to = to;
    note->epoch = server_at(s, from)->epoch;
    *ret_index = index;
    return note;
}

static void post(sim *s, uint32_t index, int64_t after_ns)
{
    sim_plan_event(s, EV_SERVER, 0, s->now + after_ns, 0, index);
}

/* Between two servers. */
static int64_t hop(sim *s)
{
    return sim_pick(s, SIM_MS / 10, 3 * SIM_MS);
}

/* Is the one that it was sent to still what it was then? */
static bool is_valid(sim *s, const zk_note *note)
{
    const zk_server *to = server_at(s, note->to);
    const bool news = note->kind == ZK_NOTE_APPLY || note->kind == ZK_NOTE_SYNCED;
    return to->epoch == note->epoch && ensemble_is_up(s, to) &&
           (news ? to->role != ZK_LOOKING : to->role == ZK_LEADS_ALL);
}

/* What does not get through is sent again, as long as the two have not given each other up. */
static void post_again(sim *s, const zk_note *note)
{
    uint32_t index;
    const zk_note copy = *note;
    *note_new(s, copy.kind, copy.from, copy.to, &index) = copy;
    post(s, index, sim_pick(s, 20, 200) * SIM_MS);
}

/* --- sessions ---------------------------------------------------------------------------------------- */

static zk_tracked *tracked(zk_server *server, uint64_t id)
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
    zk_server *server = server_at(s, index);
    zk_tracked *session = tracked(server, id);
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
    const zk_server *server = server_at(s, index);
    const unsigned judge = server->role == ZK_LEADS_ALL ? index : server->leader;
    if (judge != index && !follows(s, index, judge))
        return -1;
    zk_tracked *session = tracked(server_at(s, judge), id);
    if (!session || session->closing)
        return 0;
    renew(s, session);
    session->owner = index;
    if (!tracked(server_at(s, index), id))
        server_at(s, index)->session[id % ZK_SESSIONS] = *session;
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

/* --- the log ----------------------------------------------------------------------------------------- */

struct change {
    sim *s;
    unsigned server;
};

static void on_changed(void *user, const char *path, int type)
{
    const struct change *change = user;
    server_changed(change->s, change->server, path, type);
}

static void apply_next(sim *s, unsigned index)
{
    zk_server *server = server_at(s, index);
    const zk_txn txn = zk_state_of(s)->log[server->applied++];
    tree_apply(&server->tree, &txn, on_changed, &(struct change){s, index});
    if (!txn.error && (txn.kind == ZK_TXN_OPEN || txn.kind == ZK_TXN_CLOSE))
        ensemble_apply_session(s, server, &txn);
    server_applied(s, index, &txn);
    if (!txn.error && txn.kind == ZK_TXN_CLOSE)
        server_end_session(s, index, txn.session);
}

static void apply_upto(sim *s, unsigned index, unsigned upto)
{
    while (server_at(s, index)->applied < upto)
        apply_next(s, index);
}

/* --- a write at the leader ---------------------------------------------------------------------------- */

static bool has_children(zk_tree *tree, const char *path)
{
    return tree_child(tree, path, NULL) != NULL;
}

static void judge_create(zk_state *state, zk_txn *txn, bool sequential)
{
    char parent[ZK_PATH];
    const size_t length = (size_t)(strrchr(txn->path, '/') - txn->path);
    snprintf(parent, sizeof parent, "%.*s", length ? (int)length : 1, txn->path);
    const zk_znode *above = tree_find(&state->truth, parent);
    if (!above) {
        txn->error = ZK_ERR_NO_NODE;
        return;
    }
    if (sequential)
        snprintf(txn->path + strlen(txn->path), sizeof txn->path - strlen(txn->path), "%010d", above->born);
    if (tree_find(&state->truth, txn->path))
        txn->error = ZK_ERR_EXISTS;
}

static void judge(sim *s, zk_server *leader, zk_txn *txn, bool sequential)
{
    zk_state *state = zk_state_of(s);
    zk_tracked *session = tracked(leader, txn->session);
    if (txn->kind == ZK_TXN_OPEN) {
        /* The place in the table is taken from its number. */
        do
            txn->session = ++state->sessions;
        while (leader->session[txn->session % ZK_SESSIONS].id || txn->session % ZK_SESSIONS == 0);
        const int64_t least = 2 * state->tick_ns / SIM_MS, most = 20 * state->tick_ns / SIM_MS;
        txn->ctime_ms = txn->ctime_ms < least ? least : txn->ctime_ms > most ? most : txn->ctime_ms;
        return;
    }
    if (txn->session && !session) {
        txn->error = ZK_ERR_EXPIRED;
        return;
    }
    /* What comes late by a server that the client has left is refused. */
    if (session && session->owner == SIM_NOBODY)
        session->owner = txn->server;
    if (session && session->owner != txn->server && txn->kind != ZK_TXN_CLOSE) {
        txn->kind = ZK_TXN_ERROR;
        txn->error = ZK_ERR_MOVED;
        return;
    }
    txn->ctime_ms = store_now(s).epoch_us / 1000;
    if (txn->kind == ZK_TXN_CREATE)
        judge_create(state, txn, sequential);
    else if (txn->kind == ZK_TXN_DELETE && !tree_find(&state->truth, txn->path))
        txn->error = ZK_ERR_NO_NODE;
    else if (txn->kind == ZK_TXN_DELETE && has_children(&state->truth, txn->path))
        txn->error = ZK_ERR_NOT_EMPTY;
}

static void tell_followers(sim *s, unsigned leader)
{
    const zk_state *state = zk_state_of(s);
    for (unsigned i = 0; i < state->servers; i++) {
        uint32_t index;
        if (i == leader || !follows(s, i, leader))
            continue;
        const int64_t lag = !s->healed && sim_chance(s, 10) ? sim_pick(s, 0, state->tick_ns) : 0;
        if (lag)
            check_trouble(s, SIM_PROCESSES, s->now, s->now + lag);
        note_new(s, ZK_NOTE_APPLY, leader, i, &index)->upto = zk_state_of(s)->logged;
        post(s, index, hop(s) + lag);
    }
}

void ensemble_commit(sim *s, const zk_note *note)
{
    zk_state *state = zk_state_of(s);
    zk_server *leader = server_at(s, note->to);
    zk_txn txn = note->txn;
    if (!ensemble_has_quorum(s, note->to)) {
        post_again(s, note); /* it is not agreed on yet, and whoever asked is not answered */
        return;
    }
    leader->proposed -= leader->proposed > 0;
    judge(s, leader, &txn, note->sequential);
    txn.zxid = ++state->zxid;
    txn.at = s->now;
    truth_append(s, &txn);
    apply_upto(s, note->to, state->logged);
    tell_followers(s, note->to);
}

/* Ask the followers; most of them have to say yes. */
static void propose(sim *s, unsigned leader, const zk_txn *txn, bool sequential)
{
    uint32_t index;
    const zk_txn asked = *txn;
    zk_note *note = note_new(s, ZK_NOTE_COMMIT, leader, leader, &index);
    note->txn = asked;
    note->sequential = sequential;
    server_at(s, leader)->proposed++;
    post(s, index, 2 * hop(s));
}

static unsigned leader_of(sim *s, unsigned server)
{
    const zk_server *one = server_at(s, server);
    return one->role == ZK_LEADS_ALL ? server : one->leader;
}

void ensemble_write(sim *s, unsigned server, const zk_txn *asked, bool sequential)
{
    uint32_t index;
    const zk_txn txn = *asked;
    const unsigned leader = leader_of(s, server);
    zk_note *note = note_new(s, ZK_NOTE_WRITE, server, leader, &index);
    note->txn = txn;
    note->sequential = sequential;
    post(s, index, server == leader ? 1 : hop(s));
}

void ensemble_sync(sim *s, unsigned server, const zk_txn *asked)
{
    uint32_t index;
    const unsigned leader = leader_of(s, server);
    note_new(s, ZK_NOTE_SYNC, server, leader, &index)->txn = *asked;
    post(s, index, server == leader ? 1 : hop(s));
}

/* A leader answers it by itself, when all that it has proposed is agreed on. */
static void take_sync(sim *s, const zk_note *note)
{
    if (server_at(s, note->to)->proposed > 0) {
        post_again(s, note);
        return;
    }
    uint32_t index;
    const zk_note copy = *note;
    const zk_server *leader = server_at(s, copy.to);
    zk_note *next = note_new(s, ZK_NOTE_SYNCED, copy.to, copy.from, &index);
    next->txn = copy.txn;
    next->upto = leader->applied;
    post(s, index, copy.from == copy.to ? 1 : hop(s));
}

static void take_news(sim *s, const zk_note *note)
{
    const zk_note copy = *note;
    apply_upto(s, copy.to, copy.upto);
    if (copy.kind == ZK_NOTE_SYNCED)
        server_synced(s, &copy.txn);
}

/* --- leaders ------------------------------------------------------------------------------------------ */

void ensemble_look_for_leader(sim *s, unsigned index)
{
    sim_tell(s, "server %u looks", index);
    server_at(s, index)->role = ZK_LOOKING;
    server_drop_all(s, index);
}

static int64_t patience(sim *s)
{
    const int64_t most = SYNC_LIMIT * zk_state_of(s)->tick_ns;
    return sim_chance(s, 500) ? most : sim_pick(s, 0, most);
}

static void join(sim *s, unsigned index, unsigned leader)
{
    zk_server *server = server_at(s, index);
    server->role = ZK_FOLLOWS;
    server->leader = leader;
    server->epoch = server_at(s, leader)->epoch;
    server->heard_at = s->now;
    server->patience = patience(s);
    memset(server->touched, 0, sizeof server->touched);
    apply_upto(s, index, server_at(s, leader)->applied);
}

/* Everybody's time begins anew. */
static void lead(sim *s, unsigned index)
{
    zk_state *state = zk_state_of(s);
    zk_server *server = server_at(s, index);
    sim_tell(s, "server %u leads", index);
    apply_upto(s, index, state->logged);
    server->role = ZK_LEADS_ALL;
    server->proposed = 0;
    server->epoch = ++state->epoch;
    server->heard_at = s->now;
    server->patience = SYNC_LIMIT * state->tick_ns; /* it goes on for as long as it may */
    state->zxid = (int64_t)state->epoch << 32;
    for (unsigned i = 0; i < ZK_SESSIONS; i++) {
        server->session[i].closing = false;
        server->session[i].owner = SIM_NOBODY;
        if (server->session[i].id)
            renew(s, &server->session[i]);
    }
    uint32_t note;
    note_new(s, ZK_NOTE_EXPIRE, index, index, &note);
    post(s, note, 1);
}

static bool looks(sim *s, unsigned index)
{
    const zk_server *server = server_at(s, index);
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
        if (i != index && server_at(s, i)->role == ZK_LEADS_ALL && reaches(s, index, i) && ensemble_has_quorum(s, i) &&
            server_at(s, i)->epoch == state->epoch) {
            join(s, index, i);
            return;
        }
}

/* --- time --------------------------------------------------------------------------------------------- */

static void end_session(sim *s, unsigned leader, zk_tracked *session)
{
    session->closing = true;
    propose(s, leader, &(zk_txn){.kind = ZK_TXN_CLOSE, .session = session->id}, false);
}

static void hear_follower(sim *s, zk_server *leader, unsigned index)
{
    zk_server *follower = server_at(s, index);
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
        if (!node->path[0] || !node->container || node->born == 0 || has_children(&state->truth, node->path))
            continue;
        zk_txn txn = {.kind = ZK_TXN_DELETE};
        strcpy(txn.path, node->path);
        propose(s, leader, &txn, false);
    }
}

static void tick_leader(sim *s, unsigned index)
{
    zk_server *leader = server_at(s, index);
    for (unsigned i = 0; i < zk_state_of(s)->servers; i++)
        if (i != index && follows(s, i, index))
            hear_follower(s, leader, i);
    if (ensemble_has_quorum(s, index))
        leader->heard_at = s->now;
    if (s->now - leader->heard_at > leader->patience) {
        ensemble_look_for_leader(s, index);
        return;
    }
    tidy(s, index);
}

/* A real leader looks once per tick, and ends sessions a little later than that. This one is as quick as it may be. */
static void expire(sim *s, unsigned index)
{
    zk_server *leader = server_at(s, index);
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
    post(s, note, sim_clock_when(&s->store.clock, next) - s->now);
}

static void tick_one(sim *s, unsigned index)
{
    zk_server *server = server_at(s, index);
    if (!runs(s, server))
        return;
    switch (server->role) {
    case ZK_LEADS_ALL:
        tick_leader(s, index);
        break;
    case ZK_FOLLOWS:
        if (s->now - server->heard_at > server->patience && !follows(s, index, server->leader))
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
    post(s, index, state->tick_ns / 2);
}

void ensemble_event(sim *s, const sim_event *event)
{
    zk_state *state = zk_state_of(s);
    const zk_note note = state->note[event->arg];
    const zk_server *server = server_at(s, note.to);
    if (note.kind != ZK_NOTE_TICK && ensemble_is_up(s, server) && s->now < server->frozen_until) {
        sim_plan_event(s, EV_SERVER, 0, server->frozen_until + sim_pick(s, 1, 100000), 0, event->arg);
        return;
    }
    state->note[event->arg].next_free = state->note_free;
    state->note_free = event->arg;
    if (note.kind != ZK_NOTE_TICK && !is_valid(s, &note))
        return;
    if (!reaches(s, note.from, note.to)) {
        post_again(s, &note);
        return;
    }
    switch (note.kind) {
    case ZK_NOTE_TICK:
        tick(s);
        break;
    case ZK_NOTE_EXPIRE:
        expire(s, note.to);
        break;
    case ZK_NOTE_WRITE:
        propose(s, note.to, &note.txn, note.sequential);
        break;
    case ZK_NOTE_COMMIT:
        ensemble_commit(s, &note);
        break;
    case ZK_NOTE_SYNC:
        take_sync(s, &note);
        break;
    case ZK_NOTE_APPLY:
    case ZK_NOTE_SYNCED:
        take_news(s, &note);
        break;
    }
}

void ensemble_begin(sim *s)
{
    elect(s);
    tick(s);
}
