/* See host.h. */
#include "runtime/host.h"

#include <stdarg.h>
#include <string.h>

#include "core/delivery.h"
#include "core/reply.h"
#include "runtime/calls.h"
#include "runtime/member.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/escape.h"
#include "util/random.h"

static simba_client *of(simba_host *host)
{
    return (simba_client *)(void *)host;
}

/* --- log ------------------------------------------------------------------------------------------ */

static void host_log(simba_host *host, simba_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    simba__log_args(&of(host)->options, level, format, args);
    va_end(args);
}

/* A cause is said when it is new: another one than before, or something was granted or renewed in between. Every contender
 * finds it out, again and again while it lasts; that is said once a minute. */
static simba_log_level complaint_level(simba_client *client, const simba_error *cause)
{
    enum { SAME_CAUSE_MS = 60000 };
    const uint64_t successes = client->stats.grants + client->stats.renewals;
    if (strcmp(client->last_cause.text, cause->text) == 0 && successes == client->last_cause_successes &&
        client->turn.now.ns - client->last_cause_at.ns < SAME_CAUSE_MS * SIMBA__NS_PER_MS)
        return SIMBA_LOG_DEBUG;
    client->last_cause = *cause;
    client->last_cause_at = client->turn.now;
    client->last_cause_successes = successes;
    return SIMBA_LOG_WARN;
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
        value = (uint64_t)simba__clock_mono_ns(); /* only where the kernel has no randomness at all */
    return value;
}

/* --- requests -------------------------------------------------------------------------------------- */

static const char *op_name(simba_op op)
{
    static const char *const names[] = {
        [SIMBA_OP_ACQUIRE] = "acquire", [SIMBA_OP_RENEW] = "renew",     [SIMBA_OP_RELEASE] = "release",
        [SIMBA_OP_READ] = "read",       [SIMBA_OP_LIST] = "list",       [SIMBA_OP_FORCE_RELEASE] = "force release",
        [SIMBA_OP_EXAMINE] = "examine", [SIMBA_OP_PREPARE] = "prepare",
    };
    return names[op];
}

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    simba_client *client = of(host);
    simba_error error = {.code = code};
    va_list args;
    va_start(args, format);
    simba__escape_format(error.text, sizeof error.text, format, args);
    va_end(args);
    const simba_log_level level = complaint_level(client, &error);
    simba__wrap(&error, code, "%s%s%s", op_name(request->op), request->mutex ? " " : "",
                request->mutex ? request->mutex : "");
    simba__log_text(&client->options, level, error.text);
    client->stats.errors++;
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
    if (code < 0)
        host_fail(host, request, code, "%s: %s", simba_url_scheme(client->url), fault.text);
    else
        simba__requests_complete(&client->requests, request);
}

/* --- pushes ---------------------------------------------------------------------------------------- */

static void deliver(simba_client *client, simba__topic *topic, const simba_push *push)
{
    simba__delivery delivery = simba__delivery_of(push);
    for (simba__list_item *item = topic->parties.first, *next; item; item = next) {
        simba__party *party = SIMBA__OF_ITEM(item, simba__party, of_topic);
        next = item->next;
        if (!simba__delivery_concerns(&delivery, party->type->is_member))
            continue;
        simba__event event = {.kind = SIMBA__EV_PUSH, .now = client->turn.now, .push = push};
        party->type->event(party, &event);
        simba__delivery_made(&delivery, party->type->is_member, event.used);
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
    for (simba__list_item *item = client->parties.first, *next; item; item = next) {
        simba__party *party = SIMBA__OF_ITEM(item, simba__party, of_client);
        next = item->next;
        simba__event event = {.kind = SIMBA__EV_PUSH, .now = client->turn.now, .push = push};
        if (party->running)
            party->type->event(party, &event);
    }
}

static void host_push_to(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push)
{
    simba_client *client = of(host);
    client->stats.pushes++;
    push = simba__push_check(push);
    const simba__topic *topic = simba__topics_find(&client->topics, mutex);
    for (simba__list_item *item = topic ? topic->parties.first : NULL; item; item = item->next) {
        simba__party *party = SIMBA__OF_ITEM(item, simba__party, of_topic);
        const simba__member *member = (const simba__member *)(const void *)party;
        if (!party->type->is_member || member->machine.nonce != nonce)
            continue;
        simba__event event = {.kind = SIMBA__EV_PUSH, .now = client->turn.now, .push = push};
        party->type->event(party, &event);
        return;
    }
}

/* A server may grant a shorter session than was asked for. Contenders whose stop margin does not fit into it never lead, and
 * whoever wonders why is told. */
static void check_margins(simba_client *client, int64_t ms)
{
    for (simba__list_item *item = client->parties.first; item; item = item->next) {
        const simba__party *party = SIMBA__OF_ITEM(item, simba__party, of_client);
        const simba__member *member = (const simba__member *)(const void *)party;
        if (party->type->is_member && simba__timing_check_session(member->machine.timing, ms, NULL) < 0)
            simba__log(&client->options, SIMBA_LOG_ERROR,
                       "%s cannot be led: the server grants a session of %lld ms, and a stop margin of %lld ms is more "
                       "than a third of it; have the server grant more, or ask for less time to stop",
                       party->topic->mutex, (long long)ms, (long long)member->machine.timing->ms.stop_margin_ms);
    }
}

/* Holders find the new end when they look at the old one. */
static void host_session(simba_host *host, simba_local from, int64_t ms)
{
    simba_client *client = of(host);
    const simba_local until = simba__local_add(from, simba__session_ns(&client->timing, ms));
    if (atomic_exchange(&client->session_ms, ms) != ms)
        check_margins(client, ms);
    atomic_store(&client->session_until_ns, until.ns); /* last: who sees it sees the other */
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

void simba__host_init(simba_client *client)
{
    atomic_init(&client->session_until_ns, client->timing.session ? 0 : INT64_MAX);
    client->host = (simba_host){
        .workers = client->backend->workers,
        .now = host_now,
        .epoch_us = host_epoch_us,
        .random = host_random,
        .log = host_log,
        .complete = host_complete,
        .fail = host_fail,
        .listed = simba__call_listed,
        .found = simba__call_found,
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
}
