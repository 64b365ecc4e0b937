/* A process: its clock, its life and death, and what goes wrong with it. */
#include <string.h>

#include "sim/world.h"

simba_local process_now(const sim *s, const sim_process *process)
{
    return (simba_local){sim_clock_read(&process->clock, s->now)};
}

simba_local process_turn(const sim *s, const sim_process *process)
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
    memset(s->party, 0, sizeof s->party);
    s->parties = 0;
    for (unsigned p = 0; p < s->plan->processes; p++)
        s->process[p].clock = (sim_clock){.base_shown = s->plan->offset_ns[p], .ppm = s->plan->ppm[p]};
    for (unsigned i = 0; i < SIM_PARTIES; i++) {
        sim_party *party = &s->party[i];
        party->is_member = i < s->plan->members;
        party->s = s;
        if (!party->is_member)
            continue;
        const sim_member_plan *plan = &s->plan->member[i];
        party->process = plan->process;
        party->mutex = plan->mutex;
        party->id = plan->id;
        party->locker = plan->locker;
        party->try_once = plan->try_once;
        s->parties = i + 1;
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
    for (unsigned i = 0; i < s->parties; i++)
        if (s->party[i].process == p)
            party_make(s, &s->party[i]);
    for (unsigned i = 0; i < s->parties; i++)
        if (s->party[i].process == p)
            notes_start(s, &s->party[i]);
    for (unsigned i = 0; i < s->parties; i++)
        if (s->party[i].process == p && s->party[i].restarts)
            party_start(s, &s->party[i]);
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
    for (unsigned i = 0; i < s->parties; i++) {
        sim_party *party = &s->party[i];
        if (party->process != p)
            continue;
        if (party->running && party->is_member)
            s->verdict.contender_ns += s->now - party->started_at;
        party->life++;
        memset(&party->candidate.handle, 0, sizeof party->candidate.handle);
        party->running = party->app_leads = party->told_acquired = false;
        party->stop_wanted = false;
        party->callbacks = CALLBACKS_IDLE;
        party->valid_until.ns = 0;
        sim_log(s, party->name, "killed");
    }
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
    return event->kind >= EV_CALLBACKS ? s->party[event->who].process : event->who;
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
    for (unsigned i = 0; i < s->parties; i++)
        if (s->party[i].process == p)
            sim_log(s, s->party[i].name, "fault stalled %lld", (long long)process->paused_until);
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
        party_event(s, &s->party[event->who], event);
    }
}
