/* See testhost.h. */
#include "lib/testhost.h"

#include <assert.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/reply.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

static testhost *of(simba_host *host)
{
    return (testhost *)(void *)host;
}

static simba_local read_clock(const testhost *h)
{
    return (simba_local){(h->still_at.ns ? h->still_at.ns : simba__clock_boot().ns) + h->now_shift_ns};
}

static simba_local host_now(simba_host *host)
{
    testhost *h = of(host);
    if (h->on_now)
        h->on_now(h);
    return read_clock(h);
}

static int64_t host_epoch_us(simba_host *host)
{
    const testhost *h = of(host);
    const int64_t now_us = h->seed ? INT64_C(1700000000000000) + read_clock(h).ns / 1000 : simba__clock_epoch_us();
    return now_us + h->epoch_shift_us;
}

static uint64_t host_random(simba_host *host)
{
    uint64_t value = 0;
    if (of(host)->seed)
        return simba__random_next(&of(host)->seed);
    simba__random_bytes(&value, sizeof value);
    return value;
}

static void host_log(simba_host *host, simba_log_level level, const char *format, ...)
{
    testhost *h = of(host);
    h->warnings += level <= SIMBA_LOG_WARN;
    va_list args;
    va_start(args, format);
    vsnprintf(h->log, sizeof h->log, format, args);
    va_end(args);
}

static void host_forgets(simba_host *host, const char *format, ...)
{
    testhost *h = of(host);
    h->forgets++;
    va_list args;
    va_start(args, format);
    vsnprintf(h->log, sizeof h->log, format, args);
    va_end(args);
}

static void on_done(simba__request *request, const simba_error *error)
{
    testhost_request *r = request->of;
    assert(!r->done);
    r->done = true;
    r->sent = NULL;
    r->request.reply = request->shown.reply;
    if (error)
        r->error = *error;
}

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    simba_error error = {.code = code};
    va_list args;
    assert(code < 0);
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    request->reply = (simba_reply){.status = code};
    simba__window_complete(&of(host)->window, request, &error, read_clock(of(host)));
}

static void host_complete(simba_host *host, simba_request *request)
{
    testhost *h = of(host);
    simba_error fault;
    const int code = simba__reply_check(request, h->backend->caps & SIMBA_CAP_SESSION, &fault);
    if (code < 0)
        host_fail(host, request, code, "%s", fault.text);
    else
        simba__window_complete(&h->window, request, NULL, read_clock(h));
}

static int host_listed(simba_host *host, simba_request *request, const simba_listing *row)
{
    testhost *h = of(host);
    assert(request->op == SIMBA_OP_LIST && memchr(row->owner->id, '\0', sizeof row->owner->id));
    assert(strlen(row->mutex) <= SIMBA_MUTEX_BYTES);
    if (h->listed_count == TESTHOST_LISTED)
        return 0;
    testhost_listed *listed = &h->listed[h->listed_count++];
    snprintf(listed->mutex, sizeof listed->mutex, "%s", row->mutex);
    listed->owner = *row->owner;
    listed->now_ms = row->now_ms;
    listed->waiters = row->waiters;
    snprintf(listed->next, sizeof listed->next, "%s", row->next ? row->next : "");
    listed->note_length = row->size > offsetof(simba_listing, note_length) ? row->note_length : 0;
    return 0;
}

static int host_found(simba_host *host, simba_request *request, const simba_finding *finding)
{
    testhost *h = of(host);
    assert(request->op == SIMBA_OP_EXAMINE && strlen(finding->text) < 512);
    if (h->found_count == TESTHOST_FOUND)
        return 0;
    testhost_found *found = &h->found[h->found_count++];
    found->verdict = finding->verdict;
    snprintf(found->what, sizeof found->what, "%s", finding->what);
    snprintf(found->text, sizeof found->text, "%s", finding->text);
    return 0;
}

static int host_noted(simba_host *host, simba_request *request, const simba_stored_note *note)
{
    testhost *h = of(host);
    assert(request->op == SIMBA_OP_READ_NOTE);
    if (note->size > SIMBA_NOTE_MAX)
        return SIMBA_ECORRUPT;
    h->note = (simba_note){
        .size = sizeof h->note, .length = note->size, .token = note->token, .written_at_ms = note->written_at_ms};
    memcpy(h->note.bytes, note->bytes, note->size);
    h->noted_count++;
    return 0;
}

static void keep_push(testhost *h, simba_watch *watch, uint64_t nonce, const simba_push *push)
{
    if (push->kind == SIMBA_PUSH_NOTED)
        return;
    if (h->push_count == TESTHOST_PUSHES)
        h->push_count--; /* processes in a contest can push for ever: the last place has the latest push */
    h->pushes[h->push_count++] = (testhost_push){watch, nonce, *simba__push_check(push)};
}

static void host_push(simba_host *host, simba_watch *watch, const simba_push *push)
{
    assert(watch || push->kind == SIMBA_PUSH_SESSION_LOST || push->kind == SIMBA_PUSH_SESSION_BACK);
    keep_push(of(host), watch, 0, push);
}

static void host_push_to(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push)
{
    assert(strlen(mutex) <= SIMBA_MUTEX_BYTES);
    keep_push(of(host), NULL, nonce, push);
}

static void host_session(simba_host *host, simba_local from, int64_t ms)
{
    (void)host, (void)from, (void)ms;
}

static void host_wake(simba_host *host)
{
    of(host)->wake_wanted = true;
}

static void host_work(simba_host *host, simba_job *job)
{
    testhost *h = of(host);
    job->next = NULL;
    *h->last_job = job;
    h->last_job = &job->next;
}

static int host_timer_add(simba_host *host, simba_timer *timer)
{
    testhost *h = of(host);
    assert(h->timer_count < TESTHOST_TIMERS);
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

/* As the client does before it releases its lock. */
void testhost_end_section(testhost *h)
{
    for (;;) {
        if (!h->closing && simba__window_hand_over(&h->window, read_clock(h))) {
            h->backend->flush(h->store);
        } else if (h->wake_wanted) {
            h->wake_wanted = false;
            h->backend->woken(h->store);
        } else {
            break;
        }
    }
}

static void host_closed(simba_host *host)
{
    assert(!of(host)->closed);
    of(host)->closed = true;
}

static int open_cleared(testhost *h, const simba_backend *backend, const char *url, simba_error *err)
{
    h->backend = backend;
    h->last_job = &h->first_job;
    h->host = (simba_host){
        .workers = backend->workers,
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
    simba_url *parsed = NULL;
    int rc = simba_url_parse(url, err, &parsed);
    if (rc < 0)
        return rc;
    rc = simba__reactor_init(&h->reactor, false, err);
    assert(rc == 0);
    h->store = calloc(1, backend->instance_size);
    rc = simba__window_init(&h->window, &h->host, backend, h->store, 4000 * SIMBA__NS_PER_MS);
    assert(rc == 0);
    rc = backend->init(h->store, &h->host, parsed, err);
    simba_url_free(parsed);
    if (rc < 0) {
        backend->fini(h->store);
        free(h->store);
        simba__reactor_fini(&h->reactor);
    }
    return rc;
}

int testhost_open(testhost *h, const simba_backend *backend, const char *url, simba_error *err)
{
    memset(h, 0, sizeof *h);
    return open_cleared(h, backend, url, err);
}

int testhost_open_still(testhost *h, const simba_backend *backend, const char *url, simba_error *err)
{
    memset(h, 0, sizeof *h);
    h->still_at.ns = INT64_C(5000000000000);
    h->seed = 1;
    return open_cleared(h, backend, url, err);
}

void testhost_close(testhost *h)
{
    h->closing = true;
    h->backend->close(h->store);
    testhost_end_section(h);
    testhost_run_jobs(h);
    if (!h->closed && h->seed)
        testhost_advance(h, 2000); /* a store may have to say good-bye */
    else if (!h->closed)
        testhost_pump(h, &h->closed, 2000);
    assert(h->closed);
    assert(!h->reactor.first);
    simba__window_close(&h->window);
    for (size_t i = 0; i < h->timer_count; i++)
        assert(h->timers[i]->index == 0);
    h->backend->fini(h->store);
    free(h->store);
    simba__reactor_fini(&h->reactor);
}

testhost_request testhost_request_of(testhost *h, simba_op op, const char *mutex, const char *id, uint64_t nonce,
                                     uint64_t token)
{
    return (testhost_request){.request = {.op = op,
                                          .mutex = mutex,
                                          .id = id,
                                          .nonce = nonce,
                                          .token = token,
                                          .ttl_ms = 10000,
                                          .transition_ms = 6000,
                                          .deadline = {read_clock(h).ns + 4000 * SIMBA__NS_PER_MS}}};
}

void testhost_submit(testhost *h, testhost_request *r)
{
    const simba_local now = read_clock(h);
    r->sent = simba__request_new(&r->request, r->request.deadline.ns - now.ns);
    r->unasked = !r->sent;
    if (r->unasked) {
        r->done = true;
        r->request.reply = (simba_reply){.status = simba__fail(&r->error, SIMBA_ENOMEM, "out of memory")};
        return;
    }
    r->sent->of = r;
    r->sent->done = on_done;
    simba__window_add(&h->window, r->sent);
    simba__window_hand_over(&h->window, now);
}

void testhost_expire(testhost *h, testhost_request *r)
{
    simba__request *request = r->sent;
    assert(request);
    r->sent = NULL;
    request->of = NULL;
    h->backend->expire(h->store, &request->shown);
    testhost_end_section(h);
}

void testhost_flush(testhost *h)
{
    h->backend->flush(h->store);
    testhost_end_section(h);
}

void testhost_run_jobs(testhost *h)
{
    while (h->first_job) {
        simba_job *job = h->first_job;
        h->first_job = job->next;
        if (!h->first_job)
            h->last_job = &h->first_job;
        h->jobs_run++;
        (void)job->run(job, (simba_local){INT64_MAX});
        job->done(job);
        testhost_end_section(h);
    }
}

/* The first one, of those that are due then. */
static simba_timer *due(const testhost *h, simba_local now)
{
    simba_timer *first = NULL;
    for (size_t i = 0; i < h->timer_count; i++)
        if (h->timers[i]->index != 0 && h->timers[i]->at.ns <= now.ns && (!first || h->timers[i]->at.ns < first->at.ns))
            first = h->timers[i];
    return first;
}

void testhost_fire(testhost *h)
{
    simba_local now = host_now(&h->host);
    for (simba_timer *timer = due(h, now); timer; timer = due(h, now)) {
        timer->index = 0;
        timer->fire(timer, now);
        testhost_end_section(h);
        now = host_now(&h->host);
    }
}

/* Wait for events of descriptors. */
static void look(testhost *h, int timeout_ms)
{
    simba__reactor_wait(&h->reactor, timeout_ms);
    (void)simba__reactor_take(&h->reactor);
    testhost_end_section(h);
}

bool testhost_pump(testhost *h, const bool *until, int64_t ms)
{
    const int64_t end_ns = simba__clock_boot().ns + ms * SIMBA__NS_PER_MS;
    while (!(until && *until) && simba__clock_boot().ns < end_ns) {
        testhost_fire(h);
        testhost_run_jobs(h);
        if (!(until && *until))
            look(h, 1);
    }
    testhost_settle(h);
    return until && *until;
}

const simba_reply *testhost_ask(testhost *h, testhost_request *r)
{
    testhost_submit(h, r);
    testhost_flush(h);
    testhost_run_jobs(h);
    if (!r->done)
        testhost_pump(h, &r->done, 60000);
    assert(r->done);
    return &r->request.reply;
}

int testhost_watch(testhost *h, simba_watch *watch)
{
    const int rc = h->backend->watch(h->store, watch);
    testhost_end_section(h);
    return rc;
}

void testhost_unwatch(testhost *h, simba_watch *watch)
{
    h->backend->unwatch(h->store, watch);
    testhost_end_section(h);
}

void testhost_advance(testhost *h, int64_t ms)
{
    const int64_t shift_ns = h->now_shift_ns + ms * SIMBA__NS_PER_MS;
    simba_timer *next;
    while ((next = due(h, (simba_local){read_clock(h).ns + shift_ns - h->now_shift_ns})) != NULL) {
        const int64_t ahead_ns = next->at.ns - read_clock(h).ns;
        h->now_shift_ns += ahead_ns > 0 ? ahead_ns : 0;
        if (h->now_shift_ns > shift_ns)
            break;
        testhost_fire(h);
        testhost_run_jobs(h);
    }
    h->now_shift_ns = shift_ns;
    testhost_fire(h);
    testhost_run_jobs(h);
}

bool testhost_await_pushes(testhost *h, size_t count)
{
    const int64_t end_ns = simba__clock_boot().ns + 10000 * SIMBA__NS_PER_MS;
    testhost_run_jobs(h);
    while (h->push_count < count && simba__clock_boot().ns < end_ns) {
        look(h, 10);
        testhost_run_jobs(h);
    }
    testhost_settle(h);
    return h->push_count >= count;
}

void testhost_settle(testhost *h)
{
    struct pollfd ready = {.fd = h->reactor.set, .events = POLLIN};
    testhost_run_jobs(h);
    for (int i = 0; i < 100 && poll(&ready, 1, 0) > 0; i++) {
        look(h, 0);
        testhost_run_jobs(h);
    }
}
