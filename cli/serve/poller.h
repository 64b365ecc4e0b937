/* The thread that asks the store. A list is a call that blocks, and no client of `simba serve` should wait for a
 * store that does not answer. The thread looks often while somebody watches and rarely otherwise, and never spends
 * more than a small part of the time on it. It also carries out forced releases. */
#ifndef SIMBA_CLI_SERVE_POLLER_H
#define SIMBA_CLI_SERVE_POLLER_H

#include "look.h"

enum { POLLER_OFTEN_MS = 400, POLLER_RARELY_MS = 5000, POLLER_SHARE = 8 /* of the time, one part */ };

enum { POLLER_ROWS_MAX = 200000 }; /* further rows are left out, and the answer says so */

typedef struct poller poller;

enum { RELEASE_TOKEN_SIZE = 24 };

/* A forced release that somebody waits for. */
typedef struct release_order {
    char mutex[SIMBA_MUTEX_BYTES + 1];
    char token[RELEASE_TOKEN_SIZE]; /* of the grant that is meant; "": whichever is in force */
    /* When it is done: */
    int code; /* SIMBA_ENOTFOUND: nobody owns it; SIMBA_ESTATE: another grant than the one that was meant is in force */
    simba_error error;
    void *user;
} release_order;

/* NULL, with errno: it could not be started. */
poller *poller_start(simba_client *client);
/* Waits for the end of a look in progress. */
void poller_stop(poller *p);

/* Readable when there is something to take. */
int poller_fd(const poller *p);
/* The next look; NULL: there is no new one. The thread looks no further until this one is taken. look_free() it. */
look *poller_take(poller *p);

/* Somebody watches now, or nobody does. */
void poller_watch(poller *p, bool is_watched);

/* Have a mutex released. One at a time: false: there is one already. The order belongs to the caller and must stay until
 * poller_released() returns it; NULL: not yet. */
bool poller_release(poller *p, release_order *order);
release_order *poller_released(poller *p);

#endif
