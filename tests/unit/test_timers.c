/* Every deadline of a client is in one heap, and a timer that is lost or late there is a lease that is not renewed. The
 * last test here drives the heap with random operations against a list that is simply kept sorted. */
#include "client/timers.h"

#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "util/random.h"

static simba_local at(int64_t ns)
{
    return (simba_local){ns};
}

static void set(simba__timers *timers, simba_timer *timer, int64_t ns)
{
    simba__timers_set(timers, timer, at(ns));
}

static void reserve(simba__timers *timers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(simba__timers_reserve(timers, 1), 0);
}

/* No parent is later than its child, and every timer knows its place. */
static void check_heap(const simba__timers *timers)
{
    assert_true(timers->count <= timers->reserved);
    assert_true(timers->reserved < timers->capacity || timers->reserved == 0);
    for (size_t i = 1; i <= timers->count; i++) {
        assert_int_equal(timers->heap[i]->index, i);
        if (i > 1)
            assert_true(timers->heap[i / 2]->at.ns <= timers->heap[i]->at.ns);
    }
}

/* "Never" is not a time to wait for. */
static void never_means_cleared(void **state)
{
    simba__timers timers = {0};
    simba_timer timer = {0};
    reserve(&timers, 1);
    set(&timers, &timer, INT64_MAX);
    assert_int_equal(timers.count, 0);
    set(&timers, &timer, 10);
    set(&timers, &timer, INT64_MAX);
    assert_int_equal(timers.count, 0);
    assert_int_equal(timer.index, 0);
    assert_int_equal(simba__timers_earliest(&timers).ns, INT64_MAX);
    simba__timers_fini(&timers);
}

/* --- memory --------------------------------------------------------------------------------------- */

static unsigned reallocs;
static bool no_memory;

static void *counting_realloc(void *pointer, size_t size)
{
    reallocs++;
    return no_memory ? NULL : realloc(pointer, size);
}

static int use_counting(void **state)
{
    reallocs = 0;
    no_memory = false;
    return simba_set_allocator(malloc, counting_realloc, free);
}

static int use_system(void **state)
{
    return simba_set_allocator(NULL, NULL, NULL);
}

/* Whoever has reserved can set without asking for memory, at any time. */
static void setting_never_allocates(void **state)
{
    enum { COUNT = 100 };
    simba__timers timers = {0};
    static simba_timer many[COUNT];
    memset(many, 0, sizeof many);
    reserve(&timers, COUNT);
    assert_true(reallocs < 10); /* it grows by doubling */
    reallocs = 0;
    no_memory = true;
    for (int64_t i = 0; i < COUNT; i++)
        set(&timers, &many[i], COUNT - i);
    check_heap(&timers);
    for (int64_t i = COUNT; i-- > 0;)
        assert_ptr_equal(simba__timers_pop(&timers, at(COUNT)), &many[i]);
    assert_int_equal(reallocs, 0);
    simba__timers_fini(&timers);
}

/* A reservation that fails changes nothing: what was set stays set. */
static void a_failed_reservation_changes_nothing(void **state)
{
    simba__timers timers = {0};
    simba_timer many[64] = {0};
    no_memory = true;
    assert_int_equal(simba__timers_reserve(&timers, 1), SIMBA_ENOMEM);
    assert_int_equal(timers.reserved, 0);
    no_memory = false;
    size_t reserved = 0;
    do {
        reserve(&timers, 1);
        set(&timers, &many[reserved], 100 - (int64_t)reserved);
        reserved++;
        no_memory = true;
        const int rc = simba__timers_reserve(&timers, 1);
        no_memory = false;
        if (rc == 0)
            simba__timers_unreserve(&timers, 1);
        else
            assert_int_equal(rc, SIMBA_ENOMEM);
        assert_int_equal(timers.reserved, reserved);
        check_heap(&timers);
    } while (reserved < 64);
    for (size_t i = 64; i-- > 0;)
        assert_ptr_equal(simba__timers_pop(&timers, at(100)), &many[i]);
    simba__timers_fini(&timers);
}

/* --- random operations ---------------------------------------------------------------------------- */

enum { TIMERS = 60, OPERATIONS = 4000, ROUNDS = 40 };

/* What the heap should hold: the numbers of timers that are set, sorted by time. */
typedef struct sorted_list {
    struct {
        size_t timer;
        int64_t ns;
    } entries[TIMERS];
    size_t count;
} sorted_list;

static void list_remove(sorted_list *list, size_t timer)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->entries[i].timer == timer) {
            list->count--;
            memmove(&list->entries[i], &list->entries[i + 1], (list->count - i) * sizeof list->entries[0]);
            return;
        }
}

static void list_insert(sorted_list *list, size_t timer, int64_t ns)
{
    size_t i = list->count++;
    for (; i > 0 && list->entries[i - 1].ns > ns; i--)
        list->entries[i] = list->entries[i - 1];
    list->entries[i].timer = timer;
    list->entries[i].ns = ns;
}

/* Pop once. Among equals the heap may choose, but it must be one of those that are due the earliest. */
static bool pop_agrees(simba__timers *timers, simba_timer *all, sorted_list *list, int64_t now)
{
    simba_timer *timer = simba__timers_pop(timers, at(now));
    if (list->count == 0 || list->entries[0].ns > now) {
        assert_null(timer);
        return false;
    }
    assert_non_null(timer);
    assert_int_equal(timer->at.ns, list->entries[0].ns);
    assert_int_equal(timer->index, 0);
    const size_t number = (size_t)(timer - all);
    const size_t before = list->count;
    list_remove(list, number);
    assert_int_equal(list->count, before - 1); /* it was set */
    return true;
}

static void run_round(uint64_t seed)
{
    simba__timers timers = {0};
    simba_timer all[TIMERS] = {0};
    sorted_list list = {.count = 0};
    int64_t now = 0;
    reserve(&timers, TIMERS);
    for (int i = 0; i < OPERATIONS; i++) {
        const size_t timer = simba__random_next(&seed) % TIMERS;
        const uint64_t dice = simba__random_next(&seed) % 20;
        if (dice < 11) {
            const int64_t ns = dice == 0 ? INT64_MAX : now + simba__random_range(&seed, -10, 100);
            set(&timers, &all[timer], ns);
            list_remove(&list, timer);
            if (ns != INT64_MAX)
                list_insert(&list, timer, ns);
        } else if (dice < 15) {
            simba__timers_clear(&timers, &all[timer]);
            list_remove(&list, timer);
        } else {
            now += simba__random_range(&seed, 0, 20);
            while (pop_agrees(&timers, all, &list, now))
                check_heap(&timers);
        }
        assert_int_equal(timers.count, list.count);
        assert_int_equal(simba__timers_earliest(&timers).ns, list.count ? list.entries[0].ns : INT64_MAX);
        check_heap(&timers);
    }
    simba__timers_fini(&timers);
}

/* Setting, moving, clearing and popping at random, compared with the sorted list after every step. */
static void random_operations_agree_with_a_sorted_list(void **state)
{
    for (uint64_t round = 1; round <= ROUNDS; round++)
        run_round(round);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_means_cleared),
        cmocka_unit_test_setup_teardown(setting_never_allocates, use_counting, use_system),
        cmocka_unit_test_setup_teardown(a_failed_reservation_changes_nothing, use_counting, use_system),
        cmocka_unit_test(random_operations_agree_with_a_sorted_list),
    };
    return cmocka_run_group_tests_name("timers", tests, NULL, NULL);
}
