/* What a store says is checked before anybody acts on it: a store that is broken, or not what the URL says it is, must not
 * make anyone lead. The store here grants everything, and garbles its answers as a test tells it to. */
#include <simba/backend.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "api/support.h"

enum { TTL_MS = 400, TRANSITION_MS = 300 }; /* a busy machine renews once within it */

typedef void (*garble_fn)(const simba_request *request, simba_reply *reply);

static _Atomic(garble_fn) garble_grant, garble_renewal;
static bool long_note = true; /* it has one that no program has room for */
static atomic_uint acquires, renewals, releases;

/* --- the store ------------------------------------------------------------------------------------ */

struct hostile {
    simba_watch *watch;
    simba_owner owner;
    uint64_t token;
};

static void grant(struct hostile *store, const simba_request *request, simba_reply *reply)
{
    if (request->op == SIMBA_OP_ACQUIRE)
        store->token++;
    memset(&store->owner, 0, sizeof store->owner);
    strcpy(store->owner.id, request->id);
    store->owner.token = store->token;
    store->owner.ttl_at_ms = reply->now_ms + request->ttl_ms;
    store->owner.transition_at_ms = store->owner.ttl_at_ms + request->transition_ms;
    reply->owner = store->owner;
    reply->outcome = SIMBA_MINE;
}

static void hostile_submit(void *self, simba_request *request)
{
    struct hostile *store = self;
    const simba_reply fresh = {.now_ms = stub_host->epoch_us(stub_host) / 1000};
    request->reply = fresh;
    garble_fn garble = NULL;
    if (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW) {
        const bool renews = request->op == SIMBA_OP_RENEW;
        grant(store, request, &request->reply);
        garble = atomic_load(renews ? &garble_renewal : &garble_grant);
        atomic_fetch_add(renews ? &renewals : &acquires, 1);
    } else if (request->op == SIMBA_OP_RELEASE) {
        request->reply.outcome = SIMBA_MINE;
        atomic_fetch_add(&releases, 1);
    } else if (request->op == SIMBA_OP_READ_NOTE && long_note) {
        static const char bytes[8192] = "long";
        const int rc = stub_host->noted(stub_host, request, &(simba_stored_note){bytes, sizeof bytes, 7, 1});
        (stub_host->fail)(stub_host, request, rc, "hostile: what it has is no note");
        return;
    } else if (request->op == SIMBA_OP_WRITE_NOTE) {
        request->reply.outcome = (simba_outcome)7;
    }
    if (garble)
        garble(request, &request->reply);
    stub_host->complete(stub_host, request);
}

static int hostile_watch(void *self, simba_watch *watch)
{
    struct hostile *store = self;
    store->watch = watch;
    return 0;
}

static void hostile_unwatch(void *self, simba_watch *watch)
{
    struct hostile *store = self;
    store->watch = NULL;
}

/* Says, in a critical section, that somebody has it who cannot. */
static void hostile_woken(void *self)
{
    struct hostile *store = self;
    const simba_push push = {.kind = SIMBA_PUSH_ACQUIRED, .owner = {.token = 1}};
    if (store->watch)
        stub_host->push(stub_host, store->watch, &push);
}

static int register_store(void **state)
{
    static const char *const schemes[] = {"hostile", NULL};
    return stub_register((simba_backend){
        .schemes = schemes,
        .instance_size = sizeof(struct hostile),
        .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_WATCH_FREE | SIMBA_CAP_NOTE,
        .submit = hostile_submit,
        .watch = hostile_watch,
        .unwatch = hostile_unwatch,
        .woken = hostile_woken,
    });
}

static simba_client *open_hostile(void)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_error err = {0};
    options.timing = lease(TTL_MS, TRANSITION_MS);
    atomic_store(&garble_grant, NULL);
    atomic_store(&garble_renewal, NULL);
    atomic_store(&acquires, 0);
    atomic_store(&renewals, 0);
    atomic_store(&releases, 0);
    if (simba_client_open("hostile://here", &options, &err, &client) < 0)
        fail_msg("%s", err.text);
    return client;
}

/* --- ways to be wrong ------------------------------------------------------------------------------ */

static void names_nobody(const simba_request *request, simba_reply *reply)
{
    memset(&reply->owner, 0, sizeof reply->owner);
}

static void names_another(const simba_request *request, simba_reply *reply)
{
    strcpy(reply->owner.id, "somebody-else");
}

static void names_without_end(const simba_request *request, simba_reply *reply)
{
    memset(reply->owner.id, 'x', sizeof reply->owner.id);
}

static void has_no_token(const simba_request *request, simba_reply *reply)
{
    reply->owner.token = 0;
}

static void is_long_past(const simba_request *request, simba_reply *reply)
{
    reply->owner.ttl_at_ms = reply->now_ms - 5000;
    reply->owner.transition_at_ms = reply->now_ms - 2000;
}

static void ends_now(const simba_request *request, simba_reply *reply)
{
    reply->owner.transition_at_ms = reply->now_ms;
}

static void has_another_outcome(const simba_request *request, simba_reply *reply)
{
    reply->outcome = (simba_outcome)7;
}

static void has_another_token(const simba_request *request, simba_reply *reply)
{
    reply->owner.token++;
}

static const struct {
    garble_fn garble;
    int code;
    const char *text; /* part of what is said */
} wrong_grants[] = {
    {names_nobody, SIMBA_ESTORE, "names nobody as the owner"},
    {names_another, SIMBA_ESTORE, "names somebody else as the owner"},
    {names_without_end, SIMBA_ESTORE, "more than 128 bytes"},
    {has_no_token, SIMBA_ESTORE, "without a token"},
    {is_long_past, SIMBA_EUNAVAILABLE, "over when the store answered"},
    {ends_now, SIMBA_EUNAVAILABLE, "over when the store answered"},
    {has_another_outcome, SIMBA_ESTORE, "outcome 7"},
};

/* --- tests ----------------------------------------------------------------------------------------- */

/* A locker does not take such a grant, says what is wrong with it, and gives back what the store may have granted. */
static void a_locker_takes_no_malformed_grant(void **state)
{
    for (size_t i = 0; i < COUNT_OF(wrong_grants); i++) {
        simba_client *client = open_hostile();
        simba_locker *locker = NULL;
        simba_error err = {0};
        assert_rc(0, simba_locker_new(client, "m", NULL, &err, &locker));
        atomic_store(&garble_grant, wrong_grants[i].garble);
        assert_rc(wrong_grants[i].code, simba_locker_acquire(locker, 0, &err));
        if (!strstr(err.text, wrong_grants[i].text))
            fail_msg("\"%s\" does not say \"%s\"", err.text, wrong_grants[i].text);
        assert_int_equal(simba_locker_held_for_ms(locker), 0);
        assert_int_equal(atomic_load(&releases), 1);

        atomic_store(&garble_grant, NULL);
        assert_rc(0, simba_locker_acquire(locker, 0, &err));
        assert_rc(0, simba_locker_release(locker, &err));
        simba_locker_free(locker);
        client_close(client);
    }
}

/* A renewal that is none does not move the end of the lease: the holder is told by its own clock. */
static void a_malformed_renewal_renews_nothing(void **state)
{
    static const garble_fn wrong[] = {names_another, has_no_token, has_another_token, is_long_past};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        simba_client *client = open_hostile();
        atomic_store(&garble_renewal, wrong[i]);
        struct player *player = player_start(client, "m");
        AWAIT(player->released >= 1);
        board_lock();
        const simba_reason reason = player->reason;
        board_unlock();
        assert_int_equal(reason, SIMBA_REASON_EXPIRED);
        assert_true(atomic_load(&renewals) >= 1);
        player_free(player);
        client_close(client);
    }
}

/* News of an owner who cannot be one is a reason to ask, and is not told to anybody. */
static void a_push_without_an_owner_is_a_reason_to_ask(void **state)
{
    simba_client *client = open_hostile();
    const simba_timing patient =
        lease(100 * TIMEOUT_MS, TIMEOUT_MS); /* nothing is renewed meanwhile but for the push */
    struct player *player = player_new(client, "m", NULL, &patient);
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->acquired == 1);
    const unsigned before = atomic_load(&renewals);
    stub_host->wake(stub_host);
    assert_true(WITHIN(TIMEOUT_MS, atomic_load(&renewals) > before));
    board_lock();
    const unsigned released = player->released;
    board_unlock();
    assert_int_equal(released, 0);
    player_free(player);
    client_close(client);
}

/* A note that is longer than any does not get into the program's room for one, and a write is not taken for done. */
static void a_note_that_cannot_be_is_refused(void **state)
{
    simba_client *client = open_hostile();
    simba_locker *locker = NULL;
    simba_error err = {0};
    simba_note note = SIMBA_NOTE_INIT;
    assert_rc(SIMBA_ECORRUPT, simba_client_note(client, "m", &err, &note));
    assert_non_null(strstr(err.text, "read note m"));
    assert_int_equal(note.length, 0);
    long_note = false;
    assert_rc(0, simba_locker_new(client, "m", NULL, &err, &locker));
    assert_rc(0, simba_locker_acquire(locker, 0, &err));
    assert_rc(SIMBA_ESTORE, simba_locker_note_set(locker, "x", 1, &err));
    simba_locker_free(locker);
    client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_locker_takes_no_malformed_grant),
        TEST(a_malformed_renewal_renews_nothing),
        TEST(a_push_without_an_owner_is_a_reason_to_ask),
        TEST(a_note_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, register_store, NULL);
}
