/* The hash table against a list of what should be in it. */
#include "util/table.h"

#include <simba.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "util/random.h"

enum { THINGS = 500 };

typedef struct thing {
    simba__node node;
    unsigned name;
    bool in;
} thing;

static bool is_named(const simba__node *node, const void *key)
{
    return SIMBA__OF_NODE(node, const thing, node)->name == *(const unsigned *)key;
}

static thing *find(const simba__table *table, unsigned name, uint64_t hash)
{
    simba__node *node = simba__table_find(table, hash, is_named, &name);
    return node ? SIMBA__OF_NODE(node, thing, node) : NULL;
}

/* Few hashes, so that many share one, and many that share a bucket. */
static uint64_t hash_of(unsigned name)
{
    return (uint64_t)(name % 7) << (name % 3 * 4);
}

/* Things come and go; after each step the table has exactly what was added and not removed, each once. */
static void has_what_was_added(void **state)
{
    static thing things[THINGS];
    simba__table table = {0};
    uint64_t seed = 3;
    size_t count = 0;
    for (unsigned i = 0; i < THINGS; i++)
        things[i].name = i;
    for (unsigned step = 0; step < 20000; step++) {
        thing *t = &things[simba__random_next(&seed) % THINGS];
        assert_ptr_equal(find(&table, t->name, hash_of(t->name)), t->in ? t : NULL);
        if (t->in) {
            simba__table_remove(&table, &t->node);
        } else {
            assert_true(simba__table_reserve(&table));
            simba__table_add(&table, &t->node, hash_of(t->name));
        }
        t->in = !t->in;
        count += t->in ? 1 : (size_t)-1;
        assert_int_equal(table.count, count);
        if (step % 1000)
            continue;
        static unsigned seen[THINGS];
        memset(seen, 0, sizeof seen);
        for (simba__node *node = simba__table_first(&table); node; node = simba__table_next(&table, node))
            seen[SIMBA__OF_NODE(node, thing, node)->name]++;
        for (unsigned i = 0; i < THINGS; i++)
            assert_int_equal(seen[i], things[i].in);
    }
    simba__table_fini(&table);
}

/* Who asks for the next one first may remove each on the way. */
static void can_be_emptied_on_the_way(void **state)
{
    static thing things[THINGS];
    simba__table table = {0};
    for (unsigned i = 0; i < THINGS; i++) {
        things[i].name = i;
        assert_true(simba__table_reserve(&table));
        simba__table_add(&table, &things[i].node, hash_of(i));
    }
    size_t removed = 0;
    for (simba__node *node = simba__table_first(&table), *next; node; node = next, removed++) {
        next = simba__table_next(&table, node);
        simba__table_remove(&table, node);
    }
    assert_int_equal(removed, THINGS);
    assert_int_equal(table.count, 0);
    assert_null(simba__table_first(&table));
    simba__table_fini(&table);
}

static void *no_memory(size_t size)
{
    return NULL;
}

static void *no_more_memory(void *pointer, size_t size)
{
    return NULL;
}

/* Without memory it does not grow, says so, and has what it had. */
static void growing_can_fail(void **state)
{
    static thing things[17];
    simba__table table = {0};
    for (unsigned i = 0; i < 16; i++) {
        things[i].name = i;
        assert_true(simba__table_reserve(&table));
        simba__table_add(&table, &things[i].node, hash_of(i));
    }
    assert_int_equal(simba_set_allocator(no_memory, no_more_memory, free), 0);
    assert_false(simba__table_reserve(&table));
    assert_int_equal(simba_set_allocator(NULL, NULL, NULL), 0);
    for (unsigned i = 0; i < 16; i++)
        assert_ptr_equal(find(&table, i, hash_of(i)), &things[i]);
    assert_true(simba__table_reserve(&table));
    simba__table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_what_was_added),
        cmocka_unit_test(can_be_emptied_on_the_way),
        cmocka_unit_test(growing_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
