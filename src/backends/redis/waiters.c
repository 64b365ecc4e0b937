/* See waiters.h.
 *
 * For an observed mutex we hear of every grant and of every release of ours. A contender that waits hears only of its
 * own invitation, and that it comes next: if a fleet of waiters woke up at every hand-over, that would be most of its
 * cost.
 *
 * A JVM contender tells only the first in the queue of its release, and that one may be dead. So while a grant is
 * foreign, waiters and observers look at it now and then.
 *
 * An invited contender usually wins and stops watching, and often waits again soon. So a subscription stays for a
 * moment after nobody watches any more. That does no harm: a contender that does not wait is not in the queue, and
 * is not invited. */
#include "backends/redis/waiters.h"

#include <stdio.h>
#include <string.h>

#include "util/assert.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"

enum {
    GRACE_MS = 105,     /* a little longer than the scripts keep a mutex for the invited waiter */
    GRACE_MORE_MS = 45, /* added at most, at random, so that not all come at once */
    LOOK_MS = 250,      /* how often to look at a foreign grant; waiters further back look less often */
    KEPT_MS = 1000,     /* how long a subscription outlives the interest in it */
    GONE_MOST = 64,     /* channels of contenders that do not wait any more, per mutex */
};

/* --- states ----------------------------------------------------------------------------------------- */

static const bool hearing_moves[REDIS_HEARINGS][REDIS_HEARINGS] = {
    [REDIS_DEAF] = {[REDIS_ASKED] = true},
    [REDIS_ASKED] = {[REDIS_DEAF] = true, [REDIS_HEARS] = true},
    [REDIS_HEARS] = {[REDIS_DEAF] = true},
};

static const bool interest_moves[REDIS_INTERESTS][REDIS_INTERESTS] = {
    [REDIS_IDLE] = {[REDIS_MISSED] = true, [REDIS_WATCHED] = true},
    [REDIS_MISSED] = {[REDIS_IDLE] = true, [REDIS_WATCHED] = true, [REDIS_DUE] = true},
    [REDIS_WATCHED] = {[REDIS_IDLE] = true},
    [REDIS_DUE] = {[REDIS_WATCHED] = true, [REDIS_MISSED] = true},
};

static const bool echo_moves[REDIS_ECHOES][REDIS_ECHOES] = {
    [REDIS_ECHO_NONE] = {[REDIS_ECHO_DUE] = true},
    [REDIS_ECHO_DUE] = {[REDIS_ECHO_NONE] = true, [REDIS_ECHO_AGAIN] = true},
    [REDIS_ECHO_AGAIN] = {[REDIS_ECHO_NONE] = true},
};

static void set_hearing(redis_waiters *w, redis_hearing to)
{
    SIMBA__ASSERT(w->hearing == to || hearing_moves[w->hearing][to]);
    w->hearing = to;
}

static void set_interest(redis_waiters *w, redis_interest to)
{
    SIMBA__ASSERT(w->interest == to || interest_moves[w->interest][to]);
    w->interest = to;
}

static void set_echo(redis_waiters *w, redis_echo to)
{
    SIMBA__ASSERT(w->echo == to || echo_moves[w->echo][to]);
    w->echo = to;
}

/* Checks the invariant, which holds between any two events. Returns the actions, so that every event can end with it. */
static unsigned invariant(const redis_waiters *w, unsigned actions)
{
    SIMBA__ASSERT(w->hearing != REDIS_DEAF || w->interest != REDIS_MISSED);
    SIMBA__ASSERT(w->hearing == REDIS_HEARS || w->interest != REDIS_DUE);
    SIMBA__ASSERT(w->gone <= GONE_MOST);
    SIMBA__ASSERT(w->hearing != REDIS_DEAF || w->echo == REDIS_ECHO_NONE);
    SIMBA__ASSERT(w->hearing != REDIS_ASKED || w->echo != REDIS_ECHO_NONE); /* an echo will say that it is in force */
    SIMBA__ASSERT(!w->first == (w->here + w->gone == 0));
    return actions;
}

static simba_local later(simba_local at, int64_t ms)
{
    return (simba_local){at.ns + ms * SIMBA__NS_PER_MS};
}

/* Tell the watchers. If there are none, remember that they missed it, unless nothing is subscribed. */
static unsigned tell(redis_waiters *w, unsigned action)
{
    if (simba__redis_waiters_watched(w))
        return action;
    if (w->hearing != REDIS_DEAF)
        set_interest(w, REDIS_MISSED);
    return 0;
}

/* Have the new subscription confirmed by an echo. */
static unsigned confirm(redis_waiters *w)
{
    set_echo(w, w->echo == REDIS_ECHO_NONE ? REDIS_ECHO_DUE : REDIS_ECHO_AGAIN);
    if (w->echo == REDIS_ECHO_AGAIN)
        return 0;
    for (redis_waiter *waiter = w->first; waiter && waiter->channel == REDIS_CHANNEL_NEW; waiter = waiter->next)
        waiter->channel = REDIS_CHANNEL_ASKED;
    return REDIS_CONFIRM;
}

static void look_at(redis_waiters *w, simba_local at)
{
    w->will_look = true;
    w->look_at = at;
}

/* --- who watches ------------------------------------------------------------------------------------ */

void simba__redis_waiters_init(redis_waiters *w, simba_local now)
{
    *w = (redis_waiters){.idle_until = later(now, KEPT_MS)};
}

void simba__redis_waiters_fini(redis_waiters *w)
{
    while (w->first) {
        redis_waiter *next = w->first->next;
        simba__free(w->first);
        w->first = next;
    }
    simba__table_fini(&w->ids);
}

unsigned simba__redis_waiters_watch(redis_waiters *w, bool observed)
{
    const bool hears = w->hearing != REDIS_DEAF;
    const bool more = hears && observed && !w->observed;
    const bool less = hears && !observed && w->observed;
    w->observed = observed;
    if (w->interest == REDIS_MISSED && w->hearing == REDIS_HEARS)
        set_interest(w, REDIS_DUE);
    else if (!simba__redis_waiters_watched(w))
        set_interest(w, REDIS_WATCHED);
    return invariant(w, (more ? REDIS_SUBSCRIBE_NEWS | confirm(w) : 0) | (less ? REDIS_UNSUBSCRIBE_NEWS : 0));
}

unsigned simba__redis_waiters_unwatch(redis_waiters *w, simba_local now)
{
    set_interest(w, w->interest == REDIS_DUE ? REDIS_MISSED : REDIS_IDLE);
    w->idle_until = later(now, KEPT_MS);
    return invariant(w, 0);
}

unsigned simba__redis_waiters_woken(redis_waiters *w)
{
    SIMBA__ASSERT(w->interest == REDIS_DUE);
    set_interest(w, REDIS_WATCHED);
    return invariant(w, REDIS_TELL_CHANGED);
}

/* --- who waits -------------------------------------------------------------------------------------- */

/* What to find: a waiter with this id, `here` or not, and with this nonce if that matters. */
typedef struct sought {
    const char *id;
    bool here;
    const uint64_t *nonce;
} sought;

static bool is_sought(const simba__node *entry, const void *key)
{
    const sought *who = key;
    const redis_waiter *waiter = SIMBA__OF_NODE(entry, const redis_waiter, entry);
    return waiter->here == who->here && (!who->nonce || waiter->nonce == *who->nonce) &&
           strcmp(waiter->id, who->id) == 0;
}

static redis_waiter *find(const redis_waiters *w, const char *id, bool here, const uint64_t *nonce)
{
    simba__node *entry = simba__table_find(&w->ids, simba__hash(id), is_sought, &(sought){id, here, nonce});
    return entry ? SIMBA__OF_NODE(entry, redis_waiter, entry) : NULL;
}

const char *simba__redis_waiters_invited(const redis_waiters *w)
{
    return find(w, w->invited, true, NULL) ? w->invited : "";
}

void simba__redis_waiters_named(redis_waiters *w)
{
    w->named = true;
}

/* NULL: out of memory. Then the waiter gets no invitation, and its timers have to do. */
static redis_waiter *add(redis_waiters *w, const char *id)
{
    redis_waiter *waiter = simba__table_reserve(&w->ids) ? simba__calloc(1, sizeof *waiter + strlen(id) + 1) : NULL;
    if (!waiter)
        return NULL;
    strcpy(waiter->id, id);
    simba__table_add(&w->ids, &waiter->entry, simba__hash(id));
    waiter->next = w->first;
    if (w->first)
        w->first->before = waiter;
    w->first = waiter;
    return waiter;
}

static void take_out(redis_waiters *w, redis_waiter *waiter)
{
    simba__table_remove(&w->ids, &waiter->entry);
    *(waiter->before ? &waiter->before->next : &w->first) = waiter->next;
    if (waiter->next)
        waiter->next->before = waiter->before;
}

unsigned simba__redis_waiters_waits(redis_waiters *w, const char *id, uint64_t nonce)
{
    unsigned actions = 0;
    if (find(w, id, true, &nonce)) {
        /* If the invitation came after this request was sent, the next request makes use of it. */
        if (w->named && find(w, w->invited, true, NULL))
            w->invited[0] = '\0'; /* the invitation did not help: the waiter waits again */
        return invariant(w, 0);
    }
    redis_waiter *kept = find(w, id, false, NULL);
    if (kept) {
        w->gone--;
    } else {
        kept = add(w, id);
        if (!kept)
            return invariant(w, 0);
        actions |= w->hearing != REDIS_DEAF ? REDIS_SUBSCRIBE_ID | confirm(w) : 0;
    }
    kept->here = true;
    kept->nonce = nonce;
    w->here++;
    /* The invitation may have come before the answer that made the contender wait. Then this contender has to ask: the
     * server keeps the mutex for it, and refuses all others. */
    return invariant(w, actions | (strcmp(w->invited, id) == 0 ? REDIS_TELL_ID : 0));
}

static unsigned forget(redis_waiters *w, redis_waiter *waiter)
{
    w->here--;
    if (w->gone < GONE_MOST) {
        waiter->here = false;
        w->gone++;
        return 0;
    }
    take_out(w, waiter);
    const bool is_last = !find(w, waiter->id, true, NULL) && !find(w, waiter->id, false, NULL);
    simba__free(waiter);
    return is_last && w->hearing != REDIS_DEAF ? REDIS_UNSUBSCRIBE_ID : 0;
}

unsigned simba__redis_waiters_left(redis_waiters *w, const char *id, uint64_t nonce, bool granted)
{
    if (granted || strcmp(w->invited, id) == 0)
        w->invited[0] = '\0';
    redis_waiter *waiter = find(w, id, true, &nonce);
    return invariant(w, waiter ? forget(w, waiter) : 0);
}

unsigned simba__redis_waiters_foreign(redis_waiters *w, simba_local now, int64_t left_ms, int64_t place)
{
    const int64_t ms = LOOK_MS * (place > 0 ? place : 1);
    const simba_local at = later(now, ms);
    /* A waiter asks at the end of the lease in any case. */
    if (simba__redis_waiters_watched(w) && left_ms > ms && (!w->will_look || at.ns < w->look_at.ns))
        look_at(w, at);
    return invariant(w, 0);
}

/* --- the subscription ------------------------------------------------------------------------------- */

unsigned simba__redis_waiters_up(redis_waiters *w)
{
    if (w->hearing != REDIS_DEAF || !simba__redis_waiters_watched(w))
        return invariant(w, 0);
    set_hearing(w, REDIS_ASKED);
    for (redis_waiter *waiter = w->first; waiter; waiter = waiter->next)
        waiter->channel = REDIS_CHANNEL_NEW;
    return invariant(w, REDIS_SUBSCRIBE | confirm(w));
}

/* CHANGED makes one of the waiters ask. The release may have dropped the others from the queue when nobody heard their
 * invitation. */
unsigned simba__redis_waiters_confirmed(redis_waiters *w)
{
    const bool again = w->echo == REDIS_ECHO_AGAIN;
    if (w->echo == REDIS_ECHO_NONE)
        return invariant(w, 0);
    set_hearing(w, REDIS_HEARS);
    set_echo(w, REDIS_ECHO_NONE);
    for (redis_waiter *waiter = w->first; waiter && waiter->channel < REDIS_CHANNEL_CONFIRMED; waiter = waiter->next)
        if (waiter->channel == REDIS_CHANNEL_ASKED)
            waiter->channel = REDIS_CHANNEL_CONFIRMED;
    return invariant(w, REDIS_QUEUE_UP | (again ? confirm(w) : 0) | tell(w, REDIS_TELL_CHANGED));
}

redis_waiter *simba__redis_waiters_queue_up(redis_waiter *from)
{
    for (redis_waiter *waiter = from; waiter && waiter->channel != REDIS_CHANNEL_HEARD; waiter = waiter->next) {
        const bool confirmed = waiter->channel == REDIS_CHANNEL_CONFIRMED;
        if (confirmed)
            waiter->channel = REDIS_CHANNEL_HEARD;
        if (confirmed && waiter->here)
            return waiter;
    }
    return NULL;
}

/* The client misses messages meanwhile. It makes up for them when the next subscription is confirmed. */
unsigned simba__redis_waiters_down(redis_waiters *w)
{
    set_hearing(w, REDIS_DEAF);
    set_echo(w, REDIS_ECHO_NONE);
    set_interest(w, simba__redis_waiters_watched(w) ? REDIS_WATCHED : REDIS_IDLE);
    return invariant(w, 0);
}

unsigned simba__redis_waiters_moved(redis_waiters *w)
{
    const bool subscribed = w->hearing != REDIS_DEAF;
    return simba__redis_waiters_down(w) | (subscribed ? REDIS_UNSUBSCRIBE : 0);
}

/* --- what is heard ---------------------------------------------------------------------------------- */

unsigned simba__redis_waiters_news(redis_waiters *w)
{
    return invariant(w, tell(w, REDIS_TELL_CHANGED));
}

unsigned simba__redis_waiters_noted(redis_waiters *w)
{
    return invariant(w, tell(w, REDIS_TELL_NOTED));
}

/* Also remember the invitation of a contender that is not known to wait: the answer that says so may come after it. */
unsigned simba__redis_waiters_invitation(redis_waiters *w, const char *id)
{
    snprintf(w->invited, sizeof w->invited, "%s", id);
    w->named = false;
    return invariant(w, tell(w, REDIS_TELL_RELEASED));
}

/* In a moment one of our waiters asks, whichever of them stands by, and however often the mutex changes hands
 * meanwhile. */
unsigned simba__redis_waiters_standby(redis_waiters *w, simba_local now, uint64_t chance)
{
    look_at(w, later(now, GRACE_MS + (int64_t)(chance % GRACE_MORE_MS)));
    return invariant(w, 0);
}

unsigned simba__redis_waiters_look(redis_waiters *w)
{
    SIMBA__ASSERT(w->will_look);
    w->will_look = false;
    return invariant(w, w->observed || w->here > 0 ? tell(w, REDIS_TELL_CHANGED) : 0);
}
