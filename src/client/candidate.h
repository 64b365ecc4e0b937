/* A handle that contends: it runs the machine of core/contention.h. Contenders, lockers and schedulers differ only in what they do
 * when they are told what has happened. */
#ifndef SIMBA_CLIENT_CANDIDATE_H
#define SIMBA_CLIENT_CANDIDATE_H

#include "client/handle.h"

/* Without the lock. Checks everything, makes the id, and adds the candidate to the client. After a failure nothing of it is left,
 * and the caller frees its memory. */
int simba__candidate_init(simba__candidate *candidate, const simba__candidate_type *type, simba_client *client,
                          const char *mutex, const char *id, const simba_timing *timing, simba_error *err);
/* Free what init made; for the type's destroy. */
void simba__candidate_fini(simba__candidate *candidate);

/* --- under the lock ------------------------------------------------------------------------------------ */

void simba__candidate_step(simba__handle *handle, simba__event *event); /* for the type */
void simba__candidate_begin(simba__candidate *candidate);
void simba__candidate_ack(simba__candidate *candidate);
/* Look at the clock before calling the application: a process that did not run for a while may have lost the lease of which it is
 * about to tell. */
void simba__candidate_look(simba__candidate *candidate);

/* --- without the lock ------------------------------------------------------------------------------------ */

/* The public start and stop of contenders and schedulers. */
int simba__candidate_start(simba__candidate *candidate);
int simba__candidate_stop(simba__candidate *candidate);

/* Lock-free. */
int64_t simba__candidate_held_for_ns(const simba__candidate *candidate);
int64_t simba__candidate_ttl_for_ns(const simba__candidate *candidate);
uint64_t simba__candidate_token(const simba__candidate *candidate);
int simba__candidate_lease(const simba__candidate *candidate, simba_lease *ret_lease);

/* The owner that its machine knows. SIMBA_ECLOSED, SIMBA_EFORKED. */
int simba__candidate_owner(simba__candidate *candidate, simba_owner *ret_owner);
int64_t simba__candidate_owner_left_ms(simba__candidate *candidate);
int simba__candidate_grant(simba__candidate *candidate, simba_grant *ret_grant);
simba_status simba__candidate_status(const simba__candidate *candidate);

#endif
