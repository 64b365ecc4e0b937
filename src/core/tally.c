/* See tally.h. */
#include "core/tally.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* simba_stats has a place for every reason, and for every error. */
#define FITS(name, text)                                                                                               \
    _Static_assert((size_t)SIMBA_REASON_##name < COUNT_OF(((simba_stats *)NULL)->losses),                              \
                   "simba_stats has no place for the losses of this reason");
SIMBA_REASONS(FITS)
#undef FITS
#define FITS(name, number, text)                                                                                       \
    _Static_assert((size_t) - (number) < COUNT_OF(((simba_stats *)NULL)->errors_by_code),                              \
                   "simba_stats has no place for the errors of this code");
SIMBA_ERRORS(FITS)
#undef FITS

static const int64_t bounds_ns[] = {
#define BOUND(ns, seconds) INT64_C(ns),
    SIMBA__BOUNDS(BOUND)
#undef BOUND
};

_Static_assert(COUNT_OF(bounds_ns) == SIMBA_HISTOGRAM_BUCKETS - 1, "the last bucket has no bound");

int64_t simba_histogram_bound_ns(unsigned bucket)
{
    return bucket < COUNT_OF(bounds_ns) ? bounds_ns[bucket] : INT64_MAX;
}

void simba__histogram_add(simba_histogram *histogram, int64_t ns)
{
    size_t bucket = 0;
    while (bucket < COUNT_OF(bounds_ns) && ns > bounds_ns[bucket])
        bucket++;
    histogram->buckets[bucket]++;
    histogram->sum_ns += ns > 0 ? (uint64_t)ns : 0;
}

/* Stores outside this library may have codes of their own. */
void simba__tally_error(simba_stats *stats, int code)
{
    const bool known = code < 0 && code > -(int)COUNT_OF(stats->errors_by_code);
    stats->errors++;
    stats->errors_by_code[known ? -code : 0]++;
}

static void count_answer(simba_stats *stats, simba_op op, const simba_reply *reply, int64_t took_ns)
{
    if (op == SIMBA_OP_RENEW) {
        const bool renewed = reply->status == 0 && reply->outcome == SIMBA_MINE;
        stats->renewals += renewed;
        stats->renewals_failed += !renewed;
    }
    if (reply->status == 0)
        simba__histogram_add(op == SIMBA_OP_ACQUIRE ? &stats->acquire
                             : op == SIMBA_OP_RENEW ? &stats->renew
                                                    : &stats->release,
                             took_ns);
}

/* A machine that seeks leadership counts as waiting, whatever happens to its requests. */
static void count_wait(simba_stats *stats, simba__phase before, simba__phase after, bool acquired, simba_local now,
                       simba_local *since)
{
    if (before == SIMBA__SEEK && after != SIMBA__SEEK) {
        stats->waiting--;
        stats->waits_abandoned += !acquired;
        if (acquired)
            simba__histogram_add(&stats->wait, now.ns - since->ns);
    } else if (before != SIMBA__SEEK && after == SIMBA__SEEK) {
        stats->waiting++;
        *since = now;
    }
}

void simba__tally_step(simba_stats *stats, const simba__before *before, const simba__contention *after,
                       const simba__event *event, const simba__actions *actions, simba_local *since)
{
    if (event->kind == SIMBA__EV_REPLY)
        count_answer(stats, before->op, event->reply, event->now.ns - before->sent_at.ns);
    count_wait(stats, before->phase, (simba__phase)after->phase, actions->acquired, event->now, since);
    stats->late_wins += actions->late_win;
    if (actions->acquired) {
        stats->grants++;
        stats->held++;
    }
    if (actions->released) {
        stats->held--;
        stats->losses[actions->reason]++;
        simba__histogram_add(&stats->hold, event->now.ns - after->held_since.ns);
    }
}
