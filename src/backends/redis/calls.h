/* Requests on a command connection: sent in the order in which they came, all of a turn in one write; answered in that
 * order, too. Renewals overtake the others. */
#ifndef SIMBA_BACKENDS_REDIS_CALLS_H
#define SIMBA_BACKENDS_REDIS_CALLS_H

#include "backends/redis/conn.h"
#include "backends/redis/requests.h"

typedef struct redis_calls redis_calls;

/* What the owner does for the requests: it knows what they say, and what the answers mean. */
typedef struct redis_calls_events {
    /* From now on requests can be sent. */
    void (*up)(redis_calls *self);
    /* The connection is gone, or could not be made; what was under way on it has failed. */
    void (*down)(redis_calls *self, const simba_error *error);
    /* The server may be lost: it is down, or a request was not answered in time. */
    void (*lost)(redis_calls *self);
    /* Put the command of this request. */
    void (*put)(redis_calls *self, const simba_request *request);
    /* Put one command for these renewals, of which there is at least one. Their leases have one length. */
    void (*put_renewals)(redis_calls *self, redis_errand *const *errands, size_t count);
    /* Something was put that may be granted, or written: replicas have to have it. */
    void (*may_grant)(redis_calls *self);
    /* The answer to a request, no error. False: that is none. */
    bool (*answer)(redis_calls *self, redis_errand *errand, const redisReply *reply);
    /* An error. True: the request is under way to where it belongs. */
    bool (*redirected)(redis_calls *self, redis_errand *errand, const char *error);
} redis_calls_events;

struct redis_calls {
    redis_conn conn;
    redis_requests *errands;
    simba_host *host;
    const redis_options *options;
    const redis_calls_events *events;
    void *owner;
    char sha[REDIS_SCRIPTS][41];
    unsigned loaded;      /* scripts whose sha is known */
    bool wanted;          /* somebody waits for the connection */
    simba__ring renewals; /* errands, not sent yet, */
    simba__ring waiting;  /* and all others that were not */
    simba__ring sent;     /* errands, not answered yet */
    size_t unanswered;    /* how many those are */
    uint64_t answers;     /* that came so far, on any connection */
    bool stuck;           /* a renewal was not answered in time, nor was anything after it */
};

int simba__redis_calls_init(redis_calls *self, redis_conns *conns, redis_requests *errands,
                            const redis_calls_events *events, void *owner);
/* Send it when that can be. */
void simba__redis_calls_submit(redis_calls *self, redis_errand *errand);
void simba__redis_calls_flush(redis_calls *self);
void simba__redis_calls_close(redis_calls *self, const simba_error *why);
void simba__redis_calls_fini(redis_calls *self);
/* Can requests be sent right now? */
bool simba__redis_calls_ready(const redis_calls *self);
/* Is nothing of a request or of our own under way? */
bool simba__redis_calls_idle(const redis_calls *self);
/* A command of our own. False: it cannot be sent right now, or there is no memory for it. */
bool simba__redis_calls_put(redis_calls *self, size_t argc, const char *const *argv, redis_answer *answer, void *user);
/* There is no memory for what has to be sent: give the connection up. */
void simba__redis_calls_no_memory(redis_calls *self);
/* Put the beginning of a script, for the owner's `put`: as many words as are said here have to follow. */
void simba__redis_calls_begin_script(redis_calls *self, redis_script script, const char *mutex, size_t argc);
/* Put a whole script, likewise. */
void simba__redis_calls_put_script(redis_calls *self, redis_script script, const char *mutex, size_t argc,
                                   const char *const *args);
/* A script whose answer is nobody's business; nothing happens if it cannot be sent right now. */
void simba__redis_calls_tell(redis_calls *self, redis_script script, const char *mutex, size_t argc,
                             const char *const *args);
/* Send a request on to another server; asking: which does not own its slot yet. False: it has been through enough. */
bool simba__redis_calls_forward(redis_calls *to, redis_errand *errand, bool asking);
/* Take out the first that has not been sent yet. NULL: there is none. */
redis_errand *simba__redis_calls_withdraw(redis_calls *self);

#endif
