/* What a client remembers of the rows that it has seen: without any server. */
#include "lib/cm.h"

#include <stdio.h>

#include "stores/sql/grants.h"
#include "util/clock.h"

static simba__sql_grants grants;

static simba_local at(int64_t ms)
{
    return (simba_local){ms * SIMBA__NS_PER_MS};
}

static simba_request request_of(simba_op op, uint64_t nonce, simba_outcome outcome)
{
    return (simba_request){
        .op = op, .mutex = "m", .nonce = nonce, .ttl_ms = 100, .transition_ms = 50, .reply = {.outcome = outcome}};
}

/* The greatest version counts, whatever came later. */
static void greatest_version(void **state)
{
    assert_int_equal(simba__sql_grants_floor(&grants, "m"), 0);
    simba__sql_grants_saw(&grants, "m", 7, at(0));
    simba__sql_grants_saw(&grants, "m", 3, at(0));
    assert_int_equal(simba__sql_grants_floor(&grants, "m"), 7);
    assert_int_equal(simba__sql_grants_floor(&grants, "other"), 0);
    simba__sql_grants_fini(&grants);
    grants = (simba__sql_grants){0};
}

/* A grant is held until its lease is over, counted from when it was asked for; not against its own nonce; and not when its release
 * was submitted, or somebody forced it away. */
static void own_grant(void **state)
{
    const simba_request won = request_of(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE);
    const simba_request lost = request_of(SIMBA_OP_ACQUIRE, 2, SIMBA_NOT_MINE);
    const simba_request forced = request_of(SIMBA_OP_FORCE_RELEASE, 0, SIMBA_MINE);
    simba__sql_grants_saw(&grants, "m", 7, at(0));
    simba__sql_grants_answered(&grants, &lost, at(0));
    assert_false(simba__sql_grants_is_held(&grants, "m", 1, at(1)));
    simba__sql_grants_answered(&grants, &won, at(0));
    assert_int_equal(simba__sql_grants_holder(&grants, "m"), 1);
    assert_true(simba__sql_grants_is_held(&grants, "m", 2, at(149)));
    assert_false(simba__sql_grants_is_held(&grants, "m", 2, at(150)));
    assert_false(simba__sql_grants_is_held(&grants, "m", 1, at(1)));
    simba__sql_grants_answered(&grants, &lost, at(1)); /* changes nothing */
    assert_true(simba__sql_grants_is_held(&grants, "m", 2, at(1)));
    simba__sql_grants_releasing(&grants, "m", 2);
    assert_true(simba__sql_grants_is_held(&grants, "m", 2, at(1)));
    simba__sql_grants_releasing(&grants, "m", 1);
    assert_false(simba__sql_grants_is_held(&grants, "m", 2, at(1)));
    simba__sql_grants_answered(&grants, &won, at(0));
    simba__sql_grants_answered(&grants, &forced, at(1));
    assert_false(simba__sql_grants_is_held(&grants, "m", 2, at(1)));
    simba__sql_grants_fini(&grants);
    grants = (simba__sql_grants){0};
}

/* There is room for so many: the least recently used is forgotten first, but never one that is held. */
static void about_room(void **state)
{
    char mutex[32];
    const simba_request won = request_of(SIMBA_OP_ACQUIRE, 1, SIMBA_MINE);
    simba__sql_grants_saw(&grants, "m", 7, at(0));
    for (int i = 0; i < SIMBA__SQL_GRANTS_MAX; i++) {
        snprintf(mutex, sizeof mutex, "mutex %d", i);
        simba__sql_grants_saw(&grants, mutex, 1, at(0));
    }
    assert_int_equal(simba__sql_grants_floor(&grants, "m"), 0);
    assert_int_equal(simba__sql_grants_floor(&grants, "mutex 0"), 1);
    simba__sql_grants_saw(&grants, "m", 7, at(0)); /* in place of mutex 0 */
    simba__sql_grants_answered(&grants, &won, at(0));
    for (int i = 0; i < SIMBA__SQL_GRANTS_MAX + 9; i++) {
        snprintf(mutex, sizeof mutex, "later %d", i);
        simba__sql_grants_saw(&grants, mutex, 1, at(1));
    }
    assert_int_equal(simba__sql_grants_floor(&grants, "m"), 7);
    simba__sql_grants_fini(&grants);
    grants = (simba__sql_grants){0};
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greatest_version),
        cmocka_unit_test(own_grant),
        cmocka_unit_test(about_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
