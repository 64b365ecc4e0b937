/* A duration that is read wrong becomes a lease that is a thousand times too short or too long, without any error. So
 * the grammar is pinned from both sides: what is taken, and everything near it that is not. */
#include <inttypes.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "util/random.h"

static void assert_is(const char *text, int64_t expected)
{
    int64_t ms = -7;
    assert_int_equal(simba_duration_parse(text, &ms), 0);
    assert_int_equal(ms, expected);
}

static void assert_refused(const char *text)
{
    int64_t ms = -7;
    assert_int_equal(simba_duration_parse(text, &ms), SIMBA_EINVAL);
    assert_int_equal(ms, -7);
}

/* Each unit. */
static void units_are_understood(void **state)
{
    assert_is("500ms", 500);
    assert_is("10s", 10000);
    assert_is("2m", 120000);
    assert_is("1h", 3600000);
    assert_is("0ms", 0);
    assert_is("0h", 0);
    assert_is("007s", 7000);
    assert_is("010s", 10000); /* not octal */
}

/* Part of a unit, as long as it comes to whole milliseconds: rounding would be guessing. */
static void fractions_are_understood(void **state)
{
    assert_is("1.5s", 1500);
    assert_is("0.25s", 250);
    assert_is("0.001s", 1);
    assert_is("1.0ms", 1);
    assert_is("2.50000000000000000000s", 2500);
    assert_is("1.5m", 90000);
    assert_is("0.00005m", 3);
    assert_is("0.5h", 1800000);
    assert_is("0.0000025h", 9); /* no digit of it does */
    assert_is("010.010s", 10010);
    assert_refused("1.5ms");
    assert_refused("0.0001s");
    assert_refused("0.00001m");
    assert_refused("0.000055m");
    assert_refused("0.3333333333333333333333333333333h");
    assert_is("9223372036854775.807s", INT64_MAX);
    assert_refused("9223372036854775.808s");
}

/* What does not fit is refused instead of wrapped around or clamped. */
static void overflow_is_refused(void **state)
{
    assert_is("9223372036854775807ms", INT64_MAX);
    assert_refused("9223372036854775808ms");
    assert_is("9223372036854775s", INT64_C(9223372036854775000));
    assert_refused("9223372036854776s");
    assert_is("153722867280912m", INT64_C(9223372036854720000));
    assert_refused("153722867280913m");
    assert_is("2562047788015h", INT64_C(9223372036854000000));
    assert_refused("2562047788016h");
    assert_refused("99999999999999999999999999999999999999ms");
    assert_refused("18446744073709551617ms"); /* 2^64 + 1 */
}

/* The grammar again, digit by digit, in integers that cannot overflow. False: not a duration. */
static bool read_slowly(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    __extension__ typedef __int128 wide;
    wide number = 0;
    size_t digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9'; digits++)
        if (number <= INT64_MAX)
            number = number * 10 + (text[digits] - '0');
    size_t end = digits;
    wide scale = 1;
    if (text[digits] == '.' && text[digits + 1] >= '0' && text[digits + 1] <= '9') {
        for (end++; text[end] >= '0' && text[end] <= '9'; end++) {
            if (scale > (wide)1 << 62) /* more of them than the random texts have */
                abort();
            scale *= 10;
            number = number * 10 + (text[end] - '0');
        }
    }
    for (size_t i = 0; digits > 0 && i < 4; i++) {
        const wide scaled = number * units[i].ms;
        if (strcmp(text + end, units[i].name) == 0 && scaled % scale == 0 && scaled / scale <= INT64_MAX) {
            *ret_ms = (int64_t)(scaled / scale);
            return true;
        }
    }
    return false;
}

/* Random strings of the characters that durations are made of, and some that they are not. */
static void random_texts_agree_with_the_grammar(void **state)
{
    static const char alphabet[] = "012345678901234567890000567.899smh ms.-+x";
    uint64_t seed = 42;
    size_t fine = 0;
    for (int round = 0; round < 200000; round++) {
        const size_t length = simba__random_next(&seed) % 18;
        char *text = malloc(length + 3); /* on the heap, where a step too far is noticed */
        assert_non_null(text);
        for (size_t i = 0; i < length; i++) {
            const size_t range = simba__random_next(&seed) % 4 ? 31 : sizeof alphabet - 1;
            text[i] = alphabet[simba__random_next(&seed) % range];
        }
        static const char *const ends[] = {"", "ms", "s", "m", "h"};
        strcpy(text + length, ends[simba__random_next(&seed) % 5]);

        int64_t expected = -7;
        const bool is_one = read_slowly(text, &expected);
        int64_t ms = -7;
        const int rc = simba_duration_parse(text, &ms);
        if (rc != (is_one ? 0 : SIMBA_EINVAL) || ms != expected)
            fail_msg("\"%s\" gave %d and %" PRId64 ", not %" PRId64, text, rc, ms, expected);
        fine += is_one;
        free(text);
    }
    assert_true(fine > 5000 && fine < 195000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_understood),
        cmocka_unit_test(fractions_are_understood),
        cmocka_unit_test(overflow_is_refused),
        cmocka_unit_test(random_texts_agree_with_the_grammar),
    };
    return cmocka_run_group_tests_name("duration", tests, NULL, NULL);
}
