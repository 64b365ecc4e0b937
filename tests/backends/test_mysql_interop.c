/* Simba on the JVM and we contend for the same mutex. The JVM side is played by its plain statements, on the table that it
 * makes; nothing of ours is in them. */
#include "backends/test_mysql.h"

#define JVM_NOW "cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)"

static int jvm_setup(void **state)
{
    setup(state);
    say(JVM_TABLE);
    return 0;
}

/* The two statements of one transaction: "OWNER" afterwards. */
static const char *jvm_acquire_on(MYSQL *mysql, const char *mutex, const char *id, int ttl, int transition)
{
    static _Thread_local char owner[256];
    char sql[1024];
    snprintf(sql, sizeof sql,
             "insert ignore into simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id, version) "
             "values ('%s', 0, 0, 0, '', 0)",
             mutex);
    say_on(mysql, sql);
    say_on(mysql, "start transaction");
    snprintf(sql, sizeof sql,
             "update simba_mutex set acquired_at = " JVM_NOW ", ttl_at = " JVM_NOW " + %d, transition_at = " JVM_NOW
             " + %d, owner_id = '%s', version = version + 1 where mutex = '%s' and (transition_at < " JVM_NOW
             " or (owner_id = '%s' and transition_at > " JVM_NOW "))",
             ttl, ttl + transition, id, mutex, id);
    say_on(mysql, sql);
    snprintf(sql, sizeof sql, "select owner_id from simba_mutex where mutex = '%s'", mutex);
    snprintf(owner, sizeof owner, "%s", say_on(mysql, sql));
    say_on(mysql, "commit");
    return owner;
}

static const char *jvm_acquire(const char *mutex, const char *id, int ttl, int transition)
{
    return jvm_acquire_on(raw, mutex, id, ttl, transition);
}

static const char *jvm_release(const char *mutex, const char *id)
{
    return say("update simba_mutex set acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '', "
               "version = version + 1 where mutex = '%s' and owner_id = '%s'",
               mutex, id);
}

/* A JVM contender's grant is foreign to us, also under an id of ours, with our columns in the table and without; and it
 * ends when its lease does, not before. */
static void jvm_holds(const char *url)
{
    open_at(&a, url);
    const simba_reply before = acquire(&a, "orders", "me", 1);
    assert_mine(before);
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, before.owner.token);
    assert_string_equal(jvm_acquire("orders", "me", 10000, 6000), "me");
    const simba_reply seen = acquire(&a, "orders", "me", 1);
    assert_owned_by(seen, "me");
    assert_in_range(seen.owner.transition_at_ms - seen.now_ms, 15000, 16000);
    assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, before.owner.token), "me");
    assert_owned_by(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, before.owner.token), "me");
    assert_owned_by(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, 0), "me");
    assert_owned_by(acquire(&a, "orders", "you", 2), "me");
    assert_string_equal(jvm_acquire("orders", "me", 10000, 6000), "me"); /* it renews */
    expire("orders");
    const simba_reply won = acquire(&a, "orders", "you", 2);
    assert_mine(won);
    assert_true(won.owner.token > before.owner.token);
    testhost_close(&a);
}

static void about_jvm_holds(void **state)
{
    jvm_holds(mysql_url); /* adds the columns */
    assert_string_equal(say("select count(nonce) from simba_mutex"), "1");
}

/* What we hold no JVM contender gets, until we release or the lease has ended; and it sees whose it is. */
static void we_hold(void **state)
{
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    assert_string_equal(jvm_acquire("orders", "jvm", 10000, 6000), "me");
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    assert_string_equal(jvm_acquire("orders", "jvm", 10000, 6000), "me");
    assert_string_equal(jvm_release("orders", "jvm"), "0");
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token));
    assert_string_equal(say("select acquired_at, ttl_at, transition_at, owner_id from simba_mutex"), "0 0 0 ");
    assert_string_equal(jvm_acquire("orders", "jvm", 10000, 6000), "jvm");
    assert_owned_by(acquire(&a, "orders", "me", 1), "jvm");
    testhost_close(&a);
}

/* A JVM contender releases: a waiter of ours is told. It renews: nobody is asked to try. */
static void jvm_releases_to_us(void **state)
{
    open_store(&a);
    jvm_acquire("orders", "jvm", 10000, 6000);
    simba_watch watched = {.mutex = "orders"};
    watch(&a, &watched);
    await_tick(); /* so that the renewal ends later */
    jvm_acquire("orders", "jvm", 10000, 6000);
    poll_once(&a);
    assert_int_equal(a.push_count, 1);
    assert_int_equal(a.pushes[0].push.kind, SIMBA_PUSH_ACQUIRED);
    assert_string_equal(jvm_release("orders", "jvm"), "1");
    poll_once(&a);
    assert_int_equal(a.push_count, 2);
    assert_int_equal(a.pushes[1].push.kind, SIMBA_PUSH_RELEASED);
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_unwatch(&a, &watched);
    testhost_close(&a);
}

/* On the JVM's own table, which has no place for our nonces, its renewals are no new grants either, and its grants have no
 * token. */
static void jvm_renews_on_its_table(void **state)
{
    open_store(&a);
    jvm_acquire("orders", "jvm", 10000, 6000);
    simba_watch watched = {.mutex = "orders"};
    watch(&a, &watched);
    assert_int_equal(a.pushes[0].push.owner.token, 0);
    for (size_t i = 0; i < 3; i++) {
        await_tick();
        jvm_acquire("orders", "jvm", 10000, 6000);
        poll_once(&a);
        assert_int_equal(a.push_count, i + 1);
        assert_int_equal(a.pushes[i].push.kind, SIMBA_PUSH_ACQUIRED);
        assert_int_equal(a.pushes[i].push.owner.token, 0);
    }
    ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(a.listed_count, 1);
    assert_string_equal(a.listed[0].owner.id, "jvm");
    assert_int_equal(a.listed[0].owner.token, 0);
    testhost_unwatch(&a, &watched);
    jvm_release("orders", "jvm");
    const simba_reply won = acquire(&a, "orders", "me", 1); /* what we hold has one */
    assert_mine(won);
    assert_true(won.owner.token > 0);
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    testhost_close(&a);
}

/* A contender on the JVM neither sees nor harms the note, and what was forgotten is known again when it takes it. */
static void notes_beside_the_jvm(void **state)
{
    open_store(&a);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    assert_mine(write_note(&a, "orders", "me", 1, token, 1, "page 1"));
    expire("orders");
    assert_string_equal(jvm_acquire("orders", "jvm", 10000, 6000), "jvm");
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 2, "late").outcome, SIMBA_NOT_MINE);
    assert_memory_equal(read_note(&a, "orders").bytes, "page 1", 6);
    expire("orders");
    assert_mine(ask(&a, SIMBA_OP_FORGET, "orders", "", 0, 0));
    assert_string_equal(jvm_acquire("orders", "jvm", 10000, 6000), "jvm");
    ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(a.listed_count, 1);
    expire("orders");
    testhost_close(&a);
    open_store(&b);
    assert_true(acquire(&b, "orders", "you", 2).owner.token > token + 2);
    testhost_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(about_jvm_holds, jvm_setup),
        cmocka_unit_test_setup(we_hold, jvm_setup),
        cmocka_unit_test_setup(jvm_releases_to_us, jvm_setup),
        cmocka_unit_test_setup(jvm_renews_on_its_table, jvm_setup),
        cmocka_unit_test_setup(notes_beside_the_jvm, jvm_setup),
    };
    return RUN_MYSQL_TESTS(tests);
}
