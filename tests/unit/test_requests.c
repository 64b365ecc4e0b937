/* The way of a request, and its deadline: one that is kept too late leaves a leader waiting for an answer that never comes, one
 * that is kept too early gives up an answer that was about to come. The store and the host here do nothing by themselves; the
 * last test drives the heap of deadlines with random operations against a plain search. */
#include "runtime/requests.h"

#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "util/random.h"

enum { MANY = 300 };

static struct {
    simba_host host;
    simba__requests requests;
    simba_local now;
    simba_timer *timer; /* that of the requests */
    unsigned timer_sets;
    bool answers_at_once;
    simba_request *submitted[MANY]; /* in their order */
    size_t count;
    simba_request *cancelled[MANY];
    size_t cancel_count;
    simba_request *also_fails; /* when another one is cancelled */
    simba_request *in_line;    /* stands there */
    int code;                  /* of the latest failure */
} stage;

static simba_local host_now(simba_host *host)
{
    (void)host;
    return stage.now;
}

static void host_complete(simba_host *host, simba_request *request)
{
    (void)host;
    simba__requests_complete(&stage.requests, request);
}

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    assert_true(strlen(format) > 0);
    stage.code = request->reply.status = code;
    host_complete(host, request);
}

static int host_timer_add(simba_host *host, simba_timer *timer)
{
    (void)host;
    stage.timer = timer;
    return 0;
}

static void host_timer_set(simba_host *host, simba_timer *timer, simba_local at)
{
    (void)host;
    timer->at = at;
    timer->index = 1;
    stage.timer_sets++;
}

static void host_timer_clear(simba_host *host, simba_timer *timer)
{
    (void)host;
    timer->index = 0;
}

static void store_submit(void *self, simba_request *request)
{
    (void)self;
    stage.submitted[stage.count++ % MANY] = request;
    if (stage.answers_at_once)
        host_complete(&stage.host, request);
}

static void store_cancel(void *self, simba_request *request)
{
    (void)self;
    simba_request *other = stage.also_fails;
    stage.also_fails = NULL;
    stage.cancelled[stage.cancel_count++ % MANY] = request;
    (stage.host.fail)(&stage.host, request, SIMBA_ETIMEDOUT, "stage: no answer in time");
    if (other)
        (stage.host.fail)(&stage.host, other, SIMBA_EUNAVAILABLE, "stage: its connection is given up");
}

static bool store_in_line(void *self, simba_request *request)
{
    (void)self;
    return stage.in_line == request;
}

static const simba_backend backend = {.submit = store_submit, .cancel = store_cancel, .in_line = store_in_line};

static int set_up(void **state)
{
    (void)state;
    memset(&stage, 0, sizeof stage);
    stage.now.ns = 1000;
    stage.host = (simba_host){.now = host_now,
                              .complete = host_complete,
                              .fail = host_fail,
                              .timer_add = host_timer_add,
                              .timer_set = host_timer_set,
                              .timer_clear = host_timer_clear};
    assert_int_equal(simba__requests_init(&stage.requests, &stage.host, &backend, &stage), 0);
    return 0;
}

static void submit(simba_request *request, int64_t deadline_ns)
{
    request->deadline.ns = deadline_ns;
    simba__requests_submit(&stage.requests, request);
}

/* The end of a turn. */
static size_t hand_over(void)
{
    const size_t count = simba__requests_hand_over(&stage.requests, stage.host.now(&stage.host));
    simba__requests_arm(&stage.requests);
    return count;
}

/* The timer goes off if it is due. */
static void pass_to(int64_t ns)
{
    stage.now.ns = ns;
    while (stage.timer->index != 0 && stage.timer->at.ns <= ns) {
        stage.timer->index = 0;
        stage.timer->fire(stage.timer, stage.now);
    }
}

static size_t take_all(void)
{
    size_t count = 0;
    while (simba__requests_take(&stage.requests))
        count++;
    return count;
}

/* Submitted, handed over, completed, taken: each of them in the order in which it happened, and then again. */
static void a_request_goes_its_way(void **state)
{
    (void)state;
    simba_request r[2] = {0};
    for (int round = 0; round < 2; round++) {
        submit(&r[0], 5000);
        submit(&r[1], 4000);
        assert_true(simba__requests_has(&r[0]));
        assert_int_equal(stage.count, (size_t)round * 2);
        assert_int_equal(hand_over(), 2);
        assert_ptr_equal(stage.submitted[round * 2], &r[0]);
        assert_ptr_equal(stage.submitted[round * 2 + 1], &r[1]);
        assert_null(simba__requests_take(&stage.requests));
        host_complete(&stage.host, &r[1]);
        host_complete(&stage.host, &r[0]);
        assert_false(simba__requests_has(&r[0]));
        assert_ptr_equal(simba__requests_take(&stage.requests), &r[1]);
        assert_ptr_equal(simba__requests_take(&stage.requests), &r[0]);
        assert_null(simba__requests_take(&stage.requests));
    }
    assert_int_equal(hand_over(), 0);
    simba__requests_close(&stage.requests);
    assert_int_equal(stage.timer->index, 0);
}

/* Each is cancelled at its own deadline, the earliest first; not before, and not a nanosecond later. */
static void each_is_cancelled_at_its_deadline(void **state)
{
    (void)state;
    simba_request r[3] = {0};
    submit(&r[0], 3000);
    submit(&r[1], 2000);
    submit(&r[2], 4000);
    hand_over();
    pass_to(1999);
    assert_int_equal(stage.cancel_count, 0);
    pass_to(2000);
    assert_int_equal(stage.cancel_count, 1);
    assert_ptr_equal(stage.cancelled[0], &r[1]);
    assert_int_equal(stage.code, SIMBA_ETIMEDOUT);
    assert_ptr_equal(simba__requests_take(&stage.requests), &r[1]);
    pass_to(4000);
    assert_int_equal(stage.cancel_count, 3);
    assert_ptr_equal(stage.cancelled[1], &r[0]);
    assert_ptr_equal(stage.cancelled[2], &r[2]);
    assert_int_equal(take_all(), 2);
    assert_int_equal(stage.timer->index, 0);
}

/* One that stands in line is waited for, by as much as it had at first, but not for longer than somebody wants it. */
static void who_stands_in_line_is_waited_for(void **state)
{
    (void)state;
    simba_request r[2] = {{.give_up = {5500}}, {.give_up = {INT64_MAX}}};
    submit(&r[0], 2000);
    submit(&r[1], 2500);
    hand_over();
    stage.in_line = &r[0];
    pass_to(2000);
    assert_int_equal(stage.cancel_count, 0);
    assert_int_equal(r[0].deadline.ns, 3000);
    pass_to(2500);
    assert_int_equal(stage.cancel_count, 1);
    assert_ptr_equal(stage.cancelled[0], &r[1]);
    pass_to(5000);
    assert_int_equal(stage.cancel_count, 1);
    assert_int_equal(r[0].deadline.ns, 5500);
    pass_to(5500);
    assert_int_equal(stage.cancel_count, 2);
    assert_int_equal(take_all(), 2);
}

/* However many are due at one moment, a turn looks at a part of them, and answers are taken in between. */
static void very_many_are_looked_at_in_several_turns(void **state)
{
    (void)state;
    enum { VERY_MANY = 2500 };
    static simba_request r[VERY_MANY];
    for (int i = 0; i < VERY_MANY; i++)
        submit(&r[i], 2000);
    hand_over();
    pass_to(2000);
    assert_int_equal(take_all(), 1000);
    pass_to(2001);
    assert_int_equal(take_all(), 1000);
    pass_to(2002);
    assert_int_equal(take_all(), 500);
}

/* The time for the answer counts from the moment at which the server was asked. */
static void the_answer_has_its_time_from_the_asking(void **state)
{
    (void)state;
    simba_request r[2] = {{.give_up = {INT64_MAX}}, {.give_up = {0}}};
    submit(&r[0], 2000);
    submit(&r[1], 2000);
    hand_over();
    r[0].asked_at.ns = r[1].asked_at.ns = 1700;
    pass_to(2000);
    assert_int_equal(stage.cancel_count, 1); /* nobody waits for the other any longer */
    assert_ptr_equal(stage.cancelled[0], &r[1]);
    pass_to(2699);
    assert_int_equal(stage.cancel_count, 1);
    pass_to(2700);
    assert_int_equal(stage.cancel_count, 2);
    assert_int_equal(take_all(), 2);
    submit(&r[0], 4000);
    hand_over();
    assert_int_equal(r[0].asked_at.ns, 0);
    host_complete(&stage.host, &r[0]);
    assert_int_equal(take_all(), 1);
}

/* One that was answered is not cancelled, though the timer that was set for it goes off. */
static void an_answer_in_time_counts(void **state)
{
    (void)state;
    simba_request r[2] = {0};
    submit(&r[0], 2000);
    submit(&r[1], 3000);
    hand_over();
    host_complete(&stage.host, &r[0]);
    pass_to(2999);
    assert_int_equal(stage.cancel_count, 0);
    pass_to(3000);
    assert_int_equal(stage.cancel_count, 1);
    assert_int_equal(take_all(), 2);
}

/* To cancel one may end others, which are not cancelled then. */
static void cancelling_may_fail_others(void **state)
{
    (void)state;
    simba_request r[3] = {0};
    for (int i = 0; i < 3; i++)
        submit(&r[i], 2000 + i);
    hand_over();
    stage.also_fails = &r[1];
    pass_to(5000);
    assert_int_equal(stage.cancel_count, 2);
    assert_ptr_equal(stage.cancelled[1], &r[2]);
    assert_int_equal(take_all(), 3);
}

/* A process that was held up does not ask for what nobody waits for any more. */
static void too_late_is_not_asked(void **state)
{
    (void)state;
    simba_request r[3] = {0};
    submit(&r[0], 2000);
    submit(&r[1], 3000);
    submit(&r[2], 3001);
    stage.now.ns = 3000;
    assert_int_equal(hand_over(), 1);
    assert_ptr_equal(stage.submitted[0], &r[2]);
    assert_int_equal(stage.code, SIMBA_ETIMEDOUT);
    assert_int_equal(r[0].reply.status, SIMBA_ETIMEDOUT);
    assert_int_equal(take_all(), 2);
    assert_int_equal(stage.cancel_count, 0);
}

/* Where answers come at once no timer is touched; otherwise it is set when a deadline is earlier than all before. */
static void timers_are_left_alone(void **state)
{
    (void)state;
    simba_request r[MANY] = {0};
    stage.answers_at_once = true;
    for (int i = 0; i < MANY; i++) {
        submit(&r[i], 2000 + i);
        hand_over();
    }
    assert_int_equal(take_all(), MANY);
    assert_int_equal(stage.timer_sets, 0);
    stage.answers_at_once = false;
    for (int i = 0; i < MANY; i++) {
        submit(&r[i], 2000 + i);
        hand_over();
        host_complete(&stage.host, &r[i]);
        take_all();
    }
    assert_int_equal(stage.timer_sets, 1);
    submit(&r[0], 1999);
    hand_over();
    assert_int_equal(stage.timer_sets, 2);
    assert_int_equal(stage.timer->at.ns, 1999);
}

/* --- the heap ----------------------------------------------------------------------------------------- */

/* No request is due before its parent, each knows its neighbour, and none is lost. */
static size_t check_heap(const simba_request *first, const simba_request *parent)
{
    size_t count = 0;
    const simba_request *before = parent;
    for (const simba_request *r = first; r; before = r, r = r->queue_next) {
        assert_ptr_equal(r->queue_prev, before);
        assert_true(!parent || parent->deadline.ns <= r->deadline.ns);
        count += 1 + check_heap(r->queue_child, r);
    }
    return count;
}

static int64_t earliest(const simba_request *r, const bool *outstanding)
{
    int64_t ns = INT64_MAX;
    for (size_t i = 0; i < MANY; i++)
        if (outstanding[i] && r[i].deadline.ns < ns)
            ns = r[i].deadline.ns;
    return ns;
}

/* Requests come, are answered in any order, and run out of time. */
static void random_operations(void **state)
{
    (void)state;
    static simba_request r[MANY];
    bool outstanding[MANY] = {false};
    size_t count = 0;
    uint64_t seed = 20;
    for (int step = 0; step < 50000; step++) {
        const size_t i = (size_t)simba__random_range(&seed, 0, MANY - 1);
        stage.cancel_count = 0;
        if (!outstanding[i]) {
            submit(&r[i], stage.now.ns + simba__random_range(&seed, 1, i % 3 ? 500 : 50));
            assert_int_equal(hand_over(), 1);
            count++;
        } else if (simba__random_range(&seed, 0, 3) > 0) {
            host_complete(&stage.host, &r[i]);
            count--;
        } else {
            outstanding[i] = true;
            pass_to(stage.now.ns + simba__random_range(&seed, 0, 9));
            count -= stage.cancel_count;
            for (size_t c = 0; c < stage.cancel_count; c++)
                outstanding[stage.cancelled[c] - r] = false;
            assert_true(earliest(r, outstanding) > stage.now.ns);
            take_all();
            continue;
        }
        outstanding[i] = simba__requests_has(&r[i]);
        take_all();
        assert_int_equal(check_heap(stage.requests.outstanding, NULL), count);
        const int64_t first_ns = stage.requests.outstanding ? stage.requests.outstanding->deadline.ns : INT64_MAX;
        assert_int_equal(first_ns, earliest(r, outstanding));
    }
    pass_to(INT64_MAX - 1);
    assert_int_equal(take_all(), count);
    simba__requests_close(&stage.requests);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_stands_in_line_is_waited_for),
        TEST(very_many_are_looked_at_in_several_turns),
        TEST(the_answer_has_its_time_from_the_asking),
        TEST(a_request_goes_its_way),
        TEST(each_is_cancelled_at_its_deadline),
        TEST(an_answer_in_time_counts),
        TEST(cancelling_may_fail_others),
        TEST(too_late_is_not_asked),
        TEST(timers_are_left_alone),
        TEST(random_operations),
    };
    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
