/* The connection to ZooKeeper, and the session that goes on from one connection to the next. This module drives the
 * library, sends beats, and tells the host how long the session is known to live, which liveness.h finds out. Threads
 * take turns in libzookeeper_st, one at a time. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_SESSION_H
#define SIMBA_BACKENDS_ZOOKEEPER_SESSION_H

#include "backends/zookeeper/liveness.h"
#include "backends/zookeeper/options.h"
#include "backends/zookeeper/wire.h"
#include "net/resolver.h"

typedef struct zk_session zk_session;

/* How a session tells its owner what happens. */
typedef struct zk_session_events {
    void (*connected)(zk_session *session, bool anew); /* requests can be sent. anew: the session before it is over */
    void (*disconnected)(zk_session *session);         /* watches report nothing for a while */
    void (*over)(zk_session *session);                 /* its nodes and watches are gone */
    void (*unavailable)(zk_session *session);          /* no server can be reached: see `cause` */
    void (*closed)(zk_session *session);               /* nothing is left to end */
} zk_session_events;

struct zk_session {
    simba_host *host;
    const zk_options *options;
    const zk_session_events *events;
    zhandle_t *zh; /* NULL: there is no session yet, or no longer */
    zk_liveness live;
    zk_wire wire;
    simba__resolver resolver;
    simba_timer timer;      /* when to call the library */
    simba_timer beat;       /* when `live` wants to be asked */
    bool wanted;            /* somebody has made a request */
    bool closing;           /* nobody will make another one */
    unsigned ending;        /* how many handles are being closed */
    unsigned over;          /* how many sessions have ended */
    bool anew;              /* there is a new session, and the owner has not been told */
    size_t addresses;       /* how many addresses there are to try */
    unsigned failures;      /* how many attempts at a connection have failed since the last good one */
    simba_local heard;      /* when the server said something last */
    simba_local rest_until; /* all servers were tried in vain: do not try again before this */
    unsigned in_vain;       /* connections lost since a beat was answered */
    char cause[128];        /* of the latest failure */
    char server[64];        /* the server of this connection, or of the last one */
    int64_t clock_ms;       /* the server's clock, less ours, as far as is known */
};

/* No node ever has this version. A set that asks for it changes nothing, but most servers have to agree on that, as on
 * any other write. When the answer comes, the server has all writes that were agreed on before the question. */
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
/* An answer is overdue that somebody has waited for since `since`. If the server has said nothing at all since then, try another. */
void simba__zk_session_doubt(zk_session *session, simba_local since);
/* Calls were made: make sure that the library sends them, and that somebody reads their answers. */
void simba__zk_session_flush(zk_session *session);
/* The server's clock shows this time. */
void simba__zk_session_clock(zk_session *session, int64_t ms);
int64_t simba__zk_session_now_ms(const zk_session *session);

#endif
