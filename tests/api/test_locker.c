/* The locker: every answer that acquire and release can give, and that at most one thread is ever between the two. */
#include <simba/backend.h>
#include <stdio.h>
#include <stdlib.h>

#include "../tck/fault_wrapper.h"
#include "support.h"

static simba_locker *locker_new(simba_client *client, const char *mutex, const char *id, const simba_timing *timing)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    options.id = id;
    if (timing)
        options.timing = *timing;
    simba_locker *locker = NULL;
    simba_error err = {0};
    if (simba_locker_new(client, mutex, &options, &err, &locker) != 0)
        fail_msg("cannot make a locker: %s", err.text);
    return locker;
}

/* A thread in acquire. */
struct attempt {
    simba_locker *locker;
    int64_t timeout_ms;
    int rc;
    simba_error err;
    struct runner runner;
};

static void attempt(void *arg)
{
    struct attempt *self = arg;
    self->rc = simba_locker_acquire(self->locker, self->timeout_ms, &self->err);
}

static void attempt_start(struct attempt *self, simba_locker *locker, int64_t timeout_ms)
{
    *self = (struct attempt){.locker = locker, .timeout_ms = timeout_ms, .rc = 1};
    runner_start(&self->runner, attempt, self);
}

/* Until the thread waits inside acquire: a second acquire is then refused, and changes nothing. */
#define AWAIT_WAITING(locker) AWAIT(simba_locker_acquire(locker, 0, NULL) == SIMBA_ESTATE)

/* The text names who has it, and an id cannot do more than be shown: not even one that a name may have. */
static void owners_are_shown_not_obeyed(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *one = locker_new(client, "m",
                                   "a\xC2\x9B"
                                   "31m\u202Ez",
                                   NULL);
    simba_locker *other = locker_new(client, "m", "other", NULL);
    simba_error err = {0};
    assert_rc(0, simba_locker_acquire(one, -1, NULL));
    assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(other, 0, &err));
    assert_string_equal(err.text, "acquire m: owned by a\\xC2\\x9B31m\\xE2\\x80\\xAEz");
    simba_locker_free(other);
    simba_locker_free(one);
    simba_client_close(client);
}

/* --- one thread ----------------------------------------------------------------------------------- */

/* Acquire, look, release, and again with a greater token. */
static void acquire_and_release(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    const simba_timing timing = lease(5000, 3000);
    simba_locker *locker = locker_new(client, "m", "me", &timing);
    uint64_t token = 0;
    assert_string_equal("me", simba_locker_id(locker));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(0, simba_locker_token(locker));
        assert_int_equal(0, simba_locker_held_for_ms(locker));
        assert_rc(0, simba_locker_acquire(locker, i % 3 - 1, NULL));
        assert_true(simba_locker_token(locker) > token);
        token = simba_locker_token(locker);
        assert_true(simba_locker_held_for_ms(locker) > 0);
        assert_true(simba_locker_held_for_ms(locker) <= 8000);
        assert_true(is_owned(client, "m"));
        assert_int_equal(1, client_stats(client).held);
        assert_rc(0, simba_locker_release(locker, NULL));
        assert_false(is_owned(client, "m"));
    }
    assert_int_equal(0, client_stats(client).held);
    simba_locker_free(locker);
    client_close(client);
}

/* It is not re-entrant, and what is not held cannot be released. */
static void wrong_state(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *locker = locker_new(client, "the-mutex", NULL, NULL);
    simba_error err = {0};
    assert_rc(SIMBA_ESTATE, simba_locker_release(locker, &err));
    assert_int_equal(SIMBA_ESTATE, err.code);
    assert_non_null(strstr(err.text, "the-mutex"));
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    static const int64_t timeouts[] = {0, -1, 1000};
    for (size_t i = 0; i < COUNT_OF(timeouts); i++) {
        memset(&err, 0, sizeof err);
        assert_rc(SIMBA_ESTATE, simba_locker_acquire(locker, timeouts[i], &err));
        assert_non_null(strstr(err.text, "the-mutex"));
    }
    assert_rc(0, simba_locker_cancel(locker)); /* nobody waits: nothing happens */
    assert_true(simba_locker_token(locker) > 0);
    assert_rc(0, simba_locker_release(locker, NULL));
    assert_rc(SIMBA_ESTATE, simba_locker_release(locker, NULL));
    simba_locker_free(locker);
    client_close(client);
}

/* Two lockers of two clients, and of one: one wins, and the other is told who has it. */
static void owned_by_somebody_else(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    simba_locker *owner = locker_new(clients[0], "the-mutex", "the-owner", NULL);
    assert_rc(0, simba_locker_acquire(owner, -1, NULL));
    for (int i = 0; i < 2; i++) {
        simba_locker *other = locker_new(clients[i], "the-mutex", NULL, NULL);
        simba_error err = {0};
        assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(other, 0, &err));
        assert_int_equal(SIMBA_ETIMEDOUT, err.code);
        assert_non_null(strstr(err.text, "the-mutex"));
        assert_non_null(strstr(err.text, "the-owner"));
        memset(&err, 0, sizeof err);
        const int64_t before = now_ms();
        assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(other, 40, &err));
        assert_true(now_ms() - before >= 39);
        assert_non_null(strstr(err.text, "the-owner"));
        assert_int_equal(0, simba_locker_token(other));
        assert_rc(SIMBA_ESTATE, simba_locker_release(other, NULL));
        simba_locker_free(other);
    }
    assert_true(simba_locker_held_for_ms(owner) > 0);
    assert_rc(0, simba_locker_release(owner, NULL));
    simba_locker_free(owner);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* A timeout leaves nothing behind: the mutex goes to the next who asks, not to the one who gave up. */
static void timeout_leaves_nothing(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *owner = locker_new(client, "m", NULL, NULL);
    simba_locker *other = locker_new(client, "m", NULL, NULL);
    assert_rc(0, simba_locker_acquire(owner, -1, NULL));
    assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(other, 5, NULL));
    assert_rc(0, simba_locker_release(owner, NULL));
    assert_false(is_owned(client, "m"));
    assert_rc(0, simba_locker_acquire(other, 0, NULL));
    simba_locker_free(other); /* releases */
    assert_false(is_owned(client, "m"));
    simba_locker_free(owner);
    client_close(client);
}

static void lock_in_a_scope(simba_client *client)
{
    SIMBA_LOCKER_SCOPED simba_locker *lock = NULL;
    assert_rc(0, simba_locker_new(client, "m", NULL, NULL, &lock));
    assert_rc(0, simba_locker_acquire(lock, 0, NULL));
    assert_true(is_owned(client, "m"));
}

/* The end of its scope releases and frees. */
static void scoped(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    lock_in_a_scope(client);
    assert_false(is_owned(client, "m"));
    assert_int_equal(0, client_stats(client).contenders);
    client_close(client);
}

/* While it is held it is renewed behind the scenes, for much longer than a lease. */
static void renewed_while_held(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    const simba_timing timing = lease(60, 60000); /* a busy machine keeps it */
    simba_locker *locker = locker_new(client, "m", NULL, &timing);
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    const uint64_t token = simba_locker_token(locker);
    AWAIT(client_stats(client).renewals >= 4);
    assert_int_equal(token, simba_locker_token(locker));
    assert_true(simba_locker_held_for_ms(locker) <= 60060);
    assert_rc(0, simba_locker_release(locker, NULL));
    simba_locker_free(locker);
    client_close(client);
}

static simba_client *open_faulty(tck_fault **ret_fault, int64_t op_timeout_ms)
{
    simba_client *client;
    assert_rc(0, tck_fault_new(store_url(), NULL, NULL, NULL, ret_fault));
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.op_timeout_ms = op_timeout_ms;
    assert_rc(0, simba_client_open(tck_fault_url(*ret_fault), &options, NULL, &client));
    return client;
}

/* --- losing it ------------------------------------------------------------------------------------ */

/* Leadership that ended before release is told, with the reason; then the locker can be used again. */
static void lost_by_force(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    simba_locker *locker = locker_new(clients[0], "the-mutex", NULL, NULL);
    for (int i = 0; i < 2; i++) {
        assert_rc(0, simba_locker_acquire(locker, 0, NULL));
        assert_int_equal(SIMBA_REASON_NONE, simba_locker_reason(locker));
        assert_rc(0, simba_client_force_release(clients[i], "the-mutex", NULL));
        AWAIT(simba_locker_held_for_ms(locker) == 0);
        AWAIT(simba_locker_reason(locker) == SIMBA_REASON_REVOKED);
        assert_int_equal(0, simba_locker_token(locker));
        simba_error err = {0};
        assert_rc(SIMBA_ELOST, simba_locker_release(locker, &err));
        assert_int_equal(SIMBA_ELOST, err.code);
        assert_non_null(strstr(err.text, "the-mutex"));
        assert_non_null(strstr(err.text, simba_reason_name(SIMBA_REASON_REVOKED)));
        assert_rc(SIMBA_ESTATE, simba_locker_release(locker, NULL));
        assert_int_equal(SIMBA_REASON_REVOKED, simba_locker_reason(locker));
    }
    /* A locker that lost it does not come back by itself. */
    assert_false(is_owned(clients[0], "the-mutex"));
    simba_locker_free(locker);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* Even if nobody had told the locker yet: the store says so when it is released. But a release whose answer was lost is
 * not mistaken for that. */
static void lost_unawares(void **state)
{
    (void)state;
    tck_fault *fault;
    simba_client *other = client_open(NULL);
    simba_client *client = open_faulty(&fault, 100);
    simba_locker *locker = locker_new(client, "m", NULL, NULL);
    tck_fault_pushes(fault, TCK_PUSHES_DROP);
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    assert_rc(0, simba_client_force_release(other, "m", NULL));
    assert_true(simba_locker_held_for_ms(locker) > 0);
    simba_error err = {0};
    assert_rc(SIMBA_ELOST, simba_locker_release(locker, &err));
    assert_int_equal(SIMBA_ELOST, err.code);
    assert_int_equal(SIMBA_REASON_REVOKED, simba_locker_reason(locker));

    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    tck_fault_lose_reply_nth(fault, SIMBA_OP_RELEASE, 1);
    assert_rc(0, simba_locker_release(locker, NULL));
    assert_int_equal(SIMBA_REASON_STOPPED, simba_locker_reason(locker));
    assert_false(is_owned(other, "m"));
    simba_locker_free(locker);
    client_close(client);
    tck_fault_free(fault);
    client_close(other);
}

/* Another client gives back what this one holds: that grant, and no other. */
static void given_back_by_another(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    simba_locker *locker = locker_new(clients[0], "m", "me", NULL);
    simba_grant grant;
    simba_grant earlier;
    assert_rc(SIMBA_ESTATE, simba_locker_grant(locker, &earlier));
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    assert_rc(0, simba_locker_grant(locker, &earlier));
    assert_string_equal("me", earlier.id);
    assert_int_equal(simba_locker_token(locker), earlier.token);
    assert_rc(0, simba_locker_release(locker, NULL));
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    assert_rc(0, simba_locker_grant(locker, &grant));

    simba_error err = {0};
    assert_rc(SIMBA_ELOST, simba_client_give_back(clients[1], "m", &earlier, &err));
    assert_non_null(strstr(err.text, "m: this grant had ended"));
    simba_grant other = grant;
    other.nonce++;
    assert_rc(SIMBA_ELOST, simba_client_give_back(clients[1], "m", &other, NULL));
    other = grant;
    other.token++;
    assert_rc(SIMBA_ELOST, simba_client_give_back(clients[1], "m", &other, NULL));
    other.token = 0; /* would stand for any */
    assert_rc(SIMBA_EINVAL, simba_client_give_back(clients[1], "m", &other, NULL));
    assert_true(is_owned(clients[1], "m"));

    assert_rc(0, simba_client_give_back(clients[1], "m", &grant, NULL));
    assert_false(is_owned(clients[1], "m"));
    assert_rc(SIMBA_ELOST, simba_locker_release(locker, NULL));
    simba_locker_free(locker);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* Whoever waits knows for whom and for how long. */
static void knows_the_owner(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    const simba_timing timing = lease(5000, 3000);
    simba_locker *holder = locker_new(client, "m", "holder", &timing);
    simba_locker *waiter = locker_new(client, "m", "waiter", &timing);
    simba_owner owner;
    assert_rc(0, simba_locker_owner(waiter, &owner));
    assert_true(simba_owner_is_none(&owner));
    assert_int_equal(0, simba_locker_owner_left_ms(waiter));
    assert_rc(0, simba_locker_acquire(holder, 0, NULL));
    assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(waiter, 0, NULL));
    assert_rc(0, simba_locker_owner(waiter, &owner));
    assert_string_equal("holder", owner.id);
    const int64_t left_ms = simba_locker_owner_left_ms(waiter);
    assert_true(left_ms > 4000 && left_ms <= 8000);
    simba_locker_free(waiter);
    simba_locker_free(holder);
    client_close(client);
}

static simba_lease lease_of(const simba_locker *locker)
{
    simba_lease told = SIMBA_LEASE_INIT;
    assert_rc(0, simba_locker_lease(locker, &told));
    return told;
}

/* The lease as the client has it: how long it lasts, with and without the stop margin, and whether it is being renewed. */
static void lease_is_told(void **state)
{
    (void)state;
    tck_fault *fault;
    simba_client *client = open_faulty(&fault, 100);
    simba_timing timing = lease(400, 800);
    timing.stop_margin_ms = 100;
    simba_locker *locker = locker_new(client, "m", NULL, &timing);
    assert_int_equal(0, lease_of(locker).token + (uint64_t)lease_of(locker).left_ms);
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    const simba_lease fresh = lease_of(locker);
    assert_int_equal(fresh.token, simba_locker_token(locker));
    assert_in_range(fresh.left_ms, 900, 1200);
    assert_in_range(fresh.left_ms - fresh.held_for_ms, 99, 101);
    assert_in_range(fresh.ttl_left_ms, 100, 400);
    assert_false(fresh.overdue);

    tck_fault_cut(fault, TCK_CUT_REFUSE);
    AWAIT(lease_of(locker).overdue);
    assert_int_equal(lease_of(locker).ttl_left_ms, 0);
    assert_in_range(lease_of(locker).left_ms, 1, 700);
    tck_fault_heal(fault);
    AWAIT(!lease_of(locker).overdue);
    assert_int_equal(fresh.token, lease_of(locker).token);

    tck_fault_cut(fault, TCK_CUT_REFUSE);
    AWAIT(lease_of(locker).token == 0);
    assert_int_equal(0, lease_of(locker).left_ms);
    assert_false(lease_of(locker).overdue);
    AWAIT(simba_locker_reason(locker) == SIMBA_REASON_EXPIRED);
    tck_fault_heal(fault);
    simba_locker_free(locker);
    client_close(client);
    tck_fault_free(fault);
}

/* The hold limit ends it too. */
static void lost_by_hold_limit(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_timing timing = lease(1000, 1000);
    timing.hold_limit_ms = 20;
    simba_locker *locker = locker_new(client, "m", NULL, &timing);
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    AWAIT(!is_owned(client, "m"));
    simba_error err = {0};
    assert_rc(SIMBA_ELOST, simba_locker_release(locker, &err));
    assert_non_null(strstr(err.text, simba_reason_name(SIMBA_REASON_HOLD_LIMIT)));
    assert_int_equal(SIMBA_REASON_HOLD_LIMIT, simba_locker_reason(locker));
    simba_locker_free(locker);
    client_close(client);
}

/* --- a store that fails ---------------------------------------------------------------------------- */

/* Without a store: the only try and the last try say so; so does a release, which gives up on this side. */
static void store_out_of_reach(void **state)
{
    (void)state;
    tck_fault *fault;
    simba_client *client = open_faulty(&fault, 30);
    simba_locker *locker = locker_new(client, "the-mutex", NULL, NULL);
    simba_error err = {0};
    tck_fault_cut(fault, TCK_CUT_REFUSE);
    assert_rc(SIMBA_EUNAVAILABLE, simba_locker_acquire(locker, 0, &err));
    assert_int_equal(SIMBA_EUNAVAILABLE, err.code);
    assert_non_null(strstr(err.text, "the-mutex"));
    memset(&err, 0, sizeof err);
    const int64_t before = now_ms();
    assert_rc(SIMBA_EUNAVAILABLE, simba_locker_acquire(locker, 40, &err));
    assert_true(now_ms() - before >= 39);
    assert_int_equal(SIMBA_EUNAVAILABLE, err.code);
    tck_fault_cut(fault, TCK_CUT_SILENT); /* a silent store is not a mutex that is taken */
    assert_rc(SIMBA_EUNAVAILABLE, simba_locker_acquire(locker, 0, &err));
    assert_int_equal(SIMBA_EUNAVAILABLE, err.code);
    tck_fault_heal(fault);
    /* Not a single try: the attempt before may still have to end. */
    assert_rc(0, simba_locker_acquire(locker, 10000, NULL));

    tck_fault_cut(fault, TCK_CUT_REFUSE);
    memset(&err, 0, sizeof err);
    assert_rc(SIMBA_EUNAVAILABLE, simba_locker_release(locker, &err));
    assert_int_equal(SIMBA_EUNAVAILABLE, err.code);
    assert_true(strlen(err.text) > 0);
    assert_int_equal(0, simba_locker_held_for_ms(locker));
    assert_rc(SIMBA_ESTATE, simba_locker_release(locker, NULL));
    tck_fault_heal(fault);
    assert_rc(0, simba_client_force_release(client, "the-mutex", NULL));

    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    tck_fault_cut(fault, TCK_CUT_SILENT);
    memset(&err, 0, sizeof err);
    assert_rc(SIMBA_ETIMEDOUT, simba_locker_release(locker, &err));
    assert_int_equal(SIMBA_ETIMEDOUT, err.code);
    tck_fault_heal(fault);
    simba_locker_free(locker);
    client_close(client);
    tck_fault_free(fault);
}

/* A store that does not answer holds nobody up: acquire returns when its time is over or it is cancelled, and what it may
 * have got is given back behind the scenes. The attempt after it waits for that, and for no longer than it may. */
static void given_up_on_a_silent_store(void **state)
{
    (void)state;
    tck_fault *fault;
    simba_error err = {0};
    struct attempt waits;
    simba_client *other = client_open(NULL);
    simba_locker *next = locker_new(other, "the-mutex", NULL, NULL);
    simba_client *client = open_faulty(&fault, 4 * TIMEOUT_MS); /* so none of what follows waits for an answer */
    simba_locker *locker = locker_new(client, "the-mutex", NULL, NULL);
    tck_fault_hold(fault, SIMBA_OP_ACQUIRE);
    tck_fault_hold(fault, SIMBA_OP_RELEASE);
    assert_rc(SIMBA_EUNAVAILABLE, simba_locker_acquire(locker, 20, &err));
    assert_int_equal(1, tck_fault_count(fault, SIMBA_OP_ACQUIRE, TCK_HELD));
    assert_rc(SIMBA_ESTATE, simba_locker_release(locker, NULL));
    for (int timeout_ms = 0; timeout_ms <= 20; timeout_ms += 20) {
        assert_rc(SIMBA_EUNAVAILABLE, simba_locker_acquire(locker, timeout_ms, &err));
        assert_non_null(strstr(err.text, "the-mutex"));
        assert_non_null(strstr(err.text, "the attempt before"));
    }
    attempt_start(&waits, locker, -1);
    AWAIT((simba_locker_cancel(locker), waits.runner.done));
    runner_join(&waits.runner);
    assert_rc(SIMBA_ECANCELED, waits.rc);
    attempt_start(&waits, locker, -1);
    tck_fault_let_go(fault, SIMBA_OP_ACQUIRE);
    tck_fault_let_go(fault, SIMBA_OP_RELEASE);
    runner_join(&waits.runner);
    assert_rc(0, waits.rc);
    assert_rc(0, simba_locker_release(locker, NULL));

    /* Cancelled with the attempt itself unanswered, which comes to be ours after all: nobody keeps it. */
    tck_fault_hold(fault, SIMBA_OP_ACQUIRE);
    attempt_start(&waits, locker, -1);
    AWAIT(tck_fault_count(fault, SIMBA_OP_ACQUIRE, TCK_HELD) == 1);
    assert_rc(0, simba_locker_cancel(locker));
    runner_join(&waits.runner);
    assert_rc(SIMBA_ECANCELED, waits.rc);
    tck_fault_let_go(fault, SIMBA_OP_ACQUIRE);
    assert_rc(0, simba_locker_acquire(next, TIMEOUT_MS, NULL));
    assert_int_equal(0, simba_locker_held_for_ms(locker));
    simba_locker_free(locker);
    client_close(client);
    tck_fault_free(fault);
    simba_locker_free(next);
    client_close(other);
}

/* A store that comes back in time is no error. */
static void store_comes_back(void **state)
{
    (void)state;
    tck_fault *fault;
    simba_client *client = open_faulty(&fault, 30);
    simba_locker *locker = locker_new(client, "m", NULL, NULL);
    tck_fault_fail_nth(fault, SIMBA_OP_ACQUIRE, 1);
    assert_rc(0, simba_locker_acquire(locker, TIMEOUT_MS, NULL));
    assert_rc(0, simba_locker_release(locker, NULL));
    simba_locker_free(locker);
    client_close(client);
    tck_fault_free(fault);
}

static simba_host *refusing_host;

static int refuse_init(void *self, simba_host *host, const simba_url *url, simba_error *err)
{
    (void)self;
    (void)url;
    (void)err;
    refusing_host = host;
    return 0;
}

static void refuse_submit(void *self, simba_request *request)
{
    (void)self;
    if (request->op == SIMBA_OP_ACQUIRE)
        (refusing_host->fail)(refusing_host, request, SIMBA_EPERM, "refuse: not you");
    else
        refusing_host->complete(refusing_host, request);
}

/* It answers at once. */
static void refuse_expire(void *self, simba_request *request)
{
    (void)self;
    (void)request;
    abort();
}

static void refuse_nothing(void *self)
{
    (void)self;
}

static int refuse_watch(void *self, simba_watch *watch)
{
    (void)self;
    (void)watch;
    return 0;
}

static void refuse_unwatch(void *self, simba_watch *watch)
{
    (void)self;
    (void)watch;
}

static void refuse_close(void *self)
{
    (void)self;
    refusing_host->closed(refusing_host);
}

/* What will not go away by itself is answered at once, however long the timeout. */
static void permanent_error(void **state)
{
    static const char *const schemes[] = {"refuse", NULL};
    static const simba_backend backend = {
        .size = sizeof(simba_backend),
        .version = SIMBA_BACKEND_VERSION,
        .schemes = schemes,
        .instance_size = 1,
        .init = refuse_init,
        .submit = refuse_submit,
        .expire = refuse_expire,
        .flush = refuse_nothing,
        .watch = refuse_watch,
        .unwatch = refuse_unwatch,
        .woken = refuse_nothing,
        .close = refuse_close,
        .fini = refuse_nothing,
    };
    (void)state;
    assert_rc(0, simba_backend_register(&backend));
    simba_client *client;
    assert_rc(0, simba_client_open("refuse://x", NULL, NULL, &client));
    simba_locker *locker = locker_new(client, "the-mutex", NULL, NULL);
    static const int64_t timeouts[] = {0, 60000, -1};
    for (size_t i = 0; i < COUNT_OF(timeouts); i++) {
        simba_error err = {0};
        assert_rc(SIMBA_EPERM, simba_locker_acquire(locker, timeouts[i], &err));
        assert_int_equal(SIMBA_EPERM, err.code);
        assert_non_null(strstr(err.text, "the-mutex"));
        assert_non_null(strstr(err.text, "not you"));
    }
    simba_locker_free(locker);
    client_close(client);
}

/* --- several threads ------------------------------------------------------------------------------ */

/* A waiter gets it as soon as the owner lets go, also from another client, long before any lease ends. */
static void waiter_gets_it(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    for (int i = 0; i < 2; i++) {
        simba_locker *owner = locker_new(clients[0], "m", NULL, NULL);
        simba_locker *waiter = locker_new(clients[i], "m", NULL, NULL);
        assert_rc(0, simba_locker_acquire(owner, 0, NULL));
        struct attempt waits;
        attempt_start(&waits, waiter, i ? -1 : TIMEOUT_MS);
        AWAIT_WAITING(waiter);
        assert_false(waits.runner.done);
        const int64_t before = now_ms();
        assert_rc(0, simba_locker_release(owner, NULL));
        runner_join(&waits.runner);
        assert_rc(0, waits.rc);
        assert_true(now_ms() - before < 9000);
        assert_rc(0, simba_locker_release(waiter, NULL));
        simba_locker_free(owner);
        simba_locker_free(waiter);
    }
    client_close(clients[0]);
    client_close(clients[1]);
}

/* Cancelling ends the wait and nothing else: the owner keeps it, and the locker can be used again. */
static void cancelled_by_another_thread(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *owner = locker_new(client, "m", NULL, NULL);
    simba_locker *waiter = locker_new(client, "m", NULL, NULL);
    assert_rc(0, simba_locker_cancel(waiter)); /* leaves no mark for later */
    assert_rc(0, simba_locker_acquire(owner, 0, NULL));
    for (int i = 0; i < 20; i++) {
        struct attempt waits;
        attempt_start(&waits, waiter, i % 2 ? -1 : TIMEOUT_MS);
        AWAIT_WAITING(waiter);
        assert_rc(0, simba_locker_cancel(waiter));
        runner_join(&waits.runner);
        assert_rc(SIMBA_ECANCELED, waits.rc);
        assert_int_equal(SIMBA_ECANCELED, waits.err.code);
    }
    assert_true(simba_locker_held_for_ms(owner) > 0);
    assert_rc(0, simba_locker_release(owner, NULL));
    assert_rc(0, simba_locker_acquire(waiter, 0, NULL));
    simba_locker_free(owner);
    simba_locker_free(waiter);
    client_close(client);
}

struct pair {
    simba_locker *locker;
    int rc;
};

static void cancel_it(void *arg)
{
    struct pair *pair = arg;
    pair->rc = simba_locker_cancel(pair->locker);
}

/* A cancel that races with success: whatever acquire answered is what is so. */
static void cancel_races_with_success(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    for (int i = 0; i < 50; i++) {
        simba_locker *owner = locker_new(client, "m", NULL, NULL);
        struct pair pair = {locker_new(client, "m", NULL, NULL), 1};
        assert_rc(0, simba_locker_acquire(owner, 0, NULL));
        struct attempt waits;
        struct runner canceller;
        attempt_start(&waits, pair.locker, -1);
        AWAIT_WAITING(pair.locker);
        runner_start(&canceller, cancel_it, &pair);
        assert_rc(0, simba_locker_release(owner, NULL));
        runner_join(&canceller);
        runner_join(&waits.runner);
        assert_rc(0, pair.rc);
        assert_true(waits.rc == 0 || waits.rc == SIMBA_ECANCELED);
        assert_int_equal(waits.rc == 0, is_owned(client, "m"));
        assert_rc(waits.rc == 0 ? 0 : SIMBA_ESTATE, simba_locker_release(pair.locker, NULL));
        simba_locker_free(owner);
        simba_locker_free(pair.locker);
    }
    client_close(client);
}

struct hammer {
    simba_client *client;
    simba_locker *shared; /* NULL: one of its own */
    unsigned *counter;    /* not atomic, on purpose */
    uint64_t *token;
    unsigned won, refused, timed_out;
};

enum { HAMMERS = 8, BLOWS = 60 };

static void hammer(void *arg)
{
    struct hammer *self = arg;
    simba_locker *locker = self->shared;
    EXPECT(locker || simba_locker_new(self->client, "m", NULL, NULL, &locker) == 0);
    for (int i = 0; i < BLOWS; i++) {
        const int rc = simba_locker_acquire(locker, self->shared || i % 4 == 3 ? 0 : TIMEOUT_MS, NULL);
        if (rc == 0) {
            /* A sanitizer sees a race here if two are inside, or if one does not see what the other wrote. */
            ++*self->counter;
            const uint64_t token = simba_locker_token(locker);
            EXPECT(token > *self->token);
            *self->token = token;
            self->won++;
            EXPECT(simba_locker_release(locker, NULL) == 0);
        } else {
            self->refused += rc == SIMBA_ESTATE;
            self->timed_out += rc == SIMBA_ETIMEDOUT;
            EXPECT(self->shared ? rc == SIMBA_ESTATE : rc == SIMBA_ETIMEDOUT && i % 4 == 3);
        }
    }
    if (!self->shared)
        simba_locker_free(locker);
}

static void hammer_with(simba_client *const clients[2], simba_locker *shared)
{
    struct hammer hammers[HAMMERS];
    struct runner runners[HAMMERS];
    unsigned counter = 0;
    uint64_t token = 0;
    for (int i = 0; i < HAMMERS; i++) {
        hammers[i] = (struct hammer){.client = clients[i % 2], .shared = shared, .counter = &counter, .token = &token};
        runner_start(&runners[i], hammer, &hammers[i]);
    }
    unsigned won = 0;
    unsigned all = 0;
    for (int i = 0; i < HAMMERS; i++) {
        runner_join(&runners[i]);
        won += hammers[i].won;
        all += hammers[i].won + hammers[i].refused + hammers[i].timed_out;
    }
    assert_int_equal(counter, won);
    assert_int_equal(all, HAMMERS * BLOWS);
    assert_true(won >= (shared ? 1 : HAMMERS * BLOWS * 3 / 4));
    assert_false(is_owned(clients[0], "m"));
}

/* Eight threads of two clients hammer one mutex: never two inside, tokens grow, nobody starves. */
static void eight_threads_one_mutex(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    hammer_with(clients, NULL);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* Eight threads hammer one locker: one at a time gets through, the others are refused, nothing breaks. */
static void eight_threads_one_locker(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_client *const clients[2] = {client, client};
    simba_locker *locker = locker_new(client, "m", NULL, NULL);
    hammer_with(clients, locker);
    simba_locker_free(locker);
    client_close(client);
}

static void release_it(void *arg)
{
    struct pair *pair = arg;
    pair->rc = simba_locker_release(pair->locker, NULL);
}

/* Two threads release at once while the store takes its time: both return, and one of them did it. */
static void released_by_two_threads(void **state)
{
    (void)state;
    tck_fault *fault;
    simba_client *client = open_faulty(&fault, 4000);
    simba_locker *locker = locker_new(client, "m", NULL, NULL);
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    tck_fault_hold(fault, SIMBA_OP_RELEASE);
    struct pair pairs[2] = {{locker, 1}, {locker, 1}};
    struct runner runners[2];
    runner_start(&runners[0], release_it, &pairs[0]);
    AWAIT(tck_fault_count(fault, SIMBA_OP_RELEASE, TCK_HELD) == 1);
    assert_rc(SIMBA_ESTATE, simba_locker_acquire(locker, 0, NULL));
    runner_start(&runners[1], release_it, &pairs[1]);
    /* Whether the second is already inside does not matter, but give it the chance. */
    WITHIN(20, runners[1].done);
    tck_fault_let_go(fault, SIMBA_OP_RELEASE);
    runner_join(&runners[0]);
    runner_join(&runners[1]);
    assert_true(pairs[0].rc == 0 || pairs[1].rc == 0);
    assert_true(pairs[0].rc == SIMBA_ESTATE || pairs[1].rc == SIMBA_ESTATE);
    simba_locker_free(locker);
    client_close(client);
    tck_fault_free(fault);
}

/* --- closing -------------------------------------------------------------------------------------- */

/* Close ends what is held and what is waited for; afterwards everything is answered with "closed". */
static void closed_client(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_client *other = client_open(NULL);
    simba_locker *held = locker_new(client, "m", NULL, NULL);
    simba_locker *waiter = locker_new(client, "m", NULL, NULL);
    simba_locker *idle = locker_new(client, "n", NULL, NULL);
    assert_rc(0, simba_locker_acquire(held, 0, NULL));
    struct attempt waits;
    attempt_start(&waits, waiter, -1);
    AWAIT_WAITING(waiter);
    client_close(client);
    runner_join(&waits.runner);
    assert_rc(SIMBA_ECLOSED, waits.rc);
    assert_int_equal(SIMBA_ECLOSED, waits.err.code);
    assert_false(is_owned(other, "m"));
    assert_int_equal(0, simba_locker_held_for_ms(held));
    assert_int_equal(0, simba_locker_token(held));
    simba_locker *const all[] = {held, waiter, idle};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        simba_error err = {0};
        assert_rc(SIMBA_ECLOSED, simba_locker_release(all[i], &err));
        assert_int_equal(SIMBA_ECLOSED, err.code);
        assert_rc(SIMBA_ECLOSED, simba_locker_release(all[i], NULL));
        assert_rc(SIMBA_ECLOSED, simba_locker_acquire(all[i], -1, &err));
        assert_rc(SIMBA_ECLOSED, simba_locker_acquire(all[i], 0, NULL));
        assert_rc(SIMBA_ECLOSED, simba_locker_cancel(all[i]));
        assert_true(strlen(simba_locker_id(all[i])) > 0);
        simba_locker_free(all[i]);
    }
    client_close(other);
}

/* --- inside callbacks ------------------------------------------------------------------------------ */

static void lock_inside(struct player *player)
{
    simba_locker *locker;
    EXPECT(simba_locker_new(player->user, "inner", NULL, NULL, &locker) == 0);
    EXPECT(simba_locker_acquire(locker, TIMEOUT_MS, NULL) == 0);
    EXPECT(simba_locker_release(locker, NULL) == 0);
    simba_locker_free(locker);
}

/* A callback may lock, and wait for it, in whatever form callbacks run. */
static void lock_inside_a_callback(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *owner = locker_new(client, "inner", NULL, NULL);
    assert_rc(0, simba_locker_acquire(owner, 0, NULL));
    struct player *player = player_new(client, "outer", NULL, NULL);
    player->in_acquired = lock_inside;
    player->user = client;
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->in_callback);
    assert_rc(0, simba_locker_release(owner, NULL));
    AWAIT(player->acquired == 1 && !player->in_callback);
    simba_locker_free(owner);
    player_free(player);
    client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(owners_are_shown_not_obeyed),
        TEST(acquire_and_release),
        TEST(wrong_state),
        TEST(owned_by_somebody_else),
        TEST(timeout_leaves_nothing),
        TEST(scoped),
        TEST(renewed_while_held),
        TEST(lost_by_force),
        TEST(lost_unawares),
        TEST(lost_by_hold_limit),
        TEST(lease_is_told),
        TEST(given_back_by_another),
        TEST(knows_the_owner),
        TEST(store_out_of_reach),
        TEST(given_up_on_a_silent_store),
        TEST(store_comes_back),
        TEST(permanent_error),
        TEST(waiter_gets_it),
        TEST(cancelled_by_another_thread),
        TEST(cancel_races_with_success),
        TEST(eight_threads_one_mutex),
        TEST(eight_threads_one_locker),
        TEST(released_by_two_threads),
        TEST(closed_client),
        TEST(lock_inside_a_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
