/* The settings in the URL of a Redis store. See options.c for the URLs. */
#ifndef SIMBA_BACKENDS_REDIS_OPTIONS_H
#define SIMBA_BACKENDS_REDIS_OPTIONS_H

#include <simba/backend.h>

#include "net/endpoint.h"

/* How the servers that it names make up one store. */
typedef enum redis_kind { REDIS_SINGLE, REDIS_SENTINEL, REDIS_CLUSTER } redis_kind;

/* The greeting of a connection. */
typedef struct redis_login {
    char *user, *password; /* NULL: none */
    long db;
    bool to_master; /* connect only to a master */
} redis_login;

typedef struct redis_options {
    redis_kind kind;
    simba__endpoint *endpoints; /* of the URL */
    size_t endpoint_count;
    redis_login login;
    char *service; /* by which sentinels know the master */
    redis_login sentinel_login;
    int64_t connect_timeout_ns; /* until the connection can be used, names and greeting included */
    int64_t timeout_ns;         /* the connection is given up if an answer takes longer */
    long replicas;              /* how many replicas have to acknowledge a grant */
    bool tls, verify;
    char *ca, *cert, *key;
} redis_options;

int simba__redis_options_parse(const simba_url *url, redis_options *ret_options, simba_error *err);
void simba__redis_options_free(redis_options *options);

#endif
