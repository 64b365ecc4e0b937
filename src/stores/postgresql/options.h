/* What a PostgreSQL URL says:
 *
 *   postgresql://[user[:password]@][host[:port],…][/database][?key=value&…]
 *
 * "postgres://" is the same. libpq itself completes it: by the service file, by PGHOST and similar variables, by its own
 * defaults. What we set differently, and why:
 *   sslmode               verify-full. A weaker mode must be said; "prefer", which is libpq's own default, in the URL
 *   target_session_attrs  read-write: the store writes
 *   gssencmode            disable: libpq would ask Kerberos, and block
 *   client_encoding       UTF8, always
 *   keepalives            after 10 s of silence, 3 times every 5 s: a connection that waits for notifications says nothing
 * A secret stands in the place of the password, or in a password file: the settings of a URL are shown. */
#ifndef SIMBA_STORES_POSTGRESQL_OPTIONS_H
#define SIMBA_STORES_POSTGRESQL_OPTIONS_H

#include <libpq-fe.h>
#include <simba/backend.h>

#include "net/endpoint.h"

enum { SIMBA__PG_NAME_MAX = 48 };

typedef struct simba__pg_options {
    PQconninfoOption *settings; /* of a connection, all but its host and port */
    simba__endpoint *hosts;     /* one whose name begins with a slash is the folder of a unix socket */
    size_t host_count;
    char schema[SIMBA__PG_NAME_MAX + 1]; /* "": where the server looks first */
    char table[SIMBA__PG_NAME_MAX + 1];
    unsigned connect_timeout_ms; /* for all hosts together */
    bool create;                 /* make the table if there is none */
    char where[160];             /* for messages */
} simba__pg_options;

extern const char *const simba__pg_keys[];

/* May block: it reads files. Free them, also after an error. */
int simba__pg_options_parse(const simba_url *url, simba__pg_options *ret_options, simba_error *err);
void simba__pg_options_free(simba__pg_options *options);

/* The value of one of libpq's settings; "": none. */
const char *simba__pg_option(const simba__pg_options *options, const char *keyword);

#endif
