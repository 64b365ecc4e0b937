/* What the tests with several processes share: a database of their own, contenders (puppets) that fight for one mutex in
 * it, and what these say, as numbers. */
#ifndef TESTS_FAULTS_SUPPORT_H
#define TESTS_FAULTS_SUPPORT_H

#include <signal.h>
#include <simba.h>

#include "lib/cm.h"
#include "lib/process.h"
#include "lib/puppet.h"
#include "lib/referee.h"

/* Short leases: long enough that a busy machine does not end one by itself. */
#define TTL_MS ref_scaled_ms(200)
#define TRANSITION_MS ref_scaled_ms(800)
#define LEASE_MS (TTL_MS + TRANSITION_MS)
#define JITTER_MS (LEASE_MS / 10) /* to which the library scales it down */
/* From the moment at which a renewal is due to the end of the lease: what an outage may last. */
#define WINDOW_MS TRANSITION_MS
#define SLACK_MS ref_scaled_ms(500)  /* for a busy machine */
#define LONG_MS ref_scaled_ms(20000) /* for what must happen at some time */

enum { CONTENDERS = 10 };

typedef struct grant {
    uint64_t token;
    int64_t at_ns; /* when on_acquired was called, on the clock of score_now_ns */
    int64_t held_ms;
} grant;

typedef struct loss {
    char reason[32];
    int64_t at_ns;
} loss;

extern process contenders[CONTENDERS];
extern score *board;

/* The fixture: an empty folder and a fresh score; in the end nobody must be left, and no two leases have overlapped. */
int setup(void **state);
int teardown(void **state);

/* Another store than the database of our own. */
void use_store(const char *url);
/* Of the store. */
const char *database(void);
const char *store_url(void);
const char *in_folder(const char *name);

/* Start the nth process as a contender, with an id or NULL, and leases of this length. */
process *contender(unsigned nth, const char *id, int64_t ttl_ms, int64_t transition_ms);
process *short_contender(unsigned nth);
/* Contend, and come to lead; or come to know that another one does. */
grant lead(process *p);
void stand_behind(process *p);
/* Wait for it. */
grant await_acquired(process *p, int64_t ms);
grant await_any_acquired(process *const all[], int count, int64_t ms, int *ret_who);
loss await_released(process *p);
/* Another renewal has succeeded. The token. */
uint64_t await_renewal(process *p);
void stop(process *p);

/* Until when the nth process may say that it holds its lease. */
int64_t claim_of(unsigned nth);

#endif
