/* Processes that end with clients open, in the middle of whatever these were doing: they end as they meant to, with the
 * status that they meant, and soon. Each is this program again, told what to be. */
#include <signal.h>
#include <simba.h>
#include <simba/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/referee.h"
#include "lib/server.h"
#include "util/clock.h"

enum { STATUS = 7, CLIENTS = 30, AT_ONCE = 4, ROUNDS = 6, SOON_MS = 20000 };

/* --- the processes ---------------------------------------------------------------------------------------- */

static simba_client *closed_at_exit;

static void close_at_exit(void)
{
    if (closed_at_exit && simba_client_close(closed_at_exit) != 0)
        _exit(99);
}

static void exit_here(void *user, simba_log_level level, const char *text)
{
    exit(STATUS); // NOLINT(concurrency-mt-unsafe): that is the point
}

static simba_client *open_or_exit(const char *url, const simba_client_options *options)
{
    simba_error err = {0};
    simba_client *client = NULL;
    if (simba_client_open(url, options, &err, &client) == 0)
        return client;
    fprintf(stderr, "%s\n", err.text);
    _exit(98);
}

static void contend(simba_client *client, const char *mutex)
{
    simba_contender *contender = NULL;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    if (simba_contender_new(client, mutex, &options, NULL, &contender) < 0 || simba_contender_start(contender) < 0)
        _exit(97);
}

/* Many clients that have a lot to do, and no time. */
static void leave_busy(const char *url, const char *us)
{
    simba_client *clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = open_or_exit(url, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        char mutex[16];
        snprintf(mutex, sizeof mutex, "m%d", i);
        contend(clients[i], mutex);
    }
    const struct timespec pause = {0, strtol(us, NULL, 10) * 1000};
    nanosleep(&pause, NULL);
    exit(STATUS); // NOLINT(concurrency-mt-unsafe)
}

/* From inside of the library, which has a lock for the duration. */
static void leave_by_log(const char *url)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.log = exit_here;
    contend(open_or_exit(url, &options), "m");
    for (;;)
        pause();
}

/* What was registered before the client was opened comes after all that the library may have registered. */
static void leave_properly(const char *url)
{
    simba_error err = {0};
    simba_locker *locker = NULL;
    atexit(close_at_exit);
    closed_at_exit = open_or_exit(url, NULL);
    if (simba_locker_new(closed_at_exit, "m", NULL, &err, &locker) < 0 || simba_locker_acquire(locker, 0, &err) < 0)
        _exit(96);
    simba_locker_free(locker);
    exit(STATUS); // NOLINT(concurrency-mt-unsafe)
}

/* The destructors of libraries come after all exit handlers, OpenSSL's among them. */
static simba_client *closed_by_destructor;

__attribute__((destructor)) static void close_in_destructor(void)
{
    if (closed_by_destructor && simba_client_close(closed_by_destructor) != 0)
        _exit(99);
}

static void leave_to_destructor(const char *url)
{
    simba_locker *locker = NULL;
    closed_by_destructor = open_or_exit(url, NULL);
    if (simba_locker_new(closed_by_destructor, "m", NULL, NULL, &locker) < 0 ||
        simba_locker_acquire(locker, 10000, NULL) < 0)
        _exit(96);
    exit(STATUS); // NOLINT(concurrency-mt-unsafe)
}

static void play(char **args)
{
    if (strcmp(args[0], "busy") == 0)
        leave_busy(args[1], args[2]);
    if (strcmp(args[0], "log") == 0)
        leave_by_log(args[1]);
    if (strcmp(args[0], "destructor") == 0)
        leave_to_destructor(args[1]);
    if (strcmp(args[0], "properly") == 0)
        leave_properly(args[1]);
    _exit(95);
}

/* --- the test --------------------------------------------------------------------------------------------- */

static pid_t start(const char *role, const char *url, const char *more)
{
    char self[4096] = "";
    /* By its name, because as /proc/self/exe it would be valgrind where that runs us. */
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const char *given = getenv("TSAN_OPTIONS");
        char tsan[1024];
        snprintf(tsan, sizeof tsan, "%s:atexit_sleep_ms=0",
                 given ? given : ""); /* it would wait for a second each time */
        setenv("TSAN_OPTIONS", tsan, 1);
        /* A thread that ends after OpenSSL was taken down leaves what that had for it. */
        if (strcmp(role, "destructor") == 0)
            setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        execl(self, "exit", role, url, more, (char *)NULL);
        _exit(94);
    }
    return pid;
}

static void assert_ends_well(pid_t pid)
{
    int status = -1;
    const int64_t until_ns = simba__clock_mono_ns() + ref_scaled_ms(SOON_MS) * SIMBA__NS_PER_MS;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (simba__clock_mono_ns() > until_ns) {
            kill(pid, SIGKILL);
            fail_msg("it does not end");
        }
        usleep(1000);
    }
    if (WIFSIGNALED(status))
        fail_msg("it was ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), STATUS);
}

/* Some at a time, at moments that differ: it takes luck to meet the wrong one. */
static void assert_all_end_well(const char *url, long step_us)
{
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pids[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            char us[16];
            snprintf(us, sizeof us, "%ld", (round * AT_ONCE + i) * step_us);
            pids[i] = start("busy", url, us);
        }
        for (int i = 0; i < AT_ONCE; i++)
            assert_ends_well(pids[i]);
    }
}

/* They look the name up again and again. */
static void while_no_server_is_there(void **state)
{
    static const char *const schemes[] = {"redis", "zookeeper", "postgresql"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        char url[32];
        snprintf(url, sizeof url, "%s://localhost:1", schemes[i]);
        if (simba_backend_find(schemes[i]))
            assert_all_end_well(url, 1000);
    }
}

/* OpenSSL takes itself down at the end. */
static void while_redis_speaks_tls(void **state)
{
    server s;
    char url[160];
    if (!simba_backend_find("rediss") || !server_has("redis-server"))
        skip();
    server_init(&s);
    assert_true(server_make_certificates(s.folder));
    assert_true(server_start_redis_tls(&s, s.folder, "secret", NULL));
    snprintf(url, sizeof url, "rediss://:secret@localhost:%d?ca=%s/ca.pem&ttl=50ms&transition=3s&restart-wait=no",
             s.port, s.folder);
    assert_all_end_well(url, 5000);
    assert_ends_well(start("destructor", url, NULL));
    server_fini(&s);
}

static void while_mysql_speaks_tls(void **state)
{
    server s;
    char url[160];
    if (!simba_backend_find("mysql") || !server_has("mariadbd"))
        skip();
    server_init(&s);
    assert_true(server_make_certificates(s.folder));
    assert_true(server_start_mariadb(
        &s, (const char *const[]){"--ssl-ca=ca.pem", "--ssl-cert=cert.pem", "--ssl-key=key.pem", NULL}));
    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%d/simba?create=yes&tls=yes&verify=no&ttl=50ms&transition=3s",
             s.port);
    assert_all_end_well(url, 20000);
    assert_ends_well(start("destructor", url, NULL));
    server_fini(&s);
}

static void while_postgresql_speaks_tls(void **state)
{
    server s;
    char url[320];
    if (!simba_backend_find("postgresql") || !server_has("postgres"))
        skip();
    server_init(&s);
    assert_true(server_start_postgresql_tls(&s));
    snprintf(url, sizeof url,
             "postgresql://postgres@localhost:%d/simba?create=yes&sslrootcert=%s/ca.pem&sslcert=%s/client.pem&"
             "sslkey=%s/client.key&ttl=50ms&transition=3s",
             s.port, s.folder, s.folder, s.folder);
    assert_all_end_well(url, 20000);
    server_fini(&s);
}

static void in_the_middle_of_a_critical_section(void **state)
{
    if (!simba_backend_find("redis"))
        skip();
    assert_ends_well(start("log", "redis://127.0.0.1:1", NULL));
}

/* And what was held is given back. */
static void with_a_handler_that_closes(void **state)
{
    char folder[REF_FOLDER_MAX];
    char url[REF_FOLDER_MAX + 32];
    ref_make_folder(folder);
    snprintf(url, sizeof url, "sqlite://%s/simba.db", folder);
    assert_ends_well(start("properly", url, NULL));
    assert_ends_well(start("properly", url, NULL)); /* it takes what the other one held, at once */
    assert_ends_well(start("destructor", url, NULL));
    assert_ends_well(start("properly", url, NULL));
    ref_delete_folder(folder);
}

int main(int argc, char **argv)
{
    if (argc > 2)
        play(argv + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_no_server_is_there),
        cmocka_unit_test(while_redis_speaks_tls),
        cmocka_unit_test(while_mysql_speaks_tls),
        cmocka_unit_test(while_postgresql_speaks_tls),
        cmocka_unit_test(in_the_middle_of_a_critical_section),
        cmocka_unit_test(with_a_handler_that_closes),
    };
    return cmocka_run_group_tests_name("exit", tests, NULL, NULL);
}
