/* What the two halves of the fault store share: the remote control (fault.c), which belongs to the case, and the
 * wrapper (fault_wrapper.c), which runs in the turns of a client and asks the remote control for verdicts. */
#ifndef TCK_FAULT_WRAPPER_H
#define TCK_FAULT_WRAPPER_H

#include "fault.h"

typedef enum tck_verdict {
    TCK_PASS,
    TCK_REFUSE,
    TCK_SWALLOW,
    TCK_LOSE,
    TCK_HOLD,
} tck_verdict;

/* By the handle in a URL; NULL: none. */
tck_fault *tck_fault_find(const char *handle);

/* A client that is open (host) or no longer (NULL). SIMBA_ESTATE: there is one already. */
int tck_fault_attach(tck_fault *fault, simba_host *host);
void tck_fault_detach(tck_fault *fault, const simba_host *host);

void tck_fault_add(tck_fault *fault, int op, tck_count what, int by);
tck_verdict tck_fault_judge_request(tck_fault *fault, int op, bool *ret_lose_reply);
tck_verdict tck_fault_judge_reply(tck_fault *fault, int op, bool lose_reply);
bool tck_fault_is_held(tck_fault *fault, int op);
bool tck_fault_expires(tck_fault *fault, int op);
bool tck_fault_is_cut(tck_fault *fault);
/* How often to deliver a push. */
int tck_fault_push_times(tck_fault *fault);

/* The words of a failure; returns `code`. */
int tck_fault_complain(simba_error *err, int code, const char *text);

/* The table of a wrapper around `inner`, but for its name. */
simba_backend tck_fault_wrapper_table(const simba_backend *inner);

#endif
