/* What happens when the system refuses descriptors and threads, at every place where it can: a client opens or says why it
 * does not, never ends the program, and leaves nothing behind. One that has opened may find its store out of reach. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <simba/backend.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "lib/cm.h"
#include "lib/referee.h"
#include "lib/server.h"

/* --- calls that fail on command ---------------------------------------------------------------------- */

static atomic_uint calls;
static atomic_uint failing; /* the number of the one that fails; 0: none */

static bool may(void)
{
    return atomic_fetch_add(&calls, 1) + 1 != atomic_load(&failing);
}

/* The one of the C library, or of what stands before it. */
#define REAL(name)                                                                                                     \
    ({                                                                                                                 \
        __typeof__(&(name)) real_;                                                                                     \
        *(void **)&real_ = dlsym(RTLD_NEXT, #name);                                                                    \
        real_;                                                                                                         \
    })
#define OR_FAIL(error, call) (may() ? (call) : (errno = (error), -1))

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): their names there begin with two underscores. */
int epoll_create1(int flags)
{
    return OR_FAIL(EMFILE, REAL(epoll_create1)(flags));
}

int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    if (op == EPOLL_CTL_DEL)
        return REAL(epoll_ctl)(set, op, fd, event);
    return OR_FAIL(ENOMEM, REAL(epoll_ctl)(set, op, fd, event));
}

int eventfd(unsigned count, int flags)
{
    return OR_FAIL(EMFILE, REAL(eventfd)(count, flags));
}

int timerfd_create(int clock, int flags)
{
    return OR_FAIL(EMFILE, REAL(timerfd_create)(clock, flags));
}

int mkfifoat(int folder, const char *name, mode_t mode);
int mkfifoat(int folder, const char *name, mode_t mode)
{
    return OR_FAIL(ENOSPC, REAL(mkfifoat)(folder, name, mode));
}

int socket(int domain, int type, int protocol)
{
    return OR_FAIL(EMFILE, REAL(socket)(domain, type, protocol));
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return may() ? REAL(pthread_create)(thread, attr, run, arg) : EAGAIN;
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* --- the stores ---------------------------------------------------------------------------------------- */

typedef struct store {
    const char *scheme;
    const server_kind *kind; /* NULL: it needs none */
    const char *format;      /* of its URL, with the port */
} store;

static char folder[REF_FOLDER_MAX];
static char sqlite_url[REF_FOLDER_MAX + 32];

/* Open, lock and close. Whether it opened. */
static bool play(const char *url)
{
    simba_error err = {0};
    simba_client *untouched = (void *)&err;
    simba_client *client = untouched;
    const int rc = simba_client_open(url, NULL, &err, &client);
    if (rc < 0) {
        assert_ptr_equal(client, untouched);
        assert_int_equal(err.code, rc);
        assert_true(err.text[0] != '\0');
        return false;
    }
    simba_locker *locker = NULL;
    assert_int_equal(simba_locker_new(client, "orders", NULL, &err, &locker), 0);
    if (simba_locker_acquire(locker, 20, &err) == 0)
        simba_locker_release(locker, &err);
    assert_int_equal(simba_client_close(client), 0);
    simba_locker_free(locker);
    return true;
}

static void limit_descriptors(rlim_t most)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* From none that is free to more than are needed. */
static void sweep_descriptors(const char *url)
{
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    const unsigned open = ref_entries("/proc/self/fd");
    unsigned opened = 0;
    for (rlim_t most = 3; most <= 64; most++) {
        ref_watchdog(60);
        ref_scene("%s with descriptors below %u", url, (unsigned)most);
        limit_descriptors(most);
        opened += play(url);
        limit_descriptors(before.rlim_cur);
        assert_int_equal(ref_entries("/proc/self/fd"), open);
    }
    assert_true(opened > 0);
    print_message("# %s: opened with %u of 62 limits\n", url, opened);
}

/* Each call in turn, until none was left to fail. */
static void sweep_calls(const char *url)
{
    const unsigned open = ref_entries("/proc/self/fd");
    unsigned nth = 0;
    unsigned refused = 0;
    do {
        ref_watchdog(60);
        ref_scene("%s without call %u", url, ++nth);
        atomic_store(&calls, 0);
        atomic_store(&failing, nth);
        refused += !play(url);
        atomic_store(&failing, 0);
        assert_int_equal(ref_entries("/proc/self/fd"), open);
    } while (atomic_load(&calls) >= nth);
    assert_true(refused > 0);
    print_message("# %s: %u calls, %u that it does not open without\n", url, nth - 1, refused);
}

static void play_store(const store *s)
{
    server group;
    char url[160];
    if (!simba_backend_find(s->scheme))
        skip();
    if (s->kind) {
        server_init(&group);
        if (!s->kind->start(&group))
            fail_msg("the server does not start");
    }
    snprintf(url, sizeof url, s->format, s->kind ? group.port : 0);
    assert_true(play(url)); /* what is made once in a program is made now */
    sweep_descriptors(url);
    sweep_calls(url);
    ref_watchdog(0);
    if (s->kind)
        server_fini(&group);
}

static void about_memory(void **state)
{
    play_store(&(store){"memory", NULL, "memory://scarce"});
}

static void about_sqlite(void **state)
{
    play_store(&(store){"sqlite", NULL, sqlite_url});
}

static void about_redis(void **state)
{
    play_store(&(store){"redis", &server_kind_redis, "redis://localhost:%d?restart-wait=no"});
}

static void about_mysql(void **state)
{
    play_store(&(store){"mysql", &server_kind_mariadb, "mysql://root@127.0.0.1:%d/simba?create=yes"});
}

static void about_postgresql(void **state)
{
    play_store(&(store){"postgresql", &server_kind_postgresql,
                        "postgresql://postgres@localhost:%d/simba?sslmode=disable&create=yes"});
}

static void about_zookeeper(void **state)
{
    if (!server_has_zookeeper())
        skip();
    play_store(&(store){"zookeeper", &server_kind_zookeeper, "zookeeper://127.0.0.1:%d"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_memory), cmocka_unit_test(about_sqlite),    cmocka_unit_test(about_redis),
        cmocka_unit_test(about_mysql),  cmocka_unit_test(about_zookeeper), cmocka_unit_test(about_postgresql),
    };
    ref_make_folder(folder);
    snprintf(sqlite_url, sizeof sqlite_url, "sqlite://%s/simba.db", folder);
    const int failed = cmocka_run_group_tests_name("scarce", tests, NULL, NULL);
    ref_delete_folder(folder);
    return failed;
}
