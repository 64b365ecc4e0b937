/* The requests that the store has, each with its deadline, wherever they are: the one place where they begin and end. */
#ifndef SIMBA_BACKENDS_REDIS_REQUESTS_H
#define SIMBA_BACKENDS_REDIS_REQUESTS_H

#include <simba/backend.h>

#include "util/ring.h"

typedef struct redis_requests redis_requests;
typedef struct redis_errand redis_errand;

/* A request on its way through the store. */
struct redis_errand {
    redis_requests *all;
    simba__ring outstanding; /* among all */
    simba__ring place;       /* among those that are where it is; whoever has it says what that is */
    simba_request *request;
    /* Its time is over: whoever has it lets go of it, and says who did not answer. */
    const char *(*leave)(redis_errand *errand);
    void *at; /* who has it */
    /* For a request of our own: instead of telling the runtime that it failed. */
    void (*failed)(simba_request *request, const simba_error *error);
    simba_local sent_at;
    bool reloaded; /* it came upon a server without our scripts */
    bool asking;   /* to a server that does not have its slot yet */
    unsigned hops; /* how often it was sent on */
};

struct redis_requests {
    simba_host *host;
    simba__ring outstanding;
    simba__ring spare; /* errands to be used again */
    simba_timer deadline;
};

int simba__redis_requests_init(redis_requests *self, simba_host *host);
/* NULL: out of memory. */
redis_errand *simba__redis_requests_begin(redis_requests *self, simba_request *request);
/* The errand is over, and nobody has it any more. */
void simba__redis_requests_complete(redis_errand *errand);
void simba__redis_requests_fail(redis_errand *errand, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* It was a request of our own, and is forgotten. */
void simba__redis_requests_forget(redis_errand *errand);
void simba__redis_requests_close(redis_requests *self);
void simba__redis_requests_fini(redis_requests *self);

#endif
