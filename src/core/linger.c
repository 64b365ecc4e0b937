/* See linger.h. */
#include "core/linger.h"

#include <string.h>

#include "util/assert.h"

typedef simba__linger machine;
typedef simba__linger_event event;
typedef simba__linger_actions actions;

void simba__linger_init(machine *m, bool told)
{
    memset(m, 0, sizeof *m);
    m->told = told;
    m->first_released = m->others_since = m->until = SIMBA__NEVER;
}

/* --- phases -------------------------------------------------------------------------------------- */

#define TO(phase) (1U << SIMBA__##phase)

/* The picture in linger.h as a table. USED may follow itself: the next locker has it. */
static const unsigned moves[] = {
    [SIMBA__AWAY] = TO(SOUGHT),
    [SIMBA__SOUGHT] = TO(USED) | TO(LEAVING) | TO(AWAY),
    [SIMBA__USED] = TO(USED) | TO(KEPT) | TO(LEAVING),
    [SIMBA__KEPT] = TO(USED) | TO(LEAVING),
    [SIMBA__LEAVING] = TO(AWAY),
};

static void move(machine *m, simba__linger_phase phase)
{
    SIMBA__ASSERT(moves[m->phase] & (1U << phase));
    m->phase = (uint8_t)phase;
}

/* Checked after every step, in every build. */
static void check_invariant(const machine *m, const actions *out)
{
    const simba__linger_phase phase = (simba__linger_phase)m->phase;
    SIMBA__ASSERT((phase == SIMBA__USED) == (m->user != NULL));
    SIMBA__ASSERT((phase == SIMBA__KEPT) == (m->until.ns != INT64_MAX));
    SIMBA__ASSERT(phase != SIMBA__SOUGHT || m->line.count > 0);
    SIMBA__ASSERT(phase != SIMBA__AWAY || m->line.count == 0 || m->ending);
    SIMBA__ASSERT(phase != SIMBA__KEPT || (m->line.count == 0 && !m->others && !m->ending));
    SIMBA__ASSERT(!m->user || !m->user->item.list);
    SIMBA__ASSERT(!out->seek || (phase == SIMBA__SOUGHT && !m->ending));
    SIMBA__ASSERT(!out->give_back || phase == SIMBA__LEAVING);
    SIMBA__ASSERT(!out->gets || out->gets == m->user);
}

/* --- moves --------------------------------------------------------------------------------------- */

static void use(machine *m, simba__lingerer *who, actions *out)
{
    move(m, SIMBA__USED);
    m->until = SIMBA__NEVER;
    m->user = who;
    out->gets = who;
}

static void use_by_first(machine *m, actions *out)
{
    simba__lingerer *first = SIMBA__OF_ITEM(m->line.first, simba__lingerer, item);
    simba__list_remove(&first->item);
    use(m, first, out);
}

static void leave(machine *m, bool give_back, actions *out)
{
    move(m, SIMBA__LEAVING);
    out->loses = m->user;
    m->user = NULL;
    m->until = SIMBA__NEVER;
    out->give_back = give_back;
}

static void seek_if_wanted(machine *m, actions *out)
{
    if (m->line.count == 0 || m->ending)
        return;
    move(m, SIMBA__SOUGHT);
    out->seek = true;
}

/* Others wait, and those here had their share. */
static bool had_their_share(const machine *m, simba_local now)
{
    return m->line.count == 0 || m->turns >= SIMBA__LINGER_TURNS ||
           simba__local_reached(now, simba__local_add(m->others_since, SIMBA__LINGER_NS));
}

/* Until when the client may keep what this locker releases. */
static simba_local keep_until(const machine *m, const simba__lingerer *who, simba_local now)
{
    const bool brief = who->linger_ns < SIMBA__LINGER_LONGEST_NS;
    const int64_t longest_ns = m->told && brief ? SIMBA__LINGER_LONGEST_NS : who->linger_ns;
    return simba__local_min(simba__local_add(now, who->linger_ns), simba__local_add(m->first_released, longest_ns));
}

static void release(machine *m, const event *e, actions *out)
{
    const simba__lingerer *who = m->user;
    m->first_released = simba__local_min(m->first_released, e->now);
    m->user = NULL;
    const simba_local until = keep_until(m, who, e->now);
    if (e->unsettled || (m->others && had_their_share(m, e->now)) || simba__local_reached(e->now, until)) {
        leave(m, true, out);
    } else if (m->line.count > 0) {
        m->turns += m->others;
        use_by_first(m, out);
    } else {
        move(m, SIMBA__KEPT);
        m->until = until;
    }
}

/* --- events -------------------------------------------------------------------------------------- */

static void on_want(machine *m, const event *e, actions *out)
{
    SIMBA__ASSERT(!e->who->item.list && m->user != e->who);
    if (m->phase == SIMBA__KEPT && !simba__local_reached(e->now, m->until)) {
        use(m, e->who, out);
        return;
    }
    simba__list_append(&m->line, &e->who->item);
    if (m->phase == SIMBA__KEPT)
        leave(m, true, out);
    else if (m->phase == SIMBA__AWAY)
        seek_if_wanted(m, out);
}

static void on_leave(machine *m, const event *e, actions *out)
{
    if (m->user == e->who) {
        release(m, e, out);
        return;
    }
    simba__list_remove(&e->who->item);
    if (m->phase == SIMBA__SOUGHT && m->line.count == 0)
        leave(m, true, out);
}

static void on_granted(machine *m, const event *e, actions *out)
{
    if (m->others)
        m->others_since = e->now;
    use_by_first(m, out);
}

static void on_lost(machine *m, actions *out)
{
    if (m->phase == SIMBA__USED || m->phase == SIMBA__KEPT)
        leave(m, false, out);
}

static void on_stopped(machine *m, actions *out)
{
    move(m, SIMBA__AWAY);
    m->first_released = m->others_since = SIMBA__NEVER;
    m->others = false;
    m->turns = 0;
    seek_if_wanted(m, out);
}

static void on_others(machine *m, const event *e, actions *out)
{
    if (m->phase == SIMBA__KEPT) {
        leave(m, true, out);
    } else if ((m->phase == SIMBA__SOUGHT || m->phase == SIMBA__USED) && !m->others) {
        m->others = true;
        m->others_since = e->now;
    }
}

static void on_end(machine *m, actions *out)
{
    m->ending = true;
    if (m->phase != SIMBA__AWAY && m->phase != SIMBA__LEAVING)
        leave(m, true, out);
}

void simba__linger_step(machine *m, const event *e, actions *ret_actions)
{
    memset(ret_actions, 0, sizeof *ret_actions);
    switch (e->kind) {
    case SIMBA__LINGER_WANT:
        on_want(m, e, ret_actions);
        break;
    case SIMBA__LINGER_LEAVE:
        on_leave(m, e, ret_actions);
        break;
    case SIMBA__LINGER_GRANTED:
        on_granted(m, e, ret_actions);
        break;
    case SIMBA__LINGER_LOST:
        on_lost(m, ret_actions);
        break;
    case SIMBA__LINGER_STOPPED:
        on_stopped(m, ret_actions);
        break;
    case SIMBA__LINGER_OTHERS:
        on_others(m, e, ret_actions);
        break;
    case SIMBA__LINGER_TIMER:
        if (simba__local_reached(e->now, m->until))
            leave(m, true, ret_actions);
        break;
    case SIMBA__LINGER_END:
        on_end(m, ret_actions);
        break;
    }
    ret_actions->timer = m->until;
    check_invariant(m, ret_actions);
}
