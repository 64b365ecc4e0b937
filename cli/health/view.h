/* The state of the mutex that this process contends for, at one moment. */
#ifndef SIMBA_CLI_HEALTH_VIEW_H
#define SIMBA_CLI_HEALTH_VIEW_H

#include "cli.h"

typedef struct health_view {
    const char *mutex;
    const char *id;    /* NULL: not known yet */
    bool contends;     /* it has begun to, and the store does not refuse it from the first */
    bool leads;        /* it means to: is not giving it back */
    simba_lease lease; /* as it is now */
    simba_owner owner; /* as last heard; a leader does not need it */
    bool refused;      /* the store refuses it, and waiting does not mend that: `refusal` says why */
    simba_error refusal;
    int64_t reserve_ms;   /* the end of the lease that the answer does not promise */
    simba_client *client; /* whose statistics are shown; NULL: none yet */
} health_view;

/* Is this process the leader, and for a while yet? */
bool health_is_leader(const health_view *view);

#endif
