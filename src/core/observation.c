/* See observation.h. */
#include "core/observation.h"

#include <string.h>

#include "core/reply.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/random.h"
#include "util/saturate.h"

typedef simba__observation machine;
typedef simba__actions actions;

void simba__observation_init(machine *m, int64_t poll_ns)
{
    memset(m, 0, sizeof *m);
    m->poll_ns = poll_ns;
    m->wake = SIMBA__NEVER;
}

#define TO(phase) (1U << SIMBA__##phase)

/* Which phase may follow which. READS may follow itself: a push meanwhile may be younger than what was read. */
static const unsigned moves[] = {
    [SIMBA__OBSERVES_NOT] = TO(READS),
    [SIMBA__READS] = TO(READS) | TO(RESTS) | TO(LEAVES),
    [SIMBA__RESTS] = TO(READS) | TO(OBSERVES_NOT),
    [SIMBA__LEAVES] = TO(OBSERVES_NOT),
};

static void move(machine *m, simba__observing phase)
{
    SIMBA__ASSERT(moves[m->phase] & (1U << phase));
    m->phase = (uint8_t)phase;
}

/* Checked after every step, in every build. */
static void check_invariant(const machine *m, const actions *out)
{
    SIMBA__ASSERT((m->phase == SIMBA__RESTS) == (m->wake.ns != INT64_MAX));
    SIMBA__ASSERT(!m->kick || m->phase == SIMBA__READS || m->phase == SIMBA__LEAVES);
    SIMBA__ASSERT(!out->submit || (m->phase == SIMBA__READS && !m->kick && out->generation == m->generation));
    SIMBA__ASSERT(!out->done || m->phase == SIMBA__OBSERVES_NOT);
    SIMBA__ASSERT(!out->changed || m->known);
}

bool simba__observation_is_over(const machine *m)
{
    return m->phase == SIMBA__OBSERVES_NOT || m->phase == SIMBA__LEAVES;
}

static void learn(machine *m, const simba_owner *owner, actions *out)
{
    out->changed |= !m->known || simba__is_another(&m->owner, owner);
    m->known = true;
    m->owner = *owner;
}

static void read_owner(machine *m, int64_t op_timeout_ns, actions *out)
{
    move(m, SIMBA__READS);
    m->kick = false;
    m->generation++;
    m->wake = SIMBA__NEVER;
    out->submit = true;
    out->op = SIMBA_OP_READ;
    out->generation = m->generation;
    out->timeout_ns = op_timeout_ns;
}

static void rest_until(machine *m, simba_local at)
{
    if (m->phase != SIMBA__RESTS)
        move(m, SIMBA__RESTS);
    m->wake = at;
}

static void end(machine *m, actions *out)
{
    if (m->phase != SIMBA__OBSERVES_NOT)
        move(m, SIMBA__OBSERVES_NOT);
    m->kick = false;
    m->wake = SIMBA__NEVER;
    out->done = true;
}

/* Read again when the owner's lease ends, since no store pushes that, and otherwise now and then. */
static void rest(machine *m, simba_local now, int64_t now_ms)
{
    int64_t ns = m->poll_ns;
    if (!simba_owner_is_none(&m->owner)) {
        /* for ever, where leases are sessions */
        const int64_t left_ms = simba__sat_sub(m->owner.transition_at_ms, now_ms);
        if (left_ms < ns / SIMBA__NS_PER_MS)
            ns = left_ms > 0 ? (left_ms + 1) * SIMBA__NS_PER_MS : SIMBA__NS_PER_MS;
    }
    rest_until(m, simba__local_add(now, ns));
}

static void on_reply(machine *m, const simba__event *event, int64_t op_timeout_ns, actions *out)
{
    const bool reads = m->phase == SIMBA__READS || m->phase == SIMBA__LEAVES;
    if (!reads || event->generation != m->generation)
        return;
    if (m->phase == SIMBA__LEAVES) {
        end(m, out);
    } else if (event->reply->status < 0) {
        m->failures += m->failures < 6;
        m->kick = false;
        const int64_t pause = m->poll_ns >> (6 - m->failures);
        rest_until(m, simba__local_add(event->now, simba__random_range(&m->seed, pause / 2, pause + SIMBA__NS_PER_MS)));
    } else if (m->kick) {
        read_owner(m, op_timeout_ns, out);
    } else {
        m->failures = 0;
        learn(m, &event->reply->owner, out);
        rest(m, event->now, event->reply->now_ms);
    }
}

static void on_push(machine *m, const simba__event *event, int64_t op_timeout_ns, actions *out)
{
    static const simba_owner nobody;
    const simba_push *push = event->push;
    if (simba__observation_is_over(m) || push->kind == SIMBA_PUSH_NOTED)
        return;
    if (push->kind == SIMBA_PUSH_ACQUIRED && push->owner.token >= m->owner.token) {
        learn(m, &push->owner, out);
        if (m->phase == SIMBA__RESTS)
            rest(m, event->now, push->now_ms);
    } else if (push->kind == SIMBA_PUSH_FREED && push->owner.token != 0 && push->owner.token < m->owner.token) {
        return; /* the end of an earlier leadership, which arrived after the beginning of this one */
    } else if (push->kind == SIMBA_PUSH_RELEASED || push->kind == SIMBA_PUSH_FREED) {
        learn(m, &nobody, out);
    } else if (push->kind != SIMBA_PUSH_ACQUIRED && m->phase == SIMBA__RESTS) {
        read_owner(m, op_timeout_ns, out);
    }
    m->kick |= m->phase == SIMBA__READS && !out->submit;
}

void simba__observation_step(machine *m, const simba__event *event, int64_t op_timeout_ns, actions *ret_actions)
{
    memset(ret_actions, 0, sizeof *ret_actions);
    switch (event->kind) {
    case SIMBA__EV_START:
        SIMBA__ASSERT(m->phase == SIMBA__OBSERVES_NOT);
        simba__observation_init(m, m->poll_ns);
        m->seed = event->seed;
        read_owner(m, op_timeout_ns, ret_actions);
        break;
    case SIMBA__EV_STOP:
        if (m->phase == SIMBA__READS)
            move(m, SIMBA__LEAVES);
        else if (m->phase != SIMBA__LEAVES)
            end(m, ret_actions);
        break;
    case SIMBA__EV_TIMER:
        if (m->phase == SIMBA__RESTS && simba__local_reached(event->now, m->wake))
            read_owner(m, op_timeout_ns, ret_actions);
        break;
    case SIMBA__EV_REPLY:
        on_reply(m, event, op_timeout_ns, ret_actions);
        break;
    case SIMBA__EV_PUSH:
        on_push(m, event, op_timeout_ns, ret_actions);
        break;
    case SIMBA__EV_ACK:
        break;
    }
    ret_actions->timer = m->wake;
    check_invariant(m, ret_actions);
}
