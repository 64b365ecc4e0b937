/* The first packet of a server: is it one that the client library can be given, and does the server offer TLS?
 *
 * The library follows what the packet says without a look at where it ends, so we look before the library reads it. Pure. */
#ifndef SIMBA_STORES_MYSQL_GREETING_H
#define SIMBA_STORES_MYSQL_GREETING_H

#include <stddef.h>

typedef enum simba__my_greeting {
    SIMBA__MY_GREETING_PARTIAL, /* there is more to come before we can tell */
    SIMBA__MY_GREETING_PLAIN,   /* the server does not offer TLS */
    SIMBA__MY_GREETING_TLS,     /* it does */
    SIMBA__MY_GREETING_REFUSAL, /* an error, or an old protocol: the library says which, and sends nothing */
    SIMBA__MY_GREETING_BROKEN,  /* it is no greeting */
} simba__my_greeting;

/* The most that a greeting has, with its header; more is broken. */
enum { SIMBA__MY_GREETING_BYTES = 4 + 1024 };

simba__my_greeting simba__my_greeting_read(const unsigned char *bytes, size_t size);

#endif
