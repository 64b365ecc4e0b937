/* Notes on PostgreSQL: what all SQL stores promise about them, whom the server notifies, and tables of an earlier version. */
#include "backends/test_postgresql.h"

static void lengthen_note(void)
{
    say("update simba_mutex set note = convert_to(repeat('x', 1025), 'utf8'), note_token = 1, note_number = 1");
}

#include "backends/sql_notes.h"

/* A waiter in the queue is notified, and does not have to look. A note that nobody waits for notifies nobody. */
static void waiter_is_notified(void **state)
{
    (void)state;
    simba_watch watched = {.mutex = "orders"};
    open_store(&a);
    open_store(&b);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    wait_in_line(&b, "orders", "you", 2);
    assert_int_equal(testhost_watch(&b, &watched), 0);
    for (int i = 0; i < 500 && hearing_of(&b) != SIMBA__SQL_HEARS; i++)
        testhost_pump(&b, NULL, 10);
    testhost_pump(&b, NULL, 200); /* it has looked, and relies on notifications */
    const unsigned before = decisions();
    b.noted_pushes = 0;
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 1, "page 1").outcome, SIMBA_MINE);
    assert_true(await_noted(&b, 500));
    assert_int_equal(decisions() - before, 1);
    testhost_unwatch(&b, &watched);
    testhost_close(&a);
    testhost_close(&b);
}

/* `simba init` gives a table of an earlier version its columns, and keeps what it has. */
static void old_table(void **state)
{
    (void)state;
    char url[160];
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d/simba?sslmode=disable", postgresql.port);
    open_store(&a);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    testhost_close(&a);
    say("alter table simba_mutex drop note, drop note_written_at, drop note_token, drop note_number, drop "
        "forgotten_version");
    open_at(&a, url);
    const simba_error err = refused(&a, SIMBA_OP_WRITE_NOTE, "orders", "me");
    assert_int_equal(err.code, SIMBA_ESTORE);
    assert_in(err.text, "simba init");
    testhost_pump(&a, NULL, 30); /* the pause after the failure */
    ask(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, token));
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 1, "page 1").outcome, SIMBA_MINE);
    assert_note(&a, "page 1");
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SQL_NOTES_TESTS,
        cmocka_unit_test_setup(waiter_is_notified, setup),
        cmocka_unit_test_setup(old_table, setup),
    };
    return RUN_POSTGRESQL_TESTS(tests);
}
