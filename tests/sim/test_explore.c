/* Every interleaving within small bounds, and that a break is found: see explore.h. */
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "sim/explore.h"

/* The number of worlds is as good as a checksum: it is the same on every machine, whatever the number of threads. */
static uint64_t explored(explore_store store, const char *bounds_text)
{
    explore_bounds bounds;
    explore_verdict verdict;
    explore_default(store, &bounds);
    bounds.states_max = 1 << 20;
    assert_true(explore_parse(bounds_text, &bounds));
    explore(&bounds, stderr, &verdict);
    if (verdict.promise)
        fail_msg("%s: %s: %s", explore_store_name(store), verdict.promise, verdict.text);
    assert_true(verdict.is_complete);
    return verdict.states;
}

static void test_every_interleaving(void **state)
{
    (void)state;
    static const char *const few = "losses=1,kills=0,starts=0,stops=0,forces=0,pauses=0,delays=0,drift=1";
    static const char *const fewer = "losses=0,kills=0,starts=0,stops=0,forces=0,pauses=0,delays=0,drift=0";
    for (explore_store store = 0; store < EXPLORE_STORES; store++) {
        const uint64_t states = explored(store, store == EXPLORE_SESSION ? fewer : few);
        printf("# %s: %llu states\n", explore_store_name(store), (unsigned long long)states);
        assert_in_range(states, 1000, 100000);
    }
}

/* With one thread and with several it is the same. */
static void test_order_does_not_matter(void **state)
{
    (void)state;
    static const char *const bounds_text = "losses=0,kills=1,starts=0,stops=1,forces=0,pauses=0,delays=0,drift=0";
    explore_bounds bounds;
    explore_verdict verdicts[2];
    for (unsigned i = 0; i < 2; i++) {
        explore_default(EXPLORE_PUSH, &bounds);
        bounds.states_max = 1 << 18;
        assert_true(explore_parse(bounds_text, &bounds));
        bounds.jobs = i == 0 ? 1 : 3;
        explore(&bounds, NULL, &verdicts[i]);
    }
    assert_true(verdicts[0].is_complete);
    assert_int_equal(verdicts[0].states, verdicts[1].states);
    assert_int_equal(verdicts[0].choices, verdicts[1].choices);
    assert_int_equal(verdicts[0].depth, verdicts[1].depth);
}

static void test_bounds_as_text(void **state)
{
    (void)state;
    explore_bounds bounds;
    explore_default(EXPLORE_POLL, &bounds);
    assert_true(explore_parse("losses=3,members=3,drift=0", &bounds));
    assert_int_equal(bounds.losses, 3);
    assert_int_equal(bounds.members, 3);
    assert_int_equal(bounds.drifts, 0);
    static const char *const wrong[] = {"losses",    "losses=",   "losses=x",         "loss=1",
                                        "members=4", "members=0", "losses=1;kills=1", "=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(explore_parse(wrong[i], &bounds));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_interleaving),
        cmocka_unit_test(test_order_does_not_matter),
        cmocka_unit_test(test_bounds_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
