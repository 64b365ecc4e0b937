/* Where a server is, and the one parser of the hosts in a store's URL.
 *
 * An authority is a list of HOST[:PORT], separated by commas. A host is a name, an IPv4 address, or an IPv6 address in
 * brackets. */
#ifndef SIMBA_NET_ENDPOINT_H
#define SIMBA_NET_ENDPOINT_H

#include <simba.h>

typedef struct simba__endpoint {
    char host[256];  /* a name or an address without brackets; or the path of a unix socket */
    int port;        /* 1 to 65535; 0 for a unix socket */
    char where[128]; /* "host:port", "[address]:port" or the path, for messages; cut if it is longer */
} simba__endpoint;

/* Parse the whole authority of a URL. `store` begins the sentences of errors ("redis"). Every endpoint without a port gets
 * `port`, and an empty authority is 127.0.0.1. The caller frees *ret_endpoints with simba__free. SIMBA_EURL, SIMBA_ENOMEM. */
int simba__endpoints_parse(const char *store, const char *authority, int port, simba_error *err,
                           simba__endpoint **ret_endpoints, size_t *ret_count);

/* Make an endpoint of a host that need not end with a zero byte. False: the host is empty or too long, or the port is
 * not one. */
bool simba__endpoint_set(simba__endpoint *endpoint, const char *host, size_t length, int64_t port);

/* Make an endpoint of the path of a unix socket. SIMBA_EURL: the path is not absolute, or longer than the system allows. */
int simba__endpoint_set_socket(simba__endpoint *endpoint, const char *store, const char *path, simba_error *err);

bool simba__endpoint_is_same(const simba__endpoint *left, const simba__endpoint *right);

#endif
