/* The inside of the model of an SQL server, for the files that make it up:
 *
 *   sql_dialect.c   the process's end: what src/backends/sql takes for a client library. Steps travel as messages on wires
 *   sql_server.c    the server: what goes wrong with it, and the table of sim_model
 *   sql_session.c   a session of it: statements, waits for locked rows, commits. What is granted is told to check.c
 *   sql_listener.c  the process's connection that listens
 *   sql_queue.c     the queue of waiters, and who is notified: what PostgreSQL's function does beside rows
 *   sql_guests.c    sessions that are not ours: contenders of Simba on the JVM, and whoever locks a row for long
 *
 * What a statement does with rows is in tests/lib/model_sql.c, which the unit tests use too. */
#ifndef TESTS_SIM_SQL_MODEL_H
#define TESTS_SIM_SQL_MODEL_H

#include "backends/sql/listening.h"
#include "lib/model_sql.h"
#include "sim/world.h"

enum {
    SQL_SESSIONS = 512,
    SQL_CLIENTS = SQL_SESSIONS - 64, /* with so many sessions it accepts no more connections */
    SQL_JVMS = 2,
    SQL_LOCKERS = 16,
    SQL_PAST = 256,
    SQL_WAITERS = 256,
    /* EV_SERVER: who. The first three are about a session, `arg`; the others about a guest. */
    SQL_EV_BEGIN = 0,
    SQL_EV_COMMITTED,
    SQL_EV_TIMEOUT, /* of a wait for a lock, or for the next statement */
    SQL_EV_JVM,
    SQL_EV_LOCKER,
};

#define SQL_LOCK_WAIT_NS SIM_S              /* as the MySQL store sets it */
#define SQL_IDLE_TRANSACTION_NS (2 * SIM_S) /* likewise */
#define SQL_IDLE_NS (60 * SIM_S)            /* likewise */

/* The kinds of statements besides a step of a batch. */
typedef enum sql_verb {
    SQL_STEP,
    SQL_LISTEN, /* on the channel */
    SQL_NOTIFY, /* the channel, by "0" */
    SQL_PING,   /* stands for TCP, which asks whether the other end is still there */
} sql_verb;

/* A request on its way to the server. */
typedef struct sql_ask {
    simba_request request;
    char id[16];
    char note[SIM_NOTE_SIZE];
    uint64_t floor;
    bool held_here;
} sql_ask;

/* A statement on its way to the server, and its answer. */
typedef struct sql_call {
    sql_verb verb;
    simba__sql_action action;
    unsigned count;
    char mutex[SIM_MUTEXES][4];
    simba__sql_row row[SIM_MUTEXES];
    sql_ask ask[SIM_MUTEXES]; /* DECIDE: one for each row. ACQUIRE, RENEW, RELEASE: the first */
    uint64_t channel;         /* of the client; 0: it does not hear */
} sql_call;

typedef struct sql_answer {
    char payload[16]; /* of a notification; "": it is an answer */
    int code;         /* 0: it worked */
    simba__sql_remedy remedy;
    simba__sql_table table;
    simba__sql_row row[SIM_MUTEXES];
    bool matched;
    uint64_t token;
    model_sql_row stored; /* READ_NOTE; without a name: there is no such row */
    int64_t now_ms;       /* likewise */
} sql_answer;

typedef enum sql_phase {
    SQL_FREE_SLOT, /* there is no session */
    SQL_IDLE,
    SQL_BEGINS,  /* a statement has arrived */
    SQL_WAITS,   /* for a row that another session has locked */
    SQL_COMMITS, /* its writes go to the disk and to the replica */
} sql_phase;

typedef enum sql_kind { SQL_CLIENT, SQL_JVM, SQL_LOCKER } sql_kind;

typedef struct sql_session {
    model_sql_conn conn;
    sql_phase phase;
    sql_kind kind;
    unsigned guest;    /* JVM, LOCKER: which */
    unsigned wire;     /* CLIENT; 0: the client is gone, and its statement goes on */
    uint32_t stamp;    /* of the event that it waits for */
    uint64_t channel;  /* that it listens on; 0: it does not */
    sql_call call;     /* the statement that is carried out */
    int64_t began_ms;  /* the server's clock when the statement began */
    int64_t latest_ms; /* the latest time of this transaction */
    const model_sql_row *waits_for;
} sql_session;

/* A contender of Simba on the JVM. */
typedef struct sql_jvm {
    char id[16];
    unsigned mutex;
    uint32_t version; /* of its plans */
    bool alive, leaves, holds;
    unsigned what; /* its move, while it waits for the row */
} sql_jvm;

/* Somebody who locks a row, and perhaps the other one too, in the wrong order. */
typedef struct sql_locker {
    unsigned mutex, next;
    bool wants_both;
    int64_t until;
} sql_locker;

/* A row before a commit. */
typedef struct sql_past {
    int64_t at;
    model_sql_row row;
} sql_past;

/* Somebody in the queue of a mutex. */
typedef struct sql_waiter {
    char mutex[4];
    uint64_t nonce, channel;
    int64_t since, until, invited;
} sql_waiter;

typedef struct sql_state {
    model_sql server;
    sql_session session[SQL_SESSIONS];
    unsigned sessions; /* the sessions that were ever used in this run come first */
    uint32_t stamps;
    bool is_old;    /* it does not know SKIP LOCKED */
    bool is_pooled; /* LISTEN is accepted, and nothing ever arrives */
    sql_waiter queue[SQL_WAITERS];
    unsigned waiters;
    unsigned lanes;
    int64_t commit_ns; /* how long the disk and the replica take, at most */
    int64_t slow_until, slow_ns;
    sql_jvm jvm[SQL_JVMS];
    sql_locker locker[SQL_LOCKERS];
    unsigned lockers;
    sql_past *past;
    unsigned pasts;
} sql_state;

static inline sql_state *sql_state_of(const sim *s)
{
    return s->servers;
}

/* --- sql_dialect.c ------------------------------------------------------------------------------------ */

extern const simba_backend sim_sql_backend, sim_postgresql_backend;

/* --- sql_listener.c ----------------------------------------------------------------------------------- */

typedef struct sql_listener {
    simba__sql_listening listening;
    sim *s;
    unsigned process;
    unsigned wire; /* 0: none */
    uint64_t channel;
    simba_timer ping;
    bool awaits;    /* an answer to the latest ping, to LISTEN, or to the attempt to connect */
    bool is_asked;  /* and that ping was sent for the listening's sake */
    bool is_to_ask; /* such a ping is to follow */
} sql_listener;

int sql_listener_init(sql_listener *self, sim *s, unsigned process, simba__sql_store *store, simba_host *host);
void sql_listener_close(sql_listener *self);
/* A lane is connected: listen, if somebody waits and it is time. */
void sql_listener_wake(sql_listener *self);
/* For the queue; 0: stay out of it. */
uint64_t sql_listener_channel(const sql_listener *self);

/* --- sql_queue.c -------------------------------------------------------------------------------------- */

/* A row was read for a waiter; a request about it was decided. */
void sql_queue_keep(sim *s, const char *mutex, uint64_t channel, int64_t transition_at, int64_t now_ms);
void sql_queue_decided(sim *s, simba__sql_row *row, uint64_t channel);
/* All sessions that listen there are told. */
void sql_notify(sim *s, uint64_t channel, const char *payload);

/* --- sql_session.c ------------------------------------------------------------------------------------ */

int64_t sql_now_ms(const sim *s);
sql_session *sql_session_new(sim *s, sql_kind kind, unsigned guest, unsigned wire);
void sql_session_call(sim *s, sql_session *session, const sql_call *call);
/* The client is gone. The server carries out its statement all the same. */
void sql_session_leave(sim *s, sql_session *session);
/* Nobody is asked: it is over, with its locks. */
void sql_session_end(sim *s, sql_session *session);
/* The server dies. Some of the transactions that were being committed are committed. */
void sql_sessions_crash(sim *s);
void sql_session_event(sim *s, const sim_event *event);
/* Rows may have been unlocked: sessions that wait look again. */
void sql_sessions_wake(sim *s);
/* Before and after rows are changed: tell check.c. `now_ms`: the time by which that was decided. */
void sql_rows_before(sim *s, model_sql_row before[SIM_MUTEXES]);
void sql_rows_compare(sim *s, const model_sql_row before[SIM_MUTEXES], int64_t now_ms);
bool sql_row_is_held(const model_sql_row *row, int64_t now_ms);

/* --- sql_guests.c ------------------------------------------------------------------------------------- */

void sql_guests_begin(sim *s);
void sql_guests_leave(sim *s);
/* The server has died, and their sessions with it. */
void sql_guests_disconnected(sim *s);
void sql_guests_lock(sim *s, unsigned mutex, int64_t until);
void sql_guests_event(sim *s, const sim_event *event);
/* The row that a guest's session wanted is locked, or cannot be had. */
void sql_guest_answered(sim *s, sql_session *session, bool locked);

#endif
