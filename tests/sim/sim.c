/* The run: takes the next event, lets it happen, checks all promises; heals everything; checks again. See world.h
 * for the rest. */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"
#include "util/random.h"

#define DRIFT_PPM 10000
#define OP_TIMEOUT_MS 4000
#define EVENTS_MAX 500000 /* ten times what the busiest run needs */
#define EVENTS_PER_S 100  /* and where leases last for hours */

sim *sim_new(void)
{
    sim *s = calloc(1, sizeof *s);
    if (!s || !(s->store.undo = calloc(SIM_UNDO, sizeof *s->store.undo)))
        abort();
    s->wires = wires_new();
    s->sockets = sockets_new();
    return s;
}

/* Each keeps what is dear to make from one run to the next. */
static const sim_model *const models[SIM_STORES] = {
#if SIMBA_WITH_REDIS
    [SIM_STORE_REDIS] = &sim_redis,
#endif
#if SIMBA_WITH_ZOOKEEPER
    [SIM_STORE_ZOOKEEPER] = &sim_zookeeper,
#endif
#if SIMBA_WITH_MYSQL
    [SIM_STORE_SQL] = &sim_sql,
#endif
#if SIMBA_WITH_POSTGRESQL
    [SIM_STORE_POSTGRESQL] = &sim_postgresql,
#endif
#if SIMBA_WITH_ETCD
    [SIM_STORE_ETCD] = &sim_etcd,
#endif
#if SIMBA_WITH_KUBERNETES
    [SIM_STORE_KUBERNETES] = &sim_kubernetes,
#endif
};

bool sim_has_store(sim_store_kind store)
{
    return store < SIM_STORE_REDIS || models[store];
}

bool sim_has_tokens(sim_store_kind store, sim_broken broken)
{
    return !sim_is_sql(store) || broken != SIM_BROKEN_LOST_WRITES;
}

void sim_free(sim *s)
{
    for (int store = 0; store < SIM_STORES; store++)
        if (models[store] && s->kept[store])
            models[store]->free(s->kept[store]);
    wires_free(s->wires);
    sockets_free(s->sockets);
    sim_events_fini(&s->events);
    free(s->store.undo);
    free(s->message);
    free(s);
}

const char *sim_mutex_name(unsigned mutex)
{
    static const char *const names[SIM_MUTEXES] = {"m0", "m1", "m2"};
    return names[mutex];
}

int64_t sim_pick(sim *s, int64_t low, int64_t high)
{
    return simba__random_range(&s->random, low, high + 1);
}

bool sim_chance(sim *s, int64_t per_mille)
{
    return sim_pick(s, 1, 1000) <= per_mille;
}

void sim_plan_event(sim *s, sim_event_kind kind, unsigned who, int64_t at, uint32_t version, uint32_t arg)
{
    sim_events_plan(
        &s->events,
        (sim_event){.at = at, .kind = (uint16_t)kind, .who = (uint16_t)who, .version = version, .arg = arg});
}

void sim_mix(sim *s, uint64_t value)
{
    s->verdict.hash = (s->verdict.hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    s->verdict.hash ^= s->verdict.hash >> 29;
}

void sim_log(sim *s, const char *row, const char *format, ...)
{
    if (!s->log)
        return;
    va_list args;
    va_start(args, format);
    fprintf(s->log, "%lld %s ", (long long)s->now, row);
    vfprintf(s->log, format, args);
    fputc('\n', s->log);
    va_end(args);
}

void sim_tell(sim *s, const char *format, ...)
{
    if (!s->log || !s->plan->tell_servers)
        return;
    va_list args;
    va_start(args, format);
    fprintf(s->log, "# %lld ", (long long)s->now);
    vfprintf(s->log, format, args);
    fputc('\n', s->log);
    va_end(args);
}

/* --- how long things may take -------------------------------------------------------------------------- */

/* L1: the end of a lease that a dead holder left behind, the jitter, and what can be under way at the time of healing: a
 * callback, a request that runs into its deadline, and the attempts to give back. */
int64_t sim_settle_ns(const sim *s)
{
    const simba__timing *t = &s->timing;
    const int64_t lease_ns = t->session ? s->plan->session_ns : t->ttl_ns + t->transition_ns;
    const int64_t callback_ns = 3 * (t->ttl_ns + t->transition_ns) / 2;
    return lease_ns + lease_ns / 50 + callback_ns + 3 * t->jitter_max_ns + 5 * t->op_timeout_ns +
           10 * s->plan->latency_ns + t->initial_delay_ns + s->plan->poll_ns + s->plan->session_ns;
}

/* L2: by push, or within one poll. */
int64_t sim_hand_over_ns(const sim *s)
{
    const int64_t trips_ns = 8 * s->plan->latency_ns + 20 * SIM_MS;
    switch (s->plan->store) {
    case SIM_STORE_PUSH:
        return trips_ns + 110 * SIM_MS;
    case SIM_STORE_REDIS:
        return trips_ns + 300 * SIM_MS;
    case SIM_STORE_ZOOKEEPER:
    case SIM_STORE_ETCD:
        return trips_ns + 60 * SIM_MS; /* servers have to agree */
    case SIM_STORE_KUBERNETES:
        return trips_ns + 60 * SIM_MS; /* a watch cache has to learn of it */
    case SIM_STORE_SQL:
    case SIM_STORE_POSTGRESQL:   /* where it does not hear, it polls */
        return trips_ns + SIM_S; /* the longest pause between two polls, and three commits */
    case SIM_STORE_POLL:
        return trips_ns + s->plan->poll_ns + s->plan->poll_ns / 50;
    default:
        return trips_ns;
    }
}

/* --- the drill of L2: a leader stops, and perhaps a waiter has just died ---------------------------------- */

static bool waits(const sim *s, const sim_handle *handle, unsigned mutex)
{
    return handle->is_contender && handle->running && handle->mutex == mutex && s->process[handle->process].alive &&
           !handle->locker && !handle->candidate.machine.stop && handle->candidate.machine.phase == SIMBA__SEEK &&
           handle->candidate.machine.reason != SIMBA_REASON_HOLD_LIMIT && handle->candidate.machine.owner.id[0] != '\0';
}

static sim_handle *find_leader(sim *s, unsigned mutex)
{
    for (unsigned i = 0; i < s->plan->contenders; i++) {
        sim_handle *handle = &s->handle[i];
        if (handle->mutex == mutex && handle->running && !handle->locker &&
            handle->candidate.machine.phase == SIMBA__HOLD && s->process[handle->process].alive)
            return handle;
    }
    return NULL;
}

/* A process other than the leader's whose death leaves somebody waiting elsewhere. */
static void kill_a_waiter(sim *s, const sim_handle *leader)
{
    unsigned victim = SIM_NOBODY;
    bool others = false;
    for (unsigned i = 0; i < s->plan->contenders; i++) {
        const sim_handle *handle = &s->handle[i];
        if (!waits(s, handle, leader->mutex) || handle->process == leader->process)
            continue;
        if (victim == SIM_NOBODY)
            victim = handle->process;
        others |= handle->process != victim;
    }
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        const sim_handle *other = find_leader(s, m);
        others &= !other || other->process != victim;
    }
    if (!others || s->timing.session)
        return;
    process_kill(s, victim, 0);
    if (s->model)
        s->model->healed(s);
    memset(s->store.subscribed[victim], 0, sizeof s->store.subscribed[victim]);
}

/* Two under one name share one place in a queue of names, and the first to win takes it away from the other, which then
 * has to wait for its timer. */
static bool share_a_place(const sim *s)
{
    for (unsigned i = 1; s->plan->queue && i < s->plan->contenders; i++)
        for (unsigned k = 0; k < i; k++)
            if (s->handle[i].mutex == 0 && s->handle[k].mutex == 0 && strcmp(s->handle[i].id, s->handle[k].id) == 0)
                return true;
    return false;
}

static void hand_over(sim *s)
{
    sim_handle *leader = find_leader(s, 0);
    if (!leader || share_a_place(s))
        return;
    if (sim_chance(s, 500))
        kill_a_waiter(s, leader);
    unsigned waiting = 0;
    for (unsigned i = 0; i < s->plan->contenders; i++) {
        waiting += waits(s, &s->handle[i], 0);
        if (s->handle[i].mutex == 0 && s->handle[i].locker)
            return; /* lockers come and go: who is next is not known */
    }
    if (waiting == 0)
        return;
    s->checks.drill[0] = true;
    handle_stop(s, leader);
}

static void wind_up(sim *s)
{
    check_hand_over(s);
    slots_check_next(s);
    s->settled = false;
    s->winding_up = true;
    for (unsigned i = 0; i < s->handles; i++)
        if (s->process[s->handle[i].process].alive)
            handle_stop(s, &s->handle[i]);
}

/* --- the run ------------------------------------------------------------------------------------------- */

static void prepare(sim *s, const sim_plan *plan, FILE *log)
{
    static const unsigned caps[] = {
        [SIM_STORE_PUSH] = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_NOTE,
        [SIM_STORE_POLL] = SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_NOTE,
        [SIM_STORE_SESSION] = SIMBA_CAP_SESSION | SIMBA_CAP_PUSH | SIMBA_CAP_QUEUE | SIMBA_CAP_NOTE,
    };
    s->plan = plan;
    s->log = log;
    s->now = 0;
    s->random = plan->seed ^ UINT64_C(0x5EED);
    s->healed = s->settled = s->winding_up = false;
    s->model = models[plan->store];
    if (s->model && !s->kept[plan->store])
        s->kept[plan->store] = s->model->new ();
    s->servers = s->kept[plan->store];
    s->backend = s->model ? *s->model->backend : sim_net_store;
    if (!s->model) {
        s->backend.window = plan->window;
        s->backend.caps =
            caps[plan->store] | (plan->queue ? SIMBA_CAP_QUEUE : 0) | (plan->watch_free ? SIMBA_CAP_WATCH_FREE : 0);
    }
    s->messages = s->message_free = 0;
    memset(&s->checks, 0, sizeof s->checks);
    memset(&s->verdict, 0, sizeof s->verdict);
    sim_events_clear(&s->events);
    simba_error error;
    simba_timing timing = plan->timing;
    const bool session = s->backend.caps & SIMBA_CAP_SESSION;
    if (simba__timing_resolve(&timing, DRIFT_PPM, OP_TIMEOUT_MS, session, &error, &s->timing) < 0 ||
        (session && simba__timing_check_session(&s->timing, plan->session_ns / SIM_MS, &error) < 0)) {
        timing.stop_margin_ms = 0;
        if (simba__timing_resolve(&timing, DRIFT_PPM, OP_TIMEOUT_MS, session, &error, &s->timing) < 0)
            abort();
    }
}

static void populate(sim *s)
{
    process_init(s);
    store_init(s);
    if (s->model)
        s->model->begin(s);
    for (unsigned i = 0; i < s->plan->contenders; i++)
        snprintf(s->handle[i].name, sizeof s->handle[i].name, "%c/%s%s", 'a' + s->handle[i].process, s->handle[i].id,
                 i > 0 && strcmp(s->handle[i].id, s->handle[i - 1].id) == 0 ? "'" : "");
    for (unsigned p = 0; p < s->plan->processes; p++)
        process_start(s, p);
    for (unsigned i = 0; i < s->plan->items; i++)
        sim_plan_event(s, EV_ITEM, 0, s->plan->item[i].at_ns, 0, i);
    const int64_t settled = s->plan->horizon_ns + sim_settle_ns(s);
    sim_plan_event(s, EV_HEAL, 0, s->plan->horizon_ns, 0, 0);
    sim_plan_event(s, EV_HAND_OVER, 0, settled, 0, 0);
    if (s->plan->slots)
        sim_plan_event(s, EV_SLOTS, 0, settled + sim_settle_ns(s), 0, 0);
    sim_plan_event(s, EV_WIND_UP, 0,
                   settled + (s->plan->slots ? sim_settle_ns(s) : 0) + sim_hand_over_ns(s) + 5 * s->plan->latency_ns +
                       20 * SIM_MS,
                   0, 0);
}

static void happen(sim *s, const sim_event *event)
{
    switch ((sim_event_kind)event->kind) {
    case EV_ITEM:
        fault_item(s, event);
        break;
    case EV_HEAL:
        fault_heal(s);
        break;
    case EV_HAND_OVER:
        check_settled(s);
        s->settled = true;
        hand_over(s);
        slots_settled(s);
        break;
    case EV_SLOTS:
        slots_drill(s);
        break;
    case EV_WIND_UP:
        wind_up(s);
        break;
    case EV_WIRE_TO_SERVER:
        wire_to_server(s, event);
        break;
    case EV_SERVER:
        s->model->event(s, event);
        break;
    case EV_TO_STORE:
    case EV_STORE_UP:
    case EV_EXPIRE:
        store_event(s, event);
        break;
    default:
        process_event(s, event);
    }
}

static void tear_down(sim *s)
{
    for (unsigned p = 0; p < s->plan->processes; p++)
        client_kill(s, p, true);
    if (s->model)
        s->model->end(s);
    wires_clear(s->wires);
}

void sim_run(sim *s, const sim_plan *plan, FILE *log, sim_verdict *ret_verdict)
{
    sim_event event;
    prepare(s, plan, log);
    populate(s);
    const int64_t end = plan->horizon_ns + (plan->slots ? 3 : 2) * sim_settle_ns(s);
    while (!s->verdict.promise && sim_events_next(&s->events, &event) && event.at <= end) {
        s->now = event.at;
        if (++s->verdict.events > EVENTS_MAX + (uint64_t)(end / SIM_S) * EVENTS_PER_S)
            check_broken(s, "L1", "it does not come to an end");
        happen(s, &event);
        clients_settle(s);
    }
    if (!s->verdict.promise) {
        s->now = end;
        check_end(s);
    }
    tear_down(s);
    sim_mix(s, s->verdict.events);
    *ret_verdict = s->verdict;
}
