/* The connection by which the server tells this client of releases: one per client, and only while somebody here waits.
 *
 * A waiter stands in line with the name of a channel that is its client's alone. Whoever releases notifies the first in line
 * ("1 MUTEX"), who tries at once, and the two behind it ("2 MUTEX", "3 MUTEX"), who look in a while whether it has come.
 *
 * Behind a pooler in transaction mode LISTEN is accepted and nothing ever comes. So a lane sends one notification to ourselves
 * ("0"). Until it has come the rows are polled; if it does not come, the store says so once, and polls for good.
 *
 *     ASLEEP ──▶ OPENING ──▶ LISTENS ──▶ TESTS ──▶ HEARS
 *       ▲  lost: a pause        │          │         │         DEAF: nothing came
 *       └───────────────────────┴──────────┴─────────┘ */
#ifndef SIMBA_BACKENDS_POSTGRESQL_LISTENER_H
#define SIMBA_BACKENDS_POSTGRESQL_LISTENER_H

#include "backends/postgresql/conn.h"
#include "backends/sql/store.h"

typedef enum simba__pg_hearing {
    SIMBA__PG_ASLEEP,  /* there is no connection */
    SIMBA__PG_OPENING, /* until LISTEN is in force */
    SIMBA__PG_LISTENS, /* a lane is to send the test */
    SIMBA__PG_TESTS,   /* it is under way */
    SIMBA__PG_HEARS,
    SIMBA__PG_DEAF, /* for good */
} simba__pg_hearing;

typedef struct simba__pg_listener {
    simba__pg_conn conn;
    simba__sql_store *store;
    simba__pg_hearing hearing;
    bool is_closing;
    unsigned failures;      /* in a row */
    simba_local not_before; /* when it may be opened again */
    simba_timer timer;      /* TESTS: until when the test is waited for */
    char channel[32];
} simba__pg_listener;

int simba__pg_listener_init(simba__pg_listener *listener, simba_host *host, const simba__pg_options *options,
                            simba__sql_store *store);
void simba__pg_listener_close(simba__pg_listener *listener);

/* A lane has an open connection: if somebody here waits, and it is time, listen beside it. */
void simba__pg_listener_wake(simba__pg_listener *listener, const simba__pg_conn *lane);
/* The channel for the line; "": nobody is to stand in it. */
const char *simba__pg_listener_channel(const simba__pg_listener *listener);
/* Is a lane to notify this channel with "0"? Then it has to, and to say when it has. */
bool simba__pg_listener_wants_test(const simba__pg_listener *listener);
void simba__pg_listener_tested(simba__pg_listener *listener);

#endif
