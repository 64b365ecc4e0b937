/* Every interleaving within small bounds, and that a break is found: see explore.h. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "sim/explore_world.h"

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

static void every_interleaving(void **state)
{
    static const char *const few = "losses=1,kills=0,starts=0,stops=0,forces=0,pauses=0,delays=0,drift=1";
    static const char *const fewer = "losses=0,kills=0,starts=0,stops=0,forces=0,pauses=0,delays=0,drift=0";
    for (explore_store store = 0; store < EXPLORE_STORES; store++) {
        const uint64_t states = explored(store, store == EXPLORE_SESSION ? fewer : few);
        printf("# %s: %llu states\n", explore_store_name(store), (unsigned long long)states);
        assert_in_range(states, 1000, 100000);
    }
}

/* Who stops waits for a lost answer until the op timeout of the client, which may be longer than a session: so S5 is kept. */
static void a_session_shorter_than_the_op_timeout(void **state)
{
    explore_bounds bounds;
    explore_verdict verdict;
    explore_default(EXPLORE_SESSION, &bounds);
    bounds.states_max = 1 << 12;
    assert_true(explore_parse("ttl=1,transition=1,kills=0,drift=0", &bounds));
    explore(&bounds, NULL, &verdict);
    if (verdict.promise)
        fail_msg("%s: %s", verdict.promise, verdict.text);
    assert_true(verdict.states >= bounds.states_max);
}

/* With one thread and with several it is the same. */
static void order_does_not_matter(void **state)
{
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

/* --- counter-examples ---------------------------------------------------------------------------------- */

/* Clocks that are further apart than assumed break a promise. That is a counter-example without a fault in the code. */
static const char *const broken_bounds =
    "ttl=1,transition=1,losses=1,kills=0,starts=0,stops=0,forces=0,pauses=0,delays=0,drift=4";

static void set_broken(explore_bounds *bounds)
{
    explore_default(EXPLORE_PUSH, bounds);
    bounds->states_max = 1 << 18;
    bounds->jobs = 1; /* of several that are equally short the first is shown, and it is always the same */
    assert_true(explore_parse(broken_bounds, bounds));
}

/* Is a promise broken by a way from here of at most so many choices? Every way is gone: nothing that was seen is remembered. */
static bool is_broken_within(const world *w, unsigned choices)
{
    choice all[WORLD_CHOICES];
    world future;
    check_world_future(w, &future);
    if (future.promise)
        return true;
    const unsigned count = choices > 0 ? world_choices(w, all) : 0;
    for (unsigned i = 0; i < count; i++) {
        world after = *w;
        world_choose(&after, all[i]);
        if (after.promise || is_broken_within(&after, choices - 1))
            return true;
    }
    return false;
}

/* No shorter way leads to a broken promise than the one that is shown, with one thread and with several. */
static void counter_example_is_the_shortest(void **state)
{
    explore_bounds bounds;
    explore_verdict verdict;
    simba__timing timing;
    world w;
    set_broken(&bounds);
    for (unsigned jobs = 1; jobs <= 3; jobs += 2) {
        bounds.jobs = jobs;
        explore(&bounds, NULL, &verdict);
        assert_string_equal(verdict.promise, "S2");
        assert_int_equal(verdict.depth, 10);
    }
    assert_true(world_timing(&bounds, &timing));
    world_begin(&w, &bounds, &timing);
    assert_false(is_broken_within(&w, 9));
}

/* The way is told as an event log, and drawn: who led when, what was lost, and where the promise was broken. */
static void counter_example_is_drawn(void **state)
{
    explore_bounds bounds;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    set_broken(&bounds);
    assert_false(explore_and_tell(&bounds, NULL, out));
    fclose(out);
    static const char *const parts[] = {
        "10 deep: a promise was broken\n",
        "S2: it was granted under token 2 before contender-1 (token 1) was told\nthe shortest way there:\n",
        "0 contender-1 start\n0 contender-1 request acquire\n",
        "1000000000 contender-1 request renew\n1000000000 contender-1 fault lost 1100000000\n",
        "2000000000 contender-2 request acquire\n",
        "2000000000 store fault broken:S2 2100000000\n",
        "               0.0s        0.5s        1.0s         1.5s        2.0s\n",
        "  contender-1  ►███████████████████████│▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒╌????????????\n",
        "  contender-2                                                   │????????????\n",
        "  store                                                         ~~~\n",
    };
    const char *at = text;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *found = strstr(at, parts[i]);
        if (found)
            at = found + strlen(parts[i]);
        else
            fail_msg("\"%s\" is missing, or not in its place, in:\n%s", parts[i], text);
    }
    free(text);
}

static void bounds_as_text(void **state)
{
    explore_bounds bounds;
    explore_default(EXPLORE_POLL, &bounds);
    assert_true(explore_parse("losses=3,contenders=3,drift=0", &bounds));
    assert_int_equal(bounds.losses, 3);
    assert_int_equal(bounds.contenders, 3);
    assert_int_equal(bounds.drifts, 0);
    static const char *const wrong[] = {"losses",       "losses=",          "losses=x", "loss=1", "contenders=4",
                                        "contenders=0", "losses=1;kills=1", "=1",       "tick=0", "margin=8"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(explore_parse(wrong[i], &bounds));
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_interleaving),       cmocka_unit_test(a_session_shorter_than_the_op_timeout),
        cmocka_unit_test(order_does_not_matter),    cmocka_unit_test(counter_example_is_the_shortest),
        cmocka_unit_test(counter_example_is_drawn), cmocka_unit_test(bounds_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
