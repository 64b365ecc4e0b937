/* Watching without contending: whatever is lost on the way, the last owner told is the true one. */
#include <stdio.h>
#include <string.h>

#include "core/observation.h"
#include "lib/cm.h"
#include "util/clock.h"

#define MS SIMBA__NS_PER_MS
static const int64_t op_timeout_ns = 4000 * MS;

struct fixture {
    simba__observation machine;
    simba__actions actions;
    int64_t now_ms;
};

static void step(struct fixture *f, simba__event event)
{
    event.now = (simba_local){(f->now_ms + 1000) * MS};
    simba__observation_step(&f->machine, &event, op_timeout_ns, &f->actions);
}

static simba_owner owner_of(const char *id, uint64_t token, int64_t transition_at_ms)
{
    simba_owner owner = {.token = token, .transition_at_ms = transition_at_ms};
    snprintf(owner.id, sizeof owner.id, "%s", id);
    return owner;
}

static void start(struct fixture *f, int64_t poll_ms)
{
    memset(f, 0, sizeof *f);
    simba__observation_init(&f->machine, poll_ms * MS);
    step(f, (simba__event){.kind = SIMBA__EV_START, .seed = 1});
    assert_true(f->actions.submit);
    assert_int_equal(f->actions.op, SIMBA_OP_READ);
}

static void answer(struct fixture *f, const char *id, uint64_t token, int64_t left_ms)
{
    const simba_reply reply = {.owner = owner_of(id, token, token ? f->now_ms + left_ms : 0), .now_ms = f->now_ms};
    step(f, (simba__event){.kind = SIMBA__EV_REPLY, .generation = f->machine.generation, .reply = &reply});
}

static void fail_(struct fixture *f)
{
    const simba_reply reply = {.status = SIMBA_EUNAVAILABLE};
    step(f, (simba__event){.kind = SIMBA__EV_REPLY, .generation = f->machine.generation, .reply = &reply});
}

static void push(struct fixture *f, simba_push_kind kind, const char *id, uint64_t token)
{
    const simba_push push_ = {.kind = kind, .owner = owner_of(id, token, f->now_ms + 16000), .now_ms = f->now_ms};
    step(f, (simba__event){.kind = SIMBA__EV_PUSH, .push = &push_});
}

static int64_t timer_ms(const struct fixture *f)
{
    return f->actions.timer.ns / MS - 1000;
}

/* A reading that was under way when something was pushed may be older: it is thrown away and repeated. */
static void a_reading_that_may_be_old_is_repeated(void **state)
{
    struct fixture f;
    start(&f, 10000);
    push(&f, SIMBA_PUSH_ACQUIRED, "b", 6);
    assert_true(f.actions.changed);
    answer(&f, "a", 5, 16000);
    assert_false(f.actions.changed);
    assert_true(f.actions.submit);
    answer(&f, "b", 6, 16000);
    assert_false(f.actions.changed);
    assert_false(f.actions.submit);
}

/* A store that is away is asked again, with growing pauses up to the polling interval. */
static void keeps_reading_while_the_store_is_away(void **state)
{
    struct fixture f;
    start(&f, 1000);
    int64_t pause_ms = 0;
    for (int i = 0; i < 20; i++) {
        fail_(&f);
        assert_false(f.actions.changed);
        pause_ms = timer_ms(&f) - f.now_ms;
        assert_in_range(pause_ms, 1, 1001);
        f.now_ms += pause_ms + 1;
        step(&f, (simba__event){.kind = SIMBA__EV_TIMER});
        assert_true(f.actions.submit);
    }
    assert_true(pause_ms >= 500);
}

/* News of an end that was overtaken by the next beginning does not hide it. */
static void an_overtaken_end_is_no_news(void **state)
{
    struct fixture f;
    start(&f, 5000);
    answer(&f, "a", 5, 16000);
    push(&f, SIMBA_PUSH_ACQUIRED, "b", 6);
    push(&f, SIMBA_PUSH_FREED, "", 5);
    assert_string_equal(f.machine.owner.id, "b");
    push(&f, SIMBA_PUSH_FREED, "", 6);
    assert_string_equal(f.machine.owner.id, "");
}

/* Whatever times a stored or pushed owner has, it is read again within the polling interval. */
static void any_stored_time_is_waited_for(void **state)
{
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    enum { ENDS = sizeof ends / sizeof *ends };
    for (size_t i = 0; i < ENDS * ENDS; i++) {
        struct fixture f;
        start(&f, 1000);
        const simba_reply reply = {.owner = owner_of("you", 1, ends[i % ENDS]), .now_ms = ends[i / ENDS]};
        step(&f, (simba__event){.kind = SIMBA__EV_REPLY, .generation = f.machine.generation, .reply = &reply});
        assert_in_range(timer_ms(&f), 1, 1000);
        const simba_push pushed = {.kind = SIMBA_PUSH_ACQUIRED, .owner = reply.owner, .now_ms = reply.now_ms};
        step(&f, (simba__event){.kind = SIMBA__EV_PUSH, .push = &pushed});
        assert_in_range(timer_ms(&f), 1, 1000);
    }
}

/* Events that come too early, too late or twice change nothing. */
static void what_comes_at_the_wrong_time_changes_nothing(void **state)
{
    struct fixture f;
    start(&f, 1000);
    step(&f, (simba__event){.kind = SIMBA__EV_TIMER}); /* while it reads */
    assert_false(f.actions.submit);
    answer(&f, "a", 5, 16000);
    f.now_ms = 500;
    step(&f, (simba__event){.kind = SIMBA__EV_TIMER}); /* too early */
    assert_false(f.actions.submit);
    push(&f, SIMBA_PUSH_NOTED, "", 0);
    assert_false(f.actions.submit || f.actions.changed);
    step(&f, (simba__event){.kind = SIMBA__EV_ACK});
    assert_false(f.actions.submit || f.actions.changed || f.actions.done);
    push(&f, SIMBA_PUSH_CHANGED, "", 0);
    assert_true(f.actions.submit);
    step(&f, (simba__event){.kind = SIMBA__EV_STOP});
    step(&f, (simba__event){.kind = SIMBA__EV_STOP}); /* twice, and the answer is still awaited */
    assert_false(f.actions.done);
    answer(&f, "a", 5, 16000);
    assert_true(f.actions.done);
    step(&f, (simba__event){.kind = SIMBA__EV_STOP}); /* it is over already */
    assert_true(f.actions.done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reading_that_may_be_old_is_repeated),
        cmocka_unit_test(keeps_reading_while_the_store_is_away),
        cmocka_unit_test(an_overtaken_end_is_no_news),
        cmocka_unit_test(what_comes_at_the_wrong_time_changes_nothing),
        cmocka_unit_test(any_stored_time_is_waited_for),
    };
    return cmocka_run_group_tests_name("observation", tests, NULL, NULL);
}
