/* Linked into every test program: its TAP leaves line by line, so that what a program reported before it hung or was
 * killed is known, and so that a forked child has no half of its parent's output to print again. And with SIMBA_TEST_CASE,
 * a pattern with * and ?, only the cases of a matching name run. And a program that has failed reports no leaks: a failed
 * assertion leaves its test where it is, so everything that the test had open would be one. */
#include <stdio.h>
#include <stdlib.h>

/* Of cmocka, in the programs that use it. */
extern void cmocka_set_test_filter(const char *pattern) __attribute__((weak));

__attribute__((constructor)) static void line_by_line(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
}

__attribute__((constructor)) static void choose_cases(void)
{
    const char *pattern = getenv("SIMBA_TEST_CASE");
    if (pattern != NULL && pattern[0] != '\0' && cmocka_set_test_filter != NULL)
        cmocka_set_test_filter(pattern);
}

static int failed;

static void note_status(int status, void *unused)
{
    (void)unused;
    failed = status != 0;
}

/* The leak detector of the sanitizers runs after this. */
__attribute__((constructor)) static void watch_status(void)
{
    on_exit(note_status, NULL);
}

/* The leak detector asks whether it is wanted. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return failed;
}
