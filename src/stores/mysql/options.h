/* What a MySQL URL says:
 *
 *   mysql://[user[:password]@]host[:port]/database[?table=NAME][&create=yes]…
 *   mysql://[user[:password]@]/database?socket=/path/to.sock
 *
 * "mariadb://" is the same. A host is always reached by TCP, "localhost" too: the client library would make a socket file
 * of that name, and nobody could say which one. */
#ifndef SIMBA_STORES_MYSQL_OPTIONS_H
#define SIMBA_STORES_MYSQL_OPTIONS_H

#include <simba/backend.h>

typedef struct simba__my_options {
    char *host;   /* NULL: a socket file */
    char *socket; /* its path */
    unsigned port;
    char *user, *password;
    char *database;
    char *table;
    unsigned connect_timeout_ms; /* for the whole of it, from the first packet until we are logged in */
    unsigned timeout_ms;         /* a connection that owes an answer and is silent for longer is given up */
    bool create;                 /* make the table if there is none */
    bool tls, verify;
    char *public_key; /* of the server, for caching_sha2_password: a file */
    char *ca, *capath, *cert, *key, *cipher, *tls_version, *fingerprint;
    char where[160]; /* for messages */
} simba__my_options;

extern const char *const simba__my_keys[];

int simba__my_options_parse(const simba_url *url, simba__my_options *ret_options, simba_error *err);
void simba__my_options_free(simba__my_options *options);

#endif
