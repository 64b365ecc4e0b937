/* The client of a process: what src/client is without threads. Requests go through its window, pushes through its watches, and
 * timers are in its heap; the rest is here, and in the same order as there. Time is that of the process, random numbers are the
 * run's, and jobs run a moment later. The store is one whose own code runs in here, or a model (net_store.c). */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/reply.h"
#include "sim/world.h"
#include "util/random.h"

enum { JOBS = 64, ROUNDS = 10000 };

struct sim_client {
    simba_host host; /* first, so that one is the other */
    sim *s;
    unsigned process;
    void *store;
    simba_url *url;
    bool wake_wanted, muted, closed;
    simba__window window;
    simba__watches watches;
    simba__timers timers;
    simba_local timer_planned; /* when the client comes back to them; INT64_MAX: not */
    uint32_t timer_version;
    simba_job *job[JOBS];
    bool job_must[JOBS]; /* it has been tried before */
};

static sim_client *of(simba_host *host)
{
    return (sim_client *)(void *)host;
}

static sim_client *client_of(const sim_handle *handle)
{
    return handle->s->client[handle->process];
}

static _Thread_local sim_client *running;

sim *client_running(unsigned *ret_process)
{
    if (running && ret_process)
        *ret_process = running->process;
    return running ? running->s : NULL;
}

void client_enter(sim *s, unsigned process)
{
    running = s->client[process];
}

void client_leave(void)
{
    running = NULL;
}

bool client_is_muted(const sim *s, unsigned process)
{
    return s->client[process]->muted;
}

bool client_has_requests(const sim *s, unsigned process)
{
    return s->client[process]->window.outstanding.count > 0;
}

sim *client_sim(simba_host *host, unsigned *ret_process)
{
    *ret_process = of(host)->process;
    return of(host)->s;
}

void *client_store(const sim *s, unsigned process)
{
    return s->client[process]->store;
}

static sim_process *process_of(const sim_client *client)
{
    return &client->s->process[client->process];
}

static simba_local event_time(const sim_client *client)
{
    return process_event_time(client->s, process_of(client));
}

/* --- time and chance --------------------------------------------------------------------------------- */

static simba_local host_now(simba_host *host)
{
    return process_now(of(host)->s, process_of(of(host)));
}

static int64_t host_epoch_us(simba_host *host)
{
    return host_now(host).ns / 1000;
}

static uint64_t host_random(simba_host *host)
{
    return simba__random_next(&of(host)->s->random);
}

static void host_log(simba_host *host, simba_log_level level, const char *format, ...)
{
    if (strstr(format, "no ZooKeeper would")) {
        fprintf(stderr, "simba-sim: a store does not understand what its server says\n");
        abort();
    }
}

static void host_forgets(simba_host *host, const char *format, ...)
{
}

/* --- timers ------------------------------------------------------------------------------------------ */

static void plan_timer(sim_client *client)
{
    const simba_local at = simba__timers_earliest(&client->timers);
    if (at.ns >= client->timer_planned.ns)
        return; /* a timer that was put off is looked at when the client comes back */
    client->timer_planned = at;
    process_plan(client->s, EV_HOST_TIMER, client->process, process_of(client), at, ++client->timer_version);
}

/* The event has happened, or was planned by a clock that runs differently now. */
static void plan_timer_anew(sim_client *client)
{
    client->timer_planned.ns = INT64_MAX;
    client->timer_version++;
    plan_timer(client);
}

static int host_timer_add(simba_host *host, simba_timer *timer)
{
    timer->index = 0;
    return simba__timers_reserve(&of(host)->timers, 1);
}

static void host_timer_set(simba_host *host, simba_timer *timer, simba_local when)
{
    simba__timers_set(&of(host)->timers, timer, when);
    plan_timer(of(host));
}

static void host_timer_clear(simba_host *host, simba_timer *timer)
{
    simba__timers_clear(&of(host)->timers, timer);
}

static void fire(sim_client *client)
{
    const simba_local now = event_time(client);
    for (simba_timer *timer = simba__timers_pop(&client->timers, now); timer;
         timer = simba__timers_pop(&client->timers, now))
        timer->fire(timer, now);
    plan_timer_anew(client);
}

/* --- requests ---------------------------------------------------------------------------------------- */

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    const simba_error error = {.code = code};
    request->reply = (simba_reply){.status = code};
    simba__window_complete(&of(host)->window, request, &error, event_time(of(host)));
}

static void host_complete(simba_host *host, simba_request *request)
{
    sim_client *client = of(host);
    const int fault = simba__reply_check(request, client->s->timing.session, NULL);
    if (fault < 0 && client->s->model)
        check_broken(client->s, "S4", "the answer to a request of mutex %s makes no sense", request->mutex);
    if (fault < 0)
        host_fail(host, request, fault, "it makes no sense");
    else
        simba__window_complete(&client->window, request, NULL, event_time(client));
}

static int host_listed(simba_host *host, simba_request *request, const simba_listing *row)
{
    return 0;
}

static int host_found(simba_host *host, simba_request *request, const simba_finding *finding)
{
    return 0;
}

static int host_noted(simba_host *host, simba_request *request, const simba_stored_note *note)
{
    sim_handle *handle = ((simba__request *)(void *)request)->of;
    if (!handle)
        return SIMBA_ETIMEDOUT;
    if (!notes_read(note->bytes, note->size, &handle->noting.read))
        check_broken(of(host)->s, "S8", "a note of %zu bytes was read that nobody has written", note->size);
    return 0;
}

/* --- pushes ------------------------------------------------------------------------------------------ */

static void host_push(simba_host *host, simba_watch *watch, const simba_push *push)
{
    sim_client *client = of(host);
    sim *s = client->s;
    if (client->muted)
        return;
    if (watch) {
        simba__watches_push((simba__watch *)(void *)watch, simba__push_check(push), event_time(client));
        return;
    }
    if (push->kind == SIMBA_PUSH_SESSION_LOST)
        process_of(client)->session_until.ns = 0;
    for (unsigned i = 0; i < s->handles; i++) {
        simba__event event = {.kind = SIMBA__EV_PUSH, .push = push};
        if (s->handle[i].running && s->handle[i].process == client->process)
            handle_step(s, &s->handle[i], &event);
    }
}

static void host_push_to(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push)
{
    const sim_client *client = of(host);
    if (!client->muted)
        simba__watches_push_to(&client->watches, mutex, nonce, simba__push_check(push), event_time(client));
}

static void host_session(simba_host *host, simba_local from, int64_t ms)
{
    sim_client *client = of(host);
    process_of(client)->session_until = simba__local_add(from, simba__session_ns(&client->s->timing, ms));
}

/* --- what handles want ------------------------------------------------------------------------------- */

static sim_handle *handle_of(simba__handle *base)
{
    return (sim_handle *)(void *)base;
}

static void step(simba__handle *base, simba__event *event)
{
    handle_step(handle_of(base)->s, handle_of(base), event);
}

static const simba__handle_type contender_type = {.step = step, .contends = true};
static const simba__handle_type observer_type = {.step = step};

static void on_timer(simba_timer *timer, simba_local now)
{
    sim_handle *handle = handle_of(SIMBA__OF_ITEM(timer, simba__handle, timer));
    simba__event event = {.kind = SIMBA__EV_TIMER, .now = now};
    if (handle->running)
        handle_step(handle->s, handle, &event);
}

/* The contenders of every other process report every change. */
void client_adopt(sim_handle *handle)
{
    simba__handle *base = &handle->candidate.handle;
    *base = (simba__handle){
        .type = handle->is_contender ? &contender_type : &observer_type,
        .watch = simba__watches_get(&client_of(handle)->watches, sim_mutex_name(handle->mutex)),
        .timer.fire = on_timer,
        .observes = !handle->is_contender || (!handle->locker && handle->process % 2 == 0),
    };
    if (simba__timers_reserve(&client_of(handle)->timers, 1) < 0)
        abort();
}

static void answered(simba__request *request, const simba_error *error)
{
    sim_handle *handle = request->of;
    simba__event event = {
        .kind = SIMBA__EV_REPLY,
        .generation = handle->candidate.handle.generation,
        .reply = &request->shown.reply,
        .sent_at = request->sent_at,
        .error = error,
    };
    if (client_of(handle)->muted)
        return;
    handle->candidate.handle.request = NULL;
    handle_step(handle->s, handle, &event);
}

void client_add(sim_handle *handle, simba__request *request, client_done *done)
{
    if (!request)
        abort();
    request->of = handle;
    request->done = done;
    simba__window_add(&client_of(handle)->window, request);
}

void client_ask(sim_handle *handle, const simba__actions *actions)
{
    simba_request wanted = {.mutex = sim_mutex_name(handle->mutex), .id = handle->id};
    simba__actions_request(actions, handle->is_contender ? &handle->s->timing : NULL, &wanted);
    simba__request *request = simba__request_new(&wanted, actions->timeout_ns);
    if (request)
        request->latest = actions->latest;
    handle->candidate.handle.generation = actions->generation;
    handle->candidate.handle.request = request;
    client_add(handle, request, answered);
}

void client_set_timer(sim_handle *handle, simba_local at)
{
    simba__timers_set(&client_of(handle)->timers, &handle->candidate.handle.timer, at);
    plan_timer(client_of(handle));
}

void client_want(sim_handle *handle, bool wants)
{
    simba__watches_want(&client_of(handle)->watches, &handle->candidate.handle, wants);
}

void client_begin(sim_handle *handle)
{
    simba__list_append(&handle->candidate.handle.watch->handles, &handle->candidate.handle.of_watch);
}

void client_end(sim_handle *handle)
{
    simba__list_remove(&handle->candidate.handle.of_watch);
    client_want(handle, false);
}

void client_withdraw(sim_handle *handle)
{
    if (handle->candidate.handle.request)
        simba__window_withdraw(&client_of(handle)->window, handle->candidate.handle.request);
}

/* --- the rest ---------------------------------------------------------------------------------------- */

static void host_wake(simba_host *host)
{
    of(host)->wake_wanted = true;
}

static void plan_job(sim_client *client, unsigned i)
{
    /* All worker threads may be busy with jobs that block. */
    sim *s = client->s;
    const bool busy = !s->healed && sim_chance(s, 50);
    const int64_t after_ns = sim_pick(s, 1000, busy ? 3 * SIM_S : 5 * SIM_MS);
    if (busy)
        check_trouble(s, client->process, s->now, s->now + after_ns);
    sim_plan_event(s, EV_JOB, client->process, s->now + after_ns, process_of(client)->boot, i);
}

static void host_work(simba_host *host, simba_job *job)
{
    sim_client *client = of(host);
    unsigned i = 0;
    while (i < JOBS && client->job[i])
        i++;
    if (i == JOBS)
        abort();
    client->job[i] = job;
    client->job_must[i] = false;
    plan_job(client, i);
}

static int host_io_add(simba_host *host, simba_io *io)
{
    return sockets_attach(io, io->interest);
}

static int host_io_change(simba_host *host, simba_io *io, unsigned interest)
{
    return sockets_attach(io, interest);
}

static void host_io_remove(simba_host *host, simba_io *io)
{
    sockets_detach(io);
}

static void host_closed(simba_host *host)
{
    of(host)->closed = true;
}

static void finish_job(sim_client *client, unsigned i)
{
    simba_job *job = client->job[i];
    client->job[i] = NULL;
    job->done(job);
}

/* A thread of the application may be the first to try it; it does not wait for long. */
static void do_job(sim_client *client, unsigned i)
{
    const bool must = client->job_must[i] || sim_chance(client->s, 700);
    const simba_local until = must ? SIMBA__NEVER : host_now(&client->host);
    client->job_must[i] = true;
    if (client->job[i]->run(client->job[i], until))
        finish_job(client, i);
    else
        plan_job(client, i);
}

void client_event(sim *s, unsigned process, const sim_event *event)
{
    sim_client *client = s->client[process];
    client_enter(s, process);
    if (event->kind == EV_WIRE_TO_PROCESS)
        wire_to_process(s, event);
    else if (event->kind == EV_READY && client)
        sockets_ready(s, event);
    else if (event->kind == EV_HOST_TIMER && client && event->version == client->timer_version)
        fire(client);
    else if (event->kind == EV_JOB && client && event->version == s->process[process].boot)
        do_job(client, event->arg);
    client_leave();
}

void client_plan_anew(sim *s, unsigned process)
{
    if (s->client[process])
        plan_timer_anew(s->client[process]);
}

/* --- before the lock is released ----------------------------------------------------------------------- */

static bool deal_with_store(sim_client *client)
{
    if (client->watches.changed) {
        simba__watches_settle(&client->watches, &client->s->backend, client->store);
    } else if (simba__window_hand_over(&client->window, event_time(client))) {
        client->s->backend.flush(client->store);
    } else if (client->wake_wanted) {
        client->wake_wanted = false;
        client->s->backend.woken(client->store);
    } else {
        return false;
    }
    return true;
}

/* While the requests of holders have no room, its leases are in danger. */
static void check_room(sim_client *client)
{
    if (client->s->plan->window > 0 && client->window.queued[0].count > 0)
        check_trouble(client->s, client->process, client->s->now, client->s->now);
}

static void settle(sim_client *client)
{
    unsigned rounds = 0;
    client_enter(client->s, client->process);
    while (!client->s->verdict.promise && deal_with_store(client))
        if (++rounds > ROUNDS)
            check_broken(client->s, "L1", "an iteration of process %u does not end", client->process);
    client_leave();
    check_room(client);
}

void clients_settle(sim *s)
{
    for (unsigned p = 0; p < s->plan->processes; p++) {
        if (s->client[p] && !process_is_paused(s, &s->process[p]))
            settle(s->client[p]);
        s->process[p].late = false;
    }
}

/* --- life -------------------------------------------------------------------------------------------- */

static const simba_host functions = {
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

static void parse_url(sim *s, sim_client *client)
{
    char url[256];
    simba_error error = {0};
    s->model->url(s, url, sizeof url);
    if (simba_url_parse(url, &error, &client->url) < 0) {
        fprintf(stderr, "simba-sim: %s: %s\n", url, error.text);
        abort();
    }
}

void client_open(sim *s, unsigned process)
{
    const simba_backend *backend = &s->backend;
    simba_error error = {0};
    sim_client *client = calloc(1, sizeof *client);
    if (!client || !(client->store = calloc(1, backend->instance_size)))
        abort();
    client->host = functions;
    client->host.workers = backend->workers;
    client->s = s;
    client->process = process;
    client->watches.keeps = backend->caps & SIMBA_CAP_WATCH_FREE;
    client->timer_planned.ns = INT64_MAX;
    s->client[process] = client;
    if (s->model)
        parse_url(s, client);
    client_enter(s, process);
    if (backend->caps & SIMBA_CAP_SESSION)
        s->process[process].session_until.ns = 0;
    if (simba__window_init(&client->window, &client->host, backend, client->store, s->timing.op_timeout_ns) < 0 ||
        backend->init(client->store, &client->host, client->url, &error) < 0) {
        fprintf(stderr, "simba-sim: %s\n", error.text);
        abort();
    }
    client_leave();
}

/* A store that says good-bye waits for an answer, for a while: until each of its timers has fired, those too that others are set
 * before again and again. The timers of the handles are not the store's. */
static void let_close(sim_client *client, const simba_backend *backend)
{
    enum { TIMERS = 64 };
    const char *store = client->store;
    simba_timer *due[TIMERS];
    size_t count;
    do {
        count = 0;
        for (size_t i = 1; i <= client->timers.count && count < TIMERS; i++) {
            const char *timer = (const char *)client->timers.heap[i];
            if (timer >= store && timer < store + backend->instance_size)
                due[count++] = client->timers.heap[i];
        }
        for (size_t i = 0; i < count && !client->closed; i++) {
            const simba_local at = due[i]->at;
            if (due[i]->index == 0)
                continue;
            simba__timers_clear(&client->timers, due[i]);
            due[i]->fire(due[i], at);
        }
    } while (!client->closed && count > 0);
}

/* Nothing that it does from now on gets out; it only gives its memory back. */
void client_kill(sim *s, unsigned process, bool noticed)
{
    sim_client *client = s->client[process];
    if (!client)
        return;
    client->muted = true;
    if (s->model)
        wires_abandon(s, process, noticed);
    client_enter(s, process);
    simba__watches_end(&client->watches);
    simba__watches_settle(&client->watches, &s->backend, client->store);
    s->backend.close(client->store);
    for (unsigned i = 0; i < JOBS; i++)
        if (client->job[i] && client->job[i]->run(client->job[i], SIMBA__NEVER))
            finish_job(client, i);
    let_close(client, &s->backend);
    simba__window_close(&client->window);
    s->backend.fini(client->store);
    client_leave();
    if (s->model)
        sockets_check_closed(s, process);
    simba__watches_fini(&client->watches);
    simba__timers_fini(&client->timers);
    simba_url_free(client->url);
    free(client->store);
    free(client);
    s->client[process] = NULL;
}
