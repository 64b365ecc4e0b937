/* Contenders and observers, and the applications that they belong to. Carries out the actions of the machines of
 * src/core, as src/runtime does with threads: one timer per party, callbacks that never overlap per party, start and
 * stop at any moment. Decisions come from core: what to tell (telling.h), who watches (contention.h), until when a
 * holder may act (timing.h). */
#include <string.h>

#include "core/chronicle.h"
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

static void set_timer(sim *s, sim_party *party, simba_local at)
{
    if (party->timer.ns == at.ns)
        return;
    party->timer = at;
    process_plan(s, EV_TIMER, index_of(s, party), process_of(s, party), at, ++party->timer_version);
}

static void post(sim *s, sim_party *party)
{
    if (party->strand != STRAND_IDLE)
        return;
    party->strand = STRAND_QUEUED;
    sim_plan_event(s, EV_STRAND, index_of(s, party), s->now + sim_pick(s, 0, 50000), party->life, 0);
}

static void look_if_stop_returned(sim_party *party)
{
    if (party->stop_wanted && !party->running && party->strand == STRAND_IDLE) {
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

bool party_is_curious(const sim_party *party)
{
    return !party->is_member || (!party->locker && party->process % 2 == 0);
}

static void act(sim *s, sim_party *party, const simba__actions *actions)
{
    if (actions->submit) {
        check_submit(s, party, actions);
        process_submit(s, party, actions);
    }
    if (actions->hurry)
        party->request.give_up = party->request.deadline;
    set_timer(s, party, actions->timer);
    if (party->is_member) {
        process_want(s, party, simba__contention_wants_news(&party->machine, s->caps));
        if (party->sharing.sharers > 0)
            lingering_told(s, party, actions);
        else if (party->locker)
            told_locker(s, party, actions);
        else if (simba__telling_note(&party->telling, actions, party_is_curious(party)))
            post(s, party);
    } else {
        process_want(s, party, party->observation.phase != SIMBA__OBSERVES_NOT);
    }
    if (actions->done) {
        party->running = false;
        process_want(s, party, false);
        s->verdict.contender_ns += party->is_member ? s->now - party->started_at : 0;
        look_if_stop_returned(party);
    }
    if (actions->released && party->locker)
        ack(s, party);
    if (party->sharing.sharers > 0)
        lingering_after(s, party);
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

static void log_step(sim *s, const sim_party *party, const simba__event *event, const simba__actions *actions)
{
    struct moment moment = {s, party};
    if (s->log)
        simba__chronicle_step(&party->machine, event, actions, s->now - event->now.ns, say, &moment);
}

/* As in runtime/member.c: the end of a session moves without the machine, so every reader looks at the session. */
static void publish(const sim *s, sim_party *party)
{
    const bool session = s->timing.session;
    party->valid_until = simba__contention_valid_until(&party->machine);
    if (session && party->valid_until.ns)
        party->valid_until = SIMBA__NEVER;
    party->margin_ns = session && party->machine.phase == SIMBA__HOLD ? s->timing.stop_margin_ns : 0;
}

static void step_member(sim *s, sim_party *party, simba__event *event, simba__actions *ret_actions)
{
    const simba__contention before = party->machine;
    event->owner_id = name_in(&s->names, event);
    simba__contention_step(&party->machine, event, ret_actions);
    publish(s, party);
    sim_mix(s, (uint64_t)party->valid_until.ns);
    log_step(s, party, event, ret_actions);
    check_step(s, party, &before, event, ret_actions);
}

static void take_step(sim *s, sim_party *party, simba__event *event, simba__actions *ret_actions)
{
    sim_process *process = process_of(s, party);
    event->now = process_now(s, process);
    event->session_until = process->session_until;
    if (party->sharing.sharers > 0)
        lingering_before(party, event);
    if (party->is_member)
        step_member(s, party, event, ret_actions);
    else
        simba__observation_step(&party->observation, event, s->timing.op_timeout_ns, ret_actions);
    event->used = ret_actions->used;
}

/* As in runtime/member.c: a waiter hears the news that was kept for it before anything else happens to it. */
static void catch_up(sim *s, sim_party *party, const simba__event *event)
{
    const simba__news *news = &process_of(s, party)->topic[party->mutex].news;
    if (!party->waits || !simba__news_waits(&party->machine) || party->heard == news->number)
        return;
    party->heard = news->number;
    if (simba__news_is_known(news, event))
        return;
    const simba_push push = simba__news_late(news, process_now(s, process_of(s, party)));
    simba__event late = {.kind = SIMBA__EV_PUSH, .push = &push};
    simba__actions actions;
    take_step(s, party, &late, &actions);
    act(s, party, &actions);
}

static void enlist(sim *s, sim_party *party, const simba__event *event)
{
    simba__news *news = &process_of(s, party)->topic[party->mutex].news;
    const bool waits = party->is_member && simba__news_waits(&party->machine);
    if (waits && !party->waits)
        party->heard = news->number;
    if (waits && event->kind == SIMBA__EV_REPLY && event->reply->status == 0)
        simba__news_told(
            news, simba__local_add(event->now, simba__owner_left_ns(&event->reply->owner, event->reply->now_ms)));
    party->waits = waits;
}

void party_step(sim *s, sim_party *party, simba__event *event)
{
    sim_process *process = process_of(s, party);
    simba__actions actions;
    if (party->is_member)
        catch_up(s, party, event);
    take_step(s, party, event, &actions);
    enlist(s, party, event);
    sim_mix(s, (uint64_t)s->now);
    sim_mix(s, (uint64_t)index_of(s, party) << 32 | (uint64_t)event->kind << 24 | (uint64_t)party->machine.phase << 16 |
                   (uint64_t)actions.op << 8 | (uint64_t)actions.submit << 3 | (uint64_t)actions.acquired << 2 |
                   (uint64_t)actions.released << 1 | actions.done);
    if (process->stall_ns > 0 && process->alive && !process->in_store && !s->healed && !process_is_paused(s, process)) {
        /* The clock was read, and now the process does not get on. */
        const int64_t until = s->now + process->stall_ns;
        process->paused_until = until < s->plan->horizon_ns ? until : s->plan->horizon_ns;
        check_trouble(s, party->process, s->now, process->paused_until);
        sim_log(s, party->name, "fault stalled %lld", (long long)process->paused_until);
        process->stall_ns = 0;
        process->in_turn = true;
        party->stalled = actions;
        sim_plan_event(s, EV_ACT, index_of(s, party), process->paused_until, party->life, 0);
        return;
    }
    act(s, party, &actions);
}

/* --- callbacks -------------------------------------------------------------------------------------- */

static int64_t callback_ns(sim *s, const sim_party *party)
{
    return s->now < party->slow_until ? party->slow_ns : sim_pick(s, 0, 3 * SIM_MS);
}

static void run_strand(sim *s, sim_party *party)
{
    simba__event look = {.kind = SIMBA__EV_TIMER};
    if (party->telling.acquired && party->running)
        party_step(s, party, &look);
    if (process_is_paused(s, process_of(s, party))) {
        party->strand = STRAND_QUEUED;
        sim_plan_event(s, EV_STRAND, index_of(s, party), s->now, party->life, 0);
        return;
    }
    while (simba__telling_take(&party->telling, &party->machine.owner, &party->tell)) {
        const simba__tell *tell = &party->tell;
        if (tell->acquired || tell->released || tell->changed) {
            party->strand = STRAND_RUNNING;
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
    party->strand = STRAND_IDLE;
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
    run_strand(s, party);
}

/* --- the application's calls ------------------------------------------------------------------------- */

void party_start_contender(sim *s, sim_party *party)
{
    sim_process *process = process_of(s, party);
    if (party->running || !process->alive || s->winding_up)
        return;
    party->exists = true;
    party->running = true;
    party->restarts |= party->sharing.sharers == 0;
    party->stop_returned = false;
    party->stop_wanted = false;
    party->life += party->locker;
    party->held = false;
    party->started_at = s->now;
    if (!party->is_member)
        sim_log(s, party->name, "start");
    simba__event event = {
        .kind = SIMBA__EV_START, .seed = (uint64_t)sim_pick(s, INT64_MIN / 2, INT64_MAX / 2), .give_up = SIMBA__NEVER};
    if (party->locker && party->sharing.sharers == 0 && !party->try_once && sim_chance(s, 500)) {
        event.give_up = simba__local_add(process_now(s, process), sim_pick(s, SIM_MS, 2 * s->timing.ttl_ns));
        process_plan(s, EV_LOCKER_GIVE_UP, index_of(s, party), process, event.give_up, party->life);
    }
    party_step(s, party, &event);
}

void party_start(sim *s, sim_party *party)
{
    if (party->sharing.sharers > 0)
        lingering_start(s, party);
    else
        party_start_contender(s, party);
}

void party_stop(sim *s, sim_party *party)
{
    simba__event event = {.kind = SIMBA__EV_STOP};
    if (party->sharing.sharers > 0) {
        lingering_stop(s, party);
        return;
    }
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
    if (party->is_member) {
        simba__contention_init(&party->machine, &s->timing, s->caps & SIMBA_CAP_QUEUE);
        party->machine.once = party->locker;
        party->machine.try_once = party->try_once;
        if (party->sharing.sharers > 0)
            lingering_make(s, party, &s->plan->member[index_of(s, party)]);
    } else {
        simba__observation_init(&party->observation, SIM_OBSERVER_POLL_NS);
    }
    memset(&party->telling, 0, sizeof party->telling);
    party->request = (simba_request){.id = party->id, .mutex = sim_mutex_name(party->mutex)};
}

static void deadline(sim *s, sim_party *party)
{
    const simba_reply reply = {.status = SIMBA_ETIMEDOUT};
    simba__event event = {.kind = SIMBA__EV_REPLY, .generation = party->generation, .reply = &reply};
    if (!party->outstanding)
        return;
    party->outstanding = false;
    party_step(s, party, &event);
}

void party_event(sim *s, sim_party *party, const sim_event *event)
{
    simba__event timer = {.kind = SIMBA__EV_TIMER};
    switch ((sim_event_kind)event->kind) {
    case EV_TIMER:
        if (event->version == party->timer_version && party->running) {
            party->timer = SIMBA__NEVER;
            party_step(s, party, &timer);
        }
        break;
    case EV_DEADLINE:
        if (event->version == party->deadline_version)
            deadline(s, party);
        break;
    case EV_ACT:
        process_of(s, party)->in_turn = false;
        if (event->version == party->life)
            act(s, party, &party->stalled);
        break;
    case EV_STRAND:
        if (event->version == party->life && party->strand == STRAND_QUEUED)
            run_strand(s, party);
        break;
    case EV_CALLBACK_END:
        if (event->version == party->life)
            callback_ended(s, party);
        break;
    case EV_NOTE:
        notes_event(s, party, event);
        break;
    case EV_LINGER:
    case EV_SHARER_WANTS:
    case EV_SHARER_LEAVES:
        lingering_event(s, party, event);
        break;
    default:
        if (event->version == party->life)
            locker_event(s, party, (sim_event_kind)event->kind);
    }
}
