/* See timing.h. */
#include "core/timing.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"
#include "util/saturate.h"

#define MS SIMBA__NS_PER_MS

const simba_timing simba__timing_defaults = {
    .ttl_ms = 10000,
    .transition_ms = 6000,
    .initial_delay_ms = 0,
    .stop_margin_ms = 0,
    .hold_limit_ms = 0,
    .jitter_min_ms = -200,
    .jitter_max_ms = 1000,
};

static int64_t less_drift(const simba__timing *timing, int64_t ns)
{
    /* Divide first: ten years of nanoseconds times a million would overflow. */
    return ns - (ns / 1000000 * timing->drift_ppm + ns % 1000000 * timing->drift_ppm / 1000000) - 1;
}

/* --- settings ------------------------------------------------------------------------------------ */

simba_timing simba__timing_inherit(const simba_timing *over, const simba_timing *under)
{
#define PICK(field) (over->field == SIMBA_INHERIT ? under->field : over->field)
    return (simba_timing){
        .ttl_ms = PICK(ttl_ms),
        .transition_ms = PICK(transition_ms),
        .initial_delay_ms = PICK(initial_delay_ms),
        .stop_margin_ms = PICK(stop_margin_ms),
        .hold_limit_ms = PICK(hold_limit_ms),
        .jitter_min_ms = PICK(jitter_min_ms),
        .jitter_max_ms = PICK(jitter_max_ms),
        .reserved = {PICK(reserved[0]), PICK(reserved[1]), PICK(reserved[2]), PICK(reserved[3]), PICK(reserved[4])},
    };
#undef PICK
}

static int check_range(const char *name, int64_t value, int64_t low, int64_t high, simba_error *err)
{
    if (value >= low && value <= high)
        return 0;
    return simba__fail(err, SIMBA_EINVAL, "%s is %lld ms; it must be from %lld to %lld", name, (long long)value,
                       (long long)low, (long long)high);
}

static int check(const simba_timing *ms, unsigned drift_ppm, int64_t op_timeout_ms, simba_error *err)
{
    const int64_t longest = SIMBA_LEASE_MAX_MS;
    for (size_t i = 0; i < sizeof ms->reserved / sizeof *ms->reserved; i++)
        if (ms->reserved[i] != 0)
            return simba__fail(
                err, SIMBA_EINVAL,
                "timing.reserved[%zu] is set, which simba %s does not know: the program was compiled for a "
                "newer version, or did not begin with SIMBA_TIMING_INHERIT",
                i, simba_version());
    const struct {
        const char *name;
        int64_t value, low, high;
    } ranges[] = {
        {"ttl", ms->ttl_ms, SIMBA_TTL_MIN_MS, longest},
        {"transition", ms->transition_ms, 0, longest},
        {"ttl + transition", simba__sat_add(ms->ttl_ms, ms->transition_ms), 0, longest},
        {"initial delay", ms->initial_delay_ms, 0, longest},
        {"hold limit", ms->hold_limit_ms, 0, longest},
        {"jitter minimum", ms->jitter_min_ms, -longest, longest},
        {"jitter maximum", ms->jitter_max_ms, simba__max64(ms->jitter_min_ms, 0), longest},
        {"operation timeout", op_timeout_ms, 1, longest},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof ranges / sizeof *ranges; i++)
        rc = check_range(ranges[i].name, ranges[i].value, ranges[i].low, ranges[i].high, err);
    if (rc == 0 && drift_ppm > 500000)
        rc = simba__fail(err, SIMBA_EINVAL, "drift bound is %u ppm; at most 500000 (one half) makes sense", drift_ppm);
    return rc;
}

int simba__timing_resolve(const simba_timing *ms, unsigned drift_ppm, int64_t op_timeout_ms, bool session,
                          simba_error *err, simba__timing *ret_timing)
{
    int rc = check(ms, drift_ppm, op_timeout_ms, err);
    if (rc < 0)
        return rc;

    simba__timing timing = {
        .ms = *ms,
        .ttl_ns = ms->ttl_ms * MS,
        .transition_ns = ms->transition_ms * MS,
        .initial_delay_ns = ms->initial_delay_ms * MS,
        .hold_limit_ns = ms->hold_limit_ms * MS,
        .op_timeout_ns = op_timeout_ms * MS,
        .drift_ppm = drift_ppm,
        .session = session,
    };
    timing.lease_ns = less_drift(&timing, timing.ttl_ns + timing.transition_ns);
    timing.lease_ttl_ns = less_drift(&timing, timing.ttl_ns);
    /* How long before the end of the ttl to renew. The transition, less the drift bound, gives time for retries, and the spare
     * time lets the holder renew after an outage as long as the transition. If the transition is short or missing, that time
     * must come out of the ttl. */
    const int64_t spare_ns = simba__min64(timing.ttl_ns / 20, 500 * MS);
    const int64_t drift_ns = timing.transition_ns - less_drift(&timing, timing.transition_ns);
    const int64_t usual_ns = simba__min64(spare_ns + drift_ns, timing.ttl_ns / 4);
    const int64_t lead_ns = simba__max64(usual_ns, timing.ttl_ns / 3 - timing.transition_ns);
    timing.renew_after_ns = timing.lease_ttl_ns - lead_ns;
    timing.window_ns = timing.lease_ns - timing.renew_after_ns; /* less the margin, which is yet to be checked */
    timing.last_ns = spare_ns / 2;
    /* Jitter that is longer than the lease would be most of the fail-over time. */
    const int64_t lease_ns = timing.ttl_ns + timing.transition_ns;
    timing.jitter_max_ns = simba__min64(ms->jitter_max_ms * MS, lease_ns / 10);
    timing.jitter_min_ns = simba__max64(ms->jitter_min_ms * MS, -lease_ns / 50);
    if (ms->transition_ms == 0)
        timing.jitter_min_ns = simba__max64(timing.jitter_min_ns, 0);

    /* The length of a session is not known here; simba__timing_check_session checks the margin against it. */
    rc = check_range("stop margin", ms->stop_margin_ms, 0,
                     session ? SIMBA_LEASE_MAX_MS : simba__longest_margin_ms(&timing, 0), err);
    if (rc < 0)
        return simba__wrap(err, rc, "the window for renewing is %lld ms, and half of it must stay for that",
                           (long long)(timing.window_ns / MS));
    timing.stop_margin_ns = ms->stop_margin_ms * MS;
    timing.window_ns -= timing.stop_margin_ns;
    *ret_timing = timing;
    return 0;
}

/* --- the owner ----------------------------------------------------------------------------------- */

int64_t simba__lease_left_ns(simba_local until, simba_local session_until, simba_local now)
{
    const int64_t left = simba__local_min(until, session_until).ns - now.ns;
    return until.ns && left > 0 ? left : 0;
}

int64_t simba__session_ns(const simba__timing *timing, int64_t ms)
{
    return less_drift(timing, simba__sat_mul(simba__max64(ms, 0), MS));
}

int64_t simba__longest_margin_ms(const simba__timing *timing, int64_t session_ms)
{
    /* The time left of a session goes up and down between signs of life; a holder needs more of it than the margin. */
    if (timing->session)
        return session_ms / 3;
    return simba__max64((timing->window_ns + timing->stop_margin_ns) / MS / 2, 0);
}

int simba__timing_check_session(const simba__timing *timing, int64_t ms, simba_error *err)
{
    return check_range("stop margin", timing->ms.stop_margin_ms, 0, simba__longest_margin_ms(timing, ms), err) == 0
               ? 0
               : simba__wrap(err, SIMBA_EINVAL, "the session is to last for %lld ms, and two thirds must stay for work",
                             (long long)ms);
}

simba_local simba__period_renew_at(const simba__timing *timing, simba_local from)
{
    const int64_t grid = simba__max64(simba__min64(timing->ttl_ns / 40, 250 * MS), 1);
    const int64_t at = from.ns + timing->renew_after_ns;
    return timing->session ? SIMBA__NEVER : (simba_local){at - at % grid};
}

int64_t simba__lease_overdue_ns(const simba__timing *timing, int64_t session_ms)
{
    if (timing->session)
        return simba__session_ns(timing, session_ms) / 2;
    return (timing->window_ns + timing->stop_margin_ns) / 4 * 3;
}

/* `base` doubled `times` times, at most `most`, then varied by a quarter so that the contenders of a fleet do not
 * ask in step. */
static int64_t growing_ns(int64_t base, unsigned times, int64_t most, uint64_t *seed)
{
    int64_t pause = simba__max64(base, MS);
    for (unsigned i = 0; i < times && pause < most; i++)
        pause *= 2;
    pause = simba__min64(pause, simba__max64(most, MS));
    return simba__random_range(seed, pause - pause / 4, pause + pause / 4 + 1);
}

int64_t simba__period_retry_ns(const simba__timing *timing, unsigned failures, uint64_t *seed)
{
    return growing_ns(timing->window_ns / 32, failures - 1, timing->window_ns / 6, seed);
}

int64_t simba__period_backoff_ns(const simba__timing *timing, unsigned failures, uint64_t *seed)
{
    /* Even with no jitter, pause before asking a store that is away. */
    const int64_t usual =
        simba__min64(simba__timing_defaults.jitter_max_ms * MS, (timing->ttl_ns + timing->transition_ns) / 10);
    const int64_t most = simba__max64(timing->jitter_max_ns, usual);
    return growing_ns(most / 16, failures - 1, most, seed);
}

int64_t simba__period_op_timeout_ns(const simba__timing *timing, simba_op op)
{
    /* A stop should not take long: if the release fails, the lease ends by itself. */
    const int64_t most =
        op == SIMBA_OP_RELEASE ? simba__min64(timing->op_timeout_ns, 1000 * MS) : timing->op_timeout_ns;
    const int64_t share = op == SIMBA_OP_RENEW ? simba__max64(timing->window_ns / 4, 20 * MS)
                                               : simba__max64(timing->lease_ns / 4, 50 * MS);
    return timing->session ? most : simba__min64(most, share);
}

/* --- the others ---------------------------------------------------------------------------------- */

/* The time after the end of the lease. Both the end and the time left are rounded to milliseconds, so the first
 * waiter comes two of them later, and does not come in vain. Waiters whose turn would be past the jitter come at any
 * time within it. */
static int64_t turn_ns(const simba__timing *timing, int64_t place, uint64_t *seed)
{
    const int64_t first = simba__min64(2 * MS, timing->jitter_max_ns / 20);
    const int64_t apart = simba__min64(12 * MS, timing->jitter_max_ns / 20);
    if (place > 1 && place - 1 >= (timing->jitter_max_ns - first) / simba__max64(apart, 1))
        return simba__random_range(seed, simba__min64(first, timing->jitter_max_ns), timing->jitter_max_ns);
    return first + (place - 1) * apart;
}

int64_t simba__owner_left_ns(const simba_owner *owner, int64_t now_ms)
{
    const int64_t left_ms = simba__sat_sub(owner->transition_at_ms, now_ms);
    return simba__max64(simba__min64(left_ms, SIMBA_LEASE_MAX_MS), 0) * MS;
}

int64_t simba__period_wait_ns(const simba__timing *timing, const simba_owner *owner, int64_t now_ms, int64_t place,
                              uint64_t *seed)
{
    const int64_t told_ms = simba__sat_sub(owner->transition_at_ms, now_ms);
    const int64_t left_ms = simba__max64(simba__min64(told_ms, SIMBA_LEASE_MAX_MS), -SIMBA_LEASE_MAX_MS);
    const int64_t later = place > 0 ? turn_ns(timing, place, seed)
                                    : simba__random_range(seed, timing->jitter_min_ns, timing->jitter_max_ns);
    return simba__max64(left_ms * MS + later, 0);
}
