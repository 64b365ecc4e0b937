/* Contenders in Go, beside ours: client-go's leaderelection. Such a contender reads the Lease now and then; a record that it has seen
 * unchanged for as long as it says has expired. It takes it by writing the whole object over the version that it has read. A leader
 * writes without a read before, and goes on until its renewals have failed for the renew deadline. A Lease that was taken from it it
 * takes back without stepping down, if it is free. It ignores annotations, and leaves them. It talks to etcd directly, and not over a
 * wire. The checks ignore who it believes leads: ours must never lead while the Lease is its. All leave when everything heals. */
#include <stdlib.h>
#include <string.h>

#include "sim/kube_model.h"

typedef enum go_step {
    GO_TRY,
    GO_WRITE,
    GO_RELEASE,
} go_step;

static kube_go *go_at(sim *s, unsigned i)
{
    return &kube_state_of(s)->go[i];
}

static int64_t trip(sim *s)
{
    return s->plan->latency_ns * sim_pick(s, 50, 150) / 100 + sim_pick(s, SIM_MS / 10, 3 * SIM_MS);
}

static void plan_step(sim *s, unsigned i, go_step step, int64_t after_ns)
{
    sim_plan_event(s, EV_SERVER, KUBE_EV_GO + i, s->now + after_ns, ++go_at(s, i)->version, step);
}

/* Takes over the reference. */
static void set(json_t **to, json_t *value)
{
    json_decref(*to);
    *to = value;
}

static json_t *record_of(const json_t *lease)
{
    return json_object_get(lease, "spec");
}

static bool is_holder(const kube_go *go, const json_t *record)
{
    const char *holder = json_string_value(json_object_get(record, "holderIdentity"));
    return holder && strcmp(holder, go->id) == 0;
}

static bool is_free(const json_t *record)
{
    const char *holder = json_string_value(json_object_get(record, "holderIdentity"));
    return !holder || !*holder;
}

/* Of the record as it was seen last, by the time since it changed. */
static bool is_valid(const sim *s, const kube_go *go)
{
    const json_int_t seconds = json_integer_value(json_object_get(go->observed, "leaseDurationSeconds"));
    return s->now < go->observed_at + seconds * SIM_S;
}

static void see(sim *s, kube_go *go, json_t *lease)
{
    set(&go->lease, json_deep_copy(lease));
    if (go->observed && json_equal(go->observed, record_of(lease)))
        return;
    set(&go->observed, json_deep_copy(record_of(lease)));
    go->observed_at = s->now;
}

/* Its times are those of the simulation's beginning plus what has passed: nobody judges by them. */
static void set_times(const sim *s, json_t *record, bool renews)
{
    char text[40];
    snprintf(text, sizeof text, "2026-01-02T%02d:%02d:%02d.%06dZ", (int)(s->now / SIM_S / 3600 % 24),
             (int)(s->now / SIM_S / 60 % 60), (int)(s->now / SIM_S % 60), (int)(s->now / 1000 % 1000000));
    json_object_set_new(record, "renewTime", json_string(text));
    if (!renews)
        json_object_set_new(record, "acquireTime", json_string(text));
}

static void fail(sim *s, unsigned i)
{
    kube_go *go = go_at(s, i);
    if (go->leads && s->now > go->renewed_at + go->renew_ns)
        go->leads = false;
    plan_step(s, i, GO_TRY, go->retry_ns * sim_pick(s, 100, go->leads ? 100 : 220) / 100);
}

/* It wants to write over the version that it has. */
static void want(sim *s, unsigned i, const json_t *old)
{
    kube_go *go = go_at(s, i);
    const bool renews = is_holder(go, go->observed);
    json_t *wanted =
        old ? json_deep_copy(old) : json_pack("{s:{s:s}, s:{}}", "metadata", "name", sim_mutex_name(go->mutex), "spec");
    json_t *record = record_of(wanted);
    const json_int_t grants = json_integer_value(json_object_get(record, "leaseTransitions"));
    json_object_set_new(record, "holderIdentity", json_string(go->id));
    json_object_set_new(record, "leaseDurationSeconds", json_integer(go->lease_ns / SIM_S));
    json_object_set_new(record, "leaseTransitions", json_integer(renews ? grants : grants + (old != NULL)));
    set_times(s, record, renews);
    set(&go->wanted, wanted);
    plan_step(s, i, GO_WRITE, trip(s));
}

static void read_and_decide(sim *s, unsigned i)
{
    kube_go *go = go_at(s, i);
    char key[64];
    kube_key(go->mutex, key, sizeof key);
    json_t *lease = json_object_get(kube_state_of(s)->objects.objects, key);
    if (lease)
        see(s, go, lease);
    if (lease && !is_free(go->observed) && is_valid(s, go) && !is_holder(go, go->observed))
        fail(s, i);
    else
        want(s, i, lease);
}

static void try_it(sim *s, unsigned i)
{
    kube_go *go = go_at(s, i);
    if (s->now < kube_state_of(s)->etcd_away_until || !(kube_is_up(s, 0) || kube_is_up(s, 1)))
        fail(s, i);
    else if (go->leads && s->now > go->leads_until && sim_chance(s, 500))
        plan_step(s, i, GO_RELEASE, trip(s));
    else if (is_holder(go, go->observed) && is_valid(s, go))
        want(s, i, go->lease);
    else
        read_and_decide(s, i);
}

static void write_it(sim *s, unsigned i)
{
    kube_go *go = go_at(s, i);
    const bool exists = json_object_get(json_object_get(go->wanted, "metadata"), "resourceVersion") != NULL;
    fake_kube_answer answer = kube_write(s, exists ? "PUT" : "POST", go->mutex, go->wanted);
    const bool lost = sim_chance(s, 50);
    if (answer.code >= 300 || lost) {
        if (answer.code >= 300 && is_holder(go, go->observed)) /* it reads at once */
            read_and_decide(s, i);
        else
            fail(s, i);
        json_decref(answer.body);
        return;
    }
    see(s, go, answer.body);
    json_decref(answer.body);
    if (!go->leads)
        go->leads_until = s->now + sim_pick(s, 1, 20000) * SIM_MS;
    go->leads = true;
    go->renewed_at = s->now;
    plan_step(s, i, GO_TRY, go->retry_ns);
}

/* After its work, or at once when it leaves; sometimes it dies instead. */
static void release(sim *s, unsigned i)
{
    kube_go *go = go_at(s, i);
    if (is_holder(go, go->observed) && (go->leaves || sim_chance(s, 700))) {
        json_t *wanted = json_deep_copy(go->lease), *record = record_of(wanted);
        json_object_set_new(record, "holderIdentity", json_string(""));
        json_object_set_new(record, "leaseDurationSeconds", json_integer(1));
        set_times(s, record, false);
        const fake_kube_answer answer = kube_write(s, "PUT", go->mutex, wanted);
        json_decref(answer.body);
        json_decref(wanted);
    }
    go->leads = false;
    set(&go->lease, NULL);
    set(&go->observed, NULL);
    go->alive = !go->leaves;
    plan_step(s, i, GO_TRY, sim_pick(s, 0, 10000) * SIM_MS);
}

/* --- life ------------------------------------------------------------------------------------------------------ */

void kube_gos_event(sim *s, const sim_event *event)
{
    const unsigned i = event->who - KUBE_EV_GO;
    const kube_go *go = go_at(s, i);
    if (!go->alive || event->version != go->version)
        return;
    if (event->arg == GO_TRY)
        try_it(s, i);
    else if (event->arg == GO_WRITE)
        write_it(s, i);
    else
        release(s, i);
}

void kube_gos_begin(sim *s)
{
    for (unsigned i = 0; i < s->plan->jvms; i++) {
        kube_go *go = go_at(s, i);
        int64_t seconds = (s->plan->timing.ttl_ms + s->plan->timing.transition_ms + 999) / 1000;
        if (seconds > 15)
            seconds = 15; /* the usual */
        *go = (kube_go){.alive = true, .mutex = i % s->plan->mutexes, .lease_ns = seconds * SIM_S};
        go->renew_ns = go->lease_ns * 2 / 3;
        go->retry_ns = go->lease_ns * 2 / 15;
        snprintf(go->id, sizeof go->id, "go-%u", i);
        if (sim_chance(s, 200))
            strcpy(go->id, s->plan->contender[0].id); /* it is foreign all the same */
        plan_step(s, i, GO_TRY, sim_pick(s, 0, sim_chance(s, 700) ? 30 * SIM_MS : 10 * SIM_S));
    }
}

void kube_gos_leave(sim *s)
{
    for (unsigned i = 0; i < s->plan->jvms; i++) {
        go_at(s, i)->leaves = true;
        plan_step(s, i, GO_RELEASE, trip(s));
    }
}

void kube_gos_end(sim *s)
{
    for (unsigned i = 0; i < KUBE_GOS; i++) {
        kube_go *go = go_at(s, i);
        json_decref(go->lease);
        json_decref(go->observed);
        json_decref(go->wanted);
        *go = (kube_go){.alive = false};
    }
}
