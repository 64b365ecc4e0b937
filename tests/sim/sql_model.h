/* The inside of the model of an SQL server, for the files that make it up:
 *
 *   sql_dialect.c   the process's end: a dialect of src/stores/sql that sends its asks before they are text. They travel on wires
 *   sql_server.c    the server: what goes wrong with it, and the table of sim_model
 *   sql_session.c   a session of it: packets, row locks, commits, notifications. What is granted is told to check.c
 *   sql_foreign.c   sessions that are not simba's: contenders of Simba on the JVM, and whoever locks a row for long
 *
 * It is a table with row locks and another of waiters; it has no rules. */
#ifndef TESTS_SIM_SQL_MODEL_H
#define TESTS_SIM_SQL_MODEL_H

#include "sim/world.h"
#include "stores/sql/sql.h"

enum {
    SQL_SESSIONS = 512,
    SQL_CLIENTS = SQL_SESSIONS - 64, /* with so many sessions it accepts no more connections */
    SQL_JVMS = 2,
    SQL_LOCKERS = 16,
    SQL_PAST = 256,
    SQL_WAITERS = 64, /* also of a packet */
    SQL_NOTICES = 16,
    SQL_TEXT = 32,
    /* EV_SERVER: who. The first three are about a session, `arg`; the others about a foreign session. */
    SQL_EV_BEGIN = 0,
    SQL_EV_COMMITTED,
    SQL_EV_TIMEOUT, /* of a wait for a lock, or for the next packet */
    SQL_EV_JVM,
    SQL_EV_LOCKER,
};

#define SQL_LOCK_WAIT_NS SIM_S        /* as the MySQL store sets it */
#define SQL_IDLE_TRANSACTION_NS SIM_S /* likewise */
#define SQL_IDLE_NS (60 * SIM_S)

typedef struct sql_row {
    char mutex[4];
    char owner_id[16];
    int64_t acquired_at, ttl_at, transition_at;
    uint64_t version, nonce, nonce_version, revoked_version, note_token, note_number, forgotten_version;
    int64_t note_written_at;
    char note[SIM_NOTE_SIZE];
    size_t note_size;
    const void *locked_by; /* a session; NULL: nobody */
    int64_t locked_at;
} sql_row;

typedef struct sql_waiter {
    char mutex[4];
    uint64_t nonce;
    char channel[SQL_TEXT];
    int64_t since, until, invited;
    bool is_gone;
} sql_waiter;

typedef enum sql_verb {
    SQL_READY, /* connect */
    SQL_ASK,
    SQL_FOREIGN, /* a foreign session: lock a row, and wait for it */
} sql_verb;

/* A packet on its way to the server. */
typedef struct sql_call {
    sql_verb verb;
    simba__sql_kind kind;
    unsigned names, waited, waiters, notices;
    char name[SIM_MUTEXES][4], waited_name[SIM_MUTEXES][4];
    /* WRITE: the rows as they are to be, and which parts of them. */
    unsigned rows;
    sql_row row[SIM_MUTEXES];
    bool has_lease[SIM_MUTEXES], has_note[SIM_MUTEXES], is_forgotten[SIM_MUTEXES];
    sql_waiter waiter[SQL_WAITERS];
    struct {
        char channel[SQL_TEXT], payload[16];
    } notice[SQL_NOTICES];
    char channel[SQL_TEXT];
} sql_call;

typedef struct sql_answer {
    char payload[16]; /* of a notification; "": it is an answer */
    int code;         /* 0: it worked */
    simba__sql_effect effect;
    bool is_exact; /* READY */
    unsigned rows, waiters;
    sql_row row[SIM_MUTEXES];
    sql_waiter waiter[SQL_WAITERS];
    int64_t now_ms;
} sql_answer;

typedef enum sql_phase {
    SQL_FREE_SLOT, /* there is no session */
    SQL_IDLE,
    SQL_BEGINS,  /* a packet has arrived */
    SQL_WAITS,   /* a foreign session: for a row that another session has locked */
    SQL_COMMITS, /* its writes go to the disk and to the replica */
} sql_phase;

typedef enum sql_kind { SQL_CLIENT, SQL_JVM, SQL_LOCKER } sql_kind;

typedef struct sql_session {
    sql_phase phase;
    sql_kind kind;
    unsigned foreign; /* JVM, LOCKER: which */
    unsigned wire;    /* CLIENT; 0: the client is gone, and its statement goes on */
    uint32_t stamp;   /* of the event that it waits for */
    bool in_transaction;
    char channel[SQL_TEXT]; /* that it listens on; "": it does not */
    sql_call call;          /* what is carried out */
    int64_t began_ms;       /* the server's clock when that began */
    const sql_row *waits_for;
} sql_session;

/* A contender of Simba on the JVM, or of the version before. */
typedef struct sql_jvm {
    char id[16];
    bool is_simba;
    uint64_t token;    /* the version before: of its grant */
    int64_t locked_ms; /* when it had the row */
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
    sql_row row;
} sql_past;

typedef struct sql_state {
    sql_row row[SIM_MUTEXES];
    unsigned rows;
    bool is_exact;
    sql_session session[SQL_SESSIONS];
    unsigned sessions; /* the sessions that were ever used in this run come first */
    uint32_t stamps;
    bool is_pooled; /* LISTEN is accepted, and nothing ever arrives */
    sql_waiter queue[SQL_WAITERS];
    unsigned waiters;
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

/* --- sql_session.c ------------------------------------------------------------------------------------ */

int64_t sql_now_ms(const sim *s);
/* NULL: there is none. */
sql_row *sql_row_find(sql_state *state, const char *mutex);
/* It is made if it is missing. */
sql_row *sql_row_of(sql_state *state, const char *mutex);
bool sql_row_is_held(const sql_row *row, int64_t now_ms);
sql_session *sql_session_new(sim *s, sql_kind kind, unsigned foreign, unsigned wire);
void sql_session_call(sim *s, sql_session *session, const sql_call *call);
/* The client is gone. The server carries out its statement all the same. */
void sql_session_leave(sim *s, sql_session *session);
/* Nobody is asked: it is over, with its locks. */
void sql_session_end(sim *s, sql_session *session);
/* The server dies. Some of the transactions that were being committed are committed. */
void sql_sessions_crash(sim *s);
void sql_session_event(sim *s, const sim_event *event);
/* Before and after a row is changed: tell check.c. `now_ms`: the time by which that was decided. */
void sql_row_changed(sim *s, const sql_row *before, const sql_row *after, int64_t now_ms);

/* --- sql_foreign.c ------------------------------------------------------------------------------------- */

void sql_foreign_begin(sim *s);
void sql_foreign_leave(sim *s);
/* The server has died, and their sessions with it. */
void sql_foreign_disconnected(sim *s);
void sql_foreign_lock(sim *s, unsigned mutex, int64_t until);
void sql_foreign_event(sim *s, const sim_event *event);
/* The row that a foreign session wanted is locked, or cannot be had. */
void sql_foreign_answered(sim *s, sql_session *session, bool locked);

#endif
