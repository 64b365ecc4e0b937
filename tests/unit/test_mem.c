/* A program may bring its own allocator, and the fault tests make allocations fail through the same door: nothing may
 * go around it, and changing it must be all or nothing. */
#include "util/mem.h"

#include <simba.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"

static struct {
    unsigned mallocs, reallocs, frees;
    bool fails;
} seen;

static void *counting_malloc(size_t size)
{
    seen.mallocs++;
    if (seen.fails || size == 0) /* an allocator may answer so */
        return NULL;
    void *pointer = malloc(size);
    if (pointer)
        memset(pointer, 0xA5, size); /* nobody may rely on zeroes */
    return pointer;
}

static void *counting_realloc(void *pointer, size_t size)
{
    seen.reallocs++;
    return seen.fails ? NULL : realloc(pointer, size);
}

static void counting_free(void *pointer)
{
    seen.frees++;
    free(pointer);
}

static int use_counting(void **state)
{
    memset(&seen, 0, sizeof seen);
    return simba_set_allocator(counting_malloc, counting_realloc, counting_free);
}

static int use_system(void **state)
{
    return simba_set_allocator(NULL, NULL, NULL);
}

/* Every function goes to the allocator that was set. */
static void everything_goes_through_the_door(void **state)
{
    void *plain = simba__malloc(10);
    assert_int_equal(seen.mallocs, 1);
    plain = simba__realloc(plain, 20);
    assert_int_equal(seen.reallocs, 1);
    void *zeroed = simba__calloc(3, 5);
    assert_int_equal(seen.mallocs, 2);
    char *copy = simba__strdup("text");
    assert_int_equal(seen.mallocs, 3);
    simba__free(plain);
    simba__free(zeroed);
    simba__free(copy);
    assert_int_equal(seen.frees, 3);
}

/* A product that overflows is refused before anybody is asked. */
static void calloc_notices_overflow(void **state)
{
    assert_null(simba__calloc(SIZE_MAX, 2));
    assert_null(simba__calloc(2, SIZE_MAX));
    assert_null(simba__calloc(SIZE_MAX / 2 + 1, 2)); /* would be 0 */
    assert_null(simba__calloc((size_t)1 << 33, (size_t)1 << 33));
    assert_int_equal(seen.mallocs, 0);
}

/* Nothing of something is still a pointer, so that NULL means failure and only that. */
static void calloc_of_nothing_is_not_null(void **state)
{
    void *none = simba__calloc(0, 8);
    void *empty = simba__calloc(8, 0);
    assert_non_null(none);
    assert_non_null(empty);
    simba__free(none);
    simba__free(empty);
}

/* An allocator that has nothing left is passed on as NULL, and what realloc was given stays. */
static void failure_is_null(void **state)
{
    char *kept = simba__strdup("kept");
    seen.fails = true;
    assert_null(simba__malloc(1));
    assert_null(simba__calloc(1, 1));
    assert_null(simba__strdup("x"));
    assert_null(simba__realloc(kept, 100));
    seen.fails = false;
    assert_string_equal(kept, "kept");
    simba__free(kept);
}

int main(void)
{
#define COUNTED(test) cmocka_unit_test_setup_teardown(test, use_counting, use_system)
    const struct CMUnitTest tests[] = {
        COUNTED(everything_goes_through_the_door),
        COUNTED(calloc_notices_overflow),
        COUNTED(calloc_of_nothing_is_not_null),
        COUNTED(failure_is_null),
    };
    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
