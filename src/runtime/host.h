/* The host that back ends see: the runtime's side of simba/backend.h. */
#ifndef SIMBA_RUNTIME_HOST_H
#define SIMBA_RUNTIME_HOST_H

#include "runtime/client.h"

/* Fill in client->host. The client's back end and timing must be set. SIMBA_ENOMEM. */
int simba__host_init(simba_client *client);

#endif
