/* `simba serve`: one thread answers HTTP from a table of the store's mutexes (table.h), another one asks the store
 * (poller.h). No request of an HTTP client reaches the store, except an allowed forced release; and none costs more
 * than a bounded amount of memory: answers are written in pieces, as fast as they are read. */
#ifndef SIMBA_CLI_SERVE_SERVER_H
#define SIMBA_CLI_SERVE_SERVER_H

#include "access.h"
#include "answers.h"
#include "cli.h"
#include "http.h"
#include "poller.h"

#define SERVE_COMMAND "serve"
enum { SERVE_STREAMS = 128 };

typedef struct serve_options {
    const char *listen; /* "ADDRESS:PORT" */
    const char *token;  /* NULL: none is asked for */
    http_tls tls;       /* `cert` NULL: none */
    bool allow_release;
} serve_options;

typedef struct server {
    http_server http; /* first */
    const serve_options *options;
    access_rules rules;
    table table;
    answers about;
    poller *poller;
    int64_t watched_until_ms;
} server;

/* Serve until a signal comes. Returns the exit code. */
int serve_run(cli_globals *globals, const serve_options *options);

/* routes.c: see http_server. */
enum MHD_Result routes_answer(http_connection *c, const char *path, const char *method);

#endif
