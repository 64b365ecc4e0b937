/* See linger.h. */
#include "core/linger.h"

#include <string.h>

#include "util/assert.h"

typedef simba__linger machine;
typedef simba__linger_event event;
typedef simba__linger_actions actions;

void simba__linger_init(machine *m, bool told, bool ordered)
{
    memset(m, 0, sizeof *m);
    m->told = told;
    m->ordered = ordered;
    m->first_released = m->others_since = m->heard_at = m->left_at = m->until = SIMBA__NEVER;
}

/* --- phases -------------------------------------------------------------------------------------- */

#define TO(phase) (1U << SIMBA__##phase)

/* The picture in linger.h as a table. USED may follow itself: the next locker has it. */
static const unsigned moves[] = {
    [SIMBA__AWAY] = TO(SOUGHT),
    [SIMBA__SOUGHT] = TO(USED) | TO(LEAVING) | TO(AWAY),
    [SIMBA__USED] = TO(USED) | TO(KEPT) | TO(LEAVING),
    [SIMBA__KEPT] = TO(USED) | TO(LEAVING),
    [SIMBA__LEAVING] = TO(AWAY) | TO(YIELDS),
    [SIMBA__YIELDS] = TO(SOUGHT) | TO(AWAY),
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
    SIMBA__ASSERT((phase == SIMBA__KEPT || phase == SIMBA__YIELDS) == (m->until.ns != INT64_MAX));
    SIMBA__ASSERT((phase != SIMBA__SOUGHT && phase != SIMBA__YIELDS) || m->line.count > 0);
    SIMBA__ASSERT(phase != SIMBA__AWAY || m->line.count == 0 || m->ending);
    SIMBA__ASSERT(phase != SIMBA__KEPT || (m->line.count == 0 && !m->others && !m->ending));
    SIMBA__ASSERT(!m->user || !m->user->item.list);
    SIMBA__ASSERT(!out->seek || (phase == SIMBA__SOUGHT && !m->ending));
    SIMBA__ASSERT(!out->give_back || phase == SIMBA__LEAVING);
    SIMBA__ASSERT(!out->gets || out->gets == m->user);
}

/* --- moves --------------------------------------------------------------------------------------- */

/* How many turns the client makes with others expected; INT64_MAX: they are not. */
static int64_t expected_after(const machine *m, simba_local now)
{
    const int64_t doublings =
        m->heard_at.ns == INT64_MAX ? INT64_MAX : (now.ns - m->heard_at.ns) / SIMBA__LINGER_DOUBLES_NS;
    return doublings < SIMBA__LINGER_DOUBLINGS ? (int64_t)SIMBA__LINGER_TURNS << doublings : INT64_MAX;
}

static void use(machine *m, simba__lingerer *who, simba_local now, actions *out)
{
    m->turns += m->phase != SIMBA__SOUGHT && (m->others || expected_after(m, now) < INT64_MAX);
    move(m, SIMBA__USED);
    m->until = SIMBA__NEVER;
    m->user = who;
    out->gets = who;
}

static void use_by_first(machine *m, simba_local now, actions *out)
{
    simba__lingerer *first = SIMBA__OF_ITEM(m->line.first, simba__lingerer, item);
    simba__list_remove(&first->item);
    use(m, first, now, out);
}

static void leave(machine *m, bool give_back, simba_local now, actions *out)
{
    if (m->phase != SIMBA__SOUGHT)
        m->left_at = now;
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

/* Others wait, or are expected, and those here had their share. */
static bool had_their_share(const machine *m, simba_local now)
{
    if (!m->others)
        return m->turns >= expected_after(m, now);
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
    if (e->unsettled || had_their_share(m, e->now) || simba__local_reached(e->now, until)) {
        leave(m, true, e->now, out);
    } else if (m->line.count > 0) {
        use_by_first(m, e->now, out);
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
        use(m, e->who, e->now, out);
        return;
    }
    simba__list_append(&m->line, &e->who->item);
    if (m->phase == SIMBA__KEPT)
        leave(m, true, e->now, out);
    else if (m->phase == SIMBA__AWAY)
        seek_if_wanted(m, out);
}

static void end_yielding(machine *m, actions *out)
{
    m->until = SIMBA__NEVER;
    if (m->line.count == 0 || m->ending)
        move(m, SIMBA__AWAY);
    else
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
        leave(m, true, e->now, out);
    else if (m->phase == SIMBA__YIELDS && m->line.count == 0)
        end_yielding(m, out);
}

static void on_granted(machine *m, const event *e, actions *out)
{
    if (m->heard_at.ns != INT64_MAX && m->left_at.ns != INT64_MAX)
        m->heard_at = simba__local_min(e->now, simba__local_add(m->heard_at, e->now.ns - m->left_at.ns));
    if (m->others)
        m->others_since = e->now;
    use_by_first(m, e->now, out);
}

static void on_lost(machine *m, const event *e, actions *out)
{
    if (m->phase == SIMBA__USED || m->phase == SIMBA__KEPT)
        leave(m, false, e->now, out);
}

/* The one that is told has a few wakings before it: of the server's process that tells it, of its own, of the server's again. */
static int64_t yield_ns(int64_t took_ns)
{
    return took_ns < SIMBA__LINGER_NS / 4 ? 4 * took_ns : SIMBA__LINGER_NS;
}

static void on_stopped(machine *m, const event *e, actions *out)
{
    const bool yields = m->phase == SIMBA__LEAVING && m->others && !m->ordered && m->line.count > 0 && !m->ending;
    const int64_t took_ns = e->now.ns - m->left_at.ns;
    m->first_released = m->others_since = SIMBA__NEVER;
    m->others = false;
    m->turns = 0;
    if (yields && took_ns > 0) {
        move(m, SIMBA__YIELDS);
        m->until = simba__local_add(e->now, yield_ns(took_ns));
        return;
    }
    move(m, SIMBA__AWAY);
    seek_if_wanted(m, out);
}

static void on_others(machine *m, const event *e, actions *out)
{
    if (m->phase == SIMBA__KEPT)
        leave(m, true, e->now, out);
    m->heard_at = m->phase == SIMBA__LEAVING ? m->left_at : e->now;
    if (m->phase == SIMBA__AWAY || m->phase == SIMBA__YIELDS || m->others)
        return;
    m->others = true;
    m->others_since = e->now;
}

static void on_end(machine *m, const event *e, actions *out)
{
    m->ending = true;
    if (m->phase == SIMBA__YIELDS)
        end_yielding(m, out);
    else if (m->phase != SIMBA__AWAY && m->phase != SIMBA__LEAVING)
        leave(m, true, e->now, out);
}

static void on_timer(machine *m, const event *e, actions *out)
{
    if (!simba__local_reached(e->now, m->until))
        return;
    if (m->phase == SIMBA__YIELDS)
        end_yielding(m, out);
    else
        leave(m, true, e->now, out);
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
        on_lost(m, e, ret_actions);
        break;
    case SIMBA__LINGER_STOPPED:
        on_stopped(m, e, ret_actions);
        break;
    case SIMBA__LINGER_OTHERS:
        on_others(m, e, ret_actions);
        break;
    case SIMBA__LINGER_TIMER:
        on_timer(m, e, ret_actions);
        break;
    case SIMBA__LINGER_END:
        on_end(m, e, ret_actions);
        break;
    }
    ret_actions->timer = m->until;
    check_invariant(m, ret_actions);
}
