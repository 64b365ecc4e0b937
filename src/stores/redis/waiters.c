/* See waiters.h.
 *
 * A contender that waits hears only of its own invitation, and that it stands by: if a fleet of waiters woke up at every
 * hand-over, that would be most of its cost. It queues only when it hears: so the confirmation of its channel makes it ask
 * again.
 *
 * An invited contender usually wins, and often waits again soon. So its channel stays for a moment, and then it queues with its
 * first request. That does no harm: a contender that does not wait is not in the queue, and is not invited. */
#include "stores/redis/waiters.h"

#include "util/assert.h"
#include "util/clock.h"
#include "util/mem.h"

enum {
    GRACE_MS = 105,     /* a little longer than the scripts keep a mutex for the invited waiter */
    GRACE_MORE_MS = 45, /* added at most, at random, so that not all come at once */
    LOOK_MS = 250,      /* how often to look at a foreign grant; waiters further back look less often */
    KEPT_MS = 1000,     /* how long a subscription outlives the interest in it */
};

static void set_hearing(redis_listener *l, redis_hearing to)
{
    static const bool moves[REDIS_HEARINGS][REDIS_HEARINGS] = {
        [REDIS_DEAF] = {[REDIS_DEAF] = true, [REDIS_ASKED] = true},
        [REDIS_ASKED] = {[REDIS_DEAF] = true, [REDIS_HEARS] = true},
        [REDIS_HEARS] = {[REDIS_DEAF] = true},
    };
    SIMBA__ASSERT(moves[l->hearing][to]);
    l->hearing = to;
}

static bool is_needed(const redis_listener *l)
{
    return l->watched || l->waiters;
}

/* What holds between any two events. Returns the actions, so that every event can end with it. */
static unsigned invariant(const redis_listener *l, unsigned actions)
{
    SIMBA__ASSERT((l->hearing == REDIS_ASKED) == (l->unconfirmed > 0));
    SIMBA__ASSERT(is_needed(l) == (l->idle_until.ns == 0));
    SIMBA__ASSERT(is_needed(l) || !(actions & (REDIS_TELL_CHANGED | REDIS_TELL_RELEASED | REDIS_TELL_NOTED)));
    return actions;
}

static simba_local later(simba_local at, int64_t ms)
{
    return (simba_local){at.ns + ms * SIMBA__NS_PER_MS};
}

/* --- who waits, who watches --------------------------------------------------------------------------- */

void simba__redis_listener_init(redis_listener *l, simba_local now)
{
    *l = (redis_listener){.idle_until = later(now, KEPT_MS)};
}

void simba__redis_listener_fini(redis_listener *l)
{
    while (l->waiters) {
        redis_waiter *next = l->waiters->next;
        simba__free(l->waiters);
        l->waiters = next;
    }
}

static redis_waiter **find(redis_listener *l, uint64_t nonce)
{
    redis_waiter **link = &l->waiters;
    while (*link && (*link)->nonce != nonce)
        link = &(*link)->next;
    return link;
}

static void settle(redis_listener *l, simba_local now)
{
    l->idle_until = is_needed(l) ? (simba_local){0} : later(now, KEPT_MS);
    if (!is_needed(l))
        l->look_at.ns = 0;
    invariant(l, 0);
}

bool simba__redis_listener_join(redis_listener *l, uint64_t nonce)
{
    redis_waiter **link = find(l, nonce);
    if (!*link && (*link = simba__calloc(1, sizeof **link)) != NULL)
        (*link)->nonce = nonce;
    settle(l, l->idle_until);
    return *link != NULL;
}

void simba__redis_listener_leave(redis_listener *l, uint64_t nonce, simba_local now)
{
    redis_waiter **link = find(l, nonce);
    redis_waiter *waiter = *link;
    if (!waiter)
        return;
    *link = waiter->next;
    simba__free(waiter);
    settle(l, now);
}

unsigned simba__redis_listener_unqueued(redis_listener *l)
{
    const bool others = l->queued && l->waiters;
    l->queued = false;
    return invariant(l, others ? REDIS_TELL_CHANGED : 0);
}

void simba__redis_listener_watch(redis_listener *l)
{
    l->watched = true;
    settle(l, l->idle_until);
}

void simba__redis_listener_unwatch(redis_listener *l, simba_local now)
{
    l->watched = false;
    settle(l, now);
}

/* --- the subscription --------------------------------------------------------------------------------- */

unsigned simba__redis_listener_up(redis_listener *l, unsigned channels)
{
    if (l->hearing != REDIS_DEAF || !is_needed(l))
        return invariant(l, 0);
    set_hearing(l, REDIS_ASKED);
    l->unconfirmed = channels;
    return invariant(l, REDIS_SUBSCRIBE);
}

unsigned simba__redis_listener_confirmed(redis_listener *l)
{
    if (l->hearing != REDIS_ASKED || --l->unconfirmed > 0)
        return invariant(l, 0);
    set_hearing(l, REDIS_HEARS);
    return invariant(l, is_needed(l) ? REDIS_TELL_CHANGED : 0);
}

/* Messages are missed meanwhile. The next confirmation makes up for them. */
void simba__redis_listener_down(redis_listener *l)
{
    set_hearing(l, REDIS_DEAF);
    l->unconfirmed = 0;
    invariant(l, 0);
}

char simba__redis_listener_says(const redis_listener *l)
{
    return l->hearing == REDIS_HEARS ? '1' : l->queued ? '2' : '0';
}

/* --- what is heard ------------------------------------------------------------------------------------ */

unsigned simba__redis_listener_invited(redis_listener *l)
{
    return invariant(l, is_needed(l) ? REDIS_TELL_RELEASED : 0);
}

void simba__redis_listener_look(redis_listener *l, simba_local at)
{
    if (is_needed(l) && (l->look_at.ns == 0 || at.ns < l->look_at.ns))
        l->look_at = at;
    invariant(l, 0);
}

void simba__redis_listener_standby(redis_listener *l, simba_local now, uint64_t chance)
{
    simba__redis_listener_look(l, later(now, GRACE_MS + (int64_t)(chance % GRACE_MORE_MS)));
}

void simba__redis_listener_foreign(redis_listener *l, simba_local now, int64_t left_ms, int64_t place)
{
    const int64_t ms = LOOK_MS * (place > 0 ? place : 1);
    if (left_ms > ms) /* a waiter asks at the end of the lease in any case */
        simba__redis_listener_look(l, later(now, ms));
}

/* A channel that is not confirmed yet stays until it is: the confirmation of an earlier SUBSCRIBE must not pass for that of a
 * later one. */
unsigned simba__redis_listener_tick(redis_listener *l, simba_local now)
{
    if (l->look_at.ns != 0 && now.ns >= l->look_at.ns) {
        l->look_at.ns = 0;
        return invariant(l, REDIS_TELL_CHANGED);
    }
    if (is_needed(l) || l->hearing == REDIS_ASKED || now.ns < l->idle_until.ns)
        return invariant(l, 0);
    return invariant(l, REDIS_DROP | (l->hearing == REDIS_HEARS ? REDIS_UNSUBSCRIBE : 0));
}
