/* The MySQL store, driven at its contract: what its operations do and leave in the table, how many statements that takes, who
 * is told what. */
#include "backends/test_mysql.h"

#include "stores/sql/row.h"
#include "util/random.h"

/* --- batches --------------------------------------------------------------------------------------------------- */

/* A row that cannot be written fails alone. */
static void about_neighbours(void **state)
{
    open_store(&a);
    acquire(&a, "b", "you", 9);
    expire("b");
    say("update simba_mutex set version = 4294967295 where mutex = 'b'");
    say("alter table simba_mutex modify owner_id varchar(128) character set latin1 not null");
    open_store(&b);
    testhost_request r[4] = {
        testhost_request_of(&b, SIMBA_OP_ACQUIRE, "a", "me", 1, 0),
        testhost_request_of(&b, SIMBA_OP_ACQUIRE, "b", "me", 2, 0),           /* no version left */
        testhost_request_of(&b, SIMBA_OP_ACQUIRE, "c", "\xE4\xBA\x92", 3, 0), /* no such letter there */
        testhost_request_of(&b, SIMBA_OP_ACQUIRE, "d", "me", 4, 0),
    };
    for (int i = 0; i < 4; i++)
        testhost_submit(&b, &r[i]);
    testhost_flush(&b);
    await_answers(&b);
    assert_mine(r[0].request.reply);
    assert_int_equal(r[1].error.code, SIMBA_ECORRUPT);
    assert_in(r[1].error.text, "used up");
    assert_int_equal(r[2].error.code, SIMBA_EINVAL);
    assert_in(r[2].error.text, "owner_id");
    assert_mine(r[3].request.reply);
    assert_in(refused(&b, SIMBA_OP_ACQUIRE, "b", "me").text, "used up"); /* also by itself */
    testhost_close(&b);
    testhost_close(&a);
    say("alter table simba_mutex modify version bigint unsigned not null");
    open_store(&a);
    assert_int_equal(acquire(&a, "b", "me", 1).owner.token, UINT64_C(4294967296));
    testhost_close(&a);
}

/* Whatever the server does with transactions that end: a grant that was told is committed, and locks nothing; and the server does
 * not end the connection. */
static void chained_commits(void **state)
{
    static const char *const kinds[] = {"CHAIN", "RELEASE"};
    for (int i = 0; i < 2; i++) {
        say("set global completion_type = '%s'", kinds[i]);
        open_store(&a);
        const simba_reply won = acquire(&a, "orders", "me", 1);
        const long long before = counter("Connections");
        assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token));
        const simba_reply next = acquire(&a, "orders", "you", 2);
        assert_mine(next);
        const long long after = counter("Connections");
        say("set global completion_type = 'NO_CHAIN'");
        assert_string_equal(say("select owner_id from simba_mutex where mutex = 'orders'"), "you");
        assert_int_equal(after, before);
        assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "you", 2, next.owner.token));
        testhost_close(&a);
    }
}

/* A batch that changes nothing unlocks its rows at once: the server would end the transaction only after a second. */
static void refusal_unlocks(void **state)
{
    open_store(&a);
    open_store(&b);
    assert_mine(acquire(&a, "orders", "me", 1));
    assert_int_equal(acquire(&b, "orders", "you", 2).outcome, SIMBA_NOT_MINE);
    const simba__sql_store *sql = b.store;
    while (sql->writer.state != SIMBA__SQL_READY)
        testhost_pump(&b, NULL, 1);
    assert_string_equal(say("select owner_id from simba_mutex where mutex = 'orders' for update skip locked"), "me");
    testhost_close(&b);
    testhost_close(&a);
}

/* Nor does it matter how many rows the server shows who does not say: holders are not told that theirs are gone. */
static void select_limit(void **state)
{
    enum { N = 12 };
    testhost_request r[N];
    char mutexes[N][8];
    say("set global sql_select_limit = 10");
    open_store(&a);
    for (int i = 0; i < N; i++) {
        snprintf(mutexes[i], sizeof mutexes[i], "m%d", i);
        assert_mine(acquire(&a, mutexes[i], "me", 1));
    }
    for (int i = 0; i < N; i++) {
        r[i] = testhost_request_of(&a, SIMBA_OP_RENEW, mutexes[i], "me", 1, 1);
        testhost_submit(&a, &r[i]);
    }
    testhost_flush(&a);
    await_answers(&a);
    say("set global sql_select_limit = 18446744073709551615");
    for (int i = 0; i < N; i++)
        assert_mine(r[i].request.reply);
    testhost_close(&a);
}

/* --- watching ---------------------------------------------------------------------------------------------------- */

/* The client library blocks for as long as it likes, so a thread that has other things to do does not get into it. */
static void jobs_are_for_patient_threads(void **state)
{
    open_store(&a);
    testhost_request r = testhost_request_of(&a, SIMBA_OP_READ, "a", NULL, 0, 0);
    testhost_submit(&a, &r);
    testhost_flush(&a);
    const simba_local soon = {simba__clock_boot().ns + 60000 * SIMBA__NS_PER_MS};
    assert_false(a.first_job->run(a.first_job, soon));
    assert_false(r.done);
    await_answers(&a);
    assert_true(r.done);
    testhost_close(&a);
}

/* A renewal gets no answer in time: its connection is given up, and the next try goes by a new one. */
static void renewal_by_another_connection(void **state)
{
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    const long long before = counter("Connections");
    testhost_request late = testhost_request_of(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token);
    server_signal(&mariadb, SIGSTOP);
    testhost_submit(&a, &late);
    testhost_flush(&a);
    testhost_advance(&a, 4100);
    assert_int_equal(late.error.code, SIMBA_ETIMEDOUT);
    server_signal(&mariadb, SIGCONT);
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    assert_true(counter("Connections") > before);
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token));
    assert_mine(acquire(&a, "orders", "you", 2));
    testhost_close(&a);
}

/* The same if others wait for that connection, and have time: the renewal has not. */
static void renewal_among_others(void **state)
{
    (void)state;
    open_store(&a);
    const simba__sql_store *sql = a.store;
    const simba_reply won = acquire(&a, "orders", "me", 1);
    testhost_request late = testhost_request_of(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token);
    testhost_request other = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "invoices", "me", 2, 0);
    server_signal(&mariadb, SIGSTOP);
    testhost_submit(&a, &late);
    testhost_submit(&a, &other);
    testhost_flush(&a);
    assert_int_equal(sql->writer.state, SIMBA__SQL_ASKED);
    testhost_advance(&a, 200);
    testhost_expire(&a, &late);
    const simba__sql_state after = sql->writer.state;
    server_signal(&mariadb, SIGCONT);
    assert_int_not_equal(after, SIMBA__SQL_ASKED);
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    await_answers(&a);
    assert_mine(other.request.reply);
    testhost_close(&a);
}

/* --- what the client remembers --------------------------------------------------------------------------------------- */

/* A replica that was promoted has an older row: tokens go on from what was seen here, and while one of ours holds the mutex
 * another one of ours does not get it; the holder is asked to look. */
static void older_row(void **state)
{
    simba_watch watched = {.mutex = "orders"};
    open_store(&a);
    for (int i = 0; i < 5; i++) {
        const simba_reply won = acquire(&a, "orders", "me", 1);
        assert_mine(won);
        assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token));
    }
    const simba_reply held = acquire(&a, "orders", "me", 1);
    assert_mine(held);
    watch(&a, &watched);
    say("update simba_mutex set owner_id = '', acquired_at = 0, ttl_at = 0, transition_at = 0, version = 2");
    assert_owned_by(acquire(&a, "orders", "you", 2), "");
    assert_true(a.push_count > 0);
    assert_int_equal(a.pushes[a.push_count - 1].push.kind, SIMBA_PUSH_FREED);
    assert_int_equal(a.pushes[a.push_count - 1].nonce, 1);
    assert_true(a.pushes[a.push_count - 1].push.owner.token >= held.owner.token);
    assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, held.owner.token), "");
    const simba_reply next = acquire(&a, "orders", "you", 2);
    assert_mine(next);
    assert_true(next.owner.token > held.owner.token);
    testhost_unwatch(&a, &watched);
    testhost_close(&a);
}

/* The server's clock steps back by an hour, which is as if all rows were an hour ahead: whoever holds a mutex keeps it,
 * nobody else gets it, and a renewal puts the row right. */
static void clock_steps_back(void **state)
{
    open_store(&a);
    open_store(&b);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    say("update simba_mutex set acquired_at = acquired_at + 3600000, ttl_at = ttl_at + 3600000, "
        "transition_at = transition_at + 3600000");
    assert_owned_by(acquire(&b, "orders", "you", 2), "me");
    const simba_reply renewed = ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token);
    assert_mine(renewed);
    assert_in_range(renewed.owner.transition_at_ms - renewed.now_ms, 15000, 16000);
    assert_owned_by(acquire(&b, "orders", "you", 2), "me");
    testhost_close(&a);
    testhost_close(&b);
}

/* --- random histories --------------------------------------------------------------------------------------------------- */

/* Requests one by one and in batches do what the model does. */
static void agrees_with_the_model(void **state)
{
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW,
                                   SIMBA_OP_RELEASE, SIMBA_OP_RELEASE, SIMBA_OP_FORCE_RELEASE};
    static const char *const ids[] = {"me", "you"};
    uint64_t seed = 4711;
    open_store(&a);
    simba__sql_row model = {
        .mutex = "m", .presence = SIMBA__SQL_LOCKED, .version_max = UINT32_MAX, .row = {.counts_tokens = true}};
    for (int i = 0; i < 400; i++) {
        if (simba__random_range(&seed, 0, 8) == 0 && model.row.owner.id[0]) {
            expire("m");
            testhost_advance(&a, 17000); /* by our own clock too, or we would not believe it */
            model.row.until_ns = 0;
        }
        testhost_request r[2];
        const int count = (int)simba__random_range(&seed, 1, 3);
        for (int k = 0; k < count; k++) {
            const simba_op op = ops[simba__random_range(&seed, 0, 6)];
            const uint64_t nonce = (uint64_t)simba__random_range(&seed, 1, 3);
            const bool knows = simba__random_range(&seed, 0, 4) > 0;
            const uint64_t token = op == SIMBA_OP_ACQUIRE ? 0 : knows ? model.row.owner.token : 3;
            r[k] = testhost_request_of(&a, op, "m", ids[simba__random_range(&seed, 0, 2)], nonce, token);
        }
        /* Renewals go first. */
        if (count == 2 && r[0].request.op != SIMBA_OP_RENEW && r[1].request.op == SIMBA_OP_RENEW) {
            const testhost_request first = r[1];
            r[1] = r[0];
            r[0] = first;
        }
        ask_all(&a, r, (size_t)count);
        for (int k = 0; k < count; k++) {
            simba_request expected = r[k].request;
            assert_int_equal(expected.reply.status, 0);
            const simba_reply got = expected.reply;
            model.now_ms = got.now_ms;
            assert_true(simba__sql_row_apply(&model, &expected, 0));
            if (got.outcome != expected.reply.outcome || strcmp(got.owner.id, expected.reply.owner.id) != 0 ||
                got.owner.token != expected.reply.owner.token)
                fail_msg("step %d.%d, op %d: outcome %d, owner %s %llu; expected %d, %s %llu", i, k, (int)expected.op,
                         (int)got.outcome, got.owner.id, (unsigned long long)got.owner.token,
                         (int)expected.reply.outcome, expected.reply.owner.id,
                         (unsigned long long)expected.reply.owner.token);
        }
    }
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(about_neighbours, setup),
        cmocka_unit_test_setup(chained_commits, setup),
        cmocka_unit_test_setup(refusal_unlocks, setup),
        cmocka_unit_test_setup(select_limit, setup),
        cmocka_unit_test_setup(jobs_are_for_patient_threads, setup),
        cmocka_unit_test_setup(renewal_by_another_connection, setup),
        cmocka_unit_test_setup(renewal_among_others, setup),
        cmocka_unit_test_setup(older_row, setup),
        cmocka_unit_test_setup(clock_steps_back, setup),
        cmocka_unit_test_setup(agrees_with_the_model, setup),
    };
    return RUN_MYSQL_TESTS(tests);
}
