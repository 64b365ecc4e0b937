/* Two contenders under one id would share a mutex without noticing, so what the generators make must never repeat: not
 * within a process, not between its threads, not in a child. And people read these ids, so their form is fixed. */
#include <pthread.h>
#include <sched.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cm.h"
#include "util/text.h"

enum { NUMBER = 8, SHORT = 32 }; /* digits of the number; what an old column has room for */

typedef struct host_id {
    char host[64];
    long pid;
    unsigned long long number;
} host_id;

static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

/* Take "{host}.{pid}.{number}" apart, and check that there is nothing else in it. */
static host_id take_apart(const char *id)
{
    host_id parts = {.number = 0};
    const size_t length = strcspn(id, ".");
    assert_in_range(length, 1, sizeof parts.host - 1);
    memcpy(parts.host, id, length);
    assert_int_equal(strspn(parts.host, "abcdefghijklmnopqrstuvwxyz0123456789-~"), length);
    char *end;
    assert_int_equal(id[length], '.');
    assert_in_range(id[length + 1], '1', '9');
    parts.pid = strtol(id + length + 1, &end, 10);
    assert_int_equal(*end++, '.');
    assert_int_equal(strlen(end), NUMBER);
    for (; *end; end++) {
        assert_non_null(strchr(digits, *end));
        parts.number = parts.number * 32 + (unsigned long long)(strchr(digits, *end) - digits);
    }
    return parts;
}

/* The host, this process, and a number; short enough for every store. */
static void host_ids_have_their_form(void **state)
{
    char id[SIMBA_ID_MAX + 1];
    memset(id, 'x', sizeof id);
    simba_id_host(id);
    assert_int_equal(take_apart(id).pid, getpid());
    assert_true(strlen(id) <= SHORT);
}

/* The JVM makes "{counter}:{pid}@{address}" and 32 hexadecimal digits. */
static void host_ids_are_none_of_the_jvms(void **state)
{
    char id[SIMBA_ID_MAX + 1];
    simba_id_host(id);
    assert_null(strpbrk(id, ":@"));
    assert_true(strspn(id, "0123456789abcdef") < strlen(id));
}

/* What a process in a namespace of its own, where it can be whatever host and number it likes, says of itself. */
static bool id_elsewhere(const char *host, char id[SIMBA_ID_MAX + 1])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWUTS) != 0 || sethostname(host, strlen(host)) != 0)
            _exit(77);
        const pid_t first = fork(); /* pid 1 there */
        if (first == 0) {
            simba_id_host(id);
            _exit(write(ends[1], id, SIMBA_ID_MAX + 1) == SIMBA_ID_MAX + 1 ? 0 : 1);
        }
        _exit(first < 0 || waitpid(first, NULL, 0) != first);
    }
    close(ends[1]);
    const bool read_it = read(ends[0], id, SIMBA_ID_MAX + 1) == SIMBA_ID_MAX + 1;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return read_it && status == 0;
}

/* Two containers with one host name, in which both are pid 1. */
static void host_ids_differ_between_containers(void **state)
{
    char ids[2][SIMBA_ID_MAX + 1];
    if (!id_elsewhere("web-3", ids[0]) || !id_elsewhere("web-3", ids[1]))
        skip();
    assert_int_equal(strncmp(ids[0], "web-3.1.", 8), 0);
    assert_int_equal(strncmp(ids[1], "web-3.1.", 8), 0);
    assert_string_not_equal(ids[0], ids[1]);
}

/* Whatever a host is called, the id is short, and says where it comes from. */
static void host_names_are_made_to_fit(void **state)
{
    static const struct {
        const char *host, *shown;
    } cases[] = {
        {"web-3", "web-3."},
        {"Web-3.example.org", "web-3."},
        {"billing-worker-5d8f7c9b4d-x2k9q", "billing~-x2k9q."},
        {"exactly-14-abc", "exactly-14-abc."},
        {"one-more-15-abc", "one-mor~15-abc."},
        {"a b@@c:d", "a-b--c-d."},
        {"h\xc3\xb6st", "h--st."},
        {".", "host."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char id[SIMBA_ID_MAX + 1];
        if (!id_elsewhere(cases[i].host, id))
            skip();
        if (strncmp(id, cases[i].shown, strlen(cases[i].shown)) != 0)
            fail_msg("%s became %s", cases[i].host, id);
        assert_int_equal(simba__check_id(id, NULL), 0);
        assert_int_equal(take_apart(id).pid, 1);
    }
}

/* A child has its own pid, and a number that does not follow from its parent's. */
static void host_ids_differ_in_a_child(void **state)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    char id[SIMBA_ID_MAX + 1] = "";
    if (child == 0) {
        simba_id_host(id);
        _exit(write(ends[1], id, sizeof id) == sizeof id ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], id, sizeof id), sizeof id);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    const host_id childs = take_apart(id);
    assert_int_equal(childs.pid, child);
    simba_id_host(id);
    assert_true(childs.number / 1000 != take_apart(id).number / 1000);
}

/* 32 lower-case hexadecimal digits that are a random UUID without its dashes, and not a byte behind them. */
static void uuids_have_their_form(void **state)
{
    char id[SIMBA_ID_MAX + 1];
    for (int i = 0; i < 200; i++) {
        memset(id, 'x', sizeof id);
        assert_int_equal(simba_id_uuid(id), 0);
        assert_int_equal(strlen(id), 32);
        assert_int_equal(strspn(id, "0123456789abcdef"), 32);
        assert_int_equal(id[12], '4');
        assert_non_null(strchr("89ab", id[16]));
        for (size_t j = 33; j < sizeof id; j++)
            assert_int_equal(id[j], 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_ids_have_their_form),           cmocka_unit_test(host_ids_are_none_of_the_jvms),
        cmocka_unit_test(host_ids_differ_between_containers), cmocka_unit_test(host_names_are_made_to_fit),
        cmocka_unit_test(host_ids_differ_in_a_child),         cmocka_unit_test(uuids_have_their_form),
    };
    return cmocka_run_group_tests_name("id", tests, NULL, NULL);
}
