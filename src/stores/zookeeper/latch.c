/* What a contender of a mutex does next. Pure: what has happened goes in, the calls to make and what to tell come out.
 *
 *   look     NONE, REVOKED: make a child, and list the children in the same write. WAITS: list. UNSURE: sync and list, because another
 *            server may lag behind what was lost. LEADS: nothing to do.
 *   listed   the own child is the first: it leads. Otherwise read and watch the child before it. If nobody is to wait, remove
 *            the child and read who leads. If the child is not there, begin again.
 *   event    the child before has changed in any way: look. The own one is gone: the leader is told, and asks.
 *   leave    remove the child; if it is UNSURE, find it first. Until it is known to be gone, `leaving` is remembered.
 *
 * One look at a time: a reason for another one sets `again`. A connection that is lost ends the look; the next connection begins
 * another. A child that was being made or removed then is UNSURE: nobody makes another before a list has shown that there is none.
 *
 * The server numbers children as it makes them, so a later child never comes before an earlier one: a child that is the first stays
 * the first until it goes. */
#include <stdio.h>
#include <string.h>

#include "stores/zookeeper/zookeeper.h"
#include "util/assert.h"

enum { ROUNDS_MOST = 5 }; /* how often to make the child, if it vanishes each time */

#define TO(place) (1U << (place))

static void go_to(zk_latch *l, zk_place place)
{
    static const unsigned allowed[] = {
        [ZK_NONE] = TO(ZK_MAKING),
        [ZK_MAKING] = TO(ZK_NONE) | TO(ZK_UNSURE) | TO(ZK_WAITS),
        [ZK_UNSURE] = TO(ZK_NONE) | TO(ZK_WAITS),
        [ZK_WAITS] = TO(ZK_NONE) | TO(ZK_UNSURE) | TO(ZK_LEADS),
        [ZK_LEADS] = TO(ZK_UNSURE) | TO(ZK_REVOKED),
        [ZK_REVOKED] = TO(ZK_MAKING),
    };
    SIMBA__ASSERT(allowed[l->place] & TO(place));
    l->place = place;
    l->stands = l->guarded = false;
}

static bool is_here(const zk_latch *l)
{
    return l->place == ZK_WAITS || l->place == ZK_LEADS;
}

/* Every step ends with this check of what always holds. */
static zk_move done(const zk_latch *l, unsigned calls, zk_tell tell)
{
    SIMBA__ASSERT(l->stage == ZK_RESTS || l->connected);
    SIMBA__ASSERT((calls != 0) <= (l->stage != ZK_RESTS));
    SIMBA__ASSERT(!is_here(l) || l->name[0]);
    SIMBA__ASSERT(l->place != ZK_MAKING || l->stage == ZK_LISTS);
    SIMBA__ASSERT(l->place != ZK_LEADS || l->czxid > 0);
    SIMBA__ASSERT(!l->stands || l->place == ZK_WAITS);
    SIMBA__ASSERT(!l->guarded || l->place == ZK_LEADS);
    return (zk_move){calls, tell};
}

static zk_move go(zk_latch *l, zk_stage stage, unsigned calls)
{
    l->stage = stage;
    l->again = l->vanished = false;
    l->error = ZK_OK;
    return done(l, calls, ZK_TELL_NOTHING);
}

static zk_move rest(zk_latch *l, zk_tell tell)
{
    l->stage = ZK_RESTS;
    l->asked &= tell == ZK_TELL_NOTHING;
    return done(l, 0, tell);
}

void simba__zk_latch_init(zk_latch *l, uint64_t nonce, const char *id, unsigned sessions_over)
{
    *l = (zk_latch){0};
    simba__zk_prefix(simba__zk_salted(nonce, sessions_over), id, l->prefix);
}

/* --- looking ------------------------------------------------------------------------------------------------ */

static zk_move fail(zk_latch *l, int error)
{
    l->error = error;
    return rest(l, ZK_TELL_FAILED);
}

/* The child is UNSURE until the answer has come. */
static zk_move remove_child(zk_latch *l, zk_stage stage)
{
    l->led = l->place == ZK_LEADS;
    go_to(l, ZK_UNSURE);
    return go(l, stage, stage == ZK_TRIES ? ZK_CALL_FIRST | ZK_CALL_DELETE : ZK_CALL_DELETE);
}

static zk_move look(zk_latch *l)
{
    if (l->leaving && l->stage == ZK_RESTS && (l->place == ZK_NONE || l->place == ZK_REVOKED))
        return rest(l, ZK_TELL_GONE);
    if (!l->connected)
        return done(l, 0, ZK_TELL_NOTHING);
    if (l->stage != ZK_RESTS) {
        l->again = true;
        return done(l, 0, ZK_TELL_NOTHING);
    }
    if (l->leaving && is_here(l))
        return remove_child(l, ZK_REMOVES);
    switch (l->place) {
    case ZK_NONE:
    case ZK_REVOKED: {
        const bool missing = l->missing;
        if (l->rounds++ >= ROUNDS_MOST)
            return rest(l, ZK_TELL_REFUSED);
        go_to(l, ZK_MAKING);
        l->missing = false;
        l->name[0] = '\0';
        l->czxid = 0;
        return go(l, ZK_LISTS, (missing ? ZK_CALL_CONTAINERS : 0) | ZK_CALL_CREATE | ZK_CALL_LIST);
    }
    case ZK_UNSURE:
        return go(l, ZK_LISTS, ZK_CALL_SYNC | ZK_CALL_LIST);
    case ZK_WAITS:
        return go(l, ZK_LISTS, ZK_CALL_LIST);
    case ZK_LEADS:
        return rest(l, l->asked ? ZK_TELL_LEADS : ZK_TELL_NOTHING);
    case ZK_MAKING:
        break;
    }
    SIMBA__ASSERT(false);
    return done(l, 0, ZK_TELL_NOTHING);
}

static zk_move lead(zk_latch *l)
{
    if (l->czxid == 0)
        return go(l, ZK_READS, ZK_CALL_OWN);
    go_to(l, ZK_LEADS);
    l->rounds = 0;
    return rest(l, ZK_TELL_LEADS);
}

/* The look is over, and the child is in the queue; or somebody has removed it. */
static zk_move look_again(zk_latch *l)
{
    l->stage = ZK_RESTS;
    return look(l);
}

/* The server counts children up to 2147483647. Those after that have the same number, or one below 0, depending on the server's
 * version: such a number does not say who was first. */
static bool has_number(const zk_latch *l)
{
    const char *number = l->name + strlen(l->prefix);
    return strlen(number) == 10 && strspn(number, "0123456789") == 10 && strcmp(number, "2147483647") < 0;
}

/* --- answers ------------------------------------------------------------------------------------------------ */

void simba__zk_latch_made(zk_latch *l, const char *name, int64_t czxid, int64_t ctime_ms, int error)
{
    SIMBA__ASSERT(l->place == ZK_MAKING);
    if (!name) {
        go_to(l, ZK_NONE);
        l->missing = error == ZK_NO_NODE;
        if (!l->missing && !l->error)
            l->error = error;
        return;
    }
    SIMBA__ASSERT(strncmp(name, l->prefix, strlen(l->prefix)) == 0 && strlen(name) < sizeof l->name);
    strcpy(l->name, name);
    l->czxid = czxid;
    l->ctime_ms = ctime_ms;
    go_to(l, ZK_WAITS);
}

/* Find the child by its whole name if that is known, and otherwise the first with our uuid. */
size_t simba__zk_latch_find(const zk_latch *l, const char *const *names, size_t count)
{
    size_t low = 0;
    size_t high = count;
    if (l->place == ZK_NONE)
        return count;
    while (is_here(l) && low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = simba__zk_order(names[middle], l->name);
        if (order == 0)
            return middle;
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    for (size_t i = 0; !is_here(l) && i < count; i++)
        if (strncmp(names[i], l->prefix, strlen(l->prefix)) == 0 && strlen(names[i]) < sizeof l->name)
            return i;
    return count;
}

zk_move simba__zk_latch_listed(zk_latch *l, const char *mine, bool is_first, int error)
{
    SIMBA__ASSERT(l->stage == ZK_LISTS && l->place != ZK_MAKING);
    if (l->error || (error && error != ZK_NO_NODE))
        return fail(l, l->error ? l->error : error);
    if (!mine) { /* it was not made, or somebody has removed it */
        if (l->place != ZK_NONE)
            go_to(l, ZK_NONE);
        l->missing |= error == ZK_NO_NODE;
        return look_again(l);
    }
    if (l->place == ZK_UNSURE) {
        strcpy(l->name, mine);
        go_to(l, ZK_WAITS);
        l->czxid = 0;
    }
    if (l->leaving) {
        const zk_move move = remove_child(l, ZK_REMOVES);
        l->led = is_first;
        return move;
    }
    if (!has_number(l)) {
        l->full = true;
        return remove_child(l, ZK_REMOVES);
    }
    if (is_first)
        return lead(l);
    if (!l->queue)
        return remove_child(l, ZK_TRIES);
    return go(l, ZK_STANDS, ZK_CALL_BEFORE);
}

void simba__zk_latch_own(zk_latch *l, int64_t czxid, int64_t ctime_ms, int error)
{
    if (error == ZK_OK && czxid > 0) {
        l->czxid = czxid;
        l->ctime_ms = ctime_ms;
        return;
    }
    simba__zk_latch_read(l, ZK_CALL_OWN, error ? error : ZK_MALFORMED);
}

/* The child must be gone after a removal, whoever has removed it. */
void simba__zk_latch_read(zk_latch *l, unsigned call, int error)
{
    if (error == ZK_NO_NODE)
        l->vanished |= call != ZK_CALL_DELETE || l->stage == ZK_REMOVES;
    else if (error && !l->error)
        l->error = error;
}

static zk_move removed(zk_latch *l)
{
    const bool freed = l->led && !l->vanished;
    const bool full = l->full;
    const bool lost = l->stage == ZK_TRIES && !l->vanished && !l->queue;
    go_to(l, ZK_NONE);
    l->full = false;
    if (l->leaving)
        return rest(l, freed ? ZK_TELL_FREED : ZK_TELL_GONE);
    if (full)
        return rest(l, ZK_TELL_NO_NUMBERS);
    return lost && !l->again ? rest(l, ZK_TELL_LOST)
                             : look_again(l); /* the winner has gone, or the contender asks again */
}

/* All calls of the stage are answered. */
zk_move simba__zk_latch_go(zk_latch *l)
{
    if (l->error)
        return fail(l, l->error);
    switch (l->stage) {
    case ZK_READS:
        if (l->vanished)
            go_to(l, ZK_NONE);
        return l->vanished || l->leaving ? look_again(l) : lead(l);
    case ZK_STANDS:
        l->stands = !l->vanished;
        if (l->vanished || l->leaving || l->again)
            return look_again(l);
        l->rounds = 0;
        return rest(l, ZK_TELL_WAITS);
    case ZK_TRIES:
    case ZK_REMOVES:
        return removed(l);
    case ZK_RESTS:
    case ZK_LISTS:
        break;
    }
    SIMBA__ASSERT(false);
    return done(l, 0, ZK_TELL_NOTHING);
}

/* --- requests and events ------------------------------------------------------------------------------------ */

zk_move simba__zk_latch_acquire(zk_latch *l, bool queue)
{
    l->queue = queue;
    l->leaving = false;
    l->asked = true;
    l->rounds = 0;
    l->refused = false;
    return look(l);
}

zk_move simba__zk_latch_release(zk_latch *l)
{
    l->leaving = true;
    l->asked = true;
    return look(l);
}

void simba__zk_latch_lose(zk_latch *l)
{
    l->connected = false;
    l->stage = ZK_RESTS;
    l->again = l->full = false;
    l->stands = l->guarded = false;
    if (l->place == ZK_MAKING)
        go_to(l, ZK_UNSURE);
    done(l, 0, ZK_TELL_NOTHING);
}

zk_move simba__zk_latch_connect(zk_latch *l)
{
    l->connected = true;
    const bool idle = (l->place == ZK_NONE || l->place == ZK_REVOKED) && !l->asked;
    return idle ? done(l, 0, ZK_TELL_NOTHING) : look(l);
}

zk_move simba__zk_latch_before(zk_latch *l)
{
    l->stands = false;
    return l->place == ZK_WAITS || l->stage != ZK_RESTS ? look(l) : done(l, 0, ZK_TELL_NOTHING);
}

zk_move simba__zk_latch_taken(zk_latch *l)
{
    l->guarded = false;
    if (l->place != ZK_LEADS)
        return done(l, 0, ZK_TELL_NOTHING);
    go_to(l, ZK_REVOKED);
    return rest(l, ZK_TELL_REVOKED);
}
