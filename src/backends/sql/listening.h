/* Whether the server's notifications can be relied on, and what they say.
 *
 * A client has one connection that listens, while it has waiters. A pooler in between may accept
 * notifications and never deliver them. So a lane sends one to ourselves ("0"), and when that was answered, the connection that
 * listens is asked something. Notifications come before that answer, or never. Until the test has come, the store polls the rows. If
 * the answer comes without it, the store says so once, polls, and tests again after a minute, then after two, up to an hour.
 * Nobody enters the queue meanwhile. If neither comes, the connection stands still, and is opened anew. A pooler may bring the test together with the answer, by chance: so a test that comes
 * while the connection is asked proves nothing. Then the next one is waited for without asking.
 *
 *     ASLEEP ──▶ OPENING ──▶ LISTENS ◀──▶ TESTS ──▶ HEARS
 *       ▲                       │ ▲        │ └──▶ DEAF │ a lane has connected anew
 *       ├───── lost ────────────┴─┼────────┴───────│───┤
 *       └───── later ─────────────│────────────────┘   │
 *                                 └────────────────────┘
 *
 * A lane that connects anew may have come to another server, after a fail-over: then it sends the test again. If the answer comes
 * without it to a connection that has heard notifications before, or that was there before the lane, that one is at the wrong
 * server, and is opened anew.
 *
 * A server that has crashed, or a standby that has taken over, has an empty queue. So when the test arrives after a connection was
 * lost, or after it did not arrive before, every waiter asks once, and enters the queue.
 *
 * A release notifies the first in the queue ("1 MUTEX"), which tries at once, and the next two clients behind it ("2 MUTEX",
 * "3 MUTEX"), which look in a while whether it has come. Writing a note notifies every client in the queue ("4 MUTEX"). */
#ifndef SIMBA_BACKENDS_SQL_LISTENING_H
#define SIMBA_BACKENDS_SQL_LISTENING_H

#include "backends/sql/store.h"

typedef enum simba__sql_hearing {
    SIMBA__SQL_ASLEEP,  /* there is no connection */
    SIMBA__SQL_OPENING, /* until it listens */
    SIMBA__SQL_LISTENS, /* a lane is to send the test */
    SIMBA__SQL_TESTS,   /* it was sent, and the connection was asked something */
    SIMBA__SQL_HEARS,
    SIMBA__SQL_DEAF, /* the test did not come; it is made again later */
} simba__sql_hearing;

typedef struct simba__sql_listening simba__sql_listening;

typedef struct simba__sql_listening_deeds {
    void (*ask)(
        simba__sql_listening *listening); /* anything, on the connection; simba__sql_listening_answered follows */
    void (*shut)(simba__sql_listening *listening); /* the connection is of no use */
} simba__sql_listening_deeds;

struct simba__sql_listening {
    const simba__sql_listening_deeds *deeds;
    simba__sql_store *store;
    simba_host *host;
    simba__sql_hearing hearing;
    bool is_closing;
    bool has_heard;         /* this connection has, so no pooler swallows its notifications */
    bool may_be_elsewhere;  /* a lane has connected since this connection listens, perhaps to another server */
    bool is_asked;          /* the answer is still to come */
    bool is_asked_before;   /* and it was asked before the latest test */
    bool was_asked_for;     /* the latest test came while it was asked: the next one is waited for without asking */
    bool must_enter;        /* waiters may not be in the server's queue */
    unsigned failures;      /* in a row */
    unsigned deaf_tests;    /* in a row: tests that did not come to a connection that has heard nothing yet */
    simba_local not_before; /* ASLEEP: when it may be opened again */
    simba_timer timer;      /* TESTS: until when the test is waited for. DEAF: when to test again */
};

/* SIMBA_ENOMEM. */
int simba__sql_listening_init(simba__sql_listening *listening, simba__sql_store *store, simba_host *host,
                              const simba__sql_listening_deeds *deeds);
/* The client closes. */
void simba__sql_listening_close(simba__sql_listening *listening);

/* Should the connection be opened? If so, it is OPENING now. */
bool simba__sql_listening_begin(simba__sql_listening *listening);
/* It listens; it is lost, or could not be opened. */
void simba__sql_listening_up(simba__sql_listening *listening);
void simba__sql_listening_down(simba__sql_listening *listening);
/* A lane has lost its connection: the server may have lost its queue. */
void simba__sql_listening_lost(simba__sql_listening *listening);
/* A lane has a new connection. */
void simba__sql_listening_doubt(simba__sql_listening *listening);
/* A lane has sent the test. */
void simba__sql_listening_tested(simba__sql_listening *listening);
/* The server has answered what the connection was asked. */
void simba__sql_listening_answered(simba__sql_listening *listening);
/* Notifications can be relied on, or nothing speaks against them: waiters may enter the queue. */
bool simba__sql_listening_may_wait(const simba__sql_listening *listening);
void simba__sql_listening_heard(simba__sql_listening *listening, const char *payload);

#endif
