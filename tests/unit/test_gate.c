/* Threads stand in line for a lock: in which order they get it, and who wakes whom. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/cm.h"
#include "lib/referee.h"
#include "runtime/gate.h"
#include "util/clock.h"

enum { CROWD = 8, HOT_TURNS = 100, EACH = 2000 };

static struct {
    simba__gate gate;
    pthread_mutex_t lock;
    atomic_uint passed; /* threads that have had the lock */
    atomic_bool held;   /* by a thread that does not let go of the lock yet */
    unsigned order[CROWD];
    unsigned total; /* under the lock */
} stage;

static int set_up(void **state)
{
    (void)state;
    memset(&stage, 0, sizeof stage);
    simba__gate_init(&stage.gate);
    pthread_mutex_init(&stage.lock, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    simba__gate_fini(&stage.gate);
    pthread_mutex_destroy(&stage.lock);
    return 0;
}

static void enter(void)
{
    simba__gate_pass(&stage.gate, &stage.lock);
}

static void leave(void)
{
    simba__gate_leave(&stage.gate);
    pthread_mutex_unlock(&stage.lock);
}

static void await_line(size_t length)
{
    const int64_t until_ns = simba__clock_mono_ns() + ref_scaled_ms(10000) * 1000000;
    while (atomic_load(&stage.gate.length) != length) {
        assert_true(simba__clock_mono_ns() < until_ns);
        sched_yield();
    }
}

static void *pass_once(void *number)
{
    enter();
    stage.order[atomic_load(&stage.passed)] = (unsigned)(uintptr_t)number;
    atomic_fetch_add(&stage.passed, 1);
    leave();
    return NULL;
}

static void start_crowd(pthread_t *threads)
{
    for (uintptr_t i = 0; i < CROWD; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, pass_once, (void *)i), 0);
        await_line(i + 1);
    }
}

static void join_all(const pthread_t *threads)
{
    for (size_t i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
}

/* The lock goes to those who wait in the order in which they came. */
static void they_pass_in_the_order_of_their_coming(void **state)
{
    (void)state;
    pthread_t threads[CROWD];
    enter();
    start_crowd(threads);
    leave();
    join_all(threads);
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(stage.order[i], i);
    assert_int_equal(atomic_load(&stage.gate.length), 0);
}

/* A thread that keeps taking the lock does not keep it from those in line, although it calls nobody. */
static void a_busy_thread_does_not_keep_the_others_out(void **state)
{
    (void)state;
    pthread_t threads[CROWD];
    for (int i = 0; i < HOT_TURNS; i++) {
        enter();
        leave();
    }
    enter();
    start_crowd(threads);
    leave();
    const int64_t until_ns = simba__clock_mono_ns() + ref_scaled_ms(10000) * 1000000;
    while (atomic_load(&stage.passed) < CROWD) {
        assert_true(simba__clock_mono_ns() < until_ns);
        enter();
        leave();
    }
    join_all(threads);
}

/* A thread that has been busy and never comes back has called nobody; the first in line tries by itself. */
static void the_first_in_line_comes_uncalled(void **state)
{
    (void)state;
    pthread_t threads[CROWD];
    for (int i = 0; i < HOT_TURNS; i++) {
        enter();
        leave();
    }
    enter();
    start_crowd(threads);
    pthread_mutex_unlock(&stage.lock); /* it does not even look at the line */
    join_all(threads);
    assert_int_equal(atomic_load(&stage.passed), CROWD);
}

/* A thread that leaves, and was not busy, calls the first in line, once. */
static void who_leaves_calls_the_first(void **state)
{
    (void)state;
    pthread_t thread;
    enter();
    assert_int_equal(pthread_create(&thread, NULL, pass_once, NULL), 0);
    await_line(1);
    simba__gate_leave(&stage.gate);
    assert_int_equal(stage.gate.first, SIMBA__FIRST_CALLED);
    pthread_mutex_unlock(&stage.lock);
    pthread_join(thread, NULL);
}

static void *hold(void *unused)
{
    enter();
    atomic_fetch_add(&stage.passed, 1);
    while (atomic_load(&stage.held))
        sched_yield();
    leave();
    return unused;
}

static simba__first what_the_first_does(void)
{
    pthread_mutex_lock(&stage.gate.line_lock);
    const simba__first first = stage.gate.first;
    pthread_mutex_unlock(&stage.gate.line_lock);
    return first;
}

/* A busy thread has lost the lock to the first in line: when it joins the line, it wakes the one who is the first now. */
static void who_joins_the_line_wakes_the_first(void **state)
{
    (void)state;
    pthread_t holder, crowd[2];
    for (int i = 0; i < HOT_TURNS; i++) {
        enter();
        leave();
    }
    enter();
    atomic_store(&stage.held, true);
    assert_int_equal(pthread_create(&holder, NULL, hold, NULL), 0);
    await_line(1);
    assert_int_equal(pthread_create(&crowd[0], NULL, pass_once, NULL), 0);
    await_line(2);
    leave();
    await_line(1); /* the holder has the lock */
    assert_int_equal(what_the_first_does(), SIMBA__FIRST_SLEEPS);
    assert_int_equal(pthread_create(&crowd[1], NULL, pass_once, NULL), 0);
    await_line(2);
    assert_true(what_the_first_does() >= SIMBA__FIRST_WAITS);
    atomic_store(&stage.held, false);
    pthread_join(holder, NULL);
    pthread_join(crowd[0], NULL);
    pthread_join(crowd[1], NULL);
}

static void *pass_by(void *unused)
{
    simba__gate_pass_by(&stage.gate, &stage.lock);
    stage.total++;
    leave();
    return unused;
}

/* While a thread of the client's own waits for the lock, a busy one does not take it again. */
static void the_client_comes_first(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HOT_TURNS; i++) {
        pthread_t thread;
        enter();
        assert_int_equal(pthread_create(&thread, NULL, pass_by, NULL), 0);
        const int64_t until_ns = simba__clock_mono_ns() + ref_scaled_ms(10000) * 1000000;
        while (atomic_load(&stage.gate.urgent) == 0) {
            assert_true(simba__clock_mono_ns() < until_ns);
            sched_yield();
        }
        leave();
        enter();
        assert_int_equal(stage.total, i + 1);
        leave();
        pthread_join(thread, NULL);
    }
}

static void *count(void *unused)
{
    for (int i = 0; i < EACH; i++) {
        enter();
        stage.total++;
        leave();
    }
    return unused;
}

static void one_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[CROWD];
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    join_all(threads);
    assert_int_equal(stage.total, CROWD * EACH);
    assert_int_equal(atomic_load(&stage.gate.length), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(they_pass_in_the_order_of_their_coming, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_busy_thread_does_not_keep_the_others_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_in_line_comes_uncalled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_leaves_calls_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_joins_the_line_wakes_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_client_comes_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_at_a_time, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
