/* The clients of the machine redis-waiters: their contenders, their connections, and how each carries out what its waiters
 * (waiters.c, as they ship) decide. In place of session.c, which keeps pointers, a few lines here do as it does. */
#include <stdlib.h>
#include <string.h>

#include "sim/redis_machine.h"

static const simba_local now = {INT64_C(1000000000000)};

static client *client_of(world *w, unsigned who)
{
    return &w->client[redis_machine_client_of(w, who)];
}

/* --- connections ------------------------------------------------------------------------------------------------ */

bool redis_machine_has_room(const client *c)
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

/* Also if it is under way: then it asks once more. */
static void ask_again(world *w, unsigned who)
{
    contender *k = &w->contender[who];
    if (k->is_asking)
        k->is_kicked = true;
    else
        redis_machine_ask(w, who);
}

/* To the first that can use it, as client/watches.h says. */
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

static unsigned decide(const world *w, redis_waiters *waiters, waiters_event what, unsigned who, int8_t incarnation)
{
    const char *id = redis_machine_id(who);
    const uint64_t nonce = redis_machine_nonce(who, incarnation);
    switch (what) {
    case EVENT_WATCH:
        return simba__redis_waiters_watch(waiters, w->head.bounds[OBSERVES] > 0);
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

static void happens_to(world *w, unsigned index, waiters_event what, unsigned who, int8_t incarnation)
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
    const unsigned actions = decide(w, &waiters, what, who, incarnation);
    redis_waiter *waiter = actions & REDIS_QUEUE_UP ? simba__redis_waiters_queue_up(waiters.first) : NULL;
    for (; waiter; waiter = simba__redis_waiters_queue_up(waiter->next))
        put_back |= 1U << (waiter->id[0] - 'a');
    redis_machine_lay_down(&waiters, now, &c->waiters);
    if (actions & REDIS_SUBSCRIBE)
        put_listening(c, LISTEN, all_of(&c->waiters));
    if (actions & REDIS_SUBSCRIBE_NEWS)
        put_listening(c, LISTEN, TO_NEWS);
    if (actions & REDIS_UNSUBSCRIBE_NEWS)
        put_listening(c, LISTEN_NO_MORE, TO_NEWS);
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

void redis_machine_happens(world *w, unsigned index, waiters_event what)
{
    happens_to(w, index, what, 0, 0);
}

/* The end of a turn: does anybody want to hear of it? */
void redis_machine_end_turn(world *w, unsigned index)
{
    client *c = &w->client[index];
    bool wants = false;
    for (unsigned who = 0; who < redis_machine_contenders(w); who++)
        wants |= redis_machine_client_of(w, who) == index && w->contender[who].phase == PHASE_SEEKS &&
                 w->contender[who].knows;
    if (wants != c->watches) {
        c->watches = wants;
        redis_machine_happens(w, index, wants ? EVENT_WATCH : EVENT_UNWATCH);
        if (wants && c->has_pushes)
            redis_machine_happens(w, index, EVENT_UP);
    }
    if (c->waiters.exists && c->waiters.interest == REDIS_DUE) {
        redis_machine_happens(w, index, EVENT_WOKEN);
        redis_machine_end_turn(w, index);
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

void redis_machine_ask(world *w, unsigned who)
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
    redis_machine_ask(w, who);
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
        redis_machine_ask(w, who);
}

/* Nobody knows whether it was carried out. */
static void failed(world *w, unsigned who)
{
    contender *k = &w->contender[who];
    k->is_asking = false;
    if (k->phase == PHASE_SEEKS && k->is_leaving)
        give_back(w, who);
    else if (k->phase == PHASE_LEAVES)
        redis_machine_ask(w, who);
    else
        k->wake_ms = 0;
}

void redis_machine_deliver(world *w, unsigned index, bool is_confirmed)
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
        failed(w, who);
        return;
    }
    k->is_asking = false;
    if (answer.outcome == OUTCOME_GRANTED)
        won(w, who, &answer);
    else
        lost(w, who, &answer);
}

void redis_machine_hear(world *w, unsigned index)
{
    const message what = w->client[index].message[0];
    switch ((message_kind)what.kind) {
    case INVITATION:
        happens_to(w, index, EVENT_INVITATION, what.who, 0);
        break;
    case STANDBY:
        redis_machine_happens(w, index, EVENT_STANDBY);
        break;
    case NEWS:
        redis_machine_happens(w, index, EVENT_NEWS);
        break;
    case PONG:
        redis_machine_happens(w, index, EVENT_CONFIRMED);
        break;
    }
}

void redis_machine_drop_message(client *c)
{
    memmove(&c->message[0], &c->message[1], --c->messages * sizeof *c->message);
    memset(&c->message[c->messages], 0, sizeof *c->message);
}

void redis_machine_listen(client *c)
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

void redis_machine_break_off(world *w, unsigned index, unsigned carried_out, bool is_late)
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

void redis_machine_deafen(world *w, unsigned index)
{
    client *c = &w->client[index];
    w->left[BREAKS]--;
    c->has_pushes = false;
    c->listenings = c->messages = c->hears = 0;
    memset(c->listening, 0, sizeof c->listening);
    memset(c->message, 0, sizeof c->message);
    redis_machine_happens(w, index, EVENT_DOWN);
}

void redis_machine_connect(world *w, unsigned index, bool to_listen)
{
    client *c = &w->client[index];
    if (to_listen) {
        c->has_pushes = true;
        redis_machine_happens(w, index, EVENT_UP);
        return;
    }
    c->has_commands = true;
    for (unsigned who = 0; who < redis_machine_contenders(w); who++)
        if (redis_machine_client_of(w, who) == index && w->contender[who].is_pending)
            send(w, who);
}

/* It keeps its place on the connection until its answer has come. */
void redis_machine_expire(world *w, unsigned who)
{
    client *c = client_of(w, who);
    w->left[EXPIRIES]--;
    for (unsigned i = 0; i < c->calls; i++)
        if (c->call[i].is_wanted && c->call[i].who == who)
            c->call[i].is_wanted = false;
    w->contender[who].is_pending = false;
    failed(w, who);
}

void redis_machine_come_to_time(world *w, unsigned who)
{
    if (w->contender[who].phase == PHASE_HOLDS)
        give_back(w, who);
    else
        redis_machine_ask(w, who);
}

void redis_machine_leave(world *w, unsigned who)
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

void redis_machine_tick(world *w)
{
    pass(w, TICK_MS);
    w->store.next = NOBODY; /* what is kept for somebody is kept for less than a step */
    w->store.standbys = 0;
    memset(w->store.standby, 0, sizeof w->store.standby);
}

/* Those who lead renew in time, and those who wait have heard of that; all else has ended. */
void redis_machine_jump(world *w)
{
    contender before[CONTENDERS];
    const stored store = w->store;
    bool is_held = false;
    memcpy(before, w->contender, sizeof before);
    w->left[DAYS]--;
    for (unsigned i = 0; i < 3; i++)
        redis_machine_tick(w);
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
