/* A question to several servers, one after the other, until one gives a usable answer. */
#ifndef SIMBA_BACKENDS_REDIS_INQUIRY_H
#define SIMBA_BACKENDS_REDIS_INQUIRY_H

#include "backends/redis/conn.h"

typedef struct redis_inquiry redis_inquiry;
struct redis_inquiry {
    redis_conn conn;
    void *owner;
    const char *const *question; /* a command of so many words */
    size_t words;
    /* False: that is no good, and `why` says so. */
    bool (*take)(redis_inquiry *inquiry, const redisReply *reply, char *why, size_t size);
    /* NULL: `take` had its answer. */
    void (*over)(redis_inquiry *inquiry, const simba_error *error);

    bool running;
    const simba__endpoint *candidates; /* stay put while it runs */
    size_t count, first, asked;
    size_t most;       /* of them are asked this time */
    simba_local until; /* so long for this one */
    simba_error error;
};

int simba__redis_inquiry_init(redis_inquiry *inquiry, redis_conns *conns, const redis_login *login);
/* `over` follows, now or later: no later than a connect-timeout, all candidates together. */
void simba__redis_inquiry_start(redis_inquiry *inquiry, const simba__endpoint *candidates, size_t count);
void simba__redis_inquiry_close(redis_inquiry *inquiry);
void simba__redis_inquiry_fini(redis_inquiry *inquiry);

#endif
