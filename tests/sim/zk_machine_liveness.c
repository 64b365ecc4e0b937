/* zk_liveness, as it ships, and an ensemble. The client has a connection to one of two servers that follow a leader. A server hears
 * of the session with each beat, and tells the leader so with its reports, which come within half of a tick of each other: a quarter
 * of the timeout, because the timeout is two ticks. (When half of a tick is over, it reports before it hears anything else.) The leader ends the session when it was not told of it for the timeout. Servers
 * die, and with them what they have not reported. Leaders are replaced: the new one gives every session the whole timeout, and a server
 * that stays with the old one goes on answering handshakes and agrees to nothing.
 *
 * S1: the client never believes in its session when the leader may have ended it. L3: when all is well again, it has a session that is
 * proven as often as it should be. */
#include <string.h>

#include "sim/machine.h"
#include "stores/zookeeper/liveness.h"
#include "util/clock.h"

enum { SERVERS = 2, STEP_MS = 1000, NO_SERVER = SERVERS };
#define STEP_NS (STEP_MS * SIMBA__NS_PER_MS)
#define NOW_NS INT64_C(1000000000000) /* what the clock shows in the normal form */

/* In the order of the table at the end. */
enum { KILLS, BREAKS, CHANGES, DELAYS, PAUSES, GRAIN };

typedef enum handshake { NO_HANDSHAKE, SHAKE_SENT, SHAKE_GOOD, SHAKE_OVER } handshake;

typedef struct server {
    bool is_up, is_behind; /* behind: with a leader that was replaced */
    bool has_heard;        /* of the session, since its last report */
    int64_t reported_ns;
} server;

typedef struct world {
    machine_head head;
    uint8_t left[GRAIN]; /* of what the bounds allow */
    bool is_healed;
    bool has_session; /* the ensemble knows one */
    bool is_linked;   /* the server at the other end knows of the connection */
    uint8_t server;   /* to which it is, or was */
    uint8_t handshake;
    uint8_t sent, heard, agreed; /* beats: on the way to the server; with it; answered, and on the way back */
    int64_t now_ns, expires_ns;
    server servers[SERVERS];
    zk_liveness live;
} world;

typedef enum choice_kind {
    CHOICE_TICK,
    CHOICE_REPORT,
    CHOICE_ATTEMPT,
    CHOICE_MADE,
    CHOICE_SHAKE, /* the server hears the handshake */
    CHOICE_WELCOME,
    CHOICE_BEAT,
    CHOICE_GIVE_UP,
    CHOICE_HEAR,
    CHOICE_AGREE,
    CHOICE_ANSWER,
    CHOICE_LEARN, /* that the connection is gone */
    CHOICE_BREAK,
    CHOICE_KILL,
    CHOICE_RESTART,
    CHOICE_REPLACE, /* the leader */
    CHOICE_REJOIN,
    CHOICE_EXPIRE,
} choice_kind;

static int64_t quarter_ns(const world *w)
{
    return w->head.bounds[GRAIN] * STEP_NS;
}

static int64_t timeout_ns(const world *w)
{
    return 4 * quarter_ns(w);
}

static simba_local now(const world *w)
{
    return (simba_local){w->now_ns};
}

static bool follows(const server *s)
{
    return s->is_up && !s->is_behind;
}

static bool has_to_report(const world *w, const server *s)
{
    return follows(s) && w->now_ns - s->reported_ns >= quarter_ns(w);
}

/* --- choices -------------------------------------------------------------------------------------------- */

static bool can_shake(const world *w)
{
    return w->handshake == SHAKE_SENT && w->is_linked && (w->live.has_session || !w->servers[w->server].is_behind);
}

static bool can_agree(const world *w)
{
    return w->heard > 0 && w->is_linked && !w->servers[w->server].is_behind && w->has_session;
}

/* Something would happen if messages did not take their time. */
static bool is_under_way(const world *w)
{
    return (w->is_linked && (w->live.link == ZK_CONNECTING || w->sent > 0)) || can_shake(w) || can_agree(w) ||
           w->agreed > 0 || w->handshake > SHAKE_SENT;
}

static bool has_to_act(const world *w)
{
    bool can_attempt = false;
    for (unsigned i = 0; i < SERVERS; i++)
        can_attempt |= w->servers[i].is_up;
    return w->live.link == ZK_APART ? can_attempt : simba__zk_live_advise(&w->live, now(w)) != ZK_WAIT;
}

static bool may_tick(const world *w)
{
    for (unsigned i = 0; i < SERVERS; i++)
        if (has_to_report(w, &w->servers[i]))
            return false;
    return (!is_under_way(w) || w->left[DELAYS] > 0) && (!has_to_act(w) || w->left[PAUSES] > 0);
}

static void add_of_client(const world *w, machine_list *l)
{
    const zk_link link = w->live.link;
    const zk_advice advice = link == ZK_APART ? ZK_WAIT : simba__zk_live_advise(&w->live, now(w));
    for (unsigned i = 0; i < SERVERS; i++)
        machine_add(l, link == ZK_APART && w->servers[i].is_up, CHOICE_ATTEMPT, 0, i);
    machine_add(l, advice == ZK_SEND_BEAT, CHOICE_BEAT, 0, 0);
    machine_add(l, advice == ZK_GIVE_UP, CHOICE_GIVE_UP, 0, 0);
    machine_add(l, link != ZK_APART && !w->is_linked, CHOICE_LEARN, 0, 0);
    machine_add(l, link == ZK_CONNECTING && w->is_linked, CHOICE_MADE, 0, 0);
    machine_add(l, w->handshake > SHAKE_SENT, CHOICE_WELCOME, 0, 0);
    machine_add(l, w->agreed > 0, CHOICE_ANSWER, 0, 0);
}

static void add_of_servers(const world *w, machine_list *l)
{
    machine_add(l, can_shake(w), CHOICE_SHAKE, 0, 0);
    machine_add(l, w->is_linked && w->sent > 0 && !has_to_report(w, &w->servers[w->server]), CHOICE_HEAR, 0, 0);
    machine_add(l, can_agree(w), CHOICE_AGREE, 0, 0);
    for (unsigned i = 0; i < SERVERS; i++) {
        const server *s = &w->servers[i];
        machine_add(l,
                    follows(s) && s->reported_ns < w->now_ns && (s->has_heard || !w->is_healed || has_to_report(w, s)),
                    CHOICE_REPORT, 0, i);
        machine_add(l, !s->is_up, CHOICE_RESTART, 0, i);
        machine_add(l, s->is_up && s->is_behind, CHOICE_REJOIN, 0, i);
    }
    machine_add(l, w->has_session && w->now_ns >= w->expires_ns, CHOICE_EXPIRE, 0, 0);
}

static void add_faults(const world *w, machine_list *l)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        machine_add(l, w->left[KILLS] > 0 && w->servers[i].is_up, CHOICE_KILL, 0, i);
        machine_add(l, w->left[CHANGES] > 0 && follows(&w->servers[i]), CHOICE_REPLACE, 0, i);
    }
    machine_add(l, w->left[CHANGES] > 0, CHOICE_REPLACE, 0, NO_SERVER);
    machine_add(l, w->left[BREAKS] > 0 && w->live.link != ZK_APART && w->is_linked, CHOICE_BREAK, 0, 0);
}

static unsigned choices(const void *of, choice *ret_choices)
{
    const world *w = of;
    machine_list l = {ret_choices, 0};
    add_of_client(w, &l);
    add_of_servers(w, &l);
    add_faults(w, &l);
    machine_add(&l, may_tick(w), CHOICE_TICK, 0, 0);
    return l.count;
}

/* --- what happens --------------------------------------------------------------------------------------- */

/* The server forgets the connection, and what it has not answered. What it has answered is on its way. */
static void unlink_client(world *w)
{
    w->is_linked = false;
    w->sent = w->heard = 0;
    if (w->handshake == SHAKE_SENT)
        w->handshake = NO_HANDSHAKE;
}

static void unlink_from(world *w, unsigned index)
{
    if (w->is_linked && w->server == index)
        unlink_client(w);
}

static void lose(world *w)
{
    unlink_client(w);
    w->handshake = NO_HANDSHAKE;
    w->agreed = 0;
    simba__zk_live_lose(&w->live);
}

/* Everybody's time begins anew. */
static void renew(world *w)
{
    w->expires_ns = w->now_ns + timeout_ns(w);
}

static void join(world *w, unsigned index)
{
    server *s = &w->servers[index];
    unlink_from(w, index);
    s->is_up = true;
    s->is_behind = s->has_heard = false;
    s->reported_ns = w->now_ns;
}

static void tick(world *w)
{
    w->left[DELAYS] -= is_under_way(w);
    w->left[PAUSES] -= has_to_act(w);
    w->now_ns += STEP_NS;
    w->head.at_ms += STEP_MS;
}

static void report(world *w, unsigned index)
{
    server *s = &w->servers[index];
    machine_tell(&w->head, "server %u reports%s", index + 1, s->has_heard ? " the session" : "");
    if (s->has_heard && w->has_session)
        renew(w);
    s->has_heard = false;
    s->reported_ns = w->now_ns;
}

static void attempt(world *w, unsigned index)
{
    machine_tell(&w->head, "the client connects to server %u", index + 1);
    simba__zk_live_attempt(&w->live, now(w));
    w->server = (uint8_t)index;
    w->is_linked = true;
}

static void shake(world *w)
{
    const server *s = &w->servers[w->server];
    if (w->live.has_session && (s->is_behind || w->has_session)) {
        w->handshake = SHAKE_GOOD; /* a leader that was replaced renews what nobody else goes by */
        if (!s->is_behind)
            renew(w);
    } else if (w->live.has_session) {
        w->handshake = SHAKE_OVER;
    } else {
        w->handshake = SHAKE_GOOD;
        w->has_session = true;
        renew(w);
    }
    machine_tell(&w->head, "server %u answers the handshake%s", w->server + 1,
                 w->handshake == SHAKE_OVER ? ": the session is over" : "");
}

static void welcome(world *w)
{
    const bool over = w->handshake == SHAKE_OVER;
    w->handshake = NO_HANDSHAKE;
    machine_tell(&w->head, over ? "the client hears that the session is over" : "the client is connected");
    if (over) {
        lose(w);
        simba__zk_live_begin(&w->live, timeout_ns(w) / SIMBA__NS_PER_MS);
    } else {
        simba__zk_live_connect(&w->live, now(w), timeout_ns(w) / SIMBA__NS_PER_MS);
    }
}

static void replace(world *w, unsigned stays)
{
    machine_tell(&w->head, "the leader is replaced%s",
                 stays == 0   ? ", server 1 stays with it"
                 : stays == 1 ? ", server 2 stays with it"
                              : "");
    w->left[CHANGES]--;
    for (unsigned i = 0; i < SERVERS; i++)
        if (i == stays)
            w->servers[i].is_behind = true;
        else if (follows(&w->servers[i]))
            join(w, i);
    if (w->has_session)
        renew(w);
}

static void kill(world *w, unsigned index)
{
    server *s = &w->servers[index];
    machine_tell(&w->head, "server %u dies", index + 1);
    w->left[KILLS]--;
    unlink_from(w, index);
    s->is_up = s->is_behind = s->has_heard = false;
}

static void check(world *w)
{
    const bool believes = w->live.has_session && w->now_ns < w->live.proven.ns + timeout_ns(w);
    if (believes && !w->has_session)
        machine_broken(&w->head, "S1", "the client believes in a session that is over");
    else if (believes && w->now_ns >= w->expires_ns)
        machine_broken(&w->head, "S1",
                       "the client believes in its session for %lld ms more, and the leader may end it now",
                       (long long)((w->live.proven.ns + timeout_ns(w) - w->now_ns) / SIMBA__NS_PER_MS));
}

static void choose(void *of, choice what)
{
    world *w = of;
    server *s = &w->servers[w->server];
    switch ((choice_kind)what.kind) {
    case CHOICE_TICK:
        tick(w);
        break;
    case CHOICE_REPORT:
        report(w, what.slot);
        break;
    case CHOICE_ATTEMPT:
        attempt(w, what.slot);
        break;
    case CHOICE_MADE:
        simba__zk_live_greet(&w->live, now(w));
        w->handshake = SHAKE_SENT;
        break;
    case CHOICE_SHAKE:
        shake(w);
        break;
    case CHOICE_WELCOME:
        welcome(w);
        break;
    case CHOICE_BEAT:
        machine_tell(&w->head, "the client sends a beat");
        simba__zk_live_beat(&w->live, now(w));
        w->sent += w->is_linked;
        break;
    case CHOICE_GIVE_UP:
    case CHOICE_LEARN:
    case CHOICE_BREAK:
        machine_tell(&w->head,
                     what.kind == CHOICE_GIVE_UP ? "the client gives its connection up" : "the connection breaks");
        w->left[BREAKS] -= what.kind == CHOICE_BREAK;
        lose(w);
        break;
    case CHOICE_HEAR:
        machine_tell(&w->head, "server %u hears a beat", w->server + 1);
        w->sent--;
        w->heard++;
        s->has_heard = true;
        break;
    case CHOICE_AGREE:
        w->heard--;
        w->agreed++;
        break;
    case CHOICE_ANSWER:
        machine_tell(&w->head, "the client has the answer to a beat");
        w->agreed--;
        simba__zk_live_answer(&w->live, now(w), w->live.connection, ZK_ANSWER_AGREED);
        break;
    case CHOICE_KILL:
        kill(w, what.slot);
        break;
    case CHOICE_RESTART:
    case CHOICE_REJOIN:
        machine_tell(&w->head, "server %u follows", what.slot + 1U);
        join(w, what.slot);
        break;
    case CHOICE_REPLACE:
        replace(w, what.slot);
        break;
    case CHOICE_EXPIRE:
        machine_tell(&w->head, "the leader ends the session");
        w->has_session = false;
        if (w->is_linked && !s->is_behind)
            unlink_client(w);
        break;
    }
    check(w);
}

/* --- one form for all that are alike -------------------------------------------------------------------- */

static void set_back(int64_t *at, int64_t shift, int64_t floor)
{
    *at = *at - shift < floor ? floor : *at - shift;
}

/* A beat that cannot prove more than is proven is as good as none. */
static void forget_beats(zk_liveness *live)
{
    simba_local beats[ZK_BEATS] = {{0}}, answers[ZK_BEATS] = {{0}};
    unsigned long long first = live->sent > ZK_BEATS ? live->sent - ZK_BEATS : 0;
    while (first < live->answered && live->beats[first % ZK_BEATS].ns <= live->proven.ns)
        first++;
    for (unsigned long long i = first; i < live->sent; i++) {
        beats[i - first] = live->beats[i % ZK_BEATS];
        if (i < live->answered)
            answers[i - first] = live->answers[i % ZK_BEATS];
    }
    live->sent -= first;
    live->answered -= first;
    memcpy(live->beats, beats, sizeof beats);
    memcpy(live->answers, answers, sizeof answers);
}

static void normalise_live(world *w, int64_t shift)
{
    zk_liveness *live = &w->live;
    const int64_t oldest = NOW_NS - 2 * timeout_ns(w);
    set_back(&live->attempt.ns, shift, oldest);
    set_back(&live->greeted.ns, shift, oldest);
    set_back(&live->proven.ns, shift, oldest);
    set_back(&live->beat_at.ns, shift, NOW_NS);
    for (unsigned i = 0; i < ZK_BEATS; i++) {
        set_back(&live->beats[i].ns, shift, oldest);
        set_back(&live->answers[i].ns, shift, oldest);
    }
    live->seen.ns = NOW_NS;
    live->connection = live->connection > 0;
    if (live->link == ZK_APART || (live->link == ZK_CONNECTED && live->attempt.ns <= live->proven.ns))
        live->attempt.ns = oldest;
    if (live->link != ZK_GREETING)
        live->greeted.ns = oldest;
    if (live->link != ZK_CONNECTED)
        live->beat_at.ns = NOW_NS;
    forget_beats(live);
}

static void normalise(void *of)
{
    world *w = of;
    const int64_t shift = w->now_ns - NOW_NS;
    w->now_ns = NOW_NS;
    set_back(&w->expires_ns, shift, NOW_NS);
    if (!w->has_session)
        w->expires_ns = NOW_NS;
    for (unsigned i = 0; i < SERVERS; i++) {
        set_back(&w->servers[i].reported_ns, shift, NOW_NS - quarter_ns(w));
        if (!follows(&w->servers[i]))
            w->servers[i].reported_ns = NOW_NS;
    }
    normalise_live(w, shift);
    if (w->live.link == ZK_APART)
        w->server = 0;
}

/* --- when all is well ----------------------------------------------------------------------------------- */

static void heal(world *w)
{
    memset(w->left, 0, sizeof w->left);
    w->is_healed = true;
    for (unsigned i = 0; i < SERVERS; i++)
        if (!follows(&w->servers[i]))
            join(w, i);
}

/* All that can happen happens at once, and then time goes on. */
static void future(const void *of, void *ret_future)
{
    world *w = ret_future;
    choice all[SEARCH_CHOICES];
    unsigned ticks = 6 * 4 * ((const world *)of)->head.bounds[GRAIN];
    memcpy(w, of, sizeof *w);
    heal(w);
    while (!w->head.promise) {
        choices(w, all);
        if (all[0].kind == CHOICE_TICK && ticks-- == 0)
            break;
        choose(w, all[0]);
    }
    if (w->head.promise)
        return;
    if (w->live.link != ZK_CONNECTED || !w->has_session)
        machine_broken(&w->head, "L3", "all is well, and the client has no connection");
    else if (w->now_ns - w->live.proven.ns > timeout_ns(w) / 2)
        machine_broken(&w->head, "L3", "all is well, and what is proven is %lld ms old",
                       (long long)((w->now_ns - w->live.proven.ns) / SIMBA__NS_PER_MS));
}

/* --- the beginning -------------------------------------------------------------------------------------- */

static void begin(void *of)
{
    world *w = of;
    for (unsigned i = 0; i < GRAIN; i++)
        w->left[i] = (uint8_t)w->head.bounds[i];
    w->now_ns = NOW_NS;
    for (unsigned i = 0; i < SERVERS; i++)
        join(w, i);
    simba__zk_live_begin(&w->live, timeout_ns(w) / SIMBA__NS_PER_MS);
}

const machine machine_zk_liveness = {
    .name = "zk-liveness",
    .bounds = {[KILLS] = {"kills", 1, 9},
               [BREAKS] = {"breaks", 1, 9},
               [CHANGES] = {"changes", 1, 9},
               [DELAYS] = {"delays", 2, 9},
               [PAUSES] = {"pauses", 1, 9},
               [GRAIN] = {"grain", 1, 4}},
    .size = sizeof(world),
    .begin = begin,
    .choices = choices,
    .choose = choose,
    .normalise = normalise,
    .future = future,
};
