/* The host that back ends see: this library's side of simba/backend.h. */
#include <stdarg.h>
#include <string.h>

#include "client/handles.h"
#include "client/log.h"
#include "core/reply.h"
#include "core/trace.h"
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

static void host_forgets(simba_host *host, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    simba__escape_format(text, sizeof text, format, args);
    va_end(args);
    simba__log_forgets(of(host), text);
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
    if (((simba__request *)(void *)request)->of) { /* otherwise it has failed before */
        va_list args;
        va_start(args, format);
        simba__escape_format(error.text, sizeof error.text, format, args);
        va_end(args);
        error = simba__log_failure(client, request, &error);
        simba__count_error(&client->stats, code);
    }
    memset(&request->reply, 0, sizeof request->reply);
    request->reply.status = code;
    simba__window_complete(&client->window, request, &error, client->now);
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
    simba__log_answer(client);
    simba__window_complete(&client->window, request, NULL, client->now);
}

/* --- pushes ---------------------------------------------------------------------------------------- */

static void host_push(simba_host *host, simba_watch *watch, const simba_push *push)
{
    simba_client *client = of(host);
    client->stats.pushes++;
    if (watch) {
        simba__watches_push((simba__watch *)(void *)watch, simba__push_check(push), client->now);
        return;
    }
    if (push->kind == SIMBA_PUSH_SESSION_LOST)
        atomic_store(&client->session_until_ns, 0);
    for (simba__list_item *item = client->handles.first, *next; item; item = next) {
        simba__handle *handle = SIMBA__OF_ITEM(item, simba__handle, of_client);
        simba__event event = {.kind = SIMBA__EV_PUSH, .now = client->now, .push = push};
        next = item->next;
        if (!handle->running)
            continue;
        simba__watches_tell_note(handle, push);
        handle->type->step(handle, &event);
    }
}

static void host_push_to(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push)
{
    simba_client *client = of(host);
    client->stats.pushes++;
    simba__watches_push_to(&client->watches, mutex, nonce, simba__push_check(push), client->now);
}

/* --- sessions -------------------------------------------------------------------------------------- */

/* The store prolongs a session for all its holders at once, without a request of theirs: so all of them are looked at. */
static void say_leases(simba_client *client, bool renewed)
{
    for (simba__list_item *item = client->handles.first; item; item = item->next) {
        simba__handle *handle = SIMBA__OF_ITEM(item, simba__handle, of_client);
        if (handle->type->contends)
            simba__log_lease((simba__candidate *)(void *)handle, renewed);
    }
}

static void on_session_overdue(simba_timer *timer, simba_local now)
{
    (void)now;
    say_leases(SIMBA__OF_ITEM(timer, simba_client, session_overdue), false);
}

/* Holders find the new end when they look at the old one. */
static void host_session(simba_host *host, simba_local from, int64_t ms)
{
    simba_client *client = of(host);
    const simba_local until = simba__local_add(from, simba__session_ns(&client->timing, ms));
    const simba_local overdue = simba__local_add(until, -simba__lease_overdue_ns(&client->timing, ms));
    /* A server may grant a shorter session than we asked for. Contenders whose stop margin does not fit into it never lead, and
     * an error in the log says why. */
    const bool is_news = atomic_exchange(&client->session_ms, ms) != ms;
    for (simba__list_item *item = is_news ? client->handles.first : NULL; item; item = item->next) {
        const simba__handle *handle = SIMBA__OF_ITEM(item, simba__handle, of_client);
        const simba__candidate *candidate = (const simba__candidate *)(const void *)handle;
        if (handle->type->contends && simba__timing_check_session(candidate->machine.timing, ms, NULL) < 0)
            simba__log_cannot_lead(candidate, ms);
    }
    atomic_store(&client->session_until_ns, until.ns); /* last: a thread that sees it sees the other as well */
    if (!simba__local_reached(client->now, overdue))
        say_leases(client, true);
    simba__timers_set(&client->timers, &client->session_overdue, overdue);
}

/* --- the rest -------------------------------------------------------------------------------------- */

static void host_wake(simba_host *host)
{
    simba__loop_wake(of(host));
}

static void host_work(simba_host *host, simba_job *job)
{
    simba__jobs_add(&of(host)->jobs, job);
}

static int host_timer_add(simba_host *host, simba_timer *timer)
{
    timer->index = 0;
    return simba__timers_reserve(&of(host)->timers, 1);
}

static void host_timer_set(simba_host *host, simba_timer *timer, simba_local at)
{
    simba__timers_set(&of(host)->timers, timer, at);
}

static void host_timer_clear(simba_host *host, simba_timer *timer)
{
    simba__timers_clear(&of(host)->timers, timer);
}

static int host_io_add(simba_host *host, simba_io *io)
{
    return simba__reactor_add(&of(host)->reactor, io);
}

static int host_io_change(simba_host *host, simba_io *io, unsigned interest)
{
    return simba__reactor_change(&of(host)->reactor, io, interest);
}

static void host_io_remove(simba_host *host, simba_io *io)
{
    simba__reactor_remove(&of(host)->reactor, io);
}

static void host_closed(simba_host *host)
{
    simba_client *client = of(host);
    client->store_closed = true;
    simba__wake(client, client);
}

int simba__host_init(simba_client *client)
{
    client->session_overdue.fire = on_session_overdue;
    client->watches.keeps = client->backend->caps & SIMBA_CAP_WATCH_FREE;
    atomic_init(&client->session_until_ns, client->timing.session ? 0 : INT64_MAX);
    client->host = (simba_host){
        .workers = client->backend->workers,
        .now = host_now,
        .epoch_us = host_epoch_us,
        .random = host_random,
        .log = host_log,
        .forgets = host_forgets,
        .complete = host_complete,
        .fail = host_fail,
        .listed = simba__calls_listed,
        .found = simba__calls_found,
        .noted = simba__notes_read,
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
    return client->timing.session ? simba__timers_reserve(&client->timers, 1) : 0;
}
