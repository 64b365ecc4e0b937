/* Linked into every test program: its TAP leaves line by line, so that what a program reported before it hung or was
 * killed is known, and so that a forked child has no half of its parent's output to print again. */
#include <stdio.h>

__attribute__((constructor)) static void line_by_line(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
}
