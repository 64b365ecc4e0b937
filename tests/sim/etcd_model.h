/* The inside of the model of etcd, for the files that make it up:
 *
 *   etcd_kv.c       keys, revisions, leases, transactions: what most servers have agreed on; who leads by that
 *   etcd_cluster.c  servers, terms and leaders, the ends of leases, what goes wrong
 *   etcd_gate.c     one server and its clients: the JSON gateway, watches
 *   etcd_go.c       contenders of Go's package `concurrency`
 */
#ifndef TESTS_SIM_ETCD_MODEL_H
#define TESTS_SIM_ETCD_MODEL_H

#include "net/json.h"
#include "sim/world.h"

extern const simba_backend simba__backend_etcd;

enum {
    EKV_KEYS = 64,
    EKV_LEASES = 96,
    EKV_NAME = 96,
    EKV_VALUE = 160,
    ETCD_GOES = 2,
    ETCD_PROTOCOL_S =
        1, /* the election timeout, by which a new leader prolongs leases; the least TTL is twice as long */
};

/* EV_SERVER: who. */
enum { ETCD_EV_TICK, ETCD_EV_EXPIRE, ETCD_EV_TASK, ETCD_EV_APPLY, ETCD_EV_GO };

/* --- etcd_kv.c --------------------------------------------------------------------------------------- */

typedef struct ekv {
    char name[EKV_NAME];
    char value[EKV_VALUE];
    size_t length;
    int64_t created, modified, version; /* created 0: there is none */
    int64_t lease;
} ekv;

typedef struct ekv_event {
    bool deleted;
    int64_t at;
    ekv kv; /* of a deleted key: its name and when */
} ekv_event;

typedef struct ekv_lease {
    int64_t id; /* 0: none */
    int64_t ttl_s;
    int64_t expires_at; /* by the leader's clock */
} ekv_lease;

typedef struct ekv_range {
    char from[EKV_NAME], end[EKV_NAME]; /* end "": this key alone; "\1": all from there on */
} ekv_range;

bool ekv_matches(const ekv_range *range, const char *name);
/* Of a request: key and range_end. */
ekv_range ekv_range_of(simba__json request);
void ekv_put(simba__buffer *out, const ekv *kv);
/* Carry out a request, and append the members of its answer behind the header. */
void ekv_get(sim *s, simba__json request, simba__buffer *out);
/* False: it names a lease that there is not. */
bool ekv_txn(sim *s, simba__json request, simba__buffer *out);
ekv_lease *ekv_find_lease(sim *s, int64_t id);
/* NULL: there is one already. */
ekv_lease *ekv_grant(sim *s, int64_t id, int64_t ttl_s);
void ekv_revoke(sim *s, int64_t id);
/* By Go, or by force. */
void ekv_enter(sim *s, const char *name, int64_t lease);
void ekv_delete(sim *s, const char *name);
const ekv *ekv_find(const sim *s, const char *name);
/* The contender that leads a mutex; NULL: there is none. */
const ekv *ekv_first(const sim *s, unsigned mutex);
/* What an etcd must not do: forget what was agreed on after this moment. */
void ekv_forget_since(sim *s, int64_t at);

/* --- etcd_cluster.c ---------------------------------------------------------------------------------- */

typedef struct etcd_server {
    uint32_t boot;
    uint32_t term;       /* as far as it knows */
    bool leads;          /* in its own view */
    int64_t leads_until; /* deposed, it notices by then that nobody follows it */
    size_t applied;      /* of the events */
    int64_t leaderless_since;
    int64_t down_until, frozen_until, isolated_until;
    int64_t sick_until;          /* it answers every request with an error */
    uint32_t with_it;            /* isolated: which processes are on its side, by bit */
    ekv_lease lease[EKV_LEASES]; /* deposed: those that it goes on to confirm */
} etcd_server;

/* A contender in Go. */
typedef struct etcd_go {
    unsigned mutex;
    int64_t lease;       /* 0: none */
    int64_t alive_at;    /* its latest keep-alive */
    int64_t created;     /* its key; 0: none */
    int64_t holds_until; /* its mutex; 0: it does not hold it */
    bool leaves;
} etcd_go;

typedef struct etcd_task etcd_task;

typedef struct etcd_state {
    ekv key[EKV_KEYS];
    ekv_lease lease[EKV_LEASES];
    int64_t revision, compacted;
    ekv_event *event;
    size_t events, event_capacity;
    unsigned servers;
    etcd_server server[SIM_SERVERS];
    unsigned leader; /* SIM_NOBODY: none */
    uint32_t term;
    int64_t lost_at; /* the leader has no majority since then; 0: it has */
    int64_t elect_at;
    uint32_t expire_version;
    etcd_task *task;
    unsigned tasks;
    uint32_t peers; /* connections so far */
    etcd_go go[ETCD_GOES];
} etcd_state;

etcd_state *etcd_of(const sim *s);
bool etcd_runs(const sim *s, unsigned server);
bool etcd_reaches(const sim *s, unsigned a, unsigned b);
/* It reaches a leader that most servers follow. */
bool etcd_can_commit(const sim *s, unsigned server);
/* It has spoken with the leader, and knows the term. */
void etcd_hear_leader(sim *s, unsigned index);
/* Between two servers; much longer if one lags. */
int64_t etcd_hop(sim *s);
/* Something was agreed on: tell the servers. A lease has another end. */
void etcd_agreed(sim *s);
void etcd_plan_expiry(sim *s);

/* --- etcd_gate.c ------------------------------------------------------------------------------------- */

void egate_free(etcd_state *state);
void egate_opened(sim *s, unsigned wire);
void egate_bytes(sim *s, unsigned wire, const char *data, size_t length);
void egate_closed(sim *s, unsigned wire);
void egate_task(sim *s, const sim_event *event);
/* A server applies events up to this one, and its watches hear of them. */
void egate_apply(sim *s, unsigned index, size_t upto);
/* It has had no leader for long: watches that asked for one end. */
void egate_no_leader(sim *s, unsigned server);
void egate_drop_all(sim *s, unsigned server);

/* --- etcd_go.c --------------------------------------------------------------------------------------- */

void ego_begin(sim *s);
void ego_event(sim *s, unsigned index);
void ego_leave(sim *s);
bool ego_is(const sim *s, int64_t lease);

#endif
