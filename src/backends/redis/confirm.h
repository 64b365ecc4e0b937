/* replicas=N: a grant or renewal counts once N replicas have it. */
#ifndef SIMBA_BACKENDS_REDIS_CONFIRM_H
#define SIMBA_BACKENDS_REDIS_CONFIRM_H

#include "backends/redis/calls.h"

typedef struct redis_confirm {
    redis_calls *calls;
    simba__ring held;       /* errands that were granted, but the replicas have not said so */
    bool confirming;        /* a WAIT is under way, */
    bool unconfirmed;       /* and something was sent after it that needs another one */
    bool short_of_replicas; /* something was refused for want of them, and nothing confirmed since */
} redis_confirm;

void simba__redis_confirm_init(redis_confirm *self, redis_calls *calls);
/* Something was put that may be granted: have it confirmed. */
void simba__redis_confirm_soon(redis_confirm *self);
/* It was granted: keep the answer back until then. */
void simba__redis_confirm_hold(redis_confirm *self, redis_errand *errand);
void simba__redis_confirm_lost(redis_confirm *self, const simba_error *error);
/* Release what an acquire was granted, as its reply says, whatever becomes of it. */
void simba__redis_confirm_give_back(redis_calls *calls, const simba_request *request);

#endif
