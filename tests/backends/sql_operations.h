/* What the operations of a store on an SQL server do, by requests at its contract: the same for MySQL and PostgreSQL. */
#ifndef TESTS_BACKENDS_SQL_OPERATIONS_H
#define TESTS_BACKENDS_SQL_OPERATIONS_H

#include "backends/sql_asking.h"

/* A free mutex is granted, owned against others, given back, and granted again under a greater token. */
static inline void acquire_and_release(void **state)
{
    (void)state;
    const char *const odd_name = "orders \"\\{}, 'ü"; /* needs quoting, and more than ASCII */
    open_store(&a);
    const simba_reply won = acquire(&a, odd_name, "me", 1);
    assert_mine(won);
    assert_string_equal(won.owner.id, "me");
    assert_int_equal(won.owner.ttl_at_ms - won.owner.acquired_at_ms, 10000);
    assert_int_equal(won.owner.transition_at_ms - won.owner.acquired_at_ms, 16000);
    assert_in_range(won.owner.transition_at_ms - won.now_ms, 15000, 16000);
    assert_owned_by(acquire(&a, odd_name, "you", 2), "me");
    const simba_reply seen = ask(&a, SIMBA_OP_READ, odd_name, NULL, 0, 0);
    assert_owned_by(seen, "me");
    assert_int_equal(seen.owner.token, won.owner.token);
    const simba_reply released = ask(&a, SIMBA_OP_RELEASE, odd_name, "me", 1, won.owner.token);
    assert_mine(released);
    assert_string_equal(released.owner.id, "");
    assert_owned_by(ask(&a, SIMBA_OP_RELEASE, odd_name, "me", 1, won.owner.token), "");
    const simba_reply next = acquire(&a, odd_name, "you", 2);
    assert_mine(next);
    assert_true(next.owner.token > won.owner.token);
    testhost_close(&a);
}

/* A renewal extends the lease and keeps the token, and needs the right id, nonce and token; after the lease has ended
 * there is nothing to renew. */
static inline void about_renew(void **state)
{
    (void)state;
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    say("update simba_mutex set ttl_at = ttl_at - 9000, transition_at = transition_at - 9000");
    const simba_reply renewed = ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token);
    assert_mine(renewed);
    assert_int_equal(renewed.owner.token, won.owner.token);
    assert_int_equal(renewed.owner.acquired_at_ms, won.owner.acquired_at_ms);
    assert_in_range(renewed.owner.transition_at_ms - renewed.now_ms, 15900, 16000);
    assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "me", 2, won.owner.token), "me");
    assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token + 1), "me");
    assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, 0), "me");
    assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "you", 1, won.owner.token), "me");
    expire("orders");
    assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token), "");
    say("delete from simba_mutex");
    assert_owned_by(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token), "");
    testhost_close(&a);
}

/* Whoever asks again because the reply was lost gets the same grant; the same id under another nonce does not. */
static inline void about_incarnations(void **state)
{
    (void)state;
    open_store(&a);
    const uint64_t nonce = UINT64_C(0xFEDCBA9876543210); /* does not fit into a signed number */
    const simba_reply won = acquire(&a, "orders", "me", nonce);
    const simba_reply again = acquire(&a, "orders", "me", nonce);
    assert_mine(again);
    assert_int_equal(again.owner.token, won.owner.token);
    assert_owned_by(acquire(&a, "orders", "me", 2), "me");
    assert_owned_by(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 2, 0), "me");
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", nonce, won.owner.token));
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", nonce, 0));
    testhost_close(&a);
}

/* Forced away: free for others at once, and the holder hears that it was revoked when it renews, also if somebody has
 * taken it since. */
static inline void force_release(void **state)
{
    (void)state;
    open_store(&a);
    open_store(&b);
    assert_int_equal(ask(&a, SIMBA_OP_FORCE_RELEASE, "orders", "", 0, 0).outcome, SIMBA_NOT_MINE);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    assert_mine(ask(&b, SIMBA_OP_FORCE_RELEASE, "orders", "", 0, 0));
    assert_int_equal(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token).outcome, SIMBA_REVOKED);
    assert_mine(acquire(&b, "orders", "you", 2));
    assert_int_equal(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token).outcome, SIMBA_REVOKED);
    testhost_close(&a);
    testhost_close(&b);
}

/* All mutexes, owned or not, or those that match a shell pattern. */
static inline void about_list(void **state)
{
    (void)state;
    open_store(&a);
    const simba_reply won = acquire(&a, "orders-2", "me", 1);
    acquire(&a, "invoices", "you", 2);
    acquire(&a, "orders-1", "you", 3);
    ask(&a, SIMBA_OP_RELEASE, "orders-1", "you", 3, 0);
    ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(a.listed_count, 3);
    a.listed_count = 0;
    ask(&a, SIMBA_OP_LIST, "orders-[2-9]", NULL, 0, 0);
    assert_int_equal(a.listed_count, 1);
    assert_string_equal(a.listed[0].mutex, "orders-2");
    assert_string_equal(a.listed[0].owner.id, "me");
    assert_int_equal(a.listed[0].owner.token, won.owner.token);
    testhost_close(&a);
}

enum { MANY = 700 }; /* more than a statement takes */

static testhost_request requests[MANY];
static char many_names[MANY][16];

/* One of each mutex, all in one flush. */
static inline void ask_many(simba_op op, const uint64_t *tokens)
{
    for (int i = 0; i < MANY; i++) {
        snprintf(many_names[i], sizeof many_names[i], "m%03d", (i * 37) % MANY); /* in no order */
        requests[i] = testhost_request_of(&a, op, many_names[i], "me", (uint64_t)i + 1, tokens ? tokens[i] : 0);
    }
    ask_all(&a, requests, MANY);
    for (int i = 0; i < MANY; i++) {
        if (requests[i].request.reply.status < 0)
            fail_msg("%s", requests[i].error.text);
        assert_mine(requests[i].request.reply);
    }
}

/* What is asked about one mutex in one flush happens in that order. */
static inline void order_in_batch(void **state)
{
    (void)state;
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    testhost_request r[4] = {
        testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "you", 2, 0),
        testhost_request_of(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token),
        testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "you", 2, 0),
        testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "they", 3, 0),
    };
    ask_all(&a, r, 4);
    assert_owned_by(r[0].request.reply, "me");
    assert_mine(r[1].request.reply);
    assert_mine(r[2].request.reply);
    assert_int_equal(r[2].request.reply.owner.token, won.owner.token + 2);
    assert_owned_by(r[3].request.reply, "you");
    testhost_close(&a);
}

#define SQL_OPERATIONS_TESTS                                                                                           \
    cmocka_unit_test_setup(acquire_and_release, setup), cmocka_unit_test_setup(about_renew, setup),                    \
        cmocka_unit_test_setup(about_incarnations, setup), cmocka_unit_test_setup(force_release, setup),               \
        cmocka_unit_test_setup(about_list, setup), cmocka_unit_test_setup(order_in_batch, setup)

#endif
