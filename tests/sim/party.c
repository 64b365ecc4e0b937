/* Contenders and observers, and the applications that they belong to. Carries out the actions of the machines of
 * src/core as src/client/candidate.c does: one timer per party, callbacks that never overlap per party, start and stop at
 * any moment. Decisions come from core: what to tell (pending.h), who watches (contention.h), until when a holder may
 * act (timing.h). */
#include <string.h>

#include "core/trace.h"
#include "sim/world.h"

static sim_process *process_of(sim *s, const sim_party *party)
{
    return &s->process[party->process];
}

static unsigned index_of(const sim *s, const sim_party *party)
{
    return (unsigned)(party - s->party);
}

int64_t party_held_ns(const sim *s, const sim_party *party)
{
    const sim_process *process = &s->process[party->process];
    const simba_local session_until = simba__local_add(process->session_until, -party->margin_ns);
    return process->alive ? simba__lease_left_ns(party->valid_until, session_until, process_now(s, process)) : 0;
}

/* --- what the machines want -------------------------------------------------------------------------- */

static void post(sim *s, sim_party *party)
{
    if (party->callbacks != CALLBACKS_IDLE)
        return;
    party->callbacks = CALLBACKS_QUEUED;
    sim_plan_event(s, EV_CALLBACKS, index_of(s, party), s->now + sim_pick(s, 0, 50000), party->life, 0);
}

static void look_if_stop_returned(sim_party *party)
{
    if (party->stop_wanted && !party->running && party->callbacks == CALLBACKS_IDLE) {
        party->stop_wanted = false;
        party->stop_returned = true;
    }
}

static void ack(sim *s, sim_party *party)
{
    simba__event event = {.kind = SIMBA__EV_ACK};
    party_step(s, party, &event);
}

/* A locker's application holds the mutex for a while, lets it go, and comes again. */
static void told_locker(sim *s, sim_party *party, const simba__actions *actions)
{
    const unsigned who = index_of(s, party);
    if (actions->acquired) {
        party->held = true;
        sim_plan_event(s, EV_LOCKER_RELEASE, who, s->now + sim_pick(s, SIM_MS, s->timing.ttl_ns), party->life, 0);
    }
    if (actions->done && !s->winding_up) {
        party->held = false;
        sim_plan_event(s, EV_LOCKER_AGAIN, who, s->now + sim_pick(s, SIM_MS, s->timing.ttl_ns), party->life, 0);
    }
}

static void tell_member(sim *s, sim_party *party, const simba__actions *actions)
{
    if (party->locker)
        told_locker(s, party, actions);
    else if (simba__pending_note(&party->pending, actions, party->candidate.handle.observes))
        post(s, party);
}

static void act(sim *s, sim_party *party, const simba__actions *actions)
{
    if (actions->submit) {
        check_submit(s, party, actions);
        client_ask(party, actions);
    }
    client_set_timer(party, actions->timer);
    client_want(party, !actions->done &&
                           (party->is_member ? simba__contention_wants_news(&party->candidate.machine, s->backend.caps,
                                                                            party->candidate.handle.observes)
                                             : party->observation.phase != SIMBA__OBSERVES_NOT));
    if (party->is_member)
        tell_member(s, party, actions);
    if (actions->done) {
        party->running = false;
        client_end(party);
        s->verdict.contender_ns += party->is_member ? s->now - party->started_at : 0;
        look_if_stop_returned(party);
    }
    if (actions->released && party->locker)
        ack(s, party);
    if (actions->withdraw)
        client_withdraw(party);
}

struct moment {
    sim *s;
    const sim_party *party;
};

static void say(void *user, const char *words)
{
    const struct moment *moment = user;
    sim_log(moment->s, moment->party->name, "%s", words);
}

static void log_step(sim *s, const sim_party *party, const simba__step *step)
{
    struct moment moment = {s, party};
    if (s->log)
        simba__trace_step(step, s->now - step->event->now.ns, say, &moment);
}

/* As in client/candidate.c: the end of a session moves without the machine, so every reader looks at the session. */
static void publish(const sim *s, sim_party *party)
{
    const bool session = s->timing.session;
    party->valid_until = simba__contention_valid_until(&party->candidate.machine);
    if (session && party->valid_until.ns)
        party->valid_until = SIMBA__NEVER;
    party->margin_ns = session && party->candidate.machine.phase == SIMBA__HOLD ? s->timing.stop_margin_ns : 0;
}

static void step_member(sim *s, sim_party *party, simba__event *event, simba__actions *ret_actions)
{
    const simba__contention before = party->candidate.machine;
    const simba__step step = {&party->candidate.machine, event, ret_actions};
    simba__contention_step(&party->candidate.machine, event, ret_actions);
    publish(s, party);
    sim_mix(s, (uint64_t)party->valid_until.ns);
    log_step(s, party, &step);
    check_step(s, party, &before, event, ret_actions);
}

void party_step(sim *s, sim_party *party, simba__event *event)
{
    const sim_process *process = process_of(s, party);
    simba__actions actions;
    event->now = process_turn(s, process);
    event->session_until = process->session_until;
    if (party->is_member)
        step_member(s, party, event, &actions);
    else
        simba__observation_step(&party->observation, event, s->timing.op_timeout_ns, &actions);
    event->used = actions.used;
    sim_mix(s, (uint64_t)s->now);
    sim_mix(s, (uint64_t)index_of(s, party) << 32 | (uint64_t)event->kind << 24 |
                   (uint64_t)party->candidate.machine.phase << 16 | (uint64_t)actions.op << 8 |
                   (uint64_t)actions.submit << 3 | (uint64_t)actions.acquired << 2 | (uint64_t)actions.released << 1 |
                   actions.done);
    act(s, party, &actions);
}

/* --- callbacks -------------------------------------------------------------------------------------- */

static int64_t callback_ns(sim *s, const sim_party *party)
{
    return s->now < party->slow_until ? party->slow_ns : sim_pick(s, 0, 3 * SIM_MS);
}

static void run_callbacks(sim *s, sim_party *party)
{
    simba__event look = {.kind = SIMBA__EV_TIMER};
    if (process_of(s, party)->late) { /* the clock is read before the application is called */
        party->callbacks = CALLBACKS_QUEUED;
        sim_plan_event(s, EV_CALLBACKS, index_of(s, party), s->now, party->life, 0);
        return;
    }
    if (party->pending.acquired && party->running)
        party_step(s, party, &look);
    while (simba__pending_take(&party->pending, &party->candidate.machine.owner, &party->tell)) {
        const simba__tell *tell = &party->tell;
        if (tell->acquired || tell->released || tell->changed) {
            party->callbacks = CALLBACKS_RUNNING;
            check_callback(s, party, tell);
            if (tell->acquired || tell->released)
                sim_log(s, party->name, "callback %s", tell->acquired ? "acquired" : "released");
            sim_plan_event(s, EV_CALLBACK_END, index_of(s, party), s->now + callback_ns(s, party), party->life, 0);
            if (party->stop_inside && (tell->acquired || tell->released)) {
                party->stop_inside = false;
                party_stop(s, party);
            }
            return;
        }
        if (tell->ack)
            ack(s, party);
    }
    party->callbacks = CALLBACKS_IDLE;
    look_if_stop_returned(party);
}

static void callback_ended(sim *s, sim_party *party)
{
    if (party->tell.acquired || party->tell.released)
        sim_log(s, party->name, "returned");
    if (party->tell.released)
        party->app_leads = false;
    if (party->tell.ack)
        ack(s, party);
    run_callbacks(s, party);
}

/* --- the application's calls ------------------------------------------------------------------------- */

void party_start(sim *s, sim_party *party)
{
    sim_process *process = process_of(s, party);
    if (party->running || !process->alive || s->winding_up)
        return;
    party->exists = true;
    party->running = true;
    party->restarts = true;
    party->stop_returned = false;
    party->stop_wanted = false;
    party->life += party->locker;
    party->held = false;
    party->started_at = s->now;
    if (!party->is_member)
        sim_log(s, party->name, "start");
    simba__event event = {.kind = SIMBA__EV_START, .seed = (uint64_t)sim_pick(s, INT64_MIN / 2, INT64_MAX / 2)};
    if (party->locker && !party->try_once && sim_chance(s, 500))
        process_plan(s, EV_LOCKER_GIVE_UP, index_of(s, party), process,
                     simba__local_add(process_now(s, process), sim_pick(s, SIM_MS, 2 * s->timing.ttl_ns)), party->life);
    client_begin(party);
    party_step(s, party, &event);
}

void party_stop(sim *s, sim_party *party)
{
    simba__event event = {.kind = SIMBA__EV_STOP};
    party->restarts = false;
    if (!party->running)
        return;
    party->stop_wanted = true;
    party_step(s, party, &event);
}

static void locker_event(sim *s, sim_party *party, sim_event_kind kind)
{
    simba__event event = {.kind = SIMBA__EV_STOP};
    if (kind == EV_LOCKER_AGAIN) {
        if (party->restarts)
            party_start(s, party);
    } else if (party->running && (kind == EV_LOCKER_RELEASE || !party->held)) {
        party_step(s, party, &event);
    }
}

/* --- events ------------------------------------------------------------------------------------------ */

void party_make(sim *s, sim_party *party)
{
    simba__contention *machine = &party->candidate.machine;
    client_adopt(party);
    if (party->is_member) {
        simba__contention_init(machine, &s->timing, s->backend.caps & SIMBA_CAP_QUEUE);
        machine->once = party->locker;
        machine->try_once = party->try_once;
    } else {
        simba__observation_init(&party->observation, SIM_OBSERVER_POLL_NS);
    }
    memset(&party->pending, 0, sizeof party->pending);
}

void party_event(sim *s, sim_party *party, const sim_event *event)
{
    switch ((sim_event_kind)event->kind) {
    case EV_CALLBACKS:
        if (event->version == party->life && party->callbacks == CALLBACKS_QUEUED)
            run_callbacks(s, party);
        break;
    case EV_CALLBACK_END:
        if (event->version == party->life)
            callback_ended(s, party);
        break;
    case EV_NOTE:
        notes_event(s, party, event);
        break;
    default:
        if (event->version == party->life)
            locker_event(s, party, (sim_event_kind)event->kind);
    }
}
