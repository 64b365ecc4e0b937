/* Redis, Valkey and servers that speak like them, as a store: what its files share. redis.c tells the story.
 *
 *   redis.c      what is stored; the table of functions; what requests say, and what becomes of their answers
 *   lua/         the scripts, embedded by cmake/SimbaScripts.cmake: everything that decides who has a mutex
 *   commands.c   a server's connection for requests: sending, answers in their order, replicas, silence
 *   push.c       a server's connection for pushes: subscriptions, and what is heard
 *   waiters.c    who is listened for, and what to do about a message; pure
 *   conn.c       one connection: greeting, replies within bounds; a question to several servers
 *   reply.c      what an answer or a refusal means
 *   cluster.c    which server has a mutex      sentinel.c   which server is the master
 *   admin.c      LIST, EXAMINE, PREPARE: walks over all servers      options.c   what the URL says
 *
 * Everything runs under the lock of the client, on any thread that has something to ask or to read. Only the parser of
 * hiredis is used. */
#ifndef SIMBA_STORES_REDIS_H
#define SIMBA_STORES_REDIS_H

#include <hiredis/hiredis.h>
#include <simba/backend.h>

#include "net/endpoint.h"
#include "net/link.h"
#include "util/list.h"
#include "util/table.h"

extern const simba_backend simba__backend_redis;

/* --- options.c ---------------------------------------------------------------------------------------- */

/* How the servers that a URL names make up one store. */
typedef enum redis_kind { REDIS_SINGLE, REDIS_SENTINEL, REDIS_CLUSTER } redis_kind;

/* The greeting of a connection. */
typedef struct redis_login {
    char *user, *password; /* NULL: none */
    long db;
    bool to_master; /* connect only to a master */
} redis_login;

typedef struct redis_options {
    redis_kind kind;
    simba__endpoint *endpoints; /* of the URL */
    size_t endpoint_count;
    redis_login login;
    char *service; /* by which sentinels know the master */
    redis_login sentinel_login;
    int64_t connect_timeout_ns; /* until the connection can be used, names and greeting included */
    int64_t timeout_ns;         /* the connection is given up if an answer takes longer */
    long replicas;              /* how many replicas must acknowledge a grant */
    bool restart_wait;          /* a server that has just started grants nothing new for one lease */
    bool tls;
    simba__tls_files files; /* the texts are the URL's */
} redis_options;

int simba__redis_options_parse(const simba_url *url, redis_options *ret_options, simba_error *err);
void simba__redis_options_free(redis_options *options);

/* --- conn.c ------------------------------------------------------------------------------------------- */

typedef struct redis_reader redis_reader;

/* NULL: out of memory. */
redis_reader *simba__redis_reader_new(void);
void simba__redis_reader_free(redis_reader *reader); /* NULL is fine */
/* SIMBA_ECORRUPT: the reply is larger than any answer to our commands. SIMBA_ENOMEM. Do not use the reader after an
 * error. */
int simba__redis_reader_feed(redis_reader *reader, const char *data, size_t length);
/* The next whole reply, which the caller frees with freeReplyObject; NULL: none has come yet. SIMBA_ECORRUPT: the bytes
 * are not Redis's protocol, or the reply has too many elements. */
int simba__redis_reader_next(redis_reader *reader, redisReply **ret_reply);

/* Write a command. */
void simba__redis_put_count(simba__buffer *out, size_t words);
void simba__redis_put_bytes(simba__buffer *out, const void *bytes, size_t size);
void simba__redis_put_word(simba__buffer *out, const char *word);
void simba__redis_put(simba__buffer *out, size_t words, const char *const *word);

typedef struct redis_conn redis_conn;

/* What all connections of a store share. */
typedef struct redis_conns {
    simba__links links;
    const redis_options *options;
} redis_conns;

/* How a connection tells its owner what happens; see net/link.h. `up`: the server has taken the greeting. */
typedef struct redis_conn_events {
    void (*up)(redis_conn *conn);
    void (*answer)(redis_conn *conn, const redisReply *reply);
    void (*down)(redis_conn *conn);
    void (*tick)(redis_conn *conn, simba_local now);
} redis_conn_events;

struct redis_conn {
    simba__link link;
    const redis_options *options;
    const redis_login *login;
    const redis_conn_events *events;
    void *owner;
    void (*find)(redis_conn *conn); /* find where to connect. NULL: link.at is right */
    bool informs;                   /* ask how old the server is, and of which version */
    bool listens;                   /* the server speaks unasked; after a long silence we ping it. There is no tick */
    bool pinged;                    /* we have sent that ping */
    redis_reader *reader;           /* from the time that the connection is up */
    unsigned greeting;              /* answers to the greeting that are still to come */
    /* What INFO said at the beginning. */
    bool has_shards;           /* version 7.0 or later: knows sharded pub/sub */
    bool uninformed;           /* INFO was refused */
    int64_t uptime_s, time_ms; /* then, by the server's clock */
};

int simba__redis_conn_init(redis_conn *conn, redis_conns *all, const redis_conn_events *events, void *owner);
/* Is it connected, and has the server taken the greeting? */
bool simba__redis_conn_ready(const redis_conn *conn);
/* The server answered with this error: give the connection up. */
void simba__redis_conn_refused(redis_conn *conn, const char *text);
void simba__redis_conn_close(redis_conn *conn);
void simba__redis_conn_fini(redis_conn *conn);

/* A question to several servers, one after the other, until one gives a usable answer. */
typedef struct redis_discovery redis_discovery;
struct redis_discovery {
    redis_conn conn;
    void *owner;
    const char *question[3]; /* a command of `words` words */
    size_t words;
    /* Take an answer. False: it is unusable, and `why` says why. */
    bool (*take)(redis_discovery *discovery, const redisReply *reply, char *why, size_t size);
    /* The discovery is over. `error` is NULL if `take` has accepted an answer. */
    void (*over)(redis_discovery *discovery, const simba_error *error);

    bool running;
    const simba__endpoint *candidates; /* the caller keeps them while the discovery runs */
    size_t count, first, asked;
    size_t most;       /* how many of them it asks this time */
    simba_local until; /* when it gives up on the current server */
    simba_error error;
};

int simba__redis_discovery_init(redis_discovery *discovery, redis_conns *conns, const redis_login *login);
/* `over` follows, now or later, at most one connect-timeout from now for all candidates together. */
void simba__redis_discovery_start(redis_discovery *discovery, const simba__endpoint *candidates, size_t count);
void simba__redis_discovery_close(redis_discovery *discovery);
void simba__redis_discovery_fini(redis_discovery *discovery);

/* --- reply.c ------------------------------------------------------------------------------------------ */

bool simba__redis_is_text(const redisReply *reply); /* a string or a status */
/* Is this the first word of an error, also of one from inside a script? */
bool simba__redis_says(const char *error, const char *word);
/* Read an error reply: one of our codes, and a text that holds nothing that the server could have repeated from a password.
 * `ret_drop`: give this connection up. */
int simba__redis_error(const simba__endpoint *at, const char *text, simba_error *ret_error, bool *ret_drop);
/* The outcome of a script of a server that is too young to grant, besides those of simba_outcome. */
enum { REDIS_TOO_YOUNG = 3 };
/* Parse the answer of a script to this request. Returns the outcome; negative: it is no such answer. */
int simba__redis_parse(const redisReply *reply, const simba_request *request, simba_reply *ret_reply);

/* The answer of read.lua. */
typedef struct redis_row {
    simba_reply reply;
    int64_t waiters;
    const char *next; /* NULL: nobody waits, or the id is longer than an id can be */
    simba_stored_note note;
} redis_row;

/* SIMBA_ECORRUPT: the note, or the owner's id, cannot be read; the rest is good. SIMBA_ESTORE: it is no such answer. */
int simba__redis_parse_row(const redisReply *reply, redis_row *ret_row);
/* The value of a line "name:value" of INFO, "" if there is none. Returns `text`. */
const char *simba__redis_info(const char *info, const char *name, char *text, size_t size);

/* --- lua/ --------------------------------------------------------------------------------------------- */

typedef enum redis_script {
    REDIS_ACQUIRE,
    REDIS_RENEW,
    REDIS_RELEASE,
    REDIS_FORCE,
    REDIS_READ,
    REDIS_NOTE,
    REDIS_FORGET,
    REDIS_UPGRADE,
    REDIS_SCRIPTS,
} redis_script;

/* Made from lua/NAME.lua at build time, in the order of redis_script. */
typedef struct redis_script_text {
    const char *name;
    const char *sha; /* 40 hexadecimal digits */
    const char *text;
} redis_script_text;
extern const redis_script_text simba__redis_scripts[REDIS_SCRIPTS];

enum { REDIS_KEYS_MOST = 4, REDIS_KEY_SIZE = SIMBA_MUTEX_BYTES + 32 };
/* The names of the keys that a script gets, in their order. Returns how many. */
size_t simba__redis_keys(redis_script script, const char *mutex, char ret_keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE]);

/* --- commands.c --------------------------------------------------------------------------------------- */

typedef struct redis_node redis_node;
typedef struct redis_store redis_store;
typedef struct redis_call redis_call;

typedef enum redis_stage {
    REDIS_IN_HAND, /* the function that runs at this moment has it */
    REDIS_WAITING, /* the next flush of a connection that is ready sends it */
    REDIS_SENT,    /* the server owes the answer */
    REDIS_HELD,    /* it has its answer; the replicas have not confirmed it yet */
} redis_stage;

/* A command in flight. */
struct redis_call {
    simba__list_item item;                             /* in the list of its stage; in none while it is IN_HAND */
    redis_node *node;                                  /* the server that has it */
    simba_request *request;                            /* what a script is run for; NULL: another command */
    void (*put)(redis_call *call, simba__buffer *out); /* write it; may run again if a server sends it on */
    /* It is over, and the call is IN_HAND. `reply`: the answer, no error. `error`: it failed. Neither: it was held, and the
     * replicas confirm it. */
    void (*over)(redis_call *call, const redisReply *reply, const simba_error *error);
    void *user;
    simba_local sent_at;
    uint64_t answers; /* how many had come when it was sent */
    redis_stage stage;
    unsigned hops; /* how often a server sent it on to another one */
    bool by_text;  /* the server did not know the script: send all of it */
    bool asking;   /* the server does not have its slot yet, so ASKING goes first */
    bool expired;  /* its time is over, and nobody waits for the answer */
    char hears;    /* ACQUIRE: what it said, see lua/acquire.lua */
};

/* A server: a connection for requests and one for pushes, each made when it is first needed. */
struct redis_node {
    redis_node *next;
    redis_store *store;
    bool serves; /* it has mutexes, as far as we know */
    redis_conn commands, pushes;
    simba__list waiting, sent, held; /* calls, by their stage */
    uint64_t answers;                /* how many have come so far, on any connection */
    bool stuck;                      /* the connection is about to be given up */
    bool short_of_replicas;          /* too few replicas confirmed something, and enough have confirmed nothing since */
    char young[192];                 /* why it grants nothing now, once it was asked */
};

/* A new call, IN_HAND. NULL: out of memory. */
redis_call *simba__redis_call_new(simba_request *request, void (*put)(redis_call *call, simba__buffer *out),
                                  void (*over)(redis_call *call, const redisReply *reply, const simba_error *error),
                                  void *user);
/* The next flush sends the call. */
void simba__redis_call_submit(redis_node *node, redis_call *call);
/* The time of its request is over: fail it now if it was not sent, or else when its answer comes. */
void simba__redis_call_expire(redis_call *call);
/* Until the replicas confirm what was written. */
void simba__redis_call_hold(redis_call *call);
void simba__redis_call_fail(redis_call *call, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void simba__redis_call_free(redis_call *call);

redis_node *simba__redis_node_new(redis_store *store, const simba__endpoint *at); /* NULL: out of memory */
void simba__redis_node_flush(redis_node *node);
/* Close both connections, and fail the calls. */
void simba__redis_node_close(redis_node *node, const simba_error *why);
bool simba__redis_node_idle(const redis_node *node);
void simba__redis_node_free(redis_node *node);
/* Until when, by its clock, the server grants nothing new, because it may have forgotten a lease of this length. 0: it has run for
 * long enough. */
int64_t simba__redis_node_young(const redis_node *node, int64_t lease_ms);

/* --- push.c ------------------------------------------------------------------------------------------- */

typedef struct redis_pushes {
    simba__table channels; /* by mutex and id */
    simba__list idle;      /* those that nobody needs; the one to drop next comes first */
    simba__list looks;     /* those about which to tell the client at a set time */
    simba__list due;       /* those about which to tell the client when it flushes */
    simba_timer timer;
} redis_pushes;

extern const redis_conn_events simba__redis_push_events;
int simba__redis_pushes_init(redis_store *store);
void simba__redis_pushes_close(redis_store *store);
void simba__redis_pushes_fini(redis_store *store);
int simba__redis_watch(redis_store *store, simba_watch *watch);
void simba__redis_unwatch(redis_store *store, simba_watch *watch);
/* An ACQUIRE that would queue is written: what it says of its hearing. */
char simba__redis_hears(redis_store *store, const simba_request *request);
/* It was refused. */
void simba__redis_refused(redis_store *store, const redis_call *call);
/* The contender waits no more: it was granted the mutex, or a RELEASE is written. Returns whether it may be in the queue. */
bool simba__redis_left(redis_store *store, const simba_request *request);
/* Nothing of this id is in the queue any more. */
void simba__redis_unqueued(redis_store *store, const simba_request *request);
/* The server is too young to grant: ask again after this time. */
void simba__redis_ask_after(redis_store *store, const simba_request *request, int64_t wait_ms);
/* The owner of this mutex is a JVM contender. */
void simba__redis_foreign(redis_store *store, const simba_request *request, const simba_reply *reply);
/* A contender here holds a mutex of this server: listen for a forced release. */
void simba__redis_holds(redis_node *node);
/* Tell of what is due, and send what was written. */
void simba__redis_pushes_woken(redis_store *store);
/* The topology has changed. */
void simba__redis_pushes_moved(redis_store *store);
/* Does this server have anything to listen for? */
bool simba__redis_pushes_need(const redis_node *node);

/* --- redis.c ------------------------------------------------------------------------------------------ */

/* How the servers that a URL names make up one store: cluster.c, sentinel.c; redis.c for a single one. */
typedef struct redis_topology {
    int (*init)(redis_store *store); /* SIMBA_ENOMEM */
    /* The node that has this mutex; or, if that is not known, a node that stands for it and takes requests, too. */
    redis_node *(*route)(redis_store *store, const char *mutex);
    /* This error says that another server has the slot: send the call there, or fail it. False: it names no server. NULL: there are
     * no slots. */
    bool (*redirect)(redis_call *call, const char *error);
    /* The connection of this node has failed, or the server did not answer a request in time. NULL: it connects again by
     * itself. */
    void (*lost)(redis_node *node);
    void (*close)(redis_store *store); /* NULL: nothing to do */
    void (*fini)(redis_store *store);  /* also called after a failed init; NULL: nothing to do */
} redis_topology;

extern const redis_topology simba__redis_cluster, simba__redis_sentinel;

struct redis_store {
    simba_host *host;
    redis_options options;
    redis_conns conns;
    redis_node *first;
    const redis_topology *topology;
    void *topology_data;
    redis_pushes pushes;
    unsigned walks;        /* that may still visit any node: while there is one, no node is used for another server */
    bool acquires;         /* a mutex was asked for, so it matters whether servers forget */
    bool asked_durability; /* one of them was asked whether it does */
    bool said_uninformed;  /* INFO was refused, and the log says so */
    bool closing, closed;
};

/* The node that has this mutex, or stands for it. NULL: any that serves. */
redis_node *simba__redis_node_for(redis_store *store, const char *mutex);
/* The first node from here on that has mutexes; NULL: none. */
redis_node *simba__redis_node_serving(redis_node *first);
/* The topology has changed: calls that were not sent yet, and subscriptions, may belong elsewhere. */
void simba__redis_moved(redis_store *store);
/* Write the command of a request. */
void simba__redis_put_request(redis_call *call, simba__buffer *out);
/* Begin a script; the caller then writes `argc` words. */
void simba__redis_put_script(redis_call *call, simba__buffer *out, redis_script script, const char *mutex, size_t argc);

/* --- cluster.c ---------------------------------------------------------------------------------------- */

enum { REDIS_SLOTS = 16384 };
/* The slot of a cluster that the keys of a mutex are in. */
unsigned simba__redis_slot(const char *mutex);

/* --- admin.c ------------------------------------------------------------------------------------------ */

/* LIST, EXAMINE, PREPARE. */
void simba__redis_walk(redis_store *store, simba_request *request);
/* Its time is over: ask nothing more, and fail it once the servers have answered what they were asked. */
void simba__redis_walk_expire(simba_request *request);
/* Ask whether the server keeps what it acknowledges, and warn if it does not. */
void simba__redis_ask_durability(redis_node *node);

#endif
