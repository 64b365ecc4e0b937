/* A primary that answers no commit before its standby has it: what was granted outlives a fail-over, and a primary that has lost
 * its standby grants nothing, whoever tells it not to wait. */

#include "backends/test_postgresql.h"

static server *standby;
static bool is_frozen;

static void freeze(bool wanted)
{
    server_freeze_postgresql(standby, wanted);
    is_frozen = wanted;
}

static int pair_setup(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    server_init(&postgresql);
    if (!server_start_postgresql_pair(&postgresql))
        fail_msg("the pair does not start; see %s/log", postgresql.folder);
    standby = server_nth(&postgresql, 1);
    snprintf(postgresql_url, sizeof postgresql_url, "postgresql://postgres@%s/simba?sslmode=disable&create=yes",
             postgresql.hosts);
    raw = connect_raw("postgres");
    open_store(&a);
    return 0;
}

static int pair_teardown(void **state)
{
    testhost_close(&a);
    if (is_frozen)
        freeze(false);
    PQfinish(raw);
    server_fini(&postgresql);
    return 0;
}

/* As many of the store's transactions wait for the standby. */
static void await_waiting(int count)
{
    for (int i = 0; i < 500; i++) {
        testhost_pump(&a, NULL, 10);
        if (atoi(say("select count(*) from pg_stat_activity where wait_event = 'SyncRep'")) == count)
            return;
    }
    fail_msg("nobody waits for the standby");
}

/* An administrator, or a tool that fails over, cancels the wait. The server then answers as if all were well, and adds a
 * warning: what it has granted may be unknown to the next primary, so it is no grant. */
static void cancelled_wait(void **state)
{
    acquire(&a, "orders", "me", 1);
    freeze(true);
    testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "invoices", "me", 2, 0);
    testhost_submit(&a, &r);
    testhost_flush(&a);
    await_waiting(1);
    assert_false(r.done);
    say("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    assert_true(testhost_pump(&a, &r.done, 1000));
    assert_int_equal(r.request.reply.status, SIMBA_EUNAVAILABLE);
    assert_in(r.error.text, "standby");
    freeze(false);
    assert_mine(acquire(&a, "invoices", "me", 2));
}

/* The standby is promoted while the primary still runs, which then grants nothing; the new one knows what was granted before,
 * and gives it to nobody else. Clients of the old one go on with the new one, before the old one is gone and after it. Comes
 * last. */
static void fail_over(void **state)
{
    char url[160];
    const simba_reply won = acquire(&a, "mails", "me", 1);
    assert_true(server_tell_postgresql(standby, "select pg_promote()"));
    testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "letters", "me", 3, 0);
    r.request.deadline.ns = simba__clock_boot().ns + 500 * SIMBA__NS_PER_MS;
    testhost_ask(&a, &r);
    assert_int_equal(r.request.reply.status, SIMBA_ETIMEDOUT);

    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d/simba?sslmode=disable", standby->port);
    open_at(&b, url);
    assert_owned_by(acquire(&b, "mails", "you", 2), "me");
    assert_mine(acquire(&b, "letters", "you", 2));

    /* Each of the two connections goes on to the new one when the old one has not answered. */
    const simba_reply *reply = NULL;
    for (int i = 0; i < 10 && (!reply || reply->status < 0); i++) {
        r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "parcels", "me", 4, 0);
        r.request.deadline.ns = simba__clock_boot().ns + 1000 * SIMBA__NS_PER_MS;
        reply = testhost_ask(&a, &r);
        testhost_pump(&a, NULL, 300); /* what did not answer is cut off */
    }
    assert_mine(*reply);

    server_signal(&postgresql, SIGQUIT);
    const simba_reply renewed = ask(&a, SIMBA_OP_RENEW, "mails", "me", 1, won.owner.token);
    assert_mine(renewed);
    assert_int_equal(renewed.owner.token, won.owner.token);
    ask(&a, SIMBA_OP_RELEASE, "mails", "me", 1, won.owner.token);
    assert_true(acquire(&b, "mails", "you", 2).owner.token > won.owner.token);
    testhost_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_wait),
        cmocka_unit_test(fail_over),
    };
    return SERVER_RUN_TESTS("postgres", tests, pair_setup, pair_teardown);
}
