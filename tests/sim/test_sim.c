/* Tests of the simulator itself: that it is deterministic, and that it finds faults. A checker that never finds
 * anything proves nothing, so these tests break the assumptions of the promises on purpose, and the simulator has to
 * find out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "sim/clock.h"
#include "sim/scenarios.h"
#include "sim/sim.h"

static uint64_t hash_of(sim *s, sim_store_kind store, uint64_t first, unsigned count)
{
    uint64_t hash = 0;
    for (unsigned i = 0; i < count; i++) {
        sim_plan plan;
        sim_verdict verdict;
        sim_plan_draw(&plan, first + i, store, SIM_SOUND);
        sim_run(s, &plan, NULL, &verdict);
        hash = hash * 31 + verdict.hash;
    }
    return hash;
}

/* The same seed is the same run, also after other runs and in a simulation of its own. */
static void a_seed_is_a_run(void **state)
{
    sim *a = sim_new();
    sim *b = sim_new();
    for (int store = 0; store < SIM_STORES; store++) {
        if (!sim_has_store((sim_store_kind)store))
            continue;
        const uint64_t first = hash_of(a, (sim_store_kind)store, 100, 5);
        hash_of(b, (sim_store_kind)store, 777, 2);
        assert_true(hash_of(b, (sim_store_kind)store, 100, 5) == first);
        assert_true(hash_of(a, (sim_store_kind)store, 100, 5) == first);
        assert_true(hash_of(a, (sim_store_kind)store, 101, 5) != first);
    }
    sim_free(a);
    sim_free(b);
}

/* The same on every compiler and under every sanitizer: it is written down here. Whoever changes the protocol on purpose
 * changes these numbers, which the failing test prints. Only for the models: a store whose own code runs is another run
 * after every change to that code. */
static void a_seed_is_the_same_run_everywhere(void **state)
{
    static const uint64_t expected[SIM_STORE_REDIS] = {UINT64_C(0x05f543251702f403), UINT64_C(0x0071224cba7b1ade),
                                                       UINT64_C(0x809250234bfa5084)};
    sim *s = sim_new();
    bool same = true;
    for (int store = 0; store < SIM_STORE_REDIS; store++) {
        const uint64_t hash = hash_of(s, (sim_store_kind)store, 1, 50);
        same &= hash == expected[store];
        fprintf(stderr, "# store %d: UINT64_C(0x%016" PRIx64 ")\n", store, hash);
    }
    sim_free(s);
    assert_true(same);
}

/* And so is its event log, byte for byte. */
static void a_log_is_the_same_log(void **state)
{
    sim *s = sim_new();
    sim_plan plan;
    sim_verdict verdict;
    char *text[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        FILE *log = open_memstream(&text[i], &size[i]);
        sim_plan_draw(&plan, 5, SIM_STORE_PUSH, SIM_SOUND);
        sim_run(s, &plan, log, &verdict);
        fclose(log);
    }
    assert_true(size[0] > 1000 && size[0] == size[1] && memcmp(text[0], text[1], size[0]) == 0);
    free(text[0]);
    free(text[1]);
    sim_free(s);
}

/* With an assumption broken, two hold at once sooner or later. The checker sees it, and tokens tell them apart. */
static void finds(sim_broken broken, sim_store_kind store, sim_topology topology)
{
    sim *s = sim_new();
    const unsigned enough = store < SIM_STORE_REDIS ? 3 : 1; /* runs of a whole store take longer */
    unsigned found = 0, exposed = 0;
    for (uint64_t seed = 1; seed <= 2000 && found < enough; seed++) {
        sim_plan plan;
        sim_verdict verdict;
        sim_plan_draw(&plan, seed, store, broken);
        if (plan.topology != topology)
            continue;
        sim_run(s, &plan, NULL, &verdict);
        found += verdict.two;
        exposed += verdict.two && verdict.exposed;
    }
    sim_free(s);
    assert_int_equal(found, enough);
    if (sim_has_tokens(store, broken))
        assert_int_equal(exposed, enough);
}

/* Not on ZooKeeper: what counts as a sign of life there lies further back than a clock drifts in one run. */
static void sees_drift_beyond_the_bound(void **state)
{
    for (int store = 0; store < SIM_STORES; store++)
        if (sim_has_store((sim_store_kind)store) && store != SIM_STORE_ZOOKEEPER)
            finds(SIM_BROKEN_DRIFT, (sim_store_kind)store, SIM_SINGLE);
}

static void sees_a_store_that_loses_what_it_acknowledged(void **state)
{
    for (int store = 0; store < SIM_STORES; store++)
        for (int topology = 0; topology < (store == SIM_STORE_REDIS ? SIM_TOPOLOGIES : 1); topology++)
            if (sim_has_store((sim_store_kind)store))
                finds(SIM_BROKEN_LOST_WRITES, (sim_store_kind)store, (sim_topology)topology);
}

/* A failing scenario gets smaller and still fails, in the same way. */
static void shrinks_what_fails(void **state)
{
    sim *s = sim_new();
    for (uint64_t seed = 1; seed < 2000; seed++) {
        sim_plan plan;
        sim_verdict verdict;
        sim_plan_draw(&plan, seed, SIM_STORE_PUSH, SIM_BROKEN_DRIFT);
        sim_run(s, &plan, NULL, &verdict);
        if (!verdict.promise || plan.items < 8)
            continue;
        const unsigned before = plan.items;
        const char *promise = verdict.promise;
        sim_shrink(s, &plan, promise);
        assert_true(plan.items < before);
        sim_run(s, &plan, NULL, &verdict);
        assert_string_equal(verdict.promise, promise);
        sim_free(s);
        return;
    }
    fail_msg("nothing failed");
}

/* The pictures in the documentation are what the simulator draws today. `simba-sim --scenario NAME > docs/NAME.svg`. */
static void the_documentation_shows_what_happens(void **state)
{
    static const char *const names[] = {"fail-over", "outage"};
    for (int i = 0; i < 2; i++) {
        char path[512];
        char *drawn = NULL;
        size_t size = 0;
        FILE *svg = open_memstream(&drawn, &size);
        assert_true(sim_draw_scenario(names[i], svg));
        fclose(svg);
        snprintf(path, sizeof path, "%s/docs/%s.svg", SIMBA_SOURCE_DIR, names[i]);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        char *kept = calloc(1, size + 2);
        assert_int_equal(fread(kept, 1, size + 1, file), size);
        assert_string_equal(kept, drawn);
        fclose(file);
        free(kept);
        free(drawn);
    }
}

/* Clocks: reading and its inverse agree to the nanosecond, at any rate, and a change of rate is no jump. */
static void clocks_can_be_read_both_ways(void **state)
{
    for (int64_t ppm = -40000; ppm <= 40000; ppm += 3331) {
        sim_clock clock = {.base_shown = 123456789, .ppm = ppm};
        for (int64_t at = 1; at < 1000 * SIM_S; at = at * 3 + 7) {
            const int64_t shown = sim_clock_read(&clock, at);
            const int64_t when = sim_clock_when(&clock, shown);
            assert_true(when <= at && sim_clock_read(&clock, when) >= shown);
            assert_true(sim_clock_read(&clock, when - 1) < shown);
        }
        const int64_t before = sim_clock_read(&clock, 5 * SIM_S);
        sim_clock_set_rate(&clock, 5 * SIM_S, -ppm);
        assert_true(sim_clock_read(&clock, 5 * SIM_S) == before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_can_be_read_both_ways),
        cmocka_unit_test(a_seed_is_a_run),
        cmocka_unit_test(a_seed_is_the_same_run_everywhere),
        cmocka_unit_test(a_log_is_the_same_log),
        cmocka_unit_test(sees_drift_beyond_the_bound),
        cmocka_unit_test(sees_a_store_that_loses_what_it_acknowledged),
        cmocka_unit_test(shrinks_what_fails),
        cmocka_unit_test(the_documentation_shows_what_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
