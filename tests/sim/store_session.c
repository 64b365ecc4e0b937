/* The model of a store whose leases are sessions, as ZooKeeper: a contender has a child under the mutex, the oldest child
 * leads, and children go when the session that made them is over by the store's clock. The token is the number of the
 * transaction that made the child. Requests of one process are done in the order in which they were sent. */
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

/* --- sessions --------------------------------------------------------------------------------------- */

static sim_session *find_session(sim *s, uint64_t id)
{
    sim_session *session = &s->store.session[id % SIM_SESSIONS];
    return id && session->id == id ? session : NULL;
}

static void touch(sim *s, sim_session *session)
{
    session->expires_at = store_clock(s) + s->plan->session_ns;
}

static void plan_expiry(sim *s, const sim_session *session)
{
    sim_plan_event(s, EV_EXPIRE, (unsigned)(session - s->store.session),
                   sim_clock_when(&s->store.clock, session->expires_at), session->version, 0);
}

/* A client that tries again because it got no answer gets the session that its first attempt has made. */
static sim_session *open_session(sim *s, const sim_message *message)
{
    sim_session *free_one = NULL;
    for (unsigned i = 0; i < SIM_SESSIONS; i++) {
        sim_session *session = &s->store.session[i];
        if (!session->id)
            free_one = session;
        else if (session->process == message->process && session->boot == message->boot &&
                 session->attempt == message->generation)
            return session;
    }
    if (!free_one)
        abort();
    *free_one = (sim_session){
        .id = ++s->store.sessions * SIM_SESSIONS + (uint64_t)(free_one - s->store.session),
        .process = message->process,
        .boot = message->boot,
        .attempt = message->generation,
        .version = free_one->version + 1,
    };
    touch(s, free_one);
    plan_expiry(s, free_one);
    return free_one;
}

void session_renew_all(sim *s)
{
    for (unsigned i = 0; i < SIM_SESSIONS; i++)
        if (s->store.session[i].id)
            touch(s, &s->store.session[i]);
}

/* --- children --------------------------------------------------------------------------------------- */

static void show(const sim *s, unsigned mutex, simba_owner *ret_owner)
{
    memset(ret_owner, 0, sizeof *ret_owner);
    if (s->store.children[mutex].count == 0)
        return;
    const sim_child *first = &s->store.children[mutex].child[0];
    strcpy(ret_owner->id, s->handle[first->handle].id);
    ret_owner->token = first->token;
    ret_owner->ttl_at_ms = ret_owner->transition_at_ms = INT64_MAX;
}

bool session_owner(const sim *s, unsigned mutex, simba_owner *ret_owner)
{
    show(s, mutex, ret_owner);
    return s->store.children[mutex].count > 0;
}

static void push_to(sim *s, const sim_child *child, simba_push_kind kind)
{
    uint32_t index;
    sim_message *message = net_message(s, MSG_PUSH, s->handle[child->handle].process, &index);
    message->handle = child->handle;
    message->request.nonce = child->nonce;
    message->push.kind = kind;
    net_to_process(s, index, true, 0);
}

/* Tell the new leader that it leads, and observers who leads. */
static void spread_news(sim *s, unsigned mutex)
{
    const sim_children *children = &s->store.children[mutex];
    simba_push push = {.kind = SIMBA_PUSH_FREED};
    show(s, mutex, &push.owner);
    if (children->count > 0)
        push.kind = SIMBA_PUSH_ACQUIRED;
    else
        push.owner.token = s->checks.token_granted[mutex];
    for (unsigned p = 0; p < s->plan->processes; p++)
        if (s->store.subscribed[p][mutex])
            store_push(s, p, mutex, &push, 0);
    if (children->count > 0)
        push_to(s, &children->child[0], SIMBA_PUSH_RELEASED);
}

static void first_has_changed(sim *s, unsigned mutex)
{
    const sim_children *children = &s->store.children[mutex];
    if (children->count > 0)
        check_granted(s, mutex, children->child[0].handle, children->child[0].token, false);
    else
        check_freed(s, mutex);
    spread_news(s, mutex);
}

static void remove_child(sim *s, unsigned mutex, unsigned index)
{
    sim_children *children = &s->store.children[mutex];
    if (index == 0)
        check_freed(s, mutex);
    memmove(&children->child[index], &children->child[index + 1],
            (children->count - index - 1) * sizeof children->child[0]);
    children->count--;
    if (index == 0)
        first_has_changed(s, mutex);
}

static unsigned find_child(const sim *s, unsigned mutex, uint64_t nonce)
{
    const sim_children *children = &s->store.children[mutex];
    for (unsigned i = 0; i < children->count; i++)
        if (children->child[i].nonce == nonce)
            return i;
    return SIM_NOBODY;
}

static void add_child(sim *s, const sim_message *message)
{
    sim_children *children = &s->store.children[message->mutex];
    if (children->count == SIM_CHILDREN)
        return;
    children->child[children->count++] = (sim_child){
        .token = ++s->store.zxid,
        .nonce = message->request.nonce,
        .session = message->session,
        .handle = message->handle,
    };
    if (children->count == 1)
        first_has_changed(s, message->mutex);
}

/* --- requests --------------------------------------------------------------------------------------- */

static simba_outcome acquire(sim *s, const sim_message *message)
{
    const unsigned m = message->mutex;
    unsigned index = find_child(s, m, message->request.nonce);
    /* One that an older session of ours left behind goes with that session: it cannot be led by. */
    if (index != SIM_NOBODY && s->store.children[m].child[index].session != message->session) {
        remove_child(s, m, index);
        index = SIM_NOBODY;
    }
    if (index == SIM_NOBODY && (message->request.queue || s->store.children[m].count == 0))
        add_child(s, message);
    return find_child(s, m, message->request.nonce) == 0 ? SIMBA_MINE : SIMBA_NOT_MINE;
}

static bool was_revoked(const sim *s, unsigned mutex, uint64_t token)
{
    for (unsigned i = 0; i < SIM_REVOKED; i++)
        if (token && s->checks.revoked[mutex][i] == token)
            return true;
    return false;
}

static simba_outcome renew(sim *s, const sim_message *message)
{
    const sim_children *children = &s->store.children[message->mutex];
    if (find_child(s, message->mutex, message->request.nonce) == 0 && children->child[0].session == message->session &&
        children->child[0].token == message->request.token)
        return SIMBA_MINE;
    return was_revoked(s, message->mutex, message->request.token) ? SIMBA_REVOKED : SIMBA_NOT_MINE;
}

static simba_outcome release(sim *s, const sim_message *message)
{
    const unsigned index = find_child(s, message->mutex, message->request.nonce);
    if (index != SIM_NOBODY)
        remove_child(s, message->mutex, index);
    return index == 0 ? SIMBA_MINE : SIMBA_NOT_MINE;
}

/* In one transaction with the check that the child is there and leads. */
static simba_outcome write_note(sim *s, const sim_message *message)
{
    const simba_request *request = &message->request;
    sim_note *note = &s->store.note[message->mutex];
    const simba_outcome outcome = renew(s, message);
    const bool overtaken = note->token == request->token && note->number >= request->note_number;
    if (outcome != SIMBA_MINE || overtaken)
        return outcome == SIMBA_REVOKED ? outcome : SIMBA_NOT_MINE;
    *note = (sim_note){request->token, request->note_number};
    return SIMBA_MINE;
}

static void answer(sim *s, const sim_message *message, simba_outcome outcome)
{
    uint32_t index;
    sim_message *reply = net_message(s, MSG_REPLY, message->process, &index);
    *reply = *message;
    reply->kind = MSG_REPLY;
    reply->request.reply = (simba_reply){.outcome = outcome, .now_ms = store_now(s).epoch_us / 1000};
    show(s, message->mutex, &reply->request.reply.owner);
    net_to_process(s, index, false, 0);
}

static void say_expired(sim *s, const sim_message *message)
{
    uint32_t index;
    sim_message *told = net_message(s, MSG_EXPIRED, message->process, &index);
    told->boot = message->boot;
    told->session = message->session;
    net_to_process(s, index, true, 0);
}

void session_request(sim *s, sim_message *message)
{
    sim_message copy = *message; /* pushes may move the messages */
    sim_session *session = find_session(s, copy.session);
    if (!session) {
        say_expired(s, &copy);
        return;
    }
    /* No message overtakes another. Only a release that was refused comes again, after later messages. */
    uint64_t *done = &s->store.done[copy.process];
    if (copy.sequence <= *done && copy.request.op != SIMBA_OP_RELEASE)
        return;
    *done = copy.sequence > *done ? copy.sequence : *done;
    touch(s, session);
    store_remember(s, copy.mutex);
    simba_outcome outcome = SIMBA_NOT_MINE;
    if (copy.request.op == SIMBA_OP_ACQUIRE)
        outcome = acquire(s, &copy);
    else if (copy.request.op == SIMBA_OP_RENEW)
        outcome = renew(s, &copy);
    else if (copy.request.op == SIMBA_OP_RELEASE)
        outcome = release(s, &copy);
    else if (copy.request.op == SIMBA_OP_WRITE_NOTE)
        outcome = write_note(s, &copy);
    copy.note = s->store.note[copy.mutex];
    answer(s, &copy, outcome);
}

void session_message(sim *s, sim_message *message)
{
    const sim_message copy = *message;
    sim_session *session = find_session(s, copy.session);
    uint32_t index;
    if (copy.kind == MSG_PING && !session) {
        say_expired(s, &copy);
        return;
    }
    if (copy.kind == MSG_CONNECT)
        session = open_session(s, &copy);
    touch(s, session);
    sim_message *told = net_message(s, copy.kind == MSG_PING ? MSG_PONG : MSG_CONNECTED, copy.process, &index);
    told->boot = copy.boot;
    told->session = session->id;
    told->generation = copy.generation;
    told->sent_at = copy.sent_at;
    net_to_process(s, index, false, 0);
}

void session_expire(sim *s, const sim_event *event)
{
    sim_session *session = &s->store.session[event->who];
    if (!session->id || session->version != event->version)
        return;
    if (store_is_away(s)) {
        const int64_t back = s->store.down_until > s->store.frozen_until ? s->store.down_until : s->store.frozen_until;
        sim_plan_event(s, EV_EXPIRE, event->who, back + SIM_MS, event->version, 0);
        return;
    }
    if (store_clock(s) < session->expires_at) {
        plan_expiry(s, session);
        return;
    }
    const uint64_t id = session->id;
    session->id = 0;
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        store_remember(s, m);
        for (unsigned i = s->store.children[m].count; i-- > 0;)
            if (s->store.children[m].child[i].session == id)
                remove_child(s, m, i);
    }
}

void session_force_release(sim *s, unsigned mutex)
{
    sim_children *children = &s->store.children[mutex];
    if (children->count == 0)
        return;
    store_remember(s, mutex);
    check_revoked(s, mutex, children->child[0].token);
    push_to(s, &children->child[0], SIMBA_PUSH_CHANGED);
    remove_child(s, mutex, 0);
}
