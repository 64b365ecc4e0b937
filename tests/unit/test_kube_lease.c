/* Mutexes as Leases: names, and what a Lease says. */
#include "lib/cm.h"

#include <stdio.h>
#include <string.h>

#include "stores/kubernetes/kubernetes.h"

static bool is_plain(const char *mutex)
{
    char name[KUBE_NAME_SIZE];
    simba__kube_name(mutex, name);
    assert_true(strcmp(name, mutex) == 0 || (strlen(name) == strlen("simba-") + 32 && strncmp(name, "simba-", 6) == 0));
    return strcmp(name, mutex) == 0;
}

/* What an object can be called is called so. */
static void about_names(void **state)
{
    static const char *const plain[] = {"a", "orders", "a-b", "a.b", "0", "a--b", "x-1.y-2", "simba-1"};
    static const char *const odd[] = {
        "A",    "a_b",  "-a",  "a-",       "a.",  ".a",    "a..b",
        "a.-b", "a-.b", "a b", "\xc3\xa9", "a/b", "a%2fb", "simba-00112233445566778899aabbccddeeff"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        assert_true(is_plain(plain[i]));
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_false(is_plain(odd[i]));
    char first[KUBE_NAME_SIZE], second[KUBE_NAME_SIZE];
    simba__kube_name("A", first);
    simba__kube_name("a ", second);
    assert_string_not_equal(first, second);
    assert_string_equal(first, "simba-559aead08264d5795d3909718cdd05ab"); /* sha256sum */
}

static kube_lease parse(const char *text)
{
    simba__json object;
    kube_lease lease;
    assert_true(simba__json_read(text, strlen(text), &object));
    assert_true(simba__kube_parse_lease(object, &lease));
    return lease;
}

#define LEASE(annotations, spec)                                                                                       \
    "{\"metadata\":{\"name\":\"m\",\"uid\":\"u\",\"resourceVersion\":\"7\",\"annotations\":{" annotations              \
    "}},\"spec\":{" spec "}}"

/* A grant counts only beside the identity that ends in its nonce. */
static void about_holders(void **state)
{
    kube_lease lease = parse(LEASE("\"simba/grant\":\"000000000000001f 5 400\"",
                                   "\"holderIdentity\":\"a_b_000000000000001f\",\"leaseDurationSeconds\":1"));
    assert_string_equal(lease.record.id, "a_b");
    assert_int_equal(lease.record.nonce, 0x1f);
    assert_int_equal(lease.record.token, 5);
    assert_int_equal(lease.record.lease_ms, 400);
    assert_int_equal(lease.record.version, 7);
    assert_string_equal(lease.record.tag, "u");
    lease = parse(LEASE("\"simba/grant\":\"000000000000001f 5 400\"",
                        "\"holderIdentity\":\"go_000000000000002f\",\"leaseDurationSeconds\":15"));
    assert_string_equal(lease.record.id, "go_000000000000002f");
    assert_int_equal(lease.record.token, 0);
    assert_int_equal(lease.record.last_token, 5);
    assert_int_equal(lease.record.lease_ms, 15000);
    lease = parse(
        LEASE("\"simba/grant\":\"000000000000001f 5 400\"", "\"holderIdentity\":\"\",\"leaseDurationSeconds\":1"));
    assert_false(lease.record.held);
    assert_null(lease.flaw);
    assert_int_equal(lease.record.last_token, 5);

    /* A released Lease keeps its latest token. */
    simba__buffer patch = {0};
    simba__kube_put_patch(&patch, &lease.record, 7, NULL);
    simba__buffer_put(&patch, "", 1);
    assert_non_null(strstr(patch.data, "\"simba/grant\":\"0000000000000000 5 "));
    simba__buffer_free(&patch);
}

static void about_times(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } times[] = {{"1970-01-01T00:00:01.000002Z", 1000002},
                 {"2026-11-19T18:09:15.718821Z", INT64_C(1795111755718821)},
                 {"2026-11-19T18:09:15Z", INT64_C(1795111755000000)},
                 {"2026-11-19T18:09:15.7Z", INT64_C(1795111755700000)},
                 {"yesterday", 0},
                 {"2026-13-19T18:09:15Z", 0}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        char text[300];
        snprintf(text, sizeof text, LEASE("", "\"renewTime\":\"%s\""), times[i].text);
        kube_lease lease = parse(text);
        assert_int_equal(lease.record.renewed_us, times[i].us);
        simba__buffer patch = {0};
        simba__kube_put_patch(&patch, &lease.record, 7, NULL);
        simba__buffer_put(&patch, "", 1);
        if (strlen(times[i].text) == strlen(times[0].text))
            assert_non_null(strstr(patch.data, times[i].text));
        simba__buffer_free(&patch);
    }
}

/* What is no Lease, and names that lie. */
static void about_lies(void **state)
{
    static const char *const none[] = {"{}", "{\"metadata\":{\"name\":\"m\"}}",
                                       "{\"metadata\":{\"name\":\"m\",\"resourceVersion\":\"0\"}}",
                                       "{\"metadata\":{\"name\":\"m\",\"resourceVersion\":\"x\"}}",
                                       "{\"metadata\":{\"name\":\"m\",\"resourceVersion\":\"9223372036854775808\"}}"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        simba__json object;
        kube_lease lease;
        assert_true(simba__json_read(none[i], strlen(none[i]), &object));
        assert_false(simba__kube_parse_lease(object, &lease));
    }
    assert_string_equal(parse(LEASE("\"simba/mutex\":\"other\"", "")).mutex, "m");
    const char *hashed = "{\"metadata\":{\"name\":\"simba-559aead08264d5795d3909718cdd05ab\",\"resourceVersion\":\"7\","
                         "\"annotations\":{\"simba/mutex\":\"A\"}}}";
    assert_string_equal(parse(hashed).mutex, "A");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(about_names), cmocka_unit_test(about_holders),
                                       cmocka_unit_test(about_times), cmocka_unit_test(about_lies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
