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
 * All that was submitted in a turn goes out in one write. The answers come back in the order of the errands, so a queue of
 * them is all that is needed to tell whose they are. An errand whose request has run out of time stays in the queue to swallow
 * the late answer.
 *
 * No more is asked at a time than the server answers in some hundredths of a second: the window. The rest stands in line here.
 * If it stood in line at the server instead, the server would carry out what has long run out of time, while the same is asked
 * again behind it: an overload would feed itself. The window grows while answers come in time and there is a line, and is
 * halved when one comes late. Renewals go first, have a window of their own, and up to BATCH_MOST of them share a script. Then
 * comes what a holder wants of its mutex, which frees it for others, and then everything else, each in its order. An errand
 * whose time is over when its turn comes is not sent.
 *
 * replicas=N: a grant, a renewal or a note counts once N replicas have it. WAIT answers how many replicas have everything that
 * was written on its connection before it. Meanwhile the connection stands still, and with it everybody else's renewals: so a
 * WAIT is short, one is under way at a time, and as long as too few replicas have confirmed something another one follows. The
 * errands that it is about are HELD until then. After a while, half of the time that the request has at most, the session gives
 * a grant back and fails the request; it fails a renewal, too, which will be tried again. */
#ifndef SIMBA_BACKENDS_REDIS_SESSION_H
#define SIMBA_BACKENDS_REDIS_SESSION_H

#include "backends/redis/errands.h"
#include "net/endpoint.h"

enum {
    REDIS_BATCH_MOST = 64, /* renewals in one script: the server serves nobody else meanwhile */
    REDIS_WAIT_MS = 50,    /* how long a WAIT may take */
};

typedef enum redis_session_state {
    REDIS_SESSION_DOWN,    /* there is no connection */
    REDIS_SESSION_LOADING, /* the server is asked to load our scripts */
    REDIS_SESSION_READY,   /* requests are sent */
    REDIS_SESSION_STUCK,   /* the connection is about to be given up */
    REDIS_SESSION_STATES,
} redis_session_state;

/* How far the replicas were asked. */
typedef enum redis_confirmation {
    REDIS_UNASKED,     /* nothing that needs them is under way */
    REDIS_ASKED_ONCE,  /* a WAIT is under way, */
    REDIS_ASKED_AGAIN, /* and something was sent after it that needs another one */
    REDIS_CONFIRMATIONS,
} redis_confirmation;

/* What a server has said to an errand. */
typedef struct redis_answer {
    enum {
        REDIS_SAID_DONE,        /* the request is over */
        REDIS_SAID_GRANTED,     /* likewise, if the replicas have it */
        REDIS_SAID_NOT_RENEWED, /* one of a batch: only a script of its own says why */
        REDIS_SAID_ERROR,       /* `text` */
        REDIS_SAID_TEXT,        /* `text`: the name of a script that was loaded, 40 bytes */
        REDIS_SAID_NUMBER,      /* `number`: of replicas */
        REDIS_SAID_ODDITY,      /* nothing that could be an answer to it */
    } kind;
    const char *text;
    int64_t number;
} redis_answer;

/* What to do, a set of these; before it the commands, and then the outcomes. */
enum {
    REDIS_DO_SET_TIMER = 1, /* to `tick_at` */
    REDIS_DO_WAKE = 2,      /* flush before the turn ends */
    REDIS_DO_ANNOUNCE = 4,  /* it is READY */
    REDIS_DO_SUSPECT = 8,   /* the server may be lost: ask whether another one has taken its place */
    REDIS_DO_PRAISE = 16,   /* enough replicas confirm again: say so in the log */
    REDIS_DO_DROP = 32,     /* give the connection up over `dropped` */
};

typedef struct redis_session {
    redis_session_state state;
    redis_confirmation confirmation;
    const redis_options *options;
    const simba__endpoint *at; /* for errors */
    redis_errands *errands;
    simba__ring renewals; /* WAITING, */
    simba__ring holders;  /* of those, what holders want besides: releases and notes */
    simba__ring waiting;  /* and all others that are */
    simba__ring sent;     /* SENT */
    simba__ring *written; /* the last of them whose command was taken by next_command */
    simba__ring held;     /* HELD */
    simba__ring over;     /* OVER: to be taken by next_outcome */
    size_t unanswered;    /* how many are SENT */
    size_t asked;         /* of those, for a request and not of our own */
    size_t window;        /* how many of them there may be before others, except for renewals, stand in line */
    simba_local narrowed_at;
    int64_t fastest_ns;  /* the answer that took the least time on this connection */
    uint64_t answers;    /* that came so far, on any connection */
    simba_local tick_at; /* when to look for silence; 0: never */
    unsigned actions;    /* of the last event, a set of the above */
    simba_error error;   /* of the outcomes that FAIL */
    simba_error dropped;
    bool short_of_replicas; /* something was refused for want of them, and nothing confirmed since */
    unsigned loaded;        /* scripts whose name is known */
    char sha[REDIS_SCRIPTS][41];
} redis_session;

/* It is DOWN. */
void simba__redis_session_init(redis_session *s, const redis_options *options, const simba__endpoint *at,
                               redis_errands *errands);

/* Send this errand when that can be; it is IN_HAND. */
void simba__redis_session_submit(redis_session *s, redis_errand *errand);
/* The connection is up; or lost, not to be made, or closed. */
unsigned simba__redis_session_up(redis_session *s, simba_local now);
unsigned simba__redis_session_down(redis_session *s, const simba_error *why);
/* Nothing can be sent for a while: fail what waits. */
unsigned simba__redis_session_refuse(redis_session *s, const simba_error *why);
/* The turn ends: send what can be sent. */
unsigned simba__redis_session_flush(redis_session *s, simba_local now);
/* The server has answered the errand that was sent first; if it is the first of a batch, all of that one after the other. */
unsigned simba__redis_session_answer(redis_session *s, const redis_answer *answer, simba_local now);
/* The time of its request is over, or nobody wants it any more. Then it is IN_HAND; or still SENT, to swallow the answer. */
unsigned simba__redis_session_leave(redis_session *s, redis_errand *errand, simba_local now);
/* Its deadline has come. Does it stand in line here, at a connection that is in use? Or at the server, which has answered
 * others since it was last asked for? If the server falls silent, those that were sent run out of time, and in the end the
 * connection is given up, with all that stand in line. */
bool simba__redis_session_in_line(redis_session *s, redis_errand *errand);
/* It is `tick_at`. */
unsigned simba__redis_session_tick(redis_session *s, simba_local now);

/* A command that the caller writes right away. NULL: there is no connection, its scripts are not known yet (FOR_TELLING,
 * FOR_RETURNING), or out of memory. `actions` says what to do. */
redis_errand *simba__redis_session_own(redis_session *s, redis_purpose purpose, simba_local now);

/* The next command to be written, and the next outcome, until there is none: NULL. A command of a batch has the others of it
 * behind it. An outcome is IN_HAND. */
redis_errand *simba__redis_session_next_command(redis_session *s);
redis_errand *simba__redis_session_next_outcome(redis_session *s);

/* Whose the next answer is. NULL: nobody's. */
redis_errand *simba__redis_session_first(const redis_session *s);
/* Take out the first that waits to be sent; it is IN_HAND. NULL: none does. */
redis_errand *simba__redis_session_withdraw(redis_session *s);
/* Does anything wait to be sent? Any renewal? */
bool simba__redis_session_waits(const redis_session *s);
bool simba__redis_session_renews(const redis_session *s);

#endif
