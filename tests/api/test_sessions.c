/* Where leases are sessions: what the client makes of what a store says about its session. The store here has no server, and does
 * what a test tells it to. */
#include <simba/backend.h>
#include <stdatomic.h>

#include "api/support.h"

enum { SESSION_MS = 100000, AGO_MS = 20000 };

struct store {
    simba_request *kept;
};

static void (*order)(struct store *store); /* to be carried out under the client's lock */
static atomic_bool grants, keeps;
static uint64_t nonces[16];
static atomic_uint acquires, releases;

/* --- the store ------------------------------------------------------------------------------------ */

static void answer(struct store *store, simba_request *request, bool mine)
{
    simba_owner owner = {.token = 7, .ttl_at_ms = INT64_MAX, .transition_at_ms = INT64_MAX};
    strcpy(owner.id, mine ? request->id : "somebody-else");
    request->reply = (simba_reply){
        .outcome = mine ? SIMBA_MINE : SIMBA_NOT_MINE, .owner = owner, .now_ms = stub_host->epoch_us(stub_host) / 1000};
    stub_host->complete(stub_host, request);
}

static void store_submit(void *self, simba_request *request)
{
    struct store *store = self;
    if (request->op == SIMBA_OP_ACQUIRE) {
        nonces[atomic_load(&acquires) % COUNT_OF(nonces)] = request->nonce;
        store->kept = atomic_load(&keeps) ? request : NULL;
        atomic_fetch_add(&acquires, 1);
        if (!store->kept)
            answer(store, request, atomic_load(&grants));
    } else {
        if (request->op == SIMBA_OP_RELEASE)
            atomic_fetch_add(&releases, 1);
        answer(store, request, true);
    }
}

static void store_expire(void *self, simba_request *request)
{
    struct store *store = self;
    if (store->kept == request)
        store->kept = NULL;
    (stub_host->fail)(stub_host, request, SIMBA_ETIMEDOUT, "nothing: no answer in time");
}

static void store_woken(void *self)
{
    if (order)
        order(self);
    board_lock();
    order = NULL;
    board_unlock();
}

static int64_t store_session_ms(void *self)
{
    return SESSION_MS;
}

static int register_store(void **state)
{
    static const char *const schemes[] = {"session", NULL};
    return stub_register((simba_backend){.schemes = schemes,
                                         .instance_size = sizeof(struct store),
                                         .caps = SIMBA_CAP_PUSH | SIMBA_CAP_SESSION | SIMBA_CAP_QUEUE,
                                         .submit = store_submit,
                                         .expire = store_expire,
                                         .woken = store_woken,
                                         .session_ms = store_session_ms});
}

static simba_client *open_store(void)
{
    simba_client *client = NULL;
    simba_error err = {0};
    atomic_store(&grants, true);
    atomic_store(&keeps, false);
    atomic_store(&acquires, 0);
    atomic_store(&releases, 0);
    if (simba_client_open("session://here", NULL, &err, &client) < 0)
        fail_msg("%s", err.text);
    return client;
}

/* Have the store carry it out, and wait until it has. */
static void have_done(void (*what)(struct store *store))
{
    board_lock();
    order = what;
    board_unlock();
    stub_host->wake(stub_host);
    AWAIT(!order);
}

/* --- what a store says ------------------------------------------------------------------------------ */

static void say_session(struct store *store)
{
    const simba_local now = stub_host->now(stub_host);
    stub_host->session(stub_host, (simba_local){now.ns - AGO_MS * INT64_C(1000000)}, SESSION_MS);
}

static void lose_session_and_grant(struct store *store)
{
    simba_request *request = store->kept;
    store->kept = NULL;
    atomic_store(&keeps, false);
    atomic_store(&grants, false);
    stub_host->push(stub_host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_LOST});
    answer(store, request, true);
}

static void invite_the_second(struct store *store)
{
    stub_host->push_to(stub_host, "m", nonces[1], &(simba_push){.kind = SIMBA_PUSH_RELEASED});
}

/* --- tests ----------------------------------------------------------------------------------------- */

/* The store began to count before it said so, and its clock may run faster than ours by a hundredth. */
static void a_session_counts_from_its_beginning(void **state)
{
    simba_client *client = open_store();
    simba_locker *locker = NULL;
    simba_error err = {0};
    have_done(say_session);
    assert_rc(0, simba_locker_new(client, "m", NULL, &err, &locker));
    assert_rc(0, simba_locker_acquire(locker, 0, &err));
    const int64_t held_ms = simba_locker_held_for_ms(locker);
    assert_true(held_ms <= SESSION_MS - SESSION_MS / 100 - AGO_MS && held_ms > 0);
    assert_rc(0, simba_locker_release(locker, &err));
    simba_locker_free(locker);
    client_close(client);
}

/* A grant belongs to the session in which it was asked for. If that is over, nobody leads by it, and it is given back. */
static void a_grant_of_a_lost_session_is_none(void **state)
{
    simba_client *client = open_store();
    have_done(say_session);
    atomic_store(&keeps, true);
    struct player *player = player_start(client, "m");
    AWAIT(atomic_load(&acquires) == 1);
    have_done(lose_session_and_grant);
    AWAIT(atomic_load(&releases) == 1);
    board_lock();
    assert_int_equal(player->acquired, 0);
    board_unlock();
    player_free(player);
    client_close(client);
}

/* Of several contenders for a mutex, only the one that the store means asks. */
static void an_invitation_is_for_one_contender(void **state)
{
    simba_client *client = open_store();
    have_done(say_session);
    atomic_store(&grants, false);
    struct player *first = player_start(client, "m");
    AWAIT(atomic_load(&acquires) == 1);
    struct player *second = player_start(client, "m");
    AWAIT(atomic_load(&acquires) == 2);
    have_done(invite_the_second);
    AWAIT(atomic_load(&acquires) == 3);
    assert_true(nonces[0] != nonces[1] && nonces[2] == nonces[1]);
    player_free(second);
    player_free(first);
    client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_session_counts_from_its_beginning),
        TEST(a_grant_of_a_lost_session_is_none),
        TEST(an_invitation_is_for_one_contender),
    };
    return cmocka_run_group_tests(tests, register_store, NULL);
}
