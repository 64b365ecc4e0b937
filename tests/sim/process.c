/* A process: its clock, its life and death, and what goes wrong with it. */
#include <string.h>

#include "sim/world.h"

simba_local process_now(const sim *s, const sim_process *process)
{
    return (simba_local){sim_clock_read(&process->clock, s->now)};
}

simba_local process_event_time(const sim *s, const sim_process *process)
{
    return process->late ? process->read : process_now(s, process);
}

bool process_is_paused(const sim *s, const sim_process *process)
{
    return s->now < process->paused_until || process->stalled;
}

void process_plan(sim *s, sim_event_kind kind, unsigned who, const sim_process *process, simba_local at,
                  uint32_t version)
{
    if (at.ns == INT64_MAX)
        return;
    const int64_t when = sim_clock_when(&process->clock, at.ns);
    sim_plan_event(s, kind, who, when > s->now ? when : s->now, version, 0);
}

/* --- life -------------------------------------------------------------------------------------------- */

void process_init(sim *s)
{
    memset(s->process, 0, sizeof s->process);
    memset(s->handle, 0, sizeof s->handle);
    s->handles = 0;
    memset(s->app, 0, sizeof s->app);
    for (unsigned p = 0; p < s->plan->processes; p++)
        s->process[p].clock = (sim_clock){.base_shown = s->plan->offset_ns[p], .ppm = s->plan->ppm[p]};
    for (unsigned i = 0; i < SIM_HANDLES; i++) {
        sim_handle *handle = &s->handle[i];
        handle->is_contender = i < s->plan->contenders;
        handle->s = s;
        if (!handle->is_contender)
            continue;
        const sim_contender_plan *plan = &s->plan->contender[i];
        handle->process = plan->process;
        handle->mutex = plan->mutex;
        handle->id = plan->id;
        handle->locker = plan->locker;
        handle->try_once = plan->try_once;
        s->handles = i + 1;
    }
}

void process_start(sim *s, unsigned p)
{
    sim_process *process = &s->process[p];
    process->alive = true;
    process->boot++;
    process->session_until = SIMBA__NEVER;
    memset(process->watches, 0, sizeof process->watches);
    client_open(s, p);
    for (unsigned i = 0; i < s->handles; i++)
        if (s->handle[i].process == p)
            handle_make(s, &s->handle[i]);
    for (unsigned i = 0; i < s->handles; i++)
        if (s->handle[i].process == p)
            notes_start(s, &s->handle[i]);
    for (unsigned i = 0; i < s->handles; i++)
        if (s->handle[i].process == p && s->handle[i].restarts)
            handle_start(s, &s->handle[i]);
}

void process_kill(sim *s, unsigned p, int64_t back_after_ns)
{
    sim_process *process = &s->process[p];
    if (!process->alive)
        return;
    process->alive = false;
    process->paused_until = 0;
    process->stalled = 0;
    process->late = false;
    process->session_version++;
    process->ping_version++;
    process->poll_version++;
    /* Otherwise the machine has died with it, and the store takes a while to notice. */
    const bool noticed = sim_chance(s, 500);
    client_kill(s, p, noticed);
    if (!s->model && noticed)
        memset(s->store.subscribed[p], 0, sizeof s->store.subscribed[p]);
    for (unsigned i = 0; i < s->handles; i++) {
        sim_handle *handle = &s->handle[i];
        if (handle->process != p)
            continue;
        if (handle->running && handle->is_contender)
            s->verdict.contender_ns += s->now - handle->started_at;
        handle->life++;
        memset(&handle->candidate.handle, 0, sizeof handle->candidate.handle);
        handle->running = handle->app_leads = handle->told_acquired = false;
        handle->stop_wanted = false;
        handle->callbacks = CALLBACKS_IDLE;
        handle->valid_until.ns = 0;
        sim_log(s, handle->name, "killed");
    }
    slots_killed(s, p);
    if (back_after_ns > 0)
        sim_plan_event(s, EV_PROCESS_UP, p, s->now + back_after_ns, process->boot, 0);
}

/* The clock is another one now: events that were planned by it come at another time. */
static void plan_anew(sim *s, unsigned p)
{
    sim_process *process = &s->process[p];
    if (process->session)
        process_plan(s, EV_SESSION_OVER, p, process, process->session_until, ++process->session_version);
    client_plan_anew(s, p);
}

void process_set_rate(sim *s, unsigned p, int64_t ppm)
{
    sim_clock_set_rate(&s->process[p].clock, s->now, ppm);
    plan_anew(s, p);
}

void process_jump(sim *s, unsigned p, int64_t ns)
{
    sim_clock_jump(&s->process[p].clock, ns);
    plan_anew(s, p);
    /* That much of a lease is gone at once, and nobody could be told meanwhile. */
    check_jump(s, p, ns);
    if (s->process[p].paused_until < s->now)
        s->process[p].paused_until = s->now;
}

/* --- events ------------------------------------------------------------------------------------------ */

static void message_arrived(sim *s, uint32_t index)
{
    const sim_message message = s->message[index];
    const sim_process *process = &s->process[message.process];
    net_free(s, index);
    if (process->alive && message.boot == process->boot)
        net_store_arrived(s, &message);
}

static unsigned process_of_event(const sim *s, const sim_event *event)
{
    if (event->kind == EV_TO_PROCESS)
        return s->message[event->arg].process;
    if (event->kind == EV_WIRE_TO_PROCESS)
        return wire_process(s, event->who);
    return event->kind >= EV_CALLBACKS ? s->handle[event->who].process : event->who;
}

/* The clock is read, and then the process does not get on. Before it calls the application it would look once more. */
static bool stalls(sim *s, sim_process *process, const sim_event *event)
{
    if (process->stall_ns == 0 || !process->alive || s->healed || event->kind == EV_CALLBACKS)
        return false;
    const unsigned p = (unsigned)(process - s->process);
    const int64_t until = s->now + process->stall_ns;
    process->stall_ns = 0;
    process->read = process_now(s, process);
    process->paused_until = until < s->plan->horizon_ns ? until : s->plan->horizon_ns;
    check_trouble(s, p, s->now, process->paused_until);
    for (unsigned i = 0; i < s->handles; i++)
        if (s->handle[i].process == p)
            sim_log(s, s->handle[i].name, "fault stalled %lld", (long long)process->paused_until);
    process->stalled = s->events.planned + 1;
    sim_plan_event(s, (sim_event_kind)event->kind, event->who, process->paused_until, event->version, event->arg);
    return true;
}

/* When it goes on, it finds everything at once, in whatever order; but first it ends the event that stalled. True: it has to wait. */
static bool waits_for_process(sim *s, sim_process *process, const sim_event *event)
{
    const bool is_stalled = process->stalled == event->order + 1;
    if (!process->alive)
        return false;
    if (is_stalled && s->now >= process->paused_until) {
        process->stalled = 0;
        process->late = true;
        return false;
    }
    if (!process_is_paused(s, process))
        return stalls(s, process, event);
    if (is_stalled)
        process->stalled = s->events.planned + 1;
    const int64_t from = s->now > process->paused_until ? s->now : process->paused_until;
    sim_plan_event(s, (sim_event_kind)event->kind, event->who, from + (is_stalled ? 0 : sim_pick(s, 1, 2000)),
                   event->version, event->arg);
    return true;
}

void process_event(sim *s, const sim_event *event)
{
    if (event->kind == EV_WIRE_TO_PROCESS && !wire_is_heard(s, event)) {
        wire_to_process(s,
                        event); /* paused or not: and the place of this connection may be another process's by and by */
        return;
    }
    const unsigned p = process_of_event(s, event);
    sim_process *process = &s->process[p];
    if (waits_for_process(s, process, event))
        return;
    switch ((sim_event_kind)event->kind) {
    case EV_TO_PROCESS:
        message_arrived(s, event->arg);
        break;
    case EV_WIRE_TO_PROCESS:
    case EV_HOST_TIMER:
    case EV_JOB:
    case EV_READY:
        client_event(s, p, event);
        break;
    case EV_PROCESS_UP:
        if (!process->alive && event->version == process->boot)
            process_start(s, p);
        break;
    case EV_RESUBSCRIBE:
    case EV_SESSION_OVER:
    case EV_PING:
    case EV_POLL:
    case EV_GIVE_UP:
        if (process->alive)
            net_store_event(s, p, event);
        break;
    default:
        handle_event(s, &s->handle[event->who], event);
    }
}
