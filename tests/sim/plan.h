/* A scenario: who contends, over what kind of store, and what goes wrong when. The seed determines all of it before
 * the run begins, as a list, so that a failing run can be replayed with parts of the list left out. */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

#include <simba/backend.h>

#include "sim/clock.h"

enum {
    SIM_PROCESSES = 5,
    SIM_MUTEXES = 3,
    SIM_CONTENDERS = 12,
    SIM_APPS = 4,
    SIM_OBSERVERS = 2,
    SIM_ITEMS = 64,
};

typedef enum sim_store_kind {
    SIM_STORE_PUSH,       /* a lease store that pushes, as Redis, SQLite and memory:// do */
    SIM_STORE_POLL,       /* a lease store that has to be asked, as MySQL */
    SIM_STORE_SESSION,    /* leases are sessions, as in ZooKeeper */
    SIM_STORE_REDIS,      /* the code of the Redis store itself, against a model server */
    SIM_STORE_ZOOKEEPER,  /* that of the ZooKeeper store, and the client library, against a model ensemble */
    SIM_STORE_SQL,        /* what the SQL stores share, src/stores/sql, against a model of MySQL */
    SIM_STORE_POSTGRESQL, /* the same against a model of PostgreSQL, which notifies */
    SIM_STORE_ETCD,       /* the code of the etcd store, against a model of its servers */
    SIM_STORE_KUBERNETES, /* that of the Kubernetes store, against a model of two API servers */
    SIM_STORES,
} sim_store_kind;

static inline bool sim_is_sql(sim_store_kind store)
{
    return store == SIM_STORE_SQL || store == SIM_STORE_POSTGRESQL;
}

/* Its servers agree on a log, and each talks to clients. */
static inline bool sim_is_ensemble(sim_store_kind store)
{
    return store == SIM_STORE_ZOOKEEPER || store == SIM_STORE_ETCD;
}

/* How the servers of Redis belong together. */
typedef enum sim_topology { SIM_SINGLE, SIM_SENTINEL, SIM_CLUSTER, SIM_TOPOLOGIES } sim_topology;

/* Which of the assumptions that the promises rest on does not hold. */
typedef enum sim_broken {
    SIM_SOUND,
    SIM_BROKEN_DRIFT,       /* clocks drift apart by more than the bound */
    SIM_BROKEN_LOST_WRITES, /* a store forgets acknowledged writes at a fail-over */
    SIM_BROKEN_KINDS,
} sim_broken;

#define SIM_ITEM_KINDS(X)                                                                                              \
    X(START, "start")                  /* who: contender */                                                            \
    X(STOP, "stop")                    /* who: contender */                                                            \
    X(STOP_INSIDE, "stop-in-callback") /* who: contender; the next callback calls stop */                              \
    X(SLOW, "slow-callback")           /* who: contender; its callbacks take `for`, from now on for a while */         \
    X(OBSERVE, "observe")              /* who: process; arg: mutex */                                                  \
    X(PAUSE, "pause")                  /* who: process */                                                              \
    X(STALL, "stall")                 /* who: process; between reading the clock and acting on it, in its next step */ \
    X(KILL, "kill")                   /* who: process; restarted with the same ids after `for`, never if that is 0 */  \
    X(RATE, "clock-rate")             /* who: process; arg: ppm */                                                     \
    X(JUMP, "clock-jump")             /* who: process; arg: ms forward, as after a machine has slept */                \
    X(STORE_RATE, "store-clock-rate") /* arg: ppm */                                                                   \
    X(STORE_EPOCH, "store-wall-clock")   /* arg: ms that it jumps */                                                   \
    X(LOSE, "lose")                      /* who: process; arg: per mille of messages lost, either way */               \
    X(DELAY, "delay")                    /* who: process; arg: ms at most, either way; reorders */                     \
    X(REPEAT, "repeat")                  /* who: process; arg: per mille of messages that come twice */                \
    X(CUT, "cut")                        /* who: process; arg: 1 requests, 2 answers and pushes, 3 both */             \
    X(UNSUBSCRIBE, "lose-subscriptions") /* who: process; it takes `for` to notice */                                  \
    X(FREEZE, "freeze-store")                                                                                          \
    X(RESTART, "restart-store")                                                                                        \
    X(FAIL_OVER, "fail-over")   /* arg: ms of acknowledged writes that are lost */                                     \
    X(FORCE, "force-release")   /* arg: mutex */                                                                       \
    X(SLOW_STORE, "slow-store") /* SQL; arg: ms that a statement takes, at most */                                     \
    X(LOCK_ROW, "lock-row")     /* SQL; arg: mutex, whose row somebody else locks */                                   \
    X(MOVE_SLOT, "move-slot")   /* REDIS; arg: mutex, whose slot moves to other servers */

typedef enum sim_item_kind {
#define SIM_ITEM_ENUM(name, text) SIM_ITEM_##name,
    SIM_ITEM_KINDS(SIM_ITEM_ENUM)
#undef SIM_ITEM_ENUM
} sim_item_kind;

const char *sim_item_name(sim_item_kind kind);
const char *sim_store_name(sim_store_kind store);
const char *sim_topology_name(sim_topology topology);

typedef struct sim_item {
    int64_t at_ns;
    int64_t for_ns;
    int64_t arg;
    uint8_t kind;
    uint8_t who;
} sim_item;

typedef struct sim_contender_plan {
    char id[16];
    uint8_t process;
    uint8_t mutex;
    bool locker;
    bool try_once;
} sim_contender_plan;

typedef struct sim_plan {
    uint64_t seed;
    sim_store_kind store;
    sim_broken broken;
    bool queue;        /* PUSH: waiters queue, and one of them is invited; otherwise all are told */
    bool watch_free;   /* holders watch too */
    bool notes;        /* applications write and read them */
    bool password;     /* ZOOKEEPER: clients have one, and a server may refuse it */
    bool tell_servers; /* in the event log, as comments */
    unsigned servers;  /* SENTINEL: replicas, if none has to confirm; CLUSTER: masters; ZOOKEEPER, ETCD: all */
    unsigned window;   /* models: of the client; 0: the usual one */
    int64_t latency_ns;
    int64_t poll_ns;
    int64_t session_ns;
    sim_topology topology;
    unsigned jvms;    /* REDIS, SQL: contenders on the JVM; ETCD, KUBERNETES: in Go */
    int64_t replicas; /* REDIS: that have to confirm */
    bool forgets;     /* REDIS: a server that restarts has kept nothing */
    int64_t ticks;    /* ZOOKEEPER: of the server, in a session's timeout */
    simba_timing timing;
    int64_t horizon_ns; /* everything is healed then */
    unsigned processes;
    unsigned mutexes;
    unsigned contenders;
    unsigned slots; /* 0: no; otherwise each application has a turnstile and so many slots, see slots.c */
    unsigned items;
    int64_t ppm[SIM_PROCESSES];
    int64_t offset_ns[SIM_PROCESSES];
    int64_t store_ppm;
    sim_contender_plan contender[SIM_CONTENDERS];
    sim_item item[SIM_ITEMS];
} sim_plan;

void sim_plan_draw(sim_plan *plan, uint64_t seed, sim_store_kind store, sim_broken broken);

/* A scenario that no seed determines, for docs/safety.md: "fail-over" or "outage". False: there is no such scenario. */
bool sim_plan_scenario(sim_plan *plan, const char *name);

/* One line about the whole, and one per item, as a person would tell it. */
void sim_plan_print(const sim_plan *plan, void *file);

#endif
