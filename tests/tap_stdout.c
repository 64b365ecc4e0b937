/* Linked into every test program: its TAP leaves line by line, so that what a program reported before it hung or was
 * killed is known, and so that a forked child has no half of its parent's output to print again. And with SIMBA_TEST_CASE,
 * a pattern with * and ?, only the cases of a matching name run. */
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
