/* Who is next in line: see line.h. */
#include "backends/sqlite/line.h"

#include "lib/cm.h"

static simba__sqlite_line line;

static int begin(void **state)
{
    (void)state;
    line = (simba__sqlite_line){{0}};
    return 0;
}

static void about_nobody(void **state)
{
    (void)state;
    assert_int_equal(simba__sqlite_line_first(&line, 7, 1000), -1);
}

static void who_came_first(void **state)
{
    (void)state;
    line.cells[3] = simba__sqlite_line_cell(7, false, 900);
    line.cells[9] = simba__sqlite_line_cell(7, false, 800);
    line.cells[SIMBA__SQLITE_BELLS - 1] = simba__sqlite_line_cell(7, false, 800);
    assert_int_equal(simba__sqlite_line_first(&line, 7, 1000), 9);
}

/* 31 bits of the hash tell mutexes of a line apart. */
static void other_mutexes(void **state)
{
    (void)state;
    const uint64_t hash = UINT64_C(5) << 33 | 7;
    const uint64_t other = UINT64_C(6) << 33 | 7;
    line.cells[3] = simba__sqlite_line_cell(other, false, 100);
    assert_int_equal(simba__sqlite_line_first(&line, hash, 1000), -1);
    assert_false(simba__sqlite_line_observes(simba__sqlite_line_cell(other, true, 100), hash));
    assert_true(simba__sqlite_line_observes(simba__sqlite_line_cell(hash, true, 100), hash));
    assert_true(simba__sqlite_line_observes(simba__sqlite_line_cell_of_several(), hash));
    assert_false(simba__sqlite_line_observes(simba__sqlite_line_cell(hash, false, 100), hash));
}

/* Who hears of everything does not stand in line, and an empty cell is nobody's, also for a hash whose bits are all 0. */
static void no_cell_is_empty(void **state)
{
    (void)state;
    assert_int_not_equal(simba__sqlite_line_cell(0, false, 0), 0);
    assert_int_not_equal(simba__sqlite_line_cell_of_several(), 0);
    assert_false(simba__sqlite_line_observes(0, 0));
    line.cells[2] = simba__sqlite_line_cell(0, true, 0);
    line.cells[4] = simba__sqlite_line_cell_of_several();
    assert_int_equal(simba__sqlite_line_first(&line, 0, 1000), -1);
    line.cells[5] = simba__sqlite_line_cell(0, false, 0);
    assert_int_equal(simba__sqlite_line_first(&line, 0, 1000), 5);
}

static void the_clock_wraps_around(void **state)
{
    (void)state;
    line.cells[3] = simba__sqlite_line_cell(7, false, 5);
    line.cells[4] = simba__sqlite_line_cell(7, false, UINT32_MAX - 5);
    assert_int_equal(simba__sqlite_line_first(&line, 7, 10), 4);
}

/* A process that read the clock after us has waited for no time, not for ever. */
static void a_time_to_come(void **state)
{
    (void)state;
    line.cells[3] = simba__sqlite_line_cell(7, false, 1001);
    line.cells[4] = simba__sqlite_line_cell(7, false, 990);
    assert_int_equal(simba__sqlite_line_first(&line, 7, 1000), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(about_nobody, begin),           cmocka_unit_test_setup(who_came_first, begin),
        cmocka_unit_test_setup(other_mutexes, begin),          cmocka_unit_test_setup(no_cell_is_empty, begin),
        cmocka_unit_test_setup(the_clock_wraps_around, begin), cmocka_unit_test_setup(a_time_to_come, begin),
    };
    return cmocka_run_group_tests_name("sqlite line", tests, NULL, NULL);
}
