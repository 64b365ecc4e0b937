/* See trace.h. */
#include "core/trace.h"

#include <stdio.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

const char *simba__op_name(simba_op op)
{
    static const char *const names[] = {
        [SIMBA_OP_ACQUIRE] = "acquire",     [SIMBA_OP_RENEW] = "renew",     [SIMBA_OP_RELEASE] = "release",
        [SIMBA_OP_READ] = "read",           [SIMBA_OP_LIST] = "list",       [SIMBA_OP_FORCE_RELEASE] = "force release",
        [SIMBA_OP_EXAMINE] = "examine",     [SIMBA_OP_PREPARE] = "prepare", [SIMBA_OP_WRITE_NOTE] = "write note",
        [SIMBA_OP_READ_NOTE] = "read note", [SIMBA_OP_FORGET] = "forget",
    };
    return names[op];
}

/* --- counting ------------------------------------------------------------------------------------- */

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

void simba__count_error(simba_stats *stats, int code)
{
    const bool known = code < 0 && code > -(int)COUNT_OF(stats->errors_by_code);
    stats->errors++;
    stats->errors_by_code[known ? -code : 0]++;
}

void simba__count_step(simba_stats *stats, const simba__step *step, simba_local *since)
{
    const simba__event *event = step->event;
    const simba__actions *actions = step->actions;
    const bool waited = actions->was_phase == SIMBA__SEEK;
    const bool waits = step->machine->phase == SIMBA__SEEK;
    if (event->kind == SIMBA__EV_REPLY) {
        const simba_op op = actions->was_op;
        const bool answered = event->reply->status == 0;
        const bool renewed = answered && event->reply->outcome == SIMBA_MINE;
        stats->renewals += op == SIMBA_OP_RENEW && renewed;
        stats->renewals_failed += op == SIMBA_OP_RENEW && !renewed;
        if (answered)
            simba__histogram_add(op == SIMBA_OP_ACQUIRE ? &stats->acquire
                                 : op == SIMBA_OP_RENEW ? &stats->renew
                                                        : &stats->release,
                                 event->now.ns - event->sent_at.ns);
    }
    /* A machine that seeks leadership counts as waiting, whatever happens to its requests. */
    if (waits && !waited) {
        stats->waiting++;
        *since = event->now;
    } else if (waited && !waits) {
        stats->waiting--;
        stats->waits_abandoned += !actions->acquired;
        if (actions->acquired)
            simba__histogram_add(&stats->wait, event->now.ns - since->ns);
    }
    stats->late_wins += actions->late_win;
    stats->grants += actions->acquired;
    stats->held += actions->acquired;
    if (actions->released) {
        stats->held--;
        stats->losses[actions->reason]++;
        simba__histogram_add(&stats->hold, event->now.ns - step->machine->held_since.ns);
    }
}

/* --- the event log -------------------------------------------------------------------------------- */

void simba__trace_step(const simba__step *step, int64_t shift_ns, simba__trace_fn say, void *user)
{
    static const char *const pushes[] = {"changed",      "released",     "acquired", "freed",
                                         "session-lost", "session-back", "noted"};
    const simba__contention *machine = step->machine;
    const simba__actions *actions = step->actions;
    const simba__event *event = step->event;
    char words[128];
    if (event->kind == SIMBA__EV_START)
        say(user, "start");
    if (event->kind == SIMBA__EV_STOP)
        say(user, "stop");
    if (event->kind == SIMBA__EV_PUSH) {
        snprintf(words, sizeof words, "push %s", pushes[event->push->kind]);
        say(user, words);
    }
    if (event->kind == SIMBA__EV_REPLY && event->reply->status < 0) {
        snprintf(words, sizeof words, "failed %s", simba_error_name(event->reply->status));
        say(user, words);
    }
    if (actions->released) {
        snprintf(words, sizeof words, "lost %s", simba_reason_name(actions->reason));
        say(user, words);
    }
    if (actions->submit) {
        snprintf(words, sizeof words, "request %s", simba__op_name(actions->op));
        say(user, words);
    }
    /* A session grows longer without a request: its owner finds the new end when it looks at the old one. */
    const bool looks = event->kind == SIMBA__EV_TIMER && machine->timing->session;
    const simba_local session = machine->timing->session ? event->session_until : SIMBA__NEVER;
    const int64_t left_ns = simba__lease_left_ns(simba__contention_valid_until(machine), session, event->now);
    if (left_ns > 0 && (event->kind == SIMBA__EV_REPLY || actions->released || looks)) {
        const int64_t ttl_ns = simba__lease_left_ns(simba__contention_ttl_until(machine), session, event->now);
        const int64_t at_ns = event->now.ns + shift_ns;
        snprintf(words, sizeof words, "lease %lld %lld %llu", (long long)(at_ns + ttl_ns), (long long)(at_ns + left_ns),
                 (unsigned long long)machine->token);
        say(user, words);
    }
    if (actions->done)
        say(user, "stopped");
}
