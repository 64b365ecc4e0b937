/* Saturating arithmetic against the same in more bits. */
#include "util/saturate.h"

#include <stddef.h>

#include "lib/cm.h"

static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, -1000000,      -2,       -1, 0, 1,
                               2,         1000000,       INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};
enum { ENDS = sizeof ends / sizeof *ends };

static int64_t clamp(__int128 exact)
{
    return exact > INT64_MAX ? INT64_MAX : exact < INT64_MIN ? INT64_MIN : (int64_t)exact;
}

static void results_are_exact_or_at_the_end(void **state)
{
    for (size_t i = 0; i < ENDS; i++)
        for (size_t j = 0; j < ENDS; j++) {
            const __int128 a = ends[i];
            const __int128 b = ends[j];
            assert_int_equal(simba__sat_add(ends[i], ends[j]), clamp(a + b));
            assert_int_equal(simba__sat_sub(ends[i], ends[j]), clamp(a - b));
            assert_int_equal(simba__sat_mul(ends[i], ends[j]), clamp(a * b));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_exact_or_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
