/* The SQLite store and those who watch a mutex: observers, owners whose grant is forced away, and all of them when the database is
 * another. */
#include "backends/test_sqlite.h"

static void watch(testhost *h, simba_watch *watched)
{
    assert_int_equal(testhost_watch(h, watched), 0);
    testhost_settle(h);
    assert_true(h->push_count >= 1);
    assert_told(h, 0, SIMBA_PUSH_CHANGED, 0);
    assert_ptr_equal(h->pushes[0].watch, watched);
    h->push_count = 0;
}

static void assert_heard(testhost *h, const simba_watch *watched)
{
    assert_true(testhost_await_pushes(h, 1));
    testhost_settle(h);
    assert_int_equal(h->push_count, 1);
    assert_told(h, 0, SIMBA_PUSH_CHANGED, 0);
    assert_ptr_equal(h->pushes[0].watch, watched);
    h->push_count = 0;
}

static void assert_silence(testhost *h)
{
    testhost_settle(h);
    assert_int_equal(h->push_count, 0);
}

/* Grants, releases, revocations, what is forgotten: each is told, by this client's own hand or another's. Renewals, refusals and
 * what becomes of other mutexes are not, and cost the observer nothing. */
static void observers_hear_of_changes(void **state)
{
    fixture *f = *state;
    simba_watch watched = {.mutex = "orders"};
    open_store(f, &f->a);
    open_store(f, &f->b);
    watch(&f->a, &watched);
    testhost *const by[] = {&f->b, &f->a};
    for (size_t i = 0; i < 2; i++) {
        const uint64_t token = acquire(by[i], "orders", "x", 1).owner.token;
        assert_heard(&f->a, &watched);
        const unsigned jobs = f->a.jobs_run;
        assert_mine(ask(by[i], SIMBA_OP_RENEW, "orders", "x", 1, token));
        assert_owned_by(acquire(by[i], "orders", "y", 2), "x");
        assert_mine(acquire(by[i], "invoices", "x", 1));
        assert_silence(&f->a);
        assert_int_equal(f->a.jobs_run, jobs + (by[i] == &f->a ? 3 : 0));
        assert_mine(ask(by[i], SIMBA_OP_RELEASE, "orders", "x", 1, 0));
        assert_heard(&f->a, &watched);
        assert_mine(ask(by[i], SIMBA_OP_FORGET, "orders", "", 0, 0));
        assert_heard(&f->a, &watched);
        assert_mine(acquire(&f->b, "orders", "x", 1));
        assert_heard(&f->a, &watched);
        assert_mine(ask(by[i], SIMBA_OP_FORCE_RELEASE, "orders", "", 0, 0));
        assert_heard(&f->a, &watched);
    }
    testhost_unwatch(&f->a, &watched);
    testhost_settle(&f->a);
    assert_mine(acquire(&f->b, "orders", "x", 1));
    assert_silence(&f->a);
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_waiter WHERE what = 'o'"), "0");
    testhost_close(&f->a);
    testhost_close(&f->b);
}

/* The owner is told although it watches nothing, and by what it asks then it hears why; also if another takes the mutex first. */
static void revocations_are_told(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    open_store(f, &f->b);
    testhost *const by[] = {&f->b, &f->b, &f->a};
    for (uint64_t i = 0; i < 3; i++) {
        const simba_reply won = acquire(&f->a, "orders", "a", 11 + i);
        assert_mine(won);
        assert_mine(ask(by[i], SIMBA_OP_FORCE_RELEASE, "orders", NULL, 0, 0));
        if (i == 1)
            assert_mine(acquire(&f->b, "orders", "b", 21));
        assert_true(testhost_await_pushes(&f->a, 1));
        assert_told(&f->a, 0, SIMBA_PUSH_CHANGED, 11 + i);
        assert_int_equal(ask(&f->a, SIMBA_OP_RENEW, "orders", "a", 11 + i, won.owner.token).outcome, SIMBA_REVOKED);
        assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_waiter"), "0");
        testhost_settle(&f->a);
        assert_int_equal(f->a.push_count, 1);
        f->a.push_count = 0;
        if (i == 1)
            assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 21, 0));
    }
    /* Nor is anybody told of what it has given back. */
    assert_mine(acquire(&f->a, "orders", "a", 14));
    assert_mine(ask(&f->a, SIMBA_OP_RELEASE, "orders", "a", 14, 0));
    assert_mine(acquire(&f->b, "orders", "b", 22));
    assert_mine(ask(&f->b, SIMBA_OP_FORCE_RELEASE, "orders", NULL, 0, 0));
    assert_silence(&f->a);
    testhost_close(&f->a);
    testhost_close(&f->b);
}

/* The database is deleted and made anew by another process: those who wait and watch come along within a second. */
static void the_database_is_another(void **state)
{
    fixture *f = *state;
    simba_watch watched = {.mutex = "invoices"};
    open_store(f, &f->a);
    open_store(f, &f->b);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_owned_by(wait_for(&f->a, "orders", "a", 1), "b");
    watch(&f->a, &watched);
    assert_int_equal(unlink(f->path), 0);
    assert_mine(acquire(&f->b, "orders", "c", 3));
    f->a.push_count = 0;
    testhost_advance(&f->a, 1001);
    assert_int_equal(f->a.push_count, 2);
    assert_told(&f->a, 0, SIMBA_PUSH_SESSION_BACK, 0);
    assert_told(&f->a, 1, SIMBA_PUSH_CHANGED, 0);
    f->a.push_count = 0;
    assert_owned_by(wait_for(&f->a, "orders", "a", 1), "c");
    assert_mine(acquire(&f->b, "invoices", "c", 4));
    assert_heard(&f->a, &watched);
    assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "c", 3, 0));
    assert_true(testhost_await_pushes(&f->a, 1));
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, 1);
    testhost_unwatch(&f->a, &watched);
    testhost_close(&f->a);
    testhost_close(&f->b);
}

/* Its row cannot be written now, because another process has the lock: it is written later. */
static void watched_while_locked(void **state)
{
    fixture *f = *state;
    simba_watch watched = {.mutex = "orders"};
    open_store(f, &f->a);
    sqlite3 *other = open_raw(f);
    raw(other, "BEGIN IMMEDIATE");
    assert_int_equal(testhost_watch(&f->a, &watched), 0);
    simba_job *job = f->a.first_job;
    assert_false(
        job->run(job, f->a.host.now(&f->a.host))); /* as a thread does that has no time: it needs no lock for a look */
    f->a.now_shift_ns += 4001 * SIMBA__NS_PER_MS;
    testhost_run_jobs(&f->a);
    assert_silence(&f->a);
    raw(other, "COMMIT");
    sqlite3_close(other);
    testhost_advance(&f->a, 1001);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_CHANGED, 0);
    testhost_unwatch(&f->a, &watched);
    testhost_close(&f->a);
}

/* A look that failed is taken again. */
static void a_look_fails(void **state)
{
    fixture *f = *state;
    char aside[128];
    snprintf(aside, sizeof aside, "%s.aside", f->path);
    open_store(f, &f->a);
    open_store(f, &f->b);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_owned_by(wait_for(&f->a, "orders", "a", 1), "b");
    assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0));
    assert_int_equal(rename(f->path, aside), 0);
    assert_int_equal(mkdir(f->path, 0700), 0);
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 0);
    assert_int_equal(rmdir(f->path), 0);
    assert_int_equal(rename(aside, f->path), 0);
    testhost_advance(&f->a, 1001);
    testhost_advance(&f->a, 1001);
    assert_true(f->a.push_count >= 1);
    testhost_close(&f->a);
    testhost_close(&f->b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(observers_hear_of_changes), TEST(revocations_are_told), TEST(the_database_is_another),
        TEST(watched_while_locked),      TEST(a_look_fails),
    };
    return cmocka_run_group_tests_name("sqlite watch", tests, NULL, NULL);
}
