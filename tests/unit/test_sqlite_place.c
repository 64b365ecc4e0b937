/* Whether a file is still at its path: see file.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/sqlite/file.h"
#include "lib/cm.h"
#include "util/clock.h"

enum { LOOK_MS = 1000 };

typedef struct fixture {
    char folder[64];
    char path[96], other[96];
    simba__sqlite_file_place place;
} fixture;

static void touch(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const char *tmp = getenv("TMPDIR");
    snprintf(f->folder, sizeof f->folder, "%.40s/simba-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/file", f->folder);
    snprintf(f->other, sizeof f->other, "%s/other", f->folder);
    touch(f->path);
    simba__sqlite_file_hold_place(&f->place, f->path);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    simba__sqlite_file_leave_place(&f->place);
    unlink(f->path);
    unlink(f->other);
    rmdir(f->folder);
    free(f);
    return 0;
}

/* Look until the kernel's clock is past the latest change. */
static void look_until_settled(fixture *f)
{
    const int64_t begin_ns = simba__clock_mono_ns();
    do {
        assert_true(simba__clock_mono_ns() - begin_ns < 20000 * SIMBA__NS_PER_MS);
        simba__sqlite_file_looking(&f->place, 0);
    } while (!f->place.settled);
    assert_true(simba__sqlite_file_is_in_place(&f->place, 0));
}

static void nobody_has_looked(void **state)
{
    fixture *f = *state;
    assert_false(simba__sqlite_file_is_in_place(&f->place, 0));
}

static void moved(void **state)
{
    fixture *f = *state;
    look_until_settled(f);
    assert_int_equal(rename(f->path, f->other), 0);
    assert_false(simba__sqlite_file_is_in_place(&f->place, 0));
}

static void deleted(void **state)
{
    fixture *f = *state;
    look_until_settled(f);
    assert_int_equal(unlink(f->path), 0);
    assert_false(simba__sqlite_file_is_in_place(&f->place, 0));
}

static void replaced(void **state)
{
    fixture *f = *state;
    look_until_settled(f);
    touch(f->other);
    assert_int_equal(rename(f->other, f->path), 0);
    assert_false(simba__sqlite_file_is_in_place(&f->place, 0));
}

/* Whatever has happened to it, the path is looked at; if it is there, it is in its place again. */
static void written(void **state)
{
    fixture *f = *state;
    look_until_settled(f);
    touch(f->path);
    assert_false(simba__sqlite_file_is_in_place(&f->place, 0));
    look_until_settled(f);
}

/* A change in the same tick as the one before it leaves no trace. */
static void a_change_right_after_another(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 500; i++) {
        touch(f->path);
        simba__sqlite_file_looking(&f->place, 0);
        assert_int_equal(rename(f->path, f->other), 0);
        assert_false(simba__sqlite_file_is_in_place(&f->place, 0));
        assert_int_equal(rename(f->other, f->path), 0);
    }
}

/* A folder above it may have moved. */
static void now_and_then_the_path_is_looked_at(void **state)
{
    fixture *f = *state;
    look_until_settled(f);
    assert_true(simba__sqlite_file_is_in_place(&f->place, LOOK_MS * SIMBA__NS_PER_MS - 1));
    assert_false(simba__sqlite_file_is_in_place(&f->place, LOOK_MS * SIMBA__NS_PER_MS));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(nobody_has_looked),
        TEST(moved),
        TEST(deleted),
        TEST(replaced),
        TEST(written),
        TEST(a_change_right_after_another),
        TEST(now_and_then_the_path_is_looked_at),
    };
    return cmocka_run_group_tests_name("sqlite place", tests, NULL, NULL);
}
