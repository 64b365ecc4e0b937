/* The SQLite store and the moments in between: what another process does just then is not missed. */
#include <sys/wait.h>

#include "backends/sqlite/notify.h"
#include "backends/test_sqlite.h"

/* What to do in the middle of a transaction of the store that was opened with hooks: once, and then no more. */
static struct {
    fixture *f;
    void (*on_read)(fixture *f);   /* a row was read */
    void (*on_commit)(fixture *f); /* just committed */
    uint64_t slot_at_commit;
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
    (void)kind;
    (void)user;
    (void)ns;
    if (strstr(sqlite3_sql(statement), "WHERE mutex = "))
        act_once(&meanwhile.on_read);
    if (strcmp(sqlite3_sql(statement), "COMMIT") == 0)
        act_once(&meanwhile.on_commit);
    return 0;
}

static int before_commit(void *user)
{
    simba_error err;
    simba__sqlite_notify *notify = NULL;
    (void)user;
    if (simba__sqlite_notify_open(meanwhile.f->path, &err, &notify) == 0)
        meanwhile.slot_at_commit =
            simba__sqlite_notify_read(notify, simba__sqlite_notify_slot(simba__sqlite_notify_hash("orders")));
    simba__sqlite_notify_close(notify);
    return 0;
}

static int add_hooks(sqlite3 *db, char **message, const void *api)
{
    (void)message;
    (void)api;
    sqlite3_commit_hook(db, before_commit, NULL);
    sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, after_statement, NULL);
    return SQLITE_OK;
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

/* It is released just after the transaction that found it owned. */
static void released_after_the_transaction(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    open_hooked(f, &f->a);
    open_store(f, &f->b);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    testhost_request in_vain = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "a", 1, 0);
    testhost_request writes = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "invoices", "a", 1, 0);
    testhost_submit(&f->a, &in_vain);
    testhost_submit(&f->a, &writes);
    testhost_flush(&f->a);
    meanwhile.on_commit = b_releases;
    testhost_run_jobs(&f->a);
    assert_null(meanwhile.on_commit);
    assert_owned_by(in_vain.request.reply, "b");
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    testhost_run_jobs(&f->a);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    close_both(f, &topic);
}

/* It is released while the look at it is under way. */
static void released_during_the_look(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    open_hooked(f, &f->a);
    open_store(f, &f->b);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    meanwhile.on_read = b_releases;
    testhost_run_jobs(&f->a);
    assert_null(meanwhile.on_read);
    assert_int_equal(f->a.push_count, 2);
    assert_told(&f->a, 0, SIMBA_PUSH_ACQUIRED, "b");
    assert_told(&f->a, 1, SIMBA_PUSH_RELEASED, NULL);
    close_both(f, &topic);
}

/* Nothing is marked before it is committed: who is woken must find the change. */
static void marked_after_the_commit(void **state)
{
    fixture *f = *state;
    open_hooked(f, &f->a);
    simba_topic elsewhere = {.mutex = "elsewhere"};
    open_store(f, &f->b);
    assert_int_equal(testhost_watch(&f->b, &elsewhere), 0); /* somebody listens, so there is a mark */
    meanwhile.slot_at_commit = 1;
    assert_mine(acquire(&f->a, "orders", "a", 1));
    assert_int_equal(meanwhile.slot_at_commit, 0);
    testhost_unwatch(&f->b, &elsewhere);
    testhost_close(&f->b);
    testhost_close(&f->a);
}

/* In a child: get the mutex so many times, waiting for nothing but pushes. */
static void contend(fixture *f, const char *id, unsigned times)
{
    simba_error err;
    simba_topic topic = {.mutex = "orders"};
    if (testhost_open(&f->a, &simba__backend_sqlite, f->url, &err) < 0 || testhost_watch(&f->a, &topic) < 0)
        _exit(1);
    testhost_run_jobs(&f->a);
    while (times > 0) {
        f->a.push_count = 0; /* before asking: what is pushed from here on may be younger than the answer */
        testhost_request r = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", id, 1, 0);
        const simba_reply *reply = testhost_ask(&f->a, &r);
        if (reply->status < 0)
            _exit(2);
        if (reply->outcome == SIMBA_MINE) {
            times--;
            r = testhost_request_of(&f->a, SIMBA_OP_RELEASE, "orders", id, 1, 0);
            testhost_ask(&f->a, &r);
        } else if (!testhost_await_pushes(&f->a, 1)) {
            _exit(3);
        }
    }
    testhost_unwatch(&f->a, &topic);
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
    assert_string_equal(raw_text(f, "SELECT version FROM simba_mutex"), "9600");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(released_after_the_transaction),
        TEST(released_during_the_look),
        TEST(marked_after_the_commit),
        TEST(no_wake_up_is_lost),
    };
    return cmocka_run_group_tests_name("sqlite races", tests, NULL, NULL);
}
