/* When the Kubernetes store asks again: later with each failure in a row, at a time of its own, and not before the server allows it. */
#include "lib/cm.h"

#include "stores/kubernetes/kubernetes.h"
#include "util/clock.h"

static const simba_local now = {5 * SIMBA__NS_PER_MS};

static simba_local host_now(simba_host *host)
{
    (void)host;
    return now;
}

static uint64_t host_random(simba_host *host)
{
    static uint64_t last;
    (void)host;
    return ++last;
}

static int64_t pause_ms(kube_store *store, unsigned failures)
{
    return (simba__kube_again_at(store, failures, 100, 10000).ns - now.ns) / SIMBA__NS_PER_MS;
}

static void about_pauses(void **state)
{
    (void)state;
    simba_host host = {.now = host_now, .random = host_random};
    static kube_store store;
    bool varies = false;
    store.host = &host;
    store.wait_until = (simba_local){0};
    for (unsigned failures = 0; failures < 100; failures++) {
        const int64_t most_ms = failures < 7 ? 100 << failures : 10000;
        const int64_t one = pause_ms(&store, failures);
        assert_in_range(one, most_ms / 2, most_ms);
        varies |= pause_ms(&store, failures) != one;
    }
    assert_true(varies);
    store.wait_until.ns = now.ns + 3000 * SIMBA__NS_PER_MS;
    assert_int_equal(pause_ms(&store, 0), 3000);
    assert_in_range(pause_ms(&store, 20), 5000, 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(about_pauses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
