/* A store that loses some of its pushes. A test names it by putting "lossy-" in front of the URL of a store of the
 * library.
 *
 * It leaves the table of the inner store as it is, except for its init, which changes the host's table before it
 * calls the real one. So nothing lies between the runtime and the store. */
#ifndef TESTS_LIB_LOSSY_H
#define TESTS_LIB_LOSSY_H

#include <simba/backend.h>

typedef struct lossy_filter {
    bool (*push)(void *user, const simba_push *push); /* called in a critical section; false: the push gets lost */
    void *user;
} lossy_filter;

/* Make "lossy-SCHEME" known. Call it once per program. */
void lossy_register(const char *scheme);

/* Use this filter for the clients that this thread opens from now on. It must outlive them. */
void lossy_use(const lossy_filter *filter);

#endif
