/* The protocol of a command connection: which errand is sent when, whose answer has come, and what that leads to. Pure: an
 * event and a time go in; commands, outcomes and actions come out, and commands.c carries them out. There is no I/O here,
 * no clock and no thread; of what is allocated (errands of its own) a failure gives the connection up.
 *
 *              up             all scripts are loaded
 *     DOWN ──────────▶ LOADING ──────────────────────▶ READY
 *      ▲                  │ ▲        NOSCRIPT            │
 *      │ down             │ └────────────────────────────┤
 *      └──────────────────┴───────────── STUCK ◀─────────┘ a renewal has no answer in time, nor has anything after it
 *
 * A flush sends all errands that were submitted, in one write. The server answers in the order of the errands, so a queue of
 * them tells whose an answer is. An errand whose request has run out of time stays in the queue until its answer has come. The
 * client hands over only so many requests at a time, so nothing stands in line here: what is submitted while there is no
 * connection goes out when it is ready.
 *
 * Gathering: while four errands or more are under way, the session keeps the next ones back until they are as many as those, or
 * sixteen. So the requests of many threads go out in few writes, and the server reads them together: 64 threads do twice as much.
 * Answers make the session look again, and a renewal takes all along.
 *
 * replicas=N: a grant, a renewal or a note counts once N replicas have it. WAIT answers how many replicas have everything
 * that was written on its connection before it. Meanwhile the server answers nothing else on the connection, not even
 * renewals: so a WAIT is short, and only one is under way at a time. While too few replicas have confirmed something, another
 * WAIT follows. The errands that it is about are HELD until then. After half of the time that the request has, at most, the
 * session fails the request. The contender asks again under the same nonce, so that the same grant is confirmed later; or it
 * gives up, and its release ends the grant. */
#ifndef SIMBA_BACKENDS_REDIS_SESSION_H
#define SIMBA_BACKENDS_REDIS_SESSION_H

#include "backends/redis/errands.h"
#include "net/endpoint.h"

enum { REDIS_WAIT_MS = 50 }; /* how long a WAIT may take */

typedef enum redis_session_state {
    REDIS_SESSION_DOWN,    /* there is no connection */
    REDIS_SESSION_LOADING, /* the server is asked to load our scripts */
    REDIS_SESSION_READY,   /* requests are sent */
    REDIS_SESSION_STUCK,   /* the connection is about to be given up */
    REDIS_SESSION_STATES,
} redis_session_state;

/* What the replicas were asked. */
typedef enum redis_confirmation {
    REDIS_UNASKED,     /* nothing that needs them is under way */
    REDIS_ASKED_ONCE,  /* a WAIT is under way, */
    REDIS_ASKED_AGAIN, /* and something was sent after it that needs another one */
    REDIS_CONFIRMATIONS,
} redis_confirmation;

/* What a server answered to an errand. */
typedef struct redis_answer {
    enum {
        REDIS_SAID_DONE,    /* the request is over */
        REDIS_SAID_GRANTED, /* the same, once the replicas have it */
        REDIS_SAID_ERROR,   /* `text` */
        REDIS_SAID_TEXT,    /* `text`: the name of a script that was loaded, 40 bytes */
        REDIS_SAID_NUMBER,  /* `number` of replicas */
        REDIS_SAID_ODDITY,  /* this cannot be an answer to it */
    } kind;
    const char *text;
    int64_t number;
} redis_answer;

/* The actions, as a set of bits. The caller first takes the commands, then the outcomes, then does these. */
enum {
    REDIS_DO_SET_TIMER = 1, /* to `tick_at` */
    REDIS_DO_WAKE = 2,      /* have it flushed */
    REDIS_DO_ANNOUNCE = 4,  /* it is READY */
    REDIS_DO_SUSPECT = 8,   /* the server may be lost: ask whether another one has taken its place */
    REDIS_DO_PRAISE = 16,   /* enough replicas confirm again: say so in the log */
    REDIS_DO_DROP = 32,     /* give the connection up over `dropped` */
};

typedef struct redis_session {
    redis_session_state state;
    redis_confirmation confirmation;
    const redis_options *options;
    const simba__endpoint *at; /* for the text of errors */
    redis_errands *errands;
    simba__list waiting;       /* those WAITING */
    simba__list sent;          /* SENT */
    simba__list held;          /* HELD */
    simba__list over;          /* OVER: next_outcome returns them */
    simba__list_item *written; /* the last of `sent` that next_command has returned; NULL: none */
    uint64_t answers;          /* how many have come so far, on any connection */
    simba_local tick_at;       /* when to look for silence; 0: never */
    unsigned actions;          /* of the last event, a set of the bits above */
    simba_error error;         /* of the outcomes REDIS_FAIL */
    simba_error dropped;
    bool short_of_replicas; /* too few replicas confirmed something, and enough have confirmed nothing since */
    unsigned loaded;        /* how many scripts are loaded */
    char sha[REDIS_SCRIPTS][41];
} redis_session;

/* It is DOWN. */
void simba__redis_session_init(redis_session *s, const redis_options *options, const simba__endpoint *at,
                               redis_errands *errands);

/* Take this errand, which is IN_HAND, and send it as soon as it can be sent. */
void simba__redis_session_submit(redis_session *s, redis_errand *errand);
/* The connection is up; it is down: lost, not made, or closed. */
unsigned simba__redis_session_up(redis_session *s, simba_local now);
unsigned simba__redis_session_down(redis_session *s, const simba_error *why);
/* Nothing can be sent for a while: fail the errands that wait. */
unsigned simba__redis_session_refuse(redis_session *s, const simba_error *why);
/* Send what was submitted. */
unsigned simba__redis_session_flush(redis_session *s, simba_local now);
/* The server has answered the errand that was sent first. */
unsigned simba__redis_session_answer(redis_session *s, const redis_answer *answer, simba_local now);
/* The request has run out of time. Afterwards the errand is IN_HAND, if nothing of it is left; or still SENT, until its answer
 * has come or the connection has ended. */
unsigned simba__redis_session_expire(redis_session *s, redis_errand *errand, simba_local now);
/* It is `tick_at`. */
unsigned simba__redis_session_tick(redis_session *s, simba_local now);

/* Begin a command of our own, which the caller writes right away. NULL: there is no connection, its scripts are not
 * loaded yet (FOR_TELLING), or there is no memory. `actions` says what to do. */
redis_errand *simba__redis_session_own(redis_session *s, redis_purpose purpose, simba_local now);

/* The next command to write, and the next outcome; NULL: no more. An outcome is IN_HAND. */
redis_errand *simba__redis_session_next_command(redis_session *s);
redis_errand *simba__redis_session_next_outcome(redis_session *s);

/* The errand that the next answer belongs to. NULL: none. */
redis_errand *simba__redis_session_first(const redis_session *s);
/* Take out the first errand that waits to be sent; it is IN_HAND. NULL: none waits. */
redis_errand *simba__redis_session_withdraw(redis_session *s);
/* Does any errand wait to be sent? Does any renewal? */
bool simba__redis_session_waits(const redis_session *s);
bool simba__redis_session_renews(const redis_session *s);

#endif
