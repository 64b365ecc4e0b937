/* Objects that share blocks of memory: a crowd that comes and goes leaves nothing behind. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"

#include <simba.h>

#include "util/slab.h"

enum { SIZE = 100, CROWD = 10000 };

typedef struct object {
    char bytes[SIZE];
} object;

static size_t allocated; /* blocks of malloc */
static bool fails;

static void *counted_malloc(size_t size)
{
    allocated += !fails;
    return fails ? NULL : malloc(size);
}

static void counted_free(void *pointer)
{
    allocated -= pointer != NULL;
    free(pointer);
}

static simba__slab slab;

static int setup(void **state)
{
    (void)state;
    allocated = 0;
    fails = false;
    assert_int_equal(simba_set_allocator(counted_malloc, realloc, counted_free), 0);
    simba__slab_init(&slab, sizeof(object));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    simba__slab_fini(&slab);
    assert_int_equal(allocated, 0);
    return simba_set_allocator(NULL, NULL, NULL);
}

/* Each has memory of its own, for any type. */
static void objects_are_apart(void **state)
{
    (void)state;
    static object *crowd[CROWD];
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = simba__slab_take(&slab);
        assert_int_equal((uintptr_t)crowd[i] % _Alignof(max_align_t), 0);
        memset(crowd[i], (int)(i % 251), SIZE);
    }
    for (size_t i = 0; i < CROWD; i++)
        for (size_t j = 0; j < SIZE; j++)
            assert_int_equal((unsigned char)crowd[i]->bytes[j], i % 251);
    assert_true(allocated < CROWD / 100);
    for (size_t i = 0; i < CROWD; i++)
        simba__slab_give(&slab, crowd[i]);
}

/* Who goes in the order of coming gives the blocks back one after the other. One stays, for the next. */
static void leave_nothing_behind(void)
{
    static object *crowd[CROWD];
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = simba__slab_take(&slab);
        crowd[i]->bytes[0] = 1;
    }
    const size_t most = slab.blocks;
    for (size_t i = 0; i < CROWD / 2; i++)
        simba__slab_give(&slab, crowd[i]);
    assert_true(slab.blocks <= most / 2 + 3);
    for (size_t i = CROWD / 2; i < CROWD; i++)
        simba__slab_give(&slab, crowd[i]);
    assert_int_equal(slab.blocks, 1);
}

static void crowd_leaves_nothing_behind(void **state)
{
    (void)state;
    leave_nothing_behind();
    assert_int_equal(allocated, 1);
}

/* The same with memory of the system, which large blocks have from the kernel. */
static void by_the_kernel(void **state)
{
    (void)state;
    assert_int_equal(simba_set_allocator(NULL, NULL, NULL), 0);
    leave_nothing_behind();
    simba__slab_fini(&slab);
}

/* One at a time costs no allocation. */
static void one_at_a_time(void **state)
{
    (void)state;
    object *first = simba__slab_take(&slab);
    simba__slab_give(&slab, first);
    fails = true;
    assert_ptr_equal(simba__slab_take(&slab), first);
    simba__slab_give(&slab, first);
}

static void without_memory(void **state)
{
    (void)state;
    fails = true;
    assert_null(simba__slab_take(&slab));
    fails = false;
    simba__slab_give(&slab, simba__slab_take(&slab));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(objects_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(crowd_leaves_nothing_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(by_the_kernel, setup, teardown),
        cmocka_unit_test_setup_teardown(one_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
