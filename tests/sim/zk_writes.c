/* What goes to the leader of a model ensemble: writes, on which most servers have to agree, and syncs; and how servers apply
 * what was agreed on. */
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
void writes_sync(sim *s, const zk_note *note)
{
    uint32_t index;
    zk_server *leader = ensemble_server(s, note->to);
    if (leader->agreed >= leader->proposed) {
        answer_sync(s, note);
        return;
    }
    const zk_note copy = *note;
    zk_note *waiting = note_new(s, ZK_NOTE_SYNC, copy.from, copy.to, &index);
    *waiting = copy;
    waiting->upto = leader->proposed;
    waiting->next = leader->syncs;
    leader->syncs = index;
}

static void answer_syncs(sim *s, unsigned leader)
{
    zk_server *server = ensemble_server(s, leader);
    uint32_t index = server->syncs;
    server->syncs = 0;
    while (index) {
        const zk_note note = *note_at(s, index);
        if (note.upto <= server->agreed) {
            note_free(s, index);
            answer_sync(s, &note);
        } else {
            note_at(s, index)->next = server->syncs;
            server->syncs = index;
        }
        index = note.next;
    }
}

static void forget_all(sim *s, uint32_t list)
{
    while (list) {
        const uint32_t next = note_at(s, list)->next;
        note_free(s, list);
        list = next;
    }
}

void writes_forget(sim *s, unsigned leader)
{
    zk_server *server = ensemble_server(s, leader);
    forget_all(s, server->syncs);
    if (server->agreed < server->proposed)
        forget_all(s, server->proposals);
    server->syncs = 0;
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
    while (server->agreed < server->proposed && server->agreed < upto) {
        const zk_note proposal = *note_at(s, server->proposals);
        note_free(s, server->proposals);
        server->proposals = proposal.next;
        server->agreed++;
        writes_agree(s, leader, &proposal.txn, proposal.sequential);
    }
    answer_syncs(s, leader);
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

static void append_proposal(sim *s, unsigned leader, uint32_t index)
{
    zk_server *server = ensemble_server(s, leader);
    if (server->agreed == server->proposed)
        server->proposals = index;
    else
        note_at(s, server->latest)->next = index;
    server->latest = index;
    server->proposed++;
}

/* Ask the followers; most of them have to say yes. */
void writes_propose(sim *s, unsigned leader, const zk_txn *txn, bool sequential)
{
    uint32_t proposal, ack;
    zk_txn asked = *txn;
    judge_owner(ensemble_server(s, leader), &asked);
    zk_note *note = note_new(s, ZK_NOTE_COMMIT, leader, leader, &proposal);
    note->txn = asked;
    note->sequential = sequential;
    append_proposal(s, leader, proposal);
    note_new(s, ZK_NOTE_COMMIT, leader, leader, &ack)->upto = ensemble_server(s, leader)->proposed;
    note_post(s, ack, 2 * note_hop(s));
}

static unsigned leader_of(sim *s, unsigned server)
{
    const zk_server *one = ensemble_server(s, server);
    return one->role == ZK_LEADS_ALL ? server : one->leader;
}

void writes_ask(sim *s, unsigned server, const zk_txn *asked, bool sequential)
{
    uint32_t index;
    const zk_txn txn = *asked;
    const unsigned leader = leader_of(s, server);
    zk_note *note = note_new(s, ZK_NOTE_WRITE, server, leader, &index);
    note->txn = txn;
    note->sequential = sequential;
    note_post(s, index, server == leader ? 1 : note_hop(s));
}

void writes_ask_sync(sim *s, unsigned server, const zk_txn *asked)
{
    uint32_t index;
    const unsigned leader = leader_of(s, server);
    note_new(s, ZK_NOTE_SYNC, server, leader, &index)->txn = *asked;
    note_post(s, index, server == leader ? 1 : note_hop(s));
}

void writes_news(sim *s, const zk_note *note)
{
    const zk_note copy = *note;
    writes_apply(s, copy.to, copy.upto);
    if (copy.kind == ZK_NOTE_SYNCED)
        server_synced(s, &copy.txn);
}
