/* What the models of the stores share: a clock, outages, and the clients they push to. A store that is down refuses
 * a request; one that is frozen keeps it waiting. */
#include <string.h>

#include "sim/world.h"

#define EPOCH_MS INT64_C(1700000000000)

void store_init(sim *s)
{
    sim_store *store = &s->store;
    sim_undo *undo = store->undo;
    memset(store, 0, sizeof *store);
    store->undo = undo;
    store->clock = (sim_clock){.base_shown = 100 * SIM_S, .ppm = s->plan->store_ppm};
    store->epoch_ms = EPOCH_MS;
    store->zxid = UINT64_C(1) << 32;
    /* As in MySQL, whose column has no room for a time. Without that floor nothing but kept writes makes tokens grow. */
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        store->row[m].counts_tokens = s->plan->store == SIM_STORE_POLL && s->plan->broken != SIM_BROKEN_LOST_WRITES;
}

int64_t store_clock(const sim *s)
{
    return sim_clock_read(&s->store.clock, s->now);
}

simba__row_now store_now(const sim *s)
{
    const int64_t ns = store_clock(s);
    return (simba__row_now){.ns = ns, .epoch_us = s->store.epoch_ms * 1000 + ns / 1000};
}

bool store_is_away(const sim *s)
{
    return s->now < s->store.down_until || s->now < s->store.frozen_until;
}

void store_push(sim *s, unsigned process, unsigned mutex, const simba_push *push, int64_t after_ns)
{
    uint32_t index;
    sim_message *message = net_message(s, MSG_PUSH, process, &index);
    message->boot = s->store.subscribed[process][mutex];
    message->mutex = (uint8_t)mutex;
    message->push = *push;
    /* The connection of a session is made good again before the session goes on. */
    net_to_process(s, index, s->plan->store == SIM_STORE_SESSION, after_ns);
}

/* Only a store that is going to lose writes needs its earlier state. */
void store_remember(sim *s, unsigned mutex)
{
    sim_store *store = &s->store;
    if (s->plan->broken != SIM_BROKEN_LOST_WRITES)
        return;
    sim_undo *undo = &store->undo[store->undos++ % SIM_UNDO];
    undo->at = s->now;
    undo->mutex = (uint8_t)mutex;
    undo->row = store->row[mutex];
    undo->children = store->children[mutex];
    undo->note = store->note[mutex];
}

static void lose_writes(sim *s, int64_t lost_ms)
{
    sim_store *store = &s->store;
    for (unsigned n = 0; n < SIM_UNDO && store->undos > 0; n++) {
        const sim_undo *undo = &store->undo[(store->undos - 1) % SIM_UNDO];
        if (undo->at <= s->now - lost_ms * SIM_MS)
            break;
        store->row[undo->mutex] = undo->row;
        store->children[undo->mutex] = undo->children;
        store->note[undo->mutex] = undo->note;
        store->undos--;
        s->checks.lost_writes = true;
    }
}

void store_fail_over(sim *s, int64_t down_ns, int64_t lost_ms)
{
    sim_store *store = &s->store;
    store->down_until = s->now + down_ns;
    memset(store->subscribed, 0, sizeof store->subscribed);
    memset(store->waiting, 0, sizeof store->waiting);
    lose_writes(s, lost_ms);
    store->zxid = ((store->zxid >> 32) + 1) << 32; /* a new epoch */
    sim_plan_event(s, EV_STORE_UP, 0, store->down_until, 0, 0);
}

static void back_up(sim *s)
{
    session_renew_all(s);
    for (unsigned p = 0; p < s->plan->processes; p++)
        sim_plan_event(s, EV_RESUBSCRIBE, p, s->now + sim_pick(s, 10, 300) * SIM_MS, s->process[p].boot, 0);
}

void store_force_release(sim *s, unsigned mutex)
{
    if (s->plan->store == SIM_STORE_SESSION)
        session_force_release(s, mutex);
    else
        lease_force_release(s, mutex);
}

static void refuse(sim *s, const sim_message *message)
{
    uint32_t index;
    const sim_message copy = *message;
    sim_message *reply = net_message(s, MSG_REPLY, copy.process, &index);
    const uint32_t boot = copy.boot;
    *reply = copy;
    reply->kind = MSG_REPLY;
    reply->boot = boot;
    reply->request.reply = (simba_reply){.status = SIMBA_EUNAVAILABLE};
    net_to_process(s, index, false, 0);
}

static void subscribe(sim *s, const sim_message *message)
{
    const unsigned p = message->process, m = message->mutex;
    uint32_t index;
    if (message->boot != s->process[p].boot)
        return; /* its connection is closed */
    s->store.subscribed[p][m] = message->boot;
    sim_message *answer = net_message(s, MSG_SUBSCRIBED, p, &index);
    answer->mutex = (uint8_t)m;
    answer->boot = s->store.subscribed[p][m];
    net_to_process(s, index, true, 0);
}

static void poll(sim *s, const sim_message *message)
{
    uint32_t index;
    const unsigned p = message->process, m = message->mutex;
    const uint32_t boot = message->boot;
    sim_message *answer = net_message(s, MSG_POLLED, p, &index);
    answer->mutex = (uint8_t)m;
    answer->boot = boot;
    answer->version = s->store.row[m].version;
    simba__row_show(&s->store.row[m], store_now(s), &answer->request.reply.owner, &answer->request.reply.now_ms);
    net_to_process(s, index, false, 0);
}

/* True: it is to be delivered again, when the store is back. */
static bool arrived(sim *s, uint32_t index)
{
    sim_message *message = &s->message[index];
    if (s->now < s->store.down_until) {
        const bool request = message->kind == MSG_REQUEST;
        const bool again = request && message->request.op == SIMBA_OP_RELEASE && s->plan->store == SIM_STORE_SESSION;
        if (request)
            refuse(s, message);
        return again;
    }
    switch ((sim_message_kind)message->kind) {
    case MSG_REQUEST:
        if (s->plan->store == SIM_STORE_SESSION)
            session_request(s, message);
        else
            lease_request(s, message);
        break;
    case MSG_SUBSCRIBE:
        subscribe(s, message);
        break;
    case MSG_POLL:
        poll(s, message);
        break;
    default:
        session_message(s, message);
    }
    return false;
}

void store_event(sim *s, const sim_event *event)
{
    switch ((sim_event_kind)event->kind) {
    case EV_TO_STORE:
        if (s->now < s->store.frozen_until && s->now >= s->store.down_until) {
            sim_plan_event(s, EV_TO_STORE, 0, s->store.frozen_until + sim_pick(s, 1, 100000), 0, event->arg);
            return;
        }
        if (arrived(s, event->arg))
            sim_plan_event(s, EV_TO_STORE, 0, s->store.down_until + sim_pick(s, 10, 300) * SIM_MS, 0, event->arg);
        else
            net_free(s, event->arg);
        break;
    case EV_STORE_UP:
        if (s->now >= s->store.down_until)
            back_up(s);
        break;
    default:
        session_expire(s, event);
    }
}
