/* One connection to a server by libpq, which never blocks: the host watches its socket, and one statement at a time is
 * under way. All functions and events run under the client's lock. An event may close the connection, open it anew, or send the next
 * statement.
 *
 * A worker looks up the names of the hosts and hands libpq their addresses, because libpq would look them up in the
 * middle of it. libpq tries one host after the other. If a host does not answer at all, we begin anew with the
 * next one. */
#ifndef SIMBA_BACKENDS_POSTGRESQL_CONN_H
#define SIMBA_BACKENDS_POSTGRESQL_CONN_H

#include "backends/postgresql/error.h"
#include "net/resolver.h"

typedef enum simba__pg_state {
    SIMBA__PG_SHUT,
    SIMBA__PG_RESOLVING,  /* a worker looks a name up, which cannot be interrupted */
    SIMBA__PG_CONNECTING, /* libpq is at work */
    SIMBA__PG_IDLE,       /* it is open */
    SIMBA__PG_ASKED,      /* and a statement is under way */
} simba__pg_state;

typedef struct simba__pg_conn simba__pg_conn;

typedef struct simba__pg_conn_events {
    void (*opened)(simba__pg_conn *conn);
    /* The statement is over: its result, which is valid until this returns, or why it failed. */
    void (*answered)(simba__pg_conn *conn, const PGresult *result, const simba__sql_failure *why);
    /* It could not be opened, or it has ended by itself while nothing was asked. It is shut. */
    void (*lost)(simba__pg_conn *conn, const simba__sql_failure *why);
    void (*notified)(simba__pg_conn *conn, const char *payload);
} simba__pg_conn_events;

struct simba__pg_conn {
    simba_host *host;
    const simba__pg_options *options;
    const simba__pg_conn_events *events;
    simba__pg_state state;
    unsigned life;          /* counts the times that it was shut */
    PGconn *pg;             /* NULL: there is none */
    PGresult *result;       /* of the statement that is under way, as far as it has come */
    bool is_unreplicated;   /* its commit did not wait for the standby that it should have waited for */
    uint64_t received_most; /* by this connection when that statement has been answered */
    simba_io io;
    bool is_watched;
    simba_timer timer; /* CONNECTING: when to begin another attempt. ASKED: it could not be sent */

    /* Opening. */
    simba_local open_by;
    simba_local next_at;  /* when to begin with the next host */
    simba_local begun_at; /* the attempt that is under way */
    unsigned hurries;     /* attempts in a row that were cut short because nobody answered the first packet */
    simba__resolver resolver;
    size_t first;           /* the target to begin with */
    simba__sql_failure why; /* the latest reason for which there is no connection */
};

/* SIMBA_ENOMEM. */
int simba__pg_conn_init(simba__pg_conn *conn, simba_host *host, const simba__pg_options *options,
                        const simba__pg_conn_events *events);
/* One that is shut. `opened` or `lost` follows, perhaps before this returns. */
void simba__pg_conn_open(simba__pg_conn *conn);
/* The same, at the server that another connection, which is open, is connected to. */
void simba__pg_conn_open_beside(simba__pg_conn *conn, const simba__pg_conn *other);
bool simba__pg_conn_is_open(const simba__pg_conn *conn);
/* One that is open and idle. `values` are text, as many as `count`; `answered` follows, not before this returns. Several
 * statements in one text: only without values. `most`: how many bytes the answer may have. */
enum { SIMBA__PG_ANSWER_MOST = 2 << 20 };
void simba__pg_conn_ask(simba__pg_conn *conn, const char *sql, int count, const char *const *values, unsigned most);
/* Shut it. There are no events. RESOLVING is the exception: the connection stays as it is until `lost`. */
void simba__pg_conn_close(simba__pg_conn *conn);

#endif
