/* A mutex that is not watched makes waiters slow, one that stays watched costs the store something for ever, and a
 * topic that is freed while it is watched leaves the store with a dangling pointer. The store here is a stand-in that
 * only keeps count, and fails the test when it is told something that it was told already. */
#include "runtime/topics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "util/name.h"
#include "util/random.h"

/* --- the stand-in --------------------------------------------------------------------------------- */

enum { WATCHED_MAX = 4096 };

typedef struct counting_store {
    unsigned watches, unwatches, changes;
    bool refuses;
    simba_topic *watched[WATCHED_MAX];
    size_t count;
} counting_store;

static size_t position(const counting_store *store, const simba_topic *topic)
{
    size_t i = 0;
    while (i < store->count && store->watched[i] != topic)
        i++;
    return i;
}

static bool is_watched(const counting_store *store, const simba__topic *topic)
{
    return position(store, &topic->shown) < store->count;
}

static int count_watch(void *self, simba_topic *topic)
{
    counting_store *store = self;
    store->watches++;
    assert_int_equal(position(store, topic), store->count);
    assert_true(store->count < WATCHED_MAX);
    assert_true(strlen(topic->mutex) > 0);
    if (store->refuses)
        return SIMBA_EUNAVAILABLE;
    topic->backend_data = store;
    store->watched[store->count++] = topic;
    return 0;
}

static void count_unwatch(void *self, simba_topic *topic)
{
    counting_store *store = self;
    store->unwatches++;
    const size_t i = position(store, topic);
    assert_true(i < store->count);
    assert_ptr_equal(topic->backend_data, store);
    assert_true(strlen(topic->mutex) > 0);
    store->watched[i] = store->watched[--store->count];
}

static void count_change(void *self, simba_topic *topic)
{
    counting_store *store = self;
    store->changes++;
    assert_true(position(store, topic) < store->count);
}

static const simba_backend backend = {.size = sizeof(simba_backend),
                                      .version = SIMBA_BACKEND_VERSION,
                                      .watch = count_watch,
                                      .unwatch = count_unwatch,
                                      .every_changed = count_change};

static struct {
    simba__topics topics;
    counting_store store;
} f;

static int set_up(void **state)
{
    (void)state;
    memset(&f, 0, sizeof f);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    simba__topics_fini(&f.topics);
    return simba_set_allocator(NULL, NULL, NULL);
}

static simba__topic *get(const char *mutex)
{
    simba__topic *topic = simba__topics_get(&f.topics, mutex);
    assert_non_null(topic);
    return topic;
}

static void put(simba__topic *topic)
{
    simba__topics_put(&f.topics, topic);
}

static void want(simba__topic *topic)
{
    simba__topic_want(&f.topics, topic, false);
}

static void unwant(simba__topic *topic)
{
    simba__topic_unwant(&f.topics, topic, false);
}

static void settle(bool keep)
{
    f.topics.keeps = keep;
    simba__topics_settle(&f.topics, &backend, &f.store);
    assert_null(f.topics.dirty);
}

static void assert_told(unsigned watches, unsigned unwatches)
{
    assert_int_equal(f.store.watches, watches);
    assert_int_equal(f.store.unwatches, unwatches);
}

/* --- who wants to hear of every change ---------------------------------------------------------------- */

/* The store knows it from the beginning, and is told when it changes; a topic that nobody watches is nobody's business. */
static void the_store_knows_who_hears_of_everything(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    simba__topic_want(&f.topics, a, true);
    settle(false);
    assert_true(a->shown.every);
    assert_int_equal(f.store.changes, 0);
    want(a);
    simba__topic_unwant(&f.topics, a, true);
    settle(false);
    assert_false(a->shown.every);
    assert_int_equal(f.store.changes, 1);
    simba__topic_want(&f.topics, a, true);
    settle(false);
    assert_true(a->shown.every);
    assert_int_equal(f.store.changes, 2);
    assert_told(1, 0);
    unwant(a);
    simba__topic_unwant(&f.topics, a, true);
    settle(false);
    assert_told(1, 1);
    assert_int_equal(f.store.changes, 2);
    put(a);
}

/* --- names ---------------------------------------------------------------------------------------- */

/* One name, one topic, however many ask for it; another name, another. */
static void a_name_has_one_topic(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    assert_ptr_equal(get("a"), a);
    assert_int_equal(a->handles, 2);
    assert_ptr_not_equal(get("b"), a);
    assert_ptr_not_equal(get("A"), a);
    assert_int_equal(f.topics.table.count, 3);
    assert_string_equal(a->shown.mutex, "a");
}

/* The name is a copy: what the caller does with its own later is of no concern. */
static void the_name_is_copied(void **state)
{
    (void)state;
    char name[] = "orders";
    simba__topic *topic = get(name);
    name[0] = 'b';
    assert_string_equal(topic->shown.mutex, "orders");
    assert_ptr_equal(get("orders"), topic);
}

/* Many topics are found again, and stay where they are while the table grows. */
static void many_topics_stay_put(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    static simba__topic *all[MANY];
    char name[32];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "mutex-%zu", i);
        all[i] = get(name);
        want(all[i]);
    }
    settle(false);
    assert_told(MANY, 0);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "mutex-%zu", i);
        assert_ptr_equal(get(name), all[i]);
        put(all[i]);
    }
    assert_int_equal(f.topics.table.count, MANY);
    assert_true(f.topics.table.capacity >= MANY);
    for (size_t i = 0; i < MANY; i++) {
        unwant(all[i]);
        put(all[i]);
    }
    settle(false);
    assert_told(MANY, MANY);
    assert_int_equal(f.topics.table.count, 0);
}

/* A topic goes when the last who names it is gone, and no earlier than the next settling. */
static void the_last_handle_frees(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    get("a");
    put(a);
    settle(false);
    assert_int_equal(f.topics.table.count, 1);
    put(a);
    assert_int_equal(f.topics.table.count, 1);
    settle(false);
    assert_int_equal(f.topics.table.count, 0);
    assert_told(0, 0);
}

/* Who comes back before the settling finds the same topic alive. */
static void a_topic_is_revived(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    put(a);
    assert_ptr_equal(get("a"), a);
    settle(false);
    assert_int_equal(f.topics.table.count, 1);
    assert_string_equal(a->shown.mutex, "a");
}

/* --- watching ------------------------------------------------------------------------------------- */

/* Naming a mutex is not waiting for it. */
static void naming_watches_nothing(void **state)
{
    (void)state;
    get("a");
    settle(false);
    settle(true);
    assert_told(0, 0);
}

/* The store is told when the turn is settled, once, however many want it. */
static void many_wants_are_one_watch(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    want(a);
    want(a);
    assert_told(0, 0);
    settle(false);
    assert_told(1, 0);
    assert_true(is_watched(&f.store, a));
    want(a);
    settle(false);
    settle(false);
    assert_told(1, 0);
}

/* And once again when the last of them is content. */
static void the_last_unwant_is_one_unwatch(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    want(a);
    want(a);
    settle(false);
    unwant(a);
    settle(false);
    assert_told(1, 0);
    unwant(a);
    assert_told(1, 0);
    settle(false);
    assert_told(1, 1);
    want(a);
    settle(false);
    assert_told(2, 1);
}

/* What cancels itself out within a turn does not reach the store. */
static void back_and_forth_is_nothing(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    want(a);
    unwant(a);
    settle(false);
    assert_told(0, 0);
    want(a);
    settle(false);
    assert_told(1, 0);
    for (int i = 0; i < 3; i++) {
        unwant(a);
        want(a);
    }
    settle(false);
    assert_told(1, 0);
    assert_true(is_watched(&f.store, a));
}

/* Where watching costs nothing, a topic stays watched while anybody names it, and goes with the last of them. */
static void kept_topics_stay_watched(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    want(a);
    settle(true);
    unwant(a);
    settle(true);
    assert_told(1, 0);
    want(a);
    settle(true);
    assert_told(1, 0);
    unwant(a);
    put(a);
    settle(true);
    assert_told(1, 1);
    assert_int_equal(f.topics.table.count, 0);
}

/* A topic is unwatched before it is freed, also when both happen in one turn. */
static void a_topic_is_unwatched_before_it_goes(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    want(a);
    settle(false);
    unwant(a);
    put(a);
    settle(false);
    assert_told(1, 1);
    assert_int_equal(f.store.count, 0);
    assert_int_equal(f.topics.table.count, 0);
}

/* A store that cannot watch is not told to unwatch; the next who waits makes it try again. */
static void a_refused_watch_is_not_undone(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    f.store.refuses = true;
    want(a);
    settle(false);
    assert_told(1, 0);
    assert_false(a->watched);
    settle(false);
    assert_told(1, 0);
    unwant(a);
    settle(false);
    assert_told(1, 0);
    f.store.refuses = false;
    want(a);
    settle(false);
    assert_told(2, 0);
    assert_true(a->watched);
}

/* What the store keeps with a topic is its own. */
static void the_stores_data_is_left_alone(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    assert_null(a->shown.backend_data);
    want(a);
    settle(false);
    get("a");
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", i);
        get(name);
    }
    assert_ptr_equal(a->shown.backend_data, &f.store);
}

/* --- the end -------------------------------------------------------------------------------------- */

/* A client that closes watches nothing any more, whoever still wants what. */
static void ending_unwatches_everything(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    simba__topic *b = get("b");
    get("c");
    want(a);
    want(b);
    settle(true);
    unwant(b); /* watched only because it is kept */
    settle(true);
    assert_told(2, 0);
    simba__topics_unwatch_all(&f.topics);
    assert_told(2, 0);
    settle(true);
    assert_told(2, 2);
    assert_int_equal(f.store.count, 0);
    /* Names stay for their owners to put. */
    assert_int_equal(f.topics.table.count, 3);
}

/* After the end nobody is heard any more, and handles can still be put. */
static void nothing_is_watched_after_the_end(void **state)
{
    (void)state;
    simba__topic *a = get("a");
    simba__topics_unwatch_all(&f.topics);
    settle(false);
    want(a);
    settle(false);
    settle(true);
    assert_told(0, 0);
    unwant(a);
    put(a);
    settle(false);
    assert_int_equal(f.topics.table.count, 0);
}

/* Ending without a single topic is fine too. */
static void ending_with_nothing(void **state)
{
    (void)state;
    simba__topics_unwatch_all(&f.topics);
    settle(false);
    assert_told(0, 0);
}

/* --- no memory ------------------------------------------------------------------------------------ */

static unsigned allocations_left;

static void *scarce_malloc(size_t size)
{
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    return malloc(size);
}

/* Whichever allocation fails, there is no topic, and those that were there are still found. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_int_equal(simba_set_allocator(scarce_malloc, realloc, free), 0);
    for (size_t count = 0; count < 100; count++) {
        char name[16];
        snprintf(name, sizeof name, "m%zu", count);
        for (unsigned enough = 0;; enough++) {
            allocations_left = enough;
            if (simba__topics_get(&f.topics, name))
                break;
            assert_true(enough < 2);
            assert_int_equal(f.topics.table.count, count);
        }
        allocations_left = 0;
        for (size_t i = 0; i <= count; i++) { /* finding needs none */
            snprintf(name, sizeof name, "m%zu", i);
            put(get(name));
        }
    }
}

/* --- names of owners --------------------------------------------------------------------------------- */

/* Ten thousand contenders that wait for one owner know one copy of its name. */
static void a_name_is_heard_once(void **state)
{
    (void)state;
    simba__topic *topic = get("m");
    const char *name = simba__topic_hear(topic, "one");
    assert_string_equal(name, "one");
    assert_ptr_equal(simba__topic_hear(topic, "one"), name);
    simba__name_take(name);
    assert_string_equal(simba__topic_hear(topic, "other"), "other");
    assert_string_equal(name, "one"); /* it was taken */
    simba__name_drop(name);
}

static void an_owner_without_memory_for_its_name_is_unknown(void **state)
{
    (void)state;
    simba__topic *topic = get("m");
    assert_int_equal(simba_set_allocator(scarce_malloc, realloc, free), 0);
    allocations_left = 0;
    assert_string_equal(simba__topic_hear(topic, "one"), "?");
    allocations_left = 1;
    assert_string_equal(simba__topic_hear(topic, "one"), "one");
}

/* --- random operations ---------------------------------------------------------------------------- */

enum { NAMES = 40, OPERATIONS = 3000, ROUNDS = 30 };

typedef struct expectation {
    simba__topic *topic;
    unsigned handles, interest;
    bool watched;
} expectation;

static void settle_agrees(expectation *all, bool keep)
{
    settle(keep);
    size_t named = 0;
    size_t watched = 0;
    for (size_t n = 0; n < NAMES; n++) {
        expectation *e = &all[n];
        const bool kept = keep && e->watched && e->handles > 0;
        e->watched = !f.topics.ending && (e->interest > 0 || kept);
        named += e->handles > 0;
        watched += e->watched;
        if (e->handles > 0)
            assert_int_equal(is_watched(&f.store, e->topic), e->watched);
    }
    assert_int_equal(f.topics.table.count, named);
    assert_int_equal(f.store.count, watched);
}

/* One party comes, goes, begins or ceases to wait. As in life, only who names a mutex waits for it. */
static void change(expectation *e, const char *name, uint64_t dice)
{
    if (dice == 0 && e->handles < 3) {
        e->topic = get(name);
        e->handles++;
    } else if (dice == 1 && e->handles > e->interest) {
        put(e->topic);
        e->handles--;
    } else if (dice == 2 && e->handles > e->interest) {
        want(e->topic);
        e->interest++;
    } else if (dice == 3 && e->interest > 0) {
        unwant(e->topic);
        e->interest--;
    }
}

static void run_round(uint64_t seed, bool keep)
{
    expectation all[NAMES] = {0};
    for (int i = 0; i < OPERATIONS; i++) {
        const size_t n = simba__random_next(&seed) % NAMES;
        const uint64_t dice = simba__random_next(&seed) % 5;
        char name[16];
        snprintf(name, sizeof name, "n%zu", n);
        if (i == OPERATIONS - 100)
            simba__topics_unwatch_all(&f.topics);
        if (dice < 4)
            change(&all[n], name, dice);
        else
            settle_agrees(all, keep);
    }
    settle_agrees(all, keep);
    assert_true(f.store.watches > 50);
    assert_int_equal(f.store.watches, f.store.unwatches);
}

/* Naming, wanting and their opposites at random: after each settling the store watches exactly what it should. */
static void random_operations_agree_with_the_counts(void **state)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        run_round(round, round % 2);
        simba__topics_fini(&f.topics);
        set_up(state);
    }
}

/* A watch that the store refused is asked for again, once each time somebody comes by, and no more once it holds. */
static void a_refused_watch_is_tried_again(void **state)
{
    (void)state;
    simba__topic *topic = get("orders");
    f.store.refuses = true;
    want(topic);
    settle(false);
    assert_int_equal(f.store.watches, 1);
    settle(false);
    assert_int_equal(f.store.watches, 1);
    f.store.refuses = false;
    simba__topic_retry(&f.topics, topic);
    settle(false);
    assert_int_equal(f.store.watches, 2);
    assert_true(is_watched(&f.store, topic));
    simba__topic_retry(&f.topics, topic);
    settle(false);
    assert_int_equal(f.store.watches, 2);
    unwant(topic);
    settle(false);
    simba__topic_retry(&f.topics, topic);
    settle(false);
    assert_int_equal(f.store.watches, 2);
    put(topic);
    settle(false);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_store_knows_who_hears_of_everything),
        TEST(a_name_has_one_topic),
        TEST(the_name_is_copied),
        TEST(many_topics_stay_put),
        TEST(the_last_handle_frees),
        TEST(a_topic_is_revived),
        TEST(naming_watches_nothing),
        TEST(many_wants_are_one_watch),
        TEST(the_last_unwant_is_one_unwatch),
        TEST(back_and_forth_is_nothing),
        TEST(kept_topics_stay_watched),
        TEST(a_topic_is_unwatched_before_it_goes),
        TEST(a_refused_watch_is_not_undone),
        TEST(a_refused_watch_is_tried_again),
        TEST(the_stores_data_is_left_alone),
        TEST(ending_unwatches_everything),
        TEST(nothing_is_watched_after_the_end),
        TEST(ending_with_nothing),
        TEST(every_allocation_may_fail),
        TEST(a_name_is_heard_once),
        TEST(an_owner_without_memory_for_its_name_is_unknown),
        TEST(random_operations_agree_with_the_counts),
    };
    return cmocka_run_group_tests_name("topics", tests, NULL, NULL);
}
