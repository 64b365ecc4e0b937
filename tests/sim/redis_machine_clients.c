/* The clients of the machine redis-waiters: their contenders, their connections, and how each carries out what its listeners
 * (waiters.c, as they ship) decide. In place of commands.c and push.c, which keep pointers, a few lines here do as they do. */
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

/* --- what the listeners decide, as push.c carries it out ----------------------------------------------------------- */

/* Also if it is under way: then it asks once more. */
static void ask_again(world *w, unsigned who)
{
    contender *k = &w->contender[who];
    if (k->phase != PHASE_SEEKS || k->is_leaving)
        return;
    if (k->is_asking)
        k->is_kicked = true;
    else
        redis_machine_ask(w, who);
}

static unsigned decide(world *w, redis_listener *l, listener_event what, unsigned who)
{
    const uint64_t nonce = redis_machine_nonce(who, w->contender[who].incarnation);
    switch (what) {
    case EVENT_ASKS:
    case EVENT_REFUSED:
        if (!simba__redis_listener_join(l, nonce))
            abort();
        return client_of(w, who)->has_pushes ? simba__redis_listener_up(l, 1) : 0;
    case EVENT_LEFT:
        simba__redis_listener_leave(l, nonce, now);
        return 0;
    case EVENT_UNQUEUED:
        return simba__redis_listener_unqueued(l);
    case EVENT_UP:
        return simba__redis_listener_up(l, 1);
    case EVENT_CONFIRMED:
        return simba__redis_listener_confirmed(l);
    case EVENT_DOWN:
        simba__redis_listener_down(l);
        return 0;
    case EVENT_INVITED:
        return simba__redis_listener_invited(l);
    case EVENT_STANDBY:
        simba__redis_listener_standby(l, now, 0);
        return 0;
    case EVENT_TICK:
        return simba__redis_listener_tick(l, now);
    }
    return 0;
}

void redis_machine_happens(world *w, unsigned who, listener_event what)
{
    kept_listener *kept = &w->contender[who].listener;
    client *c = client_of(w, who);
    redis_listener l;
    if (!kept->exists && what != EVENT_REFUSED)
        return;
    if (kept->exists)
        redis_machine_wake(kept, who, now, &l);
    else
        simba__redis_listener_init(&l, now);
    const unsigned actions = decide(w, &l, what, who);
    redis_machine_lay_down(&l, now, kept);
    if (actions & REDIS_SUBSCRIBE)
        put_listening(c, LISTEN, who);
    if (actions & REDIS_UNSUBSCRIBE)
        put_listening(c, LISTEN_NO_MORE, who);
    if (actions & REDIS_DROP)
        memset(kept, 0, sizeof *kept);
    if (actions & (REDIS_TELL_CHANGED | REDIS_TELL_RELEASED))
        ask_again(w, who);
}

/* --- contenders --------------------------------------------------------------------------------------------------- */

static char says(world *w, unsigned who)
{
    kept_listener *kept = &w->contender[who].listener;
    redis_listener l;
    if (!kept->exists)
        return '0';
    redis_machine_happens(w, who, EVENT_ASKS);
    redis_machine_wake(kept, who, now, &l);
    const char hears = simba__redis_listener_says(&l);
    l.queued |= hears == '1';
    redis_machine_lay_down(&l, now, kept);
    return hears;
}

static void send(world *w, unsigned who)
{
    contender *k = &w->contender[who];
    client *c = client_of(w, who);
    k->is_pending = !c->has_commands;
    if (k->is_pending)
        return;
    const bool leaves = k->phase == PHASE_LEAVES;
    if (leaves)
        redis_machine_happens(w, who, EVENT_LEFT);
    const char hears = !leaves ? says(w, who) : k->listener.is_queued ? '1' : '0';
    put(c, &(call){.kind = leaves ? CALL_RELEASE : CALL_ACQUIRE,
                   .who = (uint8_t)who,
                   .hears = hears,
                   .is_wanted = true,
                   .incarnation = k->incarnation,
                   .token = k->token});
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
    if (answer.kind == CALL_RELEASE)
        redis_machine_happens(w, who, EVENT_UNQUEUED);
    if (!answer.is_wanted)
        return;
    if (answer.kind == CALL_RELEASE) {
        k->is_asking = false;
        k->phase = PHASE_OUT;
        k->incarnation++;
        return;
    }
    if (answer.outcome == OUTCOME_GRANTED) {
        redis_machine_happens(w, who, EVENT_LEFT);
        redis_machine_happens(w, who, EVENT_UNQUEUED);
    } else {
        redis_machine_happens(w, who, EVENT_REFUSED);
        k->is_kicked |= answer.hears != '1' && k->listener.hearing == REDIS_HEARS;
    }
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
    static const listener_event events[] = {
        [INVITATION] = EVENT_INVITED, [STANDBY] = EVENT_STANDBY, [CONFIRMED] = EVENT_CONFIRMED};
    const message what = w->client[index].message[0];
    redis_machine_happens(w, what.who, events[what.kind]);
}

void redis_machine_drop_message(client *c)
{
    memmove(&c->message[0], &c->message[1], --c->messages * sizeof *c->message);
    memset(&c->message[c->messages], 0, sizeof *c->message);
}

void redis_machine_listen(world *w, unsigned index)
{
    client *c = &w->client[index];
    const listening what = c->listening[0];
    memmove(&c->listening[0], &c->listening[1], --c->listenings * sizeof *c->listening);
    memset(&c->listening[c->listenings], 0, sizeof *c->listening);
    if (what.kind == LISTEN_NO_MORE) {
        c->hears &= (uint8_t) ~(1U << what.to);
        return;
    }
    c->hears |= (uint8_t)(1U << what.to);
    c->message[c->messages++] = (message){CONFIRMED, what.to};
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
    for (unsigned who = 0; who < redis_machine_contenders(w); who++)
        if (redis_machine_client_of(w, who) == index)
            redis_machine_happens(w, who, EVENT_DOWN);
}

void redis_machine_connect(world *w, unsigned index, bool to_listen)
{
    client *c = &w->client[index];
    if (to_listen) {
        c->has_pushes = true;
        for (unsigned who = 0; who < redis_machine_contenders(w); who++)
            if (redis_machine_client_of(w, who) == index)
                redis_machine_happens(w, who, EVENT_UP);
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
    w->late.ends_ms -= w->has_late ? ms : 0;
    for (unsigned i = 0; i < redis_machine_clients(w); i++) {
        client *c = &w->client[i];
        for (unsigned k = 0; k < c->calls; k++) {
            c->call[k].asked_ms -= ms;
            c->call[k].ends_ms -= ms;
        }
    }
    for (unsigned i = 0; i < redis_machine_contenders(w); i++) {
        w->contender[i].wake_ms -= ms;
        w->contender[i].until_ms -= ms;
        kept_listener *kept = &w->contender[i].listener;
        kept->look_ms -= kept->will_look ? ms : 0;
        kept->idle_ms -= kept->exists && !kept->waits ? ms : 0;
    }
}

void redis_machine_tick(world *w)
{
    pass(w, TICK_MS);
    w->store.next = NOBODY; /* what is kept for somebody is kept for less than a step */
    w->store.has_standby = false;
}
