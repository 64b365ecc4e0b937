/* One connection to a server by libpq, which never blocks: its socket is watched by the host, and one statement at a time is
 * under way. All functions are called in turns, and so are the events. An event may close the connection, open it anew, or ask
 * the next statement.
 *
 * Opening goes through the hosts one by one, beginning with the one that was right the last time, and through the addresses of
 * each, since libpq itself would look names up in the middle of a turn. Each attempt gets its share of the time that is
 * left. */
#ifndef SIMBA_BACKENDS_POSTGRESQL_CONN_H
#define SIMBA_BACKENDS_POSTGRESQL_CONN_H

#include "backends/postgresql/error.h"
#include "backends/postgresql/options.h"
#include "net/resolve.h"

typedef struct simba__pg_conn simba__pg_conn;

typedef enum simba__pg_state {
    SIMBA__PG_SHUT,
    SIMBA__PG_RESOLVING,  /* a worker looks a name up, which cannot be interrupted */
    SIMBA__PG_CONNECTING, /* libpq is at work */
    SIMBA__PG_IDLE,       /* it is open */
    SIMBA__PG_ASKED,      /* and a statement is under way */
} simba__pg_state;

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
    unsigned life; /* counts the times that it was opened or shut */
    PGconn *pg;    /* NULL: there is none */
    simba_watch watch;
    bool is_watched;
    PGresult *result; /* of the statement that is under way, as far as it has come */

    /* Opening. */
    simba_timer timer; /* the share of the attempt */
    simba_local open_by;
    simba__lookup *lookup;
    struct addrinfo *addresses, *next_address;
    size_t first_host, tried; /* which host to begin with; how many have been begun with */
    char address[64];         /* that it is, or is to be, connected to; "": a socket file */
    bool is_given_up;         /* RESOLVING: whoever wanted it does not any more */
    simba__sql_failure why;   /* of the attempts so far, the one to tell */
};

/* SIMBA_ENOMEM. `answers`: requests are waited for here, see simba_watch. */
int simba__pg_conn_init(simba__pg_conn *conn, simba_host *host, const simba__pg_options *options,
                        const simba__pg_conn_events *events, bool answers);
/* It has to be shut. */
void simba__pg_conn_fini(simba__pg_conn *conn);

/* One that is shut. `opened` or `lost` follows, perhaps before this returns. */
void simba__pg_conn_open(simba__pg_conn *conn);
/* The same, at the server that another connection, which is open, is connected to. */
void simba__pg_conn_open_beside(simba__pg_conn *conn, const simba__pg_conn *other);
bool simba__pg_conn_is_open(const simba__pg_conn *conn);

/* One that is open and idle. `values` are text, as many as `count`; `answered` follows, not before this returns. Several
 * statements in one text: only without values. */
void simba__pg_conn_ask(simba__pg_conn *conn, const char *sql, int count, const char *const *values);

/* Shut it. There are no events. RESOLVING is the exception: the connection stays as it is until `lost`. */
void simba__pg_conn_close(simba__pg_conn *conn);

#endif
