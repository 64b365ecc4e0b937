/* See host.h. */
#include "runtime/host.h"

#include <stdarg.h>
#include <string.h>

#include "core/delivery.h"
#include "core/reply.h"
#include "core/tally.h"
#include "runtime/admin.h"
#include "runtime/member.h"
#include "runtime/narrator.h"
#include "runtime/notice.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/escape.h"
#include "util/random.h"

static simba_client *of(simba_host *host)
{
    return (simba_client *)(void *)host;
}

static void host_log(simba_host *host, simba_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    simba__vlog(&of(host)->options, level, format, args);
    va_end(args);
}

/* --- time and chance ------------------------------------------------------------------------------- */

static simba_local host_now(simba_host *host)
{
    (void)host;
    return simba__clock_boot();
}

static int64_t host_epoch_us(simba_host *host)
{
    (void)host;
    return simba__clock_epoch_us();
}

static uint64_t host_random(simba_host *host)
{
    (void)host;
    uint64_t value;
    if (simba__random_bytes(&value, sizeof value) < 0)
        value = (uint64_t)simba__clock_mono_ns(); /* only if the kernel has no randomness at all */
    return value;
}

/* --- requests -------------------------------------------------------------------------------------- */

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    simba_client *client = of(host);
    simba_error error = {.code = code};
    va_list args;
    va_start(args, format);
    simba__escape_format(error.text, sizeof error.text, format, args);
    va_end(args);
    const simba_error cause = error;
    simba__wrap(&error, code, "%s%s%s", simba__op_name(request->op), request->mutex ? " " : "",
                request->mutex ? request->mutex : "");
    simba__narrate_failure(client, request, &cause, &error);
    simba__tally_error(&client->stats, code);
    if (request->err)
        *request->err = error;
    memset(&request->reply, 0, sizeof request->reply);
    request->reply.status = code;
    simba__requests_complete(&client->requests, request);
}

/* Every answer of every store goes through the check. */
static void host_complete(simba_host *host, simba_request *request)
{
    simba_client *client = of(host);
    simba_error fault;
    const int code = simba__reply_check(request, client->timing.session, &fault);
    if (code < 0) {
        host_fail(host, request, code, "%s: %s", simba_url_scheme(client->url), fault.text);
        return;
    }
    /* A store with a single server has nothing new to say once it answers. */
    if (client->store_state != SIMBA__STORE_ANSWERS || client->backend->server)
        simba__narrate_answer(client);
    simba__requests_complete(&client->requests, request);
}

/* --- pushes ---------------------------------------------------------------------------------------- */

static void deliver_note(simba__party *party, const simba_push *push)
{
    if (party->type->noted && simba__delivery_tells_note(push))
        party->type->noted(party);
}

static bool is_known_to(const simba__party *party, const simba_push *push)
{
    const simba_request *request = party->request;
    return request && simba__requests_answered(request) && simba__delivery_is_known(&request->reply, push);
}

static void tell(simba__party *party, const simba_push *push, simba__delivery *delivery)
{
    deliver_note(party, push);
    if (!simba__delivery_concerns(delivery, party->type->is_member) || is_known_to(party, push))
        return;
    simba__event event = {.kind = SIMBA__EV_PUSH, .now = party->client->turn.now, .push = push, .used = delivery->used};
    party->type->event(party, &event);
    simba__delivery_made(delivery, party->type->is_member, event.used);
}

/* Keep the news of an owner for those who wait. False: they have to hear it now. */
static bool keep_news(simba__topic *topic, const simba_push *push, simba_local now)
{
    if (!topic->news)
        return false;
    const bool can_wait = simba__news_can_wait(topic->news, push, now);
    simba__news_keep(topic->news, push, now);
    return can_wait;
}

/* Does one who waits have to hear whatever happens, for its application or for the log? */
static bool must_all_hear(const simba_client *client, const simba__topic *topic)
{
    return topic->watchful > 0 || simba__has_listener(&client->options);
}

/* Is there anybody left among those who wait who has to hear it? */
static bool goes_on(const simba_push *push, const simba__delivery *delivery, bool kept)
{
    switch (push->kind) {
    case SIMBA_PUSH_ACQUIRED:
        return !kept || (push->listens && !delivery->used); /* one of them makes itself known to the holder */
    case SIMBA_PUSH_FREED:
    case SIMBA_PUSH_NOTED:
        return false; /* says nothing to one who waits */
    default:
        return !delivery->used;
    }
}

static void deliver(simba_client *client, simba__topic *topic, const simba_push *push)
{
    simba__delivery delivery = simba__delivery_of(push);
    for (simba__list_item *item = topic->parties.first, *next; item; item = next) {
        next = item->next;
        tell(SIMBA__OF_ITEM(item, simba__party, of_topic), push, &delivery);
    }
    if (!topic->waiting.first && !topic->news)
        return;
    const bool all = must_all_hear(client, topic);
    const bool kept = push->kind == SIMBA_PUSH_ACQUIRED && keep_news(topic, push, client->turn.now);
    for (simba__list_item *item = topic->waiting.first, *next; item && (all || goes_on(push, &delivery, kept));
         item = next) {
        next = item->next;
        tell(SIMBA__OF_ITEM(item, simba__party, of_topic), push, &delivery);
    }
}

static void host_push(simba_host *host, simba_topic *topic, const simba_push *push)
{
    simba_client *client = of(host);
    client->stats.pushes++;
    if (topic) {
        deliver(client, (simba__topic *)(void *)topic, simba__push_check(push));
        return;
    }
    if (push->kind == SIMBA_PUSH_SESSION_LOST)
        atomic_store(&client->session_until_ns, 0);
    for (simba__ring *place = client->parties.after, *next; place != &client->parties; place = next) {
        simba__party *party = SIMBA__OF_RING(place, simba__party, of_client);
        next = place->after;
        simba__event event = {.kind = SIMBA__EV_PUSH, .now = client->turn.now, .push = push};
        if (!party->running)
            continue;
        deliver_note(party, push);
        party->type->event(party, &event);
    }
}

static simba__party *find_nonce(const simba__list *parties, uint64_t nonce)
{
    for (simba__list_item *item = parties->first; item; item = item->next) {
        simba__party *party = SIMBA__OF_ITEM(item, simba__party, of_topic);
        if (party->type->is_member && ((const simba__member *)(const void *)party)->machine.nonce == nonce)
            return party;
    }
    return NULL;
}

static void host_push_to(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push)
{
    simba_client *client = of(host);
    client->stats.pushes++;
    push = simba__push_check(push);
    const simba__topic *topic = simba__topics_find(&client->topics, mutex);
    simba__party *party = topic ? find_nonce(&topic->parties, nonce) : NULL;
    if (topic && !party)
        party = find_nonce(&topic->waiting, nonce);
    simba__event event = {.kind = SIMBA__EV_PUSH, .now = client->turn.now, .push = push};
    if (party)
        party->type->event(party, &event);
}

/* A server may grant a shorter session than we asked for. Contenders whose stop margin does not fit into it never
 * lead, and an error in the log says why. */
static void check_margins(simba_client *client, int64_t ms)
{
    for (simba__ring *place = client->parties.after; place != &client->parties; place = place->after) {
        const simba__party *party = SIMBA__OF_RING(place, simba__party, of_client);
        const simba__member *member = (const simba__member *)(const void *)party;
        if (!party->type->is_member || simba__timing_check_session(member->machine.timing, ms, NULL) == 0)
            continue;
        const simba__facts facts = {.mutex = party->topic->mutex,
                                    .id = member->id,
                                    .session_ms = ms,
                                    .margin_ms = member->machine.timing->ms.stop_margin_ms};
        simba__notice_say(&client->options, SIMBA__NOTICE_CANNOT_LEAD, &facts);
    }
}

/* The store prolongs a session for all its holders at once, without a request of theirs. So this code logs for all
 * of them whether it is overdue. */
static void say_leases(simba_client *client, bool renewed)
{
    for (simba__ring *place = client->parties.after; place != &client->parties; place = place->after) {
        simba__party *party = SIMBA__OF_RING(place, simba__party, of_client);
        if (party->type->is_member)
            simba__member_say_lease((simba__member *)(void *)party, renewed);
    }
}

static void on_session_overdue(simba_timer *timer, simba_local now)
{
    (void)now;
    say_leases((simba_client *)(void *)((char *)timer - offsetof(simba_client, session_overdue)), false);
}

static void look_at_session(simba_client *client, simba_local until)
{
    const int64_t overdue_ns = simba__lease_overdue_ns(&client->timing, atomic_load(&client->session_ms));
    const simba_local at = simba__local_add(until, -overdue_ns);
    if (!simba__local_reached(client->turn.now, at))
        say_leases(client, true);
    simba__timers_set(&client->turn.timers, &client->session_overdue, at);
}

/* Holders find the new end when they look at the old one. */
static void host_session(simba_host *host, simba_local from, int64_t ms)
{
    simba_client *client = of(host);
    const simba_local until = simba__local_add(from, simba__session_ns(&client->timing, ms));
    if (atomic_exchange(&client->session_ms, ms) != ms)
        check_margins(client, ms);
    atomic_store(&client->session_until_ns, until.ns); /* last: a thread that sees it sees the other as well */
    look_at_session(client, until);
}

/* --- the rest -------------------------------------------------------------------------------------- */

static void host_wake(simba_host *host)
{
    simba_client *client = of(host);
    if (atomic_exchange(&client->wake_wanted, true) || simba__in_turn(&client->turn))
        return; /* a turn of our own sees it before it ends */
    simba__waitset_ring(&client->turn.reactor.threads);
    simba__waitset_ring(&client->turn.reactor.loop);
}

static void host_work(simba_host *host, simba_job *job)
{
    simba__worker_post(&of(host)->turn.worker, job);
}

static int host_timer_add(simba_host *host, simba_timer *timer)
{
    timer->index = 0;
    return simba__timers_reserve(&of(host)->turn.timers, 1);
}

static void host_timer_set(simba_host *host, simba_timer *timer, simba_local at)
{
    simba__timers_set(&of(host)->turn.timers, timer, at);
}

static void host_timer_clear(simba_host *host, simba_timer *timer)
{
    simba__timers_clear(&of(host)->turn.timers, timer);
}

static int host_io_add(simba_host *host, simba_io *io)
{
    return simba__reactor_add(&of(host)->turn.reactor, io);
}

static int host_io_change(simba_host *host, simba_io *io, unsigned interest)
{
    return simba__reactor_change(&of(host)->turn.reactor, io, interest);
}

static void host_io_remove(simba_host *host, simba_io *io)
{
    simba__reactor_remove(&of(host)->turn.reactor, io);
}

static void host_closed(simba_host *host)
{
    simba_client *client = of(host);
    client->store_closed = true;
    simba__turn_signal(&client->turn, &client->turn.changed);
}

int simba__host_init(simba_client *client)
{
    client->session_overdue.fire = on_session_overdue;
    client->topics.keeps = client->backend->caps & SIMBA_CAP_WATCH_FREE;
    atomic_init(&client->session_until_ns, client->timing.session ? 0 : INT64_MAX);
    client->host = (simba_host){
        .workers = client->backend->workers,
        .now = host_now,
        .epoch_us = host_epoch_us,
        .random = host_random,
        .log = host_log,
        .complete = host_complete,
        .fail = host_fail,
        .listed = simba__admin_listed,
        .found = simba__admin_found,
        .noted = simba__admin_noted,
        .push = host_push,
        .push_to = host_push_to,
        .session = host_session,
        .wake = host_wake,
        .work = host_work,
        .timer_add = host_timer_add,
        .timer_set = host_timer_set,
        .timer_clear = host_timer_clear,
        .io_add = host_io_add,
        .io_change = host_io_change,
        .io_remove = host_io_remove,
        .closed = host_closed,
    };
    return client->timing.session ? simba__timers_reserve(&client->turn.timers, 1) : 0;
}
