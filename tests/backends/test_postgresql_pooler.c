/* Behind PgBouncer in transaction mode, where LISTEN is accepted and nothing ever arrives: the store finds that out by itself, says
 * so once, and polls. In session mode it is told. */
#include <unistd.h>

#include "backends/test_postgresql.h"

static server pooler;

static int pooler_setup(const char *mode)
{
    signal(SIGPIPE, SIG_IGN);
    server_init(&pooler);
    if (!server_start_pgbouncer(&pooler, mode))
        fail_msg("pgbouncer does not start; see %s/log", pooler.folder);
    snprintf(postgresql_url, sizeof postgresql_url,
             "postgresql://postgres@127.0.0.1:%d/simba?sslmode=disable&create=yes", pooler.port);
    open_store(&a);
    open_store(&b);
    return 0;
}

static int transaction_setup(void **state)
{
    return pooler_setup("transaction");
}

static int session_setup(void **state)
{
    return pooler_setup("session");
}

static int pooler_teardown(void **state)
{
    testhost_close(&a);
    testhost_close(&b);
    server_fini(&pooler);
    return 0;
}

static void await_hearing(testhost *h, simba__sql_hearing hearing)
{
    for (int i = 0; i < 500 && hearing_of(h) != hearing; i++)
        testhost_pump(h, NULL, 10);
    assert_int_equal(hearing_of(h), hearing);
}

/* How long it takes until who waits is told of a release. */
static int64_t release_and_wait(uint64_t token)
{
    testhost_pump(&b, NULL, 100); /* all rows have been looked at */
    b.push_count = 0;
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, token);
    const int64_t since_ns = simba__clock_boot().ns;
    while (b.push_count == 0 && simba__clock_boot().ns - since_ns < 5000 * SIMBA__NS_PER_MS)
        testhost_pump(&b, NULL, 5);
    assert_int_equal(b.pushes[0].push.kind, SIMBA_PUSH_RELEASED);
    return (simba__clock_boot().ns - since_ns) / SIMBA__NS_PER_MS;
}

static void transaction_mode(void **state)
{
    simba_watch watched = {.mutex = "orders"}, later = {.mutex = "invoices"};
    const simba_reply won = acquire(&a, "orders", "me", 1);
    wait_in_line(&b, "orders", "you", 2);
    assert_int_equal(testhost_watch(&b, &watched), 0);
    await_hearing(&b, SIMBA__SQL_DEAF);
    assert_int_equal(b.warnings, 1);
    assert_in(b.log, "pooler");
    assert_in_range(release_and_wait(won.owner.token), 0, 1500);
    testhost_unwatch(&b, &watched);

    /* Another mutex, and a pooler that was gone: nothing is said again, and nobody stands in a line who cannot be told. */
    server_signal(&pooler, SIGKILL);
    assert_true(server_start(&pooler));
    testhost_advance(&b, 1000);
    acquire(&a, "invoices", "me", 1);
    assert_int_equal(wait_in_line(&b, "invoices", "you", 2).place, 0);
    assert_int_equal(testhost_watch(&b, &later), 0);
    testhost_pump(&b, NULL, 2300);
    assert_int_equal(hearing_of(&b), SIMBA__SQL_DEAF);
    assert_int_equal(b.warnings, 1);
    testhost_unwatch(&b, &later);
}

static void session_mode(void **state)
{
    simba_watch watched = {.mutex = "orders"};
    const simba_reply won = acquire(&a, "orders", "me", 1);
    wait_in_line(&b, "orders", "you", 2);
    assert_int_equal(testhost_watch(&b, &watched), 0);
    await_hearing(&b, SIMBA__SQL_HEARS);
    assert_int_equal(b.warnings, 0);
    assert_in_range(release_and_wait(won.owner.token), 0, 500);
    testhost_unwatch(&b, &watched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(transaction_mode, transaction_setup, pooler_teardown),
        cmocka_unit_test_setup_teardown(session_mode, session_setup, pooler_teardown),
    };
    if (!server_has("postgres") || !server_has("pgbouncer")) {
        puts("1..0 # SKIP postgres and pgbouncer are not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
