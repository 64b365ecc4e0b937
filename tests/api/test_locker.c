/* The locker: every answer that acquire and release can give, and that at most one thread is ever between the two. */
#include <simba/backend.h>
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
    SCOPED simba_client *client = client_open(NULL);
    lock_in_a_scope(client);
    assert_false(is_owned(client, "m"));
    assert_int_equal(0, client_stats(client).contenders);
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
    tck_fault *fault;
    SCOPED simba_client *other = client_open(NULL);
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
}

/* Another client gives back what this one holds: that grant, and no other. */
static void given_back_by_another(void **state)
{
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

static simba_lease lease_of(const simba_locker *locker)
{
    simba_lease told = SIMBA_LEASE_INIT;
    assert_rc(0, simba_locker_lease(locker, &told));
    return told;
}

/* The lease as the client has it: how long it lasts, with and without the stop margin, and whether it is being renewed. */
static void lease_is_told(void **state)
{
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

/* --- a store that fails ---------------------------------------------------------------------------- */

/* A store that does not answer holds nobody up: acquire returns when its time is over or it is cancelled, and what it may
 * have got is given back behind the scenes. The attempt after it waits for that, and for no longer than it may. */
static void given_up_on_a_silent_store(void **state)
{
    tck_fault *fault;
    simba_error err = {0};
    struct attempt waits;
    SCOPED simba_client *other = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *next = locker_new(other, "the-mutex", NULL, NULL);
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
}

static simba_request *kept;

static void keeper_submit(void *self, simba_request *request)
{
    request->next = kept;
    kept = request;
}

static void keeper_expire(void *self, simba_request *request)
{
}

static void keeper_close(void *self)
{
    while (kept) {
        simba_request *request = kept;
        kept = request->next;
        (stub_host->fail)(stub_host, request, SIMBA_EUNAVAILABLE, "keeper: closed"); /* fail is a macro of cmocka */
    }
    stub_host->closed(stub_host);
}

/* A store may have a request until it is closed, although the time of that request was over long before. */
static void expired_and_kept_until_the_close(void **state)
{
    static const char *const schemes[] = {"keeper", NULL};
    tck_fault *fault;
    simba_client *client;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.op_timeout_ms = 20;
    assert_rc(0, stub_register((simba_backend){.schemes = schemes,
                                               .caps = SIMBA_CAP_LIST,
                                               .submit = keeper_submit,
                                               .expire = keeper_expire,
                                               .close = keeper_close}));
    assert_rc(0, tck_fault_new("keeper://x", NULL, NULL, NULL, &fault));
    assert_rc(0, simba_client_open(tck_fault_url(fault), &options, NULL, &client));
    assert_rc(SIMBA_ETIMEDOUT, simba_client_force_release(client, "m", NULL));
    client_close(client);
    assert_null(kept);
    assert_int_equal(tck_fault_count(fault, 0, TCK_BREACHES), 0);
    tck_fault_free(fault);
}

/* --- several threads ------------------------------------------------------------------------------ */

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
    SCOPED simba_client *client = client_open(NULL);
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
}

static void release_it(void *arg)
{
    struct pair *pair = arg;
    pair->rc = simba_locker_release(pair->locker, NULL);
}

/* Two threads release at once while the store takes its time: both return, and one of them did it. */
static void released_by_two_threads(void **state)
{
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
    simba_client *client = client_open(NULL);
    SCOPED simba_client *other = client_open(NULL);
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
}

/* --- inside callbacks ------------------------------------------------------------------------------ */

static void lock_inside(struct player *player)
{
    SIMBA_LOCKER_SCOPED simba_locker *locker = NULL;
    EXPECT(simba_locker_new(player->user, "inner", NULL, NULL, &locker) == 0);
    EXPECT(simba_locker_acquire(locker, TIMEOUT_MS, NULL) == 0);
    EXPECT(simba_locker_release(locker, NULL) == 0);
}

/* A callback may lock, and wait for it, in whatever form callbacks run. */
static void lock_inside_a_callback(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(owners_are_shown_not_obeyed),
        TEST(scoped),
        TEST(lost_by_force),
        TEST(lost_unawares),
        TEST(lease_is_told),
        TEST(given_back_by_another),
        TEST(given_up_on_a_silent_store),
        TEST(expired_and_kept_until_the_close),
        TEST(cancel_races_with_success),
        TEST(released_by_two_threads),
        TEST(closed_client),
        TEST(lock_inside_a_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
