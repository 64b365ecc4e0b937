/* The runtime for a store whose own code runs in the simulation: the host of simba/backend.h, one per process. Time
 * is that of the process, random numbers are the run's, jobs run a moment later, and a turn is an event of the
 * process and what follows from it. It handles a request, a topic or a push in the same order as src/runtime. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/reply.h"
#include "runtime/requests.h"
#include "sim/world.h"
#include "util/random.h"

enum { TIMERS = 64, JOBS = 64, ROUNDS = 10000 };

struct sim_client {
    simba_host host; /* first, so that one is the other */
    sim *s;
    unsigned process;
    void *store;
    simba_url *url;
    bool wake_wanted, muted;
    simba__requests requests;
    unsigned timers;
    simba_timer *timer[TIMERS]; /* the timers that are set */
    simba_local timer_planned;  /* when the host comes back to them; INT64_MAX: not */
    uint32_t timer_version;
    simba_job *job[JOBS];
};

static sim_client *of(simba_host *host)
{
    return (sim_client *)(void *)host;
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

static sim_process *process_of(const sim_client *client)
{
    return &client->s->process[client->process];
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
    (void)host;
    (void)level;
    (void)format;
}

/* --- requests ---------------------------------------------------------------------------------------- */

static sim_party *party_of(simba_request *request)
{
    const size_t offset =
        notes_is_about(request->op) ? offsetof(sim_party, noting.request) : offsetof(sim_party, request);
    return (sim_party *)(void *)((char *)request - offset);
}

static void host_complete(simba_host *host, simba_request *request)
{
    sim_client *client = of(host);
    const sim_party *party = party_of(request);
    if (simba__requests_has(request))
        simba__requests_complete(&client->requests, request);
    else
        check_broken(client->s, "S4", "a request of %s was answered twice", party->name);
}

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    (void)format;
    memset(&request->reply, 0, sizeof request->reply);
    request->reply.status = code;
    host_complete(host, request);
}

static int host_listed(simba_host *host, simba_request *request, const simba_listing *row)
{
    (void)host;
    (void)request;
    (void)row;
    return 0;
}

static int host_found(simba_host *host, simba_request *request, const simba_finding *finding)
{
    (void)host;
    (void)request;
    (void)finding;
    return 0;
}

static int host_noted(simba_host *host, simba_request *request, const simba_stored_note *note)
{
    if (!notes_read(note->bytes, note->size, &party_of(request)->noting.read))
        check_broken(of(host)->s, "S8", "a note of %zu bytes was read that nobody has written", note->size);
    return 0;
}

void client_submit(sim *s, const sim_party *party, simba_request *request)
{
    sim_client *client = s->client[party->process];
    request->backend_data = NULL;
    memset(&request->reply, 0, sizeof request->reply);
    simba__requests_submit(&client->requests, request);
}

/* --- pushes ------------------------------------------------------------------------------------------ */

static unsigned mutex_of(const sim_client *client, const simba_topic *topic)
{
    const sim_topic *topics = process_of(client)->topic;
    for (unsigned m = 0; m < client->s->plan->mutexes; m++)
        if (&topics[m].shown == topic)
            return m;
    abort();
}

static void host_push(simba_host *host, simba_topic *topic, const simba_push *push)
{
    sim_client *client = of(host);
    if (client->muted)
        return;
    process_of(client)->in_store = true;
    if (!topic && push->kind == SIMBA_PUSH_SESSION_LOST)
        process_of(client)->session_until.ns = 0;
    if (topic)
        process_push(client->s, client->process, mutex_of(client, topic), push);
    else
        process_push_all(client->s, client->process, push->kind);
    process_of(client)->in_store = false;
}

static void host_push_to(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push)
{
    sim_client *client = of(host);
    sim *s = client->s;
    for (unsigned i = 0; i < s->parties && !client->muted; i++) {
        sim_party *party = &s->party[i];
        if (!party->running || !party->is_member || party->process != client->process ||
            party->machine.nonce != nonce || strcmp(sim_mutex_name(party->mutex), mutex) != 0)
            continue;
        simba__event event = {.kind = SIMBA__EV_PUSH, .push = push};
        process_of(client)->in_store = true;
        party_step(s, party, &event);
        process_of(client)->in_store = false;
        return;
    }
}

static void host_session(simba_host *host, simba_local from, int64_t ms)
{
    sim_client *client = of(host);
    process_of(client)->session_until = simba__local_add(from, simba__session_ns(&client->s->timing, ms));
}

/* --- timers ------------------------------------------------------------------------------------------ */

static simba_timer *earliest(const sim_client *client)
{
    simba_timer *first = NULL;
    for (unsigned i = 0; i < client->timers; i++)
        if (!first || client->timer[i]->at.ns < first->at.ns)
            first = client->timer[i];
    return first;
}

static void plan_timer(sim_client *client)
{
    const simba_timer *first = earliest(client);
    if (!first || first->at.ns >= client->timer_planned.ns)
        return; /* a timer that was put off is looked at when the host comes back */
    client->timer_planned = first->at;
    process_plan(client->s, EV_HOST_TIMER, client->process, process_of(client), first->at, ++client->timer_version);
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
    (void)host;
    timer->index = 0;
    return 0;
}

static void take_out(sim_client *client, simba_timer *timer)
{
    simba_timer *last = client->timer[--client->timers];
    client->timer[timer->index - 1] = last;
    last->index = timer->index;
    timer->index = 0;
}

static void host_timer_set(simba_host *host, simba_timer *timer, simba_local when)
{
    sim_client *client = of(host);
    if (timer->index == 0) {
        if (client->timers == TIMERS)
            abort();
        client->timer[client->timers++] = timer;
        timer->index = client->timers;
    }
    timer->at = when;
    plan_timer(client);
}

static void host_timer_clear(simba_host *host, simba_timer *timer)
{
    if (timer->index == 0)
        return;
    take_out(of(host), timer);
    plan_timer(of(host));
}

static void fire(sim_client *client)
{
    const simba_local now = host_now(&client->host);
    for (simba_timer *timer = earliest(client); timer && timer->at.ns <= now.ns; timer = earliest(client)) {
        take_out(client, timer);
        timer->fire(timer, now);
    }
    plan_timer_anew(client);
}

/* --- the rest ---------------------------------------------------------------------------------------- */

static void host_wake(simba_host *host)
{
    of(host)->wake_wanted = true;
}

static void host_work(simba_host *host, simba_job *job)
{
    sim_client *client = of(host);
    sim *s = client->s;
    unsigned i = 0;
    while (i < JOBS && client->job[i])
        i++;
    if (i == JOBS)
        abort();
    client->job[i] = job;
    /* All worker threads may be busy with jobs that block. */
    const bool busy = !s->healed && sim_chance(s, 50);
    const int64_t after_ns = sim_pick(s, 1000, busy ? 3 * SIM_S : 5 * SIM_MS);
    if (busy)
        check_trouble(s, client->process, s->now, s->now + after_ns);
    sim_plan_event(s, EV_JOB, client->process, s->now + after_ns, process_of(client)->boot, i);
}

static int host_io_add(simba_host *host, simba_io *io)
{
    (void)host;
    return sockets_attach(io, io->interest);
}

static int host_io_change(simba_host *host, simba_io *io, unsigned interest)
{
    (void)host;
    return sockets_attach(io, interest);
}

static void host_io_remove(simba_host *host, simba_io *io)
{
    (void)host;
    sockets_detach(io);
}

static void host_closed(simba_host *host)
{
    (void)host;
}

static void do_job(sim_client *client, unsigned i)
{
    simba_job *job = client->job[i];
    client->job[i] = NULL;
    job->run(job);
    job->done(job);
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

/* --- turns ------------------------------------------------------------------------------------------- */

/* A process that was stalled in the middle of a turn ends it when it goes on. */
static bool may_go_on(const sim_client *client)
{
    const sim_process *process = process_of(client);
    return !process_is_paused(client->s, process) && !process->in_turn && !client->s->verdict.promise;
}

static bool look_at_answers(sim_client *client)
{
    bool any = false;
    while (client->requests.completed_first && may_go_on(client)) {
        simba_request *request = simba__requests_take(&client->requests);
        sim_party *party = party_of(request);
        any = true;
        if (notes_is_about(request->op)) {
            notes_answered(client->s, party, request, party->noting.generation, party->noting.read);
            continue;
        }
        const int fault = simba__reply_check(request, client->s->timing.session, NULL);
        const simba_reply reply = fault < 0 ? (simba_reply){.status = fault} : request->reply;
        simba__event event = {
            .kind = SIMBA__EV_REPLY, .generation = party->generation, .reply = &reply, .asked_at = request->asked_at};
        if (fault < 0)
            check_broken(client->s, "S4", "the answer to a request of %s makes no sense", party->name);
        party->outstanding = false;
        party_step(client->s, party, &event);
    }
    return any;
}

static bool settle_topics(sim_client *client)
{
    const simba_backend *backend = client->s->model->backend;
    bool any = false;
    for (unsigned m = 0; m < client->s->plan->mutexes; m++) {
        sim_topic *topic = &process_of(client)->topic[m];
        if (topic->interest > 0 && !topic->watched) {
            topic->shown.mutex = sim_mutex_name(m);
            topic->watched = backend->watch(client->store, &topic->shown) == 0;
            any = true;
        } else if (topic->interest == 0 && topic->watched && !(backend->caps & SIMBA_CAP_WATCH_FREE)) {
            topic->watched = false;
            backend->unwatch(client->store, &topic->shown);
            any = true;
        }
    }
    return any;
}

static bool send_all(sim_client *client)
{
    const simba_backend *backend = client->s->model->backend;
    if (!client->requests.outbox_first)
        return false;
    simba__requests_hand_over(&client->requests, client->host.now(&client->host));
    backend->flush(client->store);
    simba__requests_arm(&client->requests);
    return true;
}

static bool deal_with_store(sim_client *client)
{
    if (settle_topics(client) || send_all(client))
        return true;
    if (!client->wake_wanted)
        return false;
    client->wake_wanted = false;
    client->s->model->backend->woken(client->store);
    return true;
}

static bool has_work(const sim_client *client)
{
    bool topics = false;
    for (unsigned m = 0; m < client->s->plan->mutexes; m++)
        topics |= (process_of(client)->topic[m].interest > 0) != process_of(client)->topic[m].watched;
    return topics || client->requests.completed_first || client->requests.outbox_first || client->wake_wanted;
}

static void settle(sim_client *client)
{
    client_enter(client->s, client->process);
    unsigned rounds = 0;
    for (bool more = true; more && may_go_on(client);) {
        if (++rounds > ROUNDS)
            check_broken(client->s, "L1", "a turn of process %u does not end", client->process);
        more = look_at_answers(client);
        if (may_go_on(client))
            more |= deal_with_store(client);
    }
    client_leave();
}

void clients_settle(sim *s)
{
    for (unsigned p = 0; p < s->plan->processes; p++)
        if (s->client[p] && has_work(s->client[p]))
            settle(s->client[p]);
}

/* --- life -------------------------------------------------------------------------------------------- */

static const simba_host functions = {
    .now = host_now,
    .epoch_us = host_epoch_us,
    .random = host_random,
    .log = host_log,
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

void client_open(sim *s, unsigned process)
{
    const simba_backend *backend = s->model->backend;
    char url[256];
    simba_error error = {0};
    sim_client *client = calloc(1, sizeof *client);
    if (!client || !(client->store = calloc(1, backend->instance_size)))
        abort();
    client->host = functions;
    client->s = s;
    client->process = process;
    simba__requests_init(&client->requests, &client->host, backend, client->store);
    client->timer_planned.ns = INT64_MAX;
    s->client[process] = client;
    s->model->url(s, url, sizeof url);
    client_enter(s, process);
    if (backend->caps & SIMBA_CAP_SESSION)
        s->process[process].session_until.ns = 0;
    if (simba_url_parse(url, &error, &client->url) < 0 ||
        backend->init(client->store, &client->host, client->url, &error) < 0) {
        fprintf(stderr, "simba-sim: %s: %s\n", url, error.text);
        abort();
    }
    client_leave();
}

/* Nothing that it does from now on gets out; it only gives its memory back. */
void client_kill(sim *s, unsigned process, bool noticed)
{
    sim_client *client = s->client[process];
    if (!client)
        return;
    client->muted = true;
    wires_abandon(s, process, noticed);
    client_enter(s, process);
    s->model->backend->close(client->store);
    for (unsigned i = 0; i < JOBS; i++)
        if (client->job[i])
            do_job(client, i);
    s->model->backend->fini(client->store);
    client_leave();
    sockets_check_closed(s, process);
    simba_url_free(client->url);
    free(client->store);
    free(client);
    s->client[process] = NULL;
}
