/* Checks the promises of the README after every step, from the outside: by what the store has granted, what
 * `held_for_ms` would answer a holder, and what the application has been told. */
#include <stdarg.h>
#include <string.h>

#include "sim/world.h"

void check_broken(sim *s, const char *promise, const char *format, ...)
{
    if (s->verdict.promise)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(s->verdict.text, sizeof s->verdict.text, format, args);
    va_end(args);
    s->verdict.promise = promise;
    s->verdict.at_ns = s->now;
    sim_log(s, "store", "fault broken:%s %lld", promise, (long long)s->now + SIM_MS);
}

/* How long it may take a store to find out that its server can be reached again. */
#define RECONNECT_NS SIM_S

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* --- excuses ---------------------------------------------------------------------------------------- */

/* Troubles that overlap are one. */
static bool is_more_of(sim_trouble *trouble, unsigned process, unsigned row, int64_t from, int64_t to)
{
    if (trouble->process != process || trouble->row != row || trouble->jump || from > trouble->to || to < trouble->from)
        return false;
    trouble->from = from < trouble->from ? from : trouble->from;
    trouble->to = to > trouble->to ? to : trouble->to;
    return true;
}

/* Room for one more. If there is none left, the trouble that has been over for longest makes room: an excuse is looked for in the
 * latest lease alone. */
static sim_trouble *next_trouble(sim *s)
{
    if (s->checks.troubles < SIM_TROUBLES)
        return &s->checks.trouble[s->checks.troubles++];
    sim_trouble *oldest = &s->checks.trouble[0];
    for (unsigned i = 1; i < SIM_TROUBLES; i++)
        if (s->checks.trouble[i].to < oldest->to)
            oldest = &s->checks.trouble[i];
    return oldest;
}

static void add_trouble(sim *s, unsigned process, unsigned row, int64_t from, int64_t to)
{
    for (unsigned i = s->checks.troubles; i-- > 0;)
        if (is_more_of(&s->checks.trouble[i], process, row, from, to))
            return;
    *next_trouble(s) = (sim_trouble){(uint8_t)process, (uint8_t)row, false, from, to};
}

void check_trouble(sim *s, unsigned process, int64_t from, int64_t to)
{
    add_trouble(s, process, 0, from, to);
}

void check_row_locked(sim *s, unsigned mutex, int64_t from, int64_t to)
{
    add_trouble(s, SIM_PROCESSES, mutex + 1, from, to);
}

void check_jump(sim *s, unsigned process, int64_t ns)
{
    *next_trouble(s) = (sim_trouble){(uint8_t)process, 0, true, s->now - ns, s->now};
}

/* How long, between the two moments, this process or the store had trouble with this mutex: from the beginning of the first
 * trouble to the end of the last, and the time that the clock has skipped or that the process waited for the row of another
 * mutex. Negative: there was no trouble. */
static int64_t trouble_ns(const sim *s, unsigned process, unsigned mutex, int64_t from, int64_t to)
{
    int64_t first = INT64_MAX, last = INT64_MIN, skipped = 0;
    for (unsigned i = 0; i < s->checks.troubles; i++) {
        const sim_trouble *trouble = &s->checks.trouble[i];
        if ((trouble->process != process && trouble->process != SIM_PROCESSES) || trouble->to < from ||
            trouble->from > to)
            continue;
        if (trouble->jump) {
            skipped += trouble->to - trouble->from;
            continue;
        }
        if (trouble->row != 0 && trouble->row != mutex + 1) {
            const int64_t waited = min64(trouble->to, to) - (trouble->from > from ? trouble->from : from);
            skipped += min64(waited, s->checks.neighbour_ns);
            continue;
        }
        first = trouble->from < first ? trouble->from : first;
        last = trouble->to > last ? trouble->to : last;
    }
    if (first == INT64_MAX)
        return skipped > 0 ? skipped : -1;
    return (last < to ? last : to) - (first > from ? first : from) + skipped;
}

static bool was_revoked(const sim *s, unsigned mutex, uint64_t token)
{
    for (unsigned i = 0; i < SIM_REVOKED; i++)
        if (s->checks.revoked[mutex][i] == token)
            return true;
    return false;
}

void check_revoked(sim *s, unsigned mutex, uint64_t token)
{
    s->checks.revoked[mutex][s->checks.revocations[mutex]++ % SIM_REVOKED] = token;
}

/* --- S1: one at a time ------------------------------------------------------------------------------- */

bool check_holds(const sim *s, const sim_handle *handle)
{
    return handle->is_contender && handle_held_ns(s, handle) > 0 &&
           !was_revoked(s, handle->mutex, handle->candidate.machine.token);
}

static void check_alone(sim *s, const sim_handle *handle)
{
    if (!check_holds(s, handle))
        return;
    s->checks.owned_at[handle->mutex] = s->now;
    for (unsigned i = 0; i < s->handles; i++) {
        const sim_handle *other = &s->handle[i];
        if (other == handle || other->mutex != handle->mutex || !check_holds(s, other))
            continue;
        const uint64_t mine = handle->candidate.machine.token, theirs = other->candidate.machine.token;
        s->verdict.two = !s->verdict.promise;
        s->verdict.exposed = mine != theirs;
        check_broken(s, "S1", "%s (token %llu) and %s (token %llu) both hold mutex %u", handle->name,
                     (unsigned long long)mine, other->name, (unsigned long long)theirs, handle->mutex);
    }
}

/* --- S2, S3, S6: what the store grants ----------------------------------------------------------------- */

/* A process that does not run cannot be told; when it goes on, it finds that it holds nothing. */
static bool could_be_told(const sim *s, const sim_handle *handle)
{
    return s->now >= s->process[handle->process].paused_until + 10000;
}

static void check_not_tidying(sim *s, const sim_handle *handle)
{
    const simba__contention *machine = &handle->candidate.machine;
    if (handle->app_leads && machine->phase == SIMBA__TIDY && machine->graceful && could_be_told(s, handle))
        check_broken(s, "S6", "mutex %u was granted to another while %s was tidying up", handle->mutex, handle->name);
}

void check_granted(sim *s, unsigned mutex, unsigned grantee, uint64_t token, bool straggler)
{
    sim_checks *checks = &s->checks;
    checks->changed_at[mutex] = s->now;
    checks->straggled[mutex] = straggler;
    if (straggler)
        checks->drill[mutex] = false; /* one that died while it asked */
    sim_mix(s, token);
    if (token > 0 && token <= checks->token_granted[mutex])
        check_broken(s, "S3", "mutex %u was granted under token %llu after %llu", mutex, (unsigned long long)token,
                     (unsigned long long)checks->token_granted[mutex]);
    if (token > 0) /* a contender on the JVM has none */
        checks->token_granted[mutex] = token;
    for (unsigned i = 0; i < s->handles; i++) {
        const sim_handle *handle = &s->handle[i];
        const sim_process *process = &s->process[handle->process];
        if (i == grantee || !handle->is_contender || handle->mutex != mutex || !process->alive ||
            was_revoked(s, mutex, handle->candidate.machine.token))
            continue;
        check_not_tidying(s, handle);
        if (handle->candidate.machine.phase != SIMBA__HOLD)
            continue;
        if (could_be_told(s, handle) && handle->candidate.machine.token != token) {
            s->verdict.two = !s->verdict.promise;
            s->verdict.exposed = token > handle->candidate.machine.token;
            check_broken(s, "S2", "mutex %u was granted to %s before %s was told that it leads no more", mutex,
                         grantee < s->handles ? s->handle[grantee].name : "somebody", handle->name);
        }
    }
}

void check_freed(sim *s, unsigned mutex)
{
    s->checks.changed_at[mutex] = s->now;
    if (s->checks.drill[mutex] && !s->checks.freed_at[mutex])
        s->checks.freed_at[mutex] = s->now;
}

/* --- S3, S5, S6, L3: what a machine decides ------------------------------------------------------------ */

/* L3: leadership is not lost to an outage that is shorter than the transition. */
static bool loss_is_excused(const sim *s, const sim_handle *handle, const simba__contention *before)
{
    const sim_process *process = &s->process[handle->process];
    const simba__timing *timing = &s->timing;
    const int64_t slack = 8 * s->plan->latency_ns + (s->model ? RECONNECT_NS : 0);
    int64_t from, outage;
    if (timing->session) {
        from = s->now - s->plan->session_ns;
        outage = s->plan->session_ns / 5 - slack;
    } else {
        const int64_t renew_at = simba__period_renew_at(timing, before->lease_from).ns;
        from = sim_clock_when(&process->clock, renew_at);
        outage = (timing->transition_ns / 100 * 99 - timing->stop_margin_ns) / 1000 * 985 - slack;
    }
    const int64_t trouble = trouble_ns(s, handle->process, handle->mutex, from, s->now);
    return trouble >= 0 && trouble >= outage;
}

static void check_reason(sim *s, const sim_handle *handle, const simba__contention *before, simba_reason reason)
{
    const bool revoked = was_revoked(s, handle->mutex, before->token);
    bool fine = true;
    switch (reason) {
    case SIMBA_REASON_EXPIRED:
    case SIMBA_REASON_SESSION_LOST:
        if (!loss_is_excused(s, handle, before))
            check_broken(s, "L3", "%s lost mutex %u (%s) although no outage was as long as the transition",
                         handle->name, handle->mutex, simba_reason_name(reason));
        break;
    case SIMBA_REASON_SUPERSEDED:
        fine = revoked || s->checks.lost_writes;
        break;
    case SIMBA_REASON_REVOKED:
        fine = revoked;
        break;
    case SIMBA_REASON_STOPPED:
        fine = before->stop || handle->stop_wanted || handle->locker;
        break;
    case SIMBA_REASON_HOLD_LIMIT:
        fine = s->timing.hold_limit_ns > 0;
        break;
    case SIMBA_REASON_NONE:
        fine = false;
    }
    if (!fine)
        check_broken(s, "S2", "%s was told that mutex %u is gone for the reason \"%s\", which is not true",
                     handle->name, handle->mutex, simba_reason_name(reason));
}

static bool tidies_up(const simba__contention *machine)
{
    return machine->phase == SIMBA__TIDY && machine->graceful && !machine->acked;
}

static void check_acquired(sim *s, sim_handle *handle)
{
    const unsigned m = handle->mutex;
    const uint64_t token = handle->candidate.machine.token;
    const bool is_over = s->process[handle->process].late && handle_held_ns(s, handle) == 0;
    if (is_over || was_revoked(s, m, token)) {
        handle->held_token = token;
        return; /* the news of it is under way */
    }
    if (token <= s->checks.token_held[m])
        check_broken(s, "S3", "%s leads mutex %u under token %llu after one under %llu", handle->name, m,
                     (unsigned long long)token, (unsigned long long)s->checks.token_held[m]);
    s->checks.token_held[m] = token;
    handle->held_token = token;
    if (handle->candidate.machine.stop)
        check_broken(s, "S5", "%s took mutex %u after stop", handle->name, m);
    if (s->checks.drill[m] && s->checks.freed_at[m] && !s->checks.taken_at[m])
        s->checks.taken_at[m] = s->now;
}

/* The promises of the settings: the application is told early enough to stop before the end, and nobody leads for longer
 * than the hold limit. */
static void check_settings(sim *s, const sim_handle *handle, const simba__contention *before,
                           const simba__actions *actions)
{
    const simba__timing *t = &s->timing;
    const int64_t now = process_now(s, &s->process[handle->process]).ns;
    const int64_t lease_ns = (t->ttl_ns + t->transition_ns) / 100 * 99;
    if (before->phase != SIMBA__HOLD || !could_be_told(s, handle))
        return;
    if (actions->released && actions->reason == SIMBA_REASON_EXPIRED &&
        now > before->lease_from.ns + lease_ns - t->stop_margin_ns + SIM_MS)
        check_broken(s, "S2", "%s was told too late for its stop margin", handle->name);
    if (t->hold_limit_ns && now > before->held_since.ns + t->hold_limit_ns + SIM_MS)
        check_broken(s, "S2", "%s leads for longer than the hold limit", handle->name);
}

void check_step(sim *s, sim_handle *handle, const simba__contention *before, const simba__event *event,
                const simba__actions *actions)
{
    if (actions->acquired)
        check_acquired(s, handle);
    if (handle->candidate.machine.phase == SIMBA__HOLD && handle->candidate.machine.token != handle->held_token)
        check_broken(s, "S3", "a renewal changed the token of %s from %llu to %llu", handle->name,
                     (unsigned long long)handle->held_token, (unsigned long long)handle->candidate.machine.token);
    if (actions->released)
        check_reason(s, handle, before, actions->reason);
    check_settings(s, handle, before, actions);
    const bool by_clock = event->kind != SIMBA__EV_REPLY && event->kind != SIMBA__EV_PUSH;
    if (tidies_up(before) && handle->candidate.machine.phase == SIMBA__TIDY && !handle->candidate.machine.graceful &&
        by_clock && !loss_is_excused(s, handle, before))
        check_broken(s, "S6", "the lease of %s ended while it was tidying up", handle->name);
    check_alone(s, handle);
}

void check_submit(sim *s, const sim_handle *handle, const simba__actions *actions)
{
    if (!handle->is_contender)
        return;
    if (!handle->running || handle->stop_returned)
        check_broken(s, "S5", "%s asked for something after stop had returned", handle->name);
    if (handle->candidate.machine.stop && actions->op == SIMBA_OP_ACQUIRE)
        check_broken(s, "S5", "%s asked for mutex %u after stop", handle->name, handle->mutex);
    if (handle->app_leads && actions->op == SIMBA_OP_RELEASE)
        check_broken(s, "S6", "%s gave mutex %u back before on_released had returned", handle->name, handle->mutex);
    if (handle->app_leads && actions->op == SIMBA_OP_ACQUIRE)
        check_broken(s, "S4", "%s asked for mutex %u again before on_released had returned", handle->name,
                     handle->mutex);
}

/* --- S4: callbacks ------------------------------------------------------------------------------------ */

void check_callback(sim *s, sim_handle *handle, const simba__tell *tell)
{
    if (handle->stop_returned)
        check_broken(s, "S4", "a callback of %s ran after stop had returned", handle->name);
    if (tell->acquired && handle->told_acquired)
        check_broken(s, "S4", "on_acquired of %s ran twice in a row", handle->name);
    if (tell->released && !handle->told_acquired)
        check_broken(s, "S4", "on_released of %s ran without on_acquired", handle->name);
    if (tell->acquired && handle_held_ns(s, handle) == 0)
        check_broken(s, "S2", "on_acquired of %s ran when its lease had ended", handle->name);
    if (tell->acquired) {
        handle->told_acquired = true;
        handle->app_leads = true;
    }
    if (tell->released)
        handle->told_acquired = false;
}

/* --- liveness, with everything healed ------------------------------------------------------------------ */

static bool contends(const sim *s, const sim_handle *handle)
{
    return handle->is_contender && handle->running && !handle->candidate.machine.stop &&
           s->process[handle->process].alive;
}

static bool store_has_owner(const sim *s, unsigned mutex, simba_owner *ret_owner)
{
    int64_t now_ms;
    if (s->model)
        return s->model->owner(s, mutex, ret_owner);
    if (s->plan->store == SIM_STORE_SESSION)
        return session_owner(s, mutex, ret_owner);
    simba__row_show(&s->store.row[mutex], store_now(s), ret_owner, &now_ms);
    return !simba_owner_is_none(ret_owner);
}

static void check_observers(sim *s)
{
    for (unsigned i = 0; i < s->handles; i++) {
        const sim_handle *handle = &s->handle[i];
        simba_owner owner;
        /* A push may be lost; the next reading is not. */
        const int64_t enough = SIM_OBSERVER_POLL_NS + s->timing.op_timeout_ns + sim_hand_over_ns(s);
        if (handle->is_contender || !handle->running || s->now - s->checks.changed_at[handle->mutex] < enough ||
            s->now - handle->started_at < 2 * enough)
            continue;
        store_has_owner(s, handle->mutex, &owner);
        if (handle->observation.owner.token != owner.token || strcmp(handle->observation.owner.id, owner.id) != 0)
            check_broken(s, "L2", "observer %s sees \"%s\" where \"%s\" owns mutex %u", handle->name,
                         handle->observation.owner.id, owner.id, handle->mutex);
    }
}

/* A forced release that was lost with a server: its holder still leads, and the store agrees. */
static bool revoked_in_vain(const sim *s, const sim_handle *handle)
{
    simba_owner owner;
    return handle_held_ns(s, handle) > 0 && store_has_owner(s, handle->mutex, &owner) &&
           owner.token == handle->candidate.machine.token;
}

/* L1, and the beginning of the drill for L2. */
void check_settled(sim *s)
{
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        bool wanted = false, owned = s->checks.owned_at[m] >= s->now - sim_settle_ns(s);
        for (unsigned i = 0; i < s->handles; i++) {
            const sim_handle *handle = &s->handle[i];
            if (handle->mutex != m || !contends(s, handle))
                continue;
            wanted |= !handle->locker;
            owned |= check_holds(s, handle) || revoked_in_vain(s, handle);
        }
        if (wanted && !owned)
            check_broken(s, "L1", "nobody owns mutex %u, although it is wanted and all is well", m);
    }
    check_observers(s);
}

void check_hand_over(sim *s)
{
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        if (s->checks.drill[m] && s->checks.freed_at[m] && !s->checks.taken_at[m] &&
            s->now - s->checks.freed_at[m] >= sim_hand_over_ns(s))
            check_broken(s, "L2", "mutex %u was given back, and after %lld ms no waiter has it", m,
                         (long long)((s->now - s->checks.freed_at[m]) / SIM_MS));
        else if (s->checks.drill[m] && s->checks.taken_at[m] &&
                 s->checks.taken_at[m] - s->checks.freed_at[m] > sim_hand_over_ns(s))
            check_broken(s, "L2", "mutex %u was given back, and it took %lld ms until a waiter had it", m,
                         (long long)((s->checks.taken_at[m] - s->checks.freed_at[m]) / SIM_MS));
    check_observers(s);
}

/* Everybody was asked to stop, and had time for it: nothing of them is left. */
void check_end(sim *s)
{
    for (unsigned i = 0; i < s->handles; i++) {
        const sim_handle *handle = &s->handle[i];
        if (!handle->is_contender || !s->process[handle->process].alive)
            continue;
        if (handle->running)
            check_broken(s, "S5", "%s has not stopped", handle->name);
        if (handle->told_acquired)
            check_broken(s, "S4", "%s stopped without on_released", handle->name);
    }
    for (unsigned p = 0; p < s->plan->processes; p++)
        if (s->process[p].alive && client_has_requests(s, p))
            check_broken(s, "L1", "process %u has no answer to a request, and so one place less for others", p);
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        simba_owner owner;
        if (store_has_owner(s, m, &owner) && !s->checks.straggled[m] && !s->checks.lost_writes)
            check_broken(s, "S5", "%s still owns mutex %u although all have stopped", owner.id, m);
    }
}
