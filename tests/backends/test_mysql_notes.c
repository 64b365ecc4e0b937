/* Notes on MySQL: what all SQL stores promise about them, rights, and contenders on the JVM, which do
 * not know of them. */
#include "backends/test_mysql.h"

static void lengthen_note(void)
{
    say("alter table simba_mutex modify note varbinary(2000) null");
    say("update simba_mutex set note = repeat('x', 1025), note_token = 1, note_number = 1");
}

#include "backends/sql_notes.h"

static const char *url_of(const char *user, const char *more)
{
    static char url[128];
    snprintf(url, sizeof url, "mysql://%s@127.0.0.1:%d/simba%s", user, mariadb.port, more);
    return url;
}

/* create=yes says what is missing to a user who may not alter the table; one who may only use it can write notes. */
static void may_not_alter(void **state)
{
    (void)state;
    say(JVM_TABLE);
    say("create or replace user worker@'%%'");
    say("grant select, insert, update on simba.* to worker@'%%'");
    open_at(&a, url_of("worker", "?create=yes"));
    const simba_error err = refused(&a, SIMBA_OP_ACQUIRE, "orders", "me");
    assert_int_equal(err.code, SIMBA_ESTORE);
    assert_in(err.text, "simba init");
    testhost_close(&a);
    setup(NULL);
    open_store(&b); /* which makes it */
    acquire(&b, "other", "me", 1);
    open_at(&a, url_of("worker", ""));
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 1, "page 1").outcome, SIMBA_MINE);
    expire("orders");
    assert_mine(ask(&a, SIMBA_OP_FORGET, "orders", "", 0, 0));
    testhost_close(&a);
    testhost_close(&b);
    say("drop user worker@'%%'");
}

/* As Simba on the JVM does it. */
static void jvm_acquires(const char *id)
{
    assert_string_equal(say("update simba_mutex set acquired_at = 1, ttl_at = 2, transition_at = "
                            "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) div 1000 + 60000, owner_id = "
                            "'%s', version = version + 1 where mutex = 'orders'",
                            id),
                        "1");
}

/* A contender on the JVM neither sees nor harms the note, and what was forgotten is known again when it takes it. */
static void beside_the_jvm(void **state)
{
    (void)state;
    open_store(&a);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 1, "page 1").outcome, SIMBA_MINE);
    expire("orders");
    jvm_acquires("0:1@jvm");
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 2, "late").outcome, SIMBA_NOT_MINE);
    assert_note(&a, "page 1");
    expire("orders");
    assert_mine(ask(&a, SIMBA_OP_FORGET, "orders", "", 0, 0));
    jvm_acquires("0:1@jvm");
    ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(a.listed_count, 1);
    expire("orders");
    testhost_close(&a);
    open_store(&b);
    assert_true(acquire(&b, "orders", "you", 2).owner.token > token + 2);
    testhost_close(&b);
}

/* Where the column takes one name for another, the note and the mutex of the other one are left alone. */
static void inexact_names(void **state)
{
    (void)state;
    say(JVM_TABLE " collate utf8mb4_general_ci");
    open_store(&a);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 1, "page 1").outcome, SIMBA_MINE);
    ask(&a, SIMBA_OP_READ_NOTE, "Orders", "", 0, 0);
    assert_int_equal(a.noted_count, 0);
    expire("orders");
    assert_int_equal(ask(&a, SIMBA_OP_FORGET, "Orders", "", 0, 0).outcome, SIMBA_NOT_MINE);
    assert_note(&a, "page 1");
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SQL_NOTES_TESTS,
        cmocka_unit_test_setup(may_not_alter, setup),
        cmocka_unit_test_setup(beside_the_jvm, setup),
        cmocka_unit_test_setup(inexact_names, setup),
    };
    return RUN_MYSQL_TESTS(tests);
}
