/* See probe.h. */
#include "probe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BREACH(arena, ...) tck_fail_locked((arena)->kit, __FILE__, __LINE__, __VA_ARGS__)

/* --- the arena ---------------------------------------------------------------------------------- */

tck_arena *tck_arena_named(tck *t, const char *mutex)
{
    tck_arena *arena = tck_alloc(t, sizeof *arena);
    arena->kit = t;
    arena->mutex = mutex;
    return arena;
}

tck_arena *tck_arena_new(tck *t, const char *suffix)
{
    return tck_arena_named(t, tck_mutex(t, suffix));
}

static bool probe_holds(const void *who)
{
    const tck_probe *probe = who;
    return probe->contender && simba_contender_is_owner(probe->contender);
}

/* While one leads, no other contender may hold a lease that is valid by its own clock, whatever it has been told so
 * far. */
static void check_leases(tck_arena *arena, const void *who)
{
    for (tck_probe *other = arena->probes; other; other = other->sibling)
        if (other != who && probe_holds(other))
            BREACH(arena, "two valid leases at once: %s still has %" PRId64 " ms", simba_contender_id(other->contender),
                   simba_contender_held_for_ms(other->contender));
}

/* On a busy machine a thread may run long after the event that it reports. So the arena does not go by the order in
 * which threads arrive, but by what the lease of each says at this moment. A contender inside without a valid lease has
 * lost it and was not told yet: it leads no longer. Neither does a contender whose lease ended before it could
 * enter. */
void tck_arena_enter(tck_arena *arena, const void *who, tck_holds *holds, uint64_t token, bool again)
{
    const bool valid = holds(who);
    if (token == arena->last_token ? !(again && who == arena->last) : valid && token < arena->last_token)
        BREACH(arena, "token %" PRIu64 " after token %" PRIu64, token, arena->last_token);
    if (valid) {
        if (arena->inside && arena->holds(arena->inside))
            BREACH(arena, "two lead at once");
        check_leases(arena, who);
        arena->inside = arena->last = who;
        arena->holds = holds;
        arena->last_token = token;
    }
    tck_notify(arena->kit);
}

void tck_arena_leave(tck_arena *arena, const void *who)
{
    if (arena->inside == who)
        arena->inside = NULL;
    tck_notify(arena->kit);
}

/* --- callbacks of a probe ----------------------------------------------------------------------- */

/* Both need the lock. */
static size_t begin(tck_probe *probe, tck_event_kind kind)
{
    if (probe->in_callback)
        BREACH(probe->arena, "two callbacks of one contender at once");
    if (probe->stopped)
        BREACH(probe->arena, "callback after stop has returned");
    probe->in_callback = true;
    probe->callback_thread = pthread_self();

    if (probe->event_count == probe->event_room) {
        probe->event_room = probe->event_room ? 2 * probe->event_room : 4;
        probe->events = realloc(probe->events, probe->event_room * sizeof *probe->events);
        if (!probe->events)
            abort();
    }
    probe->events[probe->event_count] = (tck_event){.kind = kind, .at_ns = tck_now_ns()};
    return probe->event_count++;
}

static void end(tck_probe *probe, size_t event)
{
    probe->events[event].end_ns = tck_now_ns();
    probe->in_callback = false;
    tck_notify(probe->arena->kit);
}

static void run_hook(tck_probe *probe, void (*hook)(tck_probe *probe))
{
    tck_notify(probe->arena->kit);
    if (!hook)
        return;
    tck_unlock(probe->arena->kit);
    hook(probe);
    tck_lock(probe->arena->kit);
}

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    tck_probe *probe = user;
    tck_lock(probe->arena->kit);
    const size_t event = begin(probe, TCK_ACQUIRED);
    if (probe->inside)
        BREACH(probe->arena, "acquired twice without released");
    if (!simba_state_acquired(state, simba_contender_id(contender)))
        BREACH(probe->arena, "acquired with a state that does not say so");
    probe->inside = true;
    probe->acquired++;
    probe->events[event].token = state->after.token;
    probe->events[event].held_for_ms = simba_contender_held_for_ms(contender);
    tck_arena_enter(probe->arena, probe, probe_holds, state->after.token, false);
    run_hook(probe, probe->on_acquired);
    end(probe, event);
    tck_unlock(probe->arena->kit);
}

static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    tck_probe *probe = user;
    /* A contender that gives the mutex back keeps it until it has tidied up; one that has lost it only has to be told in
     * time. */
    const bool graceful = reason == SIMBA_REASON_STOPPED || reason == SIMBA_REASON_HOLD_LIMIT;
    tck_lock(probe->arena->kit);
    const size_t event = begin(probe, TCK_RELEASED);
    if (!probe->inside)
        BREACH(probe->arena, "released without acquired");
    if (!simba_state_released(state, simba_contender_id(contender)))
        BREACH(probe->arena, "released with a state that does not say so");
    probe->released++;
    probe->events[event].token = state->before.token;
    probe->events[event].reason = reason;
    if (!graceful)
        tck_arena_leave(probe->arena, probe);
    run_hook(probe, probe->on_released);
    if (graceful)
        tck_arena_leave(probe->arena, probe);
    probe->inside = false;
    end(probe, event);
    tck_unlock(probe->arena->kit);
}

static void on_changed(simba_contender *contender, const simba_state *state, void *user)
{
    tck_probe *probe = user;
    (void)contender;
    tck_lock(probe->arena->kit);
    const size_t event = begin(probe, TCK_CHANGED);
    probe->changed++;
    probe->events[event].token = state->after.token;
    end(probe, event);
    tck_unlock(probe->arena->kit);
}

/* --- life of a probe ---------------------------------------------------------------------------- */

static void destroy(void *arg)
{
    tck_probe_free(arg);
}

tck_probe *tck_probe_new(tck_arena *arena, tck_client *client)
{
    tck *t = arena->kit;
    tck_probe *probe = tck_alloc(t, sizeof *probe);
    probe->arena = arena;
    probe->client = client;
    probe->timing = tck_timing(t);
    probe->stopped = true;
    tck_lock(t);
    probe->next = t->probes;
    t->probes = probe;
    probe->sibling = arena->probes;
    arena->probes = probe;
    tck_unlock(t);
    tck_defer(t, NULL, destroy, probe);
    return probe;
}

static void create(tck_probe *probe)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.id = probe->id;
    options.timing = tck_timing_option(probe->arena->kit, probe->timing);
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.on_changed = on_changed;
    options.user = probe;
    simba_error err = {0};
    simba_contender *contender;
    const int rc = simba_contender_new(probe->client->handle, probe->arena->mutex, &options, &err, &contender);
    if (rc < 0)
        tck_give_up(probe->arena->kit, "simba_contender_new is %s: %s", tck_code(rc), err.text);
    tck_lock(probe->arena->kit);
    probe->contender = contender;
    tck_unlock(probe->arena->kit);
}

int tck_probe_try_start(tck_probe *probe)
{
    tck_lock(probe->arena->kit);
    probe->stopped = false;
    probe->stop_done = false;
    tck_unlock(probe->arena->kit);
    return simba_contender_start(probe->contender);
}

void tck_probe_start(tck_probe *probe)
{
    if (!probe->contender)
        create(probe);
    const int rc = tck_probe_try_start(probe);
    if (rc < 0)
        tck_give_up(probe->arena->kit, "simba_contender_start is %s", tck_code(rc));
}

/* Inside its own callback a probe's stop does not wait, and more callbacks may follow. */
static bool in_own_callback(const tck_probe *probe)
{
    return probe->in_callback && pthread_equal(probe->callback_thread, pthread_self());
}

int tck_probe_stop(tck_probe *probe)
{
    const int rc = simba_contender_stop(probe->contender);
    tck_lock(probe->arena->kit);
    if (!in_own_callback(probe))
        probe->stopped = true;
    tck_unlock(probe->arena->kit);
    return rc;
}

static void stop_in_thread(void *arg)
{
    tck_probe *probe = arg;
    const int rc = tck_probe_stop(probe);
    tck_lock(probe->arena->kit);
    probe->stop_rc = rc;
    probe->stop_done = true;
    tck_notify(probe->arena->kit);
    tck_unlock(probe->arena->kit);
}

void tck_probe_stop_async(tck_probe *probe)
{
    tck_thread_run(probe->arena->kit, stop_in_thread, probe);
}

bool tck_probe_is_stopping(const tck_probe *probe)
{
    return probe->stop_done || simba_contender_status(probe->contender) == SIMBA_STATUS_STOPPING;
}

void tck_probe_free(tck_probe *probe)
{
    tck_lock(probe->arena->kit);
    simba_contender *contender = probe->contender;
    probe->contender = NULL;
    tck_unlock(probe->arena->kit);
    simba_contender_free(contender);

    tck_lock(probe->arena->kit);
    if (contender && !in_own_callback(probe))
        probe->stopped = true;
    tck_unlock(probe->arena->kit);
}

/* --- the record --------------------------------------------------------------------------------- */

static tck_event find_event(tck_probe *probe, tck_event_kind kind, unsigned nth, bool last)
{
    tck_event found = {0};
    tck_lock(probe->arena->kit);
    for (size_t i = 0; i < probe->event_count; i++) {
        if (probe->events[i].kind != kind)
            continue;
        if (last || --nth == 0)
            found = probe->events[i];
        if (!last && nth == 0)
            break;
    }
    tck_unlock(probe->arena->kit);
    return found;
}

tck_event tck_probe_event(tck_probe *probe, tck_event_kind kind, unsigned nth)
{
    return find_event(probe, kind, nth, false);
}

tck_event tck_probe_last(tck_probe *probe, tck_event_kind kind)
{
    return find_event(probe, kind, 0, true);
}

static void dump_event(tck *t, const tck_event *event)
{
    static const char *const names[] = {"acquired", "released", "changed"};
    fprintf(t->out, "#     %8.1f ms %s token %" PRIu64, (double)(event->at_ns - t->began_ns) / TCK_NS_PER_MS,
            names[event->kind], event->token);
    if (event->kind == TCK_RELEASED)
        fprintf(t->out, " (%s)", simba_reason_name(event->reason));
    if (event->end_ns == 0)
        fputs(", not returned", t->out);
    fputc('\n', t->out);
}

void tck_probes_dump(tck *t)
{
    enum { MOST_PROBES = 12, MOST_EVENTS = 20 };
    unsigned probes = 0;
    tck_lock(t);
    for (tck_probe *probe = t->probes; probe && probes < MOST_PROBES; probe = probe->next, probes++) {
        fprintf(t->out, "#   probe %u on %s was told %zu things\n", probes, probe->arena->mutex, probe->event_count);
        const size_t first = probe->event_count > MOST_EVENTS ? probe->event_count - MOST_EVENTS : 0;
        for (size_t i = first; i < probe->event_count; i++)
            dump_event(t, &probe->events[i]);
    }
    tck_unlock(t);
}

void tck_probes_forget(tck *t)
{
    for (tck_probe *probe = t->probes; probe; probe = probe->next)
        free(probe->events);
    t->probes = NULL;
}
