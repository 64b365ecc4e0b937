/* The store that fails on command. It runs in the critical sections of a client, and asks the client's remote control
 * (fault.h) what to do. It stands between the client and any other store, follows the back end contract on both sides, and could
 * itself be wrapped. */
#ifndef TCK_FAULT_WRAPPER_H
#define TCK_FAULT_WRAPPER_H

#include "fault.h"

/* A remote control for a client of `inner_url`. `notify` is called, in a critical section of the client, whenever a
 * counter has changed; it must not block and may be NULL. */
int tck_fault_new(const char *inner_url, void (*notify)(void *user), void *user, simba_error *err,
                  tck_fault **ret_fault);

#endif
