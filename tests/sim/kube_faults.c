/* What goes wrong with the API servers: one freezes, restarts with an empty watch cache, refuses because it is told too much; their
 * watch caches lag; etcd elects a leader; an administrator takes a mutex away, or deletes its Lease. */
#include <stdlib.h>
#include <string.h>

#include "sim/kube_model.h"

extern const simba_backend simba__backend_kubernetes;

static void trouble(sim *s, int64_t until)
{
    check_trouble(s, SIM_PROCESSES, s->now, until);
}

static void restart(sim *s, unsigned api, int64_t until)
{
    kube_state *state = kube_state_of(s);
    kube_drop(s, api);
    state->api[api] =
        (kube_api){.down_until = until, .shown = state->objects.version, .oldest = state->objects.version};
}

static void fault(sim *s, const sim_item *item, int64_t until)
{
    kube_state *state = kube_state_of(s);
    const unsigned chosen = (unsigned)((uint64_t)item->at_ns / 1000 % KUBE_APIS);
    trouble(s, until);
    switch ((sim_item_kind)item->kind) {
    case SIM_ITEM_FREEZE:
        state->api[chosen].frozen_until = until;
        break;
    case SIM_ITEM_RESTART:
        for (unsigned i = 0; i < KUBE_APIS; i++)
            if (item->who == 0 || i == chosen)
                restart(s, i, until);
        break;
    case SIM_ITEM_FAIL_OVER:
        state->etcd_away_until = until;
        if (item->arg > 0) {
            kube_rewind(s, s->now - item->arg * SIM_MS);
            restart(s, 0, until);
            restart(s, 1, until);
        }
        break;
    case SIM_ITEM_STORE_EPOCH: /* there is no clock in the store: other things happen instead */
        if (item->who % 2)
            state->api[chosen].overloaded_until = until;
        else
            state->api[chosen].lags_until = until;
        break;
    default:
        break;
    }
}

/* Who deletes the Lease has taken its note away, too. */
static void force_release(sim *s, unsigned mutex)
{
    const kube_owner *owner = &kube_state_of(s)->owner[mutex];
    char nonce[24];
    if (!owner->holder[0] || s->now < kube_state_of(s)->etcd_away_until)
        return;
    if (owner->token > 0)
        check_revoked(s, mutex, owner->token);
    snprintf(nonce, sizeof nonce, "%016llx", (unsigned long long)owner->nonce);
    json_t *body = json_pack("{s:{s:{s:s}}, s:{s:s, s:i}}", "metadata", "annotations", "simba/revoked", nonce, "spec",
                             "holderIdentity", "", "leaseDurationSeconds", 1);
    const fake_kube_answer answer =
        kube_write(s, !s->plan->notes && sim_chance(s, 700) ? "DELETE" : "PATCH", mutex, body);
    json_decref(answer.body);
    json_decref(body);
}

/* Of a process: its connections end, or the two have lost each other. */
static void lose_connections(sim *s, unsigned process)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        if (wire_process(s, wire) != process)
            continue;
        if (sim_chance(s, 800))
            wire_drop(s, wire);
        else
            wire_silence(s, wire);
    }
}

static void healed(sim *s)
{
    kube_state *state = kube_state_of(s);
    wires_notice(s);
    wires_answer_again(s);
    if (s->now != s->plan->horizon_ns)
        return;
    kube_gos_leave(s);
    state->etcd_away_until = s->now;
    for (unsigned i = 0; i < KUBE_APIS; i++) {
        kube_api *api = &state->api[i];
        api->down_until = api->frozen_until = api->lags_until = api->overloaded_until = s->now;
    }
}

static bool accepts(const sim *s, unsigned server)
{
    return server == 0 && (kube_is_up(s, 0) || kube_is_up(s, 1));
}

/* One of the two may be, and not their address. */
static int64_t frozen_until(const sim *s, unsigned server)
{
    return 0;
}

static int64_t cut_until(const sim *s, unsigned process, unsigned server)
{
    return 0;
}

/* --- life ----------------------------------------------------------------------------------------------- */

static void *state_new(void)
{
    kube_state *state = calloc(1, sizeof *state);
    if (!state || !(state->pending = calloc(KUBE_PENDING, sizeof *state->pending)))
        abort();
    return state;
}

static void state_free(void *servers)
{
    free(((kube_state *)servers)->pending);
    free(((kube_state *)servers)->written_at);
    free(servers);
}

static void begin(sim *s)
{
    kube_state *state = kube_state_of(s);
    const kube_state kept = *state;
    for (unsigned i = 0; i < KUBE_PENDING; i++)
        kept.pending[i].used = false;
    *state = (kube_state){.pending = kept.pending, .written_at = kept.written_at, .capacity = kept.capacity};
    fake_kube_objects_init(&state->objects);
    for (unsigned i = 0; i < KUBE_APIS; i++)
        state->api[i] = (kube_api){.shown = state->objects.version, .oldest = state->objects.oldest};
    kube_gos_begin(s);
}

static void end(sim *s)
{
    for (unsigned i = 0; i < KUBE_APIS; i++)
        kube_drop(s, i);
    kube_gos_end(s);
    fake_kube_objects_fini(&kube_state_of(s)->objects);
}

static void url(const sim *s, char *out, size_t size)
{
    snprintf(out, size, "kubernetes://10.0.0.1/default?tls=no");
}

const sim_model sim_kubernetes = {
    .backend = &simba__backend_kubernetes,
    .new = state_new,
    .free = state_free,
    .begin = begin,
    .end = end,
    .url = url,
    .event = kube_event,
    .accepts = accepts,
    .frozen_until = frozen_until,
    .cut_until = cut_until,
    .opened = kube_opened,
    .bytes = kube_bytes,
    .closed = kube_closed,
    .fault = fault,
    .force_release = force_release,
    .lose_subscriptions = lose_connections,
    .healed = healed,
    .owner = kube_owner_of,
};
