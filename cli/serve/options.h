/* The options of `simba serve`. */
#ifndef SIMBA_CLI_SERVE_OPTIONS_H
#define SIMBA_CLI_SERVE_OPTIONS_H

#include <stdbool.h>

#define SERVE_COMMAND "serve"

typedef struct serve_options {
    const char *listen;    /* "ADDRESS:PORT" */
    const char *token;     /* NULL: none is asked for */
    const char *cert;      /* PEM texts; NULL: no TLS */
    const char *key;       /* of `cert` */
    const char *client_ca; /* a client with a certificate of this CA is let in; NULL: certificates do not count */
    bool allow_release;
} serve_options;

#endif
