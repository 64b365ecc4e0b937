/* Which steps a batch of requests takes, and what becomes of the requests when a step fails: against a model of the server. */
#include <string.h>

#include "lib/cm.h"
#include "lib/model_sql.h"

#include "backends/sql/reads.h"
#include "backends/sql/writes.h"
#include "util/clock.h"

enum { TTL_MS = 10000, TRANSITION_MS = 6000, NOW_MS = 1000, PATIENCE_MS = 5000 };

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
    now.ns = NOW_MS * SIMBA__NS_PER_MS;
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
                             .ttl_ms = TTL_MS,
                             .transition_ms = TRANSITION_MS,
                             .deadline = {now.ns + PATIENCE_MS * SIMBA__NS_PER_MS}};
    simba__sql_item *item = simba__sql_batch_add(&batch, &request);
    item->request = NULL; /* nobody is answered here */
    return item;
}

static simba__sql_item *acquire(const char *mutex)
{
    return add(SIMBA_OP_ACQUIRE, mutex, "me", 1, 0);
}

/* Carry out the batch; a pause takes its time. */
static void run(simba__sql_decider decider)
{
    simba__sql_failure why;
    simba__sql_step *step;
    int rc = 0;
    conn.log[0] = '\0';
    simba__sql_batch_begin(&batch, decider);
    while ((step = simba__sql_batch_next(&batch, rc < 0 ? &why : NULL, now, false)) != NULL) {
        now.ns += step->pause_ns;
        rc = model_sql_carry_out(&conn, step, &batch.table, &why);
    }
}

static void write_all(void)
{
    run(simba__sql_writes_next);
}

/* A connection that an earlier batch has used, with these rows in the table. */
static void have_rows(size_t count)
{
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < count; i++)
        model_sql_row_of(&server, names[i]);
    add(SIMBA_OP_READ, "a", "", 0, 0);
    run(simba__sql_reads_next);
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

/* Nobody has written the row. */
static void assert_untouched(const char *mutex)
{
    const model_sql_row *row = model_sql_row_of(&server, mutex);
    assert_int_equal(row->version, 0);
    assert_string_equal(row->owner_id, "");
    assert_null(row->locked_by);
}

/* --- without faults --------------------------------------------------------------------------------------- */

/* All rows are locked by one statement and written by one; rows that are missing are made outside of the transaction. */
static void batch_is_one_transaction(void **state)
{
    (void)state;
    simba__sql_item *c = acquire("c"), *a = acquire("a"), *b = acquire("b");
    write_all();
    assert_string_equal(conn.log, " ready begin lock:3 rollback make:3 begin lock:3 put:3 commit");
    assert_mine(a, 1);
    assert_mine(b, 1);
    assert_mine(c, 1);
}

/* A request by itself takes one statement; what that cannot answer takes a transaction. */
static void lone_request(void **state)
{
    (void)state;
    have_rows(1);
    simba__sql_item *item = acquire("a");
    write_all();
    assert_string_equal(conn.log, " ready acquire:1");
    assert_mine(item, 1);
    simba__sql_batch_clear(&batch);

    item = add(SIMBA_OP_RENEW, "a", "me", 1, 1);
    write_all();
    assert_string_equal(conn.log, " ready renew:1");
    assert_mine(item, 1);
    simba__sql_batch_clear(&batch);

    item = add(SIMBA_OP_ACQUIRE, "a", "you", 2, 0);
    write_all();
    assert_string_equal(conn.log, " ready acquire:1");
    assert_int_equal(item->ask.reply.outcome, SIMBA_NOT_MINE);
    assert_string_equal(item->ask.reply.owner.id, "me");
    simba__sql_batch_clear(&batch);

    item = add(SIMBA_OP_RENEW, "a", "you", 2, 1);
    write_all();
    assert_string_equal(conn.log, " ready renew:1 begin lock:1 commit");
    assert_int_equal(item->ask.reply.outcome, SIMBA_NOT_MINE);
    simba__sql_batch_clear(&batch);

    item = add(SIMBA_OP_RELEASE, "a", "me", 1, 1);
    write_all();
    assert_string_equal(conn.log, " ready release:1");
    assert_int_equal(item->ask.reply.outcome, SIMBA_MINE);
    assert_int_equal(item->ask.reply.now_ms, server.now_ms);
    assert_int_equal(item->version, 2);
}

/* A renewal that waited for the row goes by the time at which it began. One that began later has overtaken it: its end stays,
 * since the holder counts on it. */
static void overtaken_renewal(void **state)
{
    (void)state;
    have_rows(2);
    acquire("a");
    acquire("b");
    write_all();
    simba__sql_batch_clear(&batch);
    const int64_t end = model_sql_row_of(&server, "a")->transition_at;
    server.now_ms -= 900;
    simba__sql_item *alone = add(SIMBA_OP_RENEW, "a", "me", 1, 1);
    write_all();
    assert_string_equal(conn.log, " ready renew:1 begin lock:1 put:1 commit");
    assert_mine(alone, 1);
    assert_int_equal(alone->ask.reply.owner.transition_at_ms, end);
    assert_int_equal(alone->ask.reply.owner.ttl_at_ms, end - TRANSITION_MS);
    assert_int_equal(model_sql_row_of(&server, "a")->transition_at, end);
    simba__sql_batch_clear(&batch);

    const simba__sql_item *first = add(SIMBA_OP_RENEW, "a", "me", 1, 1), *second = acquire("b");
    write_all();
    assert_mine(first, 1);
    assert_mine(second, 1);
    assert_int_equal(model_sql_row_of(&server, "a")->transition_at, end);
    assert_int_equal(model_sql_row_of(&server, "b")->transition_at, end);
}

/* The server's clock was set back by an hour: a renewal puts the end right. */
static void clock_set_back(void **state)
{
    (void)state;
    have_rows(1);
    acquire("a");
    write_all();
    simba__sql_batch_clear(&batch);
    server.now_ms += 10000000;
    model_sql_row_of(&server, "a")->transition_at = server.now_ms + 3600000;
    const simba__sql_item *item = add(SIMBA_OP_RENEW, "a", "me", 1, 1);
    write_all();
    assert_mine(item, 1);
    assert_int_equal(model_sql_row_of(&server, "a")->transition_at, server.now_ms + TTL_MS + TRANSITION_MS);
}

/* Requests about one mutex are carried out in the order in which they came. */
static void same_mutex_in_order(void **state)
{
    (void)state;
    have_rows(1);
    simba__sql_item *first = acquire("a"), *second = add(SIMBA_OP_ACQUIRE, "a", "you", 2, 0);
    write_all();
    assert_string_equal(conn.log, " ready begin lock:1 put:1 commit");
    assert_mine(first, 1);
    assert_int_equal(second->ask.reply.outcome, SIMBA_NOT_MINE);
}

/* No statement has more rows than the server takes. */
static void rows_of_a_statement(void **state)
{
    (void)state;
    server.table.rows_max = 3; /* powers of two are used */
    have_rows(3);
    acquire("a"), acquire("b"), acquire("c");
    write_all();
    assert_string_equal(conn.log, " ready begin lock:2 lock:1 put:2 put:1 commit");
}

/* What a column has no room for is refused, and the others go on. */
static void about_oversized(void **state)
{
    (void)state;
    have_rows(1);
    simba__sql_item *a = acquire("a"), *b = acquire("a-name-too-long"),
                    *c = add(SIMBA_OP_ACQUIRE, "c", "an id too long", 1, 0);
    write_all();
    assert_mine(a, 1);
    assert_failed(b, SIMBA_EINVAL);
    assert_failed(c, SIMBA_EINVAL);
    assert_int_equal(server.count, 1);
}

/* Nobody waits any more: nothing is sent. */
static void deadline_has_passed(void **state)
{
    (void)state;
    have_rows(1);
    simba__sql_item *a = acquire("a");
    now.ns += PATIENCE_MS * SIMBA__NS_PER_MS;
    write_all();
    assert_string_equal(conn.log, " ready");
    assert_failed(a, SIMBA_ETIMEDOUT);
}

/* --- locks and values --------------------------------------------------------------------------------------- */

/* A row that somebody else keeps locked does not delay its neighbours: they are written without it, and it is put off. */
static void locked_row_delays_nobody(void **state)
{
    (void)state;
    have_rows(3);
    model_sql_row_of(&server, "b")->locked_by = &somebody;
    simba__sql_item *a = acquire("a"), *b = acquire("b"), *c = acquire("c");
    write_all();
    assert_string_equal(conn.log, " ready begin lock:3 rollback begin free:3 put:2 commit get:1");
    assert_mine(a, 1);
    assert_mine(c, 1);
    assert_true(b->put_off);
    assert_int_equal(model_sql_row_of(&server, "b")->version, 0);
}

/* A row that was skipped because it is missing is made. */
static void missing_beside_locked(void **state)
{
    (void)state;
    have_rows(2);
    model_sql_row_of(&server, "b")->locked_by = &somebody;
    simba__sql_item *a = acquire("a"), *b = acquire("b"), *c = acquire("c");
    write_all();
    assert_mine(a, 1);
    assert_true(b->put_off);
    assert_mine(c, 1);
}

/* A server that is too old for it: one by one. */
static void locked_row_on_an_old_server(void **state)
{
    (void)state;
    have_rows(3);
    model_sql_row_of(&server, "b")->locked_by = &somebody;
    conn.fault = (model_sql_fault){.action = SIMBA__SQL_LOCK_FREE, .times = 1, .remedy = SIMBA__SQL_TELL};
    simba__sql_item *a = acquire("a"), *b = acquire("b"), *c = acquire("c");
    write_all();
    assert_string_equal(conn.log, " ready begin lock:3 rollback begin free:3 rollback acquire:1 acquire:1 acquire:1");
    assert_mine(a, 1);
    assert_true(b->put_off);
    assert_mine(c, 1);
}

/* The batch of which one row does not fit is rolled back as a whole; then each goes by itself, and only that one fails. */
static void value_that_does_not_fit(void **state)
{
    (void)state;
    have_rows(3);
    model_sql_row_of(&server, "b")->does_not_fit = true;
    simba__sql_item *a = acquire("a"), *b = add(SIMBA_OP_FORCE_RELEASE, "b", "", 0, 0), *c = acquire("c");
    strcpy(model_sql_row_of(&server, "b")->owner_id, "you");
    model_sql_row_of(&server, "b")->transition_at = INT64_C(1) << 40;
    write_all();
    assert_string_equal(conn.log, " ready begin lock:3 put:3 rollback acquire:1 begin lock:1 put:1 rollback acquire:1");
    assert_mine(a, 1); /* not 2: it was granted once */
    assert_failed(b, SIMBA_ESTORE);
    assert_mine(c, 1);
    assert_string_equal(model_sql_row_of(&server, "b")->owner_id, "you");
}

/* After a deadlock: the same once more, after a pause; and after five of them each by itself. */
static void about_deadlock(void **state)
{
    (void)state;
    have_rows(2);
    conn.fault = (model_sql_fault){.action = SIMBA__SQL_LOCK, .times = 1, .remedy = SIMBA__SQL_RETRY};
    simba__sql_item *a = acquire("a"), *b = acquire("b");
    write_all();
    assert_string_equal(conn.log, " ready begin lock:2 rollback pause begin lock:2 put:2 commit");
    assert_mine(a, 1);
    assert_mine(b, 1);
    simba__sql_batch_clear(&batch);

    conn.fault = (model_sql_fault){.action = SIMBA__SQL_LOCK, .times = 6, .remedy = SIMBA__SQL_RETRY};
    add(SIMBA_OP_RENEW, "a", "me", 1, 1), add(SIMBA_OP_RENEW, "b", "me", 1, 1);
    write_all();
    assert_int_equal(conn.fault.times, 0);
    assert_string_equal(strstr(conn.log, " renew"), " renew:1 renew:1");
}

/* --- lost connections --------------------------------------------------------------------------------------- */

static void lose(simba__sql_action action, bool is_carried_out)
{
    conn.fault =
        (model_sql_fault){.action = action, .times = 1, .remedy = SIMBA__SQL_LOST, .is_carried_out = is_carried_out};
}

/* Before the commit: nothing has happened. What was lost with an idle connection is for another job. */
static void dropped_before_the_commit(void **state)
{
    (void)state;
    have_rows(2);
    lose(SIMBA__SQL_COMMIT, false);
    simba__sql_item *a = acquire("a"), *b = acquire("b");
    write_all();
    assert_string_equal(conn.log, " ready begin lock:2 put:2 commit close");
    assert_true(a->put_off && b->put_off);
    assert_untouched("a");
    assert_untouched("b");
    assert_int_equal(batch.link, SIMBA__SQL_DOWN);
}

/* After the commit: it has happened, and nobody knows. The other job finds the grants by their nonce, with the same token. */
static void dropped_after_the_commit(void **state)
{
    (void)state;
    have_rows(2);
    lose(SIMBA__SQL_COMMIT, true);
    simba__sql_item *a = acquire("a"), *b = acquire("b");
    write_all();
    assert_true(a->put_off && b->put_off);
    assert_int_equal(model_sql_row_of(&server, "a")->version, 1);
    simba__sql_batch_clear(&batch);

    a = acquire("a"), b = acquire("b");
    write_all();
    assert_mine(a, 1);
    assert_mine(b, 1);
}

/* Where a grant whose answer was lost is not known again, it is not asked for again either. */
static void dropped_without_nonces(void **state)
{
    (void)state;
    server.table.has_nonce = false;
    have_rows(1);
    lose(SIMBA__SQL_ACQUIRE, true);
    simba__sql_item *a = acquire("a");
    write_all();
    assert_failed(a, SIMBA_EUNAVAILABLE);
}

/* A connection that was made a moment ago was not idle: the server has a problem, and that is told. */
static void fresh_connection_dropped(void **state)
{
    (void)state;
    lose(SIMBA__SQL_BEGIN, false);
    simba__sql_item *a = acquire("a"), *b = acquire("b");
    write_all();
    assert_string_equal(conn.log, " ready begin close");
    assert_failed(a, SIMBA_EUNAVAILABLE);
    assert_failed(b, SIMBA_EUNAVAILABLE);
}

/* Three mutexes that somebody here holds, on a server that can skip locked rows. */
static void hold_three(void)
{
    server.table.skips_locked = true;
    have_rows(3);
    acquire("a");
    acquire("b");
    acquire("c");
    write_all();
    simba__sql_batch_clear(&batch);
}

static simba__sql_item *renew(const char *mutex)
{
    return add(SIMBA_OP_RENEW, mutex, "me", 1, 1);
}

/* Renewals do not wait for a locked row: they go around it from the beginning. */
static void renewals_skip_a_locked_row(void **state)
{
    (void)state;
    hold_three();
    model_sql_row_of(&server, "b")->locked_by = &somebody;
    simba__sql_item *a = renew("a"), *b = renew("b"), *c = renew("c");
    write_all();
    assert_string_equal(conn.log, " ready begin free:3 put:2 commit get:1");
    assert_mine(a, 1);
    assert_mine(c, 1);
    assert_true(b->put_off && b->is_locked);
}

/* An acquire among them has to tell a row that is missing from one that is locked: that one waits, as before. */
static void acquires_do_not_skip_at_first(void **state)
{
    (void)state;
    hold_three();
    simba__sql_item *a = renew("a"), *b = acquire("b");
    write_all();
    assert_string_equal(conn.log, " ready begin lock:2 put:2 commit");
    assert_mine(a, 1);
    assert_mine(b, 1);
}

/* The connection is lost while they skip: those that were skipped share the fate of the others. */
static void lost_while_skipping(void **state)
{
    (void)state;
    hold_three();
    model_sql_row_of(&server, "c")->locked_by = &somebody;
    lose(SIMBA__SQL_COMMIT, true);
    simba__sql_item *a = renew("a"), *b = renew("b"), *c = renew("c");
    write_all();
    assert_string_equal(conn.log, " ready begin free:3 put:2 commit close");
    assert_true(a->put_off && b->put_off && c->put_off);
    simba__sql_batch_clear(&batch);
    a = renew("a");
    c = renew("c");
    /* On a connection that this batch has made it does not help to make another one: they fail. */
    lose(SIMBA__SQL_COMMIT, true);
    write_all();
    assert_failed(a, SIMBA_EUNAVAILABLE);
    assert_failed(c, SIMBA_EUNAVAILABLE);
}

/* The rollback fails: the connection is closed, and what the batch was told first is told. */
static void rollback_fails(void **state)
{
    (void)state;
    have_rows(3);
    model_sql_row_of(&server, "b")->does_not_fit = true;
    lose(SIMBA__SQL_ROLLBACK, false);
    simba__sql_item *a = acquire("a"), *b = acquire("b");
    write_all();
    assert_string_equal(conn.log, " ready begin lock:2 put:2 rollback close");
    assert_failed(a, SIMBA_ESTORE);
    assert_failed(b, SIMBA_ESTORE);
    assert_untouched("a");
}

/* The first of several that go one by one loses the connection: no other one is tried, they are for another job. */
static void dropped_between_singles(void **state)
{
    (void)state;
    have_rows(3);
    model_sql_row_of(&server, "b")->does_not_fit = true;
    lose(SIMBA__SQL_ACQUIRE, true);
    simba__sql_item *a = acquire("a"), *b = acquire("b"), *c = acquire("c");
    write_all();
    assert_string_equal(conn.log, " ready begin lock:3 put:3 rollback acquire:1 close");
    assert_true(a->put_off && b->put_off && c->put_off);
    assert_int_equal(model_sql_row_of(&server, "a")->version, 1);
}

/* A statement that was too large: connect again, with half as many rows. */
static void too_large(void **state)
{
    (void)state;
    have_rows(3);
    conn.fault = (model_sql_fault){.action = SIMBA__SQL_PUT, .times = 1, .remedy = SIMBA__SQL_SHRINK};
    simba__sql_item *a = acquire("a");
    acquire("b");
    const size_t before = batch.rows_max;
    write_all();
    assert_true(a->put_off);
    assert_int_equal(batch.rows_max, before / 2);
}

/* --- a promoted replica that is behind ------------------------------------------------------------------------ */

/* The row shows an older version than this client has seen: a new token is above what was seen, alone and in a batch. */
static void token_above_the_floor(void **state)
{
    (void)state;
    have_rows(2);
    model_sql_row_of(&server, "a")->version = 3;
    model_sql_row_of(&server, "b")->version = 3;
    acquire("a")->floor = 9;
    write_all();
    assert_mine(&batch.items[0], 10);
    simba__sql_batch_clear(&batch);
    acquire("a"), acquire("b")->floor = 9;
    write_all();
    assert_mine(&batch.items[1], 10);
}

/* The row is free, and one of ours still holds the mutex by our own clock: nobody else of this client gets it. */
static void held_here_is_kept_back(void **state)
{
    (void)state;
    have_rows(1);
    simba__sql_item *a = acquire("a");
    a->held_here = true;
    write_all();
    assert_string_equal(conn.log, " ready begin lock:1 commit");
    assert_true(a->kept_back);
    assert_int_equal(a->ask.reply.outcome, SIMBA_NOT_MINE);
    assert_untouched("a");
}

/* --- reading --------------------------------------------------------------------------------------------------- */

/* All rows by one statement, then each thing about the table by itself; what PREPARE changed is looked at anew. */
static void about_reads(void **state)
{
    (void)state;
    have_rows(2);
    strcpy(model_sql_row_of(&server, "b")->owner_id, "you");
    model_sql_row_of(&server, "b")->transition_at = server.now_ms;
    simba__sql_item *b = add(SIMBA_OP_READ, "b", "", 0, 0);
    simba__sql_item *list = add(SIMBA_OP_LIST, NULL, NULL, 0, 0);
    add(SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    simba__sql_item *examine = add(SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    run(simba__sql_reads_next);
    assert_string_equal(conn.log, " bare ready get:1 ready list prepare close");
    assert_string_equal(b->ask.reply.owner.id, "you");
    assert_string_equal(list->found->text, "a");
    assert_string_equal(list->found->next->text, "b");
    assert_string_equal(list->found->next->owner.id, "you");
    assert_true(examine->put_off);
}

/* Without a table rows cannot be read; what is there can be examined, by another job. */
static void reads_without_a_table(void **state)
{
    (void)state;
    server.is_missing = true;
    simba__sql_item *a = add(SIMBA_OP_READ, "a", "", 0, 0);
    simba__sql_item *examine = add(SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    run(simba__sql_reads_next);
    assert_string_equal(conn.log, " bare ready");
    assert_failed(a, SIMBA_ESTORE);
    assert_true(examine->put_off);
    simba__sql_batch_clear(&batch);
    examine = add(SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    run(simba__sql_reads_next);
    assert_string_equal(conn.log, " bare examine");
    assert_null(examine->error);
}

static void read_on_a_lost_connection(void **state)
{
    (void)state;
    have_rows(1);
    lose(SIMBA__SQL_GET, false);
    simba__sql_item *a = add(SIMBA_OP_READ, "a", "", 0, 0);
    run(simba__sql_reads_next);
    assert_string_equal(conn.log, " bare ready get:1 close");
    assert_true(a->put_off);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(batch_is_one_transaction),
        TEST(lone_request),
        TEST(overtaken_renewal),
        TEST(clock_set_back),
        TEST(same_mutex_in_order),
        TEST(rows_of_a_statement),
        TEST(about_oversized),
        TEST(deadline_has_passed),
        TEST(locked_row_delays_nobody),
        TEST(missing_beside_locked),
        TEST(locked_row_on_an_old_server),
        TEST(renewals_skip_a_locked_row),
        TEST(acquires_do_not_skip_at_first),
        TEST(lost_while_skipping),
        TEST(value_that_does_not_fit),
        TEST(about_deadlock),
        TEST(dropped_before_the_commit),
        TEST(dropped_after_the_commit),
        TEST(dropped_without_nonces),
        TEST(fresh_connection_dropped),
        TEST(rollback_fails),
        TEST(dropped_between_singles),
        TEST(too_large),
        TEST(token_above_the_floor),
        TEST(held_here_is_kept_back),
        TEST(about_reads),
        TEST(reads_without_a_table),
        TEST(read_on_a_lost_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
