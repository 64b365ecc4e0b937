/* The inside of the model of Redis, for the files that make it up:
 *
 *   redis_keys.c      the data
 *   redis_commands.c  the commands that a script may use
 *   redis_lua.c       runs scripts: the text that ships, by the same Lua as the real server
 *   redis_locks.c     who has a mutex; tells check.c what every script has granted and freed
 *   redis_server.c    a server: its connections, and what is said on them
 *   redis_replicas.c  replicas that get what was written a little later, or much later
 *   redis_failover.c  masters that die or are cut off, replicas that take their place
 *   redis_sentinel.c  sentinels, who hear of that one after the other
 *   redis_cluster.c   slots over several masters, and slots that move
 *   redis_jvm.c       contenders of Simba on the JVM
 *   redis_faults.c    what goes wrong, and the table by which the simulator knows the model
 *
 * Servers are numbered. A single server is number 0; replicas of it cannot be reached. Sentinels are 0 to 2 and the servers
 * that they watch come after them. In a cluster the masters of the beginning come first, then a replica of each.
 */
#ifndef TESTS_SIM_REDIS_MODEL_H
#define TESTS_SIM_REDIS_MODEL_H

#include <stddef.h>

#include "sim/redis_keys.h"
#include "sim/world.h"

struct redisReader;

enum {
    SIM_SCRIPTS = 48,
    SIM_WORDS = 128, /* of a command */
    SIM_TEXT = 256,  /* of an answer */
    SIM_ELEMENTS = 32,
    SIM_CHANNELS = 128, /* of a connection */
    SIM_PAST = 128,
    SIM_JVMS = 2,
    SIM_SENT = 256, /* snapshots that may be under way to a replica */
    SIM_SENTINELS = 3,
    SIM_SHARDS = 3,
    SIM_LOCK_KEYS = 3,         /* that a mutex has */
    SIM_SIDE_OF_SENTINELS = 8, /* sim_server.with_it: the first of them */
};

#define SIM_BY_SHARD '!' /* before the name of a channel */

#define SIM_HEARD_NS (2 * SIM_S) /* by then all have heard of the change */

/* Events of the model itself, EV_SERVER. Each has a number of whom it is about, below 16. */
typedef enum sim_redis_event {
    REDIS_REPLICATE, /* a replica; arg: which snapshot; version: of its link */
    REDIS_WAIT_OVER, /* arg: wire; version: of the connection */
    REDIS_JVM,       /* a contender on the JVM; arg: its action; version: of its plans */
    REDIS_PROMOTE,   /* a shard; version: of its fail-over */
    REDIS_RETURN,    /* a shard; its old master has become a replica; likewise */
    REDIS_SYNC,      /* a replica has everything that its master has; version: of its link */
    REDIS_HEAR,      /* a sentinel, or a server of a cluster, hears who is who */
    REDIS_MOVE_KEY,  /* arg: which; version: of the move */
    REDIS_MOVED,     /* all of a slot; version: of the move */
} sim_redis_event;

/* --- answers ---------------------------------------------------------------------------------------- */

typedef enum sim_answer_kind {
    ANSWER_NIL,
    ANSWER_NUMBER,
    ANSWER_TEXT,
    ANSWER_STATUS,
    ANSWER_ERROR,
    ANSWER_LIST,
    ANSWER_NONE, /* said by itself, or said later */
} sim_answer_kind;

typedef struct sim_element {
    sim_answer_kind kind; /* NIL, NUMBER or TEXT; LIST: of the `number` items that follow */
    int64_t number;
    char text[SIM_TEXT];
} sim_element;

typedef struct sim_answer {
    sim_answer_kind kind;
    unsigned count;
    sim_element item[SIM_ELEMENTS]; /* LIST; all others: the first */
} sim_answer;

void answer_number(sim_answer *answer, int64_t number);
void answer_text(sim_answer *answer, sim_answer_kind kind, const char *text);
/* One more item of a list; NULL: nil. */
void answer_add(sim_answer *answer, const char *text);

/* Bytes of the protocol. */
typedef struct sim_bytes {
    size_t length;
    char data[4096];
} sim_bytes;

void bytes_put(sim_bytes *out, const char *text);
void bytes_put_number(sim_bytes *out, char mark, int64_t number); /* mark: '*', ':' or '$' */
void bytes_put_text(sim_bytes *out, const char *text);
void answer_write(const sim_answer *answer, sim_bytes *out);

/* --- scripts ---------------------------------------------------------------------------------------- */

typedef struct sim_scripts sim_scripts;

sim_scripts *scripts_new(void);
void scripts_free(sim_scripts *scripts);
/* The number of this text, which is compiled when it is first seen. */
unsigned scripts_load(sim_scripts *scripts, const char *text, size_t length);
/* -1: no such script. */
int scripts_find(const sim_scripts *scripts, const char *sha);

/* --- a server --------------------------------------------------------------------------------------- */

/* The view of a server of a cluster, or of a sentinel. */
typedef struct sim_view {
    uint8_t shard[SIM_MUTEXES]; /* of the slot of each mutex */
    uint8_t master[SIM_SHARDS]; /* of each shard */
} sim_view;

typedef struct sim_server {
    sim *s;
    unsigned index;
    sim_keys keys;
    uint32_t loaded; /* scripts, by bit */
    uint32_t writes; /* of a script that runs: whether there were any */
    sim_view view;
    int64_t down_until;
    int64_t frozen_until;
    int64_t hesitates_until; /* CLUSTER: a master that has just come back takes no writes */
    /* Cut off from all other servers; these processes are on its side, and reach nobody else. */
    int64_t apart_until;
    uint32_t with_it;
    /* Replication. All servers number their snapshots in one series. */
    unsigned master;     /* whose replica it is; SIM_NOBODY: it is none */
    uint32_t offset;     /* the snapshot that it has */
    uint32_t must_have;  /* a replica that takes its place has at least that one */
    uint32_t link;       /* version of its link to its master */
    int64_t latest;      /* when the latest snapshot under way arrives */
    int64_t stuck_until; /* nothing arrives before */
    int64_t started_us;  /* by its wall clock */
} sim_server;

/* A master with its replicas. A single server, and all that sentinels watch, is one shard. */
typedef struct sim_shard {
    uint8_t master;
    uint8_t former;   /* the master of before, until it has become a replica */
    bool fails_over;  /* from the failure until then */
    int64_t since;    /* when it failed */
    int64_t told_at;  /* when the old master is told that it is none */
    uint32_t version; /* one per fail-over */
} sim_shard;

/* A slot that moves from one shard to another, one key after the other. */
typedef struct sim_move {
    bool active;
    uint8_t mutex, from, to;
    uint32_t version;
} sim_move;

/* A connection, as the server sees it. */
typedef struct sim_peer {
    struct redisReader *reader;
    uint32_t number;    /* tells it from an earlier one on the same wire */
    uint32_t written;   /* the offset of its latest write */
    unsigned waits_for; /* so many replicas: WAIT; 0: it does not wait */
    bool asking;        /* the next command is for a slot that is on its way here */
    unsigned channels;
    char channel[SIM_CHANNELS][SIM_NAME]; /* those by shard with a SIM_BY_SHARD before the name */
} sim_peer;

/* A contender of Simba on the JVM. */
typedef struct sim_jvm {
    char id[16];
    unsigned mutex;
    uint32_t version; /* of its plans */
    bool alive, holds, waits, leaves;
} sim_jvm;

/* The data before a write. */
typedef struct sim_past {
    int64_t at;
    unsigned server;
    sim_keys keys;
} sim_past;

typedef struct sim_redis_state {
    sim_scripts *scripts;
    sim_server server[SIM_HOSTS];
    unsigned first, servers; /* the servers with data: from the first on, so many */
    unsigned shards;
    sim_shard shard[SIM_SHARDS];
    uint8_t shard_of[SIM_MUTEXES];
    sim_move move;
    sim_past *past;
    unsigned pasts;
    sim_jvm jvm[SIM_JVMS];
    sim_keys *sent; /* snapshots, by number */
    uint32_t latest;
    uint32_t peers; /* connections so far */
} sim_redis_state;

sim_redis_state *redis_state_of(const sim *s);
void redis_plan(sim *s, sim_redis_event kind, unsigned index, int64_t at, uint32_t version, uint32_t arg);
/* Where the mutex really is, whatever anybody believes. */
sim_server *redis_master_of(const sim *s, unsigned mutex);
bool redis_is_away(const sim *s, const sim_server *server);

/* redis_locks.c: run a script, or one that nobody has loaded. */
void locks_run(sim_server *server, unsigned script, int keys, int argc, const char *const *argv,
               sim_answer *ret_answer);
void locks_eval(sim_server *server, const char *text, int keys, int argc, const char *const *argv,
                sim_answer *ret_answer);
/* All data are gone. */
void locks_forget_all(sim_server *server);
/* The data that the server had so many ms ago. */
void locks_forget(sim_server *server, int64_t lost_ms);
void locks_force_release(sim *s, unsigned mutex);
bool locks_owner(const sim *s, unsigned mutex, simba_owner *ret_owner);

/* redis_server.c */
void redis_opened(sim *s, unsigned wire);
void redis_bytes(sim *s, unsigned wire, const char *data, size_t length);
void redis_closed(sim *s, unsigned wire);
void server_say(sim *s, unsigned wire, const sim_answer *answer);
void redis_drop_all(sim *s, const sim_server *server);
/* How many have heard it. */
int64_t server_publish(sim_server *server, const char *channel, const char *text);
int64_t server_spublish(sim_server *server, const char *channel, const char *text);
/* It has given the slot of this mutex away. */
void server_drop_shard(sim_server *server, unsigned mutex);
int64_t server_now_us(const sim_server *server);
/* Three servers in four are of version 7.0, which tells scripts so, has shorter ways for some commands, and sharded pub/sub. */
bool server_is_modern(const sim *s);
/* Go on with the connections that wait for replicas. */
void server_look_at_waits(sim *s);
void server_wait_over(sim *s, const sim_event *event);

/* redis_replicas.c: something was written; how many have what was; follow somebody; events of replication. */
void replicas_begin(sim *s);
void replicas_feed(sim_server *server);
unsigned replicas_with(const sim_server *master, uint32_t written);
void replicas_follow(sim *s, sim_server *replica, const sim_server *master, int64_t after_ns);
/* Nothing that its master has sent arrives any more. */
void replicas_unlink(sim_server *replica);
/* False: it has not got enough to take its master's place. */
bool replicas_can_follow_up(const sim_server *replica, const sim_server *master);
/* The replica gets the data that it needs to take the master's place. */
void replicas_catch_up(sim_server *replica, const sim_server *master);
void replicas_stick(sim *s, int64_t until);
void replicas_event(sim *s, const sim_event *event);
void replicas_sync(sim *s, const sim_event *event);

/* redis_failover.c: of the shard with that index. */
void failover_begin(sim *s, unsigned index, const sim_item *item, int64_t until);
void failover_promote(sim *s, const sim_event *event);
void failover_return(sim *s, const sim_event *event);
void failover_heal(sim *s);
/* A single server whose address moves to a replica. */
void failover_of_single(sim *s);

/* redis_views.c: all hear who is who: these at once, the others one after the other. */
void views_begin(sim *s);
void views_spread(sim *s, uint32_t at_once);
void views_event(sim *s, const sim_event *event);
void views_heal(sim *s);
/* Until when the two cannot reach each other. */
int64_t views_cut_until(const sim *s, unsigned process, unsigned server);

/* redis_sentinel.c */
bool sentinel_is(const sim *s, unsigned server);
void sentinel_answer(const sim_server *sentinel, int argc, const char *const *argv, sim_answer *ret_answer);
void sentinel_tell(sim_server *sentinel, unsigned former, unsigned master);

/* redis_cluster.c */
/* False: the command is not for this server, and the answer says so. */
bool cluster_admits(const sim_server *server, sim_peer *peer, int keys, const char *const *key, sim_answer *ret_answer);
void cluster_slots(const sim_server *server, sim_bytes *out);
void cluster_move(sim *s, unsigned mutex, int64_t until);
void cluster_move_key(sim *s, const sim_event *event);
void cluster_moved(sim *s, const sim_event *event);
void cluster_finish_move(sim *s);

/* redis_jvm.c */
void jvms_begin(sim *s);
void jvms_leave(sim *s);
bool jvms_hear(sim *s, const char *channel);
void jvms_event(sim *s, const sim_event *event);

/* A command on data. False: there is no such command. */
bool commands_run(sim_server *server, int argc, const char *const *argv, sim_answer *ret_answer);
/* Run it on the server's data. */
void scripts_run(sim_scripts *scripts, sim_server *server, unsigned script, int keys, int argc, const char *const *argv,
                 sim_answer *ret_answer);

#endif
