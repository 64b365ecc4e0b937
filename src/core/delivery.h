/* Decides which parties of a client hear a push. News goes to all of them. An invitation goes to observers, and to
 * the first waiter that can use it: the others would only lose against it.
 *
 * News of an owner moves the time at which a waiter asks, and does nothing else to it, unless its application is told of
 * changes. So a mutex for which many contenders of one client wait keeps the latest news for them. Each hears of it late: just
 * before its timer fires or anything else happens to it. No waiter sleeps longer because of that: it was told of a lease that
 * ends no later than the one in the news. */
#ifndef SIMBA_CORE_DELIVERY_H
#define SIMBA_CORE_DELIVERY_H

#include <simba/backend.h>

#include "core/contention.h"
#include "util/clock.h"

typedef struct simba__delivery {
    bool of_note; /* the push is about the note, and says nothing about the owner */
    bool news;
    bool used;
} simba__delivery;

static inline simba__delivery simba__delivery_of(const simba_push *push)
{
    return (simba__delivery){.of_note = push->kind == SIMBA_PUSH_NOTED, .news = push->kind == SIMBA_PUSH_ACQUIRED};
}

/* May the note have changed? If pushes may have been lost, one about the note may be among them. */
static inline bool simba__delivery_tells_note(const simba_push *push)
{
    return push->kind == SIMBA_PUSH_NOTED || push->kind == SIMBA_PUSH_CHANGED || push->kind == SIMBA_PUSH_SESSION_BACK;
}

/* Does the answer to a request of its own, which the party takes next, say what the push says? */
static inline bool simba__delivery_is_known(const simba_reply *answer, const simba_push *push)
{
    if (answer->status != 0 || answer->outcome != SIMBA_MINE)
        return false;
    return push->kind == SIMBA_PUSH_ACQUIRED ? push->owner.token == answer->owner.token
                                             : push->kind == SIMBA_PUSH_RELEASED && answer->owner.id[0] == '\0';
}

/* The runtime asks this for each party in turn, in the order in which they started. */
static inline bool simba__delivery_concerns(const simba__delivery *delivery, bool is_member)
{
    return !delivery->of_note && (delivery->news || !delivery->used || !is_member);
}

static inline void simba__delivery_made(simba__delivery *delivery, bool is_member, bool used)
{
    delivery->used |= is_member && used;
}

/* --- late news ------------------------------------------------------------------------------------------ */

/* Zeroes: none yet. */
typedef struct simba__news {
    simba_push push; /* ACQUIRED */
    simba_local heard_at;
    simba_local until; /* the latest end of a lease that one who waits may have been told of */
    uint32_t number;   /* grows with each news; 0: there was none */
} simba__news;

/* Is it one that news may be kept for? */
static inline bool simba__news_waits(const simba__contention *one)
{
    return one->phase == SIMBA__SEEK && !one->stop;
}

static inline simba_local simba__news_end(const simba_push *push, simba_local now)
{
    return simba__local_add(now, simba__owner_left_ns(&push->owner, push->now_ms));
}

/* One who waits was told, by an answer of its own, of a lease that ends then. */
static inline void simba__news_told(simba__news *news, simba_local until)
{
    if (until.ns > news->until.ns)
        news->until = until;
}

/* May those who wait hear this late? Not if the lease ends before one that they were told of: they would sleep past its end. */
static inline bool simba__news_can_wait(const simba__news *news, const simba_push *push, simba_local now)
{
    return simba__news_end(push, now).ns >= news->until.ns;
}

static inline void simba__news_keep(simba__news *news, const simba_push *push, simba_local now)
{
    *news = (simba__news){*push, now, simba__news_end(push, now), news->number + 1};
}

/* Does what happens to one who waits say as much as the news, or more? */
static inline bool simba__news_is_known(const simba__news *news, const simba__event *event)
{
    if (event->kind == SIMBA__EV_REPLY)
        return simba__delivery_is_known(event->reply, &news->push);
    return event->kind == SIMBA__EV_PUSH && event->push->kind == SIMBA_PUSH_ACQUIRED &&
           event->push->owner.token >= news->push.owner.token;
}

/* The same, for one who hears it now. Another one has made itself known to the holder, if that was to be. */
static inline simba_push simba__news_late(const simba__news *news, simba_local now)
{
    simba_push push = news->push;
    push.listens = false;
    push.now_ms = simba__sat_add(push.now_ms, (now.ns - news->heard_at.ns) / SIMBA__NS_PER_MS);
    return push;
}

#endif
