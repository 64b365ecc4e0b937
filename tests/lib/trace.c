/* See trace.h. */
#include "lib/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"
#include "util/clock.h"

/* Not zero, because a real clock never is. */
static const int64_t epoch_ns = INT64_C(5000) * 1000000000;
static const int64_t store_epoch_ms = INT64_C(1700000000000);
static const char me[] = "me";

static simba_local now_of(const trace *t)
{
    return (simba_local){epoch_ns + t->now_ms * SIMBA__NS_PER_MS};
}

void trace_init_with(trace *t, const simba_timing *ms, bool session, bool queue)
{
    simba_error error;
    memset(t, 0, sizeof *t);
    t->session_until_ms = INT64_MAX;
    assert_int_equal(simba__timing_resolve(ms, 10000, 4000, session, &error, &t->timing), 0);
    simba__contention_init(&t->machine, &t->timing, queue);
}

void trace_init(trace *t, int64_t ttl_ms, int64_t transition_ms)
{
    const simba_timing ms = {.ttl_ms = ttl_ms, .transition_ms = transition_ms, .jitter_max_ms = 1000};
    trace_init_with(t, &ms, false, false);
    t->timing.jitter_max_ns = 1; /* [0, 1) ns: no jitter */
}

static void add(trace *t, const char *word)
{
    if (t->text[0])
        strcat(t->text, " ");
    strcat(t->text, word);
}

static const char *render(trace *t)
{
    static const char *const ops[] = {"acquire", "renew", "release"};
    const simba__actions *a = &t->actions;
    char word[64];
    t->text[0] = '\0';
    if (a->late_win)
        add(t, "late");
    if (a->acquired)
        add(t, "acquired");
    if (a->released) {
        snprintf(word, sizeof word, "released(%s)", simba_reason_name(a->reason));
        add(t, word);
    }
    if (a->changed)
        add(t, "changed");
    if (a->submit)
        add(t, ops[a->op]);
    if (a->withdraw)
        add(t, "withdraw");
    if (a->done)
        add(t, "done");
    if (a->timer.ns != INT64_MAX) {
        snprintf(word, sizeof word, "wake@%" PRId64, (a->timer.ns - epoch_ns) / SIMBA__NS_PER_MS);
        add(t, word);
    }
    return t->text;
}

static const char *step(trace *t, simba__event event)
{
    event.now = now_of(t);
    event.session_until = t->session_until_ms == INT64_MAX
                              ? SIMBA__NEVER
                              : simba__local_add((simba_local){epoch_ns}, t->session_until_ms * SIMBA__NS_PER_MS);
    simba__contention_step(&t->machine, &event, &t->actions);
    return render(t);
}

const char *trace_start(trace *t)
{
    return step(t, (simba__event){.kind = SIMBA__EV_START, .seed = 42});
}

const char *trace_stop(trace *t)
{
    return step(t, (simba__event){.kind = SIMBA__EV_STOP});
}

const char *trace_ack(trace *t)
{
    return step(t, (simba__event){.kind = SIMBA__EV_ACK});
}

void trace_pass(trace *t, int64_t at_ms)
{
    assert_true(at_ms >= t->now_ms);
    t->now_ms = at_ms;
}

const char *trace_at(trace *t, int64_t at_ms)
{
    trace_pass(t, at_ms);
    return step(t, (simba__event){.kind = SIMBA__EV_TIMER});
}

static simba_owner owner_of(const trace *t, const char *id, uint64_t token, int64_t left_ms)
{
    simba_owner owner = {.token = token, .transition_at_ms = store_epoch_ms + t->now_ms + left_ms};
    snprintf(owner.id, sizeof owner.id, "%s", id);
    return owner;
}

static const char *reply(trace *t, uint32_t generation, simba_reply reply_)
{
    reply_.now_ms = store_epoch_ms + t->now_ms;
    const simba_local sent_at =
        t->sent_ms ? (simba_local){epoch_ns + t->sent_ms * SIMBA__NS_PER_MS} : t->machine.sent_at;
    return step(
        t, (simba__event){.kind = SIMBA__EV_REPLY, .generation = generation, .reply = &reply_, .sent_at = sent_at});
}

const char *trace_mine(trace *t, uint64_t token)
{
    return reply(t, t->machine.generation,
                 (simba_reply){.outcome = SIMBA_MINE, .owner = owner_of(t, me, token, t->timing.ms.ttl_ms)});
}

const char *trace_stale_mine(trace *t, uint64_t token)
{
    return reply(t, t->machine.generation - 1,
                 (simba_reply){.outcome = SIMBA_MINE, .owner = owner_of(t, me, token, t->timing.ms.ttl_ms)});
}

const char *trace_owned(trace *t, const char *by, uint64_t token, int64_t left_ms)
{
    return reply(t, t->machine.generation, (simba_reply){.owner = owner_of(t, by, token, left_ms)});
}

const char *trace_owned_and_queued(trace *t, const char *by, uint64_t token, int64_t left_ms, int64_t place)
{
    return reply(t, t->machine.generation, (simba_reply){.owner = owner_of(t, by, token, left_ms), .place = place});
}

const char *trace_nobody(trace *t)
{
    return reply(t, t->machine.generation, (simba_reply){0});
}

const char *trace_revoked(trace *t)
{
    return reply(t, t->machine.generation, (simba_reply){.outcome = SIMBA_REVOKED});
}

const char *trace_fails(trace *t, int code)
{
    return reply(t, t->machine.generation, (simba_reply){.status = code});
}

const char *trace_not_sent(trace *t, int code)
{
    const simba_reply reply_ = {.status = code};
    return step(t, (simba__event){.kind = SIMBA__EV_REPLY, .generation = t->machine.generation, .reply = &reply_});
}

const char *trace_push(trace *t, simba_push_kind kind)
{
    const simba_push push = {.kind = kind};
    return step(t, (simba__event){.kind = SIMBA__EV_PUSH, .push = &push});
}

const char *trace_push_acquired(trace *t, const char *by, uint64_t token, int64_t left_ms)
{
    const simba_push push = {
        .kind = SIMBA_PUSH_ACQUIRED, .owner = owner_of(t, by, token, left_ms), .now_ms = store_epoch_ms + t->now_ms};
    return step(t, (simba__event){.kind = SIMBA__EV_PUSH, .push = &push});
}

int64_t trace_held_ms(const trace *t)
{
    const int64_t left_ns = simba__contention_valid_until(&t->machine).ns - now_of(t).ns;
    return left_ns > 0 ? left_ns / SIMBA__NS_PER_MS : 0;
}
