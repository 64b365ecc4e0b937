/* See liveness.h. */
#include "stores/etcd/liveness.h"

#include "util/assert.h"
#include "util/clock.h"
#include "util/saturate.h"

enum {
    ALIVE_PART = 6,   /* of the TTL: how often to ask for a keep-alive, */
    PATIENT_PART = 5, /* and how long to wait for an answer; */
    ALIVE_MOST_MS = 10000,
    PATIENT_MOST_MS = 5000,
};

static int64_t part_ns(const etcd_liveness *live, int64_t part, int64_t most_ms)
{
    return simba__min64(live->ttl_ms / part, most_ms) * SIMBA__NS_PER_MS;
}

static void check(const etcd_liveness *live)
{
    SIMBA__ASSERT(live->ttl_ms > 0 && live->ttl_ms <= ETCD_TTL_MAX_MS);
    SIMBA__ASSERT(live->has_lease || !live->proved);
    SIMBA__ASSERT(live->has_lease || live->asked <= ETCD_ASK_GRANT);
    SIMBA__ASSERT(!live->proved || live->asked == ETCD_ASK_NOTHING || live->proven.ns <= live->asked_at.ns);
}

void simba__etcd_live_begin(etcd_liveness *live, int64_t ttl_ms, simba_local now)
{
    *live = (etcd_liveness){.ttl_ms = ttl_ms, .next_at = now};
    check(live);
}

etcd_question simba__etcd_live_due(const etcd_liveness *live, simba_local now)
{
    if (live->asked != ETCD_ASK_NOTHING || now.ns < live->next_at.ns)
        return ETCD_ASK_NOTHING;
    return !live->has_lease ? ETCD_ASK_GRANT : live->term ? ETCD_ASK_TERM : ETCD_ASK_ALIVE;
}

void simba__etcd_live_asked(etcd_liveness *live, etcd_question question, simba_local now)
{
    SIMBA__ASSERT(live->asked == ETCD_ASK_NOTHING && question != ETCD_ASK_NOTHING);
    live->asked = question;
    live->asked_at = now;
    if (question == ETCD_ASK_ALIVE)
        live->alive_at = now;
    check(live);
}

static void prove(etcd_liveness *live, simba_local at)
{
    live->proven = at;
    live->proved = true;
    live->next_at.ns = at.ns + part_ns(live, ALIVE_PART, ALIVE_MOST_MS);
}

void simba__etcd_live_granted(etcd_liveness *live, int64_t ttl_ms, simba_local now)
{
    SIMBA__ASSERT(live->asked == ETCD_ASK_GRANT);
    live->asked = ETCD_ASK_NOTHING;
    live->has_lease = true;
    live->next_at = now;
    if (ttl_ms > 0) {
        live->ttl_ms = ttl_ms;
        prove(live, live->asked_at);
    }
    check(live);
}

void simba__etcd_live_alive(etcd_liveness *live, int64_t ttl_ms, uint64_t term, simba_local now)
{
    SIMBA__ASSERT(live->asked == ETCD_ASK_ALIVE && term > 0);
    live->asked = ETCD_ASK_NOTHING;
    live->ttl_ms = ttl_ms;
    live->term = term;
    live->next_at = now;
    check(live);
}

bool simba__etcd_live_term(etcd_liveness *live, uint64_t term, simba_local now)
{
    SIMBA__ASSERT(live->asked == ETCD_ASK_TERM);
    const bool is_same = term == live->term;
    live->asked = ETCD_ASK_NOTHING;
    live->term = 0;
    live->next_at = now;
    if (is_same)
        prove(live, live->alive_at);
    check(live);
    return is_same;
}

void simba__etcd_live_unanswered(etcd_liveness *live, simba_local next_at)
{
    live->asked = ETCD_ASK_NOTHING;
    live->term = 0;
    live->next_at = next_at;
    check(live);
}

void simba__etcd_live_hurry(etcd_liveness *live, simba_local now)
{
    if (now.ns < live->next_at.ns)
        live->next_at = now;
}

bool simba__etcd_live_is_past(const etcd_liveness *live, simba_local now)
{
    return !live->proved || now.ns - live->proven.ns >= live->ttl_ms * SIMBA__NS_PER_MS;
}

int64_t simba__etcd_live_patience_ns(const etcd_liveness *live)
{
    return part_ns(live, PATIENT_PART, PATIENT_MOST_MS);
}

simba_local simba__etcd_live_next(const etcd_liveness *live)
{
    return live->asked != ETCD_ASK_NOTHING ? (simba_local){INT64_MAX} : live->next_at;
}
