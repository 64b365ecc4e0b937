/* Two contenders under one id would share a mutex without noticing, so what the generators make must never repeat: not
 * within a process, not between its threads, not in a child. And people read these ids, so their form is fixed. */
#include <arpa/inet.h>
#include <pthread.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cm.h"
#include "util/text.h"

typedef struct host_id {
    unsigned long long counter;
    long pid;
    char address[64];
} host_id;

/* Take "{counter}:{pid}@{address}" apart, and check that there is nothing else in it. */
static host_id take_apart(const char *id)
{
    host_id parts;
    char *end;
    assert_in_range(id[0], '0', '9');
    parts.counter = strtoull(id, &end, 10);
    assert_int_equal(*end, ':');
    assert_in_range(end[1], '1', '9');
    parts.pid = strtol(end + 1, &end, 10);
    assert_int_equal(*end, '@');
    assert_true(strlen(end + 1) < sizeof parts.address);
    strcpy(parts.address, end + 1);
    return parts;
}

/* A counter, this process, and an address of this host. */
static void host_ids_have_their_form(void **state)
{
    (void)state;
    char id[SIMBA_ID_MAX + 1];
    memset(id, 'x', sizeof id);
    simba_id_host(id);
    const host_id parts = take_apart(id);
    assert_int_equal(parts.pid, getpid());
    struct in6_addr address;
    assert_true(inet_pton(AF_INET, parts.address, &address) == 1 || inet_pton(AF_INET6, parts.address, &address) == 1);
}

/* The counter goes up by one, and the rest stays. */
static void host_ids_count(void **state)
{
    (void)state;
    char id[SIMBA_ID_MAX + 1];
    simba_id_host(id);
    const host_id first = take_apart(id);
    for (unsigned i = 1; i <= 50; i++) {
        simba_id_host(id);
        const host_id next = take_apart(id);
        assert_int_equal(next.counter, first.counter + i);
        assert_int_equal(next.pid, first.pid);
        assert_string_equal(next.address, first.address);
    }
}

enum { THREADS = 4, PER_THREAD = 100 };

typedef char id_list[PER_THREAD][SIMBA_ID_MAX + 1];

static void *generate(void *arg)
{
    id_list *list = arg;
    for (size_t i = 0; i < PER_THREAD; i++)
        simba_id_host((*list)[i]);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void assert_distinct(char (*ids)[SIMBA_ID_MAX + 1], size_t count)
{
    qsort(ids, count, sizeof *ids, compare);
    for (size_t i = 1; i < count; i++)
        assert_string_not_equal(ids[i - 1], ids[i]);
}

/* Threads that ask at the same time get different ids. */
static void host_ids_differ_between_threads(void **state)
{
    (void)state;
    static id_list lists[THREADS];
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, generate, &lists[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_distinct(lists[0], (size_t)THREADS * PER_THREAD);
}

/* A child goes on counting where its parent was, but under its own number. */
static void host_ids_differ_in_a_child(void **state)
{
    (void)state;
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
    assert_int_equal(take_apart(id).pid, child);
}

/* 32 lower-case hexadecimal digits that are a random UUID without its dashes, and not a byte behind them. */
static void uuids_have_their_form(void **state)
{
    (void)state;
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

/* They do not repeat, and every digit that is free to vary does. */
static void uuids_differ(void **state)
{
    (void)state;
    static char ids[1000][SIMBA_ID_MAX + 1];
    bool varies[32] = {false};
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(simba_id_uuid(ids[i]), 0);
        for (size_t j = 0; j < 32; j++)
            varies[j] |= ids[i][j] != ids[0][j];
    }
    for (size_t j = 0; j < 32; j++)
        assert_int_equal(varies[j], j != 12);
    assert_distinct(ids, 1000);
}

/* What is generated may be used. */
static void generated_ids_are_valid(void **state)
{
    (void)state;
    char id[SIMBA_ID_MAX + 1];
    simba_id_host(id);
    assert_int_equal(simba__check_id(id, NULL), 0);
    assert_int_equal(simba_id_uuid(id), 0);
    assert_int_equal(simba__check_id(id, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_ids_have_their_form),        cmocka_unit_test(host_ids_count),
        cmocka_unit_test(host_ids_differ_between_threads), cmocka_unit_test(host_ids_differ_in_a_child),
        cmocka_unit_test(uuids_have_their_form),           cmocka_unit_test(uuids_differ),
        cmocka_unit_test(generated_ids_are_valid),
    };
    return cmocka_run_group_tests_name("id", tests, NULL, NULL);
}
