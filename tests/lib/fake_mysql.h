/* A server that speaks MySQL's protocol as a hostile or broken one might: how it greets, how slowly, how it wants the client to
 * authenticate, and what it twists in its answers (mysql_speech.h). It serves one connection after the other on a thread of its
 * own, and keeps everything that clients have sent. */
#ifndef TESTS_LIB_FAKE_MYSQL_H
#define TESTS_LIB_FAKE_MYSQL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/fake.h"
#include "lib/mysql_speech.h"

typedef struct fake_mysql {
    /* How it behaves; set before fake_mysql_start. */
    bool offers_tls;      /* it says that it can do TLS; it cannot */
    const char *plugin;   /* of the greeting; NULL: mysql_native_password */
    const char *switches; /* it answers the login by asking for this plugin; NULL: it hangs up */
    const char *question; /* the data of that request; NULL: a scramble */
    const char *then;     /* its next packet, after the client's answer; NULL: it hangs up */
    int drip_ms;          /* the pause between two bytes of the greeting; 0: it comes at once */
    bool floods;          /* it accepts any login, and answers the first statement with a packet of a gigabyte */
    bool lets_in;         /* it accepts any login, and drips the answer to the first statement */
    const void *hello;    /* a greeting of `hello_size` bytes in place of the usual one; then the server hangs up */
    size_t hello_size;
    const mysql_twist *twist; /* it accepts any login, and answers all statements with this twist; NULL: it hangs up */

    int port;
    int listener;
    pthread_t thread;
    atomic_bool stops;
    atomic_size_t flooded;  /* how many bytes of the flood went out */
    atomic_int connections; /* how many have come */
    fake_ear ear;           /* still good after the stop */
    size_t last_size;       /* of the latest packet */
} fake_mysql;

void fake_mysql_start(fake_mysql *fake);
void fake_mysql_stop(fake_mysql *fake);
#endif
