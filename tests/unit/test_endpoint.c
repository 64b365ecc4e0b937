/* The hosts of a URL: what is taken, what is refused, and in which words. */
#include <string.h>

#include "lib/cm.h"
#include "net/endpoint.h"
#include "util/mem.h"

static simba_error error;
static simba__endpoint *endpoints;
static size_t count;

static int parse(const char *authority)
{
    endpoints = NULL;
    count = 0;
    return simba__endpoints_parse("redis", authority, 6379, &error, &endpoints, &count);
}

static void expect(size_t i, const char *host, int port, const char *where)
{
    assert_string_equal(endpoints[i].host, host);
    assert_int_equal(endpoints[i].port, port);
    assert_string_equal(endpoints[i].where, where);
}

/* Every form of one host. */
static void one_host(void **state)
{
    static const struct {
        const char *authority, *host;
        int port;
        const char *where;
    } cases[] = {
        {"h", "h", 6379, "h:6379"},
        {"h:1", "h", 1, "h:1"},
        {"h:65535", "h", 65535, "h:65535"},
        {"10.0.0.1:7000", "10.0.0.1", 7000, "10.0.0.1:7000"},
        {"[::1]", "::1", 6379, "[::1]:6379"},
        {"[fe80::1%eth0]:80", "fe80::1%eth0", 80, "[fe80::1%eth0]:80"},
        {"", "127.0.0.1", 6379, "127.0.0.1:6379"},
        {":7000", "127.0.0.1", 7000, "127.0.0.1:7000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(cases[i].authority), 0);
        assert_int_equal(count, 1);
        expect(0, cases[i].host, cases[i].port, cases[i].where);
        simba__free(endpoints);
    }
}

/* A list keeps its order, and each host its own port. */
static void several_hosts(void **state)
{
    assert_int_equal(parse("a:1,[::2],c"), 0);
    assert_int_equal(count, 3);
    expect(0, "a", 1, "a:1");
    expect(1, "::2", 6379, "[::2]:6379");
    expect(2, "c", 6379, "c:6379");
    simba__free(endpoints);
}

/* Whatever is not a list of hosts is refused by a sentence that shows the culprit. */
static void about_refused(void **state)
{
    static const struct {
        const char *authority, *word;
    } cases[] = {
        {"::1", "brackets"},
        {"[::1", "brackets"},
        {"::1]", "brackets"},
        {"[::1]7", "brackets"},
        {"a[b]", "brackets"},
        {"[[::1]]", "brackets"},
        {"h:", "port"},
        {"h:0", "port"},
        {"h:65536", "port"},
        {"h:-1", "port"},
        {"h:99999999999999999999", "port"},
        {"h: 1", "port"},
        {"a,,b", "missing"},
        {"a,", "missing"},
        {"[]:1", "missing"},
        {"a,:1", "missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(cases[i].authority), SIMBA_EURL);
        assert_non_null(strstr(error.text, cases[i].word));
        assert_null(endpoints);
    }
    char name[300] = "";
    memset(name, 'a', sizeof name - 1);
    assert_int_equal(parse(name), SIMBA_EURL);
    assert_non_null(strstr(error.text, "longer"));
}

/* What a server tells of another one is checked as a URL is. */
static void about_set(void **state)
{
    simba__endpoint endpoint;
    assert_true(simba__endpoint_set(&endpoint, "node-1.example", 6, 7000));
    assert_string_equal(endpoint.host, "node-1");
    assert_false(simba__endpoint_set(&endpoint, "", 0, 1));
    assert_false(simba__endpoint_set(&endpoint, "a", 1, 0));
    assert_false(simba__endpoint_set(&endpoint, "a", 1, 65536));
    assert_false(simba__endpoint_set(&endpoint, "a\0b", 3, 1));
    simba__endpoint other = endpoint;
    assert_true(simba__endpoint_is_same(&endpoint, &other));
    other.port++;
    assert_false(simba__endpoint_is_same(&endpoint, &other));
}

/* A unix socket is a path that fits into the system's structure. */
static void about_socket(void **state)
{
    simba__endpoint endpoint;
    char path[200] = "/";
    assert_int_equal(simba__endpoint_set_socket(&endpoint, "redis", "/run/redis.sock", &error), 0);
    assert_string_equal(endpoint.host, "/run/redis.sock");
    assert_int_equal(endpoint.port, 0);
    assert_int_equal(simba__endpoint_set_socket(&endpoint, "redis", "redis.sock", &error), SIMBA_EURL);
    assert_int_equal(simba__endpoint_set_socket(&endpoint, "redis", "/", &error), SIMBA_EURL);
    memset(path + 1, 'a', 107);
    assert_int_equal(simba__endpoint_set_socket(&endpoint, "redis", path, &error), SIMBA_EURL);
    path[107] = '\0';
    assert_int_equal(simba__endpoint_set_socket(&endpoint, "redis", path, &error), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_host), cmocka_unit_test(several_hosts),
                                       cmocka_unit_test(about_refused), cmocka_unit_test(about_set),
                                       cmocka_unit_test(about_socket)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
