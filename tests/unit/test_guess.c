/* A slip of the keys is understood, and nothing is suggested that nobody can have meant. */
#include "util/guess.h"

#include <string.h>

#include "lib/cm.h"

static const char *guess(const char *given)
{
    static const char *const names[] = {"run", "list", "release", "timeline", "transition", "redis", "redis+sentinel"};
    simba__guess best = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        simba__guess_offer(&best, given, strlen(given), names[i]);
    return best.name ? best.name : "";
}

/* One character too many, too few, another one, two the wrong way round. */
static void slips_are_understood(void **state)
{
    assert_string_equal(guess("runn"), "run");
    assert_string_equal(guess("lst"), "list");
    assert_string_equal(guess("lisd"), "list");
    assert_string_equal(guess("lsit"), "list");
    assert_string_equal(guess("relaese"), "release");
    assert_string_equal(guess("rdeis"), "redis");
    assert_string_equal(guess("redis+sentinal"), "redis+sentinel");
    assert_string_equal(guess("transition"), "transition");
}

/* The nearest wins; the beginning of a name is near. */
static void the_nearest_is_meant(void **state)
{
    assert_string_equal(guess("redi"), "redis");
    assert_string_equal(guess("time"), "timeline");
    assert_string_equal(guess("trans"), "transition");
}

static void strangers_are_not_suggested(void **state)
{
    assert_string_equal(guess(""), "");
    assert_string_equal(guess("x"), "");
    assert_string_equal(guess("ru"), "run");
    assert_string_equal(guess("postgres"), "");
    assert_string_equal(guess("lock"), "");
    assert_string_equal(guess("a-name-that-is-longer-than-anything-that-there-is-of-that-kind"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slips_are_understood),
        cmocka_unit_test(the_nearest_is_meant),
        cmocka_unit_test(strangers_are_not_suggested),
    };
    return cmocka_run_group_tests_name("guess", tests, NULL, NULL);
}
