/* The SQLite store, driven at its contract: requests whose time is over while they wait for the worker, or while it works. */
#include "backends/test_sqlite.h"

/* The worker has not begun with it, and does not carry it out. */
static void before_the_transaction(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    testhost_request list = testhost_request_of(&f->a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    testhost_submit(&f->a, &r);
    testhost_submit(&f->a, &list);
    testhost_flush(&f->a);
    f->a.now_shift_ns += 4000 * SIMBA__NS_PER_MS;
    testhost_fire(&f->a);
    assert_true(r.done && list.done);
    assert_int_equal(r.error.code, SIMBA_ETIMEDOUT);
    assert_non_null(strstr(r.error.text, f->path));
    assert_non_null(strstr(r.error.text, "no answer in time"));
    testhost_run_jobs(&f->a);
    assert_int_equal(f->a.jobs_run, 1);
    assert_int_equal(f->a.listed_count, 0);
    assert_owned_by(ask(&f->a, SIMBA_OP_READ, "orders", NULL, 0, 0), "");
    testhost_close(&f->a);
}

/* The request that is to expire when its transaction has read the row. */
static struct {
    testhost *h;
    testhost_request *request;
    size_t places; /* that requests have when it has expired */
} expiring;

static int after_statement(unsigned kind, void *user, void *statement, void *ns)
{
    if (expiring.request && strstr(sqlite3_sql(statement), "simba_note USING (mutex) WHERE mutex = ")) {
        testhost_expire(expiring.h, expiring.request);
        expiring.request = NULL;
        expiring.places = expiring.h->window.outstanding.count;
    }
    return 0;
}

static int add_hook(sqlite3 *db, char **message, const void *api)
{
    return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, after_statement, NULL);
}

/* It is carried out, and keeps its place until then. Nobody hears of it; whoever asks again finds the grant. */
static void in_the_transaction(void **state)
{
    fixture *f = *state;
    sqlite3_auto_extension((void (*)(void))add_hook);
    open_store(f, &f->a);
    sqlite3_reset_auto_extension();
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    testhost_submit(&f->a, &r);
    testhost_flush(&f->a);
    expiring.h = &f->a;
    expiring.request = &r;
    testhost_run_jobs(&f->a);
    assert_null(r.sent);
    assert_false(r.done);
    assert_int_equal(expiring.places, 1);
    assert_int_equal(f->a.window.outstanding.count, 0);
    assert_owned_by(ask(&f->a, SIMBA_OP_READ, "orders", NULL, 0, 0), "me");
    assert_mine(acquire(&f->a, "orders", "me", 1));
    testhost_close(&f->a);
}

/* The worker is busy, and does not get to see it. */
static void while_another_batch_runs(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    const char *const mutexes[] = {"first", "second", "third"};
    testhost_request busy = testhost_request_of(&f->a, SIMBA_OP_READ, "orders", NULL, 0, 0);
    testhost_submit(&f->a, &busy);
    testhost_flush(&f->a);
    testhost_request r[3];
    for (int i = 0; i < 3; i++) {
        r[i] = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, mutexes[i], "me", 1, 0);
        r[i].request.deadline.ns += (i == 1 ? 0 : 60000) * SIMBA__NS_PER_MS;
        testhost_submit(&f->a, &r[i]);
    }
    testhost_flush(&f->a);
    f->a.now_shift_ns += 4001 * SIMBA__NS_PER_MS;
    testhost_fire(&f->a);
    assert_true(busy.done && r[1].done && !r[0].done && !r[2].done);
    testhost_run_jobs(&f->a);
    assert_true(r[0].done && r[2].done);
    assert_mine(r[0].request.reply);
    assert_mine(r[2].request.reply);
    assert_owned_by(ask(&f->a, SIMBA_OP_READ, "second", NULL, 0, 0), "");
    testhost_close(&f->a);
}

/* More than fit into a batch: all are answered, by as many batches as it takes. */
static void more_than_a_batch(void **state)
{
    enum { MANY = 2500, MOST = 1024 };
    fixture *f = *state;
    open_store(f, &f->a);
    testhost_request *r = calloc(MANY, sizeof *r);
    char(*mutexes)[16] = calloc(MANY, sizeof *mutexes);
    for (int i = 0; i < MANY; i++) {
        snprintf(mutexes[i], sizeof mutexes[i], "mutex-%d", i);
        r[i] = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, mutexes[i], "me", 1, 0);
        r[i].request.deadline.ns += 60000 * SIMBA__NS_PER_MS;
        testhost_submit(&f->a, &r[i]);
    }
    testhost_flush(&f->a);
    testhost_run_jobs(&f->a);
    assert_int_equal(f->a.jobs_run, (MANY + MOST - 1) / MOST);
    for (int i = 0; i < MANY; i++) {
        assert_true(r[i].done);
        assert_mine(r[i].request.reply);
    }
    free(mutexes);
    free(r);
    testhost_close(&f->a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(before_the_transaction),
        TEST(in_the_transaction),
        TEST(while_another_batch_runs),
        TEST(more_than_a_batch),
    };
    return cmocka_run_group_tests_name("sqlite_expire", tests, NULL, NULL);
}
