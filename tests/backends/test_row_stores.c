/* The stores that keep rows in this process or on this host do with every request what core/row.h says, whichever way it
 * takes through them: alone or in a batch, for a row that exists or not, through one client or the other. Random histories
 * go to the store and to a row of the test's own, and the answers are held against each other. */
#include <simba/backend.h>

#include "backends/test_sqlite.h"
#include "core/reply.h"
#include "core/row.h"
#include "util/random.h"

extern const simba_backend simba__backend_memory;

enum { MUTEXES = 3, PEOPLE = 4, MOST = 4, HISTORIES = 12, STEPS = 120 };

static const char *const mutexes[MUTEXES] = {"a", "b", "ab"};
static const char *const names[PEOPLE] = {"x", "y", "xy", "x"}; /* two share an id */

typedef struct history {
    bool forgets; /* the memory store: see compare */
    testhost *hosts[2];
    uint64_t seed;
    simba__row rows[MUTEXES];
    struct {
        uint64_t nonce;
        uint64_t tokens[MUTEXES]; /* of the last grant it was told of; may long be over */
    } people[PEOPLE];
} history;

static uint64_t below(history *h, uint64_t limit)
{
    return simba__random_next(&h->seed) % limit;
}

/* Time goes on in leaps, for both clients alike, now and then beyond the end of a lease. */
static void pass_time(history *h)
{
    const int64_t leaps_ms[] = {0, 0, 0, 3000, 9000, 17000};
    const int64_t leap_ns = leaps_ms[below(h, 6)] * SIMBA__NS_PER_MS;
    for (int i = 0; i < 2; i++)
        h->hosts[i]->now_shift_ns += leap_ns;
}

static testhost_request draw(history *h, testhost *host, unsigned *ret_mutex, unsigned *ret_who)
{
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW,         SIMBA_OP_RENEW,
                                   SIMBA_OP_RELEASE, SIMBA_OP_READ,    SIMBA_OP_FORCE_RELEASE, SIMBA_OP_ACQUIRE};
    const unsigned mutex = *ret_mutex = (unsigned)below(h, MUTEXES);
    const unsigned who = *ret_who = (unsigned)below(h, PEOPLE);
    const simba_op op = ops[below(h, 8)];
    if (below(h, 15) == 0)
        h->people[who].nonce = 1 + below(h, 5);
    const bool knows = op == SIMBA_OP_RENEW || (op == SIMBA_OP_RELEASE && below(h, 2));
    const uint64_t token = h->people[who].tokens[mutex];
    return testhost_request_of(host, op, mutexes[mutex], names[who], h->people[who].nonce,
                               knows ? token ? token : 1 : 0);
}

/* What the row says to it. Its clock is a moment younger than the store's was, and its tokens are the store's. */
static void compare(history *h, testhost *host, unsigned mutex, unsigned who, const simba_request *asked)
{
    simba__row *row = &h->rows[mutex];
    simba_request model = *asked;
    const uint64_t token_before = row->token;
    const simba__row_now now = {host->host.now(&host->host).ns, host->host.epoch_us(&host->host)};
    simba__row_apply(row, now, &model);
    assert_int_equal(asked->reply.status, 0);
    /* The memory store drops a row that is free and whose latest grant was not revoked; the one before may have been. */
    const bool forgotten = h->forgets && model.reply.outcome == SIMBA_REVOKED && asked->token != token_before;
    if (!forgotten)
        assert_int_equal(asked->reply.outcome, model.reply.outcome);
    assert_string_equal(asked->reply.owner.id, model.reply.owner.id);
    assert_int_equal(simba__reply_check(asked, false, NULL), 0);
    if (row->token != token_before) { /* a new grant */
        assert_true(asked->reply.owner.token > token_before);
        row->token = row->owner.token = asked->reply.owner.token;
    }
    assert_int_equal(asked->reply.owner.token, row->owner.id[0] && asked->reply.owner.id[0] ? row->owner.token : 0);
    if (asked->op == SIMBA_OP_ACQUIRE && asked->reply.outcome == SIMBA_MINE)
        h->people[who].tokens[mutex] = asked->reply.owner.token;
    if (asked->reply.owner.id[0])
        assert_in_range(asked->reply.owner.transition_at_ms - asked->reply.now_ms, 1, 16000);
}

static void step(history *h)
{
    testhost *host = h->hosts[below(h, 2)];
    testhost_request asked[MOST];
    unsigned mutex[MOST], who[MOST];
    const unsigned count = 1 + (unsigned)below(h, MOST);
    pass_time(h);
    for (unsigned i = 0; i < count; i++) {
        asked[i] = draw(h, host, &mutex[i], &who[i]);
        testhost_submit(host, &asked[i]);
    }
    testhost_flush(host);
    testhost_run_jobs(host);
    for (unsigned i = 0; i < count; i++)
        assert_true(asked[i].done);
    for (int reads = 1; reads >= 0; reads--) /* the SQLite store carries out the reads of a batch first */
        for (unsigned i = 0; i < count; i++)
            if (h->forgets ? reads : (asked[i].request.op == SIMBA_OP_READ) == reads)
                compare(h, host, mutex[i], who[i], &asked[i].request);
}

static void agree(const simba_backend *backend, const char *url, testhost *one, testhost *two)
{
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
        char store[160];
        simba_error err = {0};
        history h = {.forgets = backend == &simba__backend_memory, .hosts = {one, two}, .seed = seed * 7919};
        snprintf(store, sizeof store, "%s%u", url, (unsigned)seed);
        assert_int_equal(testhost_open(one, backend, store, &err), 0);
        assert_int_equal(testhost_open(two, backend, store, &err), 0);
        for (unsigned i = 0; i < PEOPLE; i++)
            h.people[i].nonce = 10 + i;
        for (unsigned i = 0; i < STEPS; i++)
            step(&h);
        testhost_close(one);
        testhost_close(two);
    }
}

static void about_memory(void **state)
{
    fixture *f = *state;
    agree(&simba__backend_memory, "memory://rows-", &f->a, &f->b);
}

static void about_sqlite(void **state)
{
    fixture *f = *state;
    agree(&simba__backend_sqlite, f->url, &f->a, &f->b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(about_memory),
        TEST(about_sqlite),
    };
    return cmocka_run_group_tests_name("row stores", tests, NULL, NULL);
}
