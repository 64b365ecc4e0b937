/* Lockers with slots: at most N hold a mutex, in the order in which they came, and all agree on N. */
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { MAX = 8 };

static simba_locker *locker_new(simba_client *client, int64_t slots)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    simba_error err = {0};
    options.slots = slots;
    if (simba_locker_new(client, "m", &options, &err, &locker) != 0)
        fail_msg("cannot make a locker: %s", err.text);
    return locker;
}

/* A thread in acquire. */
struct attempt {
    simba_locker *locker;
    int rc;
    bool done;
    struct runner runner;
};

static void attempt(void *arg)
{
    struct attempt *self = arg;
    const int rc = simba_locker_acquire(self->locker, -1, NULL);
    board_lock();
    self->rc = rc;
    self->done = true;
    board_unlock();
}

static void attempt_start(struct attempt *self, simba_locker *locker)
{
    *self = (struct attempt){.locker = locker, .rc = 1};
    runner_start(&self->runner, attempt, self);
}

/* Three slots: the fourth is refused, and what a locker shows is its slot's. */
static void at_most_so_many(void **state)
{
    simba_client *client = client_open(NULL);
    simba_locker *locker[4];
    simba_error err = {0};
    unsigned seen = 0;
    for (int i = 0; i < 4; i++)
        locker[i] = locker_new(client, 3);
    for (int i = 0; i < 3; i++) {
        char slot[8];
        simba_owner owner;
        assert_rc(0, simba_locker_acquire(locker[i], 0, &err));
        assert_in_range(simba_locker_slot(locker[i]), 1, 3);
        seen |= 1U << simba_locker_slot(locker[i]);
        assert_true(simba_locker_token(locker[i]) > 0);
        assert_true(simba_locker_held_for_ms(locker[i]) > 0);
        assert_int_equal(0, simba_locker_owner(locker[i], &owner));
        assert_string_equal(owner.id, simba_locker_id(locker[i]));
        snprintf(slot, sizeof slot, "m#%d", simba_locker_slot(locker[i]));
        assert_true(is_owned(client, slot));
        assert_rc(SIMBA_ESTATE, simba_locker_acquire(locker[i], 0, NULL));
    }
    assert_int_equal(seen, 0xe);
    assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(locker[3], 0, &err));
    assert_string_equal(err.text, "acquire m: all its 3 slots are taken");
    assert_int_equal(simba_locker_slot(locker[3]), 0);
    assert_int_equal(simba_locker_held_for_ms(locker[3]), 0);
    assert_rc(SIMBA_ESTATE, simba_locker_release(locker[3], NULL));
    const int freed = simba_locker_slot(locker[1]);
    assert_rc(0, simba_locker_release(locker[1], &err));
    assert_int_equal(simba_locker_slot(locker[1]), 0);
    assert_int_equal(simba_locker_reason(locker[1]), SIMBA_REASON_STOPPED);
    assert_rc(0, simba_locker_acquire(locker[3], 0, &err));
    assert_int_equal(simba_locker_slot(locker[3]), freed);
    for (int i = 0; i < 4; i++)
        simba_locker_free(locker[i]);
    client_close(client);
}

/* While it waits inside of the turnstile, a locker holds nothing that it would show. */
static void the_turnstile_is_not_held(void **state)
{
    simba_client *client = client_open(NULL);
    simba_locker *holder = locker_new(client, 1), *waiter = locker_new(client, 1);
    struct attempt waits;
    assert_rc(0, simba_locker_acquire(holder, -1, NULL));
    AWAIT(!is_owned(client, "m"));
    attempt_start(&waits, waiter);
    AWAIT(is_owned(client, "m"));
    assert_int_equal(simba_locker_held_for_ms(waiter), 0);
    assert_int_equal(simba_locker_token(waiter), 0);
    assert_int_equal(simba_locker_slot(waiter), 0);
    assert_rc(SIMBA_ESTATE, simba_locker_release(waiter, NULL));
    assert_rc(0, simba_locker_cancel(waiter));
    runner_join(&waits.runner);
    assert_rc(SIMBA_ECANCELED, waits.rc);
    AWAIT(!is_owned(client, "m"));
    simba_locker_free(waiter);
    simba_locker_free(holder);
    client_close(client);
}

/* Who came first gets the next slot, whichever it is; each release lets one in. */
static void in_order(void **state)
{
    simba_client *client = client_open(NULL);
    simba_locker *holder[2] = {locker_new(client, 2), locker_new(client, 2)};
    simba_locker *first = locker_new(client, 2), *second = locker_new(client, 2);
    struct attempt one, two;
    assert_rc(0, simba_locker_acquire(holder[0], -1, NULL));
    assert_rc(0, simba_locker_acquire(holder[1], -1, NULL));
    AWAIT(!is_owned(client, "m"));
    attempt_start(&one, first);
    AWAIT(is_owned(client, "m"));
    attempt_start(&two, second);
    AWAIT(client_stats(client).waiting > 0);
    assert_rc(0, simba_locker_release(holder[1], NULL));
    AWAIT(one.done);
    assert_rc(0, one.rc);
    AWAIT(is_owned(client, "m")); /* by the second, which was behind */
    assert_false(two.done);
    assert_rc(0, simba_locker_release(holder[0], NULL));
    AWAIT(two.done);
    assert_rc(0, two.rc);
    assert_int_not_equal(simba_locker_slot(first), simba_locker_slot(second));
    runner_join(&one.runner);
    runner_join(&two.runner);
    simba_locker_free(first);
    simba_locker_free(second);
    simba_locker_free(holder[0]);
    simba_locker_free(holder[1]);
    client_close(client);
}

/* Those who count different slots would let in more than any of them wants. */
static void all_agree_on_the_number(void **state)
{
    simba_client *client = client_open(NULL);
    simba_locker *three = locker_new(client, 3), *four = locker_new(client, 4);
    simba_locker_options plain = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *other = NULL;
    simba_error err = {0};
    assert_rc(0, simba_locker_acquire(three, -1, NULL));
    assert_rc(SIMBA_ESTATE, simba_locker_acquire(four, -1, &err));
    assert_string_equal(err.text, "m has 3 slots, not 4: ask for 3, or forget m when nobody holds or wants a slot");
    assert_int_equal(simba_locker_slot(four), 0);
    assert_rc(0, simba_locker_release(three, NULL));
    AWAIT(!is_owned(client, "m"));
    assert_rc(0, simba_locker_new(client, "m", &plain, &err, &other));
    assert_rc(0, simba_locker_acquire(other, -1, &err));
    assert_rc(0, simba_locker_note_set(other, "notes of my own", 15, &err));
    assert_rc(0, simba_locker_release(other, &err));
    assert_rc(SIMBA_ESTATE, simba_locker_acquire(three, -1, &err));
    assert_non_null(strstr(err.text, "note of its own"));
    simba_locker_free(three);
    simba_locker_free(four);
    simba_locker_free(other);
    client_close(client);
}

static void bad_options(void **state)
{
    static const struct {
        int64_t slots, once_per_ms;
        const char *mutex, *text;
    } bad[] = {
        {-1, 0, "m", "slots is -1; it must be from 0 to 256"},
        {257, 0, "m", "slots is 257; it must be from 0 to 256"},
        {2, 1000, "m", "slots and once_per_ms exclude each other"},
        {10, 0, "0123456789012345678901234567890123456789012345678901234567890123",
         "characters"}, /* 64, #10 is too long */
    };
    simba_client *client = client_open(NULL);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
        simba_locker *locker = NULL;
        simba_error err = {0};
        options.slots = bad[i].slots;
        options.once_per_ms = bad[i].once_per_ms;
        assert_rc(SIMBA_EINVAL, simba_locker_new(client, bad[i].mutex, &options, &err, &locker));
        assert_null(locker);
        if (!strstr(err.text, bad[i].text))
            fail_msg("%s", err.text);
    }
    client_close(client);
}

/* Many threads, few slots: never more inside than there are slots. */
struct crowd {
    simba_client *client;
    struct runner runner;
    int *inside, *most, *total;
};

static void come_and_go(void *arg)
{
    struct crowd *self = arg;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    options.slots = 3;
    EXPECT(simba_locker_new(self->client, "m", &options, NULL, &locker) == 0);
    for (int i = 0; i < 20; i++) {
        EXPECT(simba_locker_acquire(locker, -1, NULL) == 0);
        board_lock();
        ++*self->total;
        if (++*self->inside > *self->most)
            *self->most = *self->inside;
        board_unlock();
        board_lock();
        --*self->inside;
        board_unlock();
        EXPECT(simba_locker_release(locker, NULL) == 0);
    }
    simba_locker_free(locker);
}

static void a_crowd(void **state)
{
    struct crowd crowd[MAX];
    int inside = 0, most = 0, total = 0;
    simba_client *client = client_open(NULL);
    for (int i = 0; i < MAX; i++) {
        crowd[i] = (struct crowd){.client = client, .inside = &inside, .most = &most, .total = &total};
        runner_start(&crowd[i].runner, come_and_go, &crowd[i]);
    }
    for (int i = 0; i < MAX; i++)
        runner_join(&crowd[i].runner);
    assert_int_equal(total, MAX * 20);
    assert_in_range(most, 1, 3);
    client_close(client);
}

/* --- a store that answers as a test tells it to ------------------------------------------------------ */

/* It grants everything but m#1: that is taken, or it says nothing, or that it refuses for good. */
enum say { TAKEN, NOTHING, REFUSED, AWAY, MINE };

static _Atomic(enum say) says;
static atomic_uint notes_read, asked, released;

struct teller {
    simba_request *silent; /* waits for an answer */
    uint64_t token;
};

static void answer(struct teller *store, simba_request *request, enum say say)
{
    simba_reply *reply = &request->reply;
    *reply = (simba_reply){.now_ms = stub_host->epoch_us(stub_host) / 1000};
    reply->outcome = request->op == SIMBA_OP_READ_NOTE ? SIMBA_NOT_MINE : SIMBA_MINE;
    if (say == REFUSED || say == AWAY) {
        (stub_host->fail)(stub_host, request, say == AWAY ? SIMBA_EUNAVAILABLE : SIMBA_EPERM, "not for you");
        return;
    }
    if (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW) {
        reply->outcome = say == MINE ? SIMBA_MINE : SIMBA_NOT_MINE;
        reply->owner.token = ++store->token;
        strcpy(reply->owner.id, say == MINE ? request->id : "another");
        reply->owner.ttl_at_ms = reply->now_ms + (say == MINE ? request->ttl_ms : 20); /* the waiter asks again soon */
        reply->owner.transition_at_ms = reply->owner.ttl_at_ms + (say == MINE ? request->transition_ms : 20);
    }
    stub_host->complete(stub_host, request);
}

static void teller_submit(void *self, simba_request *request)
{
    struct teller *store = self;
    const bool of_slot = strcmp(request->mutex, "m#1") == 0;
    if (request->op == SIMBA_OP_ACQUIRE && of_slot) {
        const enum say say = atomic_load(&says);
        atomic_fetch_add(&asked, 1);
        if (say == NOTHING)
            store->silent = request;
        else
            answer(store, request, say);
        return;
    }
    atomic_fetch_add(&notes_read, request->op == SIMBA_OP_READ_NOTE);
    atomic_fetch_add(&released, of_slot && request->op == SIMBA_OP_RELEASE);
    answer(store, request, MINE);
}

static void teller_woken(void *self)
{
    struct teller *store = self;
    simba_request *request = store->silent;
    store->silent = NULL;
    if (request)
        answer(store, request, TAKEN);
}

static int register_teller(void **state)
{
    static const char *const schemes[] = {"teller", NULL};
    return stub_register((simba_backend){
        .schemes = schemes,
        .instance_size = sizeof(struct teller),
        .caps = SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_NOTE,
        .submit = teller_submit,
        .woken = teller_woken,
    });
}

static simba_client *open_teller(enum say say)
{
    simba_client *client = NULL;
    simba_error err = {0};
    atomic_store(&says, say);
    atomic_store(&notes_read, 0);
    atomic_store(&asked, 0);
    atomic_store(&released, 0);
    if (simba_client_open("teller://here", NULL, &err, &client) < 0)
        fail_msg("%s", err.text);
    return client;
}

/* Who waits for a slot and is refused it for good is told so, as with any mutex, and does not wait for ever. */
static void a_waiter_is_told_of_an_error(void **state)
{
    simba_client *client = open_teller(TAKEN);
    simba_locker *locker = locker_new(client, 1);
    struct attempt waits;
    attempt_start(&waits, locker);
    AWAIT(atomic_load(&asked) > 0);
    assert_false(waits.done);
    atomic_store(&says, REFUSED);
    AWAIT(waits.done);
    runner_join(&waits.runner);
    assert_rc(SIMBA_EPERM, waits.rc);
    simba_locker_free(locker);
    client_close(client);
}

/* That a slot was taken when the attempt before asked for it tells this one nothing: it asks once more. */
static void a_late_answer_is_not_believed(void **state)
{
    simba_client *client = open_teller(NOTHING);
    simba_locker *locker = locker_new(client, 1);
    struct attempt waits;
    assert_rc(SIMBA_EUNAVAILABLE, simba_locker_acquire(locker, 30, NULL));
    assert_int_equal(atomic_load(&asked), 1);
    attempt_start(&waits, locker);
    AWAIT(atomic_load(&notes_read) == 2);
    assert_rc(SIMBA_ESTATE, simba_locker_acquire(locker, 0, NULL)); /* so it has got on to the slot */
    atomic_store(&says, MINE);
    stub_host->wake(stub_host);
    AWAIT(waits.done);
    runner_join(&waits.runner);
    assert_rc(0, waits.rc);
    assert_int_equal(simba_locker_slot(locker), 1);
    assert_int_equal(atomic_load(&asked), 2);
    simba_locker_free(locker);
    client_close(client);
}

/* A part of the store that cannot be asked for its slot does not keep anybody from the others. */
static void a_part_of_the_store_is_away(void **state)
{
    simba_client *client = open_teller(AWAY);
    for (int i = 0; i < 20; i++) { /* which slot comes first is chance */
        simba_locker *locker = locker_new(client, 2);
        assert_rc(0, simba_locker_acquire(locker, -1, NULL));
        assert_int_equal(simba_locker_slot(locker), 2);
        simba_locker_free(locker);
    }
    assert_true(atomic_load(&asked) > 0);
    simba_locker *locker = locker_new(client, 1);
    assert_rc(SIMBA_EUNAVAILABLE, simba_locker_acquire(locker, 30, NULL));
    simba_locker_free(locker);
    client_close(client);
}

/* The delay before an acquire is one, however many slots are asked for. */
static void one_delay(void **state)
{
    enum { SLOTS = 8, DELAY_MS = 500 };
    simba_client *client = client_open(NULL);
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *holder[SLOTS], *late = NULL;
    for (int i = 0; i < SLOTS; i++) {
        holder[i] = locker_new(client, SLOTS);
        assert_rc(0, simba_locker_acquire(holder[i], -1, NULL));
    }
    options.slots = SLOTS;
    options.timing.initial_delay_ms = DELAY_MS;
    assert_rc(0, simba_locker_new(client, "m", &options, NULL, &late));
    const int64_t began_at = now_ms();
    assert_rc(SIMBA_ETIMEDOUT, simba_locker_acquire(late, 0, NULL));
    assert_in_range(now_ms() - began_at, DELAY_MS, SLOTS * DELAY_MS);
    simba_locker_free(late);
    for (int i = 0; i < SLOTS; i++)
        simba_locker_free(holder[i]);
    client_close(client);
}

/* Who waits for a slot may wait for longer than a slot may be held, and stays the next. */
static void the_hold_limit_is_the_slots(void **state)
{
    simba_client *client = client_open(NULL);
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *holder = locker_new(client, 1), *waiter = NULL;
    simba_lease lease = SIMBA_LEASE_INIT;
    struct attempt waits;
    options.slots = 1;
    options.timing.ttl_ms = 100;
    options.timing.hold_limit_ms = 100;
    assert_rc(0, simba_locker_new(client, "m", &options, NULL, &waiter));
    assert_rc(0, simba_locker_acquire(holder, -1, NULL));
    AWAIT(!is_owned(client, "m"));
    attempt_start(&waits, waiter);
    AWAIT(is_owned(client, "m"));
    const int64_t until = now_ms() + 300;
    assert_false(WITHIN(300, !is_owned(client, "m")));
    assert_true(now_ms() >= until);
    assert_rc(0, simba_locker_release(holder, NULL));
    AWAIT(waits.done);
    assert_rc(0, waits.rc);
    AWAIT(simba_locker_lease(waiter, &lease) == 0 && lease.held_for_ms == 0); /* its limit */
    assert_int_equal(simba_locker_reason(waiter), SIMBA_REASON_HOLD_LIMIT);
    runner_join(&waits.runner);
    simba_locker_free(waiter);
    simba_locker_free(holder);
    client_close(client);
}

/* A child process has nothing of what its parent holds, and frees what it does not want. */
static void not_the_child_s(void **state)
{
    simba_client *client = client_open(NULL);
    simba_locker *locker = locker_new(client, 2);
    int status = -1;
    assert_rc(0, simba_locker_acquire(locker, -1, NULL));
    const pid_t child = fork();
    if (child == 0) {
        const bool good = simba_locker_slot(locker) == 0 && simba_locker_token(locker) == 0 &&
                          simba_locker_acquire(locker, 0, NULL) == SIMBA_EFORKED &&
                          simba_locker_release(locker, NULL) == SIMBA_EFORKED;
        simba_locker_free(locker);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_in_range(simba_locker_slot(locker), 1, 2);
    simba_locker_free(locker);
    client_close(client);
}

/* Close while one waits in the turnstile, and one behind it. */
static void closed_while_they_wait(void **state)
{
    simba_client *client = client_open(NULL);
    simba_locker *holder = locker_new(client, 2), *other = locker_new(client, 2);
    simba_locker *first = locker_new(client, 2), *second = locker_new(client, 2);
    struct attempt one, two;
    assert_rc(0, simba_locker_acquire(holder, -1, NULL));
    assert_rc(0, simba_locker_acquire(other, -1, NULL));
    AWAIT(!is_owned(client, "m"));
    attempt_start(&one, first);
    AWAIT(is_owned(client, "m"));
    attempt_start(&two, second);
    AWAIT(client_stats(client).waiting > 2);
    simba_client_close(client);
    runner_join(&one.runner);
    runner_join(&two.runner);
    assert_rc(SIMBA_ECLOSED, one.rc);
    assert_rc(SIMBA_ECLOSED, two.rc);
    simba_locker_free(first);
    simba_locker_free(second);
    simba_locker_free(holder);
    simba_locker_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(at_most_so_many),
        TEST(the_turnstile_is_not_held),
        TEST(in_order),
        TEST(all_agree_on_the_number),
        TEST(bad_options),
        TEST(a_crowd),
        TEST(a_waiter_is_told_of_an_error),
        TEST(a_late_answer_is_not_believed),
        TEST(a_part_of_the_store_is_away),
        TEST(one_delay),
        TEST(the_hold_limit_is_the_slots),
        TEST(closed_while_they_wait),
        TEST(not_the_child_s),
    };
    return cmocka_run_group_tests(tests, register_teller, NULL);
}
