/* The smallest program that uses an installed conformance kit. */
#include <simba/tck.h>

int main(void)
{
    simba_tck_list(stdout);
    return 0;
}
