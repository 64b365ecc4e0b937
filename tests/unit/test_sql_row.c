/* Rows of the SQL stores: cells to a row, and what a request makes of it. Without any server. */
#include "lib/cm.h"

#include <string.h>

#include "stores/sql/sql.h"
#include "util/clock.h"

static simba__sql_row row_of(const char *owner, const char *transition_at, const char *version,
                             const char *nonce_version)
{
    const char *const texts[SIMBA__SQL_LOCK_COLUMNS] = {"m", "1000",        "2000", transition_at, owner, version,
                                                        "9", nonce_version, NULL,   NULL,          NULL,  NULL};
    simba__sql_cell cells[SIMBA__SQL_LOCK_COLUMNS];
    for (int i = 0; i < SIMBA__SQL_LOCK_COLUMNS; i++)
        cells[i] = (simba__sql_cell){texts[i], texts[i] ? strlen(texts[i]) : 0};
    simba__sql_row row = {.mutex = "m"};
    simba__sql_row_decode(&row, cells, UINT32_MAX);
    row.presence = SIMBA__SQL_LOCKED;
    return row;
}

static simba_outcome apply(simba__sql_row *row, simba_op op, uint64_t nonce, uint64_t token, uint64_t floor)
{
    simba_request request = {
        .op = op, .mutex = "m", .id = "me", .nonce = nonce, .token = token, .ttl_ms = 100, .transition_ms = 50};
    assert_true(simba__sql_row_apply(row, &request, floor));
    return request.reply.outcome;
}

/* What no server of simba's says is a flaw. */
static void about_flaws(void **state)
{
    assert_null(row_of("me", "3000", "7", "7").flaw);
    assert_string_equal(row_of(NULL, "3000", "7", "7").flaw, "owner_id is null");
    assert_string_equal(row_of("me", NULL, "7", "7").flaw, "transition_at is null");
    assert_string_equal(row_of("me", "9223372036854775807", "7", "7").flaw, "transition_at is out of range");
    assert_string_equal(row_of("me", "soon", "7", "7").flaw, "transition_at is out of range");
    assert_string_equal(row_of("me", "3000", "-7", "7").flaw, "version is out of range");
    assert_string_equal(row_of("me", "3000", "7 ", "7").flaw, "version is out of range");
    assert_null(row_of("me", "-3000", "7", "7").flaw); /* over before time began */
}

/* The last millisecond of a lease is nobody's to take. */
static void about_end(void **state)
{
    simba__sql_row row = row_of("you", "3000", "7", "7");
    row.now_ms = 3000;
    assert_int_equal(apply(&row, SIMBA_OP_ACQUIRE, 1, 0, 0), SIMBA_NOT_MINE);
    row.now_ms = 3001;
    assert_int_equal(apply(&row, SIMBA_OP_ACQUIRE, 1, 0, 0), SIMBA_MINE);
    assert_int_equal(row.version, 8);
    assert_int_equal(row.nonce_version, 8);
    assert_int_equal(row.row.owner.transition_at_ms, 3151);
}

/* A new token is above the version and above whatever this client has seen, and fits into the column. */
static void about_tokens(void **state)
{
    simba__sql_row row = row_of("", "0", "7", NULL);
    simba_request request = {.op = SIMBA_OP_ACQUIRE, .mutex = "m", .id = "me", .nonce = 1, .ttl_ms = 9};
    assert_int_equal(apply(&row, SIMBA_OP_ACQUIRE, 1, 0, 40), SIMBA_MINE);
    assert_int_equal(row.version, 41);
    row = row_of("", "0", "4294967295", NULL);
    assert_false(simba__sql_row_apply(&row, &request, 0));
    row = row_of("", "0", "7", NULL);
    assert_false(simba__sql_row_apply(&row, &request, UINT32_MAX));
}

/* A grant belongs to an incarnation; one that the JVM has written since belongs to nobody of simba's. */
static void about_nonces(void **state)
{
    simba__sql_row row = row_of("me", "3000", "7", "7");
    assert_int_equal(apply(&row, SIMBA_OP_RENEW, 9, 7, 0), SIMBA_MINE);
    assert_int_equal(row.version, 7);
    assert_int_equal(apply(&row, SIMBA_OP_RENEW, 8, 7, 0), SIMBA_NOT_MINE);
    assert_int_equal(apply(&row, SIMBA_OP_RENEW, 9, 6, 0), SIMBA_NOT_MINE);
    row = row_of("me", "3000", "8", "7");
    assert_int_equal(apply(&row, SIMBA_OP_RENEW, 9, 7, 0), SIMBA_NOT_MINE);
    assert_int_equal(apply(&row, SIMBA_OP_ACQUIRE, 9, 0, 0), SIMBA_NOT_MINE);
    assert_int_equal(simba__sql_row_read(&row).owner.token, 0); /* it has no token */
}

/* A mutex that was forgotten keeps its version, and is not known until somebody takes it. */
static void about_forgetting(void **state)
{
    simba__sql_row row = row_of("", "0", "7", NULL);
    assert_int_equal(apply(&row, SIMBA_OP_FORGET, 0, 0, 0), SIMBA_MINE);
    assert_int_equal(row.forgotten_version, 7);
    assert_int_equal(apply(&row, SIMBA_OP_FORGET, 0, 0, 0), SIMBA_NOT_MINE);
    assert_int_equal(apply(&row, SIMBA_OP_ACQUIRE, 1, 0, 0), SIMBA_MINE);
    assert_int_equal(row.version, 8);
    simba__sql_row missing = {.mutex = "m"};
    simba__sql_row_clear(&missing, 1);
    assert_int_equal(apply(&missing, SIMBA_OP_FORGET, 0, 0, 0), SIMBA_NOT_MINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_flaws),  cmocka_unit_test(about_end),        cmocka_unit_test(about_tokens),
        cmocka_unit_test(about_nonces), cmocka_unit_test(about_forgetting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
