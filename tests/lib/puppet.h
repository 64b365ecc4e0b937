/* What the processes of a test do (see process.h): the main function of programs that are started with "--puppet", and
 * the score that they keep in shared memory.
 *
 * The score checks "at no instant do two hold a valid lease" across processes, including frozen and dead ones. Every
 * millisecond each process writes down until when its lease is valid by its own clock, and checks that nobody else's
 * claim is still valid. A claim outlives a killed process, as its lease does. */
#ifndef TESTS_LIB_PUPPET_H
#define TESTS_LIB_PUPPET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SCORE_SLOTS = 8 };

typedef struct score {
    struct {
        _Atomic int64_t valid_until_ns; /* on the monotonic clock; 0: no claim */
        _Atomic uint64_t token;
    } slots[SCORE_SLOTS];
    atomic_uint conflicts; /* two valid leases at once */
} score;

/* Map the file; make it if it is missing. NULL: that cannot be done. */
score *score_map(const char *path);
void score_unmap(score *s);
int64_t score_now_ns(void);

/* Roles, as arguments after "--puppet":
 *   contender URL MUTEX ID TTL TRANSITION SCORE SLOT     "-" for the default id
 *   writer DATABASE                                      holds SQLite's write lock
 *   shifted ROLE…                                        the same in a time namespace of its own, if there is one
 *
 * A contender obeys the lines
 *   start, stop      answers "started CODE", "stopped CODE"
 *   renewal          answers "renewed TOKEN" after one more renewal
 *   try              one try of a locker on the same mutex: "tried CODE TEXT"
 *   errors           answers "errors N": requests that failed so far
 *   limit, unlimit   the disk is full from now on, or no longer: "limited", "unlimited"
 *   quit             answers "bye" and ends; so do the others
 * and says, whenever it happens,
 *   acquired TOKEN AT HELD_MS        AT in nanoseconds on the monotonic clock
 *   released REASON AT
 *   changed OWNER TOKEN              "-" for nobody
 *   thawed HELD_MS TOKEN GAP_MS      the first look after it had not run for a while */

/* If the program was started as a puppet: play its role, set its status, and return true. */
bool puppet_main(int argc, char **argv, int *ret_status);

#endif
