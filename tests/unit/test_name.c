/* The id of a contender and those of owners are shared by all who know them. If one is freed too early, an owner is shown with
 * garbage for a name; too late, and a process that hands a mutex over for months grows. */
#include "util/name.h"

#include <simba.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"

static int live;
static bool is_full;

static void *counting_malloc(size_t size)
{
    live += !is_full;
    return is_full ? NULL : malloc(size);
}

static void counting_free(void *pointer)
{
    live--;
    free(pointer);
}

static int use_counting(void **state)
{
    (void)state;
    live = 0;
    is_full = false;
    return simba_set_allocator(counting_malloc, realloc, counting_free);
}

static int use_system(void **state)
{
    (void)state;
    return simba_set_allocator(NULL, NULL, NULL);
}

static void a_name_is_a_copy(void **state)
{
    (void)state;
    char text[] = "host.1.abc";
    const char *name = simba__name_make(text);
    text[0] = 'x';
    assert_string_equal(name, "host.1.abc");
    simba__name_drop(name);
    assert_int_equal(live, 0);
}

static void the_last_one_frees(void **state)
{
    (void)state;
    const char *name = simba__name_make("host.1.abc");
    assert_ptr_equal(simba__name_take(name), name);
    simba__name_drop(name);
    assert_string_equal(name, "host.1.abc");
    assert_int_equal(live, 1);
    simba__name_drop(name);
    assert_int_equal(live, 0);
}

static void one_takes_the_place_of_another(void **state)
{
    (void)state;
    const char *one = simba__name_make("one");
    const char *other = simba__name_make("other");
    const char *held = simba__name_take(one);
    simba__name_replace(held, held);
    simba__name_replace(held, other);
    held = other;
    simba__name_drop(one);
    assert_int_equal(live, 1);
    simba__name_drop(other);
    assert_string_equal(held, "other");
    simba__name_replace(held, NULL);
    assert_int_equal(live, 0);
    simba__name_replace(NULL, NULL);
}

static void without_memory_there_is_none(void **state)
{
    (void)state;
    is_full = true;
    assert_null(simba__name_make("host.1.abc"));
    const char *unknown = simba__name_unknown();
    assert_string_equal(unknown, "?");
    simba__name_drop(unknown);
    assert_string_equal(simba__name_unknown(), "?");
    assert_int_equal(live, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, use_counting, use_system)
    const struct CMUnitTest tests[] = {
        TEST(a_name_is_a_copy),
        TEST(the_last_one_frees),
        TEST(one_takes_the_place_of_another),
        TEST(without_memory_there_is_none),
    };
    return cmocka_run_group_tests_name("name", tests, NULL, NULL);
}
