/* Threads that sleep for a condition, and calls that others begin for them. */
#include "runtime/condition.h"

#include <pthread.h>
#include <string.h>

#include "core/timing.h"
#include "lib/cm.h"
#include "lib/referee.h"
#include "runtime/inbox.h"
#include "util/clock.h"

enum { CROWD = 4, POSTS = 5000 };

#define LONG_MS ref_scaled_ms(10000)

typedef struct bed {
    simba__sleeper sleeper;
    simba_local until;
    pthread_t thread;
    atomic_bool up;
    bool called;
} bed;

static void *sleep_in(void *arg)
{
    bed *b = arg;
    b->called = simba__sleep(&b->sleeper, b->until);
    atomic_store(&b->up, true);
    return NULL;
}

static simba_local in_ms(int64_t ms)
{
    return simba__local_add(simba__clock_boot(), ms * SIMBA__NS_PER_MS);
}

static void lie_down(bed *b, simba__condition *condition, simba__list *all)
{
    *b = (bed){.until = SIMBA__NEVER};
    simba__list_append(&condition->sleepers, &b->sleeper.of_condition);
    simba__list_append(all, &b->sleeper.of_turn);
}

/* Who is noted sleeps on until the wake-ups are made. All of them are made, in order, whoever has gone to sleep by then. */
static void all_are_called(void **state)
{
    (void)state;
    bed beds[CROWD];
    simba__condition condition = {{0}};
    simba__list all = {0};
    simba__wakeups wakeups = {0};
    for (size_t i = 0; i < CROWD; i++)
        lie_down(&beds[i], &condition, &all);
    for (size_t i = 0; i < CROWD / 2; i++)
        assert_int_equal(pthread_create(&beds[i].thread, NULL, sleep_in, &beds[i]), 0);
    simba__condition_wake(&condition, &wakeups, false);
    assert_int_equal(condition.sleepers.count, 0);
    assert_int_equal(all.count, 0);
    for (size_t i = 0; i < CROWD; i++) {
        assert_true(beds[i].sleeper.noted && !beds[i].sleeper.let_go);
        assert_int_not_equal(atomic_load(&beds[i].sleeper.called), SIMBA__CALLED);
        assert_false(atomic_load(&beds[i].up));
    }
    simba__wakeups_make(&wakeups);
    for (size_t i = CROWD / 2; i < CROWD; i++) /* these come too late to sleep */
        assert_int_equal(pthread_create(&beds[i].thread, NULL, sleep_in, &beds[i]), 0);
    for (size_t i = 0; i < CROWD; i++) {
        assert_true(REF_WITHIN(LONG_MS, atomic_load(&beds[i].up)));
        pthread_join(beds[i].thread, NULL);
        assert_true(beds[i].called);
    }
}

static void one_is_called_or_let_go(void **state)
{
    (void)state;
    bed beds[2];
    simba__condition condition = {{0}};
    simba__list all = {0};
    simba__wakeups wakeups = {0};
    lie_down(&beds[0], &condition, &all);
    lie_down(&beds[1], &condition, &all);
    simba__sleeper_wake(&beds[1].sleeper, &wakeups, true);
    assert_int_equal(condition.sleepers.count, 1);
    assert_int_equal(all.count, 1);
    assert_ptr_equal(wakeups.first, &beds[1].sleeper);
    assert_true(beds[1].sleeper.let_go);
    assert_false(beds[0].sleeper.noted);
}

static void time_comes(void **state)
{
    (void)state;
    simba__sleeper self = {.noted = false};
    const simba_local until = in_ms(20);
    assert_false(simba__sleep(&self, until));
    assert_true(simba__local_reached(simba__clock_boot(), until));
    assert_false(simba__sleep(&self, (simba_local){0}));
    simba__wakeups wakeups = {0};
    simba__sleeper_wake(&self, &wakeups, false);
    simba__wakeups_make(&wakeups);
    assert_true(simba__sleep(&self, (simba_local){0}));
}

/* --- posts ------------------------------------------------------------------------------------------------ */

static simba__inbox inbox;

static void *post_many(void *arg)
{
    simba__post *posts = arg;
    for (size_t i = 0; i < POSTS; i++)
        assert_true(simba__inbox_post(&inbox, &posts[i]));
    return NULL;
}

/* Calls of one thread keep their order, and none is lost between threads that post and one that takes. */
static void posts_are_taken_in_order(void **state)
{
    (void)state;
    static simba__post posts[CROWD][POSTS];
    size_t taken[CROWD] = {0};
    pthread_t threads[CROWD];
    simba__inbox_open(&inbox);
    assert_false(simba__inbox_has_posts(&inbox));
    assert_null(simba__inbox_take(&inbox));
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, posts[i]), 0);
    for (size_t total = 0; total < CROWD * POSTS;)
        for (const simba__post *post = simba__inbox_take(&inbox); post; post = post->next, total++) {
            const size_t thread = (size_t)(post - posts[0]) / POSTS;
            assert_ptr_equal(post, &posts[thread][taken[thread]]);
            taken[thread]++;
        }
    for (size_t i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    assert_false(simba__inbox_has_posts(&inbox));
}

/* Nobody can leave a call that nobody is going to find. */
static void is_closed_only_when_empty(void **state)
{
    (void)state;
    simba__post post = {.begun = false};
    simba__inbox_init(&inbox);
    assert_false(simba__inbox_has_posts(&inbox));
    assert_false(simba__inbox_post(&inbox, &post));
    simba__inbox_open(&inbox);
    assert_true(simba__inbox_post(&inbox, &post));
    assert_true(simba__inbox_has_posts(&inbox));
    assert_false(simba__inbox_close(&inbox));
    assert_ptr_equal(simba__inbox_take(&inbox), &post);
    assert_true(simba__inbox_close(&inbox));
    assert_false(simba__inbox_post(&inbox, &post));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_called),
        cmocka_unit_test(one_is_called_or_let_go),
        cmocka_unit_test(time_comes),
        cmocka_unit_test(posts_are_taken_in_order),
        cmocka_unit_test(is_closed_only_when_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
