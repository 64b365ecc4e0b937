/* A handle that contends; see handles.h. */
#include "client/handles.h"

#include <string.h>

#include "client/log.h"
#include "core/trace.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/sized.h"
#include "util/text.h"

/* --- making ----------------------------------------------------------------------------------------- */

/* The timing of its own, if it has one. */
static int make_timing(simba__candidate *candidate, const simba_client *client, const simba_timing *timing,
                       simba_error *err)
{
    static const simba_timing inherited = SIMBA_TIMING_INHERIT;
    if (memcmp(timing, &inherited, sizeof inherited) == 0)
        return 0;
    if (client->timing.session && (timing->ttl_ms != SIMBA_INHERIT || timing->transition_ms != SIMBA_INHERIT))
        return simba__fail(err, SIMBA_EINVAL, "%s does not apply to %s://, whose leases are sessions",
                           timing->ttl_ms != SIMBA_INHERIT ? "ttl" : "transition", simba_url_scheme(client->url));
    candidate->own_timing = simba__calloc(1, sizeof *candidate->own_timing);
    if (!candidate->own_timing)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    const simba_timing merged = simba__timing_inherit(timing, &client->timing.ms);
    const int rc = simba__timing_resolve(&merged, client->options.drift_ppm, client->options.op_timeout_ms,
                                         client->timing.session, err, candidate->own_timing);
    return rc < 0 || !client->timing.session
               ? rc
               : simba__timing_check_session(candidate->own_timing, atomic_load(&client->session_ms), err);
}

int simba__candidate_init(simba__candidate *candidate, const simba__candidate_type *type, simba_client *client,
                          const char *mutex, const char *id, const simba_timing *timing, simba_error *err)
{
    int rc = id ? simba__check_id(id, err) : 0;
    if (rc == 0)
        rc = make_timing(candidate, client, timing, err);
    if (rc == 0) {
        if (id)
            strcpy(candidate->id, id);
        else
            simba_id_host(candidate->id);
        simba__contention_init(&candidate->machine, candidate->own_timing ? candidate->own_timing : &client->timing,
                               client->backend->caps & SIMBA_CAP_QUEUE);
        rc = simba__handle_init(&candidate->handle, &type->handle, client, mutex, err);
    }
    if (rc < 0)
        simba__candidate_fini(candidate);
    return rc;
}

void simba__candidate_fini(simba__candidate *candidate)
{
    simba__free(candidate->own_timing);
}

/* --- stepping --------------------------------------------------------------------------------------- */

/* What may be read without the lock; `valid_until_ns` comes last, so whoever sees it sees the rest. */
static void publish(simba__candidate *candidate)
{
    const simba__contention *machine = &candidate->machine;
    int64_t valid_until_ns = simba__contention_valid_until(machine).ns;
    int64_t ttl_until_ns = simba__contention_ttl_until(machine).ns;
    const int64_t margin_ns = machine->phase == SIMBA__HOLD ? machine->timing->stop_margin_ns : 0;
    if (machine->timing->session && valid_until_ns)
        valid_until_ns = ttl_until_ns = INT64_MAX - margin_ns;
    atomic_store_explicit(&candidate->token, valid_until_ns ? machine->token : 0, memory_order_relaxed);
    atomic_store_explicit(&candidate->ttl_until_ns, ttl_until_ns, memory_order_relaxed);
    atomic_store_explicit(&candidate->has_margin, margin_ns != 0, memory_order_relaxed);
    atomic_store_explicit(&candidate->valid_until_ns, valid_until_ns, memory_order_release);
}

void simba__candidate_step(simba__handle *handle, simba__event *event)
{
    simba__candidate *candidate = (simba__candidate *)(void *)handle;
    const simba__candidate_type *type = (const simba__candidate_type *)(const void *)handle->type;
    simba_client *client = handle->client;
    simba__contention *machine = &candidate->machine;
    simba__actions actions;
    const simba__step step = {machine, event, &actions};
    event->session_until.ns = atomic_load_explicit(&client->session_until_ns, memory_order_relaxed);
    simba__contention_step(machine, event, &actions);
    event->used = actions.used;
    publish(candidate);
    /* Until when the owner that a reply or a push tells of has the mutex, on our own clock. */
    const simba_reply *reply = event->kind == SIMBA__EV_REPLY && event->reply->status == 0 ? event->reply : NULL;
    const simba_push *push =
        event->kind == SIMBA__EV_PUSH && event->push->kind == SIMBA_PUSH_ACQUIRED ? event->push : NULL;
    if (reply || push)
        candidate->owner_until = simba__local_add(event->now, reply ? simba__owner_left_ns(&reply->owner, reply->now_ms)
                                                                    : simba__owner_left_ns(&push->owner, push->now_ms));
    simba__count_step(&client->stats, &step, &candidate->waits_since);
    simba__log_step(candidate, &step);
    simba__handle_act(handle, &actions, candidate->id, machine->timing);
    const bool wants_news =
        candidate->hears_notes || simba__contention_wants_news(machine, client->backend->caps, handle->observes);
    simba__watches_want(&client->watches, handle, !actions.done && wants_news);
    type->told(candidate, &step);
    if (actions.done)
        simba__handle_stopped(handle);
    if (actions.released && type->acks_at_once)
        simba__candidate_ack(candidate);
    if (actions.withdraw && handle->request)
        simba__window_withdraw(&client->window, handle->request); /* the last, because it may lead to the next step */
}

void simba__candidate_begin(simba__candidate *candidate)
{
    simba_client *client = candidate->handle.client;
    const uint64_t seed = candidate->machine.seed; /* it goes on from where it is: asking the kernel is a system call */
    simba__event event = {
        .kind = SIMBA__EV_START,
        .now = client->now,
        .seed = seed ? seed : client->host.random(&client->host),
    };
    simba__handle_started(&candidate->handle);
    simba__candidate_step(&candidate->handle, &event);
}

void simba__candidate_ack(simba__candidate *candidate)
{
    simba__event event = {.kind = SIMBA__EV_ACK, .now = candidate->handle.client->now};
    simba__candidate_step(&candidate->handle, &event);
}

void simba__candidate_look(simba__candidate *candidate)
{
    simba__event event = {.kind = SIMBA__EV_TIMER, .now = candidate->handle.client->now};
    if (candidate->handle.running)
        simba__candidate_step(&candidate->handle, &event);
}

/* --- start and stop --------------------------------------------------------------------------------- */

int simba__candidate_start(simba__candidate *candidate)
{
    simba_client *client = candidate->handle.client;
    int rc = simba__lock_checked(client, false, NULL);
    if (rc < 0)
        return rc;
    if (client->closing)
        rc = SIMBA_ECLOSED;
    else if (candidate->handle.running)
        rc = SIMBA_ESTATE;
    else
        simba__candidate_begin(candidate);
    simba__unlock(client);
    return rc;
}

int simba__candidate_stop(simba__candidate *candidate)
{
    simba_client *client = candidate->handle.client;
    int rc = simba__lock_checked(client, false, NULL);
    if (rc < 0)
        return rc;
    const bool was_running = candidate->handle.running;
    simba__handle_stop(&candidate->handle);
    if (was_running && !candidate->handle.running)
        rc = candidate->machine.last_error;
    else if (client->closed)
        rc = SIMBA_ECLOSED;
    simba__unlock(client);
    return rc;
}

/* --- looking ---------------------------------------------------------------------------------------- */

/* The time left until `more_ns` after `until`. */
static int64_t lease_left_ns(const simba__candidate *candidate, const _Atomic int64_t *until, int64_t more_ns)
{
    const simba_client *client = candidate->handle.client;
    if (simba__client_forked(client, NULL) < 0)
        return 0;
    simba_local until_at = {atomic_load_explicit(until, memory_order_acquire)};
    if (until_at.ns)
        until_at.ns += more_ns;
    simba_local session_at = {atomic_load_explicit(&client->session_until_ns, memory_order_relaxed)};
    if (client->timing.session && until_at.ns) {
        session_at = simba__local_add(session_at, until_at.ns - INT64_MAX); /* less the margin */
        until_at = SIMBA__NEVER;
    }
    return simba__lease_left_ns(until_at, session_at, simba__clock_boot());
}

int64_t simba__candidate_held_for_ns(const simba__candidate *candidate)
{
    return lease_left_ns(candidate, &candidate->valid_until_ns, 0);
}

int64_t simba__candidate_ttl_for_ns(const simba__candidate *candidate)
{
    return lease_left_ns(candidate, &candidate->ttl_until_ns, 0);
}

uint64_t simba__candidate_token(const simba__candidate *candidate)
{
    return simba__candidate_held_for_ns(candidate) > 0 ? atomic_load_explicit(&candidate->token, memory_order_relaxed)
                                                       : 0;
}

int simba__candidate_lease(const simba__candidate *candidate, simba_lease *ret_lease)
{
    const simba_client *client = candidate->handle.client;
    const simba__timing *timing = candidate->machine.timing;
    const int rc = simba__client_forked(client, NULL);
    if (rc < 0)
        return rc;
    simba_lease lease;
    memset(&lease, 0, sizeof lease); /* the program also gets the padding between the members */
    lease.size = sizeof lease;
    const int64_t held_ns = simba__candidate_held_for_ns(candidate);
    if (held_ns > 0) {
        const bool has_margin = atomic_load_explicit(&candidate->has_margin, memory_order_relaxed);
        int64_t left_ns = lease_left_ns(candidate, &candidate->valid_until_ns, has_margin ? timing->stop_margin_ns : 0);
        if (left_ns < held_ns)
            left_ns = held_ns; /* the lease has just ended, or just begun */
        const int64_t ttl_ns = client->timing.session ? left_ns : simba__candidate_ttl_for_ns(candidate);
        lease.token = atomic_load_explicit(&candidate->token, memory_order_relaxed);
        lease.held_for_ms = held_ns / SIMBA__NS_PER_MS;
        lease.left_ms = left_ns / SIMBA__NS_PER_MS;
        lease.ttl_left_ms = ttl_ns / SIMBA__NS_PER_MS;
        lease.overdue = left_ns <= simba__lease_overdue_ns(timing, atomic_load(&client->session_ms));
    }
    return simba__sized_tell(ret_lease, &lease);
}

int simba__candidate_owner(simba__candidate *candidate, simba_owner *ret_owner)
{
    simba_client *client = candidate->handle.client;
    const int rc = simba__lock_checked(client, true, NULL);
    if (rc < 0)
        return rc;
    *ret_owner = candidate->machine.owner;
    simba__unlock(client);
    return 0;
}

int64_t simba__candidate_owner_left_ms(simba__candidate *candidate)
{
    simba_client *client = candidate->handle.client;
    if (simba__lock_checked(client, false, NULL) < 0)
        return 0;
    const bool none = simba_owner_is_none(&candidate->machine.owner);
    const int64_t left_ns = candidate->owner_until.ns - client->now.ns;
    simba__unlock(client);
    if (none || left_ns < 0)
        return 0;
    return client->timing.session ? INT64_MAX : left_ns / SIMBA__NS_PER_MS;
}

int simba__candidate_grant(simba__candidate *candidate, simba_grant *ret_grant)
{
    simba_client *client = candidate->handle.client;
    int rc = simba__client_forked(client, NULL);
    if (rc < 0)
        return rc;
    if (client->timing.session)
        return SIMBA_ENOTSUP;
    rc = simba__lock_checked(client, true, NULL);
    if (rc < 0)
        return rc;
    const simba__contention *machine = &candidate->machine;
    if (simba__contention_valid_until(machine).ns == 0) {
        rc = SIMBA_ESTATE;
    } else {
        *ret_grant = (simba_grant){.nonce = machine->nonce, .token = machine->token};
        strcpy(ret_grant->id, candidate->id);
    }
    simba__unlock(client);
    return rc;
}

simba_status simba__candidate_status(const simba__candidate *candidate)
{
    simba_client *client = candidate->handle.client;
    if (simba__lock_checked(client, false, NULL) < 0)
        return SIMBA_STATUS_INITIAL;
    const simba_status status = simba__contention_status(&candidate->machine);
    simba__unlock(client);
    return status;
}
