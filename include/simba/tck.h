/* The conformance kit: judges a store by its URL.
 *
 * It opens clients on the URL, makes them fight, cuts them off from the store, loses replies, and checks that the
 * promises hold. It needs no test framework and writes TAP. The store may hold other data, and up to eight kits may run
 * on it at once: the mutexes of a run have names that begin with "tck-" and the number of a lane that the run has to itself
 * (but for one, which needs all of its 66 characters to be of four bytes). None of them stays owned. Stores that keep a row
 * of every mutex keep those of the kit, about 1,150; a later run uses them again. A case that hangs in the library ends the
 * process, with "Bail out!" and its name, when ten times the patience is over. */
#ifndef SIMBA_TCK_H
#define SIMBA_TCK_H

#include <simba.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct simba_tck_options {
    size_t size;
    FILE *out;             /* TAP goes here; default stdout */
    const char *only;      /* shell pattern of the cases to run; NULL: all */
    int64_t ttl_ms;        /* of the leases in the cases; default 400, at least 50. Slower stores want longer ones */
    int64_t transition_ms; /* default 400, at least 50 */
    int64_t patience_ms;   /* how long to wait for what must happen; default 20,000, at least 8 * (ttl + transition) */
    bool verbose;          /* also print the library's log, as TAP comments */
} simba_tck_options;

#define SIMBA_TCK_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(simba_tck_options), NULL, NULL, 400, 400, 20000, false                                                  \
    }

typedef struct simba_tck_result {
    unsigned passed, failed, skipped;
} simba_tck_result;

/* Run the conformance kit against a store. `url` NULL: $SIMBA_URL. Returns 0 when none failed, 1 when one did, and a
 * negative code with words in `err` when the kit itself could not run: SIMBA_ENOTFOUND if `only` matches no case,
 * SIMBA_ETIMEDOUT if eight kits run on the store already. `options` and `ret_result` may be NULL. */
SIMBA_API int simba_tck_run(const char *url, const simba_tck_options *options, simba_error *err,
                            simba_tck_result *ret_result);

/* Print the names of the cases, one a line. */
SIMBA_API void simba_tck_list(FILE *out);

#ifdef __cplusplus
}
#endif
#endif
