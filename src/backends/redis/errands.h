/* Errands: the work that the store has under way at its servers. An errand carries a request of the client or a
 * command of the store's own. Errands begin and end only here. A request points to its errand by backend_data. */
#ifndef SIMBA_BACKENDS_REDIS_ERRANDS_H
#define SIMBA_BACKENDS_REDIS_ERRANDS_H

#include <simba/backend.h>

#include "backends/redis/reader.h"
#include "backends/redis/scripts.h"
#include "util/list.h"

typedef struct redis_errands redis_errands;
typedef struct redis_errand redis_errand;
struct redis_session;

typedef enum redis_purpose {
    REDIS_FOR_REQUEST,  /* a request of the client, or a row of a list */
    REDIS_FOR_LOADING,  /* SCRIPT LOAD */
    REDIS_FOR_WAITING,  /* WAIT: how many replicas have the writes */
    REDIS_FOR_ASKING,   /* ASKING: the next command is for a slot that the server does not have yet */
    REDIS_FOR_TELLING,  /* a script whose answer nobody needs */
    REDIS_FOR_LEARNING, /* a command of another module, which gets the answer */
} redis_purpose;

/* Where an errand is. Table: errands.c. */
typedef enum redis_stage {
    REDIS_IN_HAND, /* the module that runs at this moment has it, or a list */
    REDIS_WAITING, /* the next flush of a connection that is ready sends it */
    REDIS_SENT,    /* the server owes the answer */
    REDIS_HELD,    /* it has its answer; the replicas have not confirmed it yet */
    REDIS_OVER,    /* the session is done with it: see `outcome` */
    REDIS_STAGES,
} redis_stage;

/* The outcome of an errand. */
typedef enum redis_outcome {
    REDIS_COMPLETE,
    REDIS_FAIL,     /* the session has the error */
    REDIS_REDIRECT, /* another server has the slot */
    REDIS_LEARN,    /* the module that asked gets the answer; NULL: the connection is lost */
} redis_outcome;

/* Takes the answer to a command FOR_LEARNING; NULL: the connection is lost. */
typedef void redis_learn(void *user, const redisReply *reply);

struct redis_errand {
    redis_errands *all;
    simba__list_item item;         /* in the list of its stage; in none while it is IN_HAND */
    simba_request *request;        /* NULL: a command of our own */
    struct redis_session *session; /* the session that has it, unless it is IN_HAND */
    /* For a row of a list: called instead of telling the client that the request failed. */
    void (*failed)(simba_request *request, const simba_error *error);
    redis_learn *learn; /* FOR_LEARNING: gets the answer, */
    void *user;         /* with this argument; or the list that has this errand */
    simba_local sent_at;
    uint64_t answers; /* how many had come when it was sent */
    redis_purpose purpose;
    redis_stage stage;
    redis_outcome outcome; /* OVER */
    redis_script script;   /* FOR_LOADING */
    unsigned hops;         /* how often a server sent it on to another one */
    bool reloaded;         /* a server did not know our scripts, and we have loaded them for this errand */
    bool asking;           /* the server does not have its slot yet, so ASKING goes first */
    bool expired;          /* its time is over, and nobody waits for the answer */
};

struct redis_errands {
    simba_host *host;
    simba__list spare; /* errands to use again */
};

void simba__redis_errands_init(redis_errands *self, simba_host *host);
void simba__redis_errands_fini(redis_errands *self);

/* A new errand, IN_HAND. `request` may be NULL. Returns NULL if there is no memory. */
redis_errand *simba__redis_errand_begin(redis_errands *self, redis_purpose purpose, simba_request *request);
/* Move it to another stage, and to the end of the list of that stage. IN_HAND has no list: NULL. */
void simba__redis_errand_move(redis_errand *errand, redis_stage to, simba__list *list);
/* Tell the client that the request is done. The caller has the errand IN_HAND. */
void simba__redis_errand_complete(redis_errand *errand);
void simba__redis_errand_fail(redis_errand *errand, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Drop it without telling anybody. */
void simba__redis_errand_forget(redis_errand *errand);

#endif
