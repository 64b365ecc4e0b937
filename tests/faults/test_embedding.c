/* The library is embedded in a process of somebody else: what belongs to the program is the same before a store is opened, while
 * it is open, and after it was closed; and then there are no more descriptors and threads than before. Each store is opened in a
 * process of its own, so that what is made once in a process is made there. */
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <simba/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/picture.h"
#include "lib/referee.h"
#include "lib/server.h"

static char folder[REF_FOLDER_MAX];

/* Things that a library might find odd enough to change. */
static void be_peculiar(void)
{
    umask(027);
    setlocale(LC_ALL, "C.UTF-8");
    setenv("TZ", "Asia/Tokyo", 1);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    if (chdir(folder) != 0)
        _exit(4);
}

/* How many there are, once those that are about to end have. ThreadSanitizer begins a thread of its own when it likes. */
static unsigned settled(const char *directory, unsigned expected)
{
#ifdef __SANITIZE_THREAD__
    return expected;
#else
    const int64_t deadline_ms = ref_now_ms() + 5000;
    unsigned count;
    while ((count = ref_entries(directory)) != expected && ref_now_ms() < deadline_ms)
        usleep(1000);
    return count;
#endif
}

/* What a daemon does before it opens anything. The placeholders of the library count as descriptors from the start. */
static void close_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        close(fd);
}

/* Or at least nothing: when it opens a file, SQLite puts the null device where it finds 0 to 2 closed. */
static bool standard_descriptors_are_closed(void)
{
    char byte = 'x';
    for (int fd = 0; fd <= 2; fd++) {
        struct stat about = {0};
        const bool is_open = fstat(fd, &about) == 0 && !(fcntl(fd, F_GETFL) & O_PATH);
        if (write(fd, &byte, 1) >= 0 || (is_open && !(S_ISCHR(about.st_mode) && about.st_rdev == makedev(1, 3))))
            return false;
    }
    return true;
}

/* A program's printf must not reach a store, whenever it has closed its standard output. */
static int visit_closed(const char *url)
{
    simba_client *client = NULL;
    simba_locker *locker = NULL;
    close_standard_descriptors();
    if (simba_client_open(url, NULL, NULL, &client) < 0 ||
        simba_locker_new(client, "embedded", NULL, NULL, &locker) < 0 || simba_locker_acquire(locker, 30000, NULL) < 0)
        return 2;
    if (!standard_descriptors_are_closed())
        return 5;
    simba_locker_release(locker, NULL);
    simba_client_close(client);
    /* And once more: here it is closed while the client is open, and what it does next makes the connection. */
    client = NULL;
    if (simba_client_open(url, NULL, NULL, &client) < 0)
        return 6;
    close_standard_descriptors();
    simba_locker_free(locker);
    if (simba_locker_new(client, "embedded", NULL, NULL, &locker) < 0 || simba_locker_acquire(locker, 30000, NULL) < 0)
        return 7;
    if (!standard_descriptors_are_closed())
        return 8;
    simba_locker_free(locker);
    return simba_client_close(client) == 0 && standard_descriptors_are_closed() ? 0 : 9;
}

static int visit(const char *url)
{
    static char before[PICTURE_SIZE], during[PICTURE_SIZE], after[PICTURE_SIZE];
    simba_error err = {0};
    simba_client *client = NULL;
    simba_locker *locker = NULL;
    be_peculiar();
    const unsigned threads = ref_entries("/proc/self/task");
    const unsigned descriptors = ref_entries("/proc/self/fd");
    picture_take(before);
    if (simba_client_open(url, NULL, &err, &client) < 0 ||
        simba_locker_new(client, "embedded", NULL, &err, &locker) < 0 ||
        simba_locker_acquire(locker, 30000, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    picture_take(during);
    simba_locker_free(locker);
    if (simba_client_close(client) < 0)
        return 3;
    picture_take(after);
    bool same = picture_same(before, during, "while it is open");
    same &= picture_same(before, after, "after it was closed");
    if (settled("/proc/self/task", threads) != threads || ref_entries("/proc/self/fd") != descriptors) {
        fprintf(stderr, "threads or descriptors are left\n");
        same = false;
    }
    return same ? 0 : 1;
}

/* The exit status of a child that visits; negative: a signal ended it. */
static int status_of(int (*visits)(const char *url), const char *url)
{
    int status = -1;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(visits(url));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void receive(const char *scheme, const server_kind *kind, const char *format)
{
    server group;
    char url[256];
    if (!simba_backend_find(scheme) || (kind == &server_kind_zookeeper && !server_has_zookeeper()))
        skip();
    if (kind && !server_has(kind->program))
        skip();
    ref_scene("embedded with %s", scheme);
    ref_watchdog(120);
    if (kind) {
        server_init(&group);
        if (!kind->start(&group))
            fail_msg("the server does not start");
        /* The port, or the port and the folder. */
        snprintf(url, sizeof url, format, group.port, group.folder);
    } else {
        snprintf(url, sizeof url, format, folder);
    }
    const int open = status_of(visit, url);
    const int closed = status_of(visit_closed, url);
    if (kind)
        server_fini(&group);
    ref_watchdog(0);
    assert_int_equal(open, 0);
    assert_int_equal(closed, 0);
}

#define EMBEDDED(name, scheme, kind, format)                                                                           \
    static void embedded_##name(void **state)                                                                          \
    {                                                                                                                  \
        receive(scheme, kind, format);                                                                                 \
    }
EMBEDDED(memory, "memory", NULL, "memory://embedded")
EMBEDDED(sqlite, "sqlite", NULL, "sqlite://%s/embedded.db")
EMBEDDED(redis, "redis", &server_kind_redis, "redis://127.0.0.1:%d?restart-wait=no")
EMBEDDED(redis_with_tls, "rediss", &server_kind_redis_tls, "rediss://:secret@localhost:%d?ca=%s/ca.pem&restart-wait=no")
EMBEDDED(mysql, "mysql", &server_kind_mariadb, "mysql://root@127.0.0.1:%d/simba?create=yes")
EMBEDDED(postgresql, "postgresql", &server_kind_postgresql,
         "postgresql://postgres@localhost:%d/simba?sslmode=disable&create=yes")
EMBEDDED(postgresql_with_tls, "postgresql", &server_kind_postgresql_tls,
         "postgresql://postgres@localhost:%1$d/simba?create=yes&sslrootcert=%2$s/ca.pem&sslcert=%2$s/"
         "client.pem&sslkey=%2$s/client.key")
EMBEDDED(zookeeper, "zookeeper", &server_kind_zookeeper, "zookeeper://127.0.0.1:%d")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedded_memory),     cmocka_unit_test(embedded_sqlite),
        cmocka_unit_test(embedded_redis),      cmocka_unit_test(embedded_redis_with_tls),
        cmocka_unit_test(embedded_mysql),      cmocka_unit_test(embedded_zookeeper),
        cmocka_unit_test(embedded_postgresql), cmocka_unit_test(embedded_postgresql_with_tls),
    };
    ref_make_folder(folder);
    const int failed = cmocka_run_group_tests_name("embedding", tests, NULL, NULL);
    ref_delete_folder(folder);
    return failed;
}
