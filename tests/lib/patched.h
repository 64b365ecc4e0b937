/* A store with something about its host replaced: the wall clock, or the delivery of pushes. A test names it by putting
 * "patched-" in front of the URL of a store of the library.
 *
 * Unlike a store that wraps another, this one leaves the table of the inner store as it is but for its init, which
 * changes the host's table before it calls the real one. So nothing lies between the runtime and the store. */
#ifndef TESTS_LIB_PATCHED_H
#define TESTS_LIB_PATCHED_H

#include <simba/backend.h>

typedef struct patch {
    int64_t (*epoch_us)(void *user);                  /* any thread */
    bool (*push)(void *user, const simba_push *push); /* in a turn; false: it gets lost */
    void *user;
} patch;

/* Make "patched-SCHEME" known. Once per program. */
void patched_register(const char *scheme);

/* For the clients that this thread opens from now on; NULL: nothing is replaced. What is NULL in it is not replaced.
 * It must outlive the clients. */
void patched_use(const patch *patch);

#endif
