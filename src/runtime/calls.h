/* Blocking calls that ask the store something without a party. */
#ifndef SIMBA_RUNTIME_CALLS_H
#define SIMBA_RUNTIME_CALLS_H

#include "runtime/client.h"

/* The host's `listed`. */
int simba__call_listed(simba_host *host, simba_request *request, const simba_listing *listing);
/* The host's `noted`: into request->ret_note. */
int simba__call_noted(simba_host *host, simba_request *request, const simba_stored_note *stored);
/* The host's `found`. */
int simba__call_found(simba_host *host, simba_request *request, const simba_finding *finding);

#endif
