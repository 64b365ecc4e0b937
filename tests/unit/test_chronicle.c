/* The lines of the event log: that every change of a lease is written down, also where no request prolongs it. */
#include "core/chronicle.h"

#include <stdio.h>
#include <string.h>

#include "lib/cm.h"
#include "lib/trace.h"
#include "util/clock.h"

#define EPOCH_NS INT64_C(5000000000000) /* of the trace's clock */

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
    simba__chronicle_step(&t->machine, &event, &t->actions, -EPOCH_NS, note, text);
    return text;
}

/* A session lives on without a request. Its owner looks at its end when that has come, and writes down the new one: who
 * reads the log would take it for dead otherwise. */
static void a_session_that_lives_on_is_written_down(void **state)
{
    (void)state;
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
    (void)state;
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
    (void)state;
    static const char *const words[] = {
        [SIMBA_PUSH_CHANGED] = "push changed; ",
        [SIMBA_PUSH_RELEASED] = "push released; ",
        [SIMBA_PUSH_ACQUIRED] = "push acquired; ",
        [SIMBA_PUSH_FREED] = "push freed; ",
        [SIMBA_PUSH_SESSION_LOST] = "push session-lost; ",
        [SIMBA_PUSH_SESSION_BACK] = "push session-back; ",
        [SIMBA_PUSH_NOTED] = "push noted; ",
        [SIMBA_PUSH_WANTED] = "push wanted; ",
    };
    trace t;
    trace_init(&t, 10000, 6000);
    for (int kind = SIMBA_PUSH_CHANGED; kind <= SIMBA_PUSH_WANTED; kind++) {
        const simba_push push = {.kind = (simba_push_kind)kind};
        const simba__event event = {.kind = SIMBA__EV_PUSH, .push = &push};
        char text[64] = "";
        simba__chronicle_step(&t.machine, &event, &t.actions, 0, note, text);
        assert_string_equal(text, words[kind]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_that_lives_on_is_written_down),
        cmocka_unit_test(a_renewed_lease_is_written_down_once),
        cmocka_unit_test(each_push_has_a_word),
    };
    return cmocka_run_group_tests_name("chronicle", tests, NULL, NULL);
}
