/* Numbers in decimal digits: as printf writes them. */
#include "util/digits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"

static void as_printf_writes_them(void **state)
{
    static const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 65535, 1234567890123456, UINT64_MAX / 10, UINT64_MAX};
    static const size_t widths[] = {0, 1, 2, 16, 20};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            char ours[SIMBA__DIGITS_SIZE];
            char theirs[32];
            snprintf(theirs, sizeof theirs, "%0*" PRIu64, (int)widths[j], numbers[i]);
            assert_int_equal(simba__digits(ours, numbers[i], widths[j]), strlen(theirs));
            assert_string_equal(ours, theirs);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_printf_writes_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
