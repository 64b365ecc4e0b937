/* The promises, in simulated runs: a fixed set of seeds, and fresh ones every time. Prints the rate and, if a
 * promise breaks, the seed with everything that is needed to look at it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/cm.h"
#include "sim/report.h"
#include "util/random.h"

#if defined(__has_feature)
#define HAS(feature) __has_feature(feature)
#else
#define HAS(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || HAS(thread_sanitizer)
#define SLOWER 40
#elif defined(__SANITIZE_ADDRESS__) || HAS(address_sanitizer)
#define SLOWER 10
#else
#define SLOWER 1
#endif

/* The whole is to be over in seconds, also under a sanitizer or valgrind. The code of a store takes longer than a model. */
static unsigned seeds(sim_store_kind store)
{
    const char *slowness = getenv("SIMBA_TEST_SLOWNESS");
    const unsigned usual = store == SIM_STORE_REDIS || store == SIM_STORE_KUBERNETES ? 200
                           : sim_is_ensemble(store)                                  ? 100
                           : sim_is_sql(store)                                       ? 500
                                                                                     : 2000;
    return usual / SLOWER / (slowness && atoi(slowness) > 1 ? 50 : 1);
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void keeps_promises(sim_store_kind store, uint64_t first, unsigned count)
{
    sim *s = sim_new();
    double hours = 0;
    const double begin = now();
    bool kept = true;
    for (unsigned i = 0; i < count && kept; i++) {
        sim_plan plan;
        sim_verdict verdict;
        sim_plan_draw(&plan, first + i, store, SIM_SOUND);
        sim_run(s, &plan, NULL, &verdict);
        hours += (double)verdict.contender_ns / 3.6e12;
        kept = !verdict.promise;
        if (!kept)
            sim_report(s, &plan, &verdict, NULL, stderr);
    }
    const double took = now() - begin;
    fprintf(stderr, "# %u seeds from %" PRIu64 ": %.0f contender-hours in %.2f s, %.0f per minute\n", count, first,
            hours, took, hours / took * 60);
    sim_free(s);
    assert_true(kept);
}

static void a_fixed_set(void **state)
{
    for (int store = 0; store < SIM_STORES; store++)
        if (sim_has_store((sim_store_kind)store))
            keeps_promises((sim_store_kind)store, 1, seeds((sim_store_kind)store));
}

/* Seeds that once broke a promise: the code was at fault, or a check that did not know of an excuse. */
static void seeds_of_the_past(void **state)
{
    static const struct {
        sim_store_kind store;
        uint64_t seed;
    } past[] = {
        {SIM_STORE_POSTGRESQL,
         275386373754886}, /* L3: more troubles than the check had room for; the last one was the excuse */
        {SIM_STORE_POSTGRESQL,
         850035185}, /* S2: a stall in the middle of a push held back what the push before it had led to */
        {SIM_STORE_POSTGRESQL, 830018849}, /* L2: one who was to look forgot it when an earlier poll came back */
        {SIM_STORE_POSTGRESQL, 604007900}, /* L2: an outage that swallowed a test was taken for a pooler */
        {SIM_STORE_SQL, 3009369}, /* L3: a statement that a slow server was sent goes on when it is quick again */
        {SIM_STORE_PUSH,
         600282172}, /* L3: a look that a push asked for shortly before the renewal was waited for for too long */
        {SIM_STORE_SQL,
         603048344}, /* L3: a note that was read by the only connection, a silent one, kept renewals waiting */
    };
    for (size_t i = 0; i < sizeof past / sizeof *past; i++)
        if (sim_has_store(past[i].store))
            keeps_promises(past[i].store, past[i].seed, 1);
}

static void fresh_seeds(void **state)
{
    uint64_t first;
    assert_int_equal(simba__random_bytes(&first, sizeof first), 0);
    first >>= 16;
    for (int store = 0; store < SIM_STORES; store++)
        if (sim_has_store((sim_store_kind)store))
            keeps_promises((sim_store_kind)store, first, seeds((sim_store_kind)store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_set),
        cmocka_unit_test(seeds_of_the_past),
        cmocka_unit_test(fresh_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
