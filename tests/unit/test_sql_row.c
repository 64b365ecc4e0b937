/* Rows of the SQL stores: cells to a row, what a request makes of it, and the text that writes it. Without any server. */
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
    (void)state;
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
    (void)state;
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
    (void)state;
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
    (void)state;
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
    (void)state;
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

/* --- the text of packets ---------------------------------------------------------------------------------------- */

static void put_quoted(simba__buffer *out, const char *text)
{
    simba__buffer_put(out, "'", 1);
    simba__buffer_put(out, text, strlen(text));
    simba__buffer_put(out, "'", 1);
}

static void put_bytes(simba__buffer *out, const void *bytes, size_t size)
{
    simba__buffer_put(out, "x", 1);
    simba__buffer_put(out, bytes, size);
}

static const simba__sql_words words = {.table = "t",
                                       .waiters = "w",
                                       .now = "NOW",
                                       .note = ", NOTE",
                                       .begin = "BEGIN",
                                       .last = "LAST",
                                       .write = "WRITE; ",
                                       .write_waiters = "LOOSELY; ",
                                       .on_conflict = " ON CONFLICT (%s) ",
                                       .new_begin = "new.",
                                       .new_end = "",
                                       .keep = " KEEP",
                                       .is_signed = true,
                                       .put_text = put_quoted,
                                       .put_bytes = put_bytes};

static void assert_text(const simba__sql_ask *ask, const char *expected)
{
    simba__buffer out = {0};
    simba__sql_put_ask(&out, &words, ask);
    simba__buffer_put(&out, "", 1);
    assert_string_equal(out.data, expected);
    simba__buffer_free(&out);
}

#define COLUMNS                                                                                                        \
    "mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, revoked_version, "            \
    "note_token, "                                                                                                     \
    "note_number, forgotten_version"

static void packet_1(void **state)
{
    (void)state;
    const char *const names[] = {"a", "b"};
    assert_text(
        &(simba__sql_ask){.kind = SIMBA__SQL_LOCK, .names = names, .count = 2, .waited = names, .waited_count = 1},
        "BEGIN; select " COLUMNS " from t where mutex in ('a', 'b') order by mutex for update skip locked; "
        "select mutex, nonce, channel, since, until, invited from w where mutex in ('a'); LAST");
    assert_text(&(simba__sql_ask){.kind = SIMBA__SQL_SEE, .names = names, .count = 1},
                "select " COLUMNS ", NOW from t where mutex in ('a')");
    assert_text(&(simba__sql_ask){.kind = SIMBA__SQL_LIST}, "select " COLUMNS ", NOW, NOTE from t order by mutex");
    assert_text(&(simba__sql_ask){.kind = SIMBA__SQL_MAKE, .names = names, .count = 2},
                "WRITE; rollback; insert into t (mutex, acquired_at, ttl_at, transition_at, owner_id, version) values "
                "('a', 0, 0, 0, '', 0), ('b', 0, 0, 0, '', 0) KEEP");
}

static void packet_2(void **state)
{
    (void)state;
    const simba_request note = {.note = "n", .note_size = 1};
    simba__sql_row rows[] = {row_of("me", "3000", "7", "7"), row_of("", "0", "9", NULL), row_of("x", "1", "1", NULL)};
    simba__sql_waiter waiters[] = {{.row = 0, .nonce = UINT64_MAX, .channel = "c", .until = 5, .is_changed = true},
                                   {.row = 1, .nonce = 2, .is_gone = true}};
    simba__sql_notice notices[] = {{.channel = "c", .kind = '1', .mutex = "m"}};
    rows[0].is_put = true;
    rows[1].is_forgotten_now = true;
    rows[1].forgotten_version = 9;
    rows[1].note = &note;
    rows[1].row.note_token = 9;
    rows[1].row.note_number = 3;
    rows[2].presence = SIMBA__SQL_SEEN;
    rows[2].is_put = true; /* it is not locked, so it is not written */
    simba__sql_batch batch = {
        .rows = rows, .row_count = 3, .waiters = waiters, .waiter_count = 2, .notices = notices, .notice_count = 1};
    batch.writes = true;
    assert_text(
        &(simba__sql_ask){.kind = SIMBA__SQL_WRITE, .batch = &batch},
        "WRITE; insert into t (mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, "
        "revoked_version) values ('m', 1000, 2000, 3000, 'me', 7, 9, 7, 0) ON CONFLICT (mutex) acquired_at = "
        "new.acquired_at, ttl_at = new.ttl_at, transition_at = new.transition_at, owner_id = new.owner_id, version "
        "= new.version, nonce = new.nonce, nonce_version = new.nonce_version, revoked_version = "
        "new.revoked_version; update t set note = null, note_token = null, note_number = null, note_written_at = "
        "null, forgotten_version = 9 where mutex in ('m'); update t set note = xn, note_token = 9, note_number = "
        "3, note_written_at = 0 where mutex in ('m'); insert into w (mutex, nonce, channel, since, until, "
        "invited) values ('m', -1, 'c', 0, 5, 0) ON CONFLICT (mutex, nonce) channel = new.channel, until = "
        "new.until, invited = new.invited; delete from w where (mutex, nonce) in (('m', 2)); select "
        "pg_notify('c', '1 m'); commit");
    batch = (simba__sql_batch){.rows = rows, .row_count = 0};
    assert_text(&(simba__sql_ask){.kind = SIMBA__SQL_WRITE, .batch = &batch}, "LOOSELY; commit");
    assert_text(&(simba__sql_ask){.kind = SIMBA__SQL_ROLLBACK}, "WRITE; rollback");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_flaws),  cmocka_unit_test(about_end),        cmocka_unit_test(about_tokens),
        cmocka_unit_test(about_nonces), cmocka_unit_test(about_forgetting), cmocka_unit_test(packet_1),
        cmocka_unit_test(packet_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
