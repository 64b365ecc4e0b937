/* Errands: everything that the store has under way, a request of the runtime or a command of its own. Only this code
 * begins and ends them. A request knows its errand by backend_data. */
#ifndef SIMBA_BACKENDS_REDIS_REQUESTS_H
#define SIMBA_BACKENDS_REDIS_REQUESTS_H

#include <simba/backend.h>

#include "backends/redis/reader.h"
#include "backends/redis/scripts.h"
#include "util/ring.h"

typedef struct redis_requests redis_requests;
typedef struct redis_errand redis_errand;

/* The answer to a command of our own; NULL when the connection was lost. */
typedef void redis_answer(void *user, const redisReply *reply);

struct redis_errand {
    redis_requests *all;
    simba__ring place;      /* among those that are where it is; whoever has it says what that is */
    simba_request *request; /* NULL: it is a command of our own, or nobody waits for it any more */
    /* The time of the request is over: whoever has it lets go of it, and says who did not answer. */
    const char *(*leave)(redis_errand *errand);
    void *at; /* who has it */
    /* For a request of our own: instead of telling the runtime that it failed. */
    void (*failed)(simba_request *request, const simba_error *error);
    simba_local sent_at;
    uint64_t answers;     /* that had come on its connection when it was sent */
    redis_answer *answer; /* of a command of our own; NULL: nobody waits for it */
    void *user;
    redis_script script; /* that is being loaded; REDIS_SCRIPTS: none is */
    bool reloaded;       /* it came upon a server without our scripts */
    bool alone;          /* a renewal that needs more than to be renewed: see calls.c */
    unsigned batch; /* of the first of several that were sent together: how many these are; 0: it was sent by itself */
    bool asking;    /* to a server that does not have its slot yet */
    unsigned hops;  /* how often it was sent on */
};

struct redis_requests {
    simba_host *host;
    simba__ring spare; /* errands to be used again */
};

void simba__redis_requests_init(redis_requests *self, simba_host *host);
/* `request` may be NULL. NULL: out of memory. */
redis_errand *simba__redis_requests_begin(redis_requests *self, simba_request *request);
/* Nobody has the errand any more; except that one that was sent stays to take its answer, which is dropped then. */
void simba__redis_requests_complete(redis_errand *errand);
void simba__redis_requests_fail(redis_errand *errand, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* It was the store's own, and is forgotten. */
void simba__redis_requests_forget(redis_errand *errand);
/* The time of this request is over. */
void simba__redis_requests_cancel(simba_request *request);
void simba__redis_requests_fini(redis_requests *self);

#endif
