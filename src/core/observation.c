/* See observation.h. */
#include "core/observation.h"

#include <string.h>

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

static void learn(machine *m, const simba_owner *owner, actions *out)
{
    const simba_state state = {m->owner, *owner};
    out->changed |= !m->known || simba_state_changed(&state);
    m->known = true;
    m->owner = *owner;
}

static void read_owner(machine *m, simba_local now, int64_t op_timeout_ns, actions *out)
{
    m->in_flight = true;
    m->kick = false;
    m->generation++;
    m->wake = SIMBA__NEVER;
    out->submit = true;
    out->op = SIMBA_OP_READ;
    out->generation = m->generation;
    out->deadline = simba__local_add(now, op_timeout_ns);
}

/* Read again when the owner's time is up (nobody pushes that), and otherwise now and then. */
static void rest(machine *m, simba_local now, int64_t now_ms)
{
    int64_t ns = m->poll_ns;
    if (!simba_owner_is_none(&m->owner)) {
        const int64_t left_ms =
            simba__sat_sub(m->owner.transition_at_ms, now_ms); /* for ever, where leases are sessions */
        if (left_ms < ns / SIMBA__NS_PER_MS)
            ns = left_ms > 0 ? (left_ms + 1) * SIMBA__NS_PER_MS : SIMBA__NS_PER_MS;
    }
    m->wake = simba__local_add(now, ns);
}

static void on_reply(machine *m, const simba__event *event, int64_t op_timeout_ns, actions *out)
{
    if (!m->in_flight || event->generation != m->generation)
        return;
    m->in_flight = false;
    if (m->stop) {
        m->running = false;
        m->wake = SIMBA__NEVER;
        out->done = true;
    } else if (event->reply->status < 0) {
        m->failures += m->failures < 6;
        const int64_t pause = m->poll_ns >> (6 - m->failures);
        m->wake = simba__local_add(event->now, simba__random_range(&m->seed, pause / 2, pause + SIMBA__NS_PER_MS));
    } else if (m->kick) {
        read_owner(m, event->now, op_timeout_ns, out);
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
    if (!m->running || m->stop)
        return;
    if (push->kind == SIMBA_PUSH_ACQUIRED && push->owner.token >= m->owner.token) {
        learn(m, &push->owner, out);
        if (!m->in_flight)
            rest(m, event->now, push->now_ms);
    } else if (push->kind == SIMBA_PUSH_FREED && push->owner.token != 0 && push->owner.token < m->owner.token) {
        return; /* the end of an earlier leadership, overtaken by the beginning of this one */
    } else if (push->kind == SIMBA_PUSH_RELEASED || push->kind == SIMBA_PUSH_FREED) {
        learn(m, &nobody, out);
    } else if (push->kind != SIMBA_PUSH_ACQUIRED && !m->in_flight) {
        read_owner(m, event->now, op_timeout_ns, out);
    }
    m->kick |= m->in_flight && !out->submit;
}

void simba__observation_step(machine *m, const simba__event *event, int64_t op_timeout_ns, actions *ret_actions)
{
    memset(ret_actions, 0, sizeof *ret_actions);
    switch (event->kind) {
    case SIMBA__EV_START:
        simba__observation_init(m, m->poll_ns);
        m->running = true;
        m->seed = event->seed;
        read_owner(m, event->now, op_timeout_ns, ret_actions);
        break;
    case SIMBA__EV_STOP:
        m->stop = true;
        if (!m->in_flight) {
            m->running = false;
            m->wake = SIMBA__NEVER;
            ret_actions->done = true;
        }
        break;
    case SIMBA__EV_TIMER:
        if (!m->in_flight && simba__local_reached(event->now, m->wake))
            read_owner(m, event->now, op_timeout_ns, ret_actions);
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
    ret_actions->timer = m->in_flight ? SIMBA__NEVER : m->wake;
}
