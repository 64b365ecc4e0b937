/* The PostgreSQL store, driven at its contract: what its operations do and leave in the table, how many statements that takes,
 * who is told what, and what it needs. */
#include "backends/test_postgresql.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/reply.h"
#include "core/row.h"
#include "util/clock.h"
#include "util/random.h"

/* --- operations ------------------------------------------------------------------------------------------------ */

/* A row that cannot be ours is left out of the list and named in the log. */
static void list_beside_bad_row(void **state)
{
    open_store(&a);
    acquire(&a, "orders", "me", 1);
    say("insert into simba_mutex values ('odd', 1, 2, 3, 'me', -4)");
    ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(a.listed_count, 1);
    assert_in(a.log, "odd: version is out of range");
    testhost_close(&a);
}

/* Somebody else has made the note longer than a note can be: that is an error for its mutex alone. */
static void note_too_long(void **state)
{
    open_store(&a);
    acquire(&a, "orders", "me", 1);
    say("update simba_mutex set note = convert_to(repeat('x', 1025), 'utf8'), note_token = 1, note_number = 1");
    assert_note_too_long();
    testhost_close(&a);
}

/* --- the store decides as core/row.c does ----------------------------------------------------------------------- */

enum { MUTEXES = 3, PEOPLE = 4, STEPS = 600 };

/* Each has a store of its own: one that two share remembers what it granted, whatever the row says. */
static testhost people[PEOPLE];

/* One request to the store and to a row of the test's own; the answers are held against each other. */
static void compare(uint64_t *seed, simba__row *row, const char *mutex, uint64_t *token)
{
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE,       SIMBA_OP_ACQUIRE,    SIMBA_OP_RENEW,
                                   SIMBA_OP_RENEW,         SIMBA_OP_RELEASE,    SIMBA_OP_READ,
                                   SIMBA_OP_FORCE_RELEASE, SIMBA_OP_WRITE_NOTE, SIMBA_OP_FORGET};
    static const char *const names[PEOPLE] = {"x", "y", "xy", "x"}; /* two share an id */
    const size_t who = simba__random_next(seed) % PEOPLE;
    const simba_op op = ops[simba__random_next(seed) % (sizeof ops / sizeof *ops)];
    const bool knows =
        op == SIMBA_OP_RENEW || op == SIMBA_OP_WRITE_NOTE || (op == SIMBA_OP_RELEASE && simba__random_next(seed) % 2);
    testhost_request r =
        testhost_request_of(&people[who], op, mutex, names[who], who + 1, knows ? *token ? *token : 1 : 0);
    r.request.queue = simba__random_next(seed) % 2;
    const bool is_overtaken = row->note_number > 1 && simba__random_next(seed) % 3 == 0;
    r.request.note_number = is_overtaken ? row->note_number - 1 : row->note_number + 1;
    simba_request model = r.request;
    testhost_ask(&people[who], &r);
    assert_int_equal(r.request.reply.status, 0);
    const uint64_t before = row->token;
    const int64_t now_ms = r.request.reply.now_ms;
    row->counts_tokens = true;
    simba__row_apply(row, (simba__row_now){now_ms * SIMBA__NS_PER_MS, now_ms * 1000}, &model);
    /* In the table of an SQL store the end of a grant looks like a revocation to whoever renews it nevertheless. */
    const bool is_ended = (op == SIMBA_OP_RENEW || op == SIMBA_OP_WRITE_NOTE) && row->owner.id[0] == '\0' &&
                          r.request.reply.outcome == SIMBA_REVOKED;
    if (!is_ended)
        assert_int_equal(r.request.reply.outcome, model.reply.outcome);
    assert_string_equal(r.request.reply.owner.id, model.reply.owner.id);
    assert_int_equal(simba__reply_check(&r.request, false, NULL), 0);
    if (op == SIMBA_OP_FORGET && model.reply.outcome == SIMBA_MINE)
        *row = (simba__row){.token = row->token};
    if (row->token != before) { /* a new grant, whose number counts the ends of grants as well */
        assert_true(r.request.reply.owner.token > before);
        *token = row->token = row->owner.token = r.request.reply.owner.token;
    }
    if (op == SIMBA_OP_ACQUIRE && r.request.reply.outcome == SIMBA_MINE)
        assert_int_equal(r.request.reply.owner.token, row->owner.token);
    /* Now and then a lease ends. */
    if (simba__random_next(seed) % 12 == 0 && row->owner.id[0]) {
        say("update simba_mutex set transition_at = 1 where mutex = '%s'", mutex);
        row->until_ns = 0;
    }
}

static void decides_like_core(void **state)
{
    static const char *const mutexes[MUTEXES] = {"a", "b", "ab"};
    simba__row rows[MUTEXES] = {0};
    uint64_t tokens[MUTEXES] = {0};
    uint64_t seed = 4711;
    for (int i = 0; i < PEOPLE; i++)
        open_store(&people[i]);
    for (int i = 0; i < STEPS; i++) {
        const size_t mutex = simba__random_next(&seed) % MUTEXES;
        compare(&seed, &rows[mutex], mutexes[mutex], &tokens[mutex]);
    }
    for (int i = 0; i < PEOPLE; i++)
        testhost_close(&people[i]);
}

/* --- statements --------------------------------------------------------------------------------------------------- */

/* A row that somebody else has locked delays nobody else's, and is answered when it is free. */
static void locked_row(void **state)
{
    open_store(&a);
    const uint64_t slow_token = acquire(&a, "slow", "me", 1).owner.token;
    const uint64_t fast_token = acquire(&a, "fast", "me", 2).owner.token;
    say("begin");
    say("select from simba_mutex where mutex = 'slow' for update");
    testhost_request slow = testhost_request_of(&a, SIMBA_OP_RENEW, "slow", "me", 1, slow_token);
    testhost_request fast = testhost_request_of(&a, SIMBA_OP_RENEW, "fast", "me", 2, fast_token);
    testhost_submit(&a, &slow);
    testhost_submit(&a, &fast);
    testhost_flush(&a);
    assert_true(testhost_pump(&a, &fast.done, 1000));
    assert_mine(fast.request.reply);
    assert_false(testhost_pump(&a, &slow.done, 150));
    const unsigned before = decisions();
    assert_false(testhost_pump(&a, &slow.done, 300));
    assert_in_range(decisions() - before, 1, 100); /* it is asked again, but not all the time */
    say("commit");
    assert_true(testhost_pump(&a, &slow.done, 1000));
    assert_mine(slow.request.reply);
    testhost_close(&a);
}

/* --- push --------------------------------------------------------------------------------------------------------- */

/* Since it hears, it has looked at all rows once. */
static bool has_looked(const testhost *h)
{
    const simba__sql_polling *polling = &((const simba__sql_store *)h->store)->polling;
    return polling->levels[SIMBA__SQL_LEVEL_BACKUP].count == polling->mutexes.count;
}

/* Until its notifications have been tested. */
static void await_hearing(testhost *h, simba__sql_hearing hearing)
{
    const bool looks = hearing == SIMBA__SQL_HEARS;
    for (int i = 0; i < 500 && (hearing_of(h) != hearing || (looks && !has_looked(h))); i++)
        testhost_pump(h, NULL, 10);
    assert_int_equal(hearing_of(h), hearing);
    assert_true(!looks || has_looked(h));
    h->push_count = 0;
}

static bool await_push(testhost *h, simba_push_kind kind, int64_t ms)
{
    for (int64_t i = 0; i < ms; i += 5) {
        for (size_t k = 0; k < h->push_count; k++)
            if (h->pushes[k].push.kind == kind)
                return true;
        testhost_pump(h, NULL, 5);
    }
    return false;
}

/* A release reaches who waits by a notification, long before a poll would; and while the owner stays, the waiter does
 * nothing. */
static void release_is_pushed(void **state)
{
    simba_watch watched = {.mutex = "orders"};
    open_store(&a);
    open_store(&b);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    assert_int_equal(wait_in_line(&b, "orders", "you", 2).place, 1);
    assert_int_equal(testhost_watch(&b, &watched), 0);
    await_hearing(&b, SIMBA__SQL_HEARS);
    const unsigned before = logged("LOG:  ");
    testhost_pump(&b, NULL, 1200);
    assert_int_equal(logged("LOG:  ") - before, 0);
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token);
    assert_true(await_push(&b, SIMBA_PUSH_RELEASED, 500));
    testhost_unwatch(&b, &watched);
    testhost_close(&a);
    testhost_close(&b);
}

/* The first in the queue is told first. If it does not come, the second finds out by itself. */
static void first_in_line(void **state)
{
    simba_watch first = {.mutex = "orders"}, second = {.mutex = "orders"};
    open_store(&a);
    open_store(&b);
    open_store(&c);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    assert_int_equal(wait_in_line(&b, "orders", "you", 2).place, 1);
    say("update simba_mutex_waiters set since = since - 1000");
    assert_int_equal(wait_in_line(&c, "orders", "they", 3).place, 2);
    assert_int_equal(testhost_watch(&b, &first), 0);
    assert_int_equal(testhost_watch(&c, &second), 0);
    await_hearing(&b, SIMBA__SQL_HEARS);
    await_hearing(&c, SIMBA__SQL_HEARS);
    const int64_t released_ns = simba__clock_mono_ns();
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token);
    assert_true(await_push(&b, SIMBA_PUSH_RELEASED, 500));
    /* The second one looks after 40 ms, which a busy machine may have taken already. */
    assert_true(!await_push(&c, SIMBA_PUSH_RELEASED, 20) ||
                simba__clock_mono_ns() - released_ns >= 40 * SIMBA__NS_PER_MS);
    assert_true(await_push(&c, SIMBA_PUSH_RELEASED, 1000)); /* b did nothing */
    /* The one that was told and did not come is behind the other, the next time. */
    assert_mine(acquire(&a, "orders", "me", 4));
    b.push_count = c.push_count = 0;
    testhost_pump(&b, NULL, 100);
    testhost_pump(&c, NULL, 100);
    b.push_count = c.push_count = 0;
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 4, 0);
    assert_true(await_push(&c, SIMBA_PUSH_RELEASED, 500));
    testhost_unwatch(&b, &first);
    testhost_unwatch(&c, &second);
    testhost_close(&a);
    testhost_close(&b);
    testhost_close(&c);
}

/* Who was told and leaves without taking it passes it on. */
static void departed_waiter(void **state)
{
    simba_watch watched = {.mutex = "orders"};
    open_store(&a);
    open_store(&b);
    open_store(&c);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    wait_in_line(&b, "orders", "you", 2);
    say("update simba_mutex_waiters set since = since - 1000");
    wait_in_line(&c, "orders", "they", 3);
    assert_int_equal(testhost_watch(&c, &watched), 0);
    await_hearing(&c, SIMBA__SQL_HEARS);
    c.still_at = simba__clock_boot(); /* it never looks by itself */
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token);
    ask(&b, SIMBA_OP_RELEASE, "orders", "you", 2, 0);
    assert_true(await_push(&c, SIMBA_PUSH_RELEASED, 5000));
    c.still_at = (simba_local){0};
    testhost_unwatch(&c, &watched);
    testhost_close(&a);
    testhost_close(&b);
    testhost_close(&c);
}

/* The client's end of a connection. */
static int port_of(const simba__sql_connection *session)
{
    struct sockaddr_in address = {0};
    socklen_t size = sizeof address;
    const simba__pg_conn *conn = session->conn;
    assert_int_equal(getsockname(PQsocket(conn->pg), (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

/* From now on the server is read-only, for new connections and for transactions that begin, or not any more. */
static void set_read_only(const char *value)
{
    say("alter system set default_transaction_read_only = %s", value);
    say("select pg_reload_conf()");
    for (int i = 0; i < 500 && strcmp(say("show default_transaction_read_only"), value) != 0; i++)
        usleep(10000);
    assert_string_equal(say("show default_transaction_read_only"), value);
}

/* After a fail-over the connections are with another server, and the one that listens may still be with the old one, which has
 * become read-only. A connection that is made anew finds out. */
static void listener_at_the_wrong_server(void **state)
{
    simba_watch watched = {.mutex = "orders"};
    server other;
    char url[160];
    server_init(&other);
    assert_true(server_start_postgresql(&other, NULL));
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d,127.0.0.1:%d/simba?sslmode=disable&create=yes",
             postgresql.port, other.port);
    open_store(&a);
    open_at(&b, url);
    acquire(&a, "orders", "me", 1);
    wait_in_line(&b, "orders", "you", 2);
    assert_int_equal(testhost_watch(&b, &watched), 0);
    await_hearing(&b, SIMBA__SQL_HEARS);
    set_read_only("on");
    say("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'simba' and client_port <> %d",
        port_of(&((const simba__sql_store *)b.store)->reader));
    assert_mine(acquire(&b, "invoices", "you", 3)); /* at the other server */
    const char *listens = "do 'begin if not exists (select from pg_stat_activity where query like ''listen%'' or query "
                          "like ''select mutex, a%'') then raise "
                          "''not here''; end if; end'";
    for (int i = 0; i < 100 && !server_tell_postgresql(&other, listens); i++)
        testhost_pump(&b, NULL, 50);
    await_hearing(&b, SIMBA__SQL_HEARS);
    assert_true(server_tell_postgresql(&other, listens));
    assert_int_equal(b.warnings, 0);
    testhost_unwatch(&b, &watched);
    testhost_close(&a);
    testhost_close(&b);
    server_fini(&other);
    set_read_only("off");
}

/* --- what it needs ------------------------------------------------------------------------------------------------- */

/* Without the tables the error says what to do; PREPARE makes them, also when two come at once, and leaves alone what there
 * is; a schema of one's own is made, too. */
static void about_prepare(void **state)
{
    char url[200];
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d/simba?sslmode=disable&schema=locks&table=mine",
             postgresql.port);
    say("drop schema if exists locks cascade");
    open_at(&a, url);
    open_at(&b, url);
    const simba_error missing = refused(&a, SIMBA_OP_ACQUIRE, "orders", "me");
    assert_int_equal(missing.code, SIMBA_ESTORE);
    assert_in(missing.text, "simba init");
    testhost_request both[2] = {testhost_request_of(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0),
                                testhost_request_of(&b, SIMBA_OP_PREPARE, NULL, NULL, 0, 0)};
    testhost_pump(&a, NULL, 30); /* the pause after the failure */
    testhost_submit(&a, &both[0]);
    testhost_flush(&a);
    testhost_ask(&b, &both[1]);
    assert_true(testhost_pump(&a, &both[0].done, 5000));
    for (int i = 0; i < 2; i++)
        if (both[i].request.reply.status < 0)
            fail_msg("%s", both[i].error.text);
    assert_mine(acquire(&a, "orders", "me", 1));
    ask(&b, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    assert_string_equal(say("select owner_id from locks.mine"), "me");
    testhost_close(&a);
    testhost_close(&b);
}

/* A table that is not ours is left alone. */
static void foreign_table(void **state)
{
    say("create table simba_mutex (mutex text)");
    open_store(&a);
    const simba_error err = refused(&a, SIMBA_OP_ACQUIRE, "orders", "me");
    assert_int_equal(err.code, SIMBA_ECORRUPT);
    assert_in(err.text, "table=NAME");
    testhost_close(&a);
}

#define RIGHTS                                                                                                         \
    "grant select, insert, update on simba_mutex to simple; "                                                          \
    "grant select, insert, update, delete on simba_mutex_waiters to simple"

/* A role that has what docs/postgresql.md lists, and nothing else, can do everything but `simba init`; without one of the
 * rights doctor says which. */
static void least_privileges(void **state)
{
    char url[160];
    simba_watch watched = {.mutex = "orders"};
    snprintf(url, sizeof url, "postgresql://simple@127.0.0.1:%d/simba?sslmode=disable", postgresql.port);
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    say("do $$ begin if not exists (select from pg_roles where rolname = 'simple') then create role simple login; "
        "end if; end $$");
    open_at(&b, url);
    const simba_error err = refused(&b, SIMBA_OP_ACQUIRE, "orders", "you");
    assert_int_equal(err.code, SIMBA_EPERM);
    say(RIGHTS);
    wait_in_line(&b, "orders", "you", 2);
    assert_int_equal(testhost_watch(&b, &watched), 0);
    await_hearing(&b, SIMBA__SQL_HEARS);
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token);
    assert_true(await_push(&b, SIMBA_PUSH_RELEASED, 500));
    const simba_reply mine = acquire(&b, "orders", "you", 2);
    assert_mine(mine);
    assert_mine(ask(&b, SIMBA_OP_RENEW, "orders", "you", 2, mine.owner.token));
    assert_mine(ask(&b, SIMBA_OP_FORCE_RELEASE, "orders", "", 0, 0));
    ask(&b, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(b.listed_count, 1);
    testhost_unwatch(&b, &watched);
    say("revoke update on simba_mutex from simple");
    ask(&b, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    bool is_found = false;
    for (size_t i = 0; i < b.found_count; i++)
        is_found |= b.found[i].verdict == SIMBA_VERDICT_BROKEN && strstr(b.found[i].text, "update on simba_mutex.");
    assert_true(is_found);
    testhost_close(&a);
    testhost_close(&b);
    say("drop owned by simple");
}

static simba_verdict verdict_about(const testhost *h, const char *what)
{
    for (size_t i = 0; i < h->found_count; i++)
        if (strcmp(h->found[i].what, what) == 0)
            return h->found[i].verdict;
    fail_msg("nothing is said about %s", what);
    return SIMBA_VERDICT_OK;
}

/* What doctor says: TLS that is not verified, a disk that is not waited for, a server that cannot be written to. */
static void about_examine(void **state)
{
    char url[200];
    open_store(&a);
    ask(&a, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    assert_int_equal(verdict_about(&a, "schema"), SIMBA_VERDICT_OK);
    assert_int_equal(verdict_about(&a, "tls"), SIMBA_VERDICT_WARNING);
    assert_int_equal(verdict_about(&a, "durability"), SIMBA_VERDICT_WARNING); /* the tests' server has no fsync */
    assert_int_equal(verdict_about(&a, "standbys"), SIMBA_VERDICT_OK);
    assert_int_equal(verdict_about(&a, "rights"), SIMBA_VERDICT_OK);
    assert_int_equal(verdict_about(&a, "writing"), SIMBA_VERDICT_OK);
    testhost_close(&a);
    say("alter database simba set default_transaction_read_only = on");
    snprintf(url, sizeof url, "%s&target_session_attrs=any", postgresql_url);
    open_at(&b, url);
    ask(&b, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    assert_int_equal(verdict_about(&b, "writing"), SIMBA_VERDICT_BROKEN);
    const simba_error err = refused(&b, SIMBA_OP_ACQUIRE, "orders", "me");
    assert_int_equal(err.code, SIMBA_EUNAVAILABLE); /* 25006 */
    open_store(&a);
    assert_int_equal(refused(&a, SIMBA_OP_ACQUIRE, "orders", "me").code, SIMBA_EUNAVAILABLE); /* no such host */
    testhost_close(&a);
    testhost_close(&b);
    say("set default_transaction_read_only = off");
    say("alter database simba reset default_transaction_read_only");
}

/* The server may be set to tell of a commit before it is on the disk: the store asks for more, and only where it matters. */
static void synchronous_commit(void **state)
{
    const char *const by_default = "'remote_apply' then 'remote_apply' else 'on' end, true)";
    open_store(&a);
    unsigned before = logged(by_default);
    acquire(&a, "orders", "me", 1);
    assert_true(logged(by_default) > before);
    before = logged("set local synchronous_commit = off; insert into \"simba_mutex_waiters\"");
    wait_in_line(&a, "orders", "you", 2);
    assert_int_equal(logged("set local synchronous_commit = off; insert into \"simba_mutex_waiters\""), before + 1);
    before = logged("set local synchronous_commit = off");
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, 0);
    assert_int_equal(logged("set local synchronous_commit = off"), before);
    testhost_close(&a);
}

/* Each column has to be there, and `simba init` adds the one that is not. */
static void missing_column(void **state)
{
    static const char *const columns[] = {"note", "note_token", "note_number", "note_written_at", "forgotten_version"};
    char url[160];
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d/simba?sslmode=disable", postgresql.port);
    open_store(&a);
    acquire(&a, "orders", "me", 1);
    for (size_t i = 0; i <= sizeof columns / sizeof *columns; i++) {
        const bool is_column = i < sizeof columns / sizeof *columns;
        if (is_column)
            say("alter table simba_mutex drop column %s", columns[i]);
        else
            say("drop table simba_mutex_waiters");
        open_at(&b, url);
        const simba_error err = refused(&b, SIMBA_OP_ACQUIRE, "orders", "you");
        assert_int_equal(err.code, SIMBA_ESTORE);
        assert_in(err.text, is_column ? columns[i] : "simba_mutex_waiters");
        assert_in(err.text, "simba init");
        ask(&b, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
        assert_owned_by(acquire(&b, "orders", "you", 2), "me");
        testhost_close(&b);
    }
    testhost_close(&a);
}

/* --- connections ---------------------------------------------------------------------------------------------------- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(list_beside_bad_row, setup), cmocka_unit_test_setup(note_too_long, setup),
        cmocka_unit_test_setup(decides_like_core, setup),   cmocka_unit_test_setup(locked_row, setup),
        cmocka_unit_test_setup(release_is_pushed, setup),   cmocka_unit_test_setup(first_in_line, setup),
        cmocka_unit_test_setup(departed_waiter, setup),     cmocka_unit_test_setup(listener_at_the_wrong_server, setup),
        cmocka_unit_test_setup(about_prepare, setup),       cmocka_unit_test_setup(foreign_table, setup),
        cmocka_unit_test_setup(least_privileges, setup),    cmocka_unit_test_setup(about_examine, setup),
        cmocka_unit_test_setup(synchronous_commit, setup),  cmocka_unit_test_setup(missing_column, setup),
    };
    return RUN_POSTGRESQL_TESTS(tests);
}
