/* Blocking calls that ask the store something without a party. */
#ifndef SIMBA_RUNTIME_ADMIN_H
#define SIMBA_RUNTIME_ADMIN_H

#include "runtime/client.h"

/* The host's `listed`. */
int simba__admin_listed(simba_host *host, simba_request *request, const simba_listing *listing);
/* The host's `noted`: into request->ret_note. */
int simba__admin_noted(simba_host *host, simba_request *request, const simba_stored_note *stored);
/* The host's `found`. */
int simba__admin_found(simba_host *host, simba_request *request, const simba_finding *finding);

#endif
