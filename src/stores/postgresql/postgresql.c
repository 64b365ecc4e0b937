/* The PostgreSQL store: stores/sql over two connections. */
#include "stores/postgresql/postgresql.h"

#include <openssl/crypto.h>

#include "stores/schemes.h"
#include "util/assert.h"

typedef struct store {
    simba__sql_store sql; /* first: the functions of the table are its own */
    simba__pg_options options;
    simba__pg_conn writer, reader;
} store;

static int pg_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    store *self = instance;
    /* Before libpq does it: OpenSSL would take itself down at the end of the process, while other threads still use it. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    const int rc = simba__pg_options_parse(url, &self->options, err);
    if (rc < 0)
        return rc;
    if (simba__pg_conn_init(&self->writer, host, &self->options, &self->sql.writer) < 0 ||
        simba__pg_conn_init(&self->reader, host, &self->options, &self->sql.reader) < 0)
        return simba__fail(err, SIMBA_ENOMEM, "postgresql: out of memory");
    const simba__sql_place place = {"postgresql", self->options.where, self->options.table};
    return simba__sql_init(&self->sql, host, &simba__pg_dialect, place, &self->writer, &self->reader, err);
}

static void pg_fini(void *instance)
{
    store *self = instance;
    simba__sql_fini(&self->sql);
    simba__pg_conn_fini(&self->writer);
    simba__pg_conn_fini(&self->reader);
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
    .workers = 1, /* for names */
    .init = pg_init,
    SIMBA__SQL_FUNCTIONS,
    .fini = pg_fini,
};
