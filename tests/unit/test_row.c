/* Every store that keeps rows decides with simba__row_apply who may have a mutex, so mutual exclusion itself is decided
 * here. Most rules have a test of their own; the last one drives rows through random histories and compares each
 * answer with a model that keeps every grant ever made and knows nothing but the contract. */
#include <string.h>

#include "core/row.h"
#include "lib/cm.h"
#include "util/clock.h"
#include "util/random.h"

#define MS SIMBA__NS_PER_MS

enum { TTL = 10000, TRANSITION = 6000 };

/* The judging clock and the wall clock have nothing to do with each other; here the former began at its own zero. */
static const simba__row_now start = {.ns = 5000000123, .epoch_us = 1700000000123456};

static simba__row_now later(simba__row_now now, int64_t ns)
{
    return (simba__row_now){now.ns + ns, now.epoch_us + ns / 1000};
}

static simba_request ask(simba_op op, const char *id, uint64_t nonce, uint64_t token)
{
    return (simba_request){.op = op,
                           .mutex = "m",
                           .id = id,
                           .nonce = nonce,
                           .token = token,
                           .ttl_ms = TTL,
                           .transition_ms = TRANSITION,
                           .reply = {.status = SIMBA_ESTORE, .outcome = SIMBA_REVOKED, .now_ms = -1}};
}

static bool same_owner(const simba_owner *a, const simba_owner *b)
{
    return strcmp(a->id, b->id) == 0 && a->acquired_at_ms == b->acquired_at_ms && a->ttl_at_ms == b->ttl_at_ms &&
           a->transition_at_ms == b->transition_at_ms && a->token == b->token;
}

static bool same_row(const simba__row *a, const simba__row *b)
{
    return same_owner(&a->owner, &b->owner) && a->nonce == b->nonce && a->token == b->token &&
           a->revoked_token == b->revoked_token && a->version == b->version && a->until_ns == b->until_ns;
}

static void assert_nobody(const simba_owner *owner)
{
    static const simba_owner nobody;
    assert_true(same_owner(owner, &nobody));
}

/* Carry out one request; the row must change exactly when the outcome says so. */
static simba_reply apply(simba__row *row, simba__row_now now, simba_op op, const char *id, uint64_t nonce,
                         uint64_t token)
{
    const simba__row before = *row;
    simba_request request = ask(op, id, nonce, token);
    const bool changed = simba__row_apply(row, now, &request);
    assert_int_equal(request.reply.status, 0);
    assert_int_equal(changed, request.reply.outcome == SIMBA_MINE);
    assert_int_equal(changed, !same_row(&before, row));
    assert_int_equal(row->version, before.version + changed);
    return request.reply;
}

static simba_reply acquire(simba__row *row, simba__row_now now, const char *id, uint64_t nonce)
{
    return apply(row, now, SIMBA_OP_ACQUIRE, id, nonce, 0);
}

/* Another process, or a later life of this one, with the same id is somebody else. */
static void the_same_id_with_another_nonce_is_somebody_else(void **state)
{
    simba__row row = {0};
    const uint64_t token = acquire(&row, start, "alice", 11).owner.token;
    assert_int_equal(acquire(&row, start, "alice", 12).outcome, SIMBA_NOT_MINE);
    assert_int_equal(apply(&row, start, SIMBA_OP_RENEW, "alice", 12, token).outcome, SIMBA_NOT_MINE);
    assert_int_equal(apply(&row, start, SIMBA_OP_RELEASE, "alice", 12, token).outcome, SIMBA_NOT_MINE);
    assert_int_equal(apply(&row, start, SIMBA_OP_RELEASE, "alice", 12, 0).outcome, SIMBA_NOT_MINE);
}

/* Forcing frees the mutex, and its holder learns the reason when it renews or gives it back, also if somebody else owns it by then. */
static void a_forced_release_is_told_to_its_holder(void **state)
{
    simba__row row = {0};
    const uint64_t token = acquire(&row, start, "alice", 11).owner.token;
    const simba_reply forced = apply(&row, start, SIMBA_OP_FORCE_RELEASE, NULL, 0, 0);
    assert_int_equal(forced.outcome, SIMBA_MINE);
    assert_nobody(&forced.owner);
    assert_int_equal(apply(&row, start, SIMBA_OP_RENEW, "alice", 11, token).outcome, SIMBA_REVOKED);
    assert_int_equal(apply(&row, start, SIMBA_OP_RELEASE, "alice", 11, token).outcome, SIMBA_REVOKED);
    assert_int_equal(apply(&row, start, SIMBA_OP_RELEASE, "alice", 11, 0).outcome, SIMBA_NOT_MINE);

    const uint64_t next = acquire(&row, start, "bob", 12).owner.token;
    assert_true(next > token);
    const simba_reply reply = apply(&row, start, SIMBA_OP_RENEW, "alice", 11, token);
    assert_int_equal(reply.outcome, SIMBA_REVOKED);
    assert_string_equal(reply.owner.id, "bob");
    assert_int_equal(apply(&row, start, SIMBA_OP_RENEW, "bob", 12, next).outcome, SIMBA_MINE);
}

/* A renewal without a token is never "revoked": 0 stands for no token on both sides. */
static void no_token_is_not_a_revoked_one(void **state)
{
    simba__row row = {0};
    assert_int_equal(apply(&row, start, SIMBA_OP_RENEW, "alice", 11, 0).outcome, SIMBA_NOT_MINE);
}

/* A store that lost its rows with the power gives greater tokens still, because the wall clock went on. */
static void tokens_survive_the_loss_of_the_row(void **state)
{
    simba__row row = {0};
    const uint64_t first = acquire(&row, start, "alice", 11).owner.token;
    memset(&row, 0, sizeof row);
    assert_true(acquire(&row, later(start, 1000), "bob", 12).owner.token > first);
}

/* A wall clock that was set back does not take the tokens with it. */
static void tokens_survive_a_clock_that_was_set_back(void **state)
{
    simba__row row = {0};
    simba__row_now now = start;
    uint64_t last = 0;
    for (int i = 0; i < 10; i++) {
        const simba_reply reply = acquire(&row, now, "alice", 11);
        assert_int_equal(reply.outcome, SIMBA_MINE);
        assert_true(reply.owner.token > last);
        last = reply.owner.token;
        apply(&row, now, SIMBA_OP_RELEASE, "alice", 11, last);
        now.epoch_us -= INT64_C(3600000000);
    }
}

/* A store whose column for tokens is too narrow for the clock counts them. */
static void tokens_may_be_counted(void **state)
{
    simba__row row = {.token = 41, .counts_tokens = true};
    assert_int_equal(acquire(&row, start, "alice", 11).owner.token, 42);
    apply(&row, start, SIMBA_OP_RELEASE, "alice", 11, 42);
    assert_int_equal(acquire(&row, start, "bob", 22).owner.token, 43);
}

/* However the wall clock was set, the time left that a reply shows is that of the judging clock. */
static void time_left_ignores_the_wall_clock(void **state)
{
    const int64_t jumps_us[] = {0, -86400000000, 86400000000, -start.epoch_us};
    for (size_t i = 0; i < sizeof jumps_us / sizeof *jumps_us; i++) {
        simba__row row = {0};
        acquire(&row, start, "alice", 11);
        simba__row_now now = later(start, 4000 * MS);
        now.epoch_us += jumps_us[i];
        const simba_reply seen = apply(&row, now, SIMBA_OP_READ, NULL, 0, 0);
        assert_int_equal(seen.owner.transition_at_ms - seen.now_ms, TTL + TRANSITION - 4000);
        assert_true(simba_owner_has_owner(&seen.owner, seen.now_ms));
    }
}

/* --- what nobody would store ------------------------------------------------------------------------ */

/* The clock before 1970 is no floor for tokens. */
static void tokens_count_without_a_sensible_clock(void **state)
{
    simba__row row = {0};
    const simba__row_now now = {.ns = 1, .epoch_us = -1};
    assert_int_equal(acquire(&row, now, "alice", 11).owner.token, 1);
}

/* The last token is granted once; then the mutex stays free rather than having one token twice. */
static void tokens_are_used_up_some_day(void **state)
{
    simba__row row = {.token = SIMBA__TOKEN_MAX - 1};
    assert_int_equal(acquire(&row, start, "alice", 11).owner.token, SIMBA__TOKEN_MAX);
    assert_int_equal(apply(&row, start, SIMBA_OP_RELEASE, "alice", 11, 0).outcome, SIMBA_MINE);
    for (int i = 0; i < 2; i++) {
        const simba__row before = row;
        simba_request request = ask(SIMBA_OP_ACQUIRE, "bob", 12, 0);
        assert_false(simba__row_apply(&row, start, &request));
        assert_int_equal(request.reply.status, SIMBA_ESTORE);
        assert_int_equal(request.reply.outcome, SIMBA_NOT_MINE);
        assert_true(same_row(&before, &row));
        row.token = UINT64_MAX;
    }
}

static int64_t extreme(uint64_t *seed)
{
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, 999999, 1000000, INT64_MAX - 1, INT64_MAX};
    const uint64_t drawn = simba__random_next(seed);
    return drawn % 4 ? ends[drawn / 4 % (sizeof ends / sizeof *ends)] : (int64_t)simba__random_next(seed);
}

/* Whatever is stored, nothing overflows (the sanitizers look at that), a live lease is not taken from its holder, and what
 * is shown of it has time left. */
static void extreme_rows_do_no_harm(void **state)
{
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW, SIMBA_OP_RELEASE, SIMBA_OP_FORCE_RELEASE,
                                   SIMBA_OP_READ};
    uint64_t seed = 18;
    for (int i = 0; i < 200000; i++) {
        simba__row row = {
            .token = (uint64_t)extreme(&seed),
            .revoked_token = (uint64_t)extreme(&seed),
            .version = (uint64_t)extreme(&seed),
            .until_ns = extreme(&seed),
            .nonce = 11,
            .counts_tokens = simba__random_next(&seed) % 2,
        };
        const uint64_t drawn = simba__random_next(&seed);
        strcpy(row.owner.id, drawn % 3 == 0 ? "" : drawn % 3 == 1 ? "alice" : "bob");
        row.owner.token = row.token;
        row.owner.acquired_at_ms = extreme(&seed);
        row.owner.ttl_at_ms = extreme(&seed);
        row.owner.transition_at_ms = extreme(&seed);
        const simba__row_now now = {extreme(&seed), extreme(&seed)};
        simba_request request = ask(ops[simba__random_next(&seed) % 5], "alice", 11, row.token);
        request.ttl_ms = extreme(&seed);
        request.transition_ms = extreme(&seed);
        const simba__row before = row;
        const bool changed = simba__row_apply(&row, now, &request);
        const bool was_free = simba__row_is_free(&before, now);
        if (!was_free && strcmp(before.owner.id, "bob") == 0)
            assert_true(!changed || request.op == SIMBA_OP_FORCE_RELEASE);
        if (!changed && !was_free)
            assert_true(request.reply.owner.transition_at_ms > request.reply.now_ms ||
                        request.reply.now_ms == INT64_MIN);
        if (changed && request.op == SIMBA_OP_ACQUIRE && was_free)
            assert_true(row.token > before.token && row.token <= SIMBA__TOKEN_MAX);
    }
}

/* --- random histories ----------------------------------------------------------------------------- */

enum { PEOPLE = 4, STEPS = 400, HISTORIES = 300 };

/* A grant as the model remembers it. It is live while nobody ended it and its lease runs. */
typedef struct grant {
    size_t who;
    uint64_t nonce;
    uint64_t token;
    int64_t until_ns;
    bool released, forced;
} grant;

typedef struct model {
    grant grants[STEPS];
    size_t count;
    uint64_t seed;
    simba__row_now now;
    struct {
        uint64_t nonce;
        uint64_t token; /* of the last grant it was told of; may long be over */
    } people[PEOPLE];
} model;

static const char *const names[PEOPLE] = {"a", "b", "ab", "a"}; /* two share an id, and now and then a nonce */

static uint64_t below(model *m, uint64_t limit)
{
    return simba__random_next(&m->seed) % limit;
}

/* From a small range, so that sometimes two people have the same, and sometimes one has an earlier one again. */
static uint64_t any_nonce(model *m)
{
    return 1 + below(m, 6);
}

static grant *live(model *m)
{
    grant *found = NULL;
    for (size_t i = 0; i < m->count; i++) {
        grant *g = &m->grants[i];
        if (g->released || g->forced || m->now.ns >= g->until_ns)
            continue;
        assert_null(found); /* at most one grant is live */
        found = g;
    }
    return found;
}

/* Time goes on, now and then to just before, at, or just after the end of the lease; the wall clock jumps about. */
static void pass_time(model *m)
{
    const grant *g = live(m);
    if (g && below(m, 6) == 0)
        m->now.ns = g->until_ns - 1 + (int64_t)below(m, 3);
    else if (below(m, 3) == 0)
        m->now.ns += (int64_t)below(m, 40 * MS);
    m->now.epoch_us += (int64_t)below(m, 2000);
    if (below(m, 20) == 0)
        m->now.epoch_us = (int64_t)below(m, 2000000000000000);
}

static simba_outcome expect_acquire(model *m, const simba_request *request, size_t who)
{
    grant *g = live(m);
    if (g && (strcmp(names[g->who], request->id) != 0 || g->nonce != request->nonce))
        return SIMBA_NOT_MINE;
    if (!g) {
        g = &m->grants[m->count++];
        *g = (grant){.who = who, .nonce = request->nonce, .token = request->reply.owner.token};
        for (size_t i = 0; i + 1 < m->count; i++)
            assert_true(g->token > m->grants[i].token); /* tokens grow from grant to grant */
    }
    g->until_ns = m->now.ns + (request->ttl_ms + request->transition_ms) * MS;
    return SIMBA_MINE;
}

/* A row remembers the latest grant that was forced away, and only that. */
static simba_outcome expect_forced(const model *m, const simba_request *request)
{
    for (size_t i = m->count; i-- > 0;)
        if (m->grants[i].forced)
            return request->token && m->grants[i].token == request->token ? SIMBA_REVOKED : SIMBA_NOT_MINE;
    return SIMBA_NOT_MINE;
}

static simba_outcome expect_renew(model *m, const simba_request *request)
{
    grant *g = live(m);
    if (g && strcmp(names[g->who], request->id) == 0 && g->nonce == request->nonce && g->token == request->token) {
        g->until_ns = m->now.ns + (request->ttl_ms + request->transition_ms) * MS;
        return SIMBA_MINE;
    }
    return expect_forced(m, request);
}

static simba_outcome expect_release(model *m, const simba_request *request)
{
    grant *g = live(m);
    if (!g || strcmp(names[g->who], request->id) != 0 || g->nonce != request->nonce ||
        (request->token != 0 && g->token != request->token))
        return expect_forced(m, request);
    g->released = true;
    return SIMBA_MINE;
}

static simba_outcome expect(model *m, const simba_request *request, size_t who)
{
    grant *g;
    switch (request->op) {
    case SIMBA_OP_ACQUIRE:
        return expect_acquire(m, request, who);
    case SIMBA_OP_RENEW:
        return expect_renew(m, request);
    case SIMBA_OP_RELEASE:
        return expect_release(m, request);
    case SIMBA_OP_FORCE_RELEASE:
        g = live(m);
        if (g)
            g->forced = true;
        return g ? SIMBA_MINE : SIMBA_NOT_MINE;
    default:
        return SIMBA_NOT_MINE;
    }
}

static void check_shown(model *m, const simba_owner *owner, int64_t now_ms)
{
    const grant *g = live(m);
    if (!g) {
        assert_nobody(owner);
        return;
    }
    assert_string_equal(owner->id, names[g->who]);
    assert_int_equal(owner->token, g->token);
    const int64_t left_ns = g->until_ns - m->now.ns;
    const int64_t shown_ns = (owner->transition_at_ms - now_ms) * MS;
    /* What is really left, rounded up to whole milliseconds. */
    assert_true(shown_ns >= left_ns);
    assert_true(shown_ns < left_ns + MS);
}

static void step(model *m, simba__row *row)
{
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_ACQUIRE, SIMBA_OP_ACQUIRE,       SIMBA_OP_RENEW,
                                   SIMBA_OP_RENEW,   SIMBA_OP_RELEASE, SIMBA_OP_FORCE_RELEASE, SIMBA_OP_READ};
    const size_t who = (size_t)below(m, PEOPLE);
    const simba_op op = ops[below(m, sizeof ops / sizeof *ops)];
    if (below(m, 25) == 0)
        m->people[who].nonce = any_nonce(m);

    const bool knows = op == SIMBA_OP_RENEW || (op == SIMBA_OP_RELEASE && below(m, 2) == 0);
    simba_request request = ask(op, names[who], m->people[who].nonce, knows ? m->people[who].token : 0);
    if (op == SIMBA_OP_RENEW && request.token == 0)
        request.token = 1; /* nobody renews without a token */
    request.ttl_ms = 10 + (int64_t)below(m, 40);
    request.transition_ms = (int64_t)below(m, 20);

    const grant *holder = live(m);
    assert_int_equal(simba__row_is_free(row, m->now), holder == NULL);
    const bool changed = simba__row_apply(row, m->now, &request);
    const simba_reply *reply = &request.reply;
    assert_int_equal(reply->status, 0);
    assert_int_equal(reply->outcome, expect(m, &request, who));
    assert_int_equal(changed, reply->outcome == SIMBA_MINE);
    assert_int_equal(simba__row_is_free(row, m->now), live(m) == NULL);
    check_shown(m, &reply->owner, reply->now_ms);
    if (reply->outcome == SIMBA_MINE && (op == SIMBA_OP_ACQUIRE || op == SIMBA_OP_RENEW)) {
        /* Whoever was just granted or renewed is shown its whole lease. */
        assert_int_equal(reply->owner.transition_at_ms - reply->now_ms, request.ttl_ms + request.transition_ms);
        assert_int_equal(reply->owner.transition_at_ms - reply->owner.ttl_at_ms, request.transition_ms);
        if (below(m, 4) != 0) /* otherwise the reply is lost on its way */
            m->people[who].token = reply->owner.token;
    }
}

/* At most one live grant; tokens grow; renewals keep them; free exactly when released, forced away or at an end. */
static void random_histories_agree_with_the_model(void **state)
{
    static model m;
    size_t grants = 0;
    for (uint64_t history = 1; history <= HISTORIES; history++) {
        memset(&m, 0, sizeof m);
        m.seed = history;
        m.now = start;
        for (size_t i = 0; i < PEOPLE; i++)
            m.people[i].nonce = any_nonce(&m);
        simba__row row = {0};
        for (int i = 0; i < STEPS; i++) {
            pass_time(&m);
            step(&m, &row);
        }
        grants += m.count;
    }
    assert_true(grants > (size_t)HISTORIES * 50); /* the histories are worth their name */
}

/* What is not about one row changes none; a row of which nothing but the note is left can be forgotten. */
static void rows_take_what_is_about_them(void **state)
{
    static const simba_op others[] = {SIMBA_OP_LIST, SIMBA_OP_EXAMINE, SIMBA_OP_PREPARE};
    simba__row row = {.note_token = 5};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        simba_request request = ask(others[i], "a", 1, 0);
        assert_false(simba__row_apply(&row, start, &request));
    }
    simba_request forget = ask(SIMBA_OP_FORGET, "", 0, 0);
    assert_true(simba__row_apply(&row, start, &forget));
    simba__row unknown = {.note_token = 0};
    assert_false(simba__row_apply(&unknown, start, &forget));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_id_with_another_nonce_is_somebody_else),
        cmocka_unit_test(a_forced_release_is_told_to_its_holder),
        cmocka_unit_test(no_token_is_not_a_revoked_one),
        cmocka_unit_test(tokens_count_without_a_sensible_clock),
        cmocka_unit_test(tokens_are_used_up_some_day),
        cmocka_unit_test(extreme_rows_do_no_harm),
        cmocka_unit_test(tokens_survive_the_loss_of_the_row),
        cmocka_unit_test(tokens_survive_a_clock_that_was_set_back),
        cmocka_unit_test(tokens_may_be_counted),
        cmocka_unit_test(rows_take_what_is_about_them),
        cmocka_unit_test(time_left_ignores_the_wall_clock),
        cmocka_unit_test(random_histories_agree_with_the_model),
    };
    return cmocka_run_group_tests_name("row", tests, NULL, NULL);
}
