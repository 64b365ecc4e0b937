/* `simba serve`: one thread answers HTTP out of a table of what the store has (table.h), another one asks the store
 * (looker.h). Nothing that a client of HTTP does reaches the store, but for a forced release where that is allowed; and
 * nothing that it does costs more than a bounded amount of memory: answers are written as fast as they are read, in pieces. */
#ifndef SIMBA_CLI_SERVE_H
#define SIMBA_CLI_SERVE_H

#include <netinet/in.h>

#include "cli.h"
#include "looker.h"
#include "table.h"

#define SERVE_COMMAND "serve"

typedef struct serve_options {
    const char *listen;    /* "ADDRESS:PORT" */
    const char *token;     /* NULL: none is asked for */
    const char *cert;      /* PEM texts; NULL: no TLS */
    const char *key;       /* of `cert` */
    const char *client_ca; /* whoever has a certificate of it may; NULL: nobody by that */
    bool allow_release;
} serve_options;

typedef struct server server;

/* Serve until a signal comes. Returns the exit code. */
int serve_run(cli_globals *globals, const serve_options *options);

/* --- where to listen: listen.c ------------------------------------------------------------------------- */

typedef struct listener {
    int fd;
    bool is_loopback;
    char url[96]; /* for people: http://127.0.0.1:7460/ */
} listener;

/* Bind a socket. Returns CLI_GO, or an exit code after having said what is wrong. */
int listener_open(const serve_options *options, listener *ret_listener);

/* --- the page: page.c -------------------------------------------------------------------------------- */

typedef struct page_file {
    const char *path;
    const char *type;
    const unsigned char *start, *end;
} page_file;

/* NULL: there is no such file. */
const page_file *page_find(const char *path);

#endif
