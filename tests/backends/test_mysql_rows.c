/* The MySQL store, row by row: the functions of its repository, the last millisecond of a lease, rows and tables that are not
 * as `simba init` makes them. */
#include "backends/mysql/dialect.h"
#include "backends/test_mysql.h"

#define SERVER_NOW "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) div 1000"

static simba__my_options options;
static simba__sql_failure why;
static simba__my_session session; /* of the tests of the dialect */

static void open_conn(void)
{
    simba_error err = {0};
    simba_url *url = NULL;
    assert_int_equal(simba_url_parse(mysql_url, &err, &url), 0);
    open_store(&a); /* for its host */
    memset(&options, 0, sizeof options);
    memset(&session, 0, sizeof session);
    assert_int_equal(simba__my_options_parse(url, &options, &err), 0);
    simba_url_free(url);
    simba__my_conn_init(&session.conn, &a.host, &options);
    if (simba__my_session_ready(&session, false, &why) < 0)
        fail_msg("%s", why.error.text);
}

static void close_conn(void)
{
    simba__my_session_fini(&session);
    simba__my_options_free(&options);
    testhost_close(&a);
}

static simba_request request_of(simba_op op, const char *mutex, const char *id, uint64_t nonce, uint64_t token)
{
    return testhost_request_of(&a, op, mutex, id, nonce, token).request;
}

/* One step of a batch, by the dialect. */
static int carry_out(simba__sql_step *step)
{
    simba__sql_table table;
    return simba__my_dialect.carry_out(&session, step, &table, &why);
}

static void on_rows(simba__sql_action action, simba__sql_row *rows, size_t count)
{
    simba__sql_row *pointers[3] = {&rows[0], &rows[1 % count], &rows[2 % count]};
    simba__sql_step step = {.action = action, .rows = pointers, .count = count};
    assert_int_equal(carry_out(&step), 0);
}

static bool matches(simba__sql_action action, const simba_request *request, simba__sql_row *row, uint64_t floor,
                    uint64_t *ret_token)
{
    simba__sql_item item = {.ask = *request, .floor = floor};
    simba__sql_step step = {.action = action, .rows = &row, .count = 1, .item = &item};
    assert_int_equal(carry_out(&step), 0);
    if (ret_token)
        *ret_token = step.token;
    return step.matched;
}

/* The columns that a row without a note is given. */
#define WITHOUT_NOTES                                                                                                  \
    "(mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, revoked_version)"

/* --- the steps ---------------------------------------------------------------------------------------- */

/* try-init makes the rows that are missing, and leaves alone those that exist. */
static void about_init(void **state)
{
    (void)state;
    open_conn();
    simba__sql_row rows[3] = {{.mutex = "one"}, {.mutex = "three"}, {.mutex = "two"}};
    on_rows(SIMBA__SQL_MAKE, rows, 1);
    assert_string_equal(say("select * from simba_mutex"), "one 0 0 0  0 NULL NULL NULL NULL NULL NULL NULL NULL");
    say("update simba_mutex set version = 7");
    on_rows(SIMBA__SQL_MAKE, rows, 3);
    assert_string_equal(say("select count(*), sum(version) from simba_mutex"), "3 7");
    close_conn();
}

/* get finds the rows that there are, and says which there are not. */
static void about_get(void **state)
{
    (void)state;
    open_conn();
    simba__sql_row rows[3] = {{.mutex = "a"}, {.mutex = "b"}, {.mutex = "c"}};
    on_rows(SIMBA__SQL_GET, rows, 3);
    assert_true(!rows[0].found && !rows[1].found && !rows[2].found);
    say("insert into simba_mutex " WITHOUT_NOTES " values ('b', 1000, 2000, 3000, 'me', 42, 11, 42, 40)");
    on_rows(SIMBA__SQL_GET, rows, 3);
    assert_true(!rows[0].found && rows[1].found && !rows[2].found);
    assert_string_equal(rows[1].row.owner.id, "me");
    assert_int_equal(rows[1].row.owner.acquired_at_ms, 1000);
    assert_int_equal(rows[1].row.owner.ttl_at_ms, 2000);
    assert_int_equal(rows[1].row.owner.transition_at_ms, 3000);
    assert_int_equal(rows[1].version, 42);
    assert_int_equal(rows[1].row.nonce, 11);
    assert_int_equal(rows[1].row.revoked_token, 40);
    const int64_t now_ms = a.host.epoch_us(&a.host) / 1000;
    assert_in_range(rows[1].now_ms, now_ms - 5000, now_ms + 5000);
    /* Whatever the time zone, of the server or of a session. */
    say("set global time_zone = '+09:00'");
    simba__my_session_end(&session);
    assert_int_equal(simba__my_session_ready(&session, false, &why), 0);
    on_rows(SIMBA__SQL_GET, &rows[1], 1);
    assert_true(rows[1].found);
    assert_in_range(rows[1].now_ms, now_ms - 5000, now_ms + 5000);
    say("set global time_zone = 'SYSTEM'");
    close_conn();
}

/* acquire takes what is free, and only that; the token comes with it. release gives it back, and only to its owner. */
static void acquire_statement(void **state)
{
    (void)state;
    uint64_t token = 0;
    simba__sql_row row = {.mutex = "m"};
    open_conn();
    simba_request mine = request_of(SIMBA_OP_ACQUIRE, "m", "me", UINT64_C(0xFEDCBA9876543210), 0);
    simba_request yours = request_of(SIMBA_OP_ACQUIRE, "m", "you", 2, 0);
    assert_false(matches(SIMBA__SQL_ACQUIRE, &mine, &row, 0, NULL)); /* there is no row */
    on_rows(SIMBA__SQL_MAKE, &row, 1);
    assert_true(matches(SIMBA__SQL_ACQUIRE, &mine, &row, 0, &token));
    assert_int_equal(token, 1);
    assert_string_equal(row.row.owner.id, "me");
    assert_false(matches(SIMBA__SQL_ACQUIRE, &yours, &row, 0, NULL));
    assert_string_equal(say("select owner_id, version, nonce, nonce_version, ttl_at - acquired_at, "
                            "transition_at - acquired_at from simba_mutex"),
                        "me 1 18364758544493064720 1 10000 16000");
    mine.token = yours.token = 1;
    say("update simba_mutex set transition_at = transition_at - 5000");
    assert_false(matches(SIMBA__SQL_RENEW, &yours, &row, 0, NULL));
    assert_true(matches(SIMBA__SQL_RENEW, &mine, &row, 0, NULL));
    assert_string_equal(say("select version, transition_at - acquired_at >= 16000 from simba_mutex"), "1 1");
    assert_false(matches(SIMBA__SQL_RELEASE, &yours, &row, 0, NULL));
    assert_true(matches(SIMBA__SQL_RELEASE, &mine, &row, 0, NULL));
    assert_in_range(row.now_ms, a.host.epoch_us(&a.host) / 1000 - 5000, a.host.epoch_us(&a.host) / 1000 + 5000);
    assert_false(matches(SIMBA__SQL_RELEASE, &mine, &row, 0, NULL));
    assert_string_equal(say("select acquired_at, ttl_at, transition_at, owner_id, version from simba_mutex"),
                        "0 0 0  2");
    assert_true(matches(SIMBA__SQL_ACQUIRE, &yours, &row, 40, &token)); /* above what was seen */
    assert_int_equal(token, 41);
    close_conn();
}

/* Rows that have changed are written, all by one statement. */
static void about_put(void **state)
{
    (void)state;
    open_conn();
    simba__sql_row rows[3] = {{.mutex = "a"}, {.mutex = "b"}, {.mutex = "c"}};
    on_rows(SIMBA__SQL_MAKE, rows, 3);
    on_rows(SIMBA__SQL_GET, rows, 3);
    for (int i = 0; i < 3; i += 2) {
        simba_request r = request_of(SIMBA_OP_ACQUIRE, rows[i].mutex, "me", 5, 0);
        assert_true(simba__sql_row_apply(&rows[i], &r, 0));
    }
    const long long before = counter("Com_stmt_execute");
    on_rows(SIMBA__SQL_PUT, (simba__sql_row[]){rows[0], rows[2]}, 2);
    assert_int_equal(counter("Com_stmt_execute") - before, 1);
    assert_string_equal(say("select group_concat(owner_id order by mutex), sum(version), sum(nonce) from simba_mutex"),
                        "me,,me 2 10");
    close_conn();
}

/* The clock of the session that `conn` has stands still. */
static void stop_clock_at(int64_t ms)
{
    char sql[64];
    snprintf(sql, sizeof sql, "set timestamp = %lld.%03lld", (long long)ms / 1000, (long long)ms % 1000);
    assert_int_equal(simba__my_conn_say(&session.conn, sql, &why), 0);
}

/* What core/row.c makes of the row at this moment, as in a batch. */
static simba_outcome judge(simba_op op, const char *id, uint64_t nonce, uint64_t token)
{
    simba__sql_row row = {.mutex = "m"};
    simba_request r = request_of(op, "m", id, nonce, token);
    on_rows(SIMBA__SQL_GET, &row, 1);
    assert_true(simba__sql_row_apply(&row, &r, 0));
    return r.reply.outcome;
}

/* A lease is good until its last millisecond, and over after it: by the statements that decide for themselves, and for
 * several requests at once. */
static void lease_end(void **state)
{
    (void)state;
    const int64_t end_ms = INT64_C(1700000000500);
    open_conn();
    simba__sql_row row = {.mutex = "m"};
    const simba_request mine = request_of(SIMBA_OP_RENEW, "m", "me", 1, 7);
    const simba_request yours = request_of(SIMBA_OP_ACQUIRE, "m", "you", 2, 0);
    for (int late = 0; late < 2; late++) {
        say("replace into simba_mutex " WITHOUT_NOTES " values ('m', 1, 2, %lld, 'me', 7, 1, 7, null)",
            (long long)end_ms);
        stop_clock_at(end_ms + late);
        assert_int_equal(judge(SIMBA_OP_ACQUIRE, "you", 2, 0), late ? SIMBA_MINE : SIMBA_NOT_MINE);
        assert_int_equal(judge(SIMBA_OP_RENEW, "me", 1, 7), late ? SIMBA_NOT_MINE : SIMBA_MINE);
        assert_int_equal(judge(SIMBA_OP_RELEASE, "me", 1, 7), late ? SIMBA_NOT_MINE : SIMBA_MINE);
        assert_int_equal(matches(SIMBA__SQL_ACQUIRE, &yours, &row, 0, NULL), late);
    }
    for (int late = 0; late < 2; late++) {
        say("replace into simba_mutex " WITHOUT_NOTES " values ('m', 1, 2, %lld, 'me', 7, 1, 7, null)",
            (long long)end_ms);
        stop_clock_at(end_ms + late);
        assert_int_equal(matches(SIMBA__SQL_RENEW, &mine, &row, 0, NULL), !late);
        say("replace into simba_mutex " WITHOUT_NOTES " values ('m', 1, 2, %lld, 'me', 7, 1, 7, null)",
            (long long)end_ms);
        row.now_ms = 0;
        assert_int_equal(matches(SIMBA__SQL_RELEASE, &mine, &row, 0, NULL), !late);
        assert_int_equal(row.now_ms, late ? 0 : end_ms);
    }
    close_conn();
}

/* --- what is odd about rows ----------------------------------------------------------------------------------- */

static void assert_now(const simba_reply *reply)
{
    const int64_t now_ms = a.host.epoch_us(&a.host) / 1000;
    assert_in_range(reply->now_ms, now_ms - 5000, now_ms + 5000);
}

/* Triggers on the table, whatever they do, disturb nothing: neither a request by itself nor several at once. */
static void about_triggers(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "before update on simba_mutex for each row set new.owner_id = new.owner_id",
        "before update on simba_mutex for each row set @id = last_insert_id(99)",
        "before update on simba_mutex for each row insert into audit (what) values (1)",
        "after update on simba_mutex for each row insert into audit (what) values (1)",
    };
    open_store(&a);
    acquire(&a, "other", "me", 1);
    say("create table audit (id bigint auto_increment primary key, what int) auto_increment = 1000");
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        say("create trigger meddler %s", bodies[i]);
        for (int round = 0; round < 2; round++) { /* at first there is no row */
            const simba_reply won = acquire(&a, "orders", "me", 1);
            assert_mine(won);
            assert_string_equal(won.owner.id, "me");
            const simba_reply renewed = ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token);
            assert_mine(renewed);
            assert_int_equal(renewed.owner.token, won.owner.token);
            const simba_reply released = ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token);
            assert_mine(released);
            assert_now(&released);
        }
        testhost_request r[2] = {testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0),
                                 testhost_request_of(&a, SIMBA_OP_RENEW, "other", "me", 1, 1)};
        for (int k = 0; k < 2; k++)
            testhost_submit(&a, &r[k]);
        testhost_flush(&a);
        testhost_run_jobs(&a);
        assert_mine(r[0].request.reply);
        assert_mine(r[1].request.reply);
        assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, r[0].request.reply.owner.token));
        say("drop trigger meddler");
    }
    say("drop table audit");
    testhost_close(&a);
}

/* A row that cannot be ours is left out of the list and named in the log, without what it has for terminals; the others are
 * listed. */
static void list_beside_bad_rows(void **state)
{
    (void)state;
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    say("alter table simba_mutex modify owner_id longtext null, modify ttl_at bigint unsigned null, "
        "modify mutex varchar(200) not null");
    static const char *const bad[][2] = {
        {"('no-owner', 1, 2, 3, null, 4, null, null, null)", "no-owner: owner_id is null"},
        {"('no-ttl', 1, null, 3, 'me', 4, null, null, null)", "no-ttl: ttl_at is null"},
        {"('far', 1, 2, 18446744073709551615, 'me', 4, null, null, null)", "far: transition_at is out of range"},
        {"(concat('bell', char(7)), 1, 2, 3, 'me', 4, null, null, null)", "bell\\x07: mutex name has a control"},
        {"(repeat('n', 200), 1, 2, 3, 'me', 4, null, null, null)", "nnn…: mutex name"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        say("insert into simba_mutex " WITHOUT_NOTES " values %s", bad[i][0]);
        a.listed_count = a.warnings = 0;
        ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
        assert_int_equal(a.listed_count, 1);
        assert_string_equal(a.listed[0].mutex, "orders");
        assert_int_equal(a.warnings, 1);
        assert_in(a.log, bad[i][1]);
        say("delete from simba_mutex where mutex <> 'orders'");
    }
    /* A megabyte of an owner is shown as far as an id goes. */
    say("insert into simba_mutex " WITHOUT_NOTES " values ('long', 1, 2, " SERVER_NOW
        " + 9000, repeat('x', 1000000), 4, null, null, null)");
    a.listed_count = 0;
    ask(&a, SIMBA_OP_LIST, "long", NULL, 0, 0);
    assert_int_equal(a.listed_count, 1);
    assert_int_equal(strlen(a.listed[0].owner.id), SIMBA_ID_MAX);
    /* Many are counted, not all named. */
    say("insert into simba_mutex " WITHOUT_NOTES
        " select concat('bad-', seq), 1, null, 3, 'me', 4, null, null, null from seq_1_to_500");
    a.listed_count = a.warnings = 0;
    ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(a.listed_count, 2);
    assert_in_range(a.warnings, 2, 20);
    assert_in(a.log, "490 more");
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    testhost_close(&a);
}

/* Times that no clock shows are nobody's undoing: a lease that seems to last for ever is not taken, by itself or in a batch,
 * and one that ended before time began is. */
static void times_out_of_range(void **state)
{
    (void)state;
    static const struct {
        const char *type, *time;
        bool is_free;
    } rows[] = {
        {"bigint unsigned", "18446744073709551615", false}, {"bigint unsigned", "9223372036854775808", false},
        {"bigint unsigned", "9223372036854775807", false},  {"bigint", "9223372036854775807", false},
        {"bigint", "-9223372036854775808", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int together = 0; together < 2; together++) {
            say("drop table if exists simba_mutex");
            open_store(&a);
            acquire(&a, "n", "me", 1);
            say("alter table simba_mutex modify transition_at %s not null", rows[i].type);
            say("insert into simba_mutex " WITHOUT_NOTES " values ('m', 1, 2, %s, 'you', 7, null, null, null)",
                rows[i].time);
            testhost_request r[2] = {testhost_request_of(&a, SIMBA_OP_ACQUIRE, "m", "me", 1, 0),
                                     testhost_request_of(&a, SIMBA_OP_RENEW, "n", "me", 1, 1)};
            for (int k = 0; k <= together; k++)
                testhost_submit(&a, &r[k]);
            testhost_flush(&a);
            testhost_run_jobs(&a);
            assert_int_equal(r[0].request.reply.status == 0 && r[0].request.reply.outcome == SIMBA_MINE,
                             rows[i].is_free);
            if (together)
                assert_mine(r[1].request.reply);
            testhost_close(&a);
        }
}

/* --- tables of other kinds ------------------------------------------------------------------------------------------ */

/* The table of the JVM, as it is: it works, ids that do not fit are not sent, and nothing is added behind anybody's
 * back. */
static void jvm_table(void **state)
{
    (void)state;
    char url[128];
    snprintf(url, sizeof url, "mariadb://root@localhost:%d/simba", mariadb.port);
    say(JVM_TABLE);
    open_at(&a, url);
    assert_mine(acquire(&a, "orders", "12345678901234567890123456789012", 1));
    const simba_error err = refused(&a, SIMBA_OP_ACQUIRE, "invoices", "123456789012345678901234567890123");
    assert_int_equal(err.code, SIMBA_EINVAL);
    assert_in(err.text, "33 characters");
    assert_string_equal(say("select count(*) from simba_mutex"), "1");
    assert_string_equal(say("select count(*) from information_schema.columns where table_name = 'simba_mutex'"), "6");
    /* An acquire whose answer was lost: nobody can tell whose the grant is. It is not given to a second one. */
    assert_owned_by(acquire(&a, "orders", "12345678901234567890123456789012", 1), "12345678901234567890123456789012");
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "12345678901234567890123456789012", 1, 1));
    /* Forced away, without a column to say so. */
    assert_mine(ask(&a, SIMBA_OP_FORCE_RELEASE, "orders", "", 0, 0));
    assert_int_equal(ask(&a, SIMBA_OP_RENEW, "orders", "12345678901234567890123456789012", 1, 1).outcome,
                     SIMBA_REVOKED);
    testhost_close(&a);
}

/* `simba init` adds the columns; whoever holds a mutex keeps it. */
static void about_upgrade(void **state)
{
    (void)state;
    char url[128];
    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%d/simba?connections=1", mariadb.port);
    say(JVM_TABLE);
    open_at(&a, url);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    ask(&a, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    assert_int_equal(a.found_count, 4);
    assert_int_equal(a.found[0].verdict, SIMBA_VERDICT_WARNING); /* no nonce */
    assert_int_equal(a.found[1].verdict, SIMBA_VERDICT_WARNING); /* not exact */
    assert_int_equal(a.found[2].verdict, SIMBA_VERDICT_WARNING); /* narrow */
    ask(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    ask(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    const simba_reply renewed = ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token);
    assert_mine(renewed);
    assert_int_equal(renewed.owner.token, won.owner.token);
    assert_string_equal(say("select nonce, nonce_version from simba_mutex"), "1 1");
    assert_mine(acquire(&a, "orders", "me", 1)); /* now it is known whose it is */
    testhost_close(&a);
}

/* Where the column takes two names for one, the second is refused, not mistaken for the first. */
static void inexact_names(void **state)
{
    (void)state;
    say(JVM_TABLE " collate utf8mb4_general_ci");
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    assert_mine(won);
    const simba_error err = refused(&a, SIMBA_OP_ACQUIRE, "Orders", "you");
    assert_int_equal(err.code, SIMBA_ECORRUPT);
    assert_in(err.text, "utf8mb4_bin");
    assert_owned_by(ask(&a, SIMBA_OP_READ, "Orders", NULL, 0, 0), "");
    assert_owned_by(ask(&a, SIMBA_OP_FORCE_RELEASE, "Orders", "", 0, 0), "");
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token));
    assert_int_equal(refused(&a, SIMBA_OP_ACQUIRE, "Orders", "you").code, SIMBA_ECORRUPT);
    assert_string_equal(say("select mutex, owner_id, version from simba_mutex"), "orders  2"); /* nobody took it */
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(about_init, setup),
        cmocka_unit_test_setup(about_get, setup),
        cmocka_unit_test_setup(acquire_statement, setup),
        cmocka_unit_test_setup(about_put, setup),
        cmocka_unit_test_setup(about_triggers, setup),
        cmocka_unit_test_setup(lease_end, setup),
        cmocka_unit_test_setup(list_beside_bad_rows, setup),
        cmocka_unit_test_setup(times_out_of_range, setup),
        cmocka_unit_test_setup(jvm_table, setup),
        cmocka_unit_test_setup(about_upgrade, setup),
        cmocka_unit_test_setup(inexact_names, setup),
    };
    return RUN_MYSQL_TESTS(tests);
}
