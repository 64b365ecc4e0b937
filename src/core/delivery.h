/* Decides which parties of a client hear a push. News goes to all of them. An invitation goes to observers, and to
 * the first waiter that can use it: the others would only lose against it. */
#ifndef SIMBA_CORE_DELIVERY_H
#define SIMBA_CORE_DELIVERY_H

#include <simba/backend.h>

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
                                             : push->kind == SIMBA_PUSH_RELEASED && simba_owner_is_none(&answer->owner);
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

#endif
