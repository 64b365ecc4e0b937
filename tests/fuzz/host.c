/* See host.h. */
#include "fuzz/host.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/reply.h"
#include "util/clock.h"
#include "util/random.h"

#define TIMEOUT_NS (4000 * SIMBA__NS_PER_MS)

static fuzz_host *of(simba_host *host)
{
    return (fuzz_host *)(void *)host;
}

static simba_local host_now(simba_host *host)
{
    return (simba_local){of(host)->now_ns};
}

static int64_t host_epoch_us(simba_host *host)
{
    return INT64_C(1700000000000000) + of(host)->now_ns / 1000;
}

static uint64_t host_random(simba_host *host)
{
    return simba__random_next(&of(host)->seed);
}

static void host_log(simba_host *host, simba_log_level level, const char *format, ...)
{
    char text[2048];
    (void)host;
    (void)level;
    va_list args;
    va_start(args, format);
    FUZZ_CHECK(vsnprintf(text, sizeof text, format, args) > 0);
    va_end(args);
}

static void host_forgets(simba_host *host, const char *format, ...)
{
    char text[2048];
    (void)host;
    va_list args;
    va_start(args, format);
    FUZZ_CHECK(vsnprintf(text, sizeof text, format, args) > 0);
    va_end(args);
}

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    FUZZ_CHECK(vsnprintf(text, sizeof text, format, args) > 0);
    va_end(args);
    FUZZ_CHECK(code < 0);
    const simba_error error = {.code = code};
    request->reply = (simba_reply){.status = code};
    simba__window_complete(&of(host)->window, request, &error, host_now(host));
}

static void host_complete(simba_host *host, simba_request *request)
{
    const bool is_session = of(host)->backend->caps & SIMBA_CAP_SESSION;
    simba_error fault;
    FUZZ_CHECK(memchr(request->reply.owner.id, '\0', sizeof request->reply.owner.id));
    const int code = simba__reply_check(request, is_session, &fault);
    if (code < 0)
        host_fail(host, request, code, "%s", fault.text);
    else
        simba__window_complete(&of(host)->window, request, NULL, host_now(host));
}

static void on_done(simba__request *request, const simba_error *error)
{
    fuzz_host *h = request->of;
    (void)error;
    FUZZ_CHECK(h->waiting > 0);
    h->waiting--;
}

static int host_listed(simba_host *host, simba_request *request, const simba_listing *row)
{
    (void)host;
    FUZZ_CHECK(request->op == SIMBA_OP_LIST && strlen(row->mutex) <= SIMBA_MUTEX_BYTES);
    FUZZ_CHECK(memchr(row->owner->id, '\0', sizeof row->owner->id));
    return 0;
}

static int host_found(simba_host *host, simba_request *request, const simba_finding *finding)
{
    (void)host;
    FUZZ_CHECK(request->op == SIMBA_OP_EXAMINE && strlen(finding->text) < 512);
    return 0;
}

static int host_noted(simba_host *host, simba_request *request, const simba_stored_note *note)
{
    (void)host;
    FUZZ_CHECK(request->op == SIMBA_OP_READ_NOTE);
    return note->size <= SIMBA_NOTE_MAX ? 0 : SIMBA_ECORRUPT;
}

static void host_push(simba_host *host, simba_watch *watch, const simba_push *push)
{
    (void)host;
    const bool is_of_session = push->kind == SIMBA_PUSH_SESSION_LOST || push->kind == SIMBA_PUSH_SESSION_BACK;
    FUZZ_CHECK(watch ? watch->mutex != NULL : is_of_session);
    (void)simba__push_check(push);
}

static void host_push_to(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push)
{
    (void)host;
    (void)nonce;
    FUZZ_CHECK(strlen(mutex) <= SIMBA_MUTEX_BYTES);
    (void)simba__push_check(push);
}

static void host_session(simba_host *host, simba_local from, int64_t ms)
{
    (void)host;
    (void)from;
    (void)ms;
}

static void host_wake(simba_host *host)
{
    of(host)->woken = true;
}

/* When the host settles, in the order in which it was asked for. */
static void host_work(simba_host *host, simba_job *job)
{
    simba_job **last = &of(host)->first_job;
    while (*last)
        last = &(*last)->next;
    job->next = NULL;
    *last = job;
}

static int host_io_add(simba_host *host, simba_io *io)
{
    fuzz_host *h = of(host);
    if (h->io_count == FUZZ_IOS)
        return SIMBA_ENOMEM;
    h->ios[h->io_count++] = io;
    return 0;
}

static int host_io_change(simba_host *host, simba_io *io, unsigned interest)
{
    (void)host;
    io->interest = interest;
    return 0;
}

static void host_io_remove(simba_host *host, simba_io *io)
{
    fuzz_host *h = of(host);
    size_t i = 0;
    while (i < h->io_count && h->ios[i] != io)
        i++;
    if (i == h->io_count)
        return; /* it could not be added */
    h->ios[i] = h->ios[--h->io_count];
}

static int host_timer_add(simba_host *host, simba_timer *timer)
{
    fuzz_host *h = of(host);
    if (h->timer_count == FUZZ_TIMERS)
        return SIMBA_ENOMEM;
    timer->index = 0;
    h->timers[h->timer_count++] = timer;
    return 0;
}

static void host_timer_set(simba_host *host, simba_timer *timer, simba_local at)
{
    (void)host;
    timer->at = at;
    timer->index = 1;
}

static void host_timer_clear(simba_host *host, simba_timer *timer)
{
    (void)host;
    timer->index = 0;
}

static void host_closed(simba_host *host)
{
    FUZZ_CHECK(!of(host)->closed);
    of(host)->closed = true;
}

bool fuzz_host_open(fuzz_host *h, const simba_backend *backend, const char *url)
{
    simba_error err;
    simba_url *parsed = NULL;
    *h = (fuzz_host){.backend = backend, .now_ns = INT64_C(5000000000000), .seed = 1};
    h->host = (simba_host){
        .now = host_now,
        .epoch_us = host_epoch_us,
        .random = host_random,
        .log = host_log,
        .forgets = host_forgets,
        .complete = host_complete,
        .fail = host_fail,
        .listed = host_listed,
        .found = host_found,
        .noted = host_noted,
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
    h->store = calloc(1, backend->instance_size);
    FUZZ_CHECK(h->store && simba_url_parse(url, &err, &parsed) == 0);
    FUZZ_CHECK(simba__window_init(&h->window, &h->host, backend, h->store, TIMEOUT_NS) == 0);
    const int rc = backend->init(h->store, &h->host, parsed, &err);
    simba_url_free(parsed);
    if (rc == 0)
        return true;
    backend->fini(h->store);
    free(h->store);
    return false;
}

static bool do_work(fuzz_host *h)
{
    simba_job *job = h->first_job;
    if (!job)
        return false;
    h->first_job = job->next;
    FUZZ_CHECK(job->run(job, (simba_local){INT64_MAX}));
    job->done(job);
    return true;
}

void fuzz_host_settle(fuzz_host *h)
{
    enum { ROUNDS = 1000 }; /* nothing goes on for ever */
    for (unsigned round = 0;; round++) {
        FUZZ_CHECK(round < ROUNDS);
        if (simba__window_hand_over(&h->window, (simba_local){h->now_ns}) > 0) {
            h->backend->flush(h->store);
        } else if (h->woken) {
            h->woken = false;
            h->backend->woken(h->store);
        } else if (!do_work(h)) {
            return;
        }
    }
}

void fuzz_host_poll(fuzz_host *h)
{
    for (size_t i = 0; i < h->io_count; i++) {
        simba_io *io = h->ios[i];
        const bool reads = io->interest & SIMBA_READABLE, writes = io->interest & SIMBA_WRITABLE;
        struct pollfd fd = {.fd = io->fd, .events = (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0))};
        if (poll(&fd, 1, 0) <= 0)
            continue;
        const bool is_over = fd.revents & (POLLERR | POLLHUP | POLLNVAL);
        io->ready(io, (reads && (is_over || fd.revents & POLLIN) ? SIMBA_READABLE : 0U) |
                          (writes && (is_over || fd.revents & POLLOUT) ? SIMBA_WRITABLE : 0U));
        fuzz_host_settle(h);
    }
}

void fuzz_host_ask(fuzz_host *h, const simba_request *request)
{
    if (h->waiting == FUZZ_REQUESTS)
        return;
    simba__request *made = simba__request_new(request, TIMEOUT_NS);
    FUZZ_CHECK(made);
    made->of = h;
    made->done = on_done;
    h->waiting++;
    simba__window_add(&h->window, made);
}

static simba_timer *next_due(const fuzz_host *h, int64_t until_ns)
{
    simba_timer *due = NULL;
    for (size_t i = 0; i < h->timer_count; i++)
        if (h->timers[i]->index != 0 && h->timers[i]->at.ns <= until_ns && (!due || h->timers[i]->at.ns < due->at.ns))
            due = h->timers[i];
    return due;
}

void fuzz_host_advance(fuzz_host *h, int64_t ms)
{
    enum { FIRED = 20000 }; /* in a minute at most: nobody is busy with nothing */
    const int64_t until_ns = h->now_ns + ms * SIMBA__NS_PER_MS;
    simba_timer *due;
    for (unsigned fired = 0; (due = next_due(h, until_ns)) != NULL; fired++) {
        FUZZ_CHECK(fired < FIRED);
        if (due->at.ns > h->now_ns)
            h->now_ns = due->at.ns;
        due->index = 0;
        due->fire(due, (simba_local){h->now_ns});
        fuzz_host_settle(h);
    }
    h->now_ns = until_ns;
}

void fuzz_host_close(fuzz_host *h)
{
    fuzz_host_settle(h);
    h->backend->close(h->store);
    while (do_work(h)) {
    }
    if (!h->closed)
        fuzz_host_advance(h, 2000); /* a store may say good-bye, and waits for an answer for a while */
    FUZZ_CHECK(h->closed && h->io_count == 0);
    simba__window_close(&h->window);
    FUZZ_CHECK(h->waiting == 0);
    for (size_t i = 0; i < h->timer_count; i++)
        FUZZ_CHECK(h->timers[i]->index == 0);
    h->backend->fini(h->store);
    free(h->store);
}
