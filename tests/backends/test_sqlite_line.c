/* The SQLite store and the line before a mutex: a release wakes the client that has waited longest, and the others sleep on. */
#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "backends/sqlite/line.h"
#include "backends/sqlite/notify.h"
#include "backends/test_sqlite.h"

enum { WAITERS = 3 };

typedef struct scene {
    testhost holder;
    testhost waiters[WAITERS];
    simba_topic topics[WAITERS];
} scene;

static scene s; /* of the test at hand */

static void begin_to_wait(fixture *f, int i, bool observed)
{
    open_store(f, &s.waiters[i]);
    s.waiters[i].now_shift_ns = s.holder.now_shift_ns;
    s.topics[i] = (simba_topic){.mutex = "orders", .observed = observed};
    assert_owned_by(acquire(&s.waiters[i], "orders", "w", 10 + (uint64_t)i), "h");
    assert_int_equal(testhost_watch(&s.waiters[i], &s.topics[i]), 0);
    testhost_settle(&s.waiters[i]);
    s.waiters[i].push_count = 0;
    for (int j = 0; j <= i; j++)
        s.waiters[j].now_shift_ns += 10 * SIMBA__NS_PER_MS;
    s.holder.now_shift_ns += 10 * SIMBA__NS_PER_MS; /* the next one comes later */
}

static void begin(fixture *f)
{
    memset(&s, 0, sizeof s);
    open_store(f, &s.holder);
    assert_mine(acquire(&s.holder, "orders", "h", 1));
}

static void all_wait(fixture *f)
{
    begin(f);
    for (int i = 0; i < WAITERS; i++)
        begin_to_wait(f, i, false);
}

static void release(void)
{
    assert_mine(ask(&s.holder, SIMBA_OP_RELEASE, "orders", "h", 1, 0));
}

static void end(void)
{
    for (int i = 0; i < WAITERS; i++) {
        if (s.topics[i].backend_data)
            testhost_unwatch(&s.waiters[i], &s.topics[i]);
        if (s.topics[i].mutex)
            testhost_close(&s.waiters[i]);
    }
    testhost_close(&s.holder);
}

static unsigned told(int i)
{
    testhost_settle(&s.waiters[i]);
    return s.waiters[i].push_count;
}

static void the_first_alone_is_woken(void **state)
{
    fixture *f = *state;
    all_wait(f);
    const unsigned jobs[] = {s.waiters[1].jobs_run, s.waiters[2].jobs_run};
    release();
    assert_true(testhost_await_pushes(&s.waiters[0], 1));
    assert_told(&s.waiters[0], 0, SIMBA_PUSH_RELEASED, NULL);
    assert_mine(acquire(&s.waiters[0], "orders", "w", 10));
    testhost_advance(&s.waiters[1],
                     30); /* the second looks whether the first has taken it, without a question to the store */
    for (int i = 1; i < WAITERS; i++) {
        assert_int_equal(told(i), 0);
        assert_int_equal(s.waiters[i].jobs_run, jobs[i - 1]);
    }
    /* Within a second all know who has it. */
    for (int i = 1; i < WAITERS; i++) {
        testhost_advance(&s.waiters[i], 1001);
        assert_int_equal(told(i), 1);
        assert_told(&s.waiters[i], 0, SIMBA_PUSH_ACQUIRED, "w");
    }
    end();
}

static void the_second_steps_in(void **state)
{
    fixture *f = *state;
    all_wait(f);
    release();
    assert_int_equal(told(1), 0);
    testhost_advance(&s.waiters[1], 21);
    assert_int_equal(s.waiters[1].push_count, 1);
    assert_told(&s.waiters[1], 0, SIMBA_PUSH_RELEASED, NULL);
    assert_mine(acquire(&s.waiters[1], "orders", "w", 11));
    assert_int_equal(told(2), 0);
    end();
}

static void who_left_is_not_next(void **state)
{
    fixture *f = *state;
    all_wait(f);
    testhost_unwatch(&s.waiters[0], &s.topics[0]);
    release();
    assert_int_equal(told(0), 0);
    assert_true(testhost_await_pushes(&s.waiters[1], 1));
    end();
}

static void observers_hear_of_everything(void **state)
{
    fixture *f = *state;
    begin(f);
    begin_to_wait(f, 0, true);
    begin_to_wait(f, 1, false);
    release();
    assert_true(testhost_await_pushes(&s.waiters[0], 1));
    assert_true(testhost_await_pushes(&s.waiters[1], 1)); /* an observer does not stand in line */
    assert_mine(acquire(&s.waiters[1], "orders", "w", 11));
    assert_true(testhost_await_pushes(&s.waiters[0], 2));
    assert_told(&s.waiters[0], 1, SIMBA_PUSH_ACQUIRED, "w");
    end();
}

/* One that was killed while it waited leaves its place in the file, but it is not there: the next is told at once. */
static void killed_in_line(void **state)
{
    fixture *f = *state;
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    begin(f);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        testhost host = {0};
        simba_topic topic = {.mutex = "orders"};
        simba_error err;
        if (testhost_open(&host, &simba__backend_sqlite, f->url, &err) < 0 || testhost_watch(&host, &topic) != 0)
            _exit(1);
        testhost_settle(&host);
        (void)!write(ready[1], &byte, 1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    s.holder.now_shift_ns += 1000 * SIMBA__NS_PER_MS;
    begin_to_wait(f, 0, false);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    release();
    assert_true(testhost_await_pushes(&s.waiters[0], 1));
    assert_told(&s.waiters[0], 0, SIMBA_PUSH_RELEASED, NULL);

    /* And its place is empty. */
    simba__sqlite_line line;
    simba__sqlite_notify *notify = NULL;
    simba_error err;
    const uint64_t hash = simba__sqlite_notify_hash("orders");
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &notify), 0);
    simba__sqlite_notify_read_line(notify, simba__sqlite_line_number(hash), &line);
    unsigned places = 0;
    for (int i = 0; i < SIMBA__SQLITE_BELLS; i++)
        places += line.cells[i] != 0;
    assert_int_equal(places, 1);
    simba__sqlite_notify_close(notify);
    end();
    close(ready[0]);
    close(ready[1]);
}

/* Whoever hangs up a bell that a killed process had does not stand where that one stood: in the first line, in two that lie beside each
 * other, and in the last one, with holes of the file between them. */
static void places_are_not_inherited(void **state)
{
    fixture *f = *state;
    simba_error err;
    simba__sqlite_line line;
    simba__sqlite_notify *notify = NULL;
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &notify), 0);
    assert_int_equal(simba__sqlite_notify_attend(notify, 7), 0);
    static const size_t lines[] = {0, 3, 4, SIMBA__SQLITE_LINES - 1};
    enum { COUNT = sizeof lines / sizeof *lines };
    for (size_t i = 0; i < COUNT; i++)
        simba__sqlite_notify_say_place(notify, lines[i], simba__sqlite_line_cell(lines[i], false, 0));
    const int number = notify->bell.number;
    close(notify->bell.fd); /* as if it had died */
    notify->bell.fd = -1;
    assert_int_equal(simba__sqlite_notify_attend(notify, 7), 0);
    assert_int_equal(notify->bell.number, number);
    for (size_t i = 0; i < COUNT; i++) {
        simba__sqlite_notify_read_line(notify, lines[i], &line);
        assert_int_equal(line.cells[number], 0);
    }
    simba__sqlite_notify_close(notify);
}

/* A waiter of the client that releases is told to let somebody go first who has waited longer, and steps in if he does not. */
static void own_waiters_stand_in_line(void **state)
{
    fixture *f = *state;
    begin(f);
    begin_to_wait(f, 0, false);
    simba_topic own = {.mutex = "orders"};
    assert_int_equal(testhost_watch(&s.holder, &own), 0);
    testhost_settle(&s.holder);
    s.holder.push_count = 0;
    release();
    assert_int_equal(s.holder.push_count, 1);
    assert_told(&s.holder, 0, SIMBA_PUSH_FREED, NULL);
    assert_true(testhost_await_pushes(&s.waiters[0], 1));
    testhost_advance(&s.holder, 21);
    assert_int_equal(s.holder.push_count, 2);
    assert_told(&s.holder, 1, SIMBA_PUSH_RELEASED, NULL);

    /* It takes it, for one of several who wait: the others of them come after the one that did not. */
    s.waiters[0].push_count = 0;
    assert_mine(acquire(&s.holder, "orders", "h", 1));
    testhost_settle(&s.holder);
    s.holder.push_count = 0;
    release();
    assert_true(testhost_await_pushes(&s.waiters[0], 1));
    assert_told(&s.holder, 0, SIMBA_PUSH_FREED, NULL);
    testhost_unwatch(&s.holder, &own);
    end();
}

/* A client is first in line with one of its waiters; when that one has had the mutex, the others of it go to the end. */
static void a_grant_is_one_turn(void **state)
{
    fixture *f = *state;
    all_wait(f);
    release();
    assert_true(testhost_await_pushes(&s.waiters[0], 1));
    s.waiters[0].now_shift_ns = s.holder.now_shift_ns;
    assert_mine(acquire(&s.waiters[0], "orders", "w", 10)); /* and somebody else of it goes on waiting */
    testhost_settle(&s.waiters[0]);
    assert_mine(ask(&s.waiters[0], SIMBA_OP_RELEASE, "orders", "w", 10, 0));
    assert_true(testhost_await_pushes(&s.waiters[1], 1));
    assert_told(&s.waiters[1], 0, SIMBA_PUSH_RELEASED, NULL);
    end();
}

/* Two mutexes in one line, and more mutexes than a client says one by one: told of all of them. */
static void many_mutexes(void **state)
{
    enum { MANY = 80 };
    fixture *f = *state;
    static char names[MANY][32];
    static simba_topic topics[MANY];
    begin(f);
    for (int count = 2; count <= MANY; count += MANY - 2) {
        open_store(f, &f->a);
        for (int i = 0, n = 0; i < count; n++) {
            snprintf(names[i], sizeof names[i], "m%d", n);
            const size_t line = simba__sqlite_line_number(simba__sqlite_notify_hash(names[i]));
            if (count == 2 && i == 1 && line != simba__sqlite_line_number(simba__sqlite_notify_hash(names[0])))
                continue;
            topics[i] = (simba_topic){.mutex = names[i]};
            assert_mine(acquire(&s.holder, names[i], "h", 100 + (uint64_t)i));
            assert_int_equal(testhost_watch(&f->a, &topics[i]), 0);
            i++;
        }
        testhost_settle(&f->a);
        for (int i = 0; i < count; i++) {
            f->a.push_count = 0;
            assert_mine(ask(&s.holder, SIMBA_OP_RELEASE, names[i], "h", 100 + (uint64_t)i, 0));
            assert_true(testhost_await_pushes(&f->a, 1));
            assert_ptr_equal(f->a.pushes[0].topic, &topics[i]);
            testhost_settle(&f->a);
        }
        for (int i = 0; i < count; i++)
            testhost_unwatch(&f->a, &topics[i]);
        testhost_close(&f->a);
    }
    end();
}

/* A client that waited for so many mutexes that it heard of all changes does not stand in line any more when it has left. */
static void who_waited_for_many_leaves_no_place(void **state)
{
    enum { MANY = 80 };
    fixture *f = *state;
    static char names[MANY][32];
    static simba_topic topics[MANY];
    begin(f);
    open_store(f, &f->a);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], i == 0 ? "orders" : "m%d", i);
        topics[i] = (simba_topic){.mutex = names[i]};
        assert_int_equal(testhost_watch(&f->a, &topics[i]), 0);
    }
    testhost_settle(&f->a);
    for (int i = 0; i < MANY; i++)
        testhost_unwatch(&f->a, &topics[i]);
    s.holder.now_shift_ns += 1000 * SIMBA__NS_PER_MS;
    begin_to_wait(f, 0, false);
    release();
    assert_true(testhost_await_pushes(&s.waiters[0], 1));
    assert_told(&s.waiters[0], 0, SIMBA_PUSH_RELEASED, NULL);
    testhost_close(&f->a);
    end();
}

static unsigned count_bells(const fixture *f)
{
    char path[128];
    snprintf(path, sizeof path, "%s-bells", f->path);
    DIR *folder = opendir(path);
    unsigned count = 0;
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

/* Who holds a mutex for a moment hangs up no bell; those who do take it down in the end. */
static void bells_are_taken_down(void **state)
{
    fixture *f = *state;
    begin(f);
    release();
    assert_int_equal(count_bells(f), 0);
    assert_mine(acquire(&s.holder, "orders", "h", 1));
    testhost_advance(&s.holder, 101);
    begin_to_wait(f, 0, false);
    assert_int_equal(count_bells(f), 2);
    end();
    assert_int_equal(count_bells(f), 0);
}

/* Somebody removes the bells, or puts something else in their place: after a while they hang again. */
static void bells_removed(void **state)
{
    fixture *f = *state;
    char path[128];
    begin(f);
    begin_to_wait(f, 0, false);
    snprintf(path, sizeof path, "%s-bells", f->path);
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    testhost_advance(&s.waiters[0], 1001);
    release();
    assert_true(testhost_await_pushes(&s.waiters[0], 1));
    assert_mine(acquire(&s.holder, "orders", "h", 1));
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(symlink("/", path), 0);
    testhost_advance(&s.waiters[0], 1001); /* polls from now on */
    s.waiters[0].push_count = 0;
    release();
    testhost_advance(&s.waiters[0], 251);
    assert_int_equal(s.waiters[0].push_count, 1);
    assert_int_equal(remove(path), 0);
    end();
}

/* A flood does not keep the one whose bell it is. */
static void about_flood(void **state)
{
    fixture *f = *state;
    simba_error err;
    simba__sqlite_notify *notify = NULL;
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &notify), 0);
    assert_int_equal(simba__sqlite_notify_attend(notify, 0), 0);
    const int folder = simba__sqlite_bell_folder(notify->bells);
    for (int i = 0; i < 100000; i++)
        assert_true(
            simba__sqlite_bell_ring(folder, (unsigned)notify->bell.number, SIMBA__SQLITE_RING_NEWS, NULL, NULL));
    close(folder);
    assert_int_equal(simba__sqlite_bell_drain(&notify->bell), SIMBA__SQLITE_RING_NEWS);
    assert_int_equal(simba__sqlite_bell_drain(&notify->bell), 0);
    simba__sqlite_notify_close(notify);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_first_alone_is_woken),
        TEST(the_second_steps_in),
        TEST(who_left_is_not_next),
        TEST(observers_hear_of_everything),
        TEST(killed_in_line),
        TEST(places_are_not_inherited),
        TEST(own_waiters_stand_in_line),
        TEST(a_grant_is_one_turn),
        TEST(many_mutexes),
        TEST(who_waited_for_many_leaves_no_place),
        TEST(bells_are_taken_down),
        TEST(bells_removed),
        TEST(about_flood),
    };
    return cmocka_run_group_tests_name("sqlite line", tests, NULL, NULL);
}
