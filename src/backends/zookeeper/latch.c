#include "backends/zookeeper/latch.h"

#include <stdlib.h>
#include <string.h>

#include "util/assert.h"
#include "util/mem.h"

enum { ROUNDS_MAX = 5 }; /* how often to begin anew because the new child has vanished */

/* --- states --------------------------------------------------------------------------------------------- */

#define TO(place) (1U << (place))

/* The moves of a child between places. A child that is not known to be here can always be found by its name. */
static const unsigned allowed[] = {
    [ZK_ABSENT] = TO(ZK_ENTERING) | TO(ZK_HERE),
    [ZK_ENTERING] = TO(ZK_ABSENT) | TO(ZK_UNSURE) | TO(ZK_HERE),
    [ZK_UNSURE] = TO(ZK_ABSENT) | TO(ZK_HERE),
    [ZK_HERE] = TO(ZK_ABSENT) | TO(ZK_UNSURE) | TO(ZK_LEADS),
    [ZK_LEADS] = TO(ZK_ABSENT) | TO(ZK_UNSURE) | TO(ZK_REVOKED),
    [ZK_REVOKED] = TO(ZK_ABSENT) | TO(ZK_ENTERING) | TO(ZK_HERE),
};

static bool is_here(const zk_latch *latch)
{
    return latch->place == ZK_HERE || latch->place == ZK_LEADS;
}

static void invariant(const zk_latch *latch)
{
    SIMBA__ASSERT(!is_here(latch) || latch->name);
    SIMBA__ASSERT(!latch->stands || latch->place == ZK_HERE);
    SIMBA__ASSERT(!latch->guarded || latch->place == ZK_LEADS);
}

static void go_to(zk_latch *latch, zk_place place)
{
    if (latch->place == place)
        return;
    SIMBA__ASSERT(allowed[latch->place] & TO(place));
    latch->place = place;
    latch->stands = latch->guarded = false;
}

static zk_move result(const zk_latch *latch, zk_outcome outcome)
{
    invariant(latch);
    return (zk_move){outcome, 0};
}

static zk_move go(const zk_latch *latch, zk_attempt *attempt, zk_step step, unsigned calls)
{
    invariant(latch);
    attempt->step = step;
    attempt->vanished = false;
    return (zk_move){ZK_GO, calls};
}

void simba__zk_latch_init(zk_latch *latch, uint64_t nonce, const char *id, unsigned sessions_over)
{
    *latch = (zk_latch){0};
    simba__zk_prefix(simba__zk_salted(nonce, sessions_over), id, latch->prefix);
}

void simba__zk_latch_fini(zk_latch *latch)
{
    simba__free(latch->name);
    latch->name = NULL;
}

void simba__zk_attempt_forget(zk_attempt *attempt)
{
    simba__free(attempt->leader);
    simba__free(attempt->before);
    attempt->leader = attempt->before = NULL;
    attempt->seen = ZK_SEEN_NOTHING;
}

/* --- entering ------------------------------------------------------------------------------------------- */

/* The server counts children up to 2147483647. Those after that have the same number, or one below 0, depending on the
 * server's version: such a number does not say who was first. */
static bool has_number(const zk_latch *latch)
{
    const char *number = latch->name + strlen(latch->prefix);
    return strlen(number) == 10 && strspn(number, "0123456789") == 10 && strcmp(number, "2147483647") < 0;
}

static zk_move win(zk_latch *latch)
{
    if (latch->place == ZK_LEADS)
        return result(latch, ZK_LEADS_STILL);
    go_to(latch, ZK_LEADS);
    return result(latch, ZK_WON);
}

static zk_move win_or_ask_token(zk_latch *latch, zk_attempt *attempt)
{
    return latch->czxid ? win(latch) : go(latch, attempt, ZK_STEP_READ, ZK_CALL_OWN);
}

static zk_move enter(zk_latch *latch, zk_attempt *attempt)
{
    if (latch->place == ZK_LEADS)
        return win_or_ask_token(latch, attempt);
    if (latch->place != ZK_ABSENT && latch->place != ZK_REVOKED) {
        simba__zk_attempt_forget(attempt);
        return go(latch, attempt, ZK_STEP_LOOK, ZK_CALL_LIST | (latch->place == ZK_UNSURE ? ZK_CALL_SYNC : 0));
    }
    const bool parentless = attempt->seen == ZK_SEEN_NO_MUTEX;
    simba__zk_attempt_forget(attempt);
    if (attempt->rounds++ >= ROUNDS_MAX)
        return result(latch, ZK_REFUSED);
    go_to(latch, ZK_ENTERING);
    if (parentless)
        return go(latch, attempt, ZK_STEP_LOOK, ZK_CALL_PARENTS | ZK_CALL_CREATE | ZK_CALL_LIST);
    return go(latch, attempt, ZK_STEP_LOOK, ZK_CALL_CREATE | ZK_CALL_LIST);
}

static zk_move looked(zk_latch *latch, zk_attempt *attempt)
{
    if (latch->place == ZK_HERE && !has_number(latch))
        return go(latch, attempt, ZK_STEP_UNNUMBERED, ZK_CALL_DELETE);
    if (latch->place == ZK_HERE && attempt->seen == ZK_SEEN_FIRST)
        return win_or_ask_token(latch, attempt);
    if (latch->place == ZK_HERE && attempt->seen == ZK_SEEN_BEHIND && attempt->wish == ZK_WISH_TRY)
        return go(latch, attempt, ZK_STEP_TRY, ZK_CALL_LEADER | ZK_CALL_DELETE);
    if (latch->place == ZK_HERE && attempt->seen == ZK_SEEN_BEHIND) {
        latch->stands = true;
        return go(latch, attempt, ZK_STEP_STAND, ZK_CALL_BEFORE);
    }
    /* The mutex has no node yet, or somebody has removed the child. */
    go_to(latch, ZK_ABSENT);
    return enter(latch, attempt);
}

static zk_move stood(zk_latch *latch, zk_attempt *attempt)
{
    if (latch->stands && !attempt->vanished)
        return result(latch, ZK_WAITS);
    latch->stands = false;
    return enter(latch, attempt);
}

/* --- leaving -------------------------------------------------------------------------------------------- */

static zk_move leave(zk_latch *latch, zk_attempt *attempt)
{
    if (latch->place == ZK_ABSENT || latch->place == ZK_REVOKED)
        return result(latch, ZK_NOTHING);
    if (is_here(latch))
        return go(latch, attempt, ZK_STEP_REMOVE, ZK_CALL_DELETE);
    simba__zk_attempt_forget(attempt);
    /* The server answers the list after the child that is still being made. */
    return go(latch, attempt, ZK_STEP_FIND, ZK_CALL_LIST | (latch->place == ZK_UNSURE ? ZK_CALL_SYNC : 0));
}

static zk_move found(zk_latch *latch, zk_attempt *attempt)
{
    if (attempt->seen != ZK_SEEN_FIRST && attempt->seen != ZK_SEEN_BEHIND) {
        go_to(latch, ZK_ABSENT);
        return result(latch, ZK_NOTHING);
    }
    attempt->led = attempt->seen == ZK_SEEN_FIRST;
    return leave(latch, attempt);
}

static zk_move removed(zk_latch *latch, const zk_attempt *attempt)
{
    go_to(latch, ZK_ABSENT);
    return result(latch, attempt->led && !attempt->vanished ? ZK_FREED : ZK_NOTHING);
}

/* --- procedures ----------------------------------------------------------------------------------------- */

/* Something has happened to a waiter. If there may be a child, the procedure that was making it has lost its connection, and its
 * request may be over. */
static zk_move look_again(zk_latch *latch, zk_attempt *attempt)
{
    const bool waits = latch->place == ZK_HERE || latch->place == ZK_ABSENT || latch->place == ZK_UNSURE;
    return latch->unwanted || !waits ? result(latch, ZK_IDLE) : enter(latch, attempt);
}

zk_move simba__zk_latch_begin(zk_latch *latch, zk_attempt *attempt)
{
    const bool leads = latch->place == ZK_LEADS;
    switch (attempt->wish) {
    case ZK_WISH_WAIT:
    case ZK_WISH_TRY:
        if (latch->unwanted && is_here(latch))
            go_to(latch, ZK_UNSURE); /* a procedure may be about to remove it */
        latch->unwanted = false;
        return enter(latch, attempt);
    case ZK_WISH_LOOK:
        return look_again(latch, attempt);
    case ZK_WISH_LEAVE:
        latch->unwanted = true;
        attempt->led |= leads && attempt->step == ZK_STEP_NONE;
        return leave(latch, attempt);
    case ZK_WISH_RENEW:
        return leads ? go(latch, attempt, ZK_STEP_READ, ZK_CALL_OWN)
                     : result(latch, latch->place == ZK_REVOKED ? ZK_TAKEN : ZK_IDLE);
    case ZK_WISH_GUARD:
        return leads && !latch->guarded ? go(latch, attempt, ZK_STEP_READ, ZK_CALL_GUARD) : result(latch, ZK_IDLE);
    case ZK_WISH_ASK:
        return latch->place == ZK_HERE && attempt->leader ? go(latch, attempt, ZK_STEP_ASK, ZK_CALL_LEADER)
                                                          : result(latch, ZK_IDLE);
    }
    return result(latch, ZK_IDLE);
}

/* The child is the first of all. */
static zk_move was_read(zk_latch *latch, zk_attempt *attempt)
{
    if (!attempt->vanished && is_here(latch))
        return win(latch);
    if (attempt->wish == ZK_WISH_GUARD || attempt->wish == ZK_WISH_RENEW)
        return result(latch, ZK_TAKEN);
    go_to(latch, ZK_ABSENT);
    return enter(latch, attempt);
}

zk_move simba__zk_latch_step(zk_latch *latch, zk_attempt *attempt)
{
    switch (attempt->step) {
    case ZK_STEP_LOOK:
        return looked(latch, attempt);
    case ZK_STEP_READ:
        return was_read(latch, attempt);
    case ZK_STEP_STAND:
        return stood(latch, attempt);
    case ZK_STEP_TRY:
        go_to(latch, ZK_ABSENT);
        return attempt->vanished ? enter(latch, attempt) /* the winner has gone */ : result(latch, ZK_LOST);
    case ZK_STEP_UNNUMBERED:
        go_to(latch, ZK_ABSENT);
        return result(latch, ZK_NO_NUMBERS);
    case ZK_STEP_FIND:
        return found(latch, attempt);
    case ZK_STEP_REMOVE:
        return removed(latch, attempt);
    case ZK_STEP_ASK:
        return result(latch, latch->place == ZK_HERE && !latch->unwanted ? ZK_WAITS : ZK_IDLE);
    case ZK_STEP_NONE:
        break;
    }
    return result(latch, ZK_IDLE);
}

/* --- answers -------------------------------------------------------------------------------------------- */

static bool take_name(zk_latch *latch, const char *name)
{
    char *copy = simba__strdup(name);
    if (copy) {
        simba__free(latch->name);
        latch->name = copy;
    }
    return copy != NULL;
}

static bool is_child_of_ours(const zk_latch *latch, const char *name)
{
    return strncmp(name, latch->prefix, strlen(latch->prefix)) == 0;
}

bool simba__zk_latch_made(zk_latch *latch, const char *name, int64_t czxid, int64_t ctime_ms)
{
    if (latch->place != ZK_ENTERING)
        return true;
    SIMBA__ASSERT(is_child_of_ours(latch, name));
    const bool good = take_name(latch, name);
    go_to(latch, good ? ZK_HERE : ZK_UNSURE);
    latch->czxid = czxid;
    latch->ctime_ms = ctime_ms;
    invariant(latch);
    return good;
}

void simba__zk_latch_not_made(zk_latch *latch, bool sure)
{
    if (latch->place == ZK_ENTERING)
        go_to(latch, sure ? ZK_ABSENT : ZK_UNSURE);
    invariant(latch);
}

/* Find the child by its whole name if that is known, and otherwise by the uuid in its name. */
static const char *ours_among(const zk_latch *latch, char *const *names, size_t count)
{
    const char *ours = NULL;
    for (size_t i = 0; i < count; i++)
        if ((is_here(latch) ? strcmp(names[i], latch->name) == 0 : is_child_of_ours(latch, names[i])) &&
            (!ours || simba__zk_order(names[i], ours) < 0))
            ours = names[i];
    return ours;
}

bool simba__zk_latch_listed(zk_latch *latch, zk_attempt *attempt, char *const *names, size_t count)
{
    const char *ours = ours_among(latch, names, count);
    const char *leader = simba__zk_first(names, count, NULL);
    const char *before = NULL;
    for (size_t i = 0; ours && i < count; i++)
        if (simba__zk_is_contender(names[i]) && simba__zk_order(names[i], ours) < 0 &&
            (!before || simba__zk_order(names[i], before) > 0))
            before = names[i];
    simba__zk_attempt_forget(attempt);
    attempt->leader = leader ? simba__strdup(leader) : NULL;
    attempt->before = before ? simba__strdup(before) : NULL;
    if ((leader && !attempt->leader) || (before && !attempt->before))
        return false;
    if (ours && !is_here(latch)) { /* the answer to its making was lost */
        if (!take_name(latch, ours))
            return false;
        go_to(latch, ZK_HERE);
        latch->czxid = 0;
    }
    attempt->seen = !ours ? ZK_SEEN_OTHERS : before ? ZK_SEEN_BEHIND : ZK_SEEN_FIRST;
    invariant(latch);
    return true;
}

void simba__zk_latch_mutex_missing(zk_attempt *attempt)
{
    simba__zk_attempt_forget(attempt);
    attempt->seen = ZK_SEEN_NO_MUTEX;
}

void simba__zk_latch_own(zk_latch *latch, int64_t czxid, int64_t ctime_ms, bool guarded)
{
    latch->czxid = czxid;
    latch->ctime_ms = ctime_ms;
    latch->guarded = (latch->guarded || guarded) && latch->place == ZK_LEADS;
    invariant(latch);
}

void simba__zk_latch_vanished(zk_attempt *attempt, unsigned call)
{
    /* The child must go after a try, whichever procedure removes it. */
    if (call != ZK_CALL_DELETE || attempt->step == ZK_STEP_REMOVE)
        attempt->vanished = true;
}

/* --- events --------------------------------------------------------------------------------------------- */

zk_alert simba__zk_latch_before_fired(zk_latch *latch)
{
    latch->stands = false;
    return latch->unwanted ? ZK_ALERT_NONE : ZK_ALERT_LOOK;
}

zk_alert simba__zk_latch_guard_fired(zk_latch *latch, bool deleted)
{
    latch->guarded = false;
    if (deleted)
        return simba__zk_latch_taken(latch);
    return latch->place == ZK_LEADS ? ZK_ALERT_GUARD : ZK_ALERT_NONE; /* somebody has touched it */
}

zk_alert simba__zk_latch_taken(zk_latch *latch)
{
    if (latch->unwanted || !is_here(latch))
        return ZK_ALERT_NONE;
    /* The waiter has lost its place, and enters the queue again. */
    const bool led = latch->place == ZK_LEADS;
    go_to(latch, led ? ZK_REVOKED : ZK_ABSENT);
    invariant(latch);
    return led ? ZK_ALERT_REVOKED : ZK_ALERT_LOOK;
}
