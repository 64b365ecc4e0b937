/* What `simba doctor` says of the tests' own API server of Kubernetes, when all is well, and of what an administrator may have got wrong. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "lib/fake_kubernetes.h"
#include "support.h"

static fake_kubernetes fake;

static int setup(void **state)
{
    fake_kubernetes_start(&fake, 0, NULL);
    return test_setup(state);
}

static int teardown(void **state)
{
    const int rc = test_teardown(state);
    fake_kubernetes_stop(&fake);
    return rc;
}

static const char *url_of(const char *more)
{
    static char url[256];
    snprintf(url, sizeof url, "kubernetes://127.0.0.1:%d/default?tls=no%s", fake.port, more);
    return url;
}

static void assert_says(const char *text)
{
    if (!strstr(out_of(&last), text))
        fail_msg("this lacks \"%s\":\n%s%s", text, out_of(&last), err_of(&last));
}

/* The version, that the clocks of clients do not matter, and nothing left behind. */
static void all_is_well(void **state)
{
    (void)state;
    assert_int_equal(RUN("doctor", "--url", url_of("")), 0);
    assert_says("Kubernetes v1.34.1, Leases in namespace default");
    assert_says("A mutex could be taken and given back.");
    assert_null(strstr(out_of(&last), "may not"));
    assert_int_equal(fake_kubernetes_asked(&fake, "DELETE"), 1);
}

/* A right that is missing, with what does not work without it: first one that only some commands need. */
static void rights_are_missing(void **state)
{
    (void)state;
    fake_kubernetes_forbid(&fake, "watch");
    assert_int_equal(RUN("doctor", "--url", url_of("")), 0);
    assert_says("may not watch Leases in namespace default: waiters do not hear of a release");
    assert_says("let its Role allow get, list, watch, create, update, patch, delete on leases in coordination.k8s.io");
    fake_kubernetes_forbid(&fake, "patch,create");
    assert_int_equal(RUN("doctor", "--url", url_of("")), 77);
    assert_says("may not create Leases in namespace default: a mutex cannot be acquired for the first time");
    assert_says("may not patch Leases in namespace default: no mutex can be acquired");
    fake_kubernetes_forbid(&fake, "");
}

/* A token that the server does not know, and one of somebody who may do nothing. */
static void token_is_wrong(void **state)
{
    (void)state;
    static const char *const tokens[] = {"tomorrow-it-rains", FAKE_KUBERNETES_WEAK_TOKEN};
    static const char *const says[] = {"answered by 401", "may not get Leases in namespace default: nothing works"};
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        char more[300];
        const char *path = in_dir("token");
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(tokens[i], file);
        fclose(file);
        snprintf(more, sizeof more, "&token-file=%s", path);
        assert_int_equal(RUN("doctor", "--url", url_of(more)), 77);
        assert_says(says[i]);
        assert_null(strstr(out_of(&last), tokens[0])); /* no message shows it */
    }
}

/* Kubernetes elects the holders of a Lease itself. */
static void strategy_is_set(void **state)
{
    (void)state;
    static const char body[] =
        "{\"metadata\":{\"name\":\"simba-doctor\"},\"spec\":{\"strategy\":\"OldestEmulationVersion\"}}";
    fake_kube_watch watch;
    const fake_kube_request request = {.method = "POST",
                                       .path = "/apis/coordination.k8s.io/v1/namespaces/default/leases",
                                       .token = FAKE_KUBERNETES_TOKEN,
                                       .type = "application/json",
                                       .body = body,
                                       .size = sizeof body - 1};
    pthread_mutex_lock(&fake.lock);
    const fake_kube_answer answer = fake_kube_handle(&fake.objects, &request, false, &watch);
    json_decref(answer.body);
    pthread_mutex_unlock(&fake.lock);
    assert_int_equal(answer.code, 201);
    assert_int_not_equal(RUN("doctor", "--url", url_of("")), 0);
    assert_says("coordinated leader election (spec.strategy)");
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {CASE(all_is_well), CASE(rights_are_missing), CASE(token_is_wrong),
                                       CASE(strategy_is_set)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
