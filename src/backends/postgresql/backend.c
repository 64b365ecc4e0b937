/* The PostgreSQL store: the code of backends/sql, which every SQL store uses, over sessions of PostgreSQL. */
#include <openssl/crypto.h>

#include "backends/postgresql/dialect.h"
#include "backends/postgresql/postgresql.h"
#include "backends/sql/store.h"
#include "stores/schemes.h"
#include "util/mem.h"

typedef struct store {
    simba__sql_store sql; /* first: most functions of the table are its own */
    simba__pg_options options;
    simba__pg_shared shared;
    simba__pg_listener listener;
    simba__pg_session sessions[SIMBA__SQL_LANES_MAX];
    unsigned session_count;
} store;

static int pg_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    store *self = instance;
    void *conns[SIMBA__SQL_LANES_MAX];
    /* Before libpq does it: OpenSSL would take itself down at the end of the process, while other threads still use it. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    int rc = simba__pg_options_parse(url, &self->options, err);
    if (rc < 0)
        return rc;
    self->shared = (simba__pg_shared){.options = &self->options, .listener = &self->listener};
    for (size_t i = 0; i < SIMBA__PG_STATEMENTS; i++)
        if (!(self->shared.texts[i] = simba__pg_statement_text(i, &self->options)))
            rc = SIMBA_ENOMEM;
    for (; rc == 0 && self->session_count < self->options.connections; self->session_count++) {
        rc = simba__pg_session_init(&self->sessions[self->session_count], host, &self->shared);
        conns[self->session_count] = &self->sessions[self->session_count];
    }
    if (rc == 0)
        rc = simba__pg_listener_init(&self->listener, host, &self->options, &self->sql);
    if (rc < 0)
        return simba__fail(err, rc, "postgresql: out of memory");
    host->workers = 1; /* for names */
    const simba__sql_place place = {"postgresql", self->options.where, self->options.table};
    return simba__sql_init(&self->sql, host, &simba__pg_dialect, place, conns, self->session_count, err);
}

/* Connections that nobody uses have descriptors, too. */
static void pg_close(void *instance)
{
    store *self = instance;
    simba__pg_listener_close(&self->listener);
    for (unsigned i = 0; i < self->session_count; i++)
        if (self->sessions[i].task == SIMBA__PG_NO_TASK)
            simba__pg_conn_close(&self->sessions[i].conn);
    simba__sql_close(&self->sql);
}

static void pg_fini(void *instance)
{
    store *self = instance;
    simba__sql_fini(&self->sql);
    for (unsigned i = 0; i < self->session_count; i++)
        simba__pg_session_fini(&self->sessions[i]);
    for (size_t i = 0; i < SIMBA__PG_STATEMENTS; i++)
        simba__free(self->shared.texts[i]);
    simba__pg_options_free(&self->options);
}

static const char *const schemes[] = {SIMBA__SCHEMES_postgresql, NULL};

const simba_backend simba__backend_postgresql = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = simba__pg_keys,
    .instance_size = sizeof(store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_QUEUE | SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE |
            SIMBA_CAP_PREPARE | SIMBA_CAP_NOTE,
    .window = SIMBA__SQL_WINDOW,
    .workers = 1,
    .init = pg_init,
    SIMBA__SQL_FUNCTIONS,
    .close = pg_close,
    .fini = pg_fini,
};
