/* What the tests of the PostgreSQL store share: a server of their own for the whole program, stores opened on it, and a second
 * way to the server, by plain statements. */
#ifndef TESTS_BACKENDS_TEST_POSTGRESQL_H
#define TESTS_BACKENDS_TEST_POSTGRESQL_H

#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/asking.h"
#include "lib/server.h"
#include "stores/postgresql/postgresql.h"
#include "util/clock.h"

static server postgresql;
static char postgresql_url[160];
/* Stores on the same server; as good as processes of their own, since they share nothing else. */
static testhost a;
__attribute__((unused)) static testhost b, c;
static PGconn *raw; /* the second way */

static inline PGconn *connect_raw(const char *user)
{
    char info[128];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=%s dbname=simba", postgresql.port, user);
    PGconn *made = PQconnectdb(info);
    if (PQstatus(made) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(made));
    return made;
}

/* One plain statement; the first row of its result, with blanks between the columns, or how many rows it matched. */
static inline const char *say_on(PGconn *pg, const char *sql)
{
    static _Thread_local char out[4096];
    PGresult *result = PQexec(pg, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    snprintf(out, sizeof out, "%s", PQcmdTuples(result));
    if (PQnfields(result) > 0)
        out[0] = '\0';
    for (int i = 0; PQntuples(result) > 0 && i < PQnfields(result); i++) {
        const size_t length = strlen(out);
        snprintf(out + length, sizeof out - length, "%s%s", i ? " " : "",
                 PQgetisnull(result, 0, i) ? "NULL" : PQgetvalue(result, 0, i));
    }
    PQclear(result);
    return out;
}

#define STORE (&simba__backend_postgresql)
#define STORE_URL postgresql_url
#include "backends/sql_asking.h"

/* How often the server's log has this. Statements are logged before they are carried out. */
static inline unsigned logged(const char *part)
{
    char path[96];
    snprintf(path, sizeof path, "%s/log", postgresql.folder);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *line = NULL;
    size_t size = 0;
    unsigned n = 0;
    while (getline(&line, &size, file) >= 0)
        n += strstr(line, part) != NULL;
    free(line);
    fclose(file);
    return n;
}

/* Batches of the store. */
static inline unsigned decisions(void)
{
    return logged("for update skip locked");
}

static inline simba__sql_hearing hearing_of(const testhost *h)
{
    return ((const simba__sql_store *)h->store)->waiting.hearing;
}

static inline int group_setup(void **state)
{
    static const char *const more[] = {"-c", "log_statement=all", NULL};
    signal(SIGPIPE, SIG_IGN);
    server_init(&postgresql);
    snprintf(postgresql_url, sizeof postgresql_url,
             "postgresql://postgres@127.0.0.1:%d/simba?sslmode=disable&create=yes", postgresql.port);
    if (!server_start_postgresql(&postgresql, more))
        fail_msg("postgres does not start; see %s/log", postgresql.folder);
    raw = connect_raw("postgres");
    return 0;
}

static inline int group_teardown(void **state)
{
    PQfinish(raw);
    server_fini(&postgresql);
    return 0;
}

static inline int setup(void **state)
{
    say("set client_min_messages = error");
    say("drop table if exists simba_mutex, simba_mutex_waiters");
    return 0;
}

#define RUN_POSTGRESQL_TESTS(tests) SERVER_RUN_TESTS("postgres", tests, group_setup, group_teardown)

/* A contender that waits: its acquire is refused, and it enters the queue. */
static inline simba_reply wait_in_line(testhost *h, const char *mutex, const char *id, uint64_t nonce)
{
    testhost_request r = testhost_request_of(h, SIMBA_OP_ACQUIRE, mutex, id, nonce, 0);
    r.request.queue = true;
    testhost_ask(h, &r);
    assert_int_equal(r.request.reply.outcome, SIMBA_NOT_MINE);
    return r.request.reply;
}

#endif
