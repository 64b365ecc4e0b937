/* A duration that is read wrong becomes a lease that is a thousand times too short or too long, without any error. So
 * the grammar is pinned from both sides: what is taken, and everything near it that is not. */
#include <inttypes.h>
#include <simba.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_understood),
        cmocka_unit_test(fractions_are_understood),
        cmocka_unit_test(overflow_is_refused),
    };
    return cmocka_run_group_tests_name("duration", tests, NULL, NULL);
}
