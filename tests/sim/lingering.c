/* Lockers of one process that share a contender, as src/runtime/shared.c lets them: core/linger.h decides who of them has its
 * grant. Each is an application that wants the mutex now and then, uses it for a while, and may give up waiting.
 *
 * This checks what they see. One at a time has the grant, in the order in which they came, and only while its lease lasts (S1, S2).
 * All of them have it under the token of that grant (S3). A write of one does not change the note under the next (S8). And the
 * grant goes back when others wait for it, or its linger is over (L2). */
#include <string.h>

#include "sim/world.h"

static unsigned index_of(const sim *s, const sim_party *party)
{
    return (unsigned)(party - s->party);
}

static simba_local now_of(const sim *s, const sim_party *party)
{
    return process_now(s, &s->process[party->process]);
}

static sim_sharer *of_lingerer(simba__lingerer *lingerer)
{
    return (sim_sharer *)(void *)lingerer;
}

static unsigned number_of(const sim_party *party, const sim_sharer *sharer)
{
    return (unsigned)(sharer - party->sharing.sharer);
}

static void plan(sim *s, const sim_party *party, sim_sharer *sharer, sim_event_kind kind, int64_t after_ns)
{
    sim_plan_event(s, kind, index_of(s, party), s->now + after_ns, ++sharer->version, number_of(party, sharer));
}

/* Short ones, so that the grant passes quickly and is found where it was left; and long ones. */
static int64_t draw_pause(sim *s)
{
    return sim_chance(s, 400) ? sim_pick(s, 1000, 20 * SIM_MS) : sim_pick(s, SIM_MS, s->timing.ttl_ns);
}

static void come_again(sim *s, const sim_party *party, sim_sharer *sharer)
{
    sharer->version++;
    if (party->restarts && !s->winding_up)
        plan(s, party, sharer, EV_SHARER_WANTS, draw_pause(s));
}

/* --- what is promised --------------------------------------------------------------------------------- */

static bool is_told(const sim *s)
{
    return s->caps & SIMBA_CAP_WANTED;
}

static int64_t longest_linger_ns(const sim_party *party)
{
    int64_t longest = 0;
    for (unsigned i = 0; i < party->sharing.sharers; i++)
        if (party->sharing.sharer[i].lingerer.linger_ns > longest)
            longest = party->sharing.sharer[i].lingerer.linger_ns;
    return longest;
}

static void check_turn(sim *s, const sim_party *party, const sim_sharer *gets)
{
    const sim_sharing *sharing = &party->sharing;
    for (unsigned i = 0; i < sharing->sharers; i++) {
        const sim_sharer *other = &sharing->sharer[i];
        if (other == gets)
            continue;
        if (other->has)
            check_broken(s, "S1", "lockers %u and %u of %s both have mutex %u", number_of(party, gets), i, party->name,
                         party->mutex);
        if (other->waits && other->came < gets->came)
            check_broken(s, "L1", "locker %u of %s gets mutex %u before locker %u, which came first",
                         number_of(party, gets), party->name, party->mutex, i);
    }
}

/* It gets a grant that another one, or itself, has had. */
static void check_passed(sim *s, const sim_party *party, const sim_sharer *gets)
{
    const sim_sharing *sharing = &party->sharing;
    const unsigned number = number_of(party, gets);
    const simba_local now = now_of(s, party);
    int64_t longest_ns = longest_linger_ns(party);
    if (is_told(s) && longest_ns < SIMBA__LINGER_LONGEST_NS)
        longest_ns = SIMBA__LINGER_LONGEST_NS;
    if (party_held_ns(s, party) == 0)
        check_broken(s, "S2", "locker %u of %s gets mutex %u when its lease has ended", number, party->name,
                     party->mutex);
    if (party->machine.token != sharing->token)
        check_broken(s, "S3", "locker %u of %s gets mutex %u under another token than the one before", number,
                     party->name, party->mutex);
    if (now.ns - sharing->first_released.ns > longest_ns)
        check_broken(s, "L2", "%s keeps mutex %u for longer than it may linger", party->name, party->mutex);
    if (sharing->others && (sharing->turns > SIMBA__LINGER_TURNS || now.ns - sharing->others_at.ns > SIMBA__LINGER_NS))
        check_broken(s, "L2", "locker %u of %s gets mutex %u although others were to be let in", number, party->name,
                     party->mutex);
}

/* After every step. */
static void check_users(sim *s, const sim_party *party)
{
    for (unsigned i = 0; i < party->sharing.sharers; i++)
        if (party->sharing.sharer[i].has && party->machine.phase != SIMBA__HOLD)
            check_broken(s, "S2", "locker %u of %s was not told that mutex %u is lost", i, party->name, party->mutex);
}

void lingering_check_written(sim *s, const sim_party *party, uint64_t token, uint64_t number)
{
    const sim_sharing *sharing = &party->sharing;
    if (sharing->linger.user && token == party->machine.token && number <= sharing->number_before)
        check_broken(s, "S8", "a write of an earlier locker of %s changed the note of mutex %u under the next",
                     party->name, party->mutex);
}

/* Somebody else waits for the grant of this party. */
static bool is_wanted(const sim *s, const sim_party *party)
{
    for (unsigned i = 0; i < s->parties; i++) {
        const sim_party *other = &s->party[i];
        if (other != party && other->is_member && other->mutex == party->mutex && other->running &&
            s->process[other->process].alive && !other->machine.stop && !other->machine.try_once &&
            other->machine.phase == SIMBA__SEEK && other->machine.queued && strcmp(other->id, party->id) != 0 &&
            other->machine.owner.token == party->machine.token)
            return true;
    }
    return false;
}

static int64_t kept_for_at_most_ns(const sim *s, const sim_party *party, bool wanted)
{
    const int64_t linger_ns = longest_linger_ns(party) / 100 * 101 + SIM_MS;
    const int64_t hand_over_ns = sim_hand_over_ns(s);
    return wanted && is_told(s) && !s->is_deaf && hand_over_ns < linger_ns ? hand_over_ns : linger_ns;
}

void lingering_check_kept(sim *s)
{
    for (unsigned i = 0; s->settled && i < s->plan->members; i++) {
        sim_party *party = &s->party[i];
        sim_sharing *sharing = &party->sharing;
        const bool kept =
            sharing->sharers > 0 && s->process[party->process].alive && sharing->linger.phase == SIMBA__KEPT;
        const bool wanted = kept && is_wanted(s, party);
        if (!kept)
            sharing->kept_since = 0;
        else if (sharing->kept_since == 0)
            sharing->kept_since = s->now;
        if (!wanted)
            sharing->wanted_since = 0;
        else if (sharing->wanted_since == 0)
            sharing->wanted_since = s->now;
        if ((kept && s->now - sharing->kept_since > kept_for_at_most_ns(s, party, false)) ||
            (wanted && s->now - sharing->wanted_since > kept_for_at_most_ns(s, party, true)))
            check_broken(s, "L2", "%s lingers on mutex %u although %s", party->name, party->mutex,
                         wanted ? "somebody waits for it" : "its time is over");
    }
}

/* --- what the machine decides --------------------------------------------------------------------------- */

static void advance(sim *s, sim_party *party, simba__linger_kind kind, sim_sharer *who);

static void start(sim *s, sim_party *party)
{
    bool once = true;
    for (simba__list_item *item = party->sharing.linger.line.first; item; item = item->next)
        once &= of_lingerer(SIMBA__OF_ITEM(item, simba__lingerer, item))->once;
    party->machine.try_once = once;
    party_start_contender(s, party);
}

static void look_whether_stopped(sim *s, sim_party *party)
{
    const simba__linger_phase phase = (simba__linger_phase)party->sharing.linger.phase;
    if (!party->running && phase != SIMBA__AWAY && phase != SIMBA__YIELDS)
        advance(s, party, SIMBA__LINGER_STOPPED, NULL);
}

static void gets(sim *s, sim_party *party, sim_sharer *sharer, bool granted)
{
    sim_sharing *sharing = &party->sharing;
    const unsigned number = number_of(party, sharer);
    sharing->turns += sharing->others && !granted;
    sim_tell(s, "locker %u of %s has mutex %u%s", number, party->name, party->mutex, granted ? "" : ", passed on");
    check_turn(s, party, sharer);
    if (granted)
        sharing->token = party->machine.token;
    else
        check_passed(s, party, sharer);
    sharing->number_before = party->noting.number;
    sharer->waits = false;
    sharer->has = true;
    plan(s, party, sharer, EV_SHARER_LEAVES, draw_pause(s));
}

static void set_timer(sim *s, sim_party *party, simba_local at)
{
    sim_sharing *sharing = &party->sharing;
    if (sharing->timer.ns == at.ns)
        return;
    sharing->timer = at;
    process_plan(s, EV_LINGER, index_of(s, party), &s->process[party->process], at, ++sharing->timer_version);
}

static void act(sim *s, sim_party *party, simba__linger_kind kind, const simba__linger_actions *actions)
{
    if (actions->loses) {
        sim_sharer *loses = of_lingerer(actions->loses);
        loses->has = false;
        come_again(s, party, loses);
    }
    if (actions->gets)
        gets(s, party, of_lingerer(actions->gets), kind == SIMBA__LINGER_GRANTED);
    set_timer(s, party, actions->timer);
    if (actions->give_back && party->running) {
        simba__event event = {.kind = SIMBA__EV_STOP};
        party_step(s, party, &event);
    }
    if (actions->seek)
        start(s, party);
}

/* What the checks have to know of it. */
static void remember(sim_sharing *sharing, simba__linger_kind kind, simba_local now, bool releases)
{
    if (kind == SIMBA__LINGER_STOPPED) {
        sharing->others = false;
        sharing->turns = 0;
        sharing->first_released = SIMBA__NEVER;
    }
    if (kind == SIMBA__LINGER_OTHERS && !sharing->others && sharing->linger.phase == SIMBA__USED) {
        sharing->others = true;
        sharing->others_at = now;
    }
    if (releases)
        sharing->first_released = simba__local_min(sharing->first_released, now);
}

static bool is_unsettled(const sim_party *party)
{
    return (party->noting.outstanding && party->noting.request.op == SIMBA_OP_WRITE_NOTE) || party->noting.unsure;
}

static void advance(sim *s, sim_party *party, simba__linger_kind kind, sim_sharer *who)
{
    sim_sharing *sharing = &party->sharing;
    const simba__linger_event event = {
        .kind = kind,
        .now = now_of(s, party),
        .who = who ? &who->lingerer : NULL,
        .unsettled = kind == SIMBA__LINGER_LEAVE && is_unsettled(party),
    };
    simba__linger_actions actions;
    remember(sharing, kind, event.now, kind == SIMBA__LINGER_LEAVE && sharing->linger.user == &who->lingerer);
    simba__linger_step(&sharing->linger, &event, &actions);
    sim_mix(s, (uint64_t)kind << 8 | sharing->linger.phase);
    act(s, party, kind, &actions);
}

/* --- the contender ---------------------------------------------------------------------------------------- */

void lingering_before(sim_party *party, const simba__event *event)
{
    const simba__contention *machine = &party->machine;
    if (event->kind == SIMBA__EV_REPLY && machine->in_flight && machine->op == SIMBA_OP_ACQUIRE &&
        event->generation == machine->generation) {
        party->sharing.answered = true;
        party->sharing.answer = machine->generation;
    }
    party->sharing.wanted |= event->kind == SIMBA__EV_PUSH && event->push->kind == SIMBA_PUSH_WANTED;
}

void lingering_told(sim *s, sim_party *party, const simba__actions *actions)
{
    if (actions->acquired) {
        party->noting.unsure = false;
        advance(s, party, SIMBA__LINGER_GRANTED, NULL);
    }
    if (actions->released)
        advance(s, party, SIMBA__LINGER_LOST, NULL);
}

static void answered(sim *s, sim_party *party, uint32_t generation)
{
    for (unsigned i = 0; i < party->sharing.sharers; i++) {
        sim_sharer *sharer = &party->sharing.sharer[i];
        if (!sharer->waits || !sharer->once || (int32_t)(generation - sharer->asked) < 0)
            continue;
        sharer->waits = false;
        advance(s, party, SIMBA__LINGER_LEAVE, sharer);
        come_again(s, party, sharer);
    }
}

void lingering_after(sim *s, sim_party *party)
{
    sim_sharing *sharing = &party->sharing;
    const bool wanted = sharing->wanted, is_answer = sharing->answered;
    sharing->wanted = sharing->answered = false;
    if (wanted)
        advance(s, party, SIMBA__LINGER_OTHERS, NULL);
    if (is_answer)
        answered(s, party, sharing->answer);
    look_whether_stopped(s, party);
    check_users(s, party);
}

/* --- the application ---------------------------------------------------------------------------------------- */

void lingering_make(const sim *s, sim_party *party, const sim_member_plan *plan)
{
    sim_sharing *sharing = &party->sharing;
    simba__linger_init(&sharing->linger, is_told(s), s->caps & SIMBA_CAP_ORDER);
    sharing->first_released = sharing->timer = SIMBA__NEVER;
    sharing->others = sharing->wanted = sharing->answered = false;
    sharing->turns = 0;
    sharing->timer_version++;
    party->machine.once = true;
    party->machine.listens = is_told(s);
    for (unsigned i = 0; i < sharing->sharers; i++)
        sharing->sharer[i] = (sim_sharer){.version = sharing->sharer[i].version + 1,
                                          .lingerer = {.linger_ns = plan->linger_ms[i] * SIM_MS}};
}

void lingering_kill(sim_party *party)
{
    sim_sharing *sharing = &party->sharing;
    sharing->timer = SIMBA__NEVER;
    sharing->timer_version++;
    for (unsigned i = 0; i < sharing->sharers; i++) {
        sharing->sharer[i].version++;
        sharing->sharer[i].has = false;
    }
}

void lingering_plan_anew(sim *s, const sim_party *party)
{
    process_plan(s, EV_LINGER, index_of(s, party), &s->process[party->process], party->sharing.timer,
                 party->sharing.timer_version);
}

void lingering_start(sim *s, sim_party *party)
{
    sim_sharing *sharing = &party->sharing;
    if (!s->process[party->process].alive || s->winding_up || (sharing->linger.ending && party->running))
        return;
    if (sharing->linger.ending)
        lingering_make(s, party, &s->plan->member[index_of(s, party)]);
    party->exists = party->restarts = true;
    for (unsigned i = 0; i < sharing->sharers; i++)
        if (!sharing->sharer[i].has && !sharing->sharer[i].waits)
            plan(s, party, &sharing->sharer[i], EV_SHARER_WANTS, sim_pick(s, 0, 50 * SIM_MS));
}

/* The lease may have ended, and the timer is late. False: the process stalls in this very turn, and goes on later. */
static bool look(sim *s, sim_party *party)
{
    simba__event event = {.kind = SIMBA__EV_TIMER};
    if (party_held_ns(s, party) == 0)
        party_step(s, party, &event);
    return !process_is_paused(s, &s->process[party->process]);
}

static void leave(sim *s, sim_party *party, sim_sharer *sharer)
{
    if (sharer->has && !look(s, party)) {
        plan(s, party, sharer, EV_SHARER_LEAVES, 0);
        return;
    }
    if (!sharer->has && !sharer->waits)
        return;
    sharer->has = sharer->waits = false;
    advance(s, party, SIMBA__LINGER_LEAVE, sharer);
    come_again(s, party, sharer);
}

/* The application stops using its lockers; or it closes its client. */
void lingering_stop(sim *s, sim_party *party)
{
    sim_sharing *sharing = &party->sharing;
    const bool closes = s->winding_up || sim_chance(s, 500);
    party->restarts = false;
    if (closes) {
        party->stop_wanted = party->running;
        advance(s, party, SIMBA__LINGER_END, NULL);
    }
    for (unsigned i = 0; i < sharing->sharers; i++) {
        sharing->sharer[i].version++;
        leave(s, party, &sharing->sharer[i]);
    }
}

static void want(sim *s, sim_party *party, sim_sharer *sharer)
{
    sim_sharing *sharing = &party->sharing;
    const bool once = sim_chance(s, 200);
    sharer->once = once;
    sharer->asked = party->machine.generation + 1;
    if (once && (sharing->linger.phase == SIMBA__USED || sharing->linger.phase == SIMBA__YIELDS)) {
        come_again(s, party, sharer);
        return;
    }
    const bool sought = sharing->linger.phase == SIMBA__SOUGHT;
    sharer->waits = true;
    sharer->came = ++sharing->arrivals;
    sharer->version++;
    if (sim_chance(s, 300))
        plan(s, party, sharer, EV_SHARER_LEAVES, draw_pause(s));
    advance(s, party, SIMBA__LINGER_WANT, sharer);
    if (once && sought) {
        const simba_push ask = {.kind = SIMBA_PUSH_CHANGED};
        simba__event event = {.kind = SIMBA__EV_PUSH, .push = &ask};
        party_step(s, party, &event);
    }
}

static void sharer_event(sim *s, sim_party *party, const sim_event *event)
{
    sim_sharer *sharer = &party->sharing.sharer[event->arg];
    const sim_process *process = &s->process[party->process];
    if (event->version != sharer->version || !process->alive)
        return;
    if (event->kind == EV_SHARER_LEAVES) {
        leave(s, party, sharer);
        return;
    }
    if (party->sharing.linger.ending)
        return;
    if (party->sharing.linger.phase == SIMBA__KEPT && !look(s, party))
        plan(s, party, sharer, EV_SHARER_WANTS, 0);
    else
        want(s, party, sharer);
}

void lingering_event(sim *s, sim_party *party, const sim_event *event)
{
    if (event->kind != EV_LINGER) {
        sharer_event(s, party, event);
    } else if (event->version == party->sharing.timer_version) {
        party->sharing.timer = SIMBA__NEVER;
        advance(s, party, SIMBA__LINGER_TIMER, NULL);
    }
}
