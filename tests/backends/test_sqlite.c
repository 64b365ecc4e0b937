/* The SQLite store, driven at its contract: what its operations do, and when they are answered. */
#include "backends/test_sqlite.h"

/* The wall clock steps by a day, forward and back: leases, and what is said of them, stay as they are. */
static void wall_clock_steps(void **state)
{
    fixture *f = *state;
    const int64_t day_us = INT64_C(86400) * 1000 * 1000;
    open_store(f, &f->a);
    const simba_reply won = acquire(&f->a, "orders", "me", 1);
    static const int directions[] = {1, -1};
    for (size_t i = 0; i < 2; i++) {
        f->a.epoch_shift_us = directions[i] * day_us;
        const simba_reply seen = acquire(&f->a, "orders", "you", 2);
        assert_owned_by(seen, "me");
        assert_in_range(seen.owner.transition_at_ms - seen.now_ms, 15000, 16000);
    }
    const simba_reply renewed = ask(&f->a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token);
    assert_mine(renewed);
    assert_in_range(renewed.owner.transition_at_ms - renewed.now_ms, 15900, 16000);
    testhost_advance(&f->a, 16001);
    const simba_reply next = acquire(&f->a, "orders", "you", 2);
    assert_mine(next);
    assert_true(next.owner.token > won.owner.token); /* although the clock that is their floor went back */
    testhost_close(&f->a);
}

/* After a reboot no lease of before counts, however long it had to go; tokens go on. */
static void reboot_frees(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    const simba_reply won = acquire(&f->a, "orders", "me", 1);
    raw_once(f, "UPDATE simba_lock SET boot_id = '00000000-0000-0000-0000-000000000000', token = token + 1000000000");
    assert_owned_by(ask(&f->a, SIMBA_OP_READ, "orders", NULL, 0, 0), "");
    const simba_reply renewed = ask(&f->a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token);
    assert_int_equal(renewed.outcome, SIMBA_NOT_MINE);
    const simba_reply next = acquire(&f->a, "orders", "you", 2);
    assert_mine(next);
    assert_true(next.owner.token > won.owner.token + 1000000000);
    testhost_close(&f->a);
}

/* The columns for people say what the store answers. */
static void columns_for_people(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    const simba_reply won = acquire(&f->a, "orders", "me", 1);
    char expected[128];
    snprintf(expected, sizeof expected, "%lld|%lld|%lld|me|1|%llu", (long long)won.owner.acquired_at_ms,
             (long long)won.owner.ttl_at_ms, (long long)won.owner.transition_at_ms,
             (unsigned long long)won.owner.token);
    static const char sql[] = "SELECT acquired_at || '|' || ttl_at || '|' || transition_at || '|' || owner_id || '|' "
                              "|| version || '|' || token FROM simba_lock WHERE mutex = 'orders'";
    assert_string_equal(raw_text(f, sql), expected);
    ask(&f->a, SIMBA_OP_RELEASE, "orders", "me", 1, 0);
    snprintf(expected, sizeof expected, "0|0|0||2|%llu", (unsigned long long)won.owner.token);
    assert_string_equal(raw_text(f, sql), expected);
    testhost_close(&f->a);
}

static size_t list(testhost *h, const char *pattern)
{
    h->listed_count = 0;
    ask(h, SIMBA_OP_LIST, pattern, NULL, 0, 0);
    return h->listed_count;
}

/* The worker carries out one batch; or a thread that has until then tries to, and returns false if it cannot. */
static bool run_one_job(testhost *h, simba_local until)
{
    simba_job *job = h->first_job;
    assert_non_null(job);
    if (!job->run(job, until))
        return false;
    h->first_job = job->next;
    if (!h->first_job)
        h->last_job = &h->first_job;
    job->done(job);
    testhost_end_section(h);
    return true;
}

static const simba_local as_long_as_it_takes = {INT64_MAX};

/* However many acquires wait, renewals do not: nobody loses a lease because others want one. */
static void renewals_go_first(void **state)
{
    enum { MANY = 1500 }; /* more than fit into a batch */
    fixture *f = *state;
    open_store(f, &f->a);
    const simba_reply held = acquire(&f->a, "held", "me", 1);
    testhost_request *others = calloc(MANY, sizeof *others);
    char(*names)[16] = calloc(MANY, sizeof *names);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "mutex-%d", i);
        others[i] = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, names[i], "me", 1, 0);
        testhost_submit(&f->a, &others[i]);
    }
    testhost_request renewal = testhost_request_of(&f->a, SIMBA_OP_RENEW, "held", "me", 1, held.owner.token);
    testhost_submit(&f->a, &renewal);
    testhost_flush(&f->a);
    assert_true(run_one_job(&f->a, as_long_as_it_takes));
    assert_mine(renewal.request.reply);
    assert_false(others[MANY - 1].done);
    testhost_flush(&f->a);
    testhost_run_jobs(&f->a);
    for (int i = 0; i < MANY; i++)
        assert_mine(others[i].request.reply);
    free(names);
    free(others);
    testhost_close(&f->a);
}

/* A client knows the row that it wrote last. It goes by that only as long as nobody else writes, also if it has looked since. */
static void rows_of_others_are_read(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    open_store(f, &f->b);
    for (int looks = 0; looks < 2; looks++) {
        assert_mine(acquire(&f->a, "orders", "a", 1));
        assert_mine(ask(&f->a, SIMBA_OP_RELEASE, "orders", "a", 1, 0));
        const simba_reply won = acquire(&f->b, "orders", "b", 2);
        assert_mine(won);
        if (looks)
            assert_owned_by(ask(&f->a, SIMBA_OP_READ, "orders", NULL, 0, 0), "b");
        assert_owned_by(acquire(&f->a, "orders", "a", 1), "b");
        assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0));
        assert_true(acquire(&f->a, "orders", "a", 1).owner.token > won.owner.token);
        assert_mine(ask(&f->a, SIMBA_OP_RELEASE, "orders", "a", 1, 0));
    }
    testhost_close(&f->a);
    testhost_close(&f->b);
}

/* A row that was written in a transaction that did not succeed is not the row of the mutex. */
static void undone_rows_are_read(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    const uint64_t token = acquire(&f->a, "orders", "a", 1).owner.token;
    assert_mine(ask(&f->a, SIMBA_OP_RELEASE, "orders", "a", 1, 0));
    raw_once(f, "INSERT INTO simba_lock (mutex) VALUES ('bad');"
                "CREATE TRIGGER stop AFTER INSERT ON simba_lock WHEN NEW.mutex = 'bad' BEGIN SELECT RAISE(ROLLBACK, "
                "'no'); END;");
    assert_mine(acquire(&f->a, "orders", "a", 5));
    assert_mine(ask(&f->a, SIMBA_OP_RELEASE, "orders", "a", 5, 0));
    testhost_request good = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "a", 2, 0);
    testhost_request bad = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "bad", "a", 3, 0);
    testhost_submit(&f->a, &good);
    testhost_submit(&f->a, &bad);
    testhost_flush(&f->a);
    testhost_run_jobs(&f->a);
    assert_true(good.request.reply.status < 0 && bad.request.reply.status < 0);
    const simba_reply won = acquire(&f->a, "orders", "b", 4);
    assert_mine(won);
    assert_string_equal(won.owner.id, "b");
    assert_true(won.owner.token > token);
    testhost_close(&f->a);
}

/* A mutex that was forgotten begins anew for the client that forgot it, too. */
static void forgotten_rows_are_not_known(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    const uint64_t token = acquire(&f->a, "orders", "a", 1).owner.token;
    assert_mine(ask(&f->a, SIMBA_OP_RELEASE, "orders", "a", 1, 0));
    assert_mine(ask(&f->a, SIMBA_OP_FORGET, "orders", NULL, 0, 0));
    assert_true(acquire(&f->a, "orders", "a", 2).owner.token > token);
    assert_string_equal(raw_text(f, "SELECT owner_id FROM simba_lock WHERE mutex = 'orders'"), "a");
    testhost_close(&f->a);
}

/* Reading takes no write lock: it is answered while another process writes. */
static void reads_pass_a_writer(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    acquire(&f->a, "orders", "me", 1);
    sqlite3 *other = open_raw(f);
    raw(other, "BEGIN IMMEDIATE");
    assert_owned_by(ask(&f->a, SIMBA_OP_READ, "orders", NULL, 0, 0), "me");
    assert_int_equal(list(&f->a, NULL), 1);
    raw(other, "COMMIT");
    sqlite3_close(other);
    testhost_close(&f->a);
}

/* The clock runs fast while the store waits, so that the test does not have to. */
static void hurry(testhost *h)
{
    h->now_shift_ns += 50 * SIMBA__NS_PER_MS;
}

/* Another process keeps the file locked: an answer at the deadline, not earlier, that says so; and then success. */
static void locked_until_deadline(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    sqlite3 *other = open_raw(f);
    raw(other, "BEGIN IMMEDIATE");
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    f->a.on_now = hurry;
    assert_int_equal(testhost_ask(&f->a, &r)->status, SIMBA_ETIMEDOUT);
    f->a.on_now = NULL;
    assert_non_null(strstr(r.error.text, f->path));
    assert_non_null(strstr(r.error.text, "locked by another process"));
    const int64_t late_ns = simba__clock_boot().ns + f->a.now_shift_ns - r.request.deadline.ns;
    assert_in_range(late_ns, 0, 1000 * SIMBA__NS_PER_MS);
    raw(other, "COMMIT");
    assert_mine(acquire(&f->a, "orders", "me", 1));
    sqlite3_close(other);
    testhost_close(&f->a);
}

typedef struct holder {
    sqlite3 *db;
    unsigned looks;
} holder;

/* Of requests that wait for a lock together each fails at its own deadline, also one that was submitted while the worker waited
 * already. One whose time was over before the transaction began is not carried out. */
static void deadlines_are_their_own(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    sqlite3 *other = open_raw(f);
    raw(other, "BEGIN IMMEDIATE");
    testhost_request patient = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    patient.request.deadline.ns += INT64_C(3600000) * SIMBA__NS_PER_MS;
    testhost_request hasty = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "invoices", "me", 1, 0);
    testhost_request later = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "bills", "me", 1, 0);
    testhost_submit(&f->a, &patient);
    testhost_submit(&f->a, &hasty);
    testhost_flush(&f->a);
    testhost_submit(&f->a, &later);
    testhost_flush(&f->a);
    assert_false(run_one_job(&f->a, (simba_local){f->a.host.now(&f->a.host).ns + 5 * SIMBA__NS_PER_MS}));

    f->a.now_shift_ns += 4001 * SIMBA__NS_PER_MS;
    testhost_fire(&f->a);
    assert_true(hasty.done && later.done && !patient.done);
    assert_int_equal(hasty.request.reply.status, SIMBA_ETIMEDOUT);
    assert_non_null(strstr(hasty.error.text, "locked by another process"));
    assert_non_null(strstr(later.error.text, "locked by another process"));

    raw(other, "COMMIT");
    testhost_run_jobs(&f->a);
    assert_true(patient.done);
    assert_mine(patient.request.reply);
    assert_owned_by(ask(&f->a, SIMBA_OP_READ, "invoices", NULL, 0, 0), "");
    assert_owned_by(ask(&f->a, SIMBA_OP_READ, "bills", NULL, 0, 0), "");
    sqlite3_close(other);
    testhost_close(&f->a);
}

/* The clock runs fast, and the lock is let go after five seconds of it. */
static void let_go_late(testhost *h)
{
    holder *other = h->user;
    hurry(h);
    if (++other->looks == 100)
        raw(other->db, "COMMIT");
}

/* A batch waits for the lock until the last of its requests is over. */
static void a_batch_waits_for_its_last(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    holder other = {open_raw(f), 0};
    raw(other.db, "BEGIN IMMEDIATE");
    testhost_request patient = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    patient.request.deadline.ns += INT64_C(3600000) * SIMBA__NS_PER_MS;
    testhost_request hasty = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "invoices", "me", 1, 0);
    testhost_submit(&f->a, &patient);
    testhost_submit(&f->a, &hasty);
    testhost_flush(&f->a);
    f->a.user = &other;
    f->a.on_now = let_go_late;
    testhost_run_jobs(&f->a);
    f->a.on_now = NULL;
    assert_true(other.looks >= 100);
    assert_mine(patient.request.reply);
    sqlite3_close(other.db);
    testhost_close(&f->a);
}

/* A row that cannot be written fails its own request, and none of its batch. */
static void bad_row_fails_alone(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    raw_once(f, "CREATE TRIGGER refuse BEFORE INSERT ON simba_lock WHEN new.mutex = 'bad' "
                "BEGIN SELECT raise(ABORT, 'not this one'); END");
    testhost_request bad = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "bad", "me", 1, 0);
    testhost_request good = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "good", "me", 1, 0);
    testhost_submit(&f->a, &bad);
    testhost_submit(&f->a, &good);
    testhost_flush(&f->a);
    testhost_run_jobs(&f->a);
    assert_int_equal(bad.request.reply.status, SIMBA_ESTORE);
    assert_non_null(strstr(bad.error.text, "not this one"));
    assert_int_equal(good.request.reply.status, 0);
    assert_mine(good.request.reply);
    testhost_close(&f->a);
}

/* SQLite keeps anything in any column. A row that we cannot have written is nobody's to take, and each request hears what
 * is wrong with its own; the others of the batch are carried out. */
static void rows_of_wrong_types(void **state)
{
    static const struct {
        const char *set, *says;
    } cases[] = {
        {"until_boot_ns = 'zz'", "until_boot_ns is not a number"},
        {"until_boot_ns = 1.5", "until_boot_ns is not a number"},
        {"transition_at = 'soon'", "transition_at is not a number"},
        {"version = x'00'", "version is not a number"},
        {"token = -1", "token is negative"},
        {"revoked_token = -5", "revoked_token is negative"},
        {"owner_id = x'6d65'", "owner_id is not a text"},
        {"owner_id = 'm' || char(0) || 'e'", "owner_id has a zero byte"},
        {"owner_id = hex(zeroblob(100))", "owner_id is too long"},
        {"owner_id = hex(zeroblob(500000))", "owner_id is too long"},
        {"boot_id = 7.5 + 0", NULL}, /* the column makes a text of it, of another boot */
        {"boot_id = x'00'", "boot_id is not a text"},
    };
    fixture *f = *state;
    open_store(f, &f->a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sql[160];
        raw_once(f, "DELETE FROM simba_lock");
        assert_mine(acquire(&f->a, "bad", "me", 1));
        assert_mine(acquire(&f->a, "worse", "me", 1));
        snprintf(sql, sizeof sql, "UPDATE simba_lock SET %s WHERE mutex = 'bad'", cases[i].set);
        raw_once(f, sql);
        raw_once(f, "UPDATE simba_lock SET nonce = 'x' WHERE mutex = 'worse'");
        testhost_request bad = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "bad", "you", 2, 0);
        testhost_request worse = testhost_request_of(&f->a, SIMBA_OP_READ, "worse", NULL, 0, 0);
        testhost_request good = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "good", "you", 2, 0);
        testhost_submit(&f->a, &bad);
        testhost_submit(&f->a, &worse);
        testhost_submit(&f->a, &good);
        testhost_flush(&f->a);
        testhost_run_jobs(&f->a);
        if (cases[i].says) {
            assert_int_equal(bad.request.reply.status, SIMBA_ECORRUPT);
            if (!strstr(bad.error.text, cases[i].says))
                fail_msg("\"%s\" does not say \"%s\"", bad.error.text, cases[i].says);
        } else {
            assert_mine(bad.request.reply);
        }
        assert_int_equal(worse.request.reply.status, SIMBA_ECORRUPT);
        assert_non_null(strstr(worse.error.text, "mutex worse: nonce is not a number"));
        assert_mine(good.request.reply);
    }
    testhost_close(&f->a);
}

/* Rows that cannot be read are named in the log, and the others are listed. */
static void list_with_damaged_rows(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    assert_mine(acquire(&f->a, "a", "me", 1));
    assert_mine(acquire(&f->a, "b", "me", 1));
    assert_mine(acquire(&f->a, "c", "me", 1));
    raw_once(f, "UPDATE simba_lock SET until_boot_ns = 'zz' WHERE mutex = 'b'");
    const unsigned warnings = f->a.warnings;
    assert_int_equal(list(&f->a, NULL), 2);
    assert_string_equal(f->a.listed[0].mutex, "a");
    assert_string_equal(f->a.listed[1].mutex, "c");
    assert_int_equal(f->a.warnings, warnings + 1);
    assert_non_null(strstr(f->a.log, "mutex b: until_boot_ns is not a number"));
    assert_int_equal(list(&f->a, "c"), 1); /* what was not asked for is not complained about */
    assert_int_equal(f->a.warnings, warnings + 1);

    raw_once(f, "UPDATE simba_lock SET owner_id = hex(zeroblob(500000)) WHERE mutex = 'a'");
    raw_once(f, "INSERT INTO simba_lock (mutex) VALUES (hex(zeroblob(500000)))");
    raw_once(f, "INSERT INTO simba_lock (mutex) VALUES (x'0102')");
    assert_int_equal(list(&f->a, NULL), 1);
    assert_int_equal(f->a.warnings, warnings + 5);
    assert_true(strlen(f->a.log) < 400);

    /* However many there are, the log does not drown in them. */
    raw_once(f, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) "
                "INSERT INTO simba_lock (mutex, token) SELECT 'x' || i, 'x' FROM n");
    const unsigned before = f->a.warnings;
    assert_int_equal(list(&f->a, NULL), 1);
    assert_int_equal(f->a.warnings, before + 11);
    assert_non_null(strstr(f->a.log, "494 more mutexes are damaged"));
    testhost_close(&f->a);
}

/* Closing answers what waits, and lets the batch of the worker come to its end. */
static void close_answers_everything(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    testhost_request running = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    testhost_request waiting = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "invoices", "me", 1, 0);
    testhost_submit(&f->a, &running);
    testhost_flush(&f->a);
    testhost_submit(&f->a, &waiting);
    testhost_flush(&f->a);
    testhost_close(&f->a);
    assert_true(running.done);
    assert_mine(running.request.reply);
    assert_true(waiting.done);
    assert_int_equal(waiting.request.reply.status, SIMBA_ECANCELED);
}

/* Closing ends the wait for a lock. */
static void close_ends_waiting(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    sqlite3 *other = open_raw(f);
    raw(other, "BEGIN IMMEDIATE");
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    r.request.deadline.ns = INT64_MAX;
    testhost_submit(&f->a, &r);
    testhost_flush(&f->a);
    testhost_close(&f->a);
    assert_true(r.done);
    assert_int_equal(r.request.reply.status, SIMBA_ECANCELED);
    sqlite3_close(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(wall_clock_steps),
        TEST(reboot_frees),
        TEST(columns_for_people),
        TEST(renewals_go_first),
        TEST(rows_of_others_are_read),
        TEST(undone_rows_are_read),
        TEST(forgotten_rows_are_not_known),
        TEST(reads_pass_a_writer),
        TEST(locked_until_deadline),
        TEST(deadlines_are_their_own),
        TEST(a_batch_waits_for_its_last),
        TEST(bad_row_fails_alone),
        TEST(rows_of_wrong_types),
        TEST(list_with_damaged_rows),
        TEST(close_answers_everything),
        TEST(close_ends_waiting),
    };
    return cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
}
