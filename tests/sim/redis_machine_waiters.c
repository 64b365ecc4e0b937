/* Redis' waiters (waiters.c) and scripts, as they ship, of two clients or three, and one mutex. A client has one contender or two. It
 * asks on one connection and listens on another, each in order; the two overtake each other, and break apart from each other. An answer
 * may come when nobody waits for it any more (`expiries`), a grant may not count because too few replicas have it (`refusals`),
 * and a command on a connection that broke may reach the server late. Contenders enter (`enters`), lead and leave; waiters leave
 * (`leaves`); time goes on while something is under way (`delays`); messages are lost or repeated (`losses`, `repeats`). Nobody renews:
 * core is explored by explore.h.
 *
 * S1: who leads has the lock, so no other leads, and nothing that comes late has ended the grant. S3: tokens grow. From every world, when all
 * is well again: L1, somebody leads within a lease; L2, whoever waits stands in the queue or is invited, and when the leader leaves the next
 * one leads within a step of time; within a lease if a message was lost, or if a release came late: that one may have cost somebody its
 * place. */
#include <stdlib.h>
#include <string.h>

#include "sim/redis_machine.h"

enum { SETTLED = 400, LEASE_TICKS = 2 };

typedef enum choice_kind {
    CHOICE_DELIVER, /* the first answer; slot 1: the replicas do not confirm it */
    CHOICE_SERVE,   /* the first command */
    CHOICE_LISTEN,  /* the server takes what comes first on the other connection */
    CHOICE_HEAR,    /* and the client; slot 1: it is lost, 2: it comes once more */
    CHOICE_CONNECT, /* slot 0: to ask, 1: to listen */
    CHOICE_WAKE,    /* a contender, at its time */
    CHOICE_LOOK,    /* a listener, likewise: it tells its contender, or goes */
    CHOICE_TICK,
    CHOICE_ENTER,
    CHOICE_LEAVE,
    CHOICE_EXPIRE, /* the time of a request is over, and it is asked again */
    CHOICE_BREAK, /* the connection to ask on; slot: twice how many commands are carried out, and 1 if the next one comes late */
    CHOICE_DEAFEN, /* the other one */
    CHOICE_LATE,   /* what comes late comes */
} choice_kind;

/* --- choices -------------------------------------------------------------------------------------------------------- */

static bool is_due(const contender *k)
{
    return (k->phase == PHASE_SEEKS && !k->is_asking && k->wake_ms <= 0) ||
           (k->phase == PHASE_HOLDS && k->until_ms <= 0);
}

static bool is_idle(const kept_listener *l)
{
    return l->exists && !l->waits && l->idle_ms <= 0 && l->hearing != REDIS_ASKED;
}

/* All that happens by itself, but for time. */
static void add_work(const world *w, machine_list *l)
{
    for (unsigned i = 0; i < redis_machine_clients(w); i++) {
        const client *c = &w->client[i];
        bool all_fit = true;
        for (unsigned k = 0; k < redis_machine_clients(w); k++)
            all_fit &= w->client[k].messages + 3 <= SAID;
        machine_add(l, !c->has_commands, CHOICE_CONNECT, i, 0);
        machine_add(l, !c->has_pushes, CHOICE_CONNECT, i, 1);
        machine_add(l, c->calls > c->answered && all_fit, CHOICE_SERVE, i, 0);
        machine_add(l, c->answered > 0, CHOICE_DELIVER, i, 0);
        machine_add(l, c->listenings > 0 && c->messages < SAID, CHOICE_LISTEN, i, 0);
        machine_add(l, c->messages > 0, CHOICE_HEAR, i, 0);
    }
    for (unsigned i = 0; i < redis_machine_contenders(w); i++) {
        const contender *k = &w->contender[i];
        const bool fits = redis_machine_has_room(&w->client[redis_machine_client_of(w, i)]);
        const bool looks = k->listener.will_look && k->listener.look_ms <= 0;
        machine_add(l, is_due(k), CHOICE_WAKE, i, 0);
        machine_add(l, fits && (looks || is_idle(&k->listener)), CHOICE_LOOK, i, 0);
    }
}

static bool is_under_way(const world *w)
{
    for (unsigned i = 0; i < redis_machine_clients(w); i++)
        if (w->client[i].calls + w->client[i].listenings + w->client[i].messages > 0)
            return true;
    return false;
}

/* What is due happens before time goes on; and what is under way arrives, unless it is late. */
static bool may_tick(const world *w)
{
    if (is_under_way(w) && w->left[DELAYS] == 0)
        return false;
    for (unsigned i = 0; i < redis_machine_contenders(w); i++) {
        const kept_listener *l = &w->contender[i].listener;
        if (is_due(&w->contender[i]) || is_idle(l) || (l->will_look && l->look_ms <= 0))
            return false;
    }
    return true;
}

static void add_wishes(const world *w, machine_list *l)
{
    for (unsigned i = 0; i < redis_machine_contenders(w); i++) {
        const contender *k = &w->contender[i];
        const bool fits = redis_machine_has_room(&w->client[redis_machine_client_of(w, i)]);
        machine_add(l, fits && k->phase == PHASE_OUT && w->left[ENTERS] > 0, CHOICE_ENTER, i, 0);
        machine_add(l, fits && k->phase == PHASE_HOLDS, CHOICE_LEAVE, i, 0);
        machine_add(l, fits && k->phase == PHASE_SEEKS && !k->is_leaving && w->left[LEAVES] > 0, CHOICE_LEAVE, i, 0);
        machine_add(l, fits && k->is_asking && !k->is_pending && w->left[EXPIRIES] > 0, CHOICE_EXPIRE, i, 0);
    }
}

static void add_breaks(const world *w, machine_list *l, unsigned i)
{
    const client *c = &w->client[i];
    const unsigned open = c->calls - c->answered;
    for (unsigned n = 0; c->has_commands && c->calls > 0 && n <= open; n++) {
        machine_add(l, true, CHOICE_BREAK, i, 2 * n);
        machine_add(l, n < open && !w->has_late, CHOICE_BREAK, i, 2 * n + 1);
    }
    machine_add(l, c->has_pushes, CHOICE_DEAFEN, i, 0);
}

static unsigned choices(const void *of, choice *ret_choices)
{
    const world *w = of;
    machine_list l = {ret_choices, 0};
    add_work(w, &l);
    machine_add(&l, may_tick(w), CHOICE_TICK, 0, 0);
    add_wishes(w, &l);
    for (unsigned i = 0; i < redis_machine_clients(w); i++) {
        const client *c = &w->client[i];
        const bool is_grant = c->answered > 0 && c->call[0].is_wanted && c->call[0].outcome == OUTCOME_GRANTED;
        machine_add(&l, is_grant && w->left[REFUSALS] > 0, CHOICE_DELIVER, i, 1);
        machine_add(&l, c->messages > 0 && c->message[0].kind != CONFIRMED && w->left[LOSSES] > 0, CHOICE_HEAR, i, 1);
        machine_add(&l, c->messages > 0 && c->message[0].kind != CONFIRMED && w->left[REPEATS] > 0, CHOICE_HEAR, i, 2);
        if (w->left[BREAKS] > 0)
            add_breaks(w, &l, i);
    }
    machine_add(&l, w->has_late, CHOICE_LATE, 0, 0);
    return l.count;
}

static void check(world *w)
{
    const stored *store = &w->store;
    for (unsigned i = 0; i < redis_machine_contenders(w); i++) {
        const contender *k = &w->contender[i];
        if (k->phase != PHASE_HOLDS || k->until_ms <= 0)
            continue;
        if (!store->has_lock || store->lock_ends_ms < 0)
            machine_broken(&w->head, "S1", "%s leads, and to the server the mutex is free", redis_machine_id(i));
        else if (store->owner != i || store->incarnation != k->incarnation || store->id != i)
            machine_broken(&w->head, "S1", "%s leads, and to the server %s does", redis_machine_id(i),
                           redis_machine_id(store->owner));
    }
}

static const char *name_of_call(const call *what)
{
    static const char *const names[] = {"nothing", "acquire", "release"};
    return names[what->kind];
}

static void say(world *w, choice what)
{
    static const char *const heard[] = {"an invitation of", "that it stands by:", "that it hears:"};
    static const char *const fates[] = {"hears", "misses", "hears, and will hear again,"};
    static const char *const outcomes[] = {"", ": granted", ": refused"};
    const client *c = &w->client[what.member];
    const char *id = what.member < CONTENDERS ? redis_machine_id(what.member) : "";
    const unsigned number = what.member + 1U;
    if (!w->head.log)
        return;
    switch ((choice_kind)what.kind) {
    case CHOICE_DELIVER:
        machine_tell(&w->head, "client %u has the answer to %s of %s%s%s", number, name_of_call(&c->call[0]),
                     redis_machine_id(c->call[0].who), outcomes[c->call[0].outcome],
                     c->call[0].is_wanted ? what.slot ? ", which too few replicas have" : "" : ", which nobody wants");
        break;
    case CHOICE_SERVE:
        machine_tell(&w->head, "client %u: %s of %s is carried out", number, name_of_call(&c->call[c->answered]),
                     redis_machine_id(c->call[c->answered].who));
        break;
    case CHOICE_LISTEN:
        machine_tell(&w->head, "client %u: the server changes what it sends there", number);
        break;
    case CHOICE_HEAR:
        machine_tell(&w->head, "client %u %s %s %s", number, fates[what.slot], heard[c->message[0].kind],
                     redis_machine_id(c->message[0].who));
        break;
    case CHOICE_CONNECT:
        machine_tell(&w->head, "client %u is connected to %s", number, what.slot ? "listen" : "ask");
        break;
    case CHOICE_WAKE:
        machine_tell(&w->head, "it is time for %s", id);
        break;
    case CHOICE_LOOK:
        machine_tell(&w->head, "the time of %s's channel has come", id);
        break;
    case CHOICE_TICK:
        break;
    case CHOICE_ENTER:
        machine_tell(&w->head, "%s enters", id);
        break;
    case CHOICE_LEAVE:
        machine_tell(&w->head, "%s leaves", id);
        break;
    case CHOICE_EXPIRE:
        machine_tell(&w->head, "%s has waited for an answer for too long", id);
        break;
    case CHOICE_BREAK:
        machine_tell(&w->head, "client %u: the connection to ask on breaks, %u commands are carried out%s", number,
                     what.slot / 2U, what.slot % 2 ? ", the next one will come late" : "");
        break;
    case CHOICE_DEAFEN:
        machine_tell(&w->head, "client %u: the connection to listen on breaks", number);
        break;
    case CHOICE_LATE:
        machine_tell(&w->head, "%s of %s comes late", name_of_call(&w->late), redis_machine_id(w->late.who));
        break;
    }
}

static void hear_or_not(world *w, unsigned index, unsigned how)
{
    client *c = &w->client[index];
    if (how == 1) {
        w->left[LOSSES]--;
        w->is_forgiven = true;
    } else {
        redis_machine_hear(w, index);
    }
    if (how == 2)
        w->left[REPEATS]--;
    else
        redis_machine_drop_message(c);
}

static void choose(void *of, choice what)
{
    world *w = of;
    client *c = &w->client[what.member < CLIENTS ? what.member : 0];
    say(w, what);
    switch ((choice_kind)what.kind) {
    case CHOICE_DELIVER:
        redis_machine_deliver(w, what.member, what.slot == 0);
        break;
    case CHOICE_SERVE:
        redis_machine_run(w, &c->call[c->answered++]);
        break;
    case CHOICE_LISTEN:
        redis_machine_listen(w, what.member);
        break;
    case CHOICE_HEAR:
        hear_or_not(w, what.member, what.slot);
        break;
    case CHOICE_CONNECT:
        redis_machine_connect(w, what.member, what.slot == 1);
        break;
    case CHOICE_WAKE:
        redis_machine_come_to_time(w, what.member);
        break;
    case CHOICE_LOOK:
        redis_machine_happens(w, what.member, EVENT_TICK);
        break;
    case CHOICE_TICK:
        w->left[DELAYS] -= is_under_way(w) && w->left[DELAYS] > 0;
        redis_machine_tick(w);
        break;
    case CHOICE_ENTER:
        w->left[ENTERS]--;
        w->contender[what.member].phase = PHASE_SEEKS;
        redis_machine_ask(w, what.member);
        break;
    case CHOICE_LEAVE:
        redis_machine_leave(w, what.member);
        break;
    case CHOICE_EXPIRE:
        redis_machine_expire(w, what.member);
        break;
    case CHOICE_BREAK:
        redis_machine_break_off(w, what.member, what.slot / 2U, what.slot % 2 == 1);
        break;
    case CHOICE_DEAFEN:
        redis_machine_deafen(w, what.member);
        break;
    case CHOICE_LATE:
        w->is_forgiven |= w->late.kind == CALL_RELEASE;
        redis_machine_run(w, &w->late);
        w->has_late = false;
        memset(&w->late, 0, sizeof w->late);
        break;
    }
    check(w);
}

/* --- when all is well ------------------------------------------------------------------------------------------------- */

static void settle(world *w)
{
    for (unsigned n = 0; !w->head.promise; n++) {
        choice all[SEARCH_CHOICES];
        machine_list l = {all, 0};
        add_work(w, &l);
        if (l.count == 0)
            return;
        if (n == SETTLED)
            machine_broken(&w->head, "L1", "the clients do not come to rest");
        else
            choose(w, all[0]);
    }
}

/* NOBODY: there is none. */
static unsigned leader_of(const world *w)
{
    for (unsigned i = 0; i < redis_machine_contenders(w); i++)
        if (w->contender[i].phase == PHASE_HOLDS && w->contender[i].until_ms > 0)
            return i;
    return NOBODY;
}

static unsigned waiting(const world *w)
{
    unsigned count = 0;
    for (unsigned i = 0; i < redis_machine_contenders(w); i++)
        count += w->contender[i].phase == PHASE_SEEKS;
    return count;
}

static void await_leader(world *w, unsigned ticks, const char *promise)
{
    settle(w);
    for (unsigned n = 0; n < ticks && waiting(w) > 0 && leader_of(w) == NOBODY && !w->head.promise; n++) {
        choose(w, (choice){CHOICE_TICK, 0, 0});
        settle(w);
    }
    if (!w->head.promise && waiting(w) > 0 && leader_of(w) == NOBODY)
        machine_broken(&w->head, promise, "%u wait, and nobody leads", waiting(w));
}

static void check_queue(world *w)
{
    for (unsigned i = 0; i < redis_machine_contenders(w); i++) {
        bool stands = w->store.next == i || w->contender[i].phase != PHASE_SEEKS;
        for (unsigned k = 0; k < w->store.queued; k++)
            stands |= w->store.queue[k] == i;
        if (!stands)
            machine_broken(&w->head, "L2", "%s waits, and does not stand in the queue", redis_machine_id(i));
    }
}

static void future(const void *of, void *ret_future)
{
    world *w = ret_future;
    memcpy(w, of, sizeof *w);
    memset(w->left, 0, sizeof w->left);
    if (w->has_late)
        choose(w, (choice){CHOICE_LATE, 0, 0});
    await_leader(w, LEASE_TICKS + 1, "L1");
    for (unsigned n = 0; n <= CONTENDERS && waiting(w) > 0 && !w->head.promise; n++) {
        if (!w->is_forgiven)
            check_queue(w);
        if (w->head.promise)
            return;
        choose(w, (choice){CHOICE_LEAVE, (uint8_t)leader_of(w), 0});
        await_leader(w, w->is_forgiven ? LEASE_TICKS + 1 : 1, "L2");
    }
}

/* --- the beginning ---------------------------------------------------------------------------------------------------- */

static void begin(void *of)
{
    world *w = of;
    for (unsigned i = 0; i < BOUNDS; i++)
        w->left[i] = (uint8_t)w->head.bounds[i];
    w->store.next = NOBODY;
    w->store.incarnation = -1;
    for (unsigned i = 0; i < CLIENTS; i++)
        w->client[i].has_commands = w->client[i].has_pushes = true;
}

const machine machine_redis_waiters = {
    .name = "redis-waiters",
    .bounds = {[MEMBERS] = {"clients", 2, CLIENTS},
               [TWINS] = {"twins", 0, CLIENTS},
               [ENTERS] = {"enters", 3, 9},
               [DELAYS] = {"delays", 0, 9},
               [BREAKS] = {"breaks", 1, 9},
               [LEAVES] = {"leaves", 1, 9},
               [EXPIRIES] = {"expiries", 0, 9},
               [REFUSALS] = {"refusals", 0, 9},
               [LOSSES] = {"losses", 0, 9},
               [REPEATS] = {"repeats", 0, 9}},
    .size = sizeof(world),
    .begin = begin,
    .choices = choices,
    .choose = choose,
    .normalise = redis_machine_normalise,
    .future = future,
};
