/* See value.h. */
#include "backends/mysql/value.h"

#include <string.h>

/* So many bytes, the least significant first. */
static uint64_t read_number(const unsigned char *at, size_t size)
{
    uint64_t number = 0;
    for (size_t i = size; i-- > 0;)
        number = number << 8 | at[i];
    return number;
}

/* Of a number's type; 0: it is no such type. */
static size_t number_size(enum enum_field_types type)
{
    switch (type) {
    case MYSQL_TYPE_TINY:
        return 1;
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_YEAR:
        return 2;
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
        return 4;
    case MYSQL_TYPE_LONGLONG:
        return 8;
    default:
        return 0;
    }
}

static bool is_bytes(enum enum_field_types type)
{
    switch (type) {
    case MYSQL_TYPE_DECIMAL:
    case MYSQL_TYPE_NEWDECIMAL:
    case MYSQL_TYPE_VARCHAR:
    case MYSQL_TYPE_VAR_STRING:
    case MYSQL_TYPE_STRING:
    case MYSQL_TYPE_ENUM:
    case MYSQL_TYPE_TINY_BLOB:
    case MYSQL_TYPE_MEDIUM_BLOB:
    case MYSQL_TYPE_LONG_BLOB:
    case MYSQL_TYPE_BLOB:
        return true;
    default:
        return false;
    }
}

static bool is_text_column(unsigned column)
{
    return column == SIMBA__SQL_MUTEX || column == SIMBA__SQL_OWNER_ID || column == SIMBA__SQL_NOTE;
}

/* A length, in one byte or in those that the first one announces. */
static bool take_length(const unsigned char **at, const unsigned char *end, uint64_t *ret_length)
{
    static const unsigned char sizes[] = {[252 - 251] = 2, [253 - 251] = 3, [254 - 251] = 8, [255 - 251] = 0};
    if (*at == end)
        return false;
    const unsigned first = *(*at)++;
    *ret_length = first;
    if (first < 251)
        return true;
    const size_t size = sizes[first - 251];
    if (size == 0 || (size_t)(end - *at) < size)
        return false;
    *ret_length = read_number(*at, size);
    *at += size;
    return true;
}

static int64_t widen(uint64_t number, size_t size)
{
    const unsigned unused = 64 - 8 * (unsigned)size;
    return (int64_t)(number << unused) >> unused;
}

static void set_number_from_text(simba__sql_columns *columns, unsigned column, const unsigned char *text, size_t length)
{
    char copy[32] = "?"; /* no number has as many digits */
    if (length < sizeof copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    simba__sql_columns_set(columns, (int)column, copy, strlen(copy));
}

bool simba__my_value_take(simba__sql_columns *columns, unsigned column, enum enum_field_types type, bool is_unsigned,
                          const unsigned char **at, const unsigned char *end)
{
    const size_t size = number_size(type);
    uint64_t length;
    if (size > 0) {
        if (is_text_column(column) || (size_t)(end - *at) < size)
            return false;
        const uint64_t number = read_number(*at, size);
        simba__sql_columns_set_number(columns, (int)column, is_unsigned ? number : (uint64_t)widen(number, size),
                                      is_unsigned);
        *at += size;
        return true;
    }
    if (!is_bytes(type) || !take_length(at, end, &length) || length > (size_t)(end - *at))
        return false;
    if (is_text_column(column))
        simba__sql_columns_set(columns, (int)column, (const char *)*at, length);
    else
        set_number_from_text(columns, column, *at, length);
    *at += length;
    return true;
}
