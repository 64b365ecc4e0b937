/* What happens between the two packets of a transaction, and after the second: the same for MySQL and PostgreSQL. The header that
 * includes this has `socket_of`, the descriptor of a session. */
#ifndef TESTS_BACKENDS_SQL_PACKETS_H
#define TESTS_BACKENDS_SQL_PACKETS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "backends/sql_asking.h"
#include "util/clock.h"

static inline simba__sql_store *sql_of(const testhost *h)
{
    return h->store;
}

/* A client stops when it has locked its rows. Others go on with all other rows at once, and with these after a second; and when it
 * goes on, its second packet changes nothing. */
static inline void frozen_between_packets(void **state)
{
    open_store(&a);
    open_store(&b);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    acquire(&b, "other", "you", 2);
    testhost_request late = testhost_request_of(&a, SIMBA_OP_RELEASE, "orders", "me", 1, won.owner.token);
    testhost_submit(&a, &late);
    testhost_flush(&a); /* packet 1 is on its way, and nobody reads the answer */
    await_lock();
    const int64_t since_ns = simba__clock_boot().ns;
    assert_mine(ask(&b, SIMBA_OP_RENEW, "other", "you", 2, 1));
    assert_true(simba__clock_boot().ns - since_ns < 400 * SIMBA__NS_PER_MS);
    assert_mine(ask(&b, SIMBA_OP_FORCE_RELEASE, "orders", "", 0, 0));
    assert_in_range((simba__clock_boot().ns - since_ns) / SIMBA__NS_PER_MS, 200, 2500);
    const simba_reply next = acquire(&b, "orders", "you", 2);
    assert_mine(next);
    await_answers(&a);
    assert_int_equal(late.error.code, SIMBA_EUNAVAILABLE);
    assert_mine(ask(&b, SIMBA_OP_RENEW, "orders", "you", 2, next.owner.token));
    testhost_close(&a);
    testhost_close(&b);
}

/* The second packet goes out, and nothing comes back. */
static inline void deafen(testhost *h)
{
    if (sql_of(h)->batch.phase == SIMBA__SQL_WRITES)
        shutdown(socket_of(&sql_of(h)->writer), SHUT_RD);
}

/* Whoever dies, or loses its connection, when the second packet is out has what it asked for: it asks again under its nonce, and
 * gets the same token. */
static inline void cut_after_packet_2(void **state)
{
    open_store(&a);
    acquire(&a, "orders", "you", 2);
    assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "you", 2, 0));
    testhost_request lost = {0};
    for (int i = 0; i < 100 && lost.error.code == 0;
         i++) { /* the server may be so fast that its answer is there already */
        a.on_now = deafen;
        lost = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
        testhost_ask(&a, &lost);
        a.on_now = NULL;
        if (lost.error.code == 0)
            assert_mine(ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, 0));
    }
    assert_int_equal(lost.error.code, SIMBA_EUNAVAILABLE);
    for (int i = 0; i < 5000 && strcmp(say("select owner_id from simba_mutex where mutex = 'orders'"), "me") != 0; i++)
        testhost_pump(&a, NULL, 1);
    const uint64_t token = strtoull(say("select version from simba_mutex where mutex = 'orders'"), NULL, 10);
    const simba_reply again = acquire(&a, "orders", "me", 1);
    assert_mine(again);
    assert_int_equal(again.owner.token, token);
    testhost_close(&a);
}

enum { CROWD = 64, CROWD_GRANTS = 5 };

static atomic_int crowd_inside, crowd_overlaps, crowd_failures;

static inline void *fight(void *url)
{
    simba_client *client;
    simba_locker *locker;
    simba_error err = {0};
    if (simba_client_open(url, NULL, &err, &client) < 0 || simba_locker_new(client, "orders", NULL, &err, &locker) < 0)
        return NULL;
    for (int i = 0; i < CROWD_GRANTS; i++) {
        if (simba_locker_acquire(locker, 60000, &err) < 0) {
            atomic_fetch_add(&crowd_failures, 1);
            fprintf(stderr, "# %s\n", err.text);
            continue;
        }
        atomic_fetch_add(&crowd_overlaps, atomic_fetch_add(&crowd_inside, 1) > 0);
        atomic_fetch_sub(&crowd_inside, 1);
        simba_locker_release(locker, &err);
    }
    simba_locker_free(locker);
    simba_client_close(client);
    return NULL;
}

/* As many as processes want one mutex: each gets it as often as it likes, one after the other, and nobody hears of an error. */
static inline void about_crowd(void **state)
{
    pthread_t threads[CROWD];
    open_store(&a);
    acquire(&a, "other", "me", 1); /* which makes the table */
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fight, STORE_URL), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd_overlaps), 0);
    assert_int_equal(atomic_load(&crowd_failures), 0);
    testhost_close(&a);
}

#define SQL_PACKETS_TESTS                                                                                              \
    cmocka_unit_test_setup(frozen_between_packets, setup), cmocka_unit_test_setup(cut_after_packet_2, setup),          \
        cmocka_unit_test_setup(about_crowd, setup)

#endif
