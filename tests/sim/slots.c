/* Applications with several lockers at a time: a turnstile, which is mutex 0, and slots, which are the others. An application has a
 * handle for each, the turnstile's first, and does what src/api/locker.c does for a thread in acquire (acquire_slot, take_slot): by
 * the same decisions of core/slots.h. Some time after something has happened to a handle, that thread wakes and looks.
 *
 * What is checked: nobody is let in without a slot that the store has granted, never more than there are slots, and nobody takes
 * one who is not in the turnstile. When all is well, nobody leaves any more for a while: then all slots must be taken if enough want one
 * (L1). Then one leaves, and the one in the turnstile must follow (L2). */
#include "core/slots.h"

#include "sim/world.h"

static unsigned index_of(const sim *s, const sim_handle *handle)
{
    return (unsigned)(handle - s->handle);
}

static sim_app *app_of(sim *s, const sim_handle *handle)
{
    return &s->app[index_of(s, handle) / (s->plan->slots + 1)];
}

/* 0: its turnstile; 1 and on: its slots. */
static sim_handle *handle_of(sim *s, const sim_app *app, unsigned which)
{
    return &s->handle[(unsigned)(app - s->app) * (s->plan->slots + 1) + which];
}

static unsigned apps(const sim *s)
{
    return s->plan->slots ? s->plan->contenders / (s->plan->slots + 1) : 0;
}

static void plan_step(sim *s, const sim_app *app, sim_event_kind kind, int64_t after_ns)
{
    sim_plan_event(s, kind, index_of(s, handle_of(s, app, 0)), s->now + after_ns, app->life, 0);
}

static void wake(sim *s, sim_app *app)
{
    if (app->wakes)
        return;
    app->wakes = true;
    plan_step(s, app, EV_LOCKER_WAKE, sim_pick(s, 0, 50000));
}

static void send_stop(sim *s, sim_handle *handle)
{
    simba__event event = {.kind = SIMBA__EV_STOP};
    handle->held = false;
    if (handle->running)
        handle_step(s, handle, &event);
}

static bool is_in_turnstile(sim *s, const sim_app *app)
{
    return app->phase == SIM_APP_CHOOSES && check_holds(s, handle_of(s, app, 0));
}

static bool is_inside(sim *s, const sim_app *app)
{
    return app->phase == SIM_APP_IS_IN && check_holds(s, handle_of(s, app, app->shown));
}

/* --- checks ------------------------------------------------------------------------------------------ */

/* One that has lost the turnstile goes on waiting for the slots, and is ahead of those who came into it later. */
static void check_in_turnstile(sim *s, const sim_app *app)
{
    const sim_handle *turnstile = handle_of(s, app, 0);
    if (turnstile->candidate.machine.phase != SIMBA__HOLD && !app->lost_turnstile)
        check_broken(s, "L2", "%s takes a slot although it is not in the turnstile", turnstile->name);
}

static void check_entered(sim *s, const sim_app *app)
{
    const sim_handle *slot = handle_of(s, app, app->shown);
    unsigned inside = 0;
    check_in_turnstile(s, app);
    if (!slot->held)
        check_broken(s, "S1", "%s was let in without holding the slot", slot->name);
    for (unsigned i = 0; i < apps(s); i++)
        inside += is_inside(s, &s->app[i]);
    if (inside > s->plan->slots)
        check_broken(s, "S1", "%u hold one of %u slots", inside, s->plan->slots);
}

/* --- the thread in acquire and release ---------------------------------------------------------------- */

/* Give everything back but the slot that is kept. */
static void leave(sim *s, sim_app *app, unsigned kept)
{
    for (unsigned i = 0; i <= s->plan->slots; i++)
        if (i == 0 || i != kept)
            send_stop(s, handle_of(s, app, i));
}

static void give_up(sim *s, sim_app *app)
{
    app->phase = SIM_APP_AWAY;
    leave(s, app, 0);
    if (handle_of(s, app, 0)->restarts && !s->winding_up)
        plan_step(s, app, EV_LOCKER_AGAIN, sim_pick(s, 0, s->settled ? SIM_MS : s->timing.ttl_ns / 4));
}

static void enter(sim *s, sim_app *app, unsigned slot)
{
    app->phase = SIM_APP_IS_IN;
    app->shown = slot + 1;
    check_entered(s, app);
    leave(s, app, app->shown);
    plan_step(s, app, EV_LOCKER_RELEASE, sim_pick(s, SIM_MS, 2 * s->timing.ttl_ns));
}

static void come(sim *s, sim_app *app)
{
    sim_handle *turnstile = handle_of(s, app, 0);
    if (app->asked && turnstile->held) {
        app->phase = SIM_APP_CHOOSES;
        app->first = (unsigned)sim_pick(s, 0, s->plan->slots - 1);
        for (unsigned i = 1; i <= s->plan->slots; i++)
            handle_of(s, app, i)->asked = false;
    } else if (app->asked && !turnstile->running) {
        give_up(s, app); /* there was an error */
    } else if (!turnstile->running) {
        app->asked = true;
        turnstile->candidate.machine.try_once = false;
        handle_begin(s, turnstile);
    }
}

static void choose(sim *s, sim_app *app)
{
    simba__slot states[SIM_MUTEXES];
    unsigned which;
    for (unsigned i = 0; i < s->plan->slots; i++) {
        const sim_handle *slot = handle_of(s, app, i + 1);
        if (slot->asked && !slot->running && !slot->held && slot->failed) {
            give_up(s, app);
            return;
        }
        states[i] = simba__slots_state(slot->asked, slot->running, slot->refused, slot->held);
    }
    const simba__slots_move move = simba__slots_decide(states, s->plan->slots, app->first, &which);
    if (move == SIMBA__SLOTS_ENTER) {
        enter(s, app, which);
    } else if (move == SIMBA__SLOTS_ASK) {
        sim_handle *slot = handle_of(s, app, which + 1);
        check_in_turnstile(s, app);
        slot->asked = true;
        slot->refused = slot->failed = false;
        slot->candidate.machine.try_once = app->try_once;
        handle_begin(s, slot);
    } else if (move == SIMBA__SLOTS_FULL && app->try_once) {
        give_up(s, app);
    }
}

static void look(sim *s, sim_app *app)
{
    const sim_handle *shown = handle_of(s, app, app->shown);
    if (app->phase == SIM_APP_COMES)
        come(s, app);
    if (app->phase == SIM_APP_CHOOSES)
        choose(s, app);
    else if ((app->phase == SIM_APP_GOES || (app->phase == SIM_APP_IS_IN && s->settled)) && !shown->running)
        give_up(s, app); /* it has given the slot back, or lost it */
}

static void acquire(sim *s, sim_app *app)
{
    app->life++;
    app->phase = SIM_APP_COMES;
    app->asked = app->lost_turnstile = app->wakes = false;
    app->try_once = !s->settled && sim_chance(s, 200);
    app->shown = 1;
    if (sim_chance(s, 300))
        plan_step(s, app, EV_LOCKER_GIVE_UP, sim_pick(s, SIM_MS, 2 * s->timing.ttl_ns));
    wake(s, app);
}

/* --- what happens ------------------------------------------------------------------------------------- */

void slots_told(sim *s, sim_handle *handle, const simba__event *event, const simba__actions *actions)
{
    sim_app *app = app_of(s, handle);
    if (event->kind == SIMBA__EV_REPLY && actions->was_op == SIMBA_OP_ACQUIRE) {
        handle->refused = !actions->acquired;
        handle->failed = event->reply->status < 0;
    }
    if (actions->acquired)
        handle->held = true;
    if (actions->released && actions->reason != SIMBA_REASON_STOPPED && handle->mutex == 0)
        app->lost_turnstile = true;
    wake(s, app);
}

void slots_start(sim *s, sim_handle *handle)
{
    sim_app *app = app_of(s, handle);
    if (!s->process[handle->process].alive || s->winding_up)
        return;
    handle->restarts = true;
    if (app->phase == SIM_APP_AWAY)
        acquire(s, app);
}

void slots_stop(sim *s, sim_handle *handle)
{
    sim_app *app = app_of(s, handle);
    handle->restarts = false;
    app->life++;
    app->wakes = false;
    app->phase = SIM_APP_AWAY;
    leave(s, app, 0);
}

void slots_killed(sim *s, unsigned process)
{
    for (unsigned i = 0; i < apps(s); i++)
        if (handle_of(s, &s->app[i], 0)->process == process)
            s->app[i] = (sim_app){.life = s->app[i].life + 1};
}

void slots_event(sim *s, const sim_handle *handle, const sim_event *event)
{
    sim_app *app = app_of(s, handle);
    if (event->version != app->life || !s->process[handle->process].alive)
        return;
    switch ((sim_event_kind)event->kind) {
    case EV_LOCKER_AGAIN:
        if (app->phase == SIM_APP_AWAY)
            acquire(s, app);
        break;
    case EV_LOCKER_GIVE_UP:
        if ((app->phase == SIM_APP_COMES || app->phase == SIM_APP_CHOOSES) && !s->settled)
            give_up(s, app);
        break;
    case EV_LOCKER_RELEASE:
        if (app->phase == SIM_APP_IS_IN && !s->settled) {
            app->phase = SIM_APP_GOES;
            send_stop(s, handle_of(s, app, app->shown));
        }
        look(s, app);
        break;
    default:
        app->wakes = false;
        look(s, app);
    }
}

/* --- when all is well ---------------------------------------------------------------------------------- */

void slots_settled(sim *s)
{
    for (unsigned i = 0; i < apps(s); i++) {
        const sim_handle *turnstile = handle_of(s, &s->app[i], 0);
        plan_step(s, &s->app[i], EV_LOCKER_WAKE, 0);
        if (turnstile->restarts)
            plan_step(s, &s->app[i], EV_LOCKER_AGAIN, SIM_MS);
    }
}

/* L1, and the beginning of the drill for L2. */
void slots_drill(sim *s)
{
    unsigned wanted = 0, inside = 0, in_turnstile = 0, behind = 0;
    sim_app *leaver = NULL;
    for (unsigned i = 0; i < apps(s); i++) {
        sim_app *app = &s->app[i];
        const sim_handle *turnstile = handle_of(s, app, 0);
        wanted += s->process[turnstile->process].alive && turnstile->restarts;
        inside += is_inside(s, app);
        if (is_inside(s, app))
            leaver = app;
        in_turnstile += is_in_turnstile(s, app);
        behind += app->phase == SIM_APP_COMES;
        s->checks.next[i] = app->phase == SIM_APP_CHOOSES;
    }
    if (inside < (wanted < s->plan->slots ? wanted : s->plan->slots))
        check_broken(s, "L1", "%u of %u slots are taken, although %u want one and all is well", inside, s->plan->slots,
                     wanted);
    if (behind > 0 && in_turnstile == 0)
        check_broken(s, "L1", "nobody is in the turnstile, although %u wait for it and all is well", behind);
    if (leaver)
        slots_stop(s, handle_of(s, leaver, 0));
}

void slots_check_next(sim *s)
{
    const char *next = NULL;
    for (unsigned i = 0; i < apps(s); i++) {
        if (s->checks.next[i] && is_inside(s, &s->app[i]))
            return;
        if (s->checks.next[i])
            next = handle_of(s, &s->app[i], 0)->name;
    }
    if (next)
        check_broken(s, "L2", "a slot was given back, and %s in the turnstile does not have it", next);
}
