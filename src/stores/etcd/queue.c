/* What a contender of a mutex does next. Pure: what has happened goes in, the step to take and what to tell come out.
 *
 *   ENTER   NONE, UNSURE: put the key if it is not there. The answer shows the key either way
 *   LOOK    WAITS: is anybody before it? LEADS: is it still there? UNSURE and leaving: is it there?
 *   LEAVE   delete the key, if it has the create_revision that was seen
 *
 * One step at a time: a reason for another look sets `again`. The server counts revisions up, so no key ever comes before one that is
 * there: a key that is the first stays the first until it goes. A key leads only when one answer has shown both, the key and nobody
 * before it: the server may have dropped the key with its lease while the contender waited. A LEAVE whose answer was lost may
 * still be carried out, so a key with the create_revision that it names never leads: it goes, and the contender enters anew. */
#include "stores/etcd/etcd.h"
#include "util/assert.h"

enum { ROUNDS_MOST = 5 }; /* how often to put the key, if it goes each time */

#define TO(place) (1U << (place))

static void go_to(etcd_queue *q, etcd_place place)
{
    static const unsigned allowed[] = {
        [ETCD_NONE] = TO(ETCD_UNSURE),
        [ETCD_UNSURE] = TO(ETCD_UNSURE) | TO(ETCD_NONE) | TO(ETCD_WAITS),
        [ETCD_WAITS] = TO(ETCD_WAITS) | TO(ETCD_NONE) | TO(ETCD_UNSURE) | TO(ETCD_LEADS),
        [ETCD_LEADS] = TO(ETCD_UNSURE) | TO(ETCD_GONE),
        [ETCD_GONE] = TO(ETCD_NONE),
    };
    SIMBA__ASSERT(allowed[q->place] & TO(place));
    q->place = place;
    if (place == ETCD_NONE)
        q->revision = q->left = 0;
}

/* Every move ends with this check of what always holds. */
static etcd_move done(const etcd_queue *q, etcd_step step, etcd_tell tell)
{
    SIMBA__ASSERT(step == ETCD_REST || q->step == step);
    SIMBA__ASSERT((q->place != ETCD_WAITS && q->place != ETCD_LEADS) || q->revision > 0);
    SIMBA__ASSERT(q->place != ETCD_LEADS || q->revision != q->left);
    SIMBA__ASSERT(q->step != ETCD_ENTER || q->place == ETCD_UNSURE);
    SIMBA__ASSERT(q->step != ETCD_LEAVE || (q->place == ETCD_UNSURE && q->left == q->revision));
    return (etcd_move){step, tell};
}

static etcd_move take(etcd_queue *q, etcd_step step)
{
    q->step = step;
    q->again = false;
    return done(q, step, ETCD_TELL_NOTHING);
}

static etcd_move rest(etcd_queue *q, etcd_tell tell)
{
    q->asked &= tell == ETCD_TELL_NOTHING;
    return done(q, ETCD_REST, tell);
}

static etcd_move look(etcd_queue *q, uint64_t below)
{
    q->below = below;
    return take(q, ETCD_LOOK);
}

static etcd_move leave(etcd_queue *q)
{
    q->led |= q->place == ETCD_LEADS;
    q->left = q->revision;
    go_to(q, ETCD_UNSURE);
    return take(q, ETCD_LEAVE);
}

/* Nothing is under way. */
etcd_move simba__etcd_queue_go(etcd_queue *q)
{
    SIMBA__ASSERT(q->step == ETCD_REST);
    switch (q->place) {
    case ETCD_GONE:
        if (!q->leaving)
            return rest(q, ETCD_TELL_NOTHING); /* until somebody asks */
        go_to(q, ETCD_NONE);
        return rest(q, ETCD_TELL_OUT);
    case ETCD_NONE:
    case ETCD_UNSURE:
        if (q->leaving)
            return q->place == ETCD_UNSURE ? look(q, 0) : rest(q, q->led ? ETCD_TELL_FREED : ETCD_TELL_OUT);
        if (q->rounds++ >= ROUNDS_MOST)
            return rest(q, ETCD_TELL_REFUSED);
        q->fresh = q->place == ETCD_NONE;
        q->led = false;
        go_to(q, ETCD_UNSURE);
        return take(q, ETCD_ENTER);
    case ETCD_WAITS:
        return q->leaving || q->revision == q->left ? leave(q) : look(q, q->revision);
    case ETCD_LEADS:
        return q->leaving ? leave(q) : rest(q, q->asked ? ETCD_TELL_LEADS : ETCD_TELL_NOTHING);
    }
    return done(q, ETCD_REST, ETCD_TELL_NOTHING);
}

/* --- answers ------------------------------------------------------------------------------------------------ */

static etcd_move missing(etcd_queue *q)
{
    if (q->place == ETCD_LEADS) {
        go_to(q, ETCD_GONE);
        return rest(q, ETCD_TELL_REVOKED);
    }
    go_to(q, ETCD_NONE);
    return simba__etcd_queue_go(q);
}

etcd_move simba__etcd_queue_saw(etcd_queue *q, const etcd_sight *sight)
{
    const etcd_step step = q->step;
    SIMBA__ASSERT(step == ETCD_ENTER || step == ETCD_LOOK);
    q->step = ETCD_REST;
    if (sight->own == 0 || (q->place == ETCD_LEADS && sight->own != q->revision))
        return missing(q);
    if (q->place == ETCD_LEADS)
        return q->again && !q->leaving ? look(q, 0) : simba__etcd_queue_go(q);
    const bool is_same = sight->own == q->revision;
    q->revision = sight->own;
    go_to(q, ETCD_WAITS);
    if (q->leaving || q->revision == q->left || (step == ETCD_LOOK && !is_same))
        return simba__etcd_queue_go(q);
    if (sight->before > 0 && !q->queue)
        return leave(q);
    if (sight->before > 0 && q->again)
        return look(q, q->revision);
    if (sight->before > 0) {
        q->rounds = 0;
        return rest(q, ETCD_TELL_WAITS);
    }
    if (sight->rest > 0)
        return look(q, sight->rest);
    go_to(q, ETCD_LEADS);
    q->rounds = 0;
    const etcd_move move = rest(q, ETCD_TELL_LEADS);
    return q->again ? (etcd_move){look(q, 0).step, move.tell} : move;
}

etcd_move simba__etcd_queue_left(etcd_queue *q, bool deleted)
{
    SIMBA__ASSERT(q->step == ETCD_LEAVE);
    q->step = ETCD_REST;
    go_to(q, ETCD_NONE);
    q->led &= deleted;
    if (!q->leaving && !q->queue && deleted && !q->again)
        return rest(q, ETCD_TELL_OUT);
    return simba__etcd_queue_go(q);
}

void simba__etcd_queue_lose(etcd_queue *q, bool sent)
{
    const etcd_step step = q->step;
    q->step = ETCD_REST;
    if (!sent && step == ETCD_ENTER && q->fresh)
        go_to(q, ETCD_NONE);
}

/* --- requests and events ------------------------------------------------------------------------------------ */

static etcd_move ask(etcd_queue *q)
{
    if (q->step == ETCD_REST)
        return simba__etcd_queue_go(q);
    q->again = true;
    return done(q, ETCD_REST, ETCD_TELL_NOTHING);
}

etcd_move simba__etcd_queue_acquire(etcd_queue *q, bool queue)
{
    q->queue = queue;
    q->leaving = false;
    q->asked = true;
    q->rounds = 0;
    if (q->place == ETCD_GONE)
        go_to(q, ETCD_NONE);
    return ask(q);
}

etcd_move simba__etcd_queue_release(etcd_queue *q)
{
    q->leaving = true;
    q->asked = true;
    return ask(q);
}

etcd_move simba__etcd_queue_renew(etcd_queue *q)
{
    SIMBA__ASSERT(q->place == ETCD_LEADS);
    q->asked = true;
    if (q->step == ETCD_REST)
        return look(q, 0);
    return done(q, ETCD_REST, ETCD_TELL_NOTHING);
}

etcd_move simba__etcd_queue_news(etcd_queue *q)
{
    if (q->place == ETCD_LEADS && q->step == ETCD_REST)
        return look(q, 0);
    if (q->place != ETCD_WAITS && q->step == ETCD_REST)
        return done(q, ETCD_REST, ETCD_TELL_NOTHING);
    return ask(q);
}
