/* Durations as people write them. The unit is required: some tools read a bare number as seconds, and others as
 * milliseconds. */
#include <simba.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *text)
{
    while (is_digit(*text))
        text++;
    return text;
}

/* The digits in [text, end) as a number; false: it does not fit. */
static bool read_digits(const char *text, const char *end, int64_t *ret_number)
{
    int64_t number = 0;
    for (; text < end; text++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *text - '0', &number))
            return false;
    *ret_number = number;
    return true;
}

/* The digits behind the point as milliseconds; false: they do not come to whole ones, and rounding would be
 * guessing. No unit has more than seven factors of 2 or 5, so none can be divided by more than 10^7. */
static bool read_fraction(const char *text, const char *end, int64_t unit_ms, int64_t *ret_ms)
{
    enum { PLACES = 7 };
    int64_t number;
    int64_t scale = 1;
    while (end > text && end[-1] == '0')
        end--;
    if (end - text > PLACES || !read_digits(text, end, &number))
        return false;
    for (; text < end; text++)
        scale *= 10;
    *ret_ms = number * unit_ms / scale;
    return number * unit_ms % scale == 0;
}

int simba_duration_parse(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

    if (!text || !ret_ms)
        return SIMBA_EINVAL;
    const char *point = skip_digits(text);
    const bool has_fraction = *point == '.' && is_digit(point[1]);
    const char *unit = has_fraction ? skip_digits(point + 1) : point;
    if (point == text)
        return SIMBA_EINVAL;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        int64_t ms;
        int64_t fraction_ms = 0;
        if (strcmp(unit, units[i].name) != 0)
            continue;
        if (has_fraction && !read_fraction(point + 1, unit, units[i].ms, &fraction_ms))
            return SIMBA_EINVAL;
        if (!read_digits(text, point, &ms) || __builtin_mul_overflow(ms, units[i].ms, &ms) ||
            __builtin_add_overflow(ms, fraction_ms, &ms))
            return SIMBA_EINVAL;
        *ret_ms = ms;
        return 0;
    }
    return SIMBA_EINVAL;
}
