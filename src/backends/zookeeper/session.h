/* The connection to ZooKeeper, and the session that goes on from one to the next. Drives the library, sends beats,
 * and tells the host how long the session is known to live, which liveness.h finds out. One thread at a time uses
 * libzookeeper_st, in turns. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_SESSION_H
#define SIMBA_BACKENDS_ZOOKEEPER_SESSION_H

#include "backends/zookeeper/liveness.h"
#include "backends/zookeeper/options.h"
#include "backends/zookeeper/wire.h"
#include "net/resolver.h"

typedef struct zk_session zk_session;

/* How a session tells its owner what happens. */
typedef struct zk_session_events {
    void (*connected)(zk_session *session, bool anew); /* requests can be sent; anew: the session before is over */
    void (*disconnected)(zk_session *session);         /* watches tell nothing for a while */
    void (*over)(zk_session *session);                 /* whatever it has made goes, and so do its watches */
    void (*unavailable)(zk_session *session);          /* no server can be reached: `cause` */
    void (*closed)(zk_session *session);               /* nothing is left to be ended */
} zk_session_events;

struct zk_session {
    simba_host *host;
    const zk_options *options;
    const zk_session_events *events;
    zhandle_t *zh; /* NULL: no session yet, or none any more */
    zk_liveness live;
    zk_wire wire;
    simba__resolver resolver;
    simba_timer timer;      /* the library wants to be asked */
    simba_timer beat;       /* so does live */
    bool wanted;            /* somebody has asked for something */
    bool closing;           /* nobody does any more */
    unsigned ending;        /* handles that are being closed */
    unsigned over;          /* sessions that there were before */
    bool anew;              /* and nobody was told yet that there is another */
    size_t addresses;       /* how many there are to be tried */
    unsigned failures;      /* connections lost or not made, since the last that was */
    simba_local rest_until; /* all servers were tried in vain: not again before this */
    unsigned in_vain;       /* connections lost since a beat was answered */
    char cause[128];        /* of the latest */
    char server[64];        /* that we are or were connected to */
    int64_t clock_ms;       /* the server's clock, less ours, as far as is known */
};

/* No node ever has this version. A set that asks for it changes nothing, but most servers have to agree on that, as on any other
 * write. When it is answered, the server has all writes that were agreed on before it was asked. */
#define ZK_NO_SUCH_VERSION INT32_MIN

/* Can requests be sent? */
static inline bool simba__zk_is_connected(const zk_session *session)
{
    return session->live.link == ZK_CONNECTED;
}

/* SIMBA_ENOMEM, or 0. */
int simba__zk_session_init(zk_session *session, simba_host *host, const zk_options *options,
                           const zk_session_events *events);
/* Begin to close: `closed` follows, perhaps before this returns. */
void simba__zk_session_close(zk_session *session);
void simba__zk_session_fini(zk_session *session);

/* Open a session, now or later. */
void simba__zk_session_want(zk_session *session);
/* Calls were made: make sure that they go out, and that their answers are read. */
void simba__zk_session_flush(zk_session *session);
/* The server's clock shows this time. */
void simba__zk_session_clock(zk_session *session, int64_t ms);
int64_t simba__zk_session_now_ms(const zk_session *session);

#endif
