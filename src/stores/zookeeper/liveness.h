/* When is the session known to be alive, and when must a connection be given up? Pure: events and times in, a moment and
 * advice out; no clock, no I/O, no library. On ZooKeeper, S1 rests on this file.
 *
 * The server ends a session when it has not heard of it for the session timeout. We count the same span from signs of life
 * that were answered, from the moment at which they were sent. Only what most servers of the ensemble agreed to counts:
 *
 *   - The handshake that makes a session.
 *   - A beat: a write that changes nothing, because it asks for a version that does not exist. Once a beat is answered, the
 *     handshake of its connection counts too, which only the leader had accepted. The server of the connection tells
 *     the leader about twice per tick which sessions it has heard of. If it dies in between, the leader never learns. So a
 *     beat itself counts only when another one, sent a quarter of the timeout after the answer to the first, has been answered
 *     too: a timeout has at least two ticks, so the server's report went to the leader before that later beat. The quarter
 *     counts from the answer because a slow beat may have come to the server just before it answered, and just after a report.
 *
 * An answer to anything else proves little. A server that has lost its leader goes on answering reads for a while; and a
 * leader that the others have replaced without its knowledge answers a sync, or another handshake, by itself. */
#ifndef SIMBA_STORES_ZOOKEEPER_LIVENESS_H
#define SIMBA_STORES_ZOOKEEPER_LIVENESS_H

#include <simba/backend.h>

enum {
    ZK_BEATS = 11,           /* beats per timeout; three of them take longer than a quarter and a usual answer */
    ZK_BEATS_UNANSWERED = 4, /* at most: the older beats say enough */
};

typedef enum zk_link {
    ZK_APART,      /* no connection */
    ZK_CONNECTING, /* a connection is being made */
    ZK_GREETING,   /* the connection is made, and the server has yet to answer the handshake */
    ZK_CONNECTED,
} zk_link;

typedef enum zk_answer {
    ZK_ANSWER_AGREED,  /* most servers agreed */
    ZK_ANSWER_REFUSED, /* the server has it, and it went no further */
    ZK_ANSWER_LOST,    /* nobody knows whether it came anywhere */
} zk_answer;

typedef enum zk_advice {
    ZK_WAIT,
    ZK_SEND_BEAT,
    ZK_GIVE_UP, /* give this connection up: another one may do better */
} zk_advice;

typedef struct zk_liveness {
    zk_link link;
    bool has_session;              /* some connection has had its handshake answered */
    unsigned connection;           /* how many there have been */
    int64_t timeout_ns;            /* as asked for, and later as granted */
    int64_t connect_ns;            /* how long the last connection took to be made, without the handshake */
    simba_local seen;              /* the time of the latest event */
    simba_local attempt;           /* when the connection, or the attempt at one, began */
    simba_local greeted;           /* when it was made */
    simba_local proven;            /* the session cannot have ended before this and the timeout */
    simba_local beat_at;           /* when the next beat is due */
    simba_local beats[ZK_BEATS];   /* when the latest were sent, on this connection */
    simba_local answers[ZK_BEATS]; /* when their answers came, as far as they have */
    unsigned long long sent, answered;
} zk_liveness;

/* Begin a new session, of `timeout_ms` if the server agrees. Forgets everything. */
void simba__zk_live_begin(zk_liveness *live, int64_t timeout_ms);
/* A connection begins; it is made; its handshake is answered; it is lost, or could not be made. */
void simba__zk_live_attempt(zk_liveness *live, simba_local now);
void simba__zk_live_greet(zk_liveness *live, simba_local now);
void simba__zk_live_connect(zk_liveness *live, simba_local now, int64_t granted_ms);
void simba__zk_live_lose(zk_liveness *live);

/* A beat was sent on this connection. Returns its number; its answer needs that. */
unsigned simba__zk_live_beat(zk_liveness *live, simba_local now);
/* The next unanswered beat of this connection has its answer. True: `proven` may be later than before. */
bool simba__zk_live_answer(zk_liveness *live, simba_local now, unsigned connection, zk_answer answer);

/* What to do now; and when to ask again, at the latest. */
zk_advice simba__zk_live_advise(const zk_liveness *live, simba_local now);
simba_local simba__zk_live_next(const zk_liveness *live);

#endif
