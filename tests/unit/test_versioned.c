/* The machine of a mutex in a store that only compares and swaps: the ways that have a name, and then many random ones against a store
 * that loses answers, delays writes and reads, and knows no time. */
#include "lib/cm.h"

#include <string.h>

#include "stores/versioned/versioned.h"
#include "util/clock.h"
#include "util/random.h"

enum { LEASE_MS = 1000 };

static versioned_record stored; /* what the store has */
static simba__row_now now;
static uint64_t granted; /* the latest token */

static int setup(void **state)
{
    (void)state;
    memset(&stored, 0, sizeof stored);
    stored.version = 10;
    granted = 0;
    now = (simba__row_now){.ns = 1, .epoch_us = INT64_C(1700000000000000)};
    return 0;
}

static void pass_ms(int64_t ms)
{
    now.ns += ms * SIMBA__NS_PER_MS;
    now.epoch_us += ms * 1000;
}

static simba_request ask_for(simba_op op, const char *id, uint64_t nonce, uint64_t token)
{
    return (simba_request){
        .op = op, .mutex = "m", .id = id, .nonce = nonce, .token = token, .ttl_ms = 800, .transition_ms = 200};
}

/* Tokens grow from grant to grant. */
static void put(const versioned_record *wanted, bool exists)
{
    const uint64_t version = stored.version + 1;
    if (wanted->held && wanted->nonce != stored.nonce) {
        assert_true(wanted->token > granted);
        granted = wanted->token;
    }
    stored = *wanted;
    stored.exists = exists;
    stored.version = version;
}

static void see(versioned_mutex *m, bool asked)
{
    versioned_record seen = stored;
    if (!seen.exists)
        memset(&seen, 0, sizeof seen);
    simba__versioned_saw(m, &seen, asked, (simba_local){now.ns});
}

/* Carry out one step at the store, which answers at once. */
static void serve(versioned_mutex *m, versioned_ask ask)
{
    static const versioned_record empty;
    if (ask == VERSIONED_CREATE && !stored.exists)
        put(&empty, true);
    else if (ask == VERSIONED_CREATE || (ask != VERSIONED_READ && stored.version != m->replaced)) {
        simba__versioned_conflict(m);
        return;
    } else if (ask != VERSIONED_READ)
        put(&m->wanted, ask == VERSIONED_WRITE);
    see(m, true);
}

static simba_outcome run(versioned_mutex *m, simba_request *request)
{
    versioned_ask ask;
    simba__versioned_begin(m);
    while ((ask = simba__versioned_next(m, request, now)) != VERSIONED_ANSWER) {
        assert_int_not_equal(ask, VERSIONED_GIVE_UP);
        serve(m, ask);
    }
    assert_int_equal(request->reply.status, 0);
    return request->reply.outcome;
}

static simba_outcome apply(versioned_mutex *m, simba_op op, const char *id, uint64_t nonce, uint64_t token)
{
    simba_request request = ask_for(op, id, nonce, token);
    return run(m, &request);
}

static uint64_t acquire(versioned_mutex *m, const char *id, uint64_t nonce)
{
    simba_request request = ask_for(SIMBA_OP_ACQUIRE, id, nonce, 0);
    return run(m, &request) == SIMBA_MINE ? request.reply.owner.token : 0;
}

/* A missing record is made without a holder, read by nobody as a grant, and then replaced. */
static void about_creating(void **state)
{
    (void)state;
    versioned_mutex m;
    simba_request request = ask_for(SIMBA_OP_ACQUIRE, "me", 7, 0);
    simba__versioned_init(&m);
    simba__versioned_begin(&m);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_READ);
    serve(&m, VERSIONED_READ);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_CREATE);
    serve(&m, VERSIONED_CREATE);
    assert_true(stored.exists && !stored.held);
    const uint64_t version = stored.version;
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_WRITE);
    serve(&m, VERSIONED_WRITE);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_ANSWER);
    assert_int_equal(request.reply.owner.token, version);
    assert_true(stored.held && stored.token == version && stored.grants == 1);
}

/* A holder renews by one write, without a read; another token is none of its. */
static void about_renewing(void **state)
{
    (void)state;
    versioned_mutex m;
    simba__versioned_init(&m);
    const uint64_t token = acquire(&m, "me", 7);
    simba_request request = ask_for(SIMBA_OP_RENEW, "me", 7, token);
    simba__versioned_begin(&m);
    const int64_t renewed_us = stored.renewed_us;
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_WRITE);
    serve(&m, VERSIONED_WRITE);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_ANSWER);
    assert_int_equal(request.reply.outcome, SIMBA_MINE);
    assert_int_equal(request.reply.owner.token, token);
    assert_true(stored.renewed_us >= renewed_us + 1000000);
    assert_int_equal(apply(&m, SIMBA_OP_RENEW, "me", 7, token + 1), SIMBA_NOT_MINE);
    assert_int_equal(apply(&m, SIMBA_OP_RENEW, "me", 8, token), SIMBA_NOT_MINE);
    assert_int_equal(apply(&m, SIMBA_OP_RENEW, "you", 7, token), SIMBA_NOT_MINE);
}

/* Whatever times the record shows: it has expired when it was seen unchanged for its whole duration. */
static void about_expiry(void **state)
{
    (void)state;
    versioned_mutex holder, other;
    simba__versioned_init(&holder);
    simba__versioned_init(&other);
    const uint64_t token = acquire(&holder, "me", 7);
    stored.renewed_us = 1;
    pass_ms(10 * LEASE_MS);
    assert_int_equal(acquire(&other, "you", 8), 0); /* its first look */
    pass_ms(LEASE_MS - 1);
    assert_int_equal(acquire(&other, "you", 8), 0);
    stored.version++;
    stored.renewed_us++;
    pass_ms(1);
    assert_int_equal(acquire(&other, "you", 8), 0); /* it was renewed */
    pass_ms(LEASE_MS);
    assert_true(acquire(&other, "you", 8) > token);
    assert_int_equal(apply(&holder, SIMBA_OP_RENEW, "me", 7, token), SIMBA_NOT_MINE);
}

/* A write beside the holder, such as a label, prolongs nothing. A renewal by simba does, and so does one by a Go program, or one whose time
 * cannot be read. */
static void about_meddling(void **state)
{
    (void)state;
    versioned_mutex holder, other;
    simba__versioned_init(&holder);
    simba__versioned_init(&other);
    const uint64_t token = acquire(&holder, "me", 7);
    assert_int_equal(acquire(&other, "you", 8), 0);
    pass_ms(LEASE_MS / 2);
    assert_int_equal(apply(&holder, SIMBA_OP_RENEW, "me", 7, token), SIMBA_MINE);
    assert_int_equal(acquire(&other, "you", 8), 0);
    pass_ms(LEASE_MS - 1);
    assert_int_equal(acquire(&other, "you", 8), 0);
    stored.version++;
    pass_ms(1);
    assert_true(acquire(&other, "you", 8) > token);

    /* A Go program takes it. */
    stored.nonce = stored.token = 0;
    for (int i = 0; i < 6; i++) {
        stored.version++;
        stored.renewed_us = i < 3 ? stored.renewed_us + 1 : 0;
        pass_ms(LEASE_MS / 2);
        assert_int_equal(acquire(&other, "you", 9), 0);
    }
}

/* Identities may be equal: the nonce tells them apart. A holder of another program has none. */
static void about_identities(void **state)
{
    (void)state;
    versioned_mutex m;
    simba__versioned_init(&m);
    const uint64_t token = acquire(&m, "twin", 7);
    assert_int_equal(acquire(&m, "twin", 8), 0);
    assert_int_equal(apply(&m, SIMBA_OP_RELEASE, "twin", 8, 0), SIMBA_NOT_MINE);
    assert_int_equal(acquire(&m, "twin", 7), token);
    stored.nonce = stored.token = 0;
    stored.version++;
    m.stale = true;
    assert_int_equal(acquire(&m, "twin", 0), 0);
}

static void about_ends(void **state)
{
    (void)state;
    versioned_mutex m;
    simba__versioned_init(&m);
    const uint64_t token = acquire(&m, "me", 7);
    assert_int_equal(apply(&m, SIMBA_OP_FORGET, NULL, 0, 0), SIMBA_NOT_MINE);
    assert_int_equal(apply(&m, SIMBA_OP_FORCE_RELEASE, NULL, 0, 0), SIMBA_MINE);
    assert_int_equal(apply(&m, SIMBA_OP_FORCE_RELEASE, NULL, 0, 0), SIMBA_NOT_MINE);
    assert_int_equal(apply(&m, SIMBA_OP_RENEW, "me", 7, token), SIMBA_REVOKED);
    assert_int_equal(apply(&m, SIMBA_OP_WRITE_NOTE, "me", 7, token), SIMBA_REVOKED);
    const uint64_t next = acquire(&m, "me", 8);
    assert_true(next > token);
    assert_int_equal(apply(&m, SIMBA_OP_RELEASE, "me", 8, next), SIMBA_MINE);
    assert_int_equal(apply(&m, SIMBA_OP_FORGET, NULL, 0, 0), SIMBA_MINE);
    assert_int_equal(apply(&m, SIMBA_OP_FORGET, NULL, 0, 0), SIMBA_NOT_MINE);
    assert_true(acquire(&m, "me", 9) > next);
}

/* Somebody brings the record back as it was, or into a store whose versions are smaller: tokens go on, and the record stays. */
static void about_backups(void **state)
{
    (void)state;
    versioned_mutex holder, other;
    simba__versioned_init(&holder);
    const uint64_t first = acquire(&holder, "me", 7);
    const versioned_record backup = stored;
    apply(&holder, SIMBA_OP_RELEASE, "me", 7, first);
    const uint64_t second = acquire(&holder, "me", 8);
    assert_true(second > first);
    stored = backup;
    assert_int_equal(apply(&holder, SIMBA_OP_RENEW, "me", 8, second), SIMBA_NOT_MINE);
    stored.held = false;
    stored.version++;
    const uint64_t third = acquire(&holder, "me", 9); /* it remembers what the store has lost */
    assert_int_equal(third, second + 1);

    apply(&holder, SIMBA_OP_RELEASE, "me", 9, third);
    stored.version = 1;
    simba__versioned_init(&other); /* it knows what the record says */
    simba_request request = ask_for(SIMBA_OP_FORGET, NULL, 0, 0);
    simba__versioned_begin(&other);
    assert_int_equal(simba__versioned_next(&other, &request, now), VERSIONED_READ);
    serve(&other, VERSIONED_READ);
    assert_int_equal(simba__versioned_next(&other, &request, now), VERSIONED_BEHIND);
    const uint64_t fourth = acquire(&other, "you", 10);
    assert_int_equal(fourth, third + 1);
    assert_int_equal(apply(&other, SIMBA_OP_RENEW, "you", 10, fourth), SIMBA_MINE);
    assert_int_equal(apply(&other, SIMBA_OP_RELEASE, "you", 10, fourth), SIMBA_MINE);
    stored.version = fourth + 1;
    assert_int_equal(apply(&other, SIMBA_OP_FORGET, NULL, 0, 0), SIMBA_MINE);

    granted = 0;
    stored = backup;
    stored.held = false;
    stored.last_token = SIMBA__TOKEN_MAX;
    simba__versioned_init(&other);
    request = ask_for(SIMBA_OP_ACQUIRE, "you", 11, 0);
    simba__versioned_begin(&other);
    assert_int_equal(simba__versioned_next(&other, &request, now), VERSIONED_READ);
    serve(&other, VERSIONED_READ);
    assert_int_equal(simba__versioned_next(&other, &request, now), VERSIONED_BEHIND);
}

/* One read that is older than what was known proves nothing. */
static void about_stale_reads(void **state)
{
    (void)state;
    versioned_mutex m;
    simba__versioned_init(&m);
    const versioned_record early = {.exists = true, .version = 5};
    const uint64_t token = acquire(&m, "me", 7);
    simba_request request = ask_for(SIMBA_OP_RENEW, "me", 7, token);
    m.stale = true;
    simba__versioned_begin(&m);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_READ);
    simba__versioned_saw(&m, &early, true, (simba_local){now.ns});
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_READ);
    serve(&m, VERSIONED_READ);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_WRITE);
}

/* A note is the holder's, and an overtaken write of it is none. */
static void about_notes(void **state)
{
    (void)state;
    versioned_mutex m;
    simba__versioned_init(&m);
    const uint64_t token = acquire(&m, "me", 7);
    simba_request request = ask_for(SIMBA_OP_WRITE_NOTE, "me", 7, token);
    request.note_number = 2;
    assert_int_equal(run(&m, &request), SIMBA_MINE);
    assert_int_equal(stored.note_token, token);
    request.note_number = 1;
    assert_int_equal(run(&m, &request), SIMBA_NOT_MINE);
    assert_int_equal(stored.note_number, 2);
}

/* Begin a request and lose the answer to its first write. */
static void lose(versioned_mutex *m, simba_request *request, bool carried_out)
{
    versioned_ask ask;
    simba__versioned_begin(m);
    while ((ask = simba__versioned_next(m, request, now)) != VERSIONED_WRITE)
        serve(m, ask);
    if (carried_out)
        put(&m->wanted, true);
    simba__versioned_lost(m);
    assert_int_equal(simba__versioned_next(m, request, now), VERSIONED_READ);
}

/* A read settles a write without an answer. */
static void about_lost_answers(void **state)
{
    (void)state;
    versioned_mutex m;
    simba__versioned_init(&m);
    simba_request request = ask_for(SIMBA_OP_ACQUIRE, "me", 7, 0);
    lose(&m, &request, true);
    see(&m, true);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_ANSWER);
    assert_int_equal(request.reply.outcome, SIMBA_MINE);
    assert_int_equal(request.reply.owner.token, stored.token);
    request = ask_for(SIMBA_OP_RELEASE, "me", 7, 0);
    lose(&m, &request, true);
    see(&m, true);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_ANSWER);
    assert_int_equal(request.reply.outcome, SIMBA_MINE);
    request = ask_for(SIMBA_OP_ACQUIRE, "me", 8, 0);
    lose(&m, &request, false);
    see(&m, true);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_WRITE);
}

/* The acquire whose fate is unknown cannot come after the release that ends its incarnation. */
static void about_late_writes(void **state)
{
    (void)state;
    versioned_mutex m;
    simba__versioned_init(&m);
    simba_request request = ask_for(SIMBA_OP_ACQUIRE, "me", 7, 0);
    lose(&m, &request, false);
    const versioned_record late = m.wanted;
    const uint64_t replaces = m.replaced;
    assert_int_equal(apply(&m, SIMBA_OP_RELEASE, "me", 7, 0), SIMBA_NOT_MINE);
    assert_true(stored.version > replaces && !stored.held && late.held);
}

/* Who waits under a live watch is refused without a read, and others are not. */
static void about_watching(void **state)
{
    (void)state;
    versioned_mutex holder, m;
    simba__versioned_init(&holder);
    simba__versioned_init(&m);
    acquire(&holder, "me", 7);
    assert_int_equal(acquire(&m, "you", 8), 0);
    m.live = true;
    simba_request request = ask_for(SIMBA_OP_ACQUIRE, "you", 8, 0);
    request.queue = true;
    simba__versioned_begin(&m);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_ANSWER);
    request.queue = false;
    simba__versioned_begin(&m);
    assert_int_equal(simba__versioned_next(&m, &request, now), VERSIONED_READ);
    assert_int_equal(apply(&holder, SIMBA_OP_RELEASE, "me", 7, 0), SIMBA_MINE);
    assert_int_equal(simba__versioned_saw(&m, &stored, false, (simba_local){now.ns}), VERSIONED_OWNER_CHANGED);
    assert_int_equal(simba__versioned_saw(&m, &stored, false, (simba_local){now.ns}), 0);
}

/* --- many ways ----------------------------------------------------------------------------------------- */

enum { CLIENTS = 3, FLYING = 8 };

/* A client that acquires, renews and releases as the core does: its lease counts from the beginning of a request. */
struct client {
    versioned_mutex m;
    simba_request request;
    bool busy, holds, waits; /* `waits`: for an answer of the store */
    versioned_ask ask;
    simba_local began, lease_until;
    uint64_t nonce, token;
};

/* A write on its way. */
struct flying {
    bool used;
    versioned_ask ask;
    uint64_t replaces;
    versioned_record wanted;
    struct client *of; /* NULL: nobody waits for the answer */
};

static void arrive(struct flying *flying, uint64_t *seed)
{
    struct client *client = flying->of;
    const bool fits =
        flying->ask == VERSIONED_CREATE ? !stored.exists : stored.exists && stored.version == flying->replaces;
    static const versioned_record empty;
    flying->used = false;
    if (flying->ask != VERSIONED_READ && fits)
        put(flying->ask == VERSIONED_CREATE ? &empty : &flying->wanted, flying->ask != VERSIONED_REMOVE);
    if (!client)
        return;
    client->waits = false;
    if (simba__random_range(seed, 0, 4) == 0 && flying->ask != VERSIONED_READ)
        simba__versioned_lost(&client->m);
    else if (flying->ask != VERSIONED_READ && !fits)
        simba__versioned_conflict(&client->m);
    else
        see(&client->m, true);
}

static void send(struct client *client, struct flying *all)
{
    for (int i = 0; i < FLYING; i++)
        if (!all[i].used) {
            all[i] = (struct flying){true, client->ask, client->m.replaced, client->m.wanted, client};
            client->waits = true;
            return;
        }
}

static void give_up(struct client *client, struct flying *all)
{
    for (int i = 0; i < FLYING; i++)
        if (all[i].used && all[i].of == client) {
            all[i].of = NULL; /* it may still arrive */
            if (client->ask != VERSIONED_READ)
                simba__versioned_lost(&client->m);
        }
    client->busy = client->waits = false;
}

static void answered(struct client *client)
{
    const simba_request *request = &client->request;
    const bool mine = request->reply.outcome == SIMBA_MINE;
    client->busy = false;
    if (!mine || (request->op != SIMBA_OP_ACQUIRE && request->op != SIMBA_OP_RENEW))
        return;
    if (request->op == SIMBA_OP_ACQUIRE && !client->holds) {
        client->token = request->reply.owner.token;
        client->holds = true;
    }
    client->lease_until = (simba_local){client->began.ns + LEASE_MS * SIMBA__NS_PER_MS};
}

static void walk(uint64_t seed)
{
    static struct client clients[CLIENTS];
    static struct flying flying[FLYING];
    memset(clients, 0, sizeof clients);
    memset(flying, 0, sizeof flying);
    setup(NULL);
    for (int i = 0; i < CLIENTS; i++)
        simba__versioned_init(&clients[i].m);
    for (int step = 0; step < 400; step++) {
        struct client *client = &clients[simba__random_range(&seed, 0, CLIENTS)];
        struct flying *one = &flying[simba__random_range(&seed, 0, FLYING)];
        const int64_t chance = simba__random_range(&seed, 0, 20);
        int holders = 0;
        if (chance == 0)
            pass_ms(simba__random_range(&seed, 1, 2 * LEASE_MS));
        pass_ms(simba__random_range(&seed, 0, 30));
        for (int i = 0; i < CLIENTS; i++) {
            clients[i].holds &= now.ns < clients[i].lease_until.ns;
            holders += clients[i].holds;
        }
        assert_in_range(holders, 0, 1);
        if (chance < 8 && one->used) {
            arrive(one, &seed);
        } else if (!client->busy) {
            const simba_op op = client->holds  ? (chance < 14 ? SIMBA_OP_RENEW : SIMBA_OP_RELEASE)
                                : chance == 19 ? SIMBA_OP_FORGET
                                : chance == 18 ? SIMBA_OP_RELEASE
                                               : SIMBA_OP_ACQUIRE;
            if (op == SIMBA_OP_ACQUIRE && !client->holds)
                client->nonce = simba__random_next(&seed) | 1;
            client->request = ask_for(op, "same", client->nonce, op == SIMBA_OP_RENEW ? client->token : 0);
            client->holds &= op != SIMBA_OP_RELEASE;
            client->began = (simba_local){now.ns};
            client->busy = true;
            simba__versioned_begin(&client->m);
        } else if (client->waits && chance == 17) {
            give_up(client, flying);
        } else if (!client->waits) {
            client->ask = simba__versioned_next(&client->m, &client->request, now);
            if (client->ask == VERSIONED_ANSWER)
                answered(client);
            else if (client->ask == VERSIONED_GIVE_UP)
                client->busy = false;
            else
                send(client, flying);
        }
    }
}

/* Nobody ever holds it beside another one. */
static void about_many_ways(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++)
        walk(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(about_creating, setup),    cmocka_unit_test_setup(about_renewing, setup),
        cmocka_unit_test_setup(about_expiry, setup),      cmocka_unit_test_setup(about_identities, setup),
        cmocka_unit_test_setup(about_meddling, setup),    cmocka_unit_test_setup(about_backups, setup),
        cmocka_unit_test_setup(about_stale_reads, setup), cmocka_unit_test_setup(about_ends, setup),
        cmocka_unit_test_setup(about_notes, setup),       cmocka_unit_test_setup(about_lost_answers, setup),
        cmocka_unit_test_setup(about_late_writes, setup), cmocka_unit_test_setup(about_watching, setup),
        cmocka_unit_test_setup(about_many_ways, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
