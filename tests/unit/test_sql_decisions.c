/* Which steps a batch takes on a server that decides by itself, and what becomes of its requests when a step fails or a row is
 * busy: against a model of the server. */
#include <string.h>

#include "lib/cm.h"
#include "lib/model_sql.h"

#include "backends/sql/decisions.h"
#include "util/clock.h"

static model_sql server;
static model_sql_conn conn;
static simba__sql_batch batch;
static simba_local now;
static int somebody; /* who locks rows */

static int setup(void **state)
{
    (void)state;
    model_sql_init(&server);
    conn = (model_sql_conn){.server = &server};
    now.ns = SIMBA__NS_PER_MS;
    simba__sql_batch_init(&batch, (simba__sql_place){"model", "here", "simba_mutex"}, 4711);
    return simba__sql_batch_reserve(&batch, 16, 1024) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    simba__sql_batch_fini(&batch);
    return 0;
}

static simba__sql_item *add(simba_op op, const char *mutex, const char *id, uint64_t nonce, uint64_t token)
{
    simba_request request = {.op = op,
                             .mutex = mutex,
                             .id = id,
                             .nonce = nonce,
                             .token = token,
                             .ttl_ms = 10000,
                             .transition_ms = 6000,
                             .deadline = {now.ns + 5000 * SIMBA__NS_PER_MS}};
    simba__sql_item *item = simba__sql_batch_add(&batch, &request);
    item->request = NULL; /* nobody is answered here */
    return item;
}

static simba__sql_item *acquire(const char *mutex)
{
    return add(SIMBA_OP_ACQUIRE, mutex, "me", 1, 0);
}

static void run(bool is_over)
{
    simba__sql_failure why;
    simba__sql_step *step;
    int rc = 0;
    conn.log[0] = '\0';
    simba__sql_batch_begin(&batch, simba__sql_decisions_next);
    while ((step = simba__sql_batch_next(&batch, rc < 0 ? &why : NULL, now, is_over)) != NULL) {
        now.ns += step->pause_ns;
        rc = model_sql_carry_out(&conn, step, &batch.table, &why);
    }
}

/* A connection that an earlier batch has used. */
static void use_connection(void)
{
    acquire("used");
    run(false);
    simba__sql_batch_clear(&batch);
    assert_int_equal(batch.link, SIMBA__SQL_IDLED);
}

static void assert_mine(const simba__sql_item *item, uint64_t token)
{
    assert_null(item->error);
    assert_false(item->put_off);
    assert_int_equal(item->ask.reply.outcome, SIMBA_MINE);
    assert_int_equal(item->ask.reply.owner.token, token);
}

static void assert_failed(const simba__sql_item *item, int code)
{
    assert_false(item->put_off);
    assert_non_null(item->error);
    assert_int_equal(item->error->code, code);
}

static void assert_put_off(const simba__sql_item *item, bool is_busy)
{
    assert_null(item->error);
    assert_true(item->put_off);
    assert_int_equal(item->is_busy, is_busy);
}

/* Requests of all kinds are one statement; who is refused learns the owner and its place. */
static void one_statement(void **state)
{
    (void)state;
    use_connection();
    simba__sql_item *won = acquire("a");
    simba__sql_item *lost = add(SIMBA_OP_ACQUIRE, "used", "you", 2, 0);
    simba__sql_item *nothing = add(SIMBA_OP_RELEASE, "c", "me", 1, 0);
    run(false);
    assert_string_equal(conn.log, " ready decide:3");
    assert_mine(won, 1);
    assert_int_equal(lost->ask.reply.outcome, SIMBA_NOT_MINE);
    assert_string_equal(lost->ask.reply.owner.id, "me");
    assert_int_equal(lost->ask.reply.place, 3);
    assert_int_equal(lost->version, 1);
    assert_int_equal(nothing->ask.reply.outcome, SIMBA_NOT_MINE);
}

/* Several requests about one mutex are answered one after the other, each by the row that the one before has left. */
static void several_about_one(void **state)
{
    (void)state;
    simba__sql_item *first = acquire("a");
    simba__sql_item *second = add(SIMBA_OP_ACQUIRE, "a", "you", 2, 0);
    simba__sql_item *other = acquire("b");
    simba__sql_item *third = add(SIMBA_OP_FORCE_RELEASE, "a", "", 0, 0);
    run(false);
    assert_string_equal(conn.log, " ready decide:2 decide:1 decide:1");
    assert_mine(first, 1);
    assert_mine(other, 1);
    assert_string_equal(second->ask.reply.owner.id, "me");
    assert_int_equal(third->ask.reply.outcome, SIMBA_MINE);
    assert_string_equal(third->ask.reply.owner.id, "");
}

/* A row that somebody else has locked is put off for a while; the others of the batch have their answers. */
static void about_busy(void **state)
{
    (void)state;
    model_sql_row_of(&server, "b")->locked_by = &somebody;
    simba__sql_item *a = acquire("a"), *b = acquire("b"), *c = acquire("c");
    run(false);
    assert_string_equal(conn.log, " ready decide:3");
    assert_mine(a, 1);
    assert_put_off(b, true);
    assert_false(b->is_locked); /* nobody has waited for it */
    assert_mine(c, 1);
}

/* A contender of ours holds it by our own clock: it is not granted to another one, although the row is free. */
static void about_held_here(void **state)
{
    (void)state;
    model_sql_row_of(&server, "a");
    simba__sql_item *item = acquire("a");
    item->held_here = true;
    run(false);
    assert_true(item->kept_back);
    assert_int_equal(item->ask.reply.outcome, SIMBA_NOT_MINE);
    assert_string_equal(model_sql_row_of(&server, "a")->owner_id, "");
}

/* A new token is above what was seen; where there is none left, that is an error. */
static void about_tokens(void **state)
{
    (void)state;
    model_sql_row_of(&server, "b")->version = UINT32_MAX;
    simba__sql_item *a = acquire("a"), *b = acquire("b");
    a->floor = 41;
    run(false);
    assert_mine(a, 42);
    assert_failed(b, SIMBA_ECORRUPT);
}

/* What does not fit concerns one mutex: after it was refused, each has a statement of its own. */
static void about_split(void **state)
{
    (void)state;
    model_sql_row_of(&server, "b")->does_not_fit = true;
    simba__sql_item *a = acquire("a"), *b = acquire("b"), *c = acquire("c");
    run(false);
    assert_string_equal(conn.log, " ready decide:3 decide:1 decide:1 decide:1");
    assert_mine(a, 1);
    assert_failed(b, SIMBA_ESTORE);
    assert_mine(c, 1);
}

/* A transaction that the server gave up is tried again after a pause; after five times each mutex by itself; then it fails. */
static void about_retry(void **state)
{
    (void)state;
    conn.fault = (model_sql_fault){SIMBA__SQL_DECIDE, 1, SIMBA__SQL_RETRY, false};
    simba__sql_item *a = acquire("a"), *b = acquire("b");
    run(false);
    assert_string_equal(conn.log, " ready decide:2 pause decide:2");
    assert_mine(a, 1);
    assert_mine(b, 1);
    simba__sql_batch_clear(&batch);
    conn.fault = (model_sql_fault){SIMBA__SQL_DECIDE, 12, SIMBA__SQL_RETRY, false};
    a = acquire("c"), b = acquire("d");
    run(false);
    assert_failed(a, SIMBA_EUNAVAILABLE);
    assert_mine(b, 1);
}

/* Nobody waits any more: what would be tried again after the pause is not. */
static void retry_in_vain(void **state)
{
    (void)state;
    conn.fault = (model_sql_fault){SIMBA__SQL_DECIDE, 1, SIMBA__SQL_RETRY, false};
    simba__sql_item *a = acquire("a");
    run(true);
    assert_string_equal(conn.log, " ready decide:1 pause");
    assert_failed(a, SIMBA_ETIMEDOUT);
}

/* A lock that was not given in time: each by itself, and the one whose lock it is is put off, and known to be locked. */
static void about_locked(void **state)
{
    (void)state;
    conn.fault = (model_sql_fault){SIMBA__SQL_DECIDE, 2, SIMBA__SQL_LOCKED, false};
    simba__sql_item *a = acquire("a"), *b = acquire("b");
    run(false);
    assert_string_equal(conn.log, " ready decide:2 decide:1 decide:1");
    assert_put_off(a, true);
    assert_true(a->is_locked);
    assert_mine(b, 1);
    assert_false(b->is_locked);
}

/* A connection that was lost while it was idle is nobody's failure: another job does it all again, at once. */
static void lost_while_idle(void **state)
{
    (void)state;
    use_connection();
    conn.fault = (model_sql_fault){SIMBA__SQL_DECIDE, 1, SIMBA__SQL_LOST, false};
    simba__sql_item *a = acquire("a"), *again = add(SIMBA_OP_ACQUIRE, "a", "you", 2, 0);
    run(false);
    assert_string_equal(conn.log, " ready decide:1 close");
    assert_put_off(a, false);
    assert_put_off(again, false);
}

/* One that is lost after it has worked: whether the statement was carried out is not known, and what was not sent is put
 * off. */
static void lost_on_the_way(void **state)
{
    (void)state;
    conn.fault = (model_sql_fault){SIMBA__SQL_DECIDE, 1, SIMBA__SQL_LOST, true};
    simba__sql_item *a = acquire("a"), *again = add(SIMBA_OP_ACQUIRE, "a", "you", 2, 0);
    run(false);
    assert_failed(a, SIMBA_EUNAVAILABLE);
    assert_put_off(again, false);
}

/* Without a connection all fail, each with the reason. */
static void not_ready(void **state)
{
    (void)state;
    server.is_missing = true;
    simba__sql_item *a = acquire("a"), *b = acquire("b"), *again = acquire("a");
    run(false);
    assert_string_equal(conn.log, " ready");
    assert_failed(a, SIMBA_ESTORE);
    assert_failed(b, SIMBA_ESTORE);
    assert_failed(again, SIMBA_ESTORE);
}

/* What only has to be told fails those that were asked for, and the next round goes on. */
static void about_tell(void **state)
{
    (void)state;
    conn.fault = (model_sql_fault){SIMBA__SQL_DECIDE, 1, SIMBA__SQL_TELL, false};
    simba__sql_item *a = acquire("a"), *again = acquire("a");
    run(false);
    assert_string_equal(conn.log, " ready decide:1 decide:1");
    assert_failed(a, SIMBA_EUNAVAILABLE);
    assert_mine(again, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_statement, setup, teardown),
        cmocka_unit_test_setup_teardown(several_about_one, setup, teardown),
        cmocka_unit_test_setup_teardown(about_busy, setup, teardown),
        cmocka_unit_test_setup_teardown(about_held_here, setup, teardown),
        cmocka_unit_test_setup_teardown(about_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(about_split, setup, teardown),
        cmocka_unit_test_setup_teardown(about_retry, setup, teardown),
        cmocka_unit_test_setup_teardown(retry_in_vain, setup, teardown),
        cmocka_unit_test_setup_teardown(about_locked, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_while_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_on_the_way, setup, teardown),
        cmocka_unit_test_setup_teardown(not_ready, setup, teardown),
        cmocka_unit_test_setup_teardown(about_tell, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
