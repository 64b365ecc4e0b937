/* What a step looks like from outside: each is counted once, in the right place, with the time it took; and every change of a
 * lease is written down for the event log, also where no request prolongs it. */
#include "core/trace.h"

#include <stdio.h>
#include <string.h>

#include "lib/cm.h"
#include "lib/trace.h"
#include "util/clock.h"

#define EPOCH_NS INT64_C(5000000000000) /* of the trace's clock */

typedef struct counted {
    trace t;
    simba_stats stats;
    simba_local since;
    simba__step made;
    simba_local sent_at;
} counted;

static void init(counted *c)
{
    *c = (counted){.stats = SIMBA_STATS_INIT};
    trace_init(&c->t, 10000, 6000);
}

/* COUNTED(c, START, trace_start(&c.t)): make the step, and count it. */
#define COUNTED(c, kind, step)                                                                                         \
    do {                                                                                                               \
        (c).sent_at = (c).t.machine.sent_at;                                                                           \
        (c).made = (simba__step){&(c).t.machine, NULL, &(c).t.actions};                                                \
        step;                                                                                                          \
        count(&(c), SIMBA__EV_##kind, NULL);                                                                           \
    } while (0)
#define ANSWERED(c, code, result, step)                                                                                \
    do {                                                                                                               \
        const simba_reply reply_ = {.status = (code), .outcome = (result)};                                            \
        (c).sent_at = (c).t.machine.sent_at;                                                                           \
        (c).made = (simba__step){&(c).t.machine, NULL, &(c).t.actions};                                                \
        step;                                                                                                          \
        count(&(c), SIMBA__EV_REPLY, &reply_);                                                                         \
    } while (0)

static void count(counted *c, simba__event_kind kind, const simba_reply *reply)
{
    const simba__event event = {
        .kind = kind, .now = {EPOCH_NS + c->t.now_ms * SIMBA__NS_PER_MS}, .sent_at = c->sent_at, .reply = reply};
    c->made.event = &event;
    simba__count_step(&c->stats, &c->made, &c->since);
    c->made.event = NULL;
}

static uint64_t count_of(const simba_histogram *histogram)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < SIMBA_HISTOGRAM_BUCKETS; i++)
        count += histogram->buckets[i];
    return count;
}

static void assert_took(const simba_histogram *histogram, uint64_t count, int64_t sum_ms)
{
    assert_int_equal(count_of(histogram), count);
    assert_int_equal(histogram->sum_ns, sum_ms * SIMBA__NS_PER_MS);
}

/* One leadership, from the start to the stop: each of the five histograms gets its time. */
static void a_leadership_is_timed(void **state)
{
    counted c;
    init(&c);
    COUNTED(c, START, trace_start(&c.t));
    assert_int_equal(c.stats.waiting, 1);
    trace_pass(&c.t, 5);
    ANSWERED(c, 0, SIMBA_MINE, trace_mine(&c.t, 7));
    assert_int_equal(c.stats.waiting, 0);
    assert_int_equal(c.stats.held, 1);
    assert_int_equal(c.stats.grants, 1);
    assert_took(&c.stats.wait, 1, 5);
    assert_took(&c.stats.acquire, 1, 5);
    assert_took(&c.stats.hold, 0, 0);

    COUNTED(c, TIMER, trace_at(&c.t, 9900));
    trace_pass(&c.t, 9930);
    ANSWERED(c, 0, SIMBA_MINE, trace_mine(&c.t, 7));
    assert_int_equal(c.stats.renewals, 1);
    assert_took(&c.stats.renew, 1, 30);

    trace_pass(&c.t, 10005);
    COUNTED(c, STOP, trace_stop(&c.t));
    assert_int_equal(c.stats.held, 0);
    assert_int_equal(c.stats.losses[SIMBA_REASON_STOPPED], 1);
    assert_took(&c.stats.hold, 1, 10000);
    COUNTED(c, ACK, trace_ack(&c.t));
    trace_pass(&c.t, 10007);
    ANSWERED(c, 0, SIMBA_MINE, trace_nobody(&c.t));
    assert_took(&c.stats.release, 1, 2);
    assert_took(&c.stats.wait, 1, 5);
    assert_int_equal(c.stats.waits_abandoned, 0);
}

/* A bound belongs to the bucket that it ends. The bounds are what the header says. */
static void buckets(void **state)
{
    simba_histogram histogram = {0, {0}};
    for (unsigned i = 0; i < SIMBA_HISTOGRAM_BUCKETS - 1; i++) {
        assert_true(i == 0 || simba_histogram_bound_ns(i) > simba_histogram_bound_ns(i - 1));
        simba__histogram_add(&histogram, simba_histogram_bound_ns(i));
        assert_int_equal(histogram.buckets[i], i == 0 ? 1 : 2);
        simba__histogram_add(&histogram, simba_histogram_bound_ns(i) + 1);
        assert_int_equal(histogram.buckets[i + 1], 1);
    }
    simba__histogram_add(&histogram, INT64_MAX);
    assert_int_equal(histogram.buckets[SIMBA_HISTOGRAM_BUCKETS - 1], 2);
    assert_true(simba_histogram_bound_ns(SIMBA_HISTOGRAM_BUCKETS - 1) == INT64_MAX);
    assert_true(simba_histogram_bound_ns(1000) == INT64_MAX);
    assert_int_equal(simba_histogram_bound_ns(0), 10000);
    assert_int_equal(simba_histogram_bound_ns(10), 1000000000);
    assert_int_equal(simba_histogram_bound_ns(SIMBA_HISTOGRAM_BUCKETS - 2), INT64_C(86400000000000));

    histogram = (simba_histogram){0, {0}};
    simba__histogram_add(&histogram, -5);
    assert_int_equal(histogram.buckets[0], 1);
    assert_int_equal(histogram.sum_ns, 0);
}

/* Each code has a counter of its own, and what a stranger's store makes up goes to none of theirs. */
static void errors_by_code(void **state)
{
    simba_stats stats = SIMBA_STATS_INIT;
    simba__count_error(&stats, SIMBA_EUNAVAILABLE);
    simba__count_error(&stats, SIMBA_EUNAVAILABLE);
    simba__count_error(&stats, SIMBA_ESYSTEM);
    simba__count_error(&stats, -32);
    simba__count_error(&stats, -1000);
    simba__count_error(&stats, 5);
    assert_int_equal(stats.errors, 6);
    assert_int_equal(stats.errors_by_code[-SIMBA_EUNAVAILABLE], 2);
    assert_int_equal(stats.errors_by_code[-SIMBA_ESYSTEM], 1);
    assert_int_equal(stats.errors_by_code[0], 3);
    assert_int_equal(stats.wait.sum_ns, 0); /* which lies behind them */
}

/* --- lines of the event log ------------------------------------------------------------------------ */

static void note(void *user, const char *words)
{
    char *text = user;
    strcat(strcat(text, words), "; ");
}

/* The lines for an event that the machine has just been given. */
static const char *lines_of(const trace *t, simba__event_kind kind)
{
    static char text[512];
    const simba__event event = {
        .kind = kind,
        .now = {EPOCH_NS + t->now_ms * SIMBA__NS_PER_MS},
        .session_until = {t->timing.session ? EPOCH_NS + t->session_until_ms * SIMBA__NS_PER_MS : INT64_MAX},
    };
    text[0] = '\0';
    const simba__step step = {.machine = &t->machine, .event = &event, .actions = &t->actions};
    simba__trace_step(&step, -EPOCH_NS, note, text);
    return text;
}

/* A session lives on without a request. Its owner looks at its end when that has come, and writes down the new one: who
 * reads the log would take it for dead otherwise. */
static void a_session_that_lives_on_is_written_down(void **state)
{
    const simba_timing ms = {.ttl_ms = 10000, .transition_ms = 6000, .jitter_max_ms = 1000};
    trace t;
    trace_init_with(&t, &ms, true, true);
    t.session_until_ms = 5000;
    trace_start(&t);
    trace_mine(&t, 7);
    t.session_until_ms = 7000;
    assert_string_equal(trace_at(&t, 5000), "wake@7000");
    assert_string_equal(lines_of(&t, SIMBA__EV_TIMER), "lease 7000000000 7000000000 7; ");
}

/* A lease that a request prolongs is written down with its answer, and a mere look at the clock is not. */
static void a_renewed_lease_is_written_down_once(void **state)
{
    trace t;
    trace_init(&t, 10000, 6000);
    trace_start(&t);
    trace_mine(&t, 7);
    assert_string_equal(trace_at(&t, 9250), "renew wake@15839");
    assert_string_equal(lines_of(&t, SIMBA__EV_TIMER), "request renew; ");
}

/* Every kind of push has a word. */
static void each_push_has_a_word(void **state)
{
    static const char *const words[] = {
        [SIMBA_PUSH_CHANGED] = "push changed; ",
        [SIMBA_PUSH_RELEASED] = "push released; ",
        [SIMBA_PUSH_ACQUIRED] = "push acquired; ",
        [SIMBA_PUSH_FREED] = "push freed; ",
        [SIMBA_PUSH_SESSION_LOST] = "push session-lost; ",
        [SIMBA_PUSH_SESSION_BACK] = "push session-back; ",
        [SIMBA_PUSH_NOTED] = "push noted; ",
    };
    trace t;
    trace_init(&t, 10000, 6000);
    for (int kind = SIMBA_PUSH_CHANGED; kind <= SIMBA_PUSH_NOTED; kind++) {
        const simba_push push = {.kind = (simba_push_kind)kind};
        const simba__event event = {.kind = SIMBA__EV_PUSH, .push = &push};
        char text[64] = "";
        const simba__step step = {.machine = &t.machine, .event = &event, .actions = &t.actions};
        simba__trace_step(&step, 0, note, text);
        assert_string_equal(text, words[kind]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leadership_is_timed),
        cmocka_unit_test(buckets),
        cmocka_unit_test(errors_by_code),
        cmocka_unit_test(a_session_that_lives_on_is_written_down),
        cmocka_unit_test(a_renewed_lease_is_written_down_once),
        cmocka_unit_test(each_push_has_a_word),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
