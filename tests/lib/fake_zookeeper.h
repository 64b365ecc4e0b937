/* A ZooKeeper server that a test plays: it knows enough of the protocol for one client that locks and lists, and
 * gives the odd answers that the test wants. */
#ifndef TESTS_LIB_FAKE_ZOOKEEPER_H
#define TESTS_LIB_FAKE_ZOOKEEPER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/fake.h"
#include "lib/zookeeper_speech.h"

typedef enum fake_manner {
    FAKE_REPLY,   /* the header of a good reply, and the body */
    FAKE_EVENT,   /* before the proper reply: the header of a watch event, and the body */
    FAKE_UNASKED, /* before the proper reply: a reply to a request that nobody has made */
    FAKE_RAW,     /* the body alone, without a length before it */
    FAKE_SILENCE, /* nothing */
    FAKE_MUTE,    /* nothing, and on this connection nothing to any later request but pings */
} fake_manner;

typedef struct fake_odd {
    int request; /* the kind of request that gets an odd answer */
    fake_manner manner;
    const char *body;
    size_t size;
    int32_t length; /* the length that the frame claims to have; 0: the truth */
    bool endless;   /* repeat it until the client goes */

    /* The answer to the handshake. */
    int32_t timeout_ms; /* 0: 10 s; FAKE_NO_TIMEOUT: 0 */
    bool read_only;
} fake_odd;

enum { FAKE_NO_TIMEOUT = -2 };

typedef struct fake_zookeeper {
    int port;
    int listener, client;
    fake_odd odd;
    unsigned made; /* children */
    int64_t seen;  /* the latest transaction that the client has seen, as its latest handshake said */
    bool mute;
    pthread_t thread;
} fake_zookeeper;

/* Aborts if the system refuses. */
void fake_zookeeper_start(fake_zookeeper *fake, fake_odd odd);
void fake_zookeeper_stop(fake_zookeeper *fake);

#endif
