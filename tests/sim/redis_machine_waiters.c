/* Redis' waiters (waiters.c) and scripts, as they ship, of two clients or three, and one mutex. A client has one contender or two. It
 * asks on one connection and listens on another, each in order; the two overtake each other, and break apart from each other. An answer
 * may come when nobody waits for it any more (`cancels`), a grant may be given back because too few replicas have it (`refusals`),
 * and a command on a connection that broke may reach the server late. Contenders enter (`enters`), lead and leave; waiters leave (`leaves`); time goes on while something
 * is under way (`delays`); messages
 * are lost or repeated (`losses`, `repeats`); and half a day goes by (`days`). Nobody renews: core is explored by explore.h. In place of
 * session.c, which keeps pointers, a few lines here do as it does.
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
    CHOICE_LOOK,    /* the waiters, likewise */
    CHOICE_FORGET,  /* a subscription that nobody needs */
    CHOICE_TICK,
    CHOICE_ENTER,
    CHOICE_LEAVE,
    CHOICE_CANCEL, /* a request is given up, and asked again */
    CHOICE_BREAK, /* the connection to ask on; slot: twice how many commands are carried out, and 1 if the next one comes late */
    CHOICE_DEAFEN, /* the other one */
    CHOICE_LATE,   /* what comes late comes */
    CHOICE_JUMP,   /* half a day goes by, in which holders renew */
} choice_kind;

static const simba_local now = {INT64_C(1000000000000)};

static client *client_of(world *w, unsigned who)
{
    return &w->client[redis_machine_client_of(w, who)];
}

/* --- connections ------------------------------------------------------------------------------------------------ */

static bool is_room(const client *c)
{
    return c->calls + CONTENDERS <= CALLS && c->listenings + 3 <= SAID && c->messages + 3 <= SAID;
}

static void put(client *c, const call *what)
{
    if (c->calls == CALLS)
        abort();
    c->call[c->calls++] = *what;
}

static void drop_call(client *c)
{
    memmove(&c->call[0], &c->call[1], --c->calls * sizeof *c->call);
    memset(&c->call[c->calls], 0, sizeof *c->call);
    c->answered--;
}

static void put_listening(client *c, listening_kind kind, unsigned to)
{
    if (!c->has_pushes)
        return;
    if (c->listenings == SAID)
        abort();
    c->listening[c->listenings++] = (listening){(uint8_t)kind, (uint8_t)to};
}

/* --- what the waiters decide, as subs.c carries it out ------------------------------------------------------------ */

typedef enum event {
    EVENT_WATCH,
    EVENT_UNWATCH,
    EVENT_WOKEN,
    EVENT_WAITS,
    EVENT_GRANTED,
    EVENT_LEFT,
    EVENT_UP,
    EVENT_CONFIRMED,
    EVENT_DOWN,
    EVENT_MOVED,
    EVENT_NEWS,
    EVENT_INVITATION,
    EVENT_STANDBY,
    EVENT_LOOK,
} event;

static void ask(world *w, unsigned who);

/* Also if it is under way: then it asks once more. */
static void ask_again(world *w, unsigned who)
{
    contender *k = &w->contender[who];
    if (k->is_asking)
        k->is_kicked = true;
    else
        ask(w, who);
}

/* To the first that can use it, as core/delivery.h says. */
static void push(world *w, unsigned index, bool is_release)
{
    for (unsigned who = 0; who < redis_machine_contenders(w); who++) {
        contender *k = &w->contender[who];
        if (redis_machine_client_of(w, who) != index || k->phase != PHASE_SEEKS || k->is_leaving || !k->knows)
            continue;
        if (is_release)
            k->knows = false;
        ask_again(w, who);
        return;
    }
}

static unsigned all_of(const kept_waiters *waiters)
{
    unsigned all = waiters->is_observed ? TO_NEWS : 0;
    for (unsigned i = 0; i < waiters->entries; i++)
        all |= 1U << waiters->entry[i].who;
    return all;
}

/* A command of our own, whose answer nobody wants: it is not sent without a connection. */
static void queue_up(client *c, unsigned mask)
{
    for (unsigned who = 0; who < CONTENDERS; who++)
        if (c->has_commands && mask & 1U << who)
            put(c, &(call){.kind = CALL_REJOIN, .who = (uint8_t)who});
}

static unsigned decide(redis_waiters *waiters, event what, unsigned who, int8_t incarnation)
{
    const char *id = redis_machine_id(who);
    const uint64_t nonce = redis_machine_nonce(who, incarnation);
    switch (what) {
    case EVENT_WATCH:
        return simba__redis_waiters_watch(waiters);
    case EVENT_UNWATCH:
        return simba__redis_waiters_unwatch(waiters, now);
    case EVENT_WOKEN:
        return simba__redis_waiters_woken(waiters);
    case EVENT_WAITS:
        return simba__redis_waiters_waits(waiters, id, nonce);
    case EVENT_GRANTED:
    case EVENT_LEFT:
        return simba__redis_waiters_left(waiters, id, nonce, what == EVENT_GRANTED);
    case EVENT_UP:
        return simba__redis_waiters_up(waiters);
    case EVENT_CONFIRMED:
        return simba__redis_waiters_confirmed(waiters);
    case EVENT_DOWN:
        return simba__redis_waiters_down(waiters);
    case EVENT_MOVED:
        return simba__redis_waiters_moved(waiters);
    case EVENT_NEWS:
        return simba__redis_waiters_news(waiters);
    case EVENT_INVITATION:
        return simba__redis_waiters_invitation(waiters, id);
    case EVENT_STANDBY:
        return simba__redis_waiters_standby(waiters, now, 0);
    case EVENT_LOOK:
        return simba__redis_waiters_look(waiters);
    }
    return 0;
}

static void happens_to(world *w, unsigned index, event what, unsigned who, int8_t incarnation)
{
    client *c = &w->client[index];
    redis_waiters waiters;
    unsigned put_back = 0;
    if (!c->waiters.exists && what != EVENT_WATCH && what != EVENT_WAITS)
        return;
    if (c->waiters.exists)
        redis_machine_wake(&c->waiters, now, &waiters);
    else
        simba__redis_waiters_init(&waiters, now);
    const unsigned actions = decide(&waiters, what, who, incarnation);
    redis_waiter *waiter = actions & REDIS_QUEUE_UP ? simba__redis_waiters_queue_up(waiters.first) : NULL;
    for (; waiter; waiter = simba__redis_waiters_queue_up(waiter->next))
        put_back |= 1U << (waiter->id[0] - 'a');
    redis_machine_lay_down(&waiters, now, &c->waiters);
    if (actions & REDIS_SUBSCRIBE)
        put_listening(c, LISTEN, all_of(&c->waiters));
    if (actions & REDIS_SUBSCRIBE_NEWS)
        put_listening(c, LISTEN, TO_NEWS);
    if (actions & REDIS_SUBSCRIBE_ID)
        put_listening(c, LISTEN, 1U << who);
    if (actions & REDIS_CONFIRM)
        put_listening(c, PING, 0);
    if (actions & REDIS_UNSUBSCRIBE)
        put_listening(c, LISTEN_NO_MORE, all_of(&c->waiters));
    if (actions & REDIS_UNSUBSCRIBE_ID)
        put_listening(c, LISTEN_NO_MORE, 1U << who);
    queue_up(c, put_back);
    if (actions & REDIS_TELL_CHANGED)
        push(w, index, false);
    if (actions & REDIS_TELL_RELEASED)
        push(w, index, true);
    if (actions & REDIS_TELL_ID && w->contender[who].phase == PHASE_SEEKS && !w->contender[who].is_leaving)
        ask_again(w, who);
}

static void happens(world *w, unsigned index, event what)
{
    happens_to(w, index, what, 0, 0);
}

/* The end of a turn: does anybody want to hear of it? */
static void end_turn(world *w, unsigned index)
{
    client *c = &w->client[index];
    bool wants = false;
    for (unsigned who = 0; who < redis_machine_contenders(w); who++)
        wants |= redis_machine_client_of(w, who) == index && w->contender[who].phase == PHASE_SEEKS &&
                 w->contender[who].knows;
    if (wants != c->watches) {
        c->watches = wants;
        happens(w, index, wants ? EVENT_WATCH : EVENT_UNWATCH);
        if (wants && c->has_pushes)
            happens(w, index, EVENT_UP);
    }
    if (c->waiters.exists && c->waiters.interest == REDIS_DUE) {
        happens(w, index, EVENT_WOKEN);
        end_turn(w, index);
    }
}

/* --- contenders --------------------------------------------------------------------------------------------------- */

static uint8_t whose_invitation(kept_waiters *waiters, bool is_named)
{
    redis_waiters copy;
    if (!waiters->exists)
        return 0;
    redis_machine_wake(waiters, now, &copy);
    const char *invited = simba__redis_waiters_invited(&copy);
    const uint8_t here = invited[0] ? (uint8_t)(2 + invited[0] - 'a') : 1;
    if (is_named)
        simba__redis_waiters_named(&copy);
    redis_machine_lay_down(&copy, now, waiters);
    return here;
}

static void send(world *w, unsigned who)
{
    contender *k = &w->contender[who];
    client *c = client_of(w, who);
    k->is_pending = !c->has_commands;
    if (k->is_pending)
        return;
    const bool leaves = k->phase == PHASE_LEAVES;
    put(c, &(call){.kind = leaves ? CALL_RELEASE : CALL_ACQUIRE,
                   .who = (uint8_t)who,
                   .here = whose_invitation(&c->waiters, !leaves),
                   .is_wanted = true,
                   .incarnation = k->incarnation,
                   .token = k->token});
    if (leaves)
        happens_to(w, redis_machine_client_of(w, who), EVENT_LEFT, who, k->incarnation);
}

static void ask(world *w, unsigned who)
{
    contender *k = &w->contender[who];
    k->is_asking = true;
    k->is_kicked = false;
    send(w, who);
}

static void give_back(world *w, unsigned who)
{
    w->contender[who].phase = PHASE_LEAVES;
    w->contender[who].is_leaving = false;
    ask(w, who);
}

static void won(world *w, unsigned who, const call *answer)
{
    contender *k = &w->contender[who];
    k->token = answer->token;
    k->until_ms = (int16_t)(HELD_MS + answer->asked_ms);
    if (k->until_ms <= 0 || k->is_leaving) {
        give_back(w, who);
        return;
    }
    k->phase = PHASE_HOLDS;
    machine_tell(&w->head, "%s leads", redis_machine_id(who));
    if (k->token <= w->token)
        machine_broken(&w->head, "S3", "%s leads under a token that is not greater than the one before",
                       redis_machine_id(who));
    w->token = k->token;
}

static void lost(world *w, unsigned who, const call *answer)
{
    contender *k = &w->contender[who];
    k->knows = answer->is_owned;
    k->wake_ms = answer->is_owned ? answer->ends_ms : 1;
    if (k->is_leaving)
        give_back(w, who);
    else if (k->is_kicked)
        ask(w, who);
}

/* Nobody knows whether it was carried out. */
static void failed(world *w, unsigned who)
{
    contender *k = &w->contender[who];
    k->is_asking = false;
    if (k->phase == PHASE_SEEKS && k->is_leaving)
        give_back(w, who);
    else if (k->phase == PHASE_LEAVES)
        ask(w, who);
    else
        k->wake_ms = 0;
}

static void pass(world *w, int16_t ms);

static void deliver(world *w, unsigned index, bool is_confirmed)
{
    client *c = &w->client[index];
    const call answer = c->call[0];
    const unsigned who = answer.who;
    contender *k = &w->contender[who];
    drop_call(c);
    if (!answer.is_wanted)
        return;
    if (answer.kind == CALL_RELEASE) {
        k->is_asking = false;
        k->phase = PHASE_OUT;
        k->incarnation++;
        return;
    }
    happens_to(w, index, answer.outcome == OUTCOME_GRANTED ? EVENT_GRANTED : EVENT_WAITS, who, answer.incarnation);
    if (!is_confirmed) {
        w->left[REFUSALS]--;
        put(c,
            &(call){
                .kind = CALL_RETURN, .who = answer.who, .incarnation = answer.incarnation, .ends_ms = answer.ends_ms});
        pass(w, 1); /* before it asks again, so that its next grant ends later */
        failed(w, who);
        return;
    }
    k->is_asking = false;
    if (answer.outcome == OUTCOME_GRANTED)
        won(w, who, &answer);
    else
        lost(w, who, &answer);
}

static void hear(world *w, unsigned index)
{
    const message what = w->client[index].message[0];
    switch ((message_kind)what.kind) {
    case INVITATION:
        happens_to(w, index, EVENT_INVITATION, what.who, 0);
        break;
    case STANDBY:
        happens(w, index, EVENT_STANDBY);
        break;
    case NEWS:
        happens(w, index, EVENT_NEWS);
        break;
    case PONG:
        happens(w, index, EVENT_CONFIRMED);
        break;
    }
}

static void drop_message(client *c)
{
    memmove(&c->message[0], &c->message[1], --c->messages * sizeof *c->message);
    memset(&c->message[c->messages], 0, sizeof *c->message);
}

static void listen(client *c)
{
    const listening what = c->listening[0];
    memmove(&c->listening[0], &c->listening[1], --c->listenings * sizeof *c->listening);
    memset(&c->listening[c->listenings], 0, sizeof *c->listening);
    if (what.kind == LISTEN)
        c->hears |= what.to;
    else if (what.kind == LISTEN_NO_MORE)
        c->hears &= (uint8_t)~what.to;
    else
        c->message[c->messages++] = (message){PONG, 0};
}

/* --- what goes wrong ------------------------------------------------------------------------------------------------ */

static void break_off(world *w, unsigned index, unsigned carried_out, bool is_late)
{
    client *c = &w->client[index];
    w->left[BREAKS]--;
    for (unsigned i = 0; i < carried_out; i++) {
        call what = c->call[c->answered + i];
        redis_machine_run(w, &what);
    }
    if (is_late) {
        w->has_late = true;
        w->late = c->call[c->answered + carried_out];
        w->late.is_wanted = false;
    }
    c->has_commands = false;
    uint8_t count = c->calls;
    call calls[CALLS];
    memcpy(calls, c->call, sizeof calls);
    memset(c->call, 0, sizeof c->call);
    c->calls = c->answered = 0;
    for (unsigned i = 0; i < count; i++)
        if (calls[i].is_wanted)
            failed(w, calls[i].who);
}

static void deafen(world *w, unsigned index)
{
    client *c = &w->client[index];
    w->left[BREAKS]--;
    c->has_pushes = false;
    c->listenings = c->messages = c->hears = 0;
    memset(c->listening, 0, sizeof c->listening);
    memset(c->message, 0, sizeof c->message);
    happens(w, index, EVENT_DOWN);
}

static void connect(world *w, unsigned index, bool to_listen)
{
    client *c = &w->client[index];
    if (to_listen) {
        c->has_pushes = true;
        happens(w, index, EVENT_UP);
        return;
    }
    c->has_commands = true;
    for (unsigned who = 0; who < redis_machine_contenders(w); who++)
        if (redis_machine_client_of(w, who) == index && w->contender[who].is_pending)
            send(w, who);
}

/* It stays in the line, to take the answer. */
static void cancel(world *w, unsigned who)
{
    client *c = client_of(w, who);
    w->left[CANCELS]--;
    for (unsigned i = 0; i < c->calls; i++)
        if (c->call[i].is_wanted && c->call[i].who == who)
            c->call[i].is_wanted = false;
    w->contender[who].is_pending = false;
    failed(w, who);
}

static void wake(world *w, unsigned who)
{
    if (w->contender[who].phase == PHASE_HOLDS)
        give_back(w, who);
    else
        ask(w, who);
}

static void leave(world *w, unsigned who)
{
    contender *k = &w->contender[who];
    if (k->phase == PHASE_SEEKS)
        w->left[LEAVES] -= w->left[LEAVES] > 0;
    if (k->is_asking)
        k->is_leaving = true;
    else
        give_back(w, who);
}

/* --- time ----------------------------------------------------------------------------------------------------------- */

static void pass(world *w, int16_t ms)
{
    stored *store = &w->store;
    w->head.at_ms += ms;
    store->lock_ends_ms -= ms;
    store->ends_ms -= ms;
    w->late.ends_ms -= w->has_late ? ms : 0;
    for (unsigned i = 0; i < redis_machine_clients(w); i++) {
        client *c = &w->client[i];
        for (unsigned k = 0; k < c->calls; k++) {
            c->call[k].asked_ms -= ms;
            c->call[k].ends_ms -= ms;
        }
        c->waiters.look_ms -= c->waiters.will_look ? ms : 0;
        c->waiters.idle_ms -= c->waiters.exists && !c->watches ? ms : 0;
    }
    for (unsigned i = 0; i < redis_machine_contenders(w); i++) {
        w->contender[i].wake_ms -= ms;
        w->contender[i].until_ms -= ms;
    }
}

static void tick(world *w)
{
    pass(w, TICK_MS);
    w->store.next = NOBODY; /* what is kept for somebody is kept for less than a step */
    w->store.standbys = 0;
    memset(w->store.standby, 0, sizeof w->store.standby);
}

/* Those who lead renew in time, and those who wait have heard of that; all else has ended. */
static void jump(world *w)
{
    contender before[CONTENDERS];
    const stored store = w->store;
    bool is_held = false;
    memcpy(before, w->contender, sizeof before);
    w->left[DAYS]--;
    for (unsigned i = 0; i < 3; i++)
        tick(w);
    for (unsigned i = 0; i < redis_machine_contenders(w); i++)
        if (before[i].phase == PHASE_HOLDS) {
            w->contender[i].until_ms = before[i].until_ms;
            is_held = true;
        }
    if (is_held) {
        w->store.lock_ends_ms = store.lock_ends_ms;
        w->store.ends_ms = store.ends_ms;
    }
    for (unsigned i = 0; i < w->store.queued; i++)
        w->store.age[i] += w->store.age[i] < JUMPS;
}

/* --- choices -------------------------------------------------------------------------------------------------------- */

static bool is_due(const contender *k)
{
    return (k->phase == PHASE_SEEKS && !k->is_asking && k->wake_ms <= 0) ||
           (k->phase == PHASE_HOLDS && k->until_ms <= 0);
}

static bool is_idle(const client *c)
{
    return c->waiters.exists && !c->watches && c->waiters.idle_ms <= 0;
}

/* All that happens by itself, but for time. */
static void add_work(const world *w, machine_list *l)
{
    for (unsigned i = 0; i < redis_machine_clients(w); i++) {
        const client *c = &w->client[i];
        const bool fits = is_room(c);
        bool all_fit = true;
        for (unsigned k = 0; k < redis_machine_clients(w); k++)
            all_fit &= w->client[k].messages + 3 <= SAID;
        machine_add(l, !c->has_commands, CHOICE_CONNECT, i, 0);
        machine_add(l, !c->has_pushes, CHOICE_CONNECT, i, 1);
        machine_add(l, c->calls > c->answered && all_fit, CHOICE_SERVE, i, 0);
        machine_add(l, c->answered > 0, CHOICE_DELIVER, i, 0);
        machine_add(l, c->listenings > 0 && c->messages < SAID, CHOICE_LISTEN, i, 0);
        machine_add(l, c->messages > 0, CHOICE_HEAR, i, 0);
        machine_add(l, fits && c->waiters.will_look && c->waiters.look_ms <= 0, CHOICE_LOOK, i, 0);
        machine_add(l, fits && is_idle(c), CHOICE_FORGET, i, 0);
    }
    for (unsigned i = 0; i < redis_machine_contenders(w); i++)
        machine_add(l, is_due(&w->contender[i]), CHOICE_WAKE, i, 0);
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
    for (unsigned i = 0; i < redis_machine_clients(w); i++)
        if (is_idle(&w->client[i]) || (w->client[i].waiters.will_look && w->client[i].waiters.look_ms <= 0))
            return false;
    for (unsigned i = 0; i < redis_machine_contenders(w); i++)
        if (is_due(&w->contender[i]))
            return false;
    return true;
}

static bool is_at_rest(const world *w)
{
    choice all[SEARCH_CHOICES];
    machine_list l = {all, 0};
    add_work(w, &l);
    return l.count == 0 && !w->has_late;
}

static void add_wishes(const world *w, machine_list *l)
{
    for (unsigned i = 0; i < redis_machine_contenders(w); i++) {
        const contender *k = &w->contender[i];
        const bool fits = is_room(&w->client[redis_machine_client_of(w, i)]);
        machine_add(l, fits && k->phase == PHASE_OUT && w->left[ENTERS] > 0, CHOICE_ENTER, i, 0);
        machine_add(l, fits && k->phase == PHASE_HOLDS, CHOICE_LEAVE, i, 0);
        machine_add(l, fits && k->phase == PHASE_SEEKS && !k->is_leaving && w->left[LEAVES] > 0, CHOICE_LEAVE, i, 0);
        machine_add(l, fits && k->is_asking && !k->is_pending && w->left[CANCELS] > 0, CHOICE_CANCEL, i, 0);
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
        machine_add(&l, c->messages > 0 && c->message[0].kind != PONG && w->left[LOSSES] > 0, CHOICE_HEAR, i, 1);
        machine_add(&l, c->messages > 0 && c->message[0].kind != PONG && w->left[REPEATS] > 0, CHOICE_HEAR, i, 2);
        if (w->left[BREAKS] > 0)
            add_breaks(w, &l, i);
    }
    machine_add(&l, w->has_late, CHOICE_LATE, 0, 0);
    machine_add(&l, w->left[DAYS] > 0 && is_at_rest(w), CHOICE_JUMP, 0, 0);
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
    static const char *const names[] = {"nothing", "acquire", "release", "give back", "rejoin"};
    return names[what->kind];
}

static void say(world *w, choice what)
{
    static const char *const heard[] = {"an invitation of", "that one stands by, behind", "news", "an echo"};
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
        machine_tell(&w->head, "client %u: the server %s", number,
                     c->listening[0].kind == PING ? "echoes" : "changes what it sends there");
        break;
    case CHOICE_HEAR:
        machine_tell(&w->head, "client %u %s %s %s", number, fates[what.slot], heard[c->message[0].kind],
                     c->message[0].kind == INVITATION || c->message[0].kind == STANDBY
                         ? redis_machine_id(c->message[0].who)
                         : "");
        break;
    case CHOICE_CONNECT:
        machine_tell(&w->head, "client %u is connected to %s", number, what.slot ? "listen" : "ask");
        break;
    case CHOICE_WAKE:
        machine_tell(&w->head, "it is time for %s", id);
        break;
    case CHOICE_LOOK:
        machine_tell(&w->head, "client %u looks", number);
        break;
    case CHOICE_FORGET:
        machine_tell(&w->head, "client %u listens no more", number);
        break;
    case CHOICE_TICK:
        break;
    case CHOICE_ENTER:
        machine_tell(&w->head, "%s enters", id);
        break;
    case CHOICE_LEAVE:
        machine_tell(&w->head, "%s leaves", id);
        break;
    case CHOICE_CANCEL:
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
    case CHOICE_JUMP:
        machine_tell(&w->head, "half a day goes by");
        break;
    }
}

static void forget(world *w, unsigned index)
{
    happens(w, index, EVENT_MOVED);
    memset(&w->client[index].waiters, 0, sizeof w->client[index].waiters);
}

static void hear_or_not(world *w, unsigned index, unsigned how)
{
    client *c = &w->client[index];
    if (how == 1) {
        w->left[LOSSES]--;
        w->is_forgiven = true;
    } else {
        hear(w, index);
    }
    if (how == 2)
        w->left[REPEATS]--;
    else
        drop_message(c);
}

static void choose(void *of, choice what)
{
    world *w = of;
    client *c = &w->client[what.member < CLIENTS ? what.member : 0];
    say(w, what);
    switch ((choice_kind)what.kind) {
    case CHOICE_DELIVER:
        deliver(w, what.member, what.slot == 0);
        break;
    case CHOICE_SERVE:
        redis_machine_run(w, &c->call[c->answered++]);
        break;
    case CHOICE_LISTEN:
        listen(c);
        break;
    case CHOICE_HEAR:
        hear_or_not(w, what.member, what.slot);
        break;
    case CHOICE_CONNECT:
        connect(w, what.member, what.slot == 1);
        break;
    case CHOICE_WAKE:
        wake(w, what.member);
        break;
    case CHOICE_LOOK:
        happens(w, what.member, EVENT_LOOK);
        break;
    case CHOICE_FORGET:
        forget(w, what.member);
        break;
    case CHOICE_TICK:
        w->left[DELAYS] -= is_under_way(w) && w->left[DELAYS] > 0;
        tick(w);
        break;
    case CHOICE_ENTER:
        w->left[ENTERS]--;
        w->contender[what.member].phase = PHASE_SEEKS;
        ask(w, what.member);
        break;
    case CHOICE_LEAVE:
        leave(w, what.member);
        break;
    case CHOICE_CANCEL:
        cancel(w, what.member);
        break;
    case CHOICE_BREAK:
        break_off(w, what.member, what.slot / 2U, what.slot % 2 == 1);
        break;
    case CHOICE_DEAFEN:
        deafen(w, what.member);
        break;
    case CHOICE_LATE:
        w->is_forgiven |= w->late.kind == CALL_RELEASE;
        redis_machine_run(w, &w->late);
        w->has_late = false;
        memset(&w->late, 0, sizeof w->late);
        break;
    case CHOICE_JUMP:
        jump(w);
        break;
    }
    for (unsigned i = 0; i < redis_machine_clients(w); i++)
        end_turn(w, i);
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
               [CANCELS] = {"cancels", 0, 9},
               [REFUSALS] = {"refusals", 0, 9},
               [LOSSES] = {"losses", 0, 9},
               [REPEATS] = {"repeats", 0, 9},
               [DAYS] = {"days", 0, 9}},
    .size = sizeof(world),
    .begin = begin,
    .choices = choices,
    .choose = choose,
    .normalise = redis_machine_normalise,
    .future = future,
};
