/* The MySQL store: stores/sql over two connections. */
#include "stores/mysql/mysql.h"

#include "stores/mysql/library.h"
#include "stores/schemes.h"

typedef struct store {
    simba__sql_store sql; /* first: the functions of the table are its own */
    simba__my_options options;
    simba__my_conn writer, reader;
    bool has_conns;
} store;

static int my_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    store *self = instance;
    const int rc = simba__my_options_parse(url, &self->options, err);
    if (rc < 0)
        return rc;
    if (!simba__my_library_start())
        return simba__fail(err, SIMBA_ESYSTEM, "mysql: the client library does not start");
    self->has_conns = true;
    if (simba__my_conn_init(&self->writer, host, &self->options, &self->sql.writer) < 0 ||
        simba__my_conn_init(&self->reader, host, &self->options, &self->sql.reader) < 0)
        return simba__fail(err, SIMBA_ENOMEM, "mysql: out of memory");
    const simba__sql_place place = {"mysql", self->options.where, self->options.table};
    return simba__sql_init(&self->sql, host, &simba__my_dialect, place, &self->writer, &self->reader, err);
}

static void my_fini(void *instance)
{
    store *self = instance;
    simba__sql_fini(&self->sql);
    if (self->has_conns) {
        simba__my_conn_fini(&self->writer);
        simba__my_conn_fini(&self->reader);
    }
    simba__my_options_free(&self->options);
}

static const char *const schemes[] = {SIMBA__SCHEMES_mysql, NULL};

const simba_backend simba__backend_mysql = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = simba__my_keys,
    .instance_size = sizeof(store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE | SIMBA_CAP_PREPARE |
            SIMBA_CAP_NOTE,
    .window = SIMBA__SQL_WINDOW,
    .workers = 2, /* to connect */
    .init = my_init,
    SIMBA__SQL_FUNCTIONS,
    .fini = my_fini,
};
