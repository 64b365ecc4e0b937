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

static void count_answer(simba_stats *stats, simba_op op, const simba__event *event)
{
    const simba_reply *reply = event->reply;
    if (op == SIMBA_OP_RENEW) {
        const bool renewed = reply->status == 0 && reply->outcome == SIMBA_MINE;
        stats->renewals += renewed;
        stats->renewals_failed += !renewed;
    }
    if (reply->status == 0)
        simba__histogram_add(op == SIMBA_OP_ACQUIRE ? &stats->acquire
                             : op == SIMBA_OP_RENEW ? &stats->renew
                                                    : &stats->release,
                             event->now.ns - event->sent_at.ns);
}

void simba__count_step(simba_stats *stats, const simba__step *step, simba_local *since)
{
    const simba__event *event = step->event;
    const simba__actions *actions = step->actions;
    const bool waited = step->was_phase == SIMBA__SEEK;
    const bool waits = step->machine->phase == SIMBA__SEEK;
    if (event->kind == SIMBA__EV_REPLY)
        count_answer(stats, step->was_op, event);
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

static void write_event(const simba__event *event, char *words, size_t size)
{
    static const char *const pushes[] = {"changed",      "released",     "acquired", "freed",
                                         "session-lost", "session-back", "noted"};
    switch (event->kind) {
    case SIMBA__EV_START:
        snprintf(words, size, "start");
        break;
    case SIMBA__EV_STOP:
        snprintf(words, size, "stop");
        break;
    case SIMBA__EV_PUSH:
        snprintf(words, size, "push %s", pushes[event->push->kind]);
        break;
    case SIMBA__EV_REPLY:
        if (event->reply->status < 0)
            snprintf(words, size, "failed %s", simba_error_name(event->reply->status));
        break;
    case SIMBA__EV_TIMER:
    case SIMBA__EV_ACK:
        break;
    }
}

static void write_lease(const simba__contention *machine, const simba__event *event, int64_t shift_ns, char *words,
                        size_t size)
{
    const simba_local session = machine->timing->session ? event->session_until : SIMBA__NEVER;
    const simba_local until = simba__contention_valid_until(machine);
    const int64_t left_ns = simba__lease_left_ns(until, session, event->now);
    const int64_t ttl_ns = simba__lease_left_ns(simba__contention_ttl_until(machine), session, event->now);
    const int64_t at_ns = event->now.ns + shift_ns;
    if (left_ns > 0)
        snprintf(words, size, "lease %lld %lld %llu", (long long)(at_ns + ttl_ns), (long long)(at_ns + left_ns),
                 (unsigned long long)machine->token);
}

void simba__trace_step(const simba__step *step, int64_t shift_ns, simba__trace_fn say, void *user)
{
    const simba__actions *actions = step->actions;
    const simba__event *event = step->event;
    char words[128] = "";
    write_event(event, words, sizeof words);
    if (words[0])
        say(user, words);
    if (actions->released) {
        snprintf(words, sizeof words, "lost %s", simba_reason_name(actions->reason));
        say(user, words);
    }
    if (actions->submit) {
        snprintf(words, sizeof words, "request %s", simba__op_name(actions->op));
        say(user, words);
    }
    words[0] = '\0';
    /* A session grows longer without a request: its owner finds the new end when it looks at the old one. */
    const bool looks = event->kind == SIMBA__EV_TIMER && step->machine->timing->session;
    if (event->kind == SIMBA__EV_REPLY || actions->released || looks)
        write_lease(step->machine, event, shift_ns, words, sizeof words);
    if (words[0])
        say(user, words);
    if (actions->done)
        say(user, "stopped");
}
