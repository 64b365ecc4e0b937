/* TLS for a connection: OpenSSL reads from and writes to memory, and never sees the socket. */
#ifndef SIMBA_NET_TLS_H
#define SIMBA_NET_TLS_H

#include <simba/backend.h>

#include "net/buffer.h"

typedef struct simba__tls simba__tls;
typedef struct simba__tls_context simba__tls_context;

/* Files; NULL: none. Without a CA, the system's CAs count. */
typedef struct simba__tls_files {
    const char *ca, *cert, *key;
    bool verify;
} simba__tls_files;

/* What ca=, cert=, key= and verify= of a URL say. The texts are the URL's. `with_tls` names the schemes that have TLS, if that of the URL has
 * none, and is NULL otherwise. SIMBA_EURL. */
int simba__tls_files_of_url(const simba_url *url, const char *with_tls, simba__tls_files *ret_files, simba_error *err);
/* Reads the files. SIMBA_EURL names the bad one; SIMBA_ENOMEM. Free it; NULL is fine. */
int simba__tls_context_new(const simba__tls_files *files, simba_error *err, simba__tls_context **ret_context);
void simba__tls_context_free(simba__tls_context *context);

/* One connection, to a server whose certificate must be for this host. NULL: out of memory. Free it; NULL is fine. */
simba__tls *simba__tls_new(simba__tls_context *context, const char *host);
void simba__tls_free(simba__tls *tls);

/* Bytes came from the socket. False: out of memory. */
bool simba__tls_feed(simba__tls *tls, const char *data, size_t length);
/* Go on with the handshake. 1: it is complete, 0: it needs more bytes, SIMBA_EPERM or SIMBA_EUNAVAILABLE: it failed,
 * and `ret_why` has the cause. */
int simba__tls_handshake(simba__tls *tls, const char **ret_why);
/* Read plain bytes, at most `size`. 0: no more for now, negative: the connection is over. */
int simba__tls_read(simba__tls *tls, char *out, size_t size);
bool simba__tls_write(simba__tls *tls, const char *data, size_t length);
/* Append the bytes that are to go to the socket. */
void simba__tls_take(simba__tls *tls, simba__buffer *wire);

#endif
