/* A question to several servers, one after the other, until one gives a usable answer. */
#ifndef SIMBA_BACKENDS_REDIS_INQUIRY_H
#define SIMBA_BACKENDS_REDIS_INQUIRY_H

#include "backends/redis/conn.h"

typedef struct redis_inquiry redis_inquiry;
struct redis_inquiry {
    redis_conn conn;
    void *owner;
    const char *const *question; /* a command of `words` words */
    size_t words;
    /* Take an answer. False: it is unusable, and `why` says why. */
    bool (*take)(redis_inquiry *inquiry, const redisReply *reply, char *why, size_t size);
    /* The inquiry is over. `error` is NULL if `take` has accepted an answer. */
    void (*over)(redis_inquiry *inquiry, const simba_error *error);

    bool running;
    const simba__endpoint *candidates; /* the caller keeps them while the inquiry runs */
    size_t count, first, asked;
    size_t most;       /* how many of them it asks this time */
    simba_local until; /* when it gives up on the current server */
    simba_error error;
};

int simba__redis_inquiry_init(redis_inquiry *inquiry, redis_conns *conns, const redis_login *login);
/* `over` follows, now or later, at most one connect-timeout from now for all candidates together. */
void simba__redis_inquiry_start(redis_inquiry *inquiry, const simba__endpoint *candidates, size_t count);
void simba__redis_inquiry_close(redis_inquiry *inquiry);
void simba__redis_inquiry_fini(redis_inquiry *inquiry);

#endif
