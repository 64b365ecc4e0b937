/* The client's end of the stores that are models altogether: a back end of simba/backend.h that speaks with the model by messages,
 * which get lost, are late and come twice. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

enum { ASKED_MAX = 300 };

typedef struct asked {
    simba_request *request;
    uint32_t number;
    bool sent;
} asked;

typedef struct net_store {
    simba_host *host;
    sim *s;
    unsigned process;
    asked asked[ASKED_MAX];
    unsigned count;
} net_store;

static sim_process *process_of(const net_store *store)
{
    return &store->s->process[store->process];
}

static bool is_session(const sim *s)
{
    return s->plan->store == SIM_STORE_SESSION;
}

/* --- requests ---------------------------------------------------------------------------------------- */

static void send(net_store *store, asked *which)
{
    sim *s = store->s;
    uint32_t index;
    const sim_handle *handle = ((simba__request *)(void *)which->request)->of;
    sim_message *message = net_message(s, MSG_REQUEST, store->process, &index);
    which->sent = true;
    message->handle = (uint8_t)(handle - s->handle);
    message->mutex = handle->mutex;
    message->generation = which->number;
    message->session = process_of(store)->session;
    message->request = *which->request;
    message->request.mutex = sim_mutex_name(handle->mutex); /* the request may be gone before the message */
    message->request.id = handle->id;
    message->request.note = NULL;
    /* While the session lives, a release is carried out in the end. */
    net_to_store(s, index, is_session(s) && which->request->op == SIMBA_OP_RELEASE);
}

static simba_request *take_out(net_store *store, unsigned index)
{
    simba_request *request = store->asked[index].request;
    store->count--;
    memmove(&store->asked[index], &store->asked[index + 1], (store->count - index) * sizeof store->asked[0]);
    return request;
}

static unsigned find(const net_store *store, uint32_t number)
{
    unsigned i = 0;
    while (i < store->count && store->asked[i].number != number)
        i++;
    return i;
}

static void submit(void *self, simba_request *request)
{
    net_store *store = self;
    if (store->count == ASKED_MAX)
        abort();
    store->asked[store->count] = (asked){.request = request, .number = ++process_of(store)->requests};
    if (!is_session(store->s) || process_of(store)->session)
        send(store, &store->asked[store->count]);
    store->count++;
}

/* Its connection may be silent, and is given up a while later; soon where there is room for few. */
static void expire(void *self, simba_request *request)
{
    net_store *store = self;
    sim *s = store->s;
    unsigned i = 0;
    while (store->asked[i].request != request)
        i++;
    const int64_t silent_ns = sim_pick(s, SIM_MS, s->plan->window > 0 ? 20 * SIM_MS : 2 * SIM_S);
    if (store->asked[i].sent && sim_chance(s, 500))
        sim_plan_event(s, EV_GIVE_UP, store->process, s->now + silent_ns, process_of(store)->boot,
                       store->asked[i].number);
    else
        store->host->fail(store->host, take_out(store, i), SIMBA_ETIMEDOUT, "no answer");
}

static void fail_all(net_store *store, int code)
{
    for (unsigned count = store->count; count > 0; count--)
        store->host->fail(store->host, take_out(store, 0), code, "it is over");
}

static void answered(net_store *store, const sim_message *message)
{
    const unsigned i = find(store, message->generation);
    if (i == store->count)
        return; /* given up, or answered before */
    /* The client of a session store fails the requests that an earlier session has not answered. */
    if (is_session(store->s) && message->session != process_of(store)->session)
        return;
    simba_request *request = take_out(store, i);
    request->reply = message->request.reply;
    if (request->reply.status < 0) {
        store->host->fail(store->host, request, request->reply.status, "refused");
        return;
    }
    if (request->op == SIMBA_OP_READ_NOTE && message->note.token > 0) {
        char text[SIM_NOTE_SIZE + 1];
        notes_print(message->note, text);
        store->host->noted(store->host, request, &(simba_stored_note){.bytes = text, .size = SIM_NOTE_SIZE});
    }
    store->host->complete(store->host, request);
}

bool net_store_is_awaited(const sim *s, const sim_message *message)
{
    if (message->boot != s->process[message->process].boot || !s->process[message->process].alive)
        return false;
    const net_store *store = client_store(s, message->process);
    const unsigned i = find(store, message->generation);
    return i < store->count && ((const simba__request *)(const void *)store->asked[i].request)->of;
}

/* --- watching ---------------------------------------------------------------------------------------- */

static sim_watch *watch_of(const net_store *store, const char *mutex, unsigned *ret_mutex)
{
    unsigned m = 0;
    while (strcmp(sim_mutex_name(m), mutex) != 0)
        m++;
    *ret_mutex = m;
    return &process_of(store)->watches[m];
}

static void subscribe(sim *s, unsigned process, unsigned mutex)
{
    uint32_t index;
    sim_message *message = net_message(s, MSG_SUBSCRIBE, process, &index);
    message->mutex = (uint8_t)mutex;
    net_to_store(s, index, true);
}

static int watch(void *self, simba_watch *shown)
{
    net_store *store = self;
    sim *s = store->s;
    sim_process *process = process_of(store);
    unsigned mutex;
    sim_watch *watched = watch_of(store, shown->mutex, &mutex);
    *watched = (sim_watch){.shown = shown};
    if (s->plan->store == SIM_STORE_POLL)
        process_plan(s, EV_POLL, store->process, process, process_now(s, process), ++process->poll_version);
    else
        subscribe(s, store->process, mutex);
    return 0;
}

static void unwatch(void *self, simba_watch *shown)
{
    net_store *store = self;
    unsigned mutex;
    watch_of(store, shown->mutex, &mutex)->shown = NULL;
    if (!client_is_muted(store->s, store->process))
        store->s->store.subscribed[store->process][mutex] = 0;
}

static void push(net_store *store, unsigned mutex, const simba_push *what)
{
    const sim_watch *watched = &process_of(store)->watches[mutex];
    if (watched->shown)
        store->host->push(store->host, watched->shown, what);
}

/* A mutex that was free is free again: somebody may have had it in between, and others may have heard of that. */
static void polled(net_store *store, const sim_message *message)
{
    sim_watch *watched = &process_of(store)->watches[message->mutex];
    const simba_reply *reply = &message->request.reply;
    const bool is_free = simba_owner_is_none(&reply->owner);
    simba_push what = {.kind = SIMBA_PUSH_CHANGED};
    if (!watched->shown)
        return;
    const bool news = !watched->polled || watched->is_free != is_free || watched->token != reply->owner.token ||
                      (is_free && watched->version != message->version);
    if (watched->polled && is_free)
        what.kind = SIMBA_PUSH_RELEASED;
    else if (watched->polled)
        what = (simba_push){.kind = SIMBA_PUSH_ACQUIRED, .owner = reply->owner, .now_ms = reply->now_ms};
    watched->polled = true;
    watched->is_free = is_free;
    watched->token = reply->owner.token;
    watched->version = message->version;
    if (news)
        push(store, message->mutex, &what);
}

static void poll_all(net_store *store)
{
    sim *s = store->s;
    sim_process *process = process_of(store);
    bool any = false;
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        if (!process->watches[m].shown)
            continue;
        uint32_t index;
        net_message(s, MSG_POLL, store->process, &index)->mutex = (uint8_t)m;
        net_to_store(s, index, false);
        any = true;
    }
    if (any)
        process_plan(s, EV_POLL, store->process, process, simba__local_add(process_now(s, process), s->plan->poll_ns),
                     process->poll_version);
}

/* --- sessions ---------------------------------------------------------------------------------------- */

static void send_for_session(net_store *store, sim_message_kind kind)
{
    uint32_t index;
    const sim_process *process = process_of(store);
    sim_message *message = net_message(store->s, kind, store->process, &index);
    message->session = process->session;
    message->generation = process->attempt;
    message->sent_at = process_now(store->s, process).ns;
    net_to_store(store->s, index, false);
}

static void set_session(net_store *store, int64_t sent_at)
{
    sim *s = store->s;
    sim_process *process = process_of(store);
    const int64_t until = sent_at + simba__session_ns(&s->timing, s->plan->session_ns / SIM_MS);
    if (until <= process->session_until.ns)
        return;
    store->host->session(store->host, (simba_local){sent_at}, s->plan->session_ns / SIM_MS);
    process_plan(s, EV_SESSION_OVER, store->process, process, process->session_until, ++process->session_version);
}

/* What is outstanding fails before or after the news. */
static void session_lost(net_store *store)
{
    sim_process *process = process_of(store);
    const bool first = sim_chance(store->s, 500);
    process->session = 0;
    process->attempt++;
    process->session_version++;
    if (first)
        fail_all(store, SIMBA_EUNAVAILABLE);
    store->host->push(store->host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_LOST});
    if (!first)
        fail_all(store, SIMBA_EUNAVAILABLE);
}

static void ping(net_store *store)
{
    sim *s = store->s;
    sim_process *process = process_of(store);
    send_for_session(store, process->session ? MSG_PING : MSG_CONNECT);
    process_plan(s, EV_PING, store->process, process,
                 simba__local_add(process_now(s, process), s->plan->session_ns / 4), process->ping_version);
}

static void connected(net_store *store, const sim_message *message)
{
    sim *s = store->s;
    sim_process *process = process_of(store);
    if (process->session || message->generation != process->attempt)
        return; /* an answer to an earlier attempt; that session will go by itself */
    process->session = message->session;
    process->session_until.ns = 0;
    set_session(store, message->sent_at);
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        if (process->watches[m].shown)
            subscribe(s, store->process, m);
    for (unsigned i = 0; i < store->count; i++)
        if (!store->asked[i].sent)
            send(store, &store->asked[i]);
    store->host->push(store->host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_BACK});
}

/* --- events ------------------------------------------------------------------------------------------ */

void net_store_arrived(sim *s, const sim_message *message)
{
    net_store *store = client_store(s, message->process);
    const sim_process *process = process_of(store);
    switch ((sim_message_kind)message->kind) {
    case MSG_REPLY:
        answered(store, message);
        break;
    case MSG_PUSH:
        if (message->handle < SIM_HANDLES)
            store->host->push_to(store->host, sim_mutex_name(s->handle[message->handle].mutex), message->request.nonce,
                                 &message->push);
        else
            push(store, message->mutex, &message->push);
        break;
    case MSG_SUBSCRIBED:
        push(store, message->mutex, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
        break;
    case MSG_POLLED:
        polled(store, message);
        break;
    case MSG_CONNECTED:
        connected(store, message);
        break;
    case MSG_PONG:
        if (process->session == message->session)
            set_session(store, message->sent_at);
        break;
    case MSG_EXPIRED:
        if (process->session == message->session && process->session)
            session_lost(store);
        break;
    default:
        break;
    }
}

void net_store_event(sim *s, unsigned p, const sim_event *event)
{
    net_store *store = client_store(s, p);
    const sim_process *process = &s->process[p];
    unsigned i;
    switch ((sim_event_kind)event->kind) {
    case EV_RESUBSCRIBE:
        for (unsigned m = 0; event->version == process->boot && m < s->plan->mutexes; m++)
            if (process->watches[m].shown && s->plan->store != SIM_STORE_POLL)
                subscribe(s, p, m);
        break;
    case EV_SESSION_OVER:
        if (event->version == process->session_version)
            session_lost(store);
        break;
    case EV_PING:
        if (event->version == process->ping_version)
            ping(store);
        break;
    case EV_POLL:
        if (event->version == process->poll_version)
            poll_all(store);
        break;
    default:
        i = find(store, event->arg);
        if (event->version == process->boot && i < store->count)
            store->host->fail(store->host, take_out(store, i), SIMBA_EUNAVAILABLE, "the connection is given up");
    }
}

/* --- life -------------------------------------------------------------------------------------------- */

static int init(void *self, simba_host *host, const simba_url *url, simba_error *err)
{
    net_store *store = self;
    store->host = host;
    store->s = client_sim(host, &store->process);
    if (is_session(store->s)) {
        process_of(store)->session = 0;
        sim_plan_event(store->s, EV_PING, store->process, store->s->now, ++process_of(store)->ping_version, 0);
    }
    return 0;
}

static void nothing(void *self)
{
}

static void close_(void *self)
{
    net_store *store = self;
    fail_all(store, SIMBA_ECANCELED);
    store->host->closed(store->host);
}

static const char *const schemes[] = {"sim", NULL};

const simba_backend sim_net_store = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .instance_size = sizeof(net_store),
    .init = init,
    .submit = submit,
    .expire = expire,
    .flush = nothing,
    .watch = watch,
    .unwatch = unwatch,
    .woken = nothing,
    .close = close_,
    .fini = nothing,
};
