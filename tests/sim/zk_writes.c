/* Requests that go to the leader of a model ensemble: writes, on which most servers have to agree, and syncs; and
 * how servers apply what was agreed on. */
#include <string.h>

#include "sim/zk_model.h"

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
    zk_server *server = ensemble_server(s, index);
    const zk_txn txn = zk_state_of(s)->log[server->applied++];
    tree_apply(&server->tree, &txn, on_changed, &(struct change){s, index});
    if (!txn.error && (txn.kind == ZK_TXN_OPEN || txn.kind == ZK_TXN_CLOSE))
        ensemble_apply_session(s, server, &txn);
    server_applied(s, index, &txn);
    if (!txn.error && txn.kind == ZK_TXN_CLOSE)
        server_end_session(s, index, txn.session);
}

void writes_apply(sim *s, unsigned index, unsigned upto)
{
    while (ensemble_server(s, index)->applied < upto)
        apply_next(s, index);
}

/* --- a sync at the leader ----------------------------------------------------------------------------- */

static void answer_sync(sim *s, const zk_note *note)
{
    uint32_t index;
    const zk_note copy = *note;
    zk_note *next = note_new(s, ZK_NOTE_SYNCED, copy.to, copy.from, &index);
    next->txn = copy.txn;
    next->upto = ensemble_server(s, copy.to)->applied;
    note_post(s, index, copy.from == copy.to ? 1 : note_hop(s));
}

/* A leader answers by itself, as soon as all that it has proposed by now is agreed on. */
static void sync(sim *s, const zk_note *note)
{
    uint32_t index;
    zk_server *leader = ensemble_server(s, note->to);
    if (leader->agreed >= leader->proposed) {
        answer_sync(s, note);
        return;
    }
    zk_note *waiting = note_new(s, ZK_NOTE_SYNC, note->from, note->to, &index);
    waiting->txn = note->txn;
    waiting->upto = leader->proposed;
    line_append(s, &leader->syncs, index);
}

static void answer_syncs(sim *s, zk_server *leader)
{
    zk_note note;
    while (leader->syncs.first && note_at(s, leader->syncs.first)->upto <= leader->agreed &&
           line_take(s, &leader->syncs, &note))
        answer_sync(s, &note);
}

void writes_forget(sim *s, unsigned index)
{
    zk_server *server = ensemble_server(s, index);
    line_forget(s, &server->asked);
    line_forget(s, &server->syncs);
    line_forget(s, &server->proposals);
    server->proposed = server->agreed = 0;
}

/* --- a write at the leader ---------------------------------------------------------------------------- */

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

static void judge_set(zk_state *state, zk_txn *txn)
{
    const zk_znode *node = tree_find(&state->truth, txn->path);
    txn->failed = tree_find(&state->truth, txn->guard) ? 1 : 0;
    if (txn->failed == 0 || !node)
        txn->error = ZK_ERR_NO_NODE;
    else if (txn->version != -1 && txn->version != node->version)
        txn->error = ZK_ERR_BAD_VERSION;
}

static void judge(sim *s, zk_server *leader, zk_txn *txn, bool sequential)
{
    zk_state *state = zk_state_of(s);
    zk_tracked *session = ensemble_session(leader, txn->session);
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
    txn->ctime_ms = store_now(s).epoch_us / 1000;
    if (txn->kind == ZK_TXN_CREATE)
        judge_create(state, txn, sequential);
    else if (txn->kind == ZK_TXN_SET)
        judge_set(state, txn);
    else if (txn->kind == ZK_TXN_DELETE && !tree_find(&state->truth, txn->path))
        txn->error = ZK_ERR_NO_NODE;
    else if (txn->kind == ZK_TXN_DELETE && tree_has_children(&state->truth, txn->path))
        txn->error = ZK_ERR_NOT_EMPTY;
}

static void tell_followers(sim *s, unsigned leader)
{
    const zk_state *state = zk_state_of(s);
    for (unsigned i = 0; i < state->servers; i++) {
        uint32_t index;
        if (i == leader || !ensemble_follows(s, i, leader))
            continue;
        const int64_t lag = !s->healed && sim_chance(s, 10) ? sim_pick(s, 0, state->tick_ns) : 0;
        if (lag)
            check_trouble(s, SIM_PROCESSES, s->now, s->now + lag);
        note_new(s, ZK_NOTE_APPLY, leader, i, &index)->upto = zk_state_of(s)->logged;
        note_post(s, index, note_hop(s) + lag);
    }
}

void writes_agree(sim *s, unsigned leader, const zk_txn *asked, bool sequential)
{
    zk_state *state = zk_state_of(s);
    zk_txn txn = *asked;
    judge(s, ensemble_server(s, leader), &txn, sequential);
    txn.zxid = ++state->zxid;
    txn.at = s->now;
    truth_append(s, &txn);
    writes_apply(s, leader, state->logged);
    tell_followers(s, leader);
}

/* Followers have written down all up to this one; they say so in the order in which they were asked. */
void writes_commit(sim *s, const zk_note *note)
{
    const unsigned leader = note->to, upto = note->upto;
    zk_server *server = ensemble_server(s, leader);
    if (!ensemble_has_quorum(s, leader)) {
        note_post_again(s, note); /* it is not agreed on yet, and whoever asked is not answered */
        return;
    }
    zk_note proposal;
    while (server->agreed < upto && line_take(s, &server->proposals, &proposal)) {
        server->agreed++;
        writes_agree(s, leader, &proposal.txn, proposal.sequential);
    }
    answer_syncs(s, server);
}

/* What comes late by a server that the client has left is refused. That is looked at when it comes: until it is agreed on,
 * the client may be back. */
static void judge_owner(zk_server *leader, zk_txn *txn)
{
    zk_tracked *session = ensemble_session(leader, txn->session);
    if (!session || txn->kind == ZK_TXN_CLOSE)
        return;
    if (session->owner == SIM_NOBODY)
        session->owner = txn->server;
    if (session->owner != txn->server) {
        txn->kind = ZK_TXN_ERROR;
        txn->error = ZK_ERR_MOVED;
    }
}

/* Ask the followers; most of them have to say yes. */
void writes_propose(sim *s, unsigned leader, const zk_txn *txn, bool sequential)
{
    uint32_t proposal, ack;
    zk_txn asked = *txn;
    zk_server *server = ensemble_server(s, leader);
    judge_owner(server, &asked);
    zk_note *note = note_new(s, ZK_NOTE_COMMIT, leader, leader, &proposal);
    note->txn = asked;
    note->sequential = sequential;
    line_append(s, &server->proposals, proposal);
    note_new(s, ZK_NOTE_COMMIT, leader, leader, &ack)->upto = ++server->proposed;
    note_post(s, ack, 2 * note_hop(s));
}

/* --- on the way to the leader -------------------------------------------------------------------------- */

static unsigned leader_of(sim *s, unsigned server)
{
    const zk_server *one = ensemble_server(s, server);
    return one->role == ZK_LEADS_ALL ? server : one->leader;
}

/* Servers talk by one connection: the leader hears in order what a server asks it for, however long that takes. So a sync
 * comes after all writes that were asked for before it by the same server, also those on connections of clients that are gone. */
static void ask(sim *s, unsigned server, zk_note_kind kind, const zk_txn *txn, bool sequential)
{
    uint32_t asked, hop;
    if (!ensemble_serves(s, server))
        return;
    const unsigned leader = leader_of(s, server);
    zk_note *note = note_new(s, kind, server, leader, &asked);
    note->txn = *txn;
    note->sequential = sequential;
    line_append(s, &ensemble_server(s, server)->asked, asked);
    note_new(s, ZK_NOTE_ASKED, server, leader, &hop);
    note_post(s, hop, server == leader ? 1 : note_hop(s));
}

void writes_ask(sim *s, unsigned server, const zk_txn *asked, bool sequential)
{
    ask(s, server, ZK_NOTE_WRITE, asked, sequential);
}

void writes_ask_sync(sim *s, unsigned server, const zk_txn *asked)
{
    ask(s, server, ZK_NOTE_SYNC, asked, false);
}

void writes_hear(sim *s, unsigned from)
{
    zk_note note;
    if (!line_take(s, &ensemble_server(s, from)->asked, &note))
        return; /* it has given up its leader meanwhile, and what it had asked for */
    if (note.kind == ZK_NOTE_SYNC)
        sync(s, &note);
    else
        writes_propose(s, note.to, &note.txn, note.sequential);
}

/* --- what was agreed on -------------------------------------------------------------------------------- */

void writes_news(sim *s, const zk_note *note)
{
    const zk_note copy = *note;
    writes_apply(s, copy.to, copy.upto);
    if (copy.kind == ZK_NOTE_SYNCED)
        server_synced(s, &copy.txn);
}
