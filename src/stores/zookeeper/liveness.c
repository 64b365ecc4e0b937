/* See liveness.h. */
#include "stores/zookeeper/liveness.h"

#include <stdlib.h>
#include <string.h>

#include "util/clock.h"

/* Parts of the timeout. */
enum {
    QUARTER = 4,       /* how long after its answer the leader knows of a beat; how long to wait for an answer */
    GREETING_PART = 5, /* for the handshake; and for a connection when waiting loses nothing */
    CONNECT_PART = 24, /* for a connection while there is: its first packet may be lost, and the kernel repeats it only
                          after a second */
    CONNECT_TIMES = 4, /* and this many times as long as the last one took */
};

/* --- what must always hold ----------------------------------------------------------------------------------- */

static bool is_sound(const zk_liveness *live)
{
    if (live->link > ZK_CONNECTED || live->timeout_ns <= 0 || live->answered > live->sent ||
        live->sent - live->answered > ZK_BEATS_UNANSWERED)
        return false;
    if (live->link != ZK_CONNECTED && live->sent > 0)
        return false; /* beats belong to their connection */
    if (live->link == ZK_CONNECTED && !live->has_session)
        return false;
    for (unsigned long long i = live->answered + 1; i < live->sent; i++)
        if (live->beats[i % ZK_BEATS].ns < live->beats[(i - 1) % ZK_BEATS].ns)
            return false;
    /* The proof was sent before the latest event. */
    return live->proven.ns <= live->seen.ns && live->attempt.ns <= live->seen.ns && live->greeted.ns <= live->seen.ns;
}

static void invariant(const zk_liveness *live)
{
    if (!is_sound(live))
        abort(); /* in every build: better no leader than two */
}

static void move(zk_liveness *live, zk_link to)
{
    static const bool allowed[][ZK_CONNECTED + 1] = {
        [ZK_APART] = {[ZK_APART] = true, [ZK_CONNECTING] = true},
        [ZK_CONNECTING] = {[ZK_APART] = true, [ZK_CONNECTING] = true, [ZK_GREETING] = true},
        [ZK_GREETING] = {[ZK_APART] = true, [ZK_CONNECTED] = true},
        [ZK_CONNECTED] = {[ZK_APART] = true},
    };
    if (!allowed[live->link][to])
        abort();
    live->link = to;
    if (to != ZK_CONNECTED)
        live->sent = live->answered = 0;
}

static void see(zk_liveness *live, simba_local now)
{
    if (now.ns > live->seen.ns)
        live->seen = now;
}

/* --- connections ---------------------------------------------------------------------------------------------- */

void simba__zk_live_begin(zk_liveness *live, int64_t timeout_ms)
{
    memset(live, 0, sizeof *live);
    live->timeout_ns = timeout_ms * SIMBA__NS_PER_MS;
    live->proven.ns = live->attempt.ns = live->greeted.ns = live->seen.ns = INT64_MIN / 2;
    invariant(live);
}

void simba__zk_live_attempt(zk_liveness *live, simba_local now)
{
    move(live, ZK_CONNECTING);
    see(live, now);
    live->attempt = now;
    invariant(live);
}

void simba__zk_live_greet(zk_liveness *live, simba_local now)
{
    move(live, ZK_GREETING);
    see(live, now);
    live->greeted = now;
    live->connect_ns = now.ns - live->attempt.ns;
    invariant(live);
}

void simba__zk_live_connect(zk_liveness *live, simba_local now, int64_t granted_ms)
{
    move(live, ZK_CONNECTED);
    see(live, now);
    if (!live->has_session)
        live->proven = live->attempt;
    /* The sooner a session that goes on is proven, the better. */
    const int64_t pause_ns = live->has_session ? 0 : granted_ms * SIMBA__NS_PER_MS / ZK_BEATS;
    live->has_session = true;
    live->connection++;
    live->timeout_ns = granted_ms * SIMBA__NS_PER_MS;
    live->beat_at.ns = now.ns + pause_ns;
    invariant(live);
}

void simba__zk_live_lose(zk_liveness *live)
{
    move(live, ZK_APART);
    invariant(live);
}

/* --- beats ------------------------------------------------------------------------------------------------------ */

static simba_local beat(const zk_liveness *live, unsigned long long number)
{
    return live->beats[number % ZK_BEATS];
}

unsigned simba__zk_live_beat(zk_liveness *live, simba_local now)
{
    see(live, now);
    live->beats[live->sent++ % ZK_BEATS] = now;
    live->beat_at.ns = now.ns + live->timeout_ns / ZK_BEATS;
    invariant(live);
    return live->connection;
}

static void prove(zk_liveness *live, simba_local at)
{
    if (at.ns > live->proven.ns)
        live->proven = at;
}

bool simba__zk_live_answer(zk_liveness *live, simba_local now, unsigned connection, zk_answer answer)
{
    if (connection != live->connection || live->link != ZK_CONNECTED || answer == ZK_ANSWER_LOST)
        return false; /* it was lost with its connection */
    if (live->answered == live->sent)
        abort();
    const unsigned long long number = live->answered++;
    see(live, now);
    live->answers[number % ZK_BEATS] = now;
    if (answer == ZK_ANSWER_AGREED) {
        prove(live, live->attempt);
        /* Find the latest beat that was answered long enough before this one was sent. */
        for (unsigned long long i = number; i > 0 && number - i < ZK_BEATS - 1; i--)
            if (live->answers[(i - 1) % ZK_BEATS].ns + live->timeout_ns / QUARTER <= beat(live, number).ns) {
                prove(live, beat(live, i - 1));
                break;
            }
    }
    invariant(live);
    return answer == ZK_ANSWER_AGREED;
}

/* --- advice ------------------------------------------------------------------------------------------------------ */

/* How long to wait for a connection to be made: not long while the session may still be saved. */
static int64_t connect_timeout_ns(const zk_liveness *live)
{
    const int64_t most = live->timeout_ns / GREETING_PART;
    const int64_t least = live->timeout_ns / CONNECT_PART;
    const int64_t usual = live->connect_ns < most / CONNECT_TIMES ? live->connect_ns * CONNECT_TIMES : most;
    const bool hopeless = live->attempt.ns - live->proven.ns >= live->timeout_ns;
    return hopeless ? most : usual > least ? usual : least;
}

/* When to give this connection up for another one, as things are. */
static simba_local give_up_at(const zk_liveness *live)
{
    switch (live->link) {
    case ZK_APART:
        break;
    case ZK_CONNECTING:
        return (simba_local){live->attempt.ns + connect_timeout_ns(live)};
    case ZK_GREETING:
        return (simba_local){live->greeted.ns + live->timeout_ns / GREETING_PART};
    case ZK_CONNECTED:
        if (live->sent > live->answered)
            return (simba_local){beat(live, live->answered).ns + live->timeout_ns / QUARTER};
        break;
    }
    return (simba_local){INT64_MAX};
}

static bool wants_beat(const zk_liveness *live)
{
    return live->link == ZK_CONNECTED && live->sent - live->answered < ZK_BEATS_UNANSWERED;
}

zk_advice simba__zk_live_advise(const zk_liveness *live, simba_local now)
{
    if (now.ns >= give_up_at(live).ns)
        return ZK_GIVE_UP;
    return wants_beat(live) && now.ns >= live->beat_at.ns ? ZK_SEND_BEAT : ZK_WAIT;
}

simba_local simba__zk_live_next(const zk_liveness *live)
{
    const simba_local end = give_up_at(live);
    return wants_beat(live) && live->beat_at.ns < end.ns ? live->beat_at : end;
}
