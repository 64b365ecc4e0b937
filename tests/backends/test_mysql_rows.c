/* The MySQL store, row by row: the end of a lease, rows and tables that are not as `simba init` makes them. */
#include "backends/test_mysql.h"

#define SERVER_NOW "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) div 1000"

/* The columns that a row without a note is given. */
#define WITHOUT_NOTES                                                                                                  \
    "(mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, revoked_version)"

/* --- leases ----------------------------------------------------------------------------------------------- */

/* A lease is good until its end by the server's clock, and over after it, in whatever time zone the server is. */
static void lease_end(void **state)
{
    say("set global time_zone = '+09:00'");
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    const int64_t now_ms = a.host.epoch_us(&a.host) / 1000;
    assert_in_range(won.now_ms, now_ms - 5000, now_ms + 5000);
    say("update simba_mutex set transition_at = " SERVER_NOW " + 60000");
    assert_owned_by(acquire(&a, "orders", "you", 2), "me");
    say("update simba_mutex set transition_at = " SERVER_NOW " - 1");
    assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token), "");
    assert_owned_by(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token), "");
    assert_mine(acquire(&a, "orders", "you", 2));
    say("set global time_zone = 'SYSTEM'");
    testhost_close(&a);
}

/* --- what is odd about rows ----------------------------------------------------------------------------------- */

/* A row that cannot be ours is left out of the list and named in the log, without what it has for terminals; the others are
 * listed. */
static void list_beside_bad_rows(void **state)
{
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

/* Somebody else has made the note longer than a note can be: that is an error for its mutex alone. */
static void note_too_long(void **state)
{
    open_store(&a);
    acquire(&a, "orders", "me", 1);
    say("alter table simba_mutex modify note varbinary(2000) null");
    say("update simba_mutex set note = repeat('x', 1025), note_token = 1, note_number = 1");
    assert_note_too_long();
    testhost_close(&a);
}

/* --- tables of other kinds ------------------------------------------------------------------------------------------ */

/* The table of the JVM as it is will not do: nothing is added behind anybody's back, and the error says what to run. Then whoever
 * holds a mutex keeps it, ids that do not fit are not sent, and names that the column cannot write are refused. */
static void jvm_table(void **state)
{
    char url[128];
    snprintf(url, sizeof url, "mariadb://root@localhost:%d/simba", mariadb.port);
    say(JVM_TABLE " character set latin1");
    say("insert into simba_mutex values ('invoices', 1, 2, " SERVER_NOW " + 60000, '0:1@jvm', 4)");
    open_at(&a, url);
    const simba_error old = refused(&a, SIMBA_OP_ACQUIRE, "orders", "me");
    assert_int_equal(old.code, SIMBA_ESTORE);
    assert_in(old.text, "simba init");
    assert_string_equal(say("select count(*) from information_schema.columns where table_name = 'simba_mutex'"), "6");
    ask(&a, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    assert_int_equal(a.found_count, 1);
    assert_int_equal(a.found[0].verdict, SIMBA_VERDICT_BROKEN);
    ask(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    ask(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    assert_owned_by(acquire(&a, "invoices", "me", 1), "0:1@jvm");
    const simba_reply won = acquire(&a, "orders", "12345678901234567890123456789012", 1);
    assert_mine(won);
    assert_int_equal(acquire(&a, "orders", "12345678901234567890123456789012", 1).owner.token, won.owner.token);
    const simba_error err = refused(&a, SIMBA_OP_ACQUIRE, "other", "123456789012345678901234567890123");
    assert_int_equal(err.code, SIMBA_EINVAL);
    assert_in(err.text, "33 characters");
    assert_int_equal(refused(&a, SIMBA_OP_ACQUIRE, "\xC3\xBC", "me").code, SIMBA_EINVAL);
    a.found_count = 0;
    ask(&a, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    assert_int_equal(a.found[0].verdict, SIMBA_VERDICT_OK);
    assert_int_equal(a.found[1].verdict, SIMBA_VERDICT_WARNING); /* not exact */
    assert_int_equal(a.found[2].verdict, SIMBA_VERDICT_WARNING); /* narrow */
    testhost_close(&a);
}

/* Each of simba's columns has to be there, and `simba init` adds the one that is not. */
static void missing_column(void **state)
{
    static const char *const columns[] = {"nonce",      "nonce_version", "revoked_version", "note",
                                          "note_token", "note_number",   "note_written_at", "forgotten_version"};
    char url[128];
    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%d/simba", mariadb.port);
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        say("alter table simba_mutex drop column %s", columns[i]);
        open_at(&b, url);
        const simba_error err = refused(&b, SIMBA_OP_ACQUIRE, "orders", "you");
        assert_int_equal(err.code, SIMBA_ESTORE);
        assert_in(err.text, columns[i]);
        assert_in(err.text, "simba init");
        assert_int_equal(refused(&b, SIMBA_OP_READ, "orders", NULL).code, SIMBA_ESTORE);
        ask(&b, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
        assert_owned_by(acquire(&b, "orders", "you", 2), "me");
        testhost_close(&b);
    }
    /* The nonce is lost, but the token shows whose grant it is. */
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    testhost_close(&a);
}

/* Where the column takes two names for one, the second is refused, not mistaken for the first. */
static void inexact_names(void **state)
{
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
    assert_mine(write_note(&a, "orders", "me", 1, won.owner.token, 1, "page 1"));
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token));
    assert_int_equal(refused(&a, SIMBA_OP_ACQUIRE, "Orders", "you").code, SIMBA_ECORRUPT);
    assert_int_equal(read_note(&a, "Orders").length, 0);
    assert_int_equal(ask(&a, SIMBA_OP_FORGET, "Orders", "", 0, 0).outcome, SIMBA_NOT_MINE);
    assert_int_equal(read_note(&a, "orders").length, 6);
    assert_string_equal(say("select mutex, owner_id, version from simba_mutex"), "orders  2"); /* nobody took it */
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lease_end, setup),      cmocka_unit_test_setup(list_beside_bad_rows, setup),
        cmocka_unit_test_setup(jvm_table, setup),      cmocka_unit_test_setup(note_too_long, setup),
        cmocka_unit_test_setup(missing_column, setup), cmocka_unit_test_setup(inexact_names, setup),
    };
    return RUN_MYSQL_TESTS(tests);
}
