/* Values of rows as a MySQL server sends them: what they say, and where they end. */
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"

#include "backends/mysql/value.h"

static simba__sql_columns columns;

/* Take a value from these bytes, which lie at the end of what may be read. Returns how many it has; -1: it was refused. */
static int take(unsigned column, enum enum_field_types type, bool is_unsigned, const void *bytes, size_t size)
{
    unsigned char *copy = malloc(size + 1); /* so that a sanitizer knows where they end */
    assert_non_null(copy);
    memcpy(copy + 1, bytes, size);
    const unsigned char *at = copy + 1;
    const bool is_taken = simba__my_value_take(&columns, column, type, is_unsigned, &at, copy + 1 + size);
    const int taken = is_taken ? (int)(at - copy - 1) : -1;
    free(copy);
    return taken;
}

static void numbers_of_all_sizes(void **state)
{
    (void)state;
    assert_int_equal(take(SIMBA__SQL_VERSION, MYSQL_TYPE_LONG, true, "\xFF\xFF\xFF\xFF", 4), 4);
    assert_int_equal(columns.version, UINT32_MAX);
    assert_false(columns.is_cut[SIMBA__SQL_VERSION]);
    assert_int_equal(take(SIMBA__SQL_TTL_AT, MYSQL_TYPE_SHORT, false, "\xFE\xFF", 2), 2);
    assert_int_equal(columns.ttl_at, -2);
    assert_int_equal(take(SIMBA__SQL_TTL_AT, MYSQL_TYPE_TINY, false, "\x7F", 1), 1);
    assert_int_equal(columns.ttl_at, 127);
    assert_int_equal(take(SIMBA__SQL_NONCE, MYSQL_TYPE_LONGLONG, true, "\1\0\0\0\0\0\0\x80", 8), 8);
    assert_true(columns.nonce == (UINT64_C(1) << 63) + 1);
}

/* A time beyond what a signed number holds, or a version below zero, is not taken for another one. */
static void numbers_that_do_not_fit(void **state)
{
    (void)state;
    static const unsigned char high[8] = {[7] = 0x80};
    assert_int_equal(take(SIMBA__SQL_TRANSITION_AT, MYSQL_TYPE_LONGLONG, true, high, 8), 8);
    assert_true(columns.is_cut[SIMBA__SQL_TRANSITION_AT]);
    assert_int_equal(take(SIMBA__SQL_TRANSITION_AT, MYSQL_TYPE_LONGLONG, false, high, 8), 8);
    assert_false(columns.is_cut[SIMBA__SQL_TRANSITION_AT]);
    assert_int_equal(take(SIMBA__SQL_VERSION, MYSQL_TYPE_LONG, false, "\xFF\xFF\xFF\xFF", 4), 4);
    assert_true(columns.is_cut[SIMBA__SQL_VERSION]);
}

static void texts(void **state)
{
    (void)state;
    char note[3 + 2000] = "\xFC\xD0\7";
    assert_int_equal(take(SIMBA__SQL_MUTEX, MYSQL_TYPE_VAR_STRING, false, "\6orders", 7), 7);
    assert_string_equal(simba__sql_columns_mutex(&columns), "orders");
    assert_int_equal(take(SIMBA__SQL_OWNER_ID, MYSQL_TYPE_STRING, false, "\xFD\2\0\0me", 6), 6);
    assert_int_equal(columns.owner_length, 2);
    assert_int_equal(take(SIMBA__SQL_NOTE, MYSQL_TYPE_BLOB, false, note, sizeof note), sizeof note);
    assert_int_equal(columns.note_length, 2000);
    assert_true(columns.is_cut[SIMBA__SQL_NOTE]);
    assert_int_equal(take(SIMBA__SQL_NOTE, MYSQL_TYPE_BLOB, false, "\0", 1), 1);
    assert_int_equal(columns.note_length, 0);
}

/* Where an administrator made a column of decimals, they come as text. */
static void numbers_as_text(void **state)
{
    (void)state;
    static const char digits[] = "\x28"
                                 "1234567890123456789012345678901234567890";
    assert_int_equal(take(SIMBA__SQL_TTL_AT, MYSQL_TYPE_NEWDECIMAL, false, "\00212", 3), 3);
    assert_int_equal(columns.ttl_at, 12);
    assert_int_equal(take(SIMBA__SQL_TTL_AT, MYSQL_TYPE_NEWDECIMAL, false, digits, 41), 41);
    assert_true(columns.is_cut[SIMBA__SQL_TTL_AT]);
}

/* Whatever the length says, nothing is read behind the end. */
static void ends_too_early(void **state)
{
    (void)state;
    static const char *const lengths[] = {"\7orders", "\xFC\xFF\xFForders", "\xFD\xFF\xFF\xFForders",
                                          "\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFForders"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t size = 0; size <= strlen(lengths[i]); size++)
            assert_int_equal(take(SIMBA__SQL_MUTEX, MYSQL_TYPE_VAR_STRING, false, lengths[i], size), -1);
    for (size_t size = 0; size < 8; size++)
        assert_int_equal(take(SIMBA__SQL_NOW, MYSQL_TYPE_LONGLONG, false, "12345678", size), -1);
    assert_int_equal(take(SIMBA__SQL_MUTEX, MYSQL_TYPE_VAR_STRING, false, "\xFB", 1), -1);
    assert_int_equal(take(SIMBA__SQL_MUTEX, MYSQL_TYPE_VAR_STRING, false, "\xFF", 1), -1);
}

/* A name is not a number, and none of our columns is a date. */
static void other_types(void **state)
{
    (void)state;
    assert_int_equal(take(SIMBA__SQL_MUTEX, MYSQL_TYPE_LONGLONG, false, "12345678", 8), -1);
    assert_int_equal(take(SIMBA__SQL_NOTE, MYSQL_TYPE_TINY, false, "1", 1), -1);
    for (unsigned type = 0; type < 256; type++) {
        const int taken = take(SIMBA__SQL_TTL_AT, (enum enum_field_types)type, false, "\1\0\0\0\0\0\0\0", 8);
        const bool is_known = type == 0 || (type >= 1 && type <= 3) || type == 8 || type == 9 || type == 13 ||
                              type == 15 || type == 246 || type == 247 || (type >= 249 && type <= 254);
        assert_int_equal(taken > 0, is_known);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_all_sizes),
        cmocka_unit_test(numbers_that_do_not_fit),
        cmocka_unit_test(texts),
        cmocka_unit_test(numbers_as_text),
        cmocka_unit_test(ends_too_early),
        cmocka_unit_test(other_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
