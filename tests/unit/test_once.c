/* May work that is to begin once in a period begin? Judged by what its last holder left. */
#include "core/record.h"

#include <string.h>

#include "lib/cm.h"

#define HOUR INT64_C(3600000)

static const simba__once strict = {.per_ms = HOUR};
static const simba__once forgiving = {.per_ms = HOUR, .retry_failed = true};

static void expect(const simba__record *record, int64_t now_ms, bool strictly, bool forgivingly)
{
    assert_int_equal(simba__once_may_begin(&strict, record, now_ms), strictly);
    assert_int_equal(simba__once_may_begin(&forgiving, record, now_ms), forgivingly);
}

/* Nobody ever began it. */
static void the_first_may_begin(void **state)
{
    const simba__record record = {.state = SIMBA__RUN_NONE};
    expect(&record, 100 * HOUR, true, true);
}

/* A success counts for the whole period, and a failure only for those who do not repeat it. */
static void a_result_decides(void **state)
{
    static const int results[] = {0, 1, 143, -1};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        simba__record record = {.state = SIMBA__RUN_NONE};
        simba__once_begun(&strict, &record, 100 * HOUR);
        simba__once_ended(&record, results[i], 100 * HOUR + 5);
        expect(&record, 100 * HOUR + 5, false, results[i] != 0);
        expect(&record, 101 * HOUR - 1, false, results[i] != 0);
        expect(&record, 101 * HOUR, true, true);
    }
}

/* A run without an end was cut short, if its judge holds the mutex. The end of the run before it does not count. */
static void a_run_without_an_end_was_cut_short(void **state)
{
    simba__record record = {.state = SIMBA__RUN_NONE};
    simba__once_begun(&strict, &record, 100 * HOUR);
    simba__once_ended(&record, 0, 100 * HOUR + 5);
    simba__once_begun(&strict, &record, 102 * HOUR);
    expect(&record, 102 * HOUR + 1, false, true);
}

/* Nobody can know whether the period is over when the clock went back. */
static void a_clock_that_went_back_makes_it_longer(void **state)
{
    simba__record record = {.state = SIMBA__RUN_NONE};
    simba__once_begun(&strict, &record, 100 * HOUR);
    simba__once_ended(&record, 0, 100 * HOUR + 5);
    expect(&record, 90 * HOUR, false, false);
    expect(&record, INT64_MIN, false, false);
}

/* The record says all that, and comes back from a note. A run that begins again begins a new period. */
static void the_record_tells_it(void **state)
{
    char text[SIMBA__RECORD_MAX + 1];
    simba__record record = {.state = SIMBA__RUN_NONE}, read;
    simba__once_begun(&forgiving, &record, 100 * HOUR);
    simba__once_ended(&record, 3, 100 * HOUR + 5);
    assert_true(simba__once_is_record(&record));
    assert_int_equal(simba__once_next_ms(&record), 101 * HOUR);
    const size_t size = simba__record_write(&record, text);
    assert_int_equal(simba__record_read(text, size, NULL, &read), size);
    assert_int_equal(read.state, SIMBA__RUN_ENDED);
    assert_int_equal(read.result, 3);
    assert_int_equal(read.ended_ms, 100 * HOUR + 5);
    assert_string_equal(read.spec, "once per 3600000");
    simba__once_begun(&forgiving, &read, 100 * HOUR + 1000);
    assert_int_equal(simba__once_next_ms(&read), 101 * HOUR + 1000);
    strcpy(read.spec, "every 3600000");
    assert_false(simba__once_is_record(&read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_may_begin),
        cmocka_unit_test(a_result_decides),
        cmocka_unit_test(a_run_without_an_end_was_cut_short),
        cmocka_unit_test(a_clock_that_went_back_makes_it_longer),
        cmocka_unit_test(the_record_tells_it),
    };
    return cmocka_run_group_tests_name("once", tests, NULL, NULL);
}
