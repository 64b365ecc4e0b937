/* Contenders and observers, and the applications that they belong to. Carries out the actions of the machines of
 * src/core as src/client/candidate.c does: one timer per handle, callbacks that never overlap per handle, start and stop at
 * any moment. Decisions come from core: what to tell (pending.h), who watches (contention.h), until when a holder may
 * act (timing.h). */
#include <string.h>

#include "core/trace.h"
#include "sim/world.h"

static sim_process *process_of(sim *s, const sim_handle *handle)
{
    return &s->process[handle->process];
}

static unsigned index_of(const sim *s, const sim_handle *handle)
{
    return (unsigned)(handle - s->handle);
}

int64_t handle_held_ns(const sim *s, const sim_handle *handle)
{
    const sim_process *process = &s->process[handle->process];
    const simba_local session_until = simba__local_add(process->session_until, -handle->margin_ns);
    return process->alive ? simba__lease_left_ns(handle->valid_until, session_until, process_now(s, process)) : 0;
}

/* --- what the machines want -------------------------------------------------------------------------- */

static void post(sim *s, sim_handle *handle)
{
    if (handle->callbacks != CALLBACKS_IDLE)
        return;
    handle->callbacks = CALLBACKS_QUEUED;
    sim_plan_event(s, EV_CALLBACKS, index_of(s, handle), s->now + sim_pick(s, 0, 50000), handle->life, 0);
}

static void look_if_stop_returned(sim_handle *handle)
{
    if (handle->stop_wanted && !handle->running && handle->callbacks == CALLBACKS_IDLE) {
        handle->stop_wanted = false;
        handle->stop_returned = true;
    }
}

static void ack(sim *s, sim_handle *handle)
{
    simba__event event = {.kind = SIMBA__EV_ACK};
    handle_step(s, handle, &event);
}

/* A locker's application holds the mutex for a while, lets it go, and comes again. */
static void told_locker(sim *s, sim_handle *handle, const simba__actions *actions)
{
    const unsigned who = index_of(s, handle);
    if (actions->acquired) {
        handle->held = true;
        sim_plan_event(s, EV_LOCKER_RELEASE, who, s->now + sim_pick(s, SIM_MS, s->timing.ttl_ns), handle->life, 0);
    }
    if (actions->done && !s->winding_up) {
        handle->held = false;
        sim_plan_event(s, EV_LOCKER_AGAIN, who, s->now + sim_pick(s, SIM_MS, s->timing.ttl_ns), handle->life, 0);
    }
}

static void tell_contender(sim *s, sim_handle *handle, const simba__event *event, const simba__actions *actions)
{
    if (s->plan->slots)
        slots_told(s, handle, event, actions);
    else if (handle->locker)
        told_locker(s, handle, actions);
    else if (simba__pending_note(&handle->pending, actions, handle->candidate.handle.observes))
        post(s, handle);
}

static void act(sim *s, sim_handle *handle, const simba__event *event, const simba__actions *actions)
{
    if (actions->submit) {
        check_submit(s, handle, actions);
        client_ask(handle, actions);
    }
    client_set_timer(handle, actions->timer);
    client_want(handle, !actions->done && (handle->is_contender ? simba__contention_wants_news(
                                                                      &handle->candidate.machine, s->backend.caps,
                                                                      handle->candidate.handle.observes)
                                                                : handle->observation.phase != SIMBA__OBSERVES_NOT));
    if (handle->is_contender)
        tell_contender(s, handle, event, actions);
    if (actions->done) {
        handle->running = false;
        client_end(handle);
        s->verdict.contender_ns += handle->is_contender ? s->now - handle->started_at : 0;
        look_if_stop_returned(handle);
    }
    if (actions->released && handle->locker)
        ack(s, handle);
    if (actions->withdraw)
        client_withdraw(handle);
}

struct moment {
    sim *s;
    const sim_handle *handle;
};

static void say(void *user, const char *words)
{
    const struct moment *moment = user;
    sim_log(moment->s, moment->handle->name, "%s", words);
}

static void log_step(sim *s, const sim_handle *handle, const simba__step *step)
{
    struct moment moment = {s, handle};
    if (s->log)
        simba__trace_step(step, s->now - step->event->now.ns, say, &moment);
}

/* As in client/candidate.c: the end of a session moves without the machine, so every reader looks at the session. */
static void publish(const sim *s, sim_handle *handle)
{
    const bool session = s->timing.session;
    handle->valid_until = simba__contention_valid_until(&handle->candidate.machine);
    if (session && handle->valid_until.ns)
        handle->valid_until = SIMBA__NEVER;
    handle->margin_ns = session && handle->candidate.machine.phase == SIMBA__HOLD ? s->timing.stop_margin_ns : 0;
}

static void step_contender(sim *s, sim_handle *handle, simba__event *event, simba__actions *ret_actions)
{
    const simba__contention before = handle->candidate.machine;
    const simba__step step = {&handle->candidate.machine, event, ret_actions};
    simba__contention_step(&handle->candidate.machine, event, ret_actions);
    publish(s, handle);
    sim_mix(s, (uint64_t)handle->valid_until.ns);
    log_step(s, handle, &step);
    check_step(s, handle, &before, event, ret_actions);
}

void handle_step(sim *s, sim_handle *handle, simba__event *event)
{
    const sim_process *process = process_of(s, handle);
    simba__actions actions;
    event->now = process_event_time(s, process);
    event->session_until = process->session_until;
    if (handle->is_contender)
        step_contender(s, handle, event, &actions);
    else
        simba__observation_step(&handle->observation, event, s->timing.op_timeout_ns, &actions);
    event->used = actions.used;
    sim_mix(s, (uint64_t)s->now);
    sim_mix(s, (uint64_t)index_of(s, handle) << 32 | (uint64_t)event->kind << 24 |
                   (uint64_t)handle->candidate.machine.phase << 16 | (uint64_t)actions.op << 8 |
                   (uint64_t)actions.submit << 3 | (uint64_t)actions.acquired << 2 | (uint64_t)actions.released << 1 |
                   actions.done);
    act(s, handle, event, &actions);
}

/* --- callbacks -------------------------------------------------------------------------------------- */

static int64_t callback_ns(sim *s, const sim_handle *handle)
{
    return s->now < handle->slow_until ? handle->slow_ns : sim_pick(s, 0, 3 * SIM_MS);
}

static void run_callbacks(sim *s, sim_handle *handle)
{
    simba__event look = {.kind = SIMBA__EV_TIMER};
    if (process_of(s, handle)->late) { /* the clock is read before the application is called */
        handle->callbacks = CALLBACKS_QUEUED;
        sim_plan_event(s, EV_CALLBACKS, index_of(s, handle), s->now, handle->life, 0);
        return;
    }
    if (handle->pending.acquired && handle->running)
        handle_step(s, handle, &look);
    while (simba__pending_take(&handle->pending, &handle->candidate.machine.owner, &handle->tell)) {
        const simba__tell *tell = &handle->tell;
        if (tell->acquired || tell->released || tell->changed) {
            handle->callbacks = CALLBACKS_RUNNING;
            check_callback(s, handle, tell);
            if (tell->acquired || tell->released)
                sim_log(s, handle->name, "callback %s", tell->acquired ? "acquired" : "released");
            sim_plan_event(s, EV_CALLBACK_END, index_of(s, handle), s->now + callback_ns(s, handle), handle->life, 0);
            if (handle->stop_inside && (tell->acquired || tell->released)) {
                handle->stop_inside = false;
                handle_stop(s, handle);
            }
            return;
        }
        if (tell->ack)
            ack(s, handle);
    }
    handle->callbacks = CALLBACKS_IDLE;
    look_if_stop_returned(handle);
}

static void callback_ended(sim *s, sim_handle *handle)
{
    if (handle->tell.acquired || handle->tell.released)
        sim_log(s, handle->name, "returned");
    if (handle->tell.released)
        handle->app_leads = false;
    if (handle->tell.ack)
        ack(s, handle);
    run_callbacks(s, handle);
}

/* --- the application's calls ------------------------------------------------------------------------- */

void handle_begin(sim *s, sim_handle *handle)
{
    const sim_process *process = process_of(s, handle);
    handle->exists = true;
    handle->running = true;
    handle->stop_returned = false;
    handle->stop_wanted = false;
    handle->life += handle->locker;
    handle->held = false;
    handle->started_at = s->now;
    if (!handle->is_contender)
        sim_log(s, handle->name, "start");
    simba__event event = {.kind = SIMBA__EV_START, .seed = (uint64_t)sim_pick(s, INT64_MIN / 2, INT64_MAX / 2)};
    if (handle->locker && !s->plan->slots && !handle->try_once && sim_chance(s, 500))
        process_plan(s, EV_LOCKER_GIVE_UP, index_of(s, handle), process,
                     simba__local_add(process_now(s, process), sim_pick(s, SIM_MS, 2 * s->timing.ttl_ns)),
                     handle->life);
    client_begin(handle);
    handle_step(s, handle, &event);
}

void handle_start(sim *s, sim_handle *handle)
{
    if (s->plan->slots && handle->is_contender) {
        slots_start(s, handle);
        return;
    }
    if (handle->running || !process_of(s, handle)->alive || s->winding_up)
        return;
    handle->restarts = true;
    handle_begin(s, handle);
}

void handle_stop(sim *s, sim_handle *handle)
{
    simba__event event = {.kind = SIMBA__EV_STOP};
    if (s->plan->slots && handle->is_contender) {
        slots_stop(s, handle);
        return;
    }
    handle->restarts = false;
    if (!handle->running)
        return;
    handle->stop_wanted = true;
    handle_step(s, handle, &event);
}

static void locker_event(sim *s, sim_handle *handle, sim_event_kind kind)
{
    simba__event event = {.kind = SIMBA__EV_STOP};
    if (kind == EV_LOCKER_AGAIN) {
        if (handle->restarts)
            handle_start(s, handle);
    } else if (handle->running && (kind == EV_LOCKER_RELEASE || !handle->held)) {
        handle_step(s, handle, &event);
    }
}

/* --- events ------------------------------------------------------------------------------------------ */

void handle_make(sim *s, sim_handle *handle)
{
    simba__contention *machine = &handle->candidate.machine;
    client_adopt(handle);
    if (handle->is_contender) {
        simba__contention_init(machine, &s->timing, s->backend.caps & SIMBA_CAP_QUEUE);
        machine->once = handle->locker;
        machine->try_once = handle->try_once;
    } else {
        simba__observation_init(&handle->observation, SIM_OBSERVER_POLL_NS);
    }
    memset(&handle->pending, 0, sizeof handle->pending);
}

void handle_event(sim *s, sim_handle *handle, const sim_event *event)
{
    switch ((sim_event_kind)event->kind) {
    case EV_CALLBACKS:
        if (event->version == handle->life && handle->callbacks == CALLBACKS_QUEUED)
            run_callbacks(s, handle);
        break;
    case EV_CALLBACK_END:
        if (event->version == handle->life)
            callback_ended(s, handle);
        break;
    case EV_NOTE:
        notes_event(s, handle, event);
        break;
    default:
        if (s->plan->slots)
            slots_event(s, handle, event);
        else if (event->version == handle->life)
            locker_event(s, handle, (sim_event_kind)event->kind);
    }
}
