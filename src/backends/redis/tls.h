/* TLS for a connection: OpenSSL reads from and writes to memory, and never sees the socket. */
#ifndef SIMBA_BACKENDS_REDIS_TLS_H
#define SIMBA_BACKENDS_REDIS_TLS_H

#include "backends/redis/buffer.h"
#include "backends/redis/options.h"

typedef struct redis_tls redis_tls;
typedef struct redis_tls_context redis_tls_context;

/* Reads the files that the options name. SIMBA_EURL names the one that is no good; SIMBA_ENOMEM. Free it; NULL is fine. */
int simba__redis_tls_context_new(const redis_options *options, simba_error *err, redis_tls_context **ret_context);
void simba__redis_tls_context_free(redis_tls_context *context);

/* One connection, to a server whose certificate has to be for this host. NULL: out of memory. Free it; NULL is fine. */
redis_tls *simba__redis_tls_new(redis_tls_context *context, const char *host);
void simba__redis_tls_free(redis_tls *tls);

/* Bytes came from the socket. False: out of memory. */
bool simba__redis_tls_feed(redis_tls *tls, const char *data, size_t length);
/* Go on with the handshake. 1: it is over, 0: more bytes are needed, SIMBA_EPERM or SIMBA_EUNAVAILABLE: it failed, and
 * `ret_why` has the cause. */
int simba__redis_tls_handshake(redis_tls *tls, const char **ret_why);
/* Plain bytes, at most `size`. 0: no more for now, negative: the connection is over. */
int simba__redis_tls_read(redis_tls *tls, char *out, size_t size);
bool simba__redis_tls_write(redis_tls *tls, const char *data, size_t length);
/* Append what is to go to the socket. */
void simba__redis_tls_take(redis_tls *tls, redis_buffer *wire);

#endif
