/* The step functions of the core: any events, in any order in which the client could bring them. What holds in each state is
 * asserted by the machines themselves. Here is what an application would notice. */
#include <string.h>

#include "core/reply.h"
#include "core/timing.h"
#include "core/trace.h"
#include "fuzz/targets.h"
#include "util/clock.h"

static const char *const ids[] = {"me", "you", "", "somebody else"};

static simba_owner any_owner(fuzz_input *in)
{
    simba_owner owner = {0};
    strcpy(owner.id, ids[fuzz_below(in, 4)]);
    owner.token = (uint64_t)fuzz_number(in);
    owner.acquired_at_ms = fuzz_number(in);
    owner.ttl_at_ms = fuzz_number(in);
    owner.transition_at_ms = fuzz_number(in);
    return owner;
}

/* Half of the replies are such as a store gives: otherwise nobody would ever lead. */
static simba_reply any_reply(fuzz_input *in, const simba_request *request, int64_t now_ms)
{
    simba_reply reply = {.now_ms = now_ms};
    const unsigned kind = fuzz_below(in, 8);
    if (kind == 0) {
        reply.status = SIMBA_EUNAVAILABLE;
    } else if (kind < 4) {
        reply.outcome = (simba_outcome)fuzz_below(in, 3);
        reply.owner = any_owner(in);
        reply.now_ms = fuzz_number(in);
        reply.place = fuzz_number(in);
    } else {
        reply.outcome = kind < 6 ? SIMBA_MINE : SIMBA_NOT_MINE;
        strcpy(reply.owner.id, kind < 6 ? request->id : "you");
        reply.owner.token = request->token ? request->token : 1U + fuzz_byte(in);
        reply.owner.ttl_at_ms = now_ms + request->ttl_ms;
        reply.owner.transition_at_ms = now_ms + request->ttl_ms + request->transition_ms;
    }
    return reply;
}

static simba_push any_push(fuzz_input *in)
{
    simba_push push = {.kind = (simba_push_kind)fuzz_below(in, SIMBA_PUSH_NOTED + 1)};
    push.owner = any_owner(in);
    push.now_ms = fuzz_number(in);
    return push;
}

/* as the client does with what a store says. */
static void check_reply(simba_request *request, bool session)
{
    simba_error err = {0};
    if (request->reply.status < 0)
        return;
    const int rc = simba__reply_check(request, session, &err);
    if (rc < 0)
        request->reply = (simba_reply){.status = rc};
}

/* --- contention --------------------------------------------------------------------------------------------------- */

typedef struct contender {
    simba__timing timing;
    simba__contention machine;
    simba__actions actions;
    simba_request request; /* in flight */
    uint32_t generation;
    simba_local sent_at; /* when it was handed over; 0: it waits in a queue */
    bool has_to_queue;   /* the next one */
    bool in_flight;
    bool leads;     /* acquired was told, released was not */
    bool tidies_up; /* on_released runs */
    int64_t now_ns;
    simba_local session_until;
    simba_stats stats;
    simba_local waits_since;
} contender;

static int64_t store_ms(const contender *c)
{
    return INT64_C(1700000000000) + c->now_ns / SIMBA__NS_PER_MS;
}

static bool is_told_in_time(const contender *c)
{
    const simba_local until = simba__contention_valid_until(&c->machine);
    return until.ns == 0 || c->now_ns < until.ns;
}

static const simba_reply not_asked = {.status = SIMBA_ECANCELED};

/* What the event log has about it is one line. */
static void check_line(void *user, const char *words)
{
    (void)user;
    FUZZ_CHECK(words[0] && fuzz_is_shown_safely(words));
}

static void step(contender *c, simba__event event);

static void answer(contender *c, const simba_reply *reply)
{
    c->in_flight = false;
    c->request.reply = *reply;
    check_reply(&c->request, c->timing.session);
    step(c,
         (simba__event){
             .kind = SIMBA__EV_REPLY, .generation = c->generation, .reply = &c->request.reply, .sent_at = c->sent_at});
}

static void step(contender *c, simba__event event)
{
    event.now.ns = c->now_ns;
    event.session_until = c->session_until;
    const bool led = c->leads;
    const simba__step made = {&c->machine, &event, &c->actions};
    simba__contention_step(&c->machine, &event, &c->actions);
    const simba__actions *a = &c->actions;
    simba__trace_step(&made, 0, check_line, NULL);
    simba__count_step(&c->stats, &made, &c->waits_since);
    FUZZ_CHECK(!a->acquired || (!led && !c->tidies_up));
    FUZZ_CHECK(!a->released || led || a->acquired);
    FUZZ_CHECK(!a->submit || !c->in_flight);
    FUZZ_CHECK(!a->done || (!c->in_flight && !a->submit));
    FUZZ_CHECK(!a->withdraw || c->in_flight);
    c->leads = (c->leads || a->acquired) && !a->released;
    c->tidies_up |= a->released;
    FUZZ_CHECK(!c->leads || is_told_in_time(c));
    FUZZ_CHECK(!a->submit || a->op != SIMBA_OP_RELEASE || !c->leads);
    if (a->submit) {
        simba__actions_request(a, &c->timing, &c->request);
        c->request.id = "me";
        c->in_flight = true;
        c->sent_at.ns = c->has_to_queue ? 0 : c->now_ns;
        c->generation = a->generation;
    }
    if (a->withdraw && c->sent_at.ns == 0)
        answer(c, &not_asked);
}

static void return_from_released(contender *c)
{
    c->tidies_up = false;
    step(c, (simba__event){.kind = SIMBA__EV_ACK});
}

static void any_event(contender *c, fuzz_input *in)
{
    simba_reply reply;
    switch (fuzz_below(in, 8)) {
    case 0:
        if (simba__contention_status(&c->machine) == SIMBA_STATUS_INITIAL)
            step(c, (simba__event){.kind = SIMBA__EV_START, .seed = fuzz_byte(in)});
        break;
    case 1:
        step(c, (simba__event){.kind = SIMBA__EV_STOP});
        break;
    case 2: /* its timer, early, in time or late */
        if (c->actions.timer.ns != INT64_MAX && c->actions.timer.ns > c->now_ns)
            c->now_ns = c->actions.timer.ns + (int64_t)fuzz_below(in, 3) - 1;
        step(c, (simba__event){.kind = SIMBA__EV_TIMER});
        break;
    case 3:
    case 4:
        reply = any_reply(in, &c->request, store_ms(c));
        if (c->in_flight && c->sent_at.ns == 0) { /* its turn comes, or it fails while it waits */
            c->sent_at.ns = fuzz_below(in, 8) ? c->now_ns : 0;
            if (c->sent_at.ns == 0)
                answer(c, &not_asked);
        } else if (c->in_flight) {
            answer(c, &reply);
        }
        c->has_to_queue = fuzz_below(in, 4) == 3;
        break;
    case 5: { /* a reply to an earlier request */
        reply = any_reply(in, &c->request, store_ms(c));
        step(c, (simba__event){.kind = SIMBA__EV_REPLY, .generation = c->generation - 1, .reply = &reply});
        break;
    }
    case 6: {
        const simba_push push = any_push(in);
        step(c, (simba__event){.kind = SIMBA__EV_PUSH, .push = simba__push_check(&push)});
        break;
    }
    case 7:
        if (c->tidies_up)
            return_from_released(c);
        break;
    }
    c->now_ns += (int64_t)fuzz_byte(in) * fuzz_byte(in) * SIMBA__NS_PER_MS / 4;
    if (c->timing.session && fuzz_below(in, 2))
        c->session_until.ns = c->now_ns + (int64_t)fuzz_byte(in) * 100 * SIMBA__NS_PER_MS;
}

/* Whatever has happened: who is stopped, and gets answers, comes to an end. */
static void bring_to_end(contender *c)
{
    const simba_reply failed = {.status = SIMBA_EUNAVAILABLE};
    step(c, (simba__event){.kind = SIMBA__EV_STOP});
    for (unsigned steps = 0; simba__contention_status(&c->machine) != SIMBA_STATUS_INITIAL; steps++) {
        FUZZ_CHECK(steps < 100);
        if (c->tidies_up) {
            return_from_released(c);
        } else if (c->in_flight) {
            answer(c, &failed);
        } else {
            FUZZ_CHECK(c->actions.timer.ns != INT64_MAX);
            if (c->actions.timer.ns > c->now_ns)
                c->now_ns = c->actions.timer.ns;
            step(c, (simba__event){.kind = SIMBA__EV_TIMER});
        }
    }
    FUZZ_CHECK(!c->leads && !c->in_flight);
}

void fuzz_contention(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const unsigned how = fuzz_byte(&in);
    const bool session = how & 1;
    simba_timing ms = {.hold_limit_ms = how & 2 ? 60000 : 0, .initial_delay_ms = how & 4 ? 500 : 0};
    if (!session) {
        ms.ttl_ms = 100 + 100 * (int64_t)fuzz_byte(&in);
        ms.transition_ms = 100 + 100 * (int64_t)fuzz_byte(&in);
    }
    ms.jitter_max_ms = how & 8 ? 1000 : 0;
    ms.stop_margin_ms = how & 16 ? fuzz_byte(&in) : 0;
    contender c = {.now_ns = INT64_C(5000000000000), .session_until = SIMBA__NEVER, .request = {.id = "me"}};
    simba_error err;
    if (simba__timing_resolve(&ms, 10000, 4000, session, &err, &c.timing) < 0)
        return;
    simba__contention_init(&c.machine, &c.timing, how & 32);
    c.machine.once = how & 64;
    c.machine.try_once = how & 128;
    step(&c, (simba__event){.kind = SIMBA__EV_START, .seed = how});
    while (in.left > 0)
        any_event(&c, &in);
    if (simba__contention_status(&c.machine) != SIMBA_STATUS_INITIAL)
        bring_to_end(&c);
}

/* --- observation -------------------------------------------------------------------------------------------------- */

/* --- row ------------------------------------------------------------------------------------------------------------ */
