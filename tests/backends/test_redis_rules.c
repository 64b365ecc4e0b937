/* Who may have a mutex is said twice: in C, for the stores that keep rows (core/row.c), and in Lua, for Redis. Here both are
 * asked the same questions, by contenders of two names in two incarnations each, with tokens that are right, old and made up,
 * and have to give the same answers. */
#include "backends/test_redis.h"
#include "core/row.h"
#include "util/random.h"

enum { STEPS = 4000, NAMES = 2, INCARNATIONS = 2 };

static const char *const names[NAMES] = {"me", "you"};

/* The same token as each of the two counts it. */
typedef struct token_pair {
    uint64_t redis, row;
} token_pair;

static simba__row row;
static token_pair latest;   /* granted */
static token_pair previous; /* and the one before */

static simba_op draw_op(uint64_t *seed)
{
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_ACQUIRE, SIMBA_OP_ACQUIRE,      SIMBA_OP_RENEW,
                                   SIMBA_OP_RENEW,   SIMBA_OP_RENEW,   SIMBA_OP_RELEASE,      SIMBA_OP_RELEASE,
                                   SIMBA_OP_READ,    SIMBA_OP_READ,    SIMBA_OP_FORCE_RELEASE};
    return ops[simba__random_range(seed, 0, sizeof ops / sizeof *ops)];
}

static token_pair draw_token(simba_op op, uint64_t *seed)
{
    if (op != SIMBA_OP_RENEW && op != SIMBA_OP_RELEASE)
        return (token_pair){0};
    switch (simba__random_range(seed, 0, 6)) {
    case 0:
        return (token_pair){0};
    case 1:
        return previous;
    case 2:
        return (token_pair){1, 1};
    default:
        return latest;
    }
}

/* Before Redis 7.2 the clock goes on while a script runs, and a busy machine may interrupt it. */
enum { SCRIPT_MS = 100 };

static void assert_same(int step, simba_op op, const simba_reply *redis_says, const simba_reply *row_says)
{
    const simba_owner *left = &redis_says->owner;
    const simba_owner *right = &row_says->owner;
    if (redis_says->outcome != row_says->outcome || strcmp(left->id, right->id) != 0 ||
        left->acquired_at_ms != right->acquired_at_ms || llabs(left->ttl_at_ms - right->ttl_at_ms) > SCRIPT_MS)
        fail_msg("step %d, operation %d: Redis says %d \"%s\" %lld %lld, the row %d \"%s\" %lld %lld", step, (int)op,
                 (int)redis_says->outcome, left->id, (long long)left->acquired_at_ms, (long long)left->ttl_at_ms,
                 (int)row_says->outcome, right->id, (long long)right->acquired_at_ms, (long long)right->ttl_at_ms);
}

/* A token is new for the one exactly if it is for the other, and grows. */
static void follow_tokens(const simba_reply *redis_says, const simba_reply *row_says)
{
    const token_pair shown = {redis_says->owner.token, row_says->owner.token};
    if (shown.redis == 0 && shown.row == 0)
        return;
    if (shown.row == latest.row) {
        assert_int_equal(shown.redis, latest.redis);
        return;
    }
    assert_true(shown.redis > latest.redis && shown.row > latest.row);
    previous = latest;
    latest = shown;
}

static void same_rules(void **state)
{
    uint64_t seed = 42;
    unsigned outcomes[3] = {0};
    unsigned ends = 0;
    open_store(&a);
    for (int step = 0; step < STEPS; step++) {
        const simba_op op = draw_op(&seed);
        const token_pair token = draw_token(op, &seed);
        const char *id = names[simba__random_range(&seed, 0, NAMES)];
        const uint64_t nonce = 1 + (uint64_t)simba__random_range(&seed, 0, INCARNATIONS);
        testhost_request r = testhost_request_of(&a, op, "orders", id, nonce, token.redis);
        const bool is_short =
            simba__random_range(&seed, 0, 100) == 0 && op != SIMBA_OP_RENEW; /* its lease stays as long */
        if (is_short) {
            r.request.ttl_ms = 5;
            r.request.transition_ms = 5;
        }
        const simba_reply redis_says = *testhost_ask(&a, &r);
        assert_int_equal(redis_says.status, 0);
        simba_request request = r.request;
        request.token = token.row;
        simba__row_apply(&row, (simba__row_now){redis_says.now_ms * SIMBA__NS_PER_MS, redis_says.now_ms * 1000},
                         &request);
        assert_same(step, op, &redis_says, &request.reply);
        follow_tokens(&redis_says, &request.reply);
        outcomes[redis_says.outcome]++;
        if (is_short && redis_says.outcome == SIMBA_MINE) {
            testhost_pump(&a, NULL, 20); /* the lease ends between two questions, not during one */
            ends++;
        }
    }
    print_message("# not mine %u, mine %u, revoked %u, leases that ended %u\n", outcomes[0], outcomes[1], outcomes[2],
                  ends);
    assert_true(outcomes[0] > 100 && outcomes[1] > 100 && outcomes[2] > 10 && ends > 5);
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(same_rules, setup)};
    return RUN_REDIS_TESTS(tests);
}
