/* The SQLite store and the queue before a mutex: whom a release calls, and what happens if that one does not come. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "backends/test_sqlite.h"

enum { WAITERS = 3 };

typedef struct scene {
    testhost holder;
    testhost waiters[WAITERS];
} scene;

static scene s; /* of the test at hand */

static void hold(fixture *f)
{
    memset(&s, 0, sizeof s);
    open_store(f, &s.holder);
    assert_mine(acquire(&s.holder, "orders", "h", 1));
}

/* The waiter of this number has the nonce 10 + i. */
static void begin_to_wait(fixture *f, int i)
{
    open_store(f, &s.waiters[i]);
    assert_owned_by(wait_for(&s.waiters[i], "orders", "w", 10 + (uint64_t)i), "h");
}

static void all_wait(fixture *f)
{
    hold(f);
    for (int i = 0; i < WAITERS; i++)
        begin_to_wait(f, i);
}

static void release(void)
{
    assert_mine(ask(&s.holder, SIMBA_OP_RELEASE, "orders", "h", 1, 0));
}

/* Those that are open. */
static void end(void)
{
    for (int i = 0; i < WAITERS; i++)
        if (s.waiters[i].store)
            testhost_close(&s.waiters[i]);
    testhost_close(&s.holder);
}

static size_t told(int i)
{
    testhost_settle(&s.waiters[i]);
    return s.waiters[i].push_count;
}

static void assert_called(int i)
{
    assert_true(testhost_await_pushes(&s.waiters[i], 1));
    assert_told(&s.waiters[i], 0, SIMBA_PUSH_RELEASED, 10 + (uint64_t)i);
    s.waiters[i].push_count = 0;
}

static void shift_all(int64_t ms)
{
    s.holder.now_shift_ns += ms * SIMBA__NS_PER_MS;
    for (int i = 0; i < WAITERS; i++)
        s.waiters[i].now_shift_ns += ms * SIMBA__NS_PER_MS;
}

/* From now on time passes only when the test says so. */
static void stop_clocks(void)
{
    const simba_local now = simba__clock_boot();
    s.holder.still_at = now;
    for (int i = 0; i < WAITERS; i++)
        s.waiters[i].still_at = now;
}

static size_t count_names(const fixture *f)
{
    char path[128];
    size_t count = 0;
    snprintf(path, sizeof path, "%s-wake", f->path);
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

/* A process that does `body` and then sleeps, or ends with it if that returns false. */
static pid_t start_process(fixture *f, bool (*body)(fixture *f))
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const bool stays = body(f);
        (void)!write(ready[1], &byte, 1);
        if (!stays)
            _exit(0);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void end_process(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static bool waits_in_child(fixture *f)
{
    static testhost h;
    simba_error err;
    if (testhost_open(&h, &simba__backend_sqlite, f->url, &err) < 0)
        _exit(1);
    testhost_request r = testhost_request_of(&h, SIMBA_OP_ACQUIRE, "orders", "child", 99, 0);
    r.request.queue = true;
    if (testhost_ask(&h, &r)->outcome != SIMBA_NOT_MINE)
        _exit(2);
    return true;
}

/* A release calls the first waiter, and leaves the others alone. The mutex is the called one's. */
static void the_first_alone_is_called(void **state)
{
    fixture *f = *state;
    all_wait(f);
    stop_clocks();
    release();
    assert_called(0);
    assert_int_equal(told(1), 0);
    assert_int_equal(told(2), 0);
    const simba_reply refused = acquire(&s.waiters[1], "orders", "w", 11);
    assert_owned_by(refused, "");
    assert_owned_by(acquire(&s.holder, "orders", "h", 1), "");
    assert_mine(wait_for(&s.waiters[0], "orders", "w", 10));
    assert_owned_by(wait_for(&s.waiters[1], "orders", "w", 11), "w");
    assert_string_equal(raw_text(f, "SELECT group_concat(nonce) FROM (SELECT nonce FROM simba_waiter ORDER BY nonce)"),
                        "11,12");
    shift_all(1);
    assert_mine(ask(&s.waiters[0], SIMBA_OP_RELEASE, "orders", "w", 10, 0));
    assert_called(1);
    end();
}

/* The called one does not come for 100 ms: then the mutex is anybody's, and that one goes to the end of the queue. */
static void who_does_not_come_goes_to_the_end(void **state)
{
    fixture *f = *state;
    all_wait(f);
    stop_clocks();
    release();
    shift_all(99);
    assert_owned_by(wait_for(&s.waiters[1], "orders", "w", 11), "");
    shift_all(2);
    assert_mine(wait_for(&s.waiters[1], "orders", "w", 11));
    assert_string_equal(raw_text(f, "SELECT group_concat(nonce) FROM (SELECT nonce FROM simba_waiter ORDER BY since)"),
                        "12,10");
    assert_mine(ask(&s.waiters[1], SIMBA_OP_RELEASE, "orders", "w", 11, 0));
    assert_called(2);
    end();
}

/* One that waits no more is not called. One that was called and wants no more passes the call on. */
static void who_leaves_is_not_called(void **state)
{
    fixture *f = *state;
    all_wait(f);
    ask(&s.waiters[0], SIMBA_OP_RELEASE, "orders", "w", 10, 0);
    release();
    assert_called(1);
    assert_int_equal(told(0), 0);
    ask(&s.waiters[1], SIMBA_OP_RELEASE, "orders", "w", 11, 0);
    assert_called(2);
    ask(&s.waiters[2], SIMBA_OP_RELEASE, "orders", "w", 12, 0);
    assert_mine(acquire(&s.holder, "orders", "h", 2));
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_waiter"), "0");
    end();
}

/* A contender that says nothing for 30 s after the lease that it was told of is gone, although its client lives. */
static void orphans_are_dropped(void **state)
{
    fixture *f = *state;
    all_wait(f);
    shift_all(16000 + 30001);
    assert_mine(acquire(&s.holder, "orders", "h", 1));
    assert_owned_by(wait_for(&s.waiters[2], "orders", "w", 12), "h");
    release();
    assert_called(2);
    assert_string_equal(raw_text(f, "SELECT group_concat(nonce) FROM simba_waiter"), "12");
    end();
}

/* The first in the queue was killed: the next is called at once, and nothing of the dead one is left. */
static void the_first_was_killed(void **state)
{
    fixture *f = *state;
    hold(f);
    const pid_t child = start_process(f, waits_in_child);
    begin_to_wait(f, 0);
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_waiter"), "2");
    end_process(child);
    release();
    assert_called(0);
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_waiter"), "1");
    assert_int_equal(count_names(f), 2);
    end();
}

/* What a killed process has left goes when the next client makes its socket. */
static void the_next_client_sweeps(void **state)
{
    fixture *f = *state;
    hold(f);
    end_process(start_process(f, waits_in_child));
    assert_int_equal(count_names(f), 2);
    open_store(f, &s.waiters[0]);
    assert_mine(acquire(&s.waiters[0], "invoices", "w", 10));
    assert_int_equal(count_names(f), 2);
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_waiter"), "0");
    end();
}

/* The first in the queue is frozen: it is called, and does not come. Another takes the mutex as soon as it looks. */
static void the_first_is_frozen(void **state)
{
    fixture *f = *state;
    hold(f);
    const pid_t child = start_process(f, waits_in_child);
    begin_to_wait(f, 0);
    assert_int_equal(kill(child, SIGSTOP), 0);
    release();
    assert_string_equal(raw_text(f, "SELECT next_nonce FROM simba_lock"), "99");
    assert_int_equal(told(0), 0);
    testhost_advance(&s.waiters[0], 1001);
    assert_told(&s.waiters[0], 0, SIMBA_PUSH_RELEASED, 10);
    assert_mine(wait_for(&s.waiters[0], "orders", "w", 10));
    end_process(child);
    end();
}

static bool releases_in_child(fixture *f)
{
    static testhost h;
    simba_error err;
    if (geteuid() == 0 && (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
        _exit(1);
    if (testhost_open(&h, &simba__backend_sqlite, f->url, &err) < 0)
        _exit(2);
    testhost_request r = testhost_request_of(&h, SIMBA_OP_RELEASE, "orders", "h", 1, 0);
    testhost_request other = testhost_request_of(&h, SIMBA_OP_ACQUIRE, "invoices", "h", 1, 0);
    if (testhost_ask(&h, &other)->outcome != SIMBA_MINE || testhost_ask(&h, &r)->outcome != SIMBA_MINE)
        _exit(3);
    return false;
}

/* The first in the queue cannot be notified by the one that releases: the next is called, and the first keeps its row. */
static void the_first_cannot_be_notified(void **state)
{
    fixture *f = *state;
    char path[256];
    static const char *const endings[] = {"", "-wal", "-shm", "-wake"};
    all_wait(f);
    snprintf(path, sizeof path, "%s-wake/%s", f->path, raw_text(f, "SELECT socket FROM simba_waiter WHERE nonce = 10"));
    assert_int_equal(chmod(path, 0), 0);
    for (int i = 1; i < WAITERS; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT socket FROM simba_waiter WHERE nonce = %d", 10 + i);
        snprintf(path, sizeof path, "%s-wake/%s", f->path, raw_text(f, sql));
        assert_int_equal(chmod(path, 0666), 0);
    }
    assert_int_equal(chmod(f->folder, 0777), 0);
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s%s", f->path, endings[i]);
        assert_int_equal(chmod(path, 0777), 0);
    }
    const pid_t child = start_process(f, releases_in_child);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_called(1);
    assert_int_equal(told(0), 0);
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_waiter"), "3");
    /* It looks by itself. */
    testhost_advance(&s.waiters[0], 1001);
    assert_told(&s.waiters[0], 0, SIMBA_PUSH_RELEASED, 10);
    end();
}

/* Sockets cannot be made: one line of the log says so, and the waiter looks four times a second. */
static void without_a_socket(void **state)
{
    fixture *f = *state;
    char path[128];
    snprintf(path, sizeof path, "%s-wake", f->path);
    const int fd = creat(path, 0600);
    hold(f);
    begin_to_wait(f, 0);
    assert_int_equal(s.waiters[0].warnings, 1);
    assert_non_null(strstr(s.waiters[0].log, "are polled for"));
    release();
    testhost_advance(&s.waiters[0], 251);
    assert_told(&s.waiters[0], 0, SIMBA_PUSH_RELEASED, 10);
    assert_int_equal(s.waiters[0].warnings, 1);

    /* As soon as it can, it has one, and asks under its new name. */
    assert_int_equal(unlink(path), 0);
    s.waiters[0].push_count = 0;
    testhost_advance(&s.waiters[0], 251);
    assert_told(&s.waiters[0], 0, SIMBA_PUSH_SESSION_BACK, 0);
    assert_int_equal(count_names(f), 1);
    close(fd);
    end();
}

/* Somebody removes the sockets: others take the waiter for dead. Within a second it has another, and asks anew. */
static void the_folder_is_removed(void **state)
{
    fixture *f = *state;
    char path[128];
    char before[32];
    hold(f);
    begin_to_wait(f, 0);
    snprintf(before, sizeof before, "%s", raw_text(f, "SELECT socket FROM simba_waiter"));
    snprintf(path, sizeof path, "%s-wake", f->path);
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    testhost_advance(&s.waiters[0], 1001);
    assert_told(&s.waiters[0], 0, SIMBA_PUSH_SESSION_BACK, 0);
    assert_owned_by(wait_for(&s.waiters[0], "orders", "w", 10), "h");
    assert_string_not_equal(raw_text(f, "SELECT socket FROM simba_waiter"), before);
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_waiter"), "1");
    /* The holder still has the old folder, in which nobody is: it takes nobody for dead because of that. */
    s.waiters[0].push_count = 0;
    release();
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_waiter"), "1");
    testhost_advance(&s.waiters[0], 1001);
    assert_told(&s.waiters[0], 0, SIMBA_PUSH_RELEASED, 10);
    end();
}

/* A client waits for more mutexes than its socket holds datagrams. All are released in one batch: it hears of all. */
static void more_calls_than_datagrams(void **state)
{
    enum { MANY = 40 };
    fixture *f = *state;
    static char names[MANY][16];
    static testhost_request requests[MANY];
    hold(f);
    open_store(f, &s.waiters[0]);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "m%d", i);
        assert_mine(acquire(&s.holder, names[i], "h", 100 + (uint64_t)i));
        assert_owned_by(wait_for(&s.waiters[0], names[i], "w", 200 + (uint64_t)i), "h");
    }
    for (int i = 0; i < MANY; i++) {
        requests[i] = testhost_request_of(&s.holder, SIMBA_OP_RELEASE, names[i], "h", 100 + (uint64_t)i, 0);
        testhost_submit(&s.holder, &requests[i]);
        if (i % 2) /* one batch each, and then many at once */
            testhost_flush(&s.holder);
        if (i % 2 && i < 30)
            testhost_run_jobs(&s.holder);
    }
    testhost_run_jobs(&s.holder);
    assert_true(testhost_await_pushes(&s.waiters[0], MANY));
    testhost_settle(&s.waiters[0]);
    assert_int_equal(s.waiters[0].push_count, MANY);
    end();
}

/* Rows that simba has not written wake nobody, and lead nowhere: names that are paths, times that are none, a reservation without
 * an end. */
static void rows_of_others(void **state)
{
    fixture *f = *state;
    char outside[96];
    char sql[256];
    hold(f);
    snprintf(outside, sizeof outside, "%s/outside", f->folder);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", outside);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    static const char *const rows[] = {
        "3, 'orders', 'w', 0, 'x', '../outside', 9223372036854775807, 0",
        "4, 'orders', 'o', 0, 'x', '../outside', 9223372036854775807, 0",
        "5, 'orders', 'w', 'x', x'00', 'x', 'x', 'x'",
        "6, 'orders', x'77', 1, 'x', hex(zeroblob(10000)), 9223372036854775807, 0",
        "8, 'orders', 'w', 2, 'x', x'30313233343536373839616263646566', 9223372036854775807, 0",
        "9, 'orders', 'w', 3, 'x', '0123456789abcdef' || char(0) || 'x', 9223372036854775807, 0",
        "7, 'orders', 'nonsense', 1, 'x', '0123456789abcdef', 9223372036854775807, 0",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(sql, sizeof sql, "INSERT INTO simba_waiter VALUES (%s)", rows[i]);
        raw_once(f, sql);
    }
    begin_to_wait(f, 0);
    release();
    assert_called(0);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    raw_once(f, "UPDATE simba_lock SET next_nonce = 3, next_until_boot_ns = 9223372036854775807");
    assert_mine(acquire(&s.holder, "orders", "h", 1));
    raw_once(f, "UPDATE simba_waiter SET mutex = hex(zeroblob(1000)), called = 9223372036854775807 WHERE nonce = 10");
    testhost_advance(&s.waiters[0], 1001);
    assert_int_equal(s.waiters[0].push_count, 0);
    close(fd);
    end();
}

/* A client that closes leaves neither rows nor a name, and one that nobody waits for no rows. */
static void closing_leaves_nothing(void **state)
{
    fixture *f = *state;
    all_wait(f);
    end();
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_waiter"), "0");
    assert_int_equal(count_names(f), 0);
}

/* A flood of datagrams does not keep the one whose socket it is. */
static void about_flood(void **state)
{
    fixture *f = *state;
    char path[256];
    hold(f);
    begin_to_wait(f, 0);
    snprintf(path, sizeof path, "%s-wake/%s", f->path, raw_text(f, "SELECT socket FROM simba_waiter"));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    static char bytes[4096];
    for (int i = 0; i < 1000; i++)
        (void)sendto(fd, bytes, sizeof bytes, 0, (const struct sockaddr *)&address, sizeof address);
    const unsigned jobs = s.waiters[0].jobs_run;
    assert_int_equal(told(0), 0);
    assert_int_equal(s.waiters[0].jobs_run, jobs + 1);
    release();
    assert_called(0);
    close(fd);
    end();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_first_alone_is_called), TEST(who_does_not_come_goes_to_the_end),
        TEST(who_leaves_is_not_called),  TEST(orphans_are_dropped),
        TEST(the_first_was_killed),      TEST(the_next_client_sweeps),
        TEST(the_first_is_frozen),       TEST(the_first_cannot_be_notified),
        TEST(without_a_socket),          TEST(the_folder_is_removed),
        TEST(more_calls_than_datagrams), TEST(rows_of_others),
        TEST(closing_leaves_nothing),    TEST(about_flood),
    };
    return cmocka_run_group_tests_name("sqlite queue", tests, NULL, NULL);
}
