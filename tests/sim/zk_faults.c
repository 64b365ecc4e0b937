/* The faults of a model ensemble, and the table by which the simulator knows it. */
#include <stdlib.h>
#include <string.h>

#include "sim/zk_model.h"
#include "stores/zookeeper/zookeeper.h"

#define TIMEOUT_TICKS 7 /* by then servers that were at odds have found together again */

/* --- what goes wrong ---------------------------------------------------------------------------------- */

/* While servers are at odds, and until they have found together again, is nobody's fault. */
static void trouble(sim *s, int64_t until)
{
    check_trouble(s, SIM_PROCESSES, s->now, until + TIMEOUT_TICKS * zk_state_of(s)->tick_ns);
}

static void restart(sim *s, unsigned index, int64_t down_ns)
{
    zk_server *server = ensemble_server(s, index);
    server->down_until = s->now + down_ns;
    ensemble_look_for_leader(s, index);
}

/* What an ensemble must not do: all servers come back without the latest of what they had agreed on. */
static void lose_writes(sim *s, int64_t lost_ms)
{
    zk_state *state = zk_state_of(s);
    unsigned kept = 0;
    while (kept < state->logged && state->log[kept].at <= s->now - lost_ms * SIM_MS)
        kept++;
    s->checks.lost_writes |= kept < state->logged;
    state->logged = kept;
    tree_plant(&state->truth);
    for (unsigned n = 0; n < kept; n++)
        truth_apply(s, &state->log[n]);
    for (unsigned i = 0; i < state->servers; i++) {
        zk_server *server = &state->server[i];
        ensemble_look_for_leader(s, i);
        server->applied = kept;
        server->tree = state->truth;
        memset(server->session, 0, sizeof server->session);
        for (unsigned n = 0; n < kept; n++)
            if (!state->log[n].error && (state->log[n].kind == ZK_TXN_OPEN || state->log[n].kind == ZK_TXN_CLOSE))
                ensemble_apply_session(s, server, &state->log[n]);
    }
}

static unsigned some_leader(sim *s)
{
    const zk_state *state = zk_state_of(s);
    for (unsigned i = 0; i < state->servers; i++)
        if (state->server[i].role == ZK_LEADS_ALL && state->server[i].epoch == state->epoch)
            return i;
    return 0;
}

static void fault(sim *s, const sim_item *item, int64_t until)
{
    zk_state *state = zk_state_of(s);
    const unsigned any = (unsigned)((uint64_t)item->at_ns / 1000 % state->servers);
    const unsigned chosen = item->who % 2 ? any : some_leader(s);
    if (item->kind == SIM_ITEM_STORE_EPOCH)
        return; /* nothing is judged by it */
    trouble(s, until);
    if (item->kind == SIM_ITEM_FAIL_OVER && item->arg > 0) {
        lose_writes(s, item->arg);
        return;
    }
    switch ((sim_item_kind)item->kind) {
    case SIM_ITEM_FREEZE:
        ensemble_server(s, chosen)->frozen_until = until;
        break;
    case SIM_ITEM_RESTART:
        for (unsigned i = 0; i < state->servers; i++)
            if (item->who == 0 || i == chosen)
                restart(s, i, until - s->now);
        break;
    case SIM_ITEM_FAIL_OVER: /* cut off from the other servers, and not from its clients */
        ensemble_server(s, chosen)->isolated_until = until;
        ensemble_server(s, chosen)->with_it = (uint32_t)sim_pick(s, 0, (1 << SIM_PROCESSES) - 1);
        break;
    default:
        break;
    }
}

static void force_release(sim *s, unsigned mutex)
{
    const zk_znode *first = truth_first(s, mutex);
    const unsigned leader = some_leader(s);
    if (!first || ensemble_server(s, leader)->role != ZK_LEADS_ALL || !ensemble_has_quorum(s, leader))
        return;
    zk_txn txn = {.kind = ZK_TXN_DELETE};
    strcpy(txn.path, first->path);
    check_revoked(s, mutex, (uint64_t)first->czxid);
    writes_agree(s, leader, &txn, false);
}

/* That ends a session at once, whatever it has been through before. */
static void refuse_password(sim *s, unsigned process, int64_t until)
{
    zk_state_of(s)->refused_until[process] = until;
    check_trouble(s, process, s->now - s->plan->session_ns, until + s->plan->session_ns);
}

static void lose_subscriptions(sim *s, unsigned process)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        if (wire_process(s, wire) == process)
            wire_drop(s, wire);
    if (s->plan->password && sim_chance(s, 500))
        refuse_password(s, process, s->now + sim_pick(s, 1, 4000) * SIM_MS);
}

static void healed(sim *s)
{
    zk_state *state = zk_state_of(s);
    wires_notice(s);
    memset(state->refused_until, 0, sizeof state->refused_until);
    for (unsigned i = 0; i < state->servers; i++) {
        zk_server *server = &state->server[i];
        server->isolated_until = 0;
        server->frozen_until = server->frozen_until < s->now ? server->frozen_until : s->now;
        server->down_until = server->down_until < s->now ? server->down_until : s->now;
    }
}

static bool accepts(const sim *s, unsigned server)
{
    return ensemble_is_up(s, &zk_state_of(s)->server[server]) && server < zk_state_of(s)->servers;
}

static int64_t frozen_until(const sim *s, unsigned server)
{
    return zk_state_of(s)->server[server].frozen_until;
}

/* A server that is cut off from the others is so with those processes that are on its side. */
static int64_t cut_until(const sim *s, unsigned process, unsigned server)
{
    const zk_state *state = zk_state_of(s);
    int64_t until = 0;
    for (unsigned i = 0; i < state->servers; i++) {
        const zk_server *one = &state->server[i];
        const bool with_it = one->with_it >> process & 1;
        if (s->now < one->isolated_until && with_it != (i == server) && one->isolated_until > until)
            until = one->isolated_until;
    }
    return until;
}

static bool owner(const sim *s, unsigned mutex, simba_owner *ret_owner)
{
    const zk_znode *first = truth_first((sim *)(uintptr_t)s, mutex);
    memset(ret_owner, 0, sizeof *ret_owner);
    if (!first)
        return false;
    snprintf(ret_owner->id, sizeof ret_owner->id, "%s", first->data);
    ret_owner->token = (uint64_t)first->czxid;
    return true;
}

/* --- life --------------------------------------------------------------------------------------------- */

static void *state_new(void)
{
    zk_state *state = calloc(1, sizeof *state);
    if (!state)
        abort();
    return state;
}

static void state_free(void *servers)
{
    zk_state *state = servers;
    free(state->log);
    free(state->note);
    free(state);
}

static void begin(sim *s)
{
    zk_state *state = zk_state_of(s);
    const zk_state kept = *state;
    memset(state, 0, sizeof *state);
    state->log = kept.log;
    state->log_capacity = kept.log_capacity;
    state->note = kept.note;
    state->note_capacity = kept.note_capacity;
    state->servers = s->plan->servers;
    state->tick_ns = s->plan->session_ns / s->plan->ticks;
    tree_plant(&state->truth);
    for (unsigned i = 0; i < state->servers; i++)
        tree_plant(&state->server[i].tree);
    ensemble_begin(s);
}

static void end(sim *s)
{
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        server_drop_all(s, i);
}

static void url(const sim *s, char *out, size_t size)
{
    size_t length = (size_t)snprintf(out, size, "zookeeper://%s", s->plan->password ? "user:password@" : "");
    for (unsigned i = 0; i < s->plan->servers; i++)
        length += (size_t)snprintf(out + length, size - length, "%s10.0.0.%u", i ? "," : "", i + 1);
    snprintf(out + length, size - length, "?session-timeout=%lldms", (long long)(s->plan->session_ns / SIM_MS));
}

const sim_model sim_zookeeper = {
    .backend = &simba__backend_zookeeper,
    .new = state_new,
    .free = state_free,
    .begin = begin,
    .end = end,
    .url = url,
    .event = ensemble_event,
    .accepts = accepts,
    .frozen_until = frozen_until,
    .cut_until = cut_until,
    .opened = server_opened,
    .bytes = server_bytes,
    .closed = server_closed,
    .fault = fault,
    .force_release = force_release,
    .lose_subscriptions = lose_subscriptions,
    .healed = healed,
    .owner = owner,
};
