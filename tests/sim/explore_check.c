/* The promises of an exploration, see explore.h: promises about a world as it is, and about its future when all is well. */
#include <stdarg.h>
#include <string.h>

#include "sim/explore_world.h"

static unsigned number(const world *w, const contender *m)
{
    return (unsigned)(m - w->contender) + 1;
}

/* Would it be told that it may act, if it asked now? A grant that was forced away is the administrator's affair. */
bool check_world_holds(const world *w, const contender *m)
{
    const bool is_session = w->timing->session;
    simba_local until = simba__contention_valid_until(&m->machine);
    if (is_session && until.ns)
        until = SIMBA__NEVER;
    return m->is_alive && m->machine.token != m->revoked_token &&
           simba__lease_left_ns(until, is_session ? m->session_until : SIMBA__NEVER, m->now) > 0;
}

/* For the picture: a leader still leads, by its own clock. */
static void say_leases(world *w)
{
    for (unsigned i = 0; i < w->bounds->contenders; i++) {
        const contender *m = &w->contender[i];
        const int64_t ahead_ns = w->log_ns - m->now.ns;
        const bool is_session = w->timing->session;
        const simba_local until = is_session ? m->session_until : simba__contention_valid_until(&m->machine);
        const simba_local ttl = is_session ? until : simba__contention_ttl_until(&m->machine);
        if (check_world_holds(w, m))
            world_say(w, m, "lease %lld %lld %llu", (long long)(ttl.ns + ahead_ns), (long long)(until.ns + ahead_ns),
                      (unsigned long long)m->machine.token);
    }
}

void check_world_broken(world *w, const char *promise, const char *format, ...)
{
    va_list args;
    if (w->promise || (w->bounds->only && strcmp(w->bounds->only, promise) != 0))
        return;
    va_start(args, format);
    vsnprintf(w->text, sizeof w->text, format, args);
    va_end(args);
    w->promise = promise;
    say_leases(w);
    world_say(w, NULL, "fault broken:%s %lld", promise, (long long)w->log_ns + world_tick_ns(w) / 10);
}

/* S1 */
static void check_alone(world *w)
{
    const contender *holder = NULL;
    for (unsigned i = 0; i < w->bounds->contenders; i++) {
        const contender *m = &w->contender[i];
        if (!check_world_holds(w, m))
            continue;
        if (holder)
            check_world_broken(w, "S1", "contender-%u (token %llu) and contender-%u (token %llu) both hold it",
                               number(w, holder), (unsigned long long)holder->machine.token, number(w, m),
                               (unsigned long long)m->machine.token);
        holder = m;
    }
}

static bool is_awake(const contender *m)
{
    return simba__local_reached(m->now, m->timer);
}

/* S2: a leader whose lease is about to end is told when its timer fires, and does not sleep on. The same goes for one that has
 * reached its hold limit, which would keep all others waiting (L1). */
static void check_told(world *w, const contender *m)
{
    const simba__contention *machine = &m->machine;
    if (!m->is_alive || machine->phase != SIMBA__HOLD || is_awake(m))
        return;
    const simba_local end =
        w->timing->session ? m->session_until : simba__local_add(machine->lease_from, w->timing->lease_ns);
    if (simba__local_reached(m->now, simba__local_add(end, -w->timing->stop_margin_ns)))
        check_world_broken(w, "S2", "contender-%u leads on, and is not told that its lease is about to end",
                           number(w, m));
    if (w->timing->hold_limit_ns &&
        simba__local_reached(m->now, simba__local_add(machine->held_since, w->timing->hold_limit_ns)))
        check_world_broken(w, "L1", "contender-%u leads for longer than its hold limit", number(w, m));
}

void check_world_now(world *w)
{
    check_alone(w);
    for (unsigned i = 0; i < w->bounds->contenders; i++)
        check_told(w, &w->contender[i]);
}

/* Does it tidy up after a graceful end, and not know that its lease is over? */
static bool tidies_up(const contender *m)
{
    return m->is_alive && m->machine.phase == SIMBA__TIDY && m->machine.graceful && !m->machine.acked &&
           m->machine.token != m->revoked_token && !is_awake(m);
}

/* S2, S3, S6 */
void check_world_granted(world *w, uint64_t nonce, uint64_t token)
{
    bool has_grantee = false;
    if (token <= w->token_granted)
        check_world_broken(w, "S3", "it was granted under token %llu after %llu", (unsigned long long)token,
                           (unsigned long long)w->token_granted);
    w->token_granted = token;
    for (unsigned i = 0; i < w->bounds->contenders; i++) {
        const contender *m = &w->contender[i];
        if (m->is_alive && m->is_running && m->machine.nonce == nonce) {
            has_grantee = true;
            continue;
        }
        if (!check_world_holds(w, m) && !tidies_up(m))
            continue;
        if (m->machine.phase == SIMBA__HOLD)
            check_world_broken(w, "S2", "it was granted under token %llu before contender-%u (token %llu) was told",
                               (unsigned long long)token, number(w, m), (unsigned long long)m->machine.token);
        else if (m->app_leads)
            check_world_broken(w, "S6", "it was granted under token %llu while contender-%u was tidying up",
                               (unsigned long long)token, number(w, m));
    }
    w->has_straggler = !has_grantee;
}

void check_world_acquired(world *w, const contender *m)
{
    const uint64_t token = m->machine.token;
    if (m->machine.stop)
        check_world_broken(w, "S5", "contender-%u took it after stop", number(w, m));
    if (token == m->revoked_token)
        return; /* the news of it is under way */
    if (token <= w->token_held)
        check_world_broken(w, "S3", "contender-%u leads under token %llu after one under %llu", number(w, m),
                           (unsigned long long)token, (unsigned long long)w->token_held);
    w->token_held = token;
}

void check_world_submit(world *w, const contender *m, const simba__actions *actions)
{
    if (!m->is_running || m->has_stopped)
        check_world_broken(w, "S5", "contender-%u asked for something after stop had returned", number(w, m));
    if (m->machine.stop && actions->op == SIMBA_OP_ACQUIRE)
        check_world_broken(w, "S5", "contender-%u asked for it after stop", number(w, m));
    if (m->app_leads && actions->op == SIMBA_OP_RELEASE)
        check_world_broken(w, "S6", "contender-%u gave it back before on_released had returned", number(w, m));
    if (m->app_leads && actions->op == SIMBA_OP_ACQUIRE)
        check_world_broken(w, "S4", "contender-%u asked again before on_released had returned", number(w, m));
}

void check_world_callback(world *w, contender *m, const simba__tell *tell)
{
    if (m->has_stopped)
        check_world_broken(w, "S4", "a callback of contender-%u ran after stop had returned", number(w, m));
    if (tell->acquired && m->told_acquired)
        check_world_broken(w, "S4", "on_acquired of contender-%u ran twice in a row", number(w, m));
    if (tell->released && !m->told_acquired)
        check_world_broken(w, "S4", "on_released of contender-%u ran without on_acquired", number(w, m));
    if (tell->acquired && m->machine.token != m->revoked_token && !check_world_holds(w, m))
        check_world_broken(w, "S2", "on_acquired of contender-%u ran when its lease had ended", number(w, m));
    m->told_acquired = tell->acquired;
    if (tell->acquired)
        m->app_leads = true;
}

/* --- liveness ---------------------------------------------------------------------------------------- */

static bool contends(const contender *m)
{
    return m->is_alive && m->is_running && !m->machine.stop;
}

static contender *holder_of(world *w)
{
    for (unsigned i = 0; i < w->bounds->contenders; i++)
        if (check_world_holds(w, &w->contender[i]) && contends(&w->contender[i]))
            return &w->contender[i];
    return NULL;
}

static unsigned contenders(const world *w)
{
    unsigned count = 0;
    for (unsigned i = 0; i < w->bounds->contenders; i++)
        count += contends(&w->contender[i]);
    return count;
}

static contender *await_holder(world *w, unsigned ticks)
{
    world_settle(w);
    while (!holder_of(w) && ticks-- > 0 && !w->promise) {
        world_choose(w, (choice){CHOICE_TICK, 0, 0});
        world_settle(w);
    }
    return holder_of(w);
}

static void let_pass(world *w, unsigned ticks)
{
    for (unsigned i = 0; i < ticks && !w->promise; i++) {
        world_choose(w, (choice){CHOICE_TICK, 0, 0});
        world_settle(w);
    }
}

static void stop_all(world *w)
{
    for (unsigned i = 0; i < w->bounds->contenders; i++)
        if (w->contender[i].is_running && !w->contender[i].wants_stop) {
            w->stops++;
            world_choose(w, (choice){CHOICE_STOP, (uint8_t)i, 0});
        }
}

static bool runs(const world *w)
{
    bool any = false;
    for (unsigned i = 0; i < w->bounds->contenders; i++)
        any |= w->contender[i].is_running;
    return any;
}

/* S5: everybody stops, and has time for it. An answer that was lost is waited for until its deadline; in a session that is the
 * client's, however short the session is. */
static void check_end(world *w)
{
    const unsigned ticks = 2 * (w->bounds->ttl + w->bounds->transition) + EXPLORE_OP_TIMEOUT + 1;
    stop_all(w);
    world_settle(w);
    for (unsigned i = 0; i < ticks && runs(w) && !w->promise; i++)
        let_pass(w, 1);
    for (unsigned i = 0; i < w->bounds->contenders; i++)
        if (w->contender[i].is_running)
            check_world_broken(w, "S5", "contender-%u has not stopped", i + 1);
        else if (w->contender[i].told_acquired)
            check_world_broken(w, "S4", "contender-%u stopped without on_released", i + 1);
}

void check_world_future(const world *w, world *scratch)
{
    const unsigned lease = w->bounds->ttl + w->bounds->transition;
    memcpy(scratch, w, world_size(w));
    world_heal(scratch);
    const unsigned before = contenders(scratch);
    contender *leader = await_holder(scratch, 2 * lease + EXPLORE_OP_TIMEOUT + 1);
    if (!leader && before > 0)
        check_world_broken(scratch, "L1", "nobody owns it, although it is wanted and all is well");
    if (leader && before > 1 && !scratch->promise) {
        /* L2, when everybody has had the time to ask once more: where nothing is pushed, a waiter comes when the lease that it
         * knows of would have ended. */
        let_pass(scratch, 2 * lease + 2);
        leader = holder_of(scratch);
    }
    if (leader && contenders(scratch) > 1 && !scratch->promise) {
        scratch->stops++;
        world_choose(scratch, (choice){CHOICE_STOP, (uint8_t)(leader - scratch->contender), 0});
        const unsigned ticks = w->bounds->store == EXPLORE_POLL ? lease + 3 : 1;
        if (!await_holder(scratch, ticks) && contenders(scratch) > 0)
            check_world_broken(scratch, "L2", "it was given back, and after %u ticks no waiter has it", ticks);
    }
    if (!scratch->promise)
        check_end(scratch);
}
