/* The SQLite store and the moments in between: what another process does just then is not missed. */
#include <signal.h>
#include <sys/wait.h>

#include "backends/test_sqlite.h"

/* What to do in the middle of a transaction of the store that was opened with hooks: once, and then no more. */
static struct {
    fixture *f;
    void (*on_read)(fixture *f);   /* a row was read */
    void (*on_commit)(fixture *f); /* just committed */
} meanwhile;

static void act_once(void (**act)(fixture *f))
{
    void (*now)(fixture * f) = *act;
    *act = NULL;
    if (now)
        now(meanwhile.f);
}

static int after_statement(unsigned kind, void *user, void *statement, void *ns)
{
    if (strstr(sqlite3_sql(statement), "simba_note USING (mutex) WHERE mutex = "))
        act_once(&meanwhile.on_read);
    if (strcmp(sqlite3_sql(statement), "COMMIT") == 0)
        act_once(&meanwhile.on_commit);
    return 0;
}

static int add_hooks(sqlite3 *db, char **message, const void *api)
{
    return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, after_statement, NULL);
}

static void open_hooked(fixture *f, testhost *h)
{
    meanwhile.f = f;
    meanwhile.on_read = NULL;
    meanwhile.on_commit = NULL;
    sqlite3_auto_extension((void (*)(void))add_hooks);
    open_store(f, h);
    sqlite3_reset_auto_extension();
}

static void b_releases(fixture *f)
{
    ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0);
}

static testhost_request waiting_request(fixture *f)
{
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "a", 1, 0);
    r.request.queue = true;
    return r;
}

/* It is released just after the transaction that refused it, and before the refusal is told. */
static void released_before_the_answer(void **state)
{
    fixture *f = *state;
    open_hooked(f, &f->a);
    open_store(f, &f->b);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    testhost_request r = waiting_request(f);
    testhost_submit(&f->a, &r);
    testhost_flush(&f->a);
    meanwhile.on_commit = b_releases;
    testhost_run_jobs(&f->a);
    assert_null(meanwhile.on_commit);
    assert_owned_by(r.request.reply, "b");
    assert_true(testhost_await_pushes(&f->a, 1));
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, 1);
    testhost_close(&f->a);
    testhost_close(&f->b);
}

static void die(fixture *f)
{
    raise(SIGKILL);
}

/* Whoever releases is killed between its commit and the datagram: the waiter finds by itself, within a second, that it was
 * called. */
static void killed_before_it_rings(void **state)
{
    fixture *f = *state;
    int status;
    open_store(f, &f->a);
    const pid_t child = fork();
    if (child == 0) {
        open_hooked(f, &f->b);
        testhost_request r = testhost_request_of(&f->b, SIMBA_OP_ACQUIRE, "orders", "b", 2, 0);
        testhost_ask(&f->b, &r);
        raise(SIGSTOP);
        meanwhile.on_commit = die;
        b_releases(f);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    assert_owned_by(wait_for(&f->a, "orders", "a", 1), "b");
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 0);
    assert_string_equal(raw_text(f, "SELECT next_nonce FROM simba_lock"), "1");
    testhost_advance(&f->a, 1001);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, 1);
    assert_mine(wait_for(&f->a, "orders", "a", 1));
    testhost_close(&f->a);
}

/* In a child: get the mutex so many times, waiting for nothing but pushes. */
static void contend(fixture *f, const char *id, unsigned times)
{
    simba_error err;
    if (testhost_open(&f->a, &simba__backend_sqlite, f->url, &err) < 0)
        _exit(1);
    while (times > 0) {
        f->a.push_count = 0; /* before asking: what is pushed from here on may be younger than the answer */
        testhost_request r = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", id, (uint64_t)id[0], 0);
        r.request.queue = true;
        const simba_reply *reply = testhost_ask(&f->a, &r);
        if (reply->status < 0)
            _exit(2);
        if (reply->outcome == SIMBA_MINE) {
            times--;
            r = testhost_request_of(&f->a, SIMBA_OP_RELEASE, "orders", id, (uint64_t)id[0], 0);
            testhost_ask(&f->a, &r);
        } else if (!testhost_await_pushes(&f->a, 1)) {
            _exit(3);
        }
    }
    testhost_close(&f->a);
    _exit(0);
}

/* Processes that hand a mutex around as fast as they can, and that a single lost wake-up would stop. A grant on account of a row that
 * another process has changed meanwhile would show in the version. They go on until the log has been moved several times. */
static void no_wake_up_is_lost(void **state)
{
    enum { PROCESSES = 4, TIMES = 1200 };
    fixture *f = *state;
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0)
            contend(f, (const char[]){(char)('a' + i), '\0'}, TIMES);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_string_equal(raw_text(f, "SELECT version FROM simba_lock"), "9600");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(released_before_the_answer),
        TEST(killed_before_it_rings),
        TEST(no_wake_up_is_lost),
    };
    return cmocka_run_group_tests_name("sqlite races", tests, NULL, NULL);
}
