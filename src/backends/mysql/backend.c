/* The MySQL store: what backends/sql does for every SQL server, over sessions of this one. */
#include "backends/mysql/dialect.h"
#include "backends/mysql/library.h"
#include "backends/mysql/mysql.h"
#include "backends/sql/store.h"
#include "stores/schemes.h"

typedef struct store {
    simba__sql_store sql; /* first: the functions of the table are its own */
    simba__my_options options;
    simba__my_session sessions[SIMBA__SQL_LANES_MAX];
    unsigned session_count;
} store;

static int my_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    store *self = instance;
    void *conns[SIMBA__SQL_LANES_MAX];
    const int rc = simba__my_options_parse(url, &self->options, err);
    if (rc < 0)
        return rc;
    if (!simba__my_library_start())
        return simba__fail(err, SIMBA_ESYSTEM, "mysql: the client library does not start");
    for (; self->session_count < self->options.connections; self->session_count++) {
        simba__my_conn_init(&self->sessions[self->session_count].conn, host, &self->options);
        conns[self->session_count] = &self->sessions[self->session_count];
    }
    const simba__sql_place place = {"mysql", self->options.where, self->options.table};
    return simba__sql_init(&self->sql, host, &simba__my_dialect, place, conns, self->session_count, err);
}

static void my_fini(void *instance)
{
    store *self = instance;
    simba__my_sigpipe guarded;
    simba__sql_fini(&self->sql);
    simba__my_sigpipe_block(&guarded); /* connections say good-bye */
    for (unsigned i = 0; i < self->session_count; i++)
        simba__my_session_fini(&self->sessions[i]);
    simba__my_sigpipe_restore(&guarded);
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
    .workers = 2,
    .init = my_init,
    SIMBA__SQL_FUNCTIONS,
    .close = simba__sql_close,
    .fini = my_fini,
};
