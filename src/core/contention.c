/* See contention.h. */
#include "core/contention.h"

#include <string.h>

#include "core/reply.h"
#include "util/assert.h"
#include "util/error.h"
#include "util/random.h"

enum { RELEASE_TRIES = 3 };

typedef simba__contention machine;
typedef simba__actions actions;

void simba__contention_init(machine *m, const simba__timing *timing, bool leaves_queue)
{
    memset(m, 0, sizeof *m);
    m->timing = timing;
    m->leaves_queue = leaves_queue;
    m->wake = SIMBA__NEVER;
}

/* --- the lease ----------------------------------------------------------------------------------- */

/* When to tell a holder that cannot reach the store. Once told, it has the margin to tidy up. */
static simba_local lease_deadline(const machine *m)
{
    const simba_local end =
        m->timing->session ? m->session_until : simba__local_add(m->lease_from, m->timing->lease_ns);
    return m->phase == SIMBA__TIDY ? end : simba__local_add(end, -m->timing->stop_margin_ns);
}

static simba_local hold_end(const machine *m)
{
    return m->timing->hold_limit_ns ? simba__local_add(m->held_since, m->timing->hold_limit_ns) : SIMBA__NEVER;
}

static bool leased(const machine *m)
{
    return m->phase == SIMBA__HOLD || (m->phase == SIMBA__TIDY && m->graceful && !m->acked);
}

simba_local simba__contention_valid_until(const machine *m)
{
    return leased(m) ? lease_deadline(m) : (simba_local){0};
}

simba_local simba__contention_ttl_until(const machine *m)
{
    const simba_local until = simba__contention_valid_until(m);
    if (until.ns == 0 || m->timing->session)
        return until;
    return simba__local_min(until, simba__local_add(m->lease_from, m->timing->lease_ttl_ns));
}

simba_status simba__contention_status(const machine *m)
{
    if (m->phase == SIMBA__IDLE)
        return SIMBA_STATUS_INITIAL;
    if (m->stop)
        return SIMBA_STATUS_STOPPING;
    return m->phase == SIMBA__DELAY ? SIMBA_STATUS_STARTING : SIMBA_STATUS_RUNNING;
}

bool simba__contention_wants_news(const machine *m, unsigned caps, bool observes)
{
    if (m->phase == SIMBA__IDLE || (caps & SIMBA_CAP_SESSION) || ((caps & SIMBA_CAP_CALLS) && !observes))
        return false;
    if (caps & SIMBA_CAP_WATCH_FREE)
        return true;
    return m->phase == SIMBA__SEEK && m->queued && !simba_owner_is_none(&m->owner);
}

void simba__actions_request(const actions *a, const simba__timing *timing, simba_request *ret_request)
{
    ret_request->op = a->op;
    ret_request->queue = a->queue;
    ret_request->nonce = a->nonce;
    ret_request->token = a->token;
    ret_request->ttl_ms = timing ? timing->ms.ttl_ms : 0;
    ret_request->transition_ms = timing ? timing->ms.transition_ms : 0;
}

/* --- renewing again -------------------------------------------------------------------------------- */

/* An outage that ends in time must not cost the leadership because the holder was pausing just then, or waiting for
 * an answer that the outage has swallowed. So the machine always makes one attempt at the last chance, and pauses
 * and waits end there at the latest. */
static simba_local last_chance(const machine *m)
{
    return simba__local_add(lease_deadline(m), -m->timing->last_ns);
}

/* At most half of the time left: neither the pause nor the wait may use up the end. If it would end shortly before
 * the last chance, it ends there. */
static simba_local by_half(const machine *m, simba_local now, simba_local at)
{
    const simba_local last = last_chance(m);
    at = simba__local_min(at, simba__local_add(now, (last.ns - now.ns) / 2));
    return simba__local_reached(at, simba__local_add(last, -2 * m->timing->last_ns)) ? last : at;
}

/* A renewal does not wait so long for its answer that it uses up the time for another attempt. Near the end there is no other
 * attempt to leave time for. */
static void limit_renewal(const machine *m, simba_local now, actions *out)
{
    const int64_t brief_ns = 2 * m->timing->last_ns;
    const simba_local end = simba__local_add(last_chance(m), -brief_ns);
    const simba_local due = simba__period_renew_at(m->timing, m->lease_from);
    simba_local deadline = simba__local_add(now, out->timeout_ns);
    if (m->timing->session || simba__local_reached(now, end))
        return;
    /* A request that went out early, because of a push, must not delay the renewal itself. If it went out shortly before the
     * renewal, it has the time that the window can spare, in which most answers come. */
    if (!simba__local_reached(now, simba__local_add(due, -brief_ns)))
        deadline = simba__local_min(deadline, due);
    else if (!simba__local_reached(now, due))
        deadline = simba__local_min(deadline, simba__local_add(now, brief_ns));
    else
        deadline = simba__local_min(deadline, by_half(m, now, deadline));
    out->timeout_ns = deadline.ns - now.ns;
    /* It may need to wait before it is handed over, and its deadline with it. That must not use up the end either. */
    out->latest = simba__local_reached(deadline, end) ? deadline : end;
}

/* Pauses grow, and shrink again towards the end. */
static simba_local retry_at(machine *m, simba_local now)
{
    const simba_local last = last_chance(m);
    const simba_local due = simba__period_renew_at(m->timing, m->lease_from);
    const simba_local at = simba__local_add(now, simba__period_retry_ns(m->timing, m->failures, &m->seed));
    if (m->timing->session || simba__local_reached(m->sent_at, last))
        return at; /* the last chance has passed */
    if (!simba__local_reached(m->sent_at, due))
        return simba__local_reached(now, due) ? now : simba__local_min(at, due);
    return simba__local_reached(now, last) ? now : by_half(m, now, at);
}

/* --- phases -------------------------------------------------------------------------------------- */

#define TO(phase) (1U << SIMBA__##phase)

/* The picture in contention.h as a table: which phase may follow which. SEEK may follow itself: it asks again. */
static const unsigned moves[] = {
    [SIMBA__IDLE] = TO(DELAY) | TO(SEEK),
    [SIMBA__DELAY] = TO(SEEK) | TO(IDLE),
    [SIMBA__SEEK] = TO(SEEK) | TO(HOLD) | TO(GIVE_BACK) | TO(IDLE),
    [SIMBA__HOLD] = TO(TIDY),
    [SIMBA__TIDY] = TO(GIVE_BACK) | TO(SEEK) | TO(IDLE),
    [SIMBA__GIVE_BACK] = TO(SEEK) | TO(IDLE),
};

static void move(machine *m, simba__phase phase)
{
    SIMBA__ASSERT(moves[m->phase] & (1U << phase));
    m->phase = (uint8_t)phase;
}

/* What holds whenever a step is over. Checked in every build. */
static void check_invariant(const machine *m, simba_local now, const actions *out)
{
    const bool asks = m->in_flight;
    switch ((simba__phase)m->phase) {
    case SIMBA__IDLE:
        SIMBA__ASSERT(!asks && m->wake.ns == INT64_MAX);
        SIMBA__ASSERT(!m->maybe_granted && !m->queued && m->token == 0);
        break;
    case SIMBA__DELAY:
        SIMBA__ASSERT(!asks && !m->stop && m->wake.ns != INT64_MAX);
        SIMBA__ASSERT(!m->maybe_granted && !m->queued && m->token == 0);
        break;
    case SIMBA__SEEK:
        SIMBA__ASSERT(m->token == 0 && (asks ? m->op == SIMBA_OP_ACQUIRE : !m->stop));
        /* A contender that is not asking has a time to ask; where leases are sessions, the store says when. */
        SIMBA__ASSERT(asks || m->wake.ns != INT64_MAX || m->timing->session);
        break;
    case SIMBA__HOLD:
        SIMBA__ASSERT(m->token != 0 && m->maybe_granted && !m->queued && !m->stop);
        SIMBA__ASSERT(!asks || m->op == SIMBA_OP_RENEW);
        SIMBA__ASSERT(!simba__local_reached(now, lease_deadline(m)));
        break;
    case SIMBA__TIDY:
        SIMBA__ASSERT(m->reason != SIMBA_REASON_NONE && !m->queued);
        SIMBA__ASSERT(asks ? m->op == SIMBA_OP_RENEW : !m->acked);
        break;
    case SIMBA__GIVE_BACK:
        SIMBA__ASSERT(asks ? m->op == SIMBA_OP_RELEASE : m->wake.ns != INT64_MAX);
        break;
    }
    SIMBA__ASSERT(!asks || m->wake.ns == INT64_MAX);
    SIMBA__ASSERT(!out->submit || (asks && out->generation == m->generation));
    SIMBA__ASSERT(!out->acquired || (m->phase == SIMBA__HOLD && !out->released));
    SIMBA__ASSERT(!out->released || (m->phase == SIMBA__TIDY && !m->acked));
    SIMBA__ASSERT(!out->done || m->phase == SIMBA__IDLE);
    SIMBA__ASSERT(!leased(m) || out->timer.ns <= lease_deadline(m).ns);
}

/* --- moves --------------------------------------------------------------------------------------- */

static const simba_owner nobody;

static void learn(machine *m, const simba_owner *owner, actions *out)
{
    out->changed |= simba__is_another(&m->owner, owner);
    m->owner = *owner;
}

static void submit(machine *m, simba_op op, simba_local now, actions *out)
{
    SIMBA__ASSERT(!m->in_flight);
    m->in_flight = true;
    m->op = (uint8_t)op;
    m->generation++;
    m->sent_at = now;
    m->kick = false;
    m->wake = SIMBA__NEVER;
    if (op == SIMBA_OP_ACQUIRE) {
        m->first_trace = !m->maybe_granted && !m->queued;
        m->maybe_granted = true;
        m->queued |= !m->try_once;
    }
    out->submit = true;
    out->op = op;
    out->queue = op == SIMBA_OP_ACQUIRE && !m->try_once;
    out->generation = m->generation;
    out->nonce = m->nonce;
    out->token = m->token;
    out->timeout_ns = simba__period_op_timeout_ns(m->timing, op);
    if (op == SIMBA_OP_RENEW)
        limit_renewal(m, now, out);
}

static void seek(machine *m, simba_local now, actions *out)
{
    move(m, SIMBA__SEEK);
    m->reason = SIMBA_REASON_NONE;
    submit(m, SIMBA_OP_ACQUIRE, now, out);
}

/* This leadership, or this attempt at one, is over, and nothing of it is left in the store. */
static void finish(machine *m, simba_local now, actions *out)
{
    m->token = 0;
    m->maybe_granted = false;
    m->queued = false;
    m->failures = 0;
    if (m->stop) {
        move(m, SIMBA__IDLE);
        m->wake = SIMBA__NEVER;
        out->done = true;
        return;
    }
    /* The next attempt is a new incarnation: nobody may take a delayed request of the old one for it. */
    m->nonce = simba__random_next(&m->seed);
    if (m->reason == SIMBA_REASON_HOLD_LIMIT) {
        /* Waiters go first. */
        move(m, SIMBA__SEEK);
        m->wake = simba__local_add(now, m->timing->jitter_max_ns + 1);
        return;
    }
    seek(m, now, out);
}

static void give_back(machine *m, simba_local now, actions *out)
{
    move(m, SIMBA__GIVE_BACK);
    m->failures = 0;
    submit(m, SIMBA_OP_RELEASE, now, out);
}

static void give_back_or_finish(machine *m, simba_local now, actions *out)
{
    /* The lease is long enough for the promise of min_hold, so let it end by itself. */
    const simba_local held_until = simba__local_add(m->held_since, m->min_hold_ns);
    const bool keeps_others_out = m->min_hold_ns > 0 && m->graceful && !simba__local_reached(now, held_until);
    const bool leaves_something = m->maybe_granted || (m->queued && m->leaves_queue);
    if (leaves_something && !keeps_others_out)
        give_back(m, now, out);
    else
        finish(m, now, out);
}

static void tell_released(machine *m, simba_reason reason, const simba_owner *owner, bool graceful, actions *out)
{
    move(m, SIMBA__TIDY);
    m->reason = (uint8_t)reason;
    m->graceful = graceful;
    m->acked = false;
    m->stop |= m->once;
    learn(m, owner, out);
    out->released = true;
    out->reason = reason;
    out->withdraw = m->in_flight && !graceful; /* nobody needs a renewal any more that has not been sent */
}

/* Our own clock comes before everything that a store says. */
static void look_at_clock(machine *m, simba_local now, actions *out)
{
    if (!leased(m))
        return;
    const bool over = simba__local_reached(now, lease_deadline(m));
    if (m->phase == SIMBA__TIDY)
        m->graceful = !over;
    else if (over)
        tell_released(m, m->timing->session ? SIMBA_REASON_SESSION_LOST : SIMBA_REASON_EXPIRED, &nobody, false, out);
    else if (simba__local_reached(now, hold_end(m)))
        tell_released(m, SIMBA_REASON_HOLD_LIMIT, &nobody, true, out);
}

/* --- replies ------------------------------------------------------------------------------------- */

static void acquire_won(machine *m, const simba__event *event, actions *out)
{
    const simba_local now = event->now;
    m->token = event->reply->owner.token;
    m->lease_from = m->sent_at;
    m->maybe_granted = true; /* a session that was lost meanwhile may have come back in time */
    m->queued = false;
    if (m->stop || simba__local_reached(now, lease_deadline(m))) {
        out->late_win = true;
        m->stop |= m->try_once;
        give_back(m, now, out);
        return;
    }
    learn(m, &event->reply->owner, out);
    move(m, SIMBA__HOLD);
    m->held_since = now;
    m->wake = simba__period_renew_at(m->timing, m->lease_from);
    out->acquired = true;
}

static void acquire_lost(machine *m, const simba__event *event, actions *out)
{
    const simba_reply *reply = event->reply;
    const simba_local now = event->now;
    m->maybe_granted = false;
    learn(m, &reply->owner, out);
    m->stop |= m->try_once;
    if (m->stop) {
        give_back_or_finish(m, now, out);
    } else if (m->kick) {
        seek(m, now, out);
    } else if (m->timing->session) {
        m->wake = SIMBA__NEVER; /* the store will say when it is our turn */
    } else if (simba_owner_is_none(&reply->owner)) {
        /* Free, and yet not ours: somebody has just made the row, or the store is between two owners. */
        m->failures++;
        m->wake = simba__local_add(now, simba__period_backoff_ns(m->timing, m->failures, &m->seed));
    } else {
        m->wake = simba__local_add(
            now, simba__period_wait_ns(m->timing, &reply->owner, reply->now_ms, reply->place, &m->seed));
    }
}

static void on_acquire_reply(machine *m, const simba__event *event, actions *out)
{
    const simba_local now = event->now;
    const int status = event->reply->status;
    if (status < 0) {
        m->failures++;
        /* A caller that blocks wants to know the error; a contender keeps trying, and logs it. */
        m->stop |= m->try_once || (m->once && !simba__is_transient(status));
        if (m->stop && m->maybe_granted)
            give_back(m, now, out);
        else if (m->stop)
            finish(m, now, out);
        else
            m->wake = simba__local_add(now, simba__period_backoff_ns(m->timing, m->failures, &m->seed));
        return;
    }
    m->failures = 0;
    if (event->reply->outcome == SIMBA_MINE)
        acquire_won(m, event, out);
    else
        acquire_lost(m, event, out);
}

static void on_renew_reply(machine *m, const simba__event *event, actions *out)
{
    const simba_reply *reply = event->reply;
    if (reply->status < 0) {
        m->failures++;
        m->wake = retry_at(m, event->now);
    } else if (reply->outcome == SIMBA_MINE && reply->owner.token == m->token) {
        m->failures = 0;
        if (!leased(m))
            return; /* too late: the holder has been told already, and gives it back */
        if (m->sent_at.ns > m->lease_from.ns)
            m->lease_from = m->sent_at;
        m->wake = simba__period_renew_at(m->timing, m->lease_from);
        if (m->phase == SIMBA__HOLD)
            m->owner = reply->owner;
        if (m->kick)
            submit(m, SIMBA_OP_RENEW, event->now, out); /* the push may be younger than this answer */
    } else {
        m->maybe_granted = false;
        if (m->phase == SIMBA__HOLD)
            tell_released(m, reply->outcome == SIMBA_REVOKED ? SIMBA_REASON_REVOKED : SIMBA_REASON_SUPERSEDED,
                          &reply->owner, false, out);
        else
            m->graceful = false;
    }
}

/* If the store cannot be told, the lease ends by itself, because nobody renews it any more. A session goes on: its store
 * remembers a release that it was handed, and the machine asks until there is memory for handing it over. A lost session has
 * taken its grants along. */
static void on_release_reply(machine *m, const simba__event *event, actions *out)
{
    const simba_local now = event->now;
    const int status = event->reply->status;
    const bool session_took_it = m->timing->session && !m->maybe_granted && !m->queued;
    const bool nobody_knows = m->timing->session && status == SIMBA_ENOMEM && event->sent_at.ns == 0;
    if (status != 0 && simba__is_transient(status) && !session_took_it &&
        (++m->failures < RELEASE_TRIES || nobody_knows)) {
        m->wake = simba__local_add(now, simba__period_backoff_ns(m->timing, m->failures, &m->seed));
        return;
    }
    if (status == 0)
        learn(m, &event->reply->owner, out);
    finish(m, now, out);
}

static void on_reply(machine *m, const simba__event *event, actions *out)
{
    if (!m->in_flight || event->generation != m->generation)
        return;
    m->in_flight = false;
    m->last_error = event->reply->status;
    m->last_outcome = (uint8_t)event->reply->outcome;
    if (event->sent_at.ns > 0) {
        if (m->op == SIMBA_OP_ACQUIRE && event->sent_at.ns >= m->sent_at.ns) {
            m->maybe_granted = true; /* again, if the session was lost before */
            m->queued |= !m->try_once;
        }
        m->sent_at = event->sent_at;
        /* An answer is younger than a push that came before its request. */
        m->kick &= m->kicked_at.ns >= event->sent_at.ns;
    } else if (m->op == SIMBA_OP_ACQUIRE && m->first_trace) { /* the store has never seen it */
        m->maybe_granted = false;
        m->queued = false;
    }
    switch ((simba_op)m->op) {
    case SIMBA_OP_ACQUIRE:
        on_acquire_reply(m, event, out);
        break;
    case SIMBA_OP_RENEW:
        on_renew_reply(m, event, out);
        break;
    case SIMBA_OP_RELEASE:
        on_release_reply(m, event, out);
        break;
    default:
        SIMBA__ASSERT(!"a contender asks for nothing else");
    }
}

/* --- the other events ----------------------------------------------------------------------------- */

static void on_start(machine *m, const simba__event *event, actions *out)
{
    SIMBA__ASSERT(m->phase == SIMBA__IDLE);
    m->seed = event->seed;
    m->nonce = simba__random_next(&m->seed);
    m->owner = nobody;
    m->stop = false;
    m->reason = SIMBA_REASON_NONE;
    m->failures = 0;
    m->last_error = 0;
    if (m->timing->initial_delay_ns > 0) {
        move(m, SIMBA__DELAY);
        m->wake = simba__local_add(event->now, m->timing->initial_delay_ns);
    } else {
        seek(m, event->now, out);
    }
}

static void on_stop(machine *m, simba_local now, actions *out)
{
    m->stop = true;
    switch ((simba__phase)m->phase) {
    case SIMBA__IDLE:
        out->done = true;
        break;
    case SIMBA__DELAY:
        finish(m, now, out);
        break;
    case SIMBA__SEEK:
        if (!m->in_flight)
            give_back_or_finish(m, now, out);
        else
            out->withdraw = true;
        break;
    case SIMBA__HOLD:
        tell_released(m, SIMBA_REASON_STOPPED, &nobody, true, out);
        break;
    case SIMBA__TIDY:
    case SIMBA__GIVE_BACK:
        break;
    }
}

static void on_timer(machine *m, simba_local now, actions *out)
{
    if (m->in_flight || !simba__local_reached(now, m->wake))
        return;
    m->wake = SIMBA__NEVER;
    if (m->phase == SIMBA__DELAY || m->phase == SIMBA__SEEK)
        seek(m, now, out);
    else if (leased(m))
        submit(m, SIMBA_OP_RENEW, now, out);
    else if (m->phase == SIMBA__GIVE_BACK)
        submit(m, SIMBA_OP_RELEASE, now, out);
}

/* Another one has it now. */
static void on_acquired_by_another(machine *m, const simba__event *event, actions *out)
{
    const simba_push *push = event->push;
    if (push->owner.token < m->owner.token)
        return; /* a reply came first */
    learn(m, &push->owner, out);
    /* A contender that has not asked since its last leadership must ask in any case. So has one whose latest request has had no
     * answer: this may be the grant that it asked for. And where there is a queue, every waiter must ask now and then: it loses
     * its place when another contender of this client uses an invitation. */
    if (m->queued && m->failures == 0 && !m->in_flight && !m->timing->session && !m->leaves_queue)
        m->wake =
            simba__local_add(event->now, simba__period_wait_ns(m->timing, &push->owner, push->now_ms, 0, &m->seed));
}

/* A waiter asks for the mutex when it may be free, and a holder asks whether the mutex is still its own. */
static void on_push(machine *m, const simba__event *event, actions *out)
{
    const simba_push *push = event->push;
    const bool holds = m->phase == SIMBA__HOLD;
    const bool seeks = m->phase == SIMBA__SEEK && !m->stop;
    bool asks = false;
    if (seeks && m->reason == SIMBA_REASON_HOLD_LIMIT && push->kind != SIMBA_PUSH_ACQUIRED)
        return; /* the holder has had its time, and pauses so that waiters go first */
    switch (push->kind) {
    case SIMBA_PUSH_ACQUIRED:
        if (seeks)
            on_acquired_by_another(m, event, out);
        asks = holds && push->owner.token > m->token;
        break;
    case SIMBA_PUSH_RELEASED:
        if (seeks)
            learn(m, &nobody, out);
        asks = seeks || holds;
        break;
    case SIMBA_PUSH_CHANGED:
        asks = seeks || holds;
        break;
    case SIMBA_PUSH_SESSION_BACK:
        asks = seeks;
        break;
    case SIMBA_PUSH_FREED: /* for a waiter, somebody else's turn */
        asks = holds && push->owner.token >= m->token;
        break;
    case SIMBA_PUSH_NOTED:
        break;
    case SIMBA_PUSH_SESSION_LOST:
        /* Nothing is left of what was handed to the store until now. A request that still waits to be handed over belongs to
         * the next session. */
        m->maybe_granted = false;
        m->queued = false;
        m->sent_at = event->now;
        if (holds)
            tell_released(m, SIMBA_REASON_SESSION_LOST, &nobody, false, out);
        else if (m->phase == SIMBA__GIVE_BACK && !m->in_flight)
            finish(m, event->now, out);
        if (!seeks)
            m->graceful = false;
        break;
    }
    if (!asks)
        return;
    out->used = seeks; /* what only makes a holder look is for another waiter as well */
    m->kicked_at = event->now;
    if (m->in_flight)
        m->kick = true;
    else
        submit(m, seeks ? SIMBA_OP_ACQUIRE : SIMBA_OP_RENEW, event->now, out);
}

/* --- the step ------------------------------------------------------------------------------------ */

void simba__contention_step(machine *m, const simba__event *event, actions *ret_actions)
{
    const simba_local now = event->now;
    memset(ret_actions, 0, sizeof *ret_actions);
    ret_actions->was_phase = (simba__phase)m->phase;
    ret_actions->was_op = (simba_op)m->op;
    m->session_until = event->session_until;
    look_at_clock(m, now, ret_actions);
    switch (event->kind) {
    case SIMBA__EV_START:
        on_start(m, event, ret_actions);
        break;
    case SIMBA__EV_STOP:
        on_stop(m, now, ret_actions);
        break;
    case SIMBA__EV_TIMER:
        on_timer(m, now, ret_actions);
        break;
    case SIMBA__EV_REPLY:
        on_reply(m, event, ret_actions);
        break;
    case SIMBA__EV_PUSH:
        on_push(m, event, ret_actions);
        break;
    case SIMBA__EV_ACK:
        if (m->phase == SIMBA__TIDY)
            m->acked = true;
        break;
    }
    if (m->phase == SIMBA__TIDY && m->acked && !m->in_flight)
        give_back_or_finish(m, now, ret_actions);
    ret_actions->withdraw &= m->in_flight && !ret_actions->submit;
    ret_actions->timer = m->in_flight ? SIMBA__NEVER : m->wake;
    if (leased(m))
        ret_actions->timer = simba__local_min(ret_actions->timer, lease_deadline(m));
    if (m->phase == SIMBA__HOLD)
        ret_actions->timer = simba__local_min(ret_actions->timer, hold_end(m));
    check_invariant(m, now, ret_actions);
}
