/* The mutexes of this client, and which of its parties wait for or observe each. Leads from a push of the store to
 * the parties that it concerns. */
#ifndef SIMBA_RUNTIME_TOPICS_H
#define SIMBA_RUNTIME_TOPICS_H

#include <simba/backend.h>

#include "core/delivery.h"
#include "util/list.h"
#include "util/table.h"

struct simba__shared;

typedef struct simba__topic simba__topic;
struct simba__topic {
    simba_topic shown; /* first: the part that the back end sees */
    simba__node node;
    simba__topic *dirty_next;
    simba__list parties;          /* started ones that do not wait */
    simba__list waiting;          /* members that wait, in the order in which they began to */
    simba__news *news;            /* that those who wait may not have heard; NULL: none yet */
    struct simba__shared *shared; /* whose grants lockers share, see shared.h */
    const char *heard;            /* the name of another's that its contenders heard of last; NULL: of none yet */
    unsigned handles;             /* parties that name it, started or not */
    unsigned interest;            /* how many parties want to hear of changes */
    unsigned curious;             /* how many parties want to hear of every change */
    unsigned watchful;            /* how many started members do */
    bool watched;
    bool dirty; /* `watched` may not match `interest` */
    char mutex[];
};

typedef struct simba__topics {
    simba__table table; /* by name */
    simba__topic *dirty;
    bool keeps;  /* what is watched stays watched while it has handles, because watching costs the store nothing */
    bool ending; /* unwatch everything */
} simba__topics;

/* Find or make. NULL: out of memory. Counts as a handle until simba__topics_put. */
simba__topic *simba__topics_get(simba__topics *topics, const char *mutex);
/* NULL: there is none. */
simba__topic *simba__topics_find(const simba__topics *topics, const char *mutex);
void simba__topics_put(simba__topics *topics, simba__topic *topic);

void simba__topic_want(simba__topics *topics, simba__topic *topic, bool every);
void simba__topic_unwant(simba__topics *topics, simba__topic *topic, bool every);
/* A name for this owner, which stays until the next call: whoever knows it for longer takes it (util/name.h). */
const char *simba__topic_hear(simba__topic *topic, const char *owner_id);
/* Look at the end of the turn whether it is watched as it should be. */
void simba__topic_mark_dirty(simba__topics *topics, simba__topic *topic);
/* If it should be watched and is not, because there was no memory, try again at the end of the turn. */
static inline void simba__topic_retry(simba__topics *topics, simba__topic *topic)
{
    if (topic->interest > 0 && !topic->watched)
        simba__topic_mark_dirty(topics, topic);
}

/* Update the store: watch, unwatch, and free topics without handles. */
void simba__topics_settle(simba__topics *topics, const simba_backend *backend, void *store);
/* The client closes: unwatch everything at the end of the turn. */
void simba__topics_unwatch_all(simba__topics *topics);

void simba__topics_fini(simba__topics *topics);

#endif
