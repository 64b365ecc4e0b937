/* Contenders of Go's package `concurrency`, beside ours: a Session, which keeps its lease alive each third of its time, and a Mutex,
 * whose key is NAME/LEASE and has no value. The checks ignore who it believes leads: ours must never lead while its key is the first.
 * It talks to the leader directly, and not over a wire. All of them leave when everything heals. */
#include "sim/etcd_model.h"

static void key_of(const etcd_go *go, char name[EKV_NAME])
{
    snprintf(name, EKV_NAME, "%s/%llx", sim_mutex_name(go->mutex), (unsigned long long)go->lease);
}

static void again(sim *s, unsigned index, int64_t after_ns)
{
    sim_plan_event(s, EV_SERVER, ETCD_EV_GO, s->now + after_ns, 0, index);
}

/* It enters, holds, or waits. */
static void contend(sim *s, etcd_go *go)
{
    char name[EKV_NAME];
    key_of(go, name);
    const ekv *own = ekv_find(s, name), *first = ekv_first(s, go->mutex);
    if (!own) {
        go->holds_until = 0;
        ekv_enter(s, name, go->lease);
    } else if (own != first) {
        if (sim_chance(s, 50)) /* it does not want to wait for ever */
            ekv_delete(s, name);
    } else if (!go->holds_until) {
        go->holds_until = s->now + sim_pick(s, 1, 20000) * SIM_MS;
    } else if (s->now >= go->holds_until) {
        go->holds_until = 0;
        ekv_delete(s, name);
    }
}

void ego_event(sim *s, unsigned index)
{
    etcd_go *go = &etcd_of(s)->go[index];
    const int64_t ttl_s = s->plan->session_ns / SIM_S;
    ekv_lease *lease = ekv_find_lease(s, go->lease);
    if (etcd_of(s)->leader == SIM_NOBODY || !etcd_can_commit(s, etcd_of(s)->leader)) {
        again(s, index, sim_pick(s, 50, 500) * SIM_MS);
        return;
    }
    if (go->leaves) {
        if (lease)
            ekv_revoke(s, go->lease);
        return;
    }
    if (!lease || sim_chance(s, 5)) { /* or it dies, and the next one knows nothing of it */
        go->lease = sim_pick(s, 1, INT64_MAX - 1);
        ekv_grant(s, go->lease, ttl_s);
        go->alive_at = s->now;
        again(s, index, etcd_hop(s));
        return;
    }
    if (s->now - go->alive_at >= ttl_s * SIM_S / 3) {
        go->alive_at = s->now;
        lease->expires_at = store_clock(s) + lease->ttl_s * SIM_S;
        etcd_plan_expiry(s);
    }
    contend(s, go);
    again(s, index, sim_pick(s, 10, 300) * SIM_MS);
}

bool ego_is(const sim *s, int64_t lease)
{
    for (unsigned i = 0; i < s->plan->jvms; i++)
        if (etcd_of(s)->go[i].lease == lease)
            return true;
    return false;
}

void ego_begin(sim *s)
{
    for (unsigned i = 0; i < s->plan->jvms; i++) {
        etcd_of(s)->go[i] = (etcd_go){.mutex = i % s->plan->mutexes};
        again(s, i, sim_pick(s, 0, sim_chance(s, 700) ? 30 * SIM_MS : 10 * SIM_S));
    }
}

void ego_leave(sim *s)
{
    for (unsigned i = 0; i < s->plan->jvms; i++)
        etcd_of(s)->go[i].leaves = true;
}
