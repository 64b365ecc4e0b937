/* All the arithmetic of leases and delays, as pure functions of the settings, in nanoseconds of the local boot-time
 * clock. */
#ifndef SIMBA_CORE_TIMING_H
#define SIMBA_CORE_TIMING_H

#include <simba/backend.h>

#include "util/saturate.h"

#define SIMBA__NEVER ((simba_local){INT64_MAX})

/* The settings of one contender, resolved and checked. Contenders with the same settings share it. */
typedef struct simba__timing {
    simba_timing ms; /* as given, after inheritance */
    int64_t ttl_ns;
    int64_t transition_ns;
    int64_t initial_delay_ns;
    int64_t stop_margin_ns;
    int64_t hold_limit_ns; /* 0: none */
    int64_t jitter_min_ns;
    int64_t jitter_max_ns;
    int64_t op_timeout_ns;
    int64_t drift_ppm;
    /* How long a lease lasts by our own clock, counted from handing over its request: the time that the store grants, less what
     * the two clocks may drift apart meanwhile. Likewise its ttl. */
    int64_t lease_ns, lease_ttl_ns;
    int64_t renew_after_ns; /* when to renew a lease, counted likewise: just before the ttl is over */
    int64_t window_ns;      /* between renewing and the last moment to tell the holder: room for retries */
    /* How long before the holder must be told to make the last attempt to renew. Late enough for an outage as long as the
     * transition to be over, early enough for an answer. */
    int64_t last_ns;
    bool session; /* the lease is a session: the store says how long it lasts, and nothing is renewed */
} simba__timing;

/* The defaults of a lease store. */
extern const simba_timing simba__timing_defaults;

/* Fill the gaps of `over` from `under`. */
simba_timing simba__timing_inherit(const simba_timing *over, const simba_timing *under);

/* Check and convert. SIMBA_EINVAL names the setting that does not fit, and a value that would. */
int simba__timing_resolve(const simba_timing *ms, unsigned drift_ppm, int64_t op_timeout_ms, bool session,
                          simba_error *err, simba__timing *ret_timing);

/* How long a session that lasts for `ms` in the store lasts by our own clock. */
int64_t simba__session_ns(const simba__timing *timing, int64_t ms);
/* The longest stop margin that fits: half of the window for renewing must remain, and two thirds of a session of
 * `session_ms`. 0: none fits. */
int64_t simba__longest_margin_ms(const simba__timing *timing, int64_t session_ms);
/* Does the stop margin fit into such a session? SIMBA_EINVAL says which would. */
int simba__timing_check_session(const simba__timing *timing, int64_t ms, simba_error *err);

/* How long the holder may act: until the end of its lease and, in a session, while the session cannot have ended. 0:
 * not at all, also for an `until` of {0}, which means no lease. */
int64_t simba__lease_left_ns(simba_local until, simba_local session_until, simba_local now);

/* The rest of a lease, or of a session of `session_ms`, at which its renewal is long overdue: a quarter of the time
 * for renewing has passed, or twice the time between two signs of life of a session. */
int64_t simba__lease_overdue_ns(const simba__timing *timing, int64_t session_ms);

/* When the owner renews a lease that counts from `from`. Rounded down to a grid, so that renewals of many mutexes fall
 * together and share a batch. Never in a session, which the store keeps alive for all of its leases at once. */
simba_local simba__period_renew_at(const simba__timing *timing, simba_local from);

/* The pause after the given number of failed renewals (1, 2, …). It grows, but lets several attempts fit into the
 * window. */
int64_t simba__period_retry_ns(const simba__timing *timing, unsigned failures, uint64_t *seed);

/* The pause after the given number of failed acquires. It grows up to the upper bound of the jitter, or to its
 * default, so that a waiter finds a store that comes back as fast as a mutex that becomes free. */
int64_t simba__period_backoff_ns(const simba__timing *timing, unsigned failures, uint64_t *seed);

/* How long the owner's lease lasts after `now_ms`: at least 0, at most as long as a lease can last. */
int64_t simba__owner_left_ns(const simba_owner *owner, int64_t now_ms);

/* How long a waiter waits for the end of the owner's transition; at least 0. A waiter without a place (0) adds the
 * jitter. A waiter that knows its place among the waiters (1, 2, …) adds the time that those before it may need: the
 * first wins at once, and each that does not come costs a moment. */
int64_t simba__period_wait_ns(const simba__timing *timing, const simba_owner *owner, int64_t now_ms, int64_t place,
                              uint64_t *seed);

/* How long to wait for the answer to one request. */
int64_t simba__period_op_timeout_ns(const simba__timing *timing, simba_op op);

static inline simba_local simba__local_add(simba_local at, int64_t ns)
{
    return (simba_local){simba__sat_add(at.ns, ns)};
}

static inline simba_local simba__local_min(simba_local one, simba_local other)
{
    return one.ns < other.ns ? one : other;
}

static inline bool simba__local_reached(simba_local now, simba_local at)
{
    return now.ns >= at.ns;
}

#endif
