/* When is the lease known to live, and what must be asked next? Pure: events and times in, a moment and a question out; no clock, no
 * I/O. On etcd, S1 rests on this file.
 *
 * The server counts the lease from the moment at which it carries out a grant or a keep-alive. The client counts the same span from
 * the moment at which it sent that request, which was earlier. Two kinds of answers prove that the lease lives:
 *
 *   - The answer to the grant: most servers have agreed to it.
 *   - The answer to a keep-alive, once the read that was sent after it has the same Raft term. A keep-alive bypasses Raft: a leader
 *     that the others have deposed without its knowledge confirms one, too. Most servers agree on a linearizable read. If the
 *     term is the same before the keep-alive and after the read, no other leader has been elected in between. */
#ifndef SIMBA_STORES_ETCD_LIVENESS_H
#define SIMBA_STORES_ETCD_LIVENESS_H

#include <simba/backend.h>

enum { ETCD_TTL_MAX_MS = 7 * 24 * 3600 * 1000 };

typedef enum etcd_question {
    ETCD_ASK_NOTHING,
    ETCD_ASK_GRANT,
    ETCD_ASK_ALIVE, /* a keep-alive */
    ETCD_ASK_TERM,  /* the read behind it */
} etcd_question;

typedef struct etcd_liveness {
    bool has_lease; /* a server has granted it */
    bool proved;    /* `proven` means something */
    etcd_question asked;
    int64_t ttl_ms;
    simba_local proven;   /* the lease cannot have ended before this and the TTL */
    simba_local asked_at; /* when the question was sent that has no answer yet */
    simba_local alive_at; /* when the keep-alive was sent whose term is yet to be compared */
    uint64_t term;        /* of the answer to it */
    simba_local next_at;  /* when to ask again */
} etcd_liveness;

/* A lease that nobody has granted yet. Forgets everything. */
void simba__etcd_live_begin(etcd_liveness *live, int64_t ttl_ms, simba_local now);
/* What to ask now; ETCD_ASK_NOTHING while a question is under way. */
etcd_question simba__etcd_live_due(const etcd_liveness *live, simba_local now);
void simba__etcd_live_asked(etcd_liveness *live, etcd_question question, simba_local now);
/* The grant was answered with this TTL; 0: the lease was there already, for how much longer nobody knows. */
void simba__etcd_live_granted(etcd_liveness *live, int64_t ttl_ms, simba_local now);
/* The keep-alive was answered; then the read. True: `proven` is later than before. */
void simba__etcd_live_alive(etcd_liveness *live, int64_t ttl_ms, uint64_t term, simba_local now);
bool simba__etcd_live_term(etcd_liveness *live, uint64_t term, simba_local now);
/* The question was not answered, and never will be: begin anew, as soon as possible or after a pause. */
void simba__etcd_live_unanswered(etcd_liveness *live, simba_local next_at);
/* Ask at once whether the lease lives. */
void simba__etcd_live_hurry(etcd_liveness *live, simba_local now);
/* By the client's clock the lease may have ended: nobody holds anything by it any more. */
bool simba__etcd_live_is_past(const etcd_liveness *live, simba_local now);
/* How long to wait for an answer, or for a connection, before another server may do better. */
int64_t simba__etcd_live_patience_ns(const etcd_liveness *live);
/* When to look at `due` again, at the latest. */
simba_local simba__etcd_live_next(const etcd_liveness *live);

#endif
