/* Runs the conformance kit against the store of a URL: tck_runner URL [PATTERN [EXCEPT]]. TAP on stdout; 0 when no case failed.
 * $SIMBA_TEST_SLOWNESS says how many times slower than usual this machine or this way of running is. */
#include <simba/tck.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t slowness(void)
{
    const char *text = getenv("SIMBA_TEST_SLOWNESS");
    const long times = text ? strtol(text, NULL, 10) : 1;
    return times >= 1 && times <= 100 ? times : 1;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: %s URL [PATTERN [EXCEPT]]\n", argv[0]);
        return 2;
    }
    simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    options.only = argv[2];
    options.except = argc > 3 ? argv[3] : NULL;
    options.ttl_ms *= slowness();
    options.transition_ms *= slowness();
    options.timeout_ms *= slowness();
    simba_tck_result result;
    simba_error err;
    const int status = simba_tck_run(argv[1], &options, &err, &result);
    if (status < 0)
        fprintf(stderr, "Bail out! %s: %s\n", argv[1], err.text);
    return status == 0 ? 0 : 1;
}
