/* Lockers that linger: a released mutex stays with the client, and is taken again without the store. */
#include <simba/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tck/fault_wrapper.h"
#include "support.h"

enum { LONG_MS = 60000 };

static simba_locker *locker_new(simba_client *client, const char *id, int64_t linger_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    options.id = id;
    options.timing.linger_ms = linger_ms;
    simba_locker *locker = NULL;
    simba_error err = {0};
    if (simba_locker_new(client, "m", &options, &err, &locker) != 0)
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
    const int rc = simba_locker_acquire(self->locker, self->timeout_ms, &self->err);
    board_lock();
    self->rc = rc;
    board_unlock();
}

static void attempt_begin(struct attempt *self, simba_locker *locker, int64_t timeout_ms)
{
    *self = (struct attempt){.locker = locker, .timeout_ms = timeout_ms, .rc = 1};
    runner_start(&self->runner, attempt, self);
}

static void attempt_start(struct attempt *self, simba_locker *locker, int64_t timeout_ms)
{
    attempt_begin(self, locker, timeout_ms);
    AWAIT(self->rc != 1 || simba_locker_acquire(locker, 0, NULL) == SIMBA_ESTATE);
}

static void attempt_end(struct attempt *self, int rc)
{
    runner_join(&self->runner);
    assert_rc(rc, self->rc);
}

/* --- taking it again ------------------------------------------------------------------------------- */

static void taken_again_under_the_same_token(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *one = locker_new(client, NULL, LONG_MS);
    simba_locker *other = locker_new(client, NULL, LONG_MS);
    assert_string_equal(simba_locker_id(one), simba_locker_id(other));
    assert_rc(0, simba_locker_acquire(one, -1, NULL));
    const uint64_t token = simba_locker_token(one);
    const uint64_t requests = client_stats(client).requests;
    for (int i = 0; i < 100; i++) {
        simba_locker *first = i % 2 ? other : one;
        simba_locker *second = i % 2 ? one : other;
        assert_int_equal(simba_locker_token(first), token);
        assert_int_equal(simba_locker_token(second), 0);
        assert_int_equal(simba_locker_held_for_ms(second), 0);
        assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(second, 0, NULL));
        assert_rc(0, simba_locker_release(first, NULL));
        assert_int_equal(simba_locker_reason(first), SIMBA_REASON_STOPPED);
        assert_int_equal(simba_locker_token(first), 0);
        assert_rc(SIMBA_ESTATE, simba_locker_release(first, NULL));
        assert_rc(0, simba_locker_acquire(second, i % 3 - 1, NULL));
        assert_int_equal(simba_locker_reason(second), SIMBA_REASON_NONE);
    }
    assert_int_equal(client_stats(client).requests, requests);
    assert_int_equal(client_stats(client).contenders, 2);
    simba_locker_free(one);
    simba_locker_free(other);
    client_close(client);
}

/* A program may make a locker for every use. */
static void outlives_its_locker(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    uint64_t token = 0;
    for (int i = 0; i < 10; i++) {
        simba_locker *locker = locker_new(client, NULL, LONG_MS);
        assert_rc(0, simba_locker_acquire(locker, -1, NULL));
        assert_true(i == 0 || simba_locker_token(locker) == token);
        token = simba_locker_token(locker);
        simba_locker_free(locker); /* releases */
    }
    assert_int_equal(client_stats(client).contenders, 0);
    assert_true(is_owned(client, "m"));
    client_close(client);
}

static void given_back_when_it_is_over(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *locker = locker_new(client, NULL, 20);
    assert_rc(0, simba_locker_acquire(locker, -1, NULL));
    const uint64_t token = simba_locker_token(locker);
    assert_rc(0, simba_locker_release(locker, NULL));
    AWAIT(!is_owned(client, "m"));
    assert_rc(0, simba_locker_acquire(locker, -1, NULL));
    assert_true(simba_locker_token(locker) > token);
    simba_locker_free(locker);
    AWAIT(!is_owned(client, "m"));
    client_close(client);
}

static void lockers_with_other_settings_are_others(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *plain = locker_new(client, NULL, 0);
    simba_locker *named = locker_new(client, "named", LONG_MS);
    simba_locker *lingers = locker_new(client, NULL, LONG_MS);
    simba_locker *all[] = {plain, named, lingers};
    uint64_t token = 0;
    assert_string_equal(simba_locker_id(named), "named");
    for (int i = 0; i < 9; i++) { /* each makes the one before it give back what it kept */
        assert_rc(0, simba_locker_acquire(all[i % 3], PATIENCE_MS, NULL));
        assert_true(simba_locker_token(all[i % 3]) > token);
        token = simba_locker_token(all[i % 3]);
        assert_rc(0, simba_locker_release(all[i % 3], NULL));
    }
    for (int i = 0; i < 3; i++)
        simba_locker_free(all[i]);
    client_close(client);
}

/* --- others ------------------------------------------------------------------------------------------ */

static void others_get_it_at_once(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_client *elsewhere = client_open(NULL);
    simba_locker *here = locker_new(client, NULL, LONG_MS);
    simba_locker *there = locker_new(elsewhere, NULL, LONG_MS);
    for (int i = 0; i < 10; i++) {
        assert_rc(0, simba_locker_acquire(here, PATIENCE_MS, NULL));
        assert_rc(0, simba_locker_release(here, NULL));
        assert_rc(0, simba_locker_acquire(there, PATIENCE_MS, NULL)); /* it is kept there, unused */
        struct attempt waiting;
        attempt_start(&waiting, here, PATIENCE_MS);
        assert_int_equal(waiting.rc, 1);
        assert_rc(0, simba_locker_release(there, NULL)); /* to whoever waits */
        attempt_end(&waiting, 0);
        assert_rc(0, simba_locker_release(here, NULL));
    }
    simba_locker_free(here);
    simba_locker_free(there);
    client_close(client);
    client_close(elsewhere);
}

/* One of two that wait in a client gets it and keeps it. The other one has not asked since, and need not wait for the linger. */
static void others_of_the_client_get_it(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_client *elsewhere = client_open(NULL);
    simba_locker *here = locker_new(client, NULL, LONG_MS);
    simba_locker *other = locker_new(client, NULL, 0);
    simba_locker *there = locker_new(elsewhere, NULL, 0);
    assert_rc(0, simba_locker_acquire(there, PATIENCE_MS, NULL));
    struct attempt waiting, waiting_too;
    attempt_begin(&waiting, here, PATIENCE_MS);
    AWAIT(client_stats(client).requests > 0); /* which this store answers in the same turn */
    const uint64_t requests = client_stats(client).requests;
    attempt_begin(&waiting_too, other, PATIENCE_MS);
    AWAIT(client_stats(client).requests > requests);
    assert_rc(0, simba_locker_release(there, NULL));
    attempt_end(&waiting, 0);
    assert_rc(0, simba_locker_release(here, NULL));
    attempt_end(&waiting_too, 0);
    simba_locker_free(here);
    simba_locker_free(other);
    simba_locker_free(there);
    client_close(client);
    client_close(elsewhere);
}

/* Who tries once does not wait, and does not make anybody give back. */
static void trying_once_disturbs_nobody(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_client *elsewhere = client_open(NULL);
    simba_locker *here = locker_new(client, NULL, LONG_MS);
    simba_locker *there = locker_new(elsewhere, NULL, LONG_MS);
    simba_error err = {0};
    assert_rc(0, simba_locker_acquire(here, 0, NULL));
    const uint64_t token = simba_locker_token(here);
    assert_rc(0, simba_locker_release(here, NULL));
    assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(there, 0, &err));
    assert_non_null(strstr(err.text, simba_locker_id(here)));
    assert_rc(0, simba_locker_acquire(here, 0, NULL));
    assert_int_equal(simba_locker_token(here), token);
    struct attempt waiting;
    attempt_start(&waiting, there, PATIENCE_MS); /* while another of its client waits, it is answered as well */
    simba_locker *third = locker_new(elsewhere, NULL, LONG_MS);
    assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(third, 0, NULL));
    assert_rc(0, simba_locker_release(here, NULL));
    attempt_end(&waiting, 0);
    simba_locker_free(third);
    simba_locker_free(here);
    simba_locker_free(there);
    client_close(client);
    client_close(elsewhere);
}

static void in_order_of_arrival(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *lockers[5];
    struct attempt attempts[5];
    for (int i = 0; i < 5; i++)
        lockers[i] = locker_new(client, NULL, LONG_MS);
    assert_rc(0, simba_locker_acquire(lockers[0], -1, NULL));
    const uint64_t token = simba_locker_token(lockers[0]);
    for (int i = 1; i < 5; i++)
        attempt_start(&attempts[i], lockers[i], i == 2 ? 1 : PATIENCE_MS);
    attempt_end(&attempts[2], SIMBA_ETIMEDOUT);
    for (int i = 0; i < 5; i++) {
        if (i == 2)
            continue;
        if (i > 0)
            attempt_end(&attempts[i], 0);
        assert_int_equal(simba_locker_token(lockers[i]), token);
        assert_rc(0, simba_locker_release(lockers[i], NULL));
    }
    for (int i = 0; i < 5; i++)
        simba_locker_free(lockers[i]);
    client_close(client);
}

/* --- many threads ------------------------------------------------------------------------------------- */

struct crowd {
    int inside;
    uint64_t counter;
    struct hand {
        struct crowd *crowd;
        simba_client *client;
        struct runner runner;
    } hands[8];
};

static void hammer(void *arg)
{
    struct hand *self = arg;
    simba_locker *locker = locker_new(self->client, NULL, 5);
    for (int i = 0; i < 200; i++) {
        const int rc = simba_locker_acquire(locker, i % 7 ? PATIENCE_MS : 0, NULL);
        if (rc == SIMBA_ETIMEDOUT && i % 7 == 0)
            continue;
        EXPECT(rc == 0 && ++self->crowd->inside == 1); /* ThreadSanitizer sees two that are inside */
        self->crowd->counter++;
        self->crowd->inside--;
        EXPECT(simba_locker_token(locker) != 0);
        EXPECT(simba_locker_release(locker, NULL) == 0);
    }
    simba_locker_free(locker);
}

static void one_at_a_time(void **state)
{
    (void)state;
    simba_client *clients[2] = {client_open(NULL), client_open(NULL)};
    struct crowd crowd = {0};
    for (int i = 0; i < 8; i++) {
        crowd.hands[i].crowd = &crowd;
        crowd.hands[i].client = clients[i % 2];
        runner_start(&crowd.hands[i].runner, hammer, &crowd.hands[i]);
    }
    for (int i = 0; i < 8; i++)
        runner_join(&crowd.hands[i].runner);
    assert_true(crowd.counter > 0);
    client_close(clients[0]);
    client_close(clients[1]);
}

/* --- losses --------------------------------------------------------------------------------------------- */

static void a_loss_is_told(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_client *elsewhere = client_open(NULL);
    simba_locker *locker = locker_new(client, NULL, LONG_MS);
    simba_error err = {0};
    assert_rc(0, simba_locker_acquire(locker, -1, NULL));
    const uint64_t token = simba_locker_token(locker);
    assert_rc(0, simba_client_force_release(elsewhere, "m", NULL));
    AWAIT(simba_locker_reason(locker) == SIMBA_REASON_REVOKED);
    assert_int_equal(simba_locker_token(locker), 0);
    assert_int_equal(simba_locker_held_for_ms(locker), 0);
    assert_rc(SIMBA_ESTATE, simba_locker_acquire(locker, 0, NULL)); /* not released yet */
    simba_locker *other = locker_new(client, NULL, LONG_MS);
    assert_rc(0, simba_locker_acquire(other, PATIENCE_MS, NULL)); /* a new grant, which is not the first one's */
    assert_true(simba_locker_token(other) > token);
    assert_int_equal(simba_locker_token(locker), 0);
    assert_rc(SIMBA_ELOST, simba_locker_release(locker, &err));
    assert_non_null(strstr(err.text, "revoked"));
    assert_rc(0, simba_locker_release(other, NULL));
    assert_rc(0, simba_client_force_release(elsewhere, "m", NULL)); /* while nobody uses it */
    AWAIT(client_stats(client).held == 0);
    assert_rc(0, simba_locker_acquire(locker, PATIENCE_MS, NULL));
    simba_locker_free(other);
    simba_locker_free(locker);
    client_close(client);
    client_close(elsewhere);
}

/* S2: what the client has kept is not handed out when its lease is over, whatever the store knows. */
static void an_expired_lease_is_not_taken(void **state)
{
    (void)state;
    tck_fault *fault = NULL;
    assert_rc(0, tck_fault_new(store_url(), NULL, NULL, NULL, &fault));
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.timing = lease(60, 40);
    options.timing.linger_ms = LONG_MS;
    simba_client *client = NULL;
    assert_rc(0, simba_client_open(tck_fault_url(fault), &options, NULL, &client));
    simba_locker *locker = locker_new(client, NULL, SIMBA_INHERIT);
    simba_locker *user = locker_new(client, "user", SIMBA_INHERIT);
    (void)user;
    assert_rc(0, simba_locker_acquire(locker, -1, NULL));
    assert_rc(0, simba_locker_release(locker, NULL));
    const uint64_t renewed = tck_fault_count(fault, SIMBA_OP_RENEW, TCK_WON);
    AWAIT(tck_fault_count(fault, SIMBA_OP_RENEW, TCK_WON) > renewed); /* renewed as before */
    tck_fault_cut(fault, TCK_CUT_REFUSE);
    AWAIT(client_stats(client).held == 0);
    assert_rc(SIMBA_EUNAVAILABLE, simba_locker_acquire(locker, 0, NULL));
    assert_int_equal(simba_locker_token(locker), 0);
    tck_fault_heal(fault);
    assert_rc(0, simba_locker_acquire(locker, PATIENCE_MS, NULL));
    tck_fault_cut(fault, TCK_CUT_REFUSE);
    AWAIT(simba_locker_reason(locker) == SIMBA_REASON_EXPIRED);
    tck_fault_heal(fault);
    assert_rc(SIMBA_ELOST, simba_locker_release(locker, NULL));
    simba_locker_free(user);
    simba_locker_free(locker);
    simba_client_close(client);
    tck_fault_free(fault);
}

/* --- notes ------------------------------------------------------------------------------------------------ */

static void assert_note(simba_client *client, const char *text)
{
    simba_note note = SIMBA_NOTE_INIT;
    assert_rc(0, simba_client_note(client, "m", NULL, &note));
    assert_string_equal(note.bytes, text);
}

/* S8: whoever has it writes, and nobody else of those who share the grant. */
static void the_note_is_its_users(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *one = locker_new(client, NULL, LONG_MS);
    simba_locker *other = locker_new(client, NULL, LONG_MS);
    assert_rc(0, simba_locker_acquire(one, -1, NULL));
    assert_rc(0, simba_locker_note_set(one, "one", 3, NULL));
    assert_rc(SIMBA_ESTATE, simba_locker_note_set(other, "no", 2, NULL));
    assert_rc(0, simba_locker_release(one, NULL));
    assert_rc(SIMBA_ESTATE, simba_locker_note_set(one, "no", 2, NULL));
    assert_rc(0, simba_locker_acquire(other, -1, NULL));
    assert_note(client, "one");
    assert_rc(0, simba_locker_note_set(other, "other", 5, NULL));
    assert_rc(SIMBA_ESTATE, simba_locker_note_set(one, "no", 2, NULL));
    assert_note(client, "other");
    simba_locker_free(one);
    simba_locker_free(other);
    client_close(client);
}

struct writing {
    simba_locker *locker;
    int rc;
    struct runner runner;
};

static void write_it(void *arg)
{
    struct writing *self = arg;
    self->rc = simba_locker_note_set(self->locker, "late", 4, NULL);
}

/* S8: a write that is under way when its locker releases, or that went unanswered, cannot change the note under the next
 * one: that has another grant. And a write that begins after the release is refused. */
static void a_late_note_is_not_the_next_ones(void **state)
{
    (void)state;
    tck_fault *fault = NULL;
    assert_rc(0, tck_fault_new(store_url(), NULL, NULL, NULL, &fault));
    simba_client *client = NULL;
    assert_rc(0, simba_client_open(tck_fault_url(fault), NULL, NULL, &client));
    simba_locker *one = locker_new(client, NULL, LONG_MS);
    simba_locker *other = locker_new(client, NULL, LONG_MS);
    assert_rc(0, simba_locker_acquire(one, -1, NULL));
    const uint64_t token = simba_locker_token(one);
    tck_fault_hold(fault, SIMBA_OP_WRITE_NOTE);
    struct writing writing = {.locker = one};
    runner_start(&writing.runner, write_it, &writing);
    AWAIT(tck_fault_count(fault, SIMBA_OP_WRITE_NOTE, TCK_HELD) == 1);
    assert_rc(0, simba_locker_release(one, NULL));
    assert_rc(0, simba_locker_acquire(other, PATIENCE_MS, NULL));
    assert_true(simba_locker_token(other) > token);
    tck_fault_let_go(fault, SIMBA_OP_WRITE_NOTE);
    runner_join(&writing.runner);
    tck_fault_lose_reply_nth(fault, SIMBA_OP_WRITE_NOTE, 1);
    assert_true(simba_locker_note_set(other, "lost", 4, NULL) < 0);
    const uint64_t second = simba_locker_token(other);
    assert_rc(0, simba_locker_release(other, NULL));
    assert_rc(0, simba_locker_acquire(one, PATIENCE_MS, NULL));
    assert_true(simba_locker_token(one) > second);

    tck_fault_hold(fault, SIMBA_OP_READ_NOTE); /* the first write of a grant reads first: meanwhile it is released */
    const uint64_t third = simba_locker_token(one);
    runner_start(&writing.runner, write_it, &writing);
    AWAIT(tck_fault_count(fault, SIMBA_OP_READ_NOTE, TCK_HELD) == 1);
    assert_rc(0, simba_locker_release(one, NULL));
    assert_rc(0, simba_locker_acquire(other, PATIENCE_MS, NULL));
    assert_int_equal(simba_locker_token(other), third);
    tck_fault_let_go(fault, SIMBA_OP_READ_NOTE);
    runner_join(&writing.runner);
    assert_rc(SIMBA_ELOST, writing.rc);
    simba_locker_free(one);
    simba_locker_free(other);
    simba_client_close(client);
    tck_fault_free(fault);
}

/* --- the end ------------------------------------------------------------------------------------------------ */

static void closing_gives_back(void **state)
{
    (void)state;
    simba_client *witness = client_open(NULL);
    for (int used = 0; used < 3; used++) {
        simba_client *client = client_open(NULL);
        simba_locker *locker = locker_new(client, NULL, LONG_MS);
        simba_locker *other = locker_new(client, NULL, LONG_MS);
        struct attempt waiting;
        assert_rc(0, simba_locker_acquire(locker, -1, NULL));
        if (used == 2)
            attempt_start(&waiting, other, -1);
        if (used == 0)
            assert_rc(0, simba_locker_release(locker, NULL));
        assert_rc(0, simba_client_close(client));
        assert_false(is_owned(witness, "m"));
        if (used == 2)
            attempt_end(&waiting, SIMBA_ECLOSED);
        assert_int_equal(simba_locker_token(locker), 0);
        assert_rc(SIMBA_ECLOSED, simba_locker_acquire(locker, 0, NULL));
        assert_rc(SIMBA_ECLOSED, simba_locker_release(locker, NULL));
        simba_locker_free(locker);
        simba_locker_free(other);
    }
    client_close(witness);
}

static void a_loop_drives_it(void **state)
{
    (void)state;
    simba_client *client = client_open_form(SIMBA_DISPATCH_FD);
    simba_client *witness = client_open(NULL);
    simba_locker *locker = locker_new(client, NULL, 20);
    assert_rc(0, simba_locker_acquire(locker, -1, NULL));
    assert_rc(0, simba_locker_release(locker, NULL));
    assert_rc(0, simba_locker_acquire(locker, -1, NULL));
    assert_rc(0, simba_locker_release(locker, NULL));
    while (is_owned(witness, "m")) /* the watchdog of the test has the patience */
        simba_client_dispatch(client);
    simba_locker_free(locker);
    client_close(client);
    client_close(witness);
}

static void a_child_has_none_of_it(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker *locker = locker_new(client, NULL, LONG_MS);
    assert_rc(0, simba_locker_acquire(locker, -1, NULL));
    const uint64_t token = simba_locker_token(locker);
    const pid_t child = fork();
    if (child == 0) {
        const bool right = simba_locker_token(locker) == 0 && simba_locker_held_for_ms(locker) == 0 &&
                           simba_locker_release(locker, NULL) == SIMBA_EFORKED &&
                           simba_locker_acquire(locker, 0, NULL) == SIMBA_EFORKED;
        simba_locker_free(locker);
        _exit(right ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(simba_locker_token(locker), token);
    simba_locker_free(locker);
    client_close(client);
}

/* --- settings ------------------------------------------------------------------------------------------------- */

static void what_is_refused(void **state)
{
    (void)state;
    simba_client *client = client_open(NULL);
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    simba_error err = {0};
    static const int64_t wrong[] = {-1, SIMBA_LINGER_MAX_MS + 1, INT64_MAX, INT64_MIN + 1};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        options.timing.linger_ms = wrong[i];
        assert_rc(SIMBA_EINVAL, simba_locker_new(client, "m", &options, &err, &locker));
        assert_non_null(strstr(err.text, "linger"));
    }
    options.timing.linger_ms = 10;
    options.min_hold_ms = 10;
    assert_rc(SIMBA_EINVAL, simba_locker_new(client, "m", &options, &err, &locker));
    assert_non_null(strstr(err.text, "min_hold_ms"));
    options.min_hold_ms = 0;
    options.once_per_ms = 10;
    assert_rc(SIMBA_EINVAL, simba_locker_new(client, "m", &options, &err, &locker));
    assert_non_null(strstr(err.text, "once_per_ms"));
    options.once_per_ms = 0;
    options.timing.hold_limit_ms = 10;
    assert_rc(SIMBA_EINVAL, simba_locker_new(client, "m", &options, &err, &locker));
    assert_non_null(strstr(err.text, "hold_limit_ms"));
    assert_int_equal(client_stats(client).contenders, 0);
    client_close(client);
}

static void a_url_can_say_it(void **state)
{
    (void)state;
    char url[256];
    simba_client *client = NULL;
    simba_error err = {0};
    snprintf(url, sizeof url, "%s?linger=2h", store_url());
    assert_rc(SIMBA_EURL, simba_client_open(url, NULL, &err, &client));
    assert_non_null(strstr(err.text, "linger is 7200000 ms"));
    snprintf(url, sizeof url, "%s?linger=1m", store_url());
    assert_rc(0, simba_client_open(url, NULL, &err, &client));
    simba_settings settings = SIMBA_SETTINGS_INIT;
    assert_rc(0, simba_client_settings(client, &settings));
    assert_int_equal(settings.timing.linger_ms, 60000);
    simba_locker *locker = locker_new(client, NULL, SIMBA_INHERIT);
    assert_rc(0, simba_locker_acquire(locker, -1, NULL));
    assert_rc(0, simba_locker_release(locker, NULL));
    assert_true(is_owned(client, "m"));
    simba_locker *plain = locker_new(client, NULL, 0);
    assert_rc(0, simba_locker_acquire(plain, PATIENCE_MS, NULL));
    assert_rc(0, simba_locker_release(plain, NULL));
    assert_false(is_owned(client, "m"));
    simba_locker_free(plain);
    simba_locker_free(locker);

    /* What a rule of its own forbids, a locker does not inherit. */
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    options.min_hold_ms = 1;
    assert_rc(0, simba_locker_new(client, "m", &options, NULL, &locker));
    simba_locker_free(locker);
    client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(taken_again_under_the_same_token),
        TEST(outlives_its_locker),
        TEST(given_back_when_it_is_over),
        TEST(lockers_with_other_settings_are_others),
        TEST(others_get_it_at_once),
        TEST(others_of_the_client_get_it),
        TEST(trying_once_disturbs_nobody),
        TEST(in_order_of_arrival),
        TEST(one_at_a_time),
        TEST(a_loss_is_told),
        TEST(an_expired_lease_is_not_taken),
        TEST(the_note_is_its_users),
        TEST(a_late_note_is_not_the_next_ones),
        TEST(closing_gives_back),
        TEST(a_loop_drives_it),
        TEST(a_child_has_none_of_it),
        TEST(what_is_refused),
        TEST(a_url_can_say_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
