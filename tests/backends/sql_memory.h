/* What happens when memory runs out, at every place where it can: a scenario with all that the store does is played again
 * and again, and each time another allocation fails, until it was played without one that did. Every request comes to an
 * end, whatever that is, afterwards the store works again, and nothing is left behind. The same for MySQL and PostgreSQL. */
#ifndef TESTS_BACKENDS_SQL_RECALL_H
#define TESTS_BACKENDS_SQL_RECALL_H

#include "backends/sql_asking.h"
#include "lib/failing_alloc.h"

static inline void ask_whatever(simba_op op, const char *mutex, uint64_t nonce, uint64_t token)
{
    testhost_request r = testhost_request_of(&a, op, mutex, op == SIMBA_OP_LIST ? NULL : "me", nonce, token);
    a.listed_count = a.found_count = 0;
    testhost_ask(&a, &r); /* which checks that it is done */
}

/* With the nth allocation failing, and the two after it. False: there were not so many. */
static inline bool play(unsigned nth)
{
    simba_error err = {0};
    char again[32];
    static int round;
    snprintf(again, sizeof again, "again-%d", round++); /* a row to be made */
    failing_arm(FAILING_SIMBA, nth, 3);
    while (testhost_open(&a, STORE, STORE_URL, &err) < 0)
        assert_int_equal(err.code, SIMBA_ENOMEM);
    simba_watch watched = {.mutex = "orders"};
    ask_whatever(SIMBA_OP_ACQUIRE, "orders", 1, 0);
    const bool is_watched = testhost_watch(&a, &watched) == 0;
    testhost_pump(&a, NULL, 20); /* it polls, and may begin to listen */
    testhost_request two[2] = {testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0),
                               testhost_request_of(&a, SIMBA_OP_ACQUIRE, again, "me", 1, 0)};
    ask_all(&a, two, 2);
    ask_whatever(SIMBA_OP_RENEW, "orders", 1, 7);
    ask_whatever(SIMBA_OP_LIST, "o*", 0, 0);
    ask_whatever(SIMBA_OP_EXAMINE, NULL, 0, 0);
    ask_whatever(SIMBA_OP_RELEASE, "orders", 1, 0);
    testhost_advance(&a, 1000);
    if (is_watched)
        testhost_unwatch(&a, &watched);
    const bool failed = failing_disarm() > 0;
    testhost_advance(&a, 1000); /* a failure to connect is remembered for a while */
    assert_mine(acquire(&a, "afterwards", "me", 1));
    testhost_close(&a);
    return failed;
}

static inline void about_sweep(void **state)
{
    (void)state;
    play(1000000); /* what is made once in a program is made now */
    const long before = failing_live(FAILING_SIMBA);
    unsigned nth = 1;
    for (; play(nth); nth++)
        assert_int_equal(failing_live(FAILING_SIMBA), before);
    print_message("# %u rounds\n", nth);
    assert_true(nth > 20);
}

#endif
