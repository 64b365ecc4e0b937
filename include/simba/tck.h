/* The conformance kit: checks whether a store keeps simba's promises. It takes the URL of the store.
 *
 * It opens clients on the URL, makes them compete, cuts them off from the store, loses replies, and checks that the
 * promises hold. It needs no test framework and writes TAP. The store may hold other data, and up to eight kits may run on
 * it at once: each run takes a slot of its own, and the names of its mutexes begin with "tck-" and the number of the slot.
 * (One name is different: it consists of 66 characters of four bytes.) At its end a run removes its mutexes from the store, also
 * those of an earlier run that was killed. If a case hangs in the library for ten times the timeout, the kit ends the
 * process with "Bail out!" and the name of the case. */
#ifndef SIMBA_TCK_H
#define SIMBA_TCK_H

#include <signal.h>
#include <simba.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct simba_tck_options {
    size_t size;
    FILE *out;             /* TAP goes here; default stdout */
    const char *only;      /* shell pattern of the cases to run; NULL: all */
    int64_t ttl_ms;        /* of the leases in the cases; default 400, at least 50. Slower stores need longer ones */
    int64_t transition_ms; /* default 400, at least 50 */
    int64_t timeout_ms;    /* how long to wait for an event; default 20,000, at least 8 * (ttl + transition) */
    bool verbose;          /* also print the library's log, as TAP comments */
    const char *except;    /* shell pattern of cases to skip, because they cannot pass here; NULL: none */
    /* Once it is not 0, the run ends early, after having tidied up. NULL: never. */
    const volatile sig_atomic_t *interrupted;
} simba_tck_options;

#define SIMBA_TCK_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(simba_tck_options), NULL, NULL, 400, 400, 20000, false, NULL, NULL                                      \
    }

typedef struct simba_tck_result {
    unsigned passed, failed, skipped;
} simba_tck_result;

/* Run the conformance kit against a store. `url` NULL: $SIMBA_URL. Returns 0 when no case failed, 1 when one did, and a
 * negative code with a sentence in `err` when the kit itself could not run: SIMBA_ENOTFOUND if `only` matches no case,
 * SIMBA_ETIMEDOUT if eight kits already run on the store, SIMBA_ECANCELED if it was interrupted. `options` and `ret_result` may be NULL. */
SIMBA_API int simba_tck_run(const char *url, const simba_tck_options *options, simba_error *err,
                            simba_tck_result *ret_result);

/* Print the names of the cases, one per line. */
SIMBA_API void simba_tck_list(FILE *out);

#ifdef __cplusplus
}
#endif
#endif
