/* Blocking calls that ask the store something without a handle. */
#ifndef SIMBA_CLIENT_CALLS_H
#define SIMBA_CLIENT_CALLS_H

#include <simba/backend.h>

/* The host's `listed` and `found`. SIMBA_ETIMEDOUT: nobody waits for it any more. */
int simba__calls_listed(simba_host *host, simba_request *request, const simba_listing *listing);
int simba__calls_found(simba_host *host, simba_request *request, const simba_finding *finding);

#endif
