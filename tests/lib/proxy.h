/* A network that a test can break: a TCP proxy in a thread of the test's own, between one client and one server. */
#ifndef TESTS_LIB_PROXY_H
#define TESTS_LIB_PROXY_H

#include <pthread.h>

typedef enum proxy_mode {
    PROXY_PASS,
    PROXY_FREEZE, /* connections stay, and new ones are accepted, but no byte passes in either direction */
    PROXY_DEAF,   /* requests of the client pass, answers do not */
    PROXY_CUT,    /* connections are closed, new ones too */
    PROXY_LOSS, /* every packet gets lost: the client's kernel repeats them, in pauses that grow, also those to connect */
} proxy_mode;

enum { PROXY_LINKS = 64 };

typedef struct proxy {
    int port; /* where clients connect to */
    int target;
    int listener;
    int wakeup[2];
    pthread_t thread;
    pthread_mutex_t lock;
    proxy_mode mode;
    unsigned accepted;
    int quit;
    int links[PROXY_LINKS][2]; /* client, server; -1: unused */
} proxy;

/* Aborts if the system refuses. `target` is a port of this host. */
void proxy_start(proxy *p, int target);
/* When this returns, the new mode holds. Frozen bytes pass after a thaw. */
void proxy_set(proxy *p, proxy_mode mode);
/* How many connections there were so far. */
unsigned proxy_accepted(proxy *p);
void proxy_stop(proxy *p);

#endif
