/* The parts of the Redis store, for one another.
 *
 *   options.c   what the URL says                    buffer.c   bytes on their way out, and commands in them
 *   conn.c      one connection: names, sockets, greeting, silence, backoff         tls.c   what rediss:// adds to it
 *   scripts.c   the Lua scripts                      reply.c    what an answer or a refusal means
 *   node.c      one server: a command connection and a subscription connection
 *   calls.c     requests on the command connection   list.c     LIST, which takes many commands
 *   confirm.c   replicas=N
 *   subs.c      the subscription connections         watches.c  what they listen for
 *   single.c, sentinel.c, cluster.c   topologies: which server a mutex is on, and how to find that out
 *   slots.c     which slot of a cluster a mutex is in
 *   examine.c   how the server is set up
 *   inquiry.c   a question to several servers, one after the other
 *   backend.c   the table of functions
 *
 * Everything runs in turns, on whatever thread has something to ask or to read. hiredis is used for its parser alone.
 */
#ifndef SIMBA_BACKENDS_REDIS_H
#define SIMBA_BACKENDS_REDIS_H

#include <hiredis/hiredis.h>
#include <simba/backend.h>

#include "net/resolve.h"

#include "net/endpoint.h"

extern const simba_backend simba__backend_redis;

typedef struct redis_store redis_store;
typedef struct redis_node redis_node;
typedef struct redis_topology redis_topology;

/* --- options ---------------------------------------------------------------------------------------- */

/* What is said first on a connection. */
typedef struct redis_login {
    char *user, *password; /* NULL: none */
    long db;
    bool to_master; /* and only to one */
} redis_login;

typedef struct redis_options {
    const redis_topology *topology;
    simba__endpoint *endpoints; /* of the URL */
    size_t endpoint_count;
    redis_login login;
    char *service; /* by which sentinels know the master */
    redis_login sentinel_login;
    int64_t connect_timeout_ns; /* until the connection can be used, names and greeting included */
    int64_t timeout_ns;         /* a connection that owes an answer for longer is given up */
    long replicas;              /* that have to acknowledge a grant */
    bool tls, verify;
    char *ca, *cert, *key;
} redis_options;

int simba__redis_options_parse(const simba_url *url, redis_options *ret_options, simba_error *err);
void simba__redis_options_free(redis_options *options);

/* --- bytes on their way out ------------------------------------------------------------------------- */

typedef struct redis_buffer {
    char *data;
    size_t length, capacity;
    bool failed; /* there was no memory: what is in here is not whole */
} redis_buffer;

void simba__redis_put_bytes(redis_buffer *buffer, const void *data, size_t length);
/* One command. */
void simba__redis_put(redis_buffer *buffer, size_t argc, const char *const *argv);
void simba__redis_buffer_free(redis_buffer *buffer);

/* --- a connection ----------------------------------------------------------------------------------- */

typedef struct redis_conn redis_conn;
typedef struct redis_tls redis_tls;
typedef struct redis_tls_context redis_tls_context;

typedef enum redis_conn_state {
    REDIS_CLOSED,     /* nobody has asked for it yet, or the store closes */
    REDIS_CONNECTING, /* names, socket, TLS */
    REDIS_UP,         /* may be written to; the answers to the greeting may be still to come */
    REDIS_WAITING,    /* it failed; the timer tries again */
} redis_conn_state;

/* What the owner of a connection does at its turns of fate. */
typedef struct redis_conn_events {
    void (*up)(redis_conn *conn);
    void (*answer)(redis_conn *conn, const redisReply *reply);
    /* The connection is gone, or could not be made. conn->error says why. */
    void (*down)(redis_conn *conn);
    /* conn->timer went off while up: look for silence, and set it again. */
    void (*tick)(redis_conn *conn, simba_local now);
} redis_conn_events;

struct redis_conn {
    simba_host *host;
    redis_store *store;
    const redis_options *options;
    const redis_login *login;
    const redis_conn_events *events;
    void *owner;
    simba__endpoint at;
    /* NULL: `at` is right. Otherwise called whenever it is to connect: set `at` and call …_found, now or later, or call
     * …_fail. It has to come to an end. */
    void (*find)(redis_conn *conn);
    int64_t connect_timeout_ns;

    redis_conn_state state;
    unsigned life;         /* how many sockets there have been */
    simba__lookup *lookup; /* at work */
    struct addrinfo *addresses, *next_address;
    int refused;         /* the system's error, for which there is no socket; the timer is about to tell */
    simba_watch socket;  /* fd is -1: there is none */
    redisReader *reader; /* since it is connected */
    redis_tls *tls;      /* NULL: plain */
    redis_buffer wire;   /* on its way to the socket */
    unsigned greeting;   /* answers to the greeting that are still to come */
    unsigned failures;   /* in a row */
    simba_error error;   /* why it is down */
    simba_timer timer;
    redis_buffer out;
};

int simba__redis_conn_init(redis_conn *conn, redis_store *store, const redis_conn_events *events, void *owner);
void simba__redis_conn_open(redis_conn *conn);
void simba__redis_conn_found(redis_conn *conn);
/* Does it wait for …_found? */
bool simba__redis_conn_seeks(const redis_conn *conn);
/* Send what is in conn->out, if it is up. */
void simba__redis_conn_flush(redis_conn *conn);
/* Give it up, tell the owner, and try again later. */
void simba__redis_conn_fail(redis_conn *conn, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void simba__redis_conn_close(redis_conn *conn);
void simba__redis_conn_fini(redis_conn *conn);

/* --- scripts ---------------------------------------------------------------------------------------- */

typedef enum redis_script {
    REDIS_ACQUIRE,
    REDIS_RENEW,
    REDIS_RELEASE,
    REDIS_READ,
    REDIS_FORCE_RELEASE,
    REDIS_QUEUE_UP,
    REDIS_SCRIPTS,
} redis_script;

/* The whole text, for this database. Free it with simba__free; NULL: out of memory. */
char *simba__redis_script_text(redis_script script, long db);

/* --- answers ---------------------------------------------------------------------------------------- */

/* What the text of an error reply means, as a code of ours. `ret_drop`: this connection is of no use any more. */
int simba__redis_error_code(const char *text, bool *ret_drop);
/* The same with words about it; never any that the server could have repeated from a password. */
int simba__redis_error(const simba__endpoint *at, const char *text, simba_error *ret_error, bool *ret_drop);
/* The answer of a script, and the number at its end: READ: how many wait; ACQUIRE: its place among those; otherwise 0.
 * False: it is none. */
bool simba__redis_parse(const redisReply *reply, simba_reply *ret_reply, int64_t *ret_more);

/* --- slots ------------------------------------------------------------------------------------------ */

enum { REDIS_SLOTS = 16384 };

/* The slot of a cluster that the keys of a mutex are in. */
unsigned simba__redis_slot(const char *mutex);
/* Are they all in one? */
bool simba__redis_in_one_slot(const char *mutex);

/* --- the store -------------------------------------------------------------------------------------- */

typedef struct redis_call redis_call;
typedef struct redis_watch redis_watch;
typedef struct redis_list redis_list;
typedef struct redis_held redis_held;

/* One server, and all that is on its way to it. */
struct redis_node {
    redis_node *next;
    redis_store *store;
    simba_host *host;
    const redis_options *options;
    bool serves; /* has mutexes, as far as we know */

    /* Requests. */
    redis_conn commands;
    char sha[REDIS_SCRIPTS][41];
    unsigned loaded;                              /* scripts whose sha is known */
    bool wanted;                                  /* somebody waits for the connection */
    simba_request *waiting_first, **waiting_last; /* submitted, not sent */
    redis_call *calls_first, **calls_last;        /* sent, not answered */
    redis_call *spare;                            /* to be used again */
    simba_timer deadlines;
    redis_held *held; /* granted, but the replicas have not said so */
    bool confirming;  /* a WAIT is under way, */
    bool unconfirmed; /* and something was sent after it that needs another one */

    /* Pushes. */
    redis_conn pushes;
    bool pinged;
};

/* How the servers that a URL names make up one store. */
struct redis_topology {
    int (*init)(redis_store *self); /* SIMBA_ENOMEM */
    /* Where this mutex is, or a node that stands for not knowing it: it takes requests, too. */
    redis_node *(*route)(redis_store *self, const char *mutex);
    /* A request got this error. True: it is under way to where it belongs. */
    bool (*redirected)(redis_node *node, simba_request *request, const char *error);
    /* The command connection of this node has failed, or a request was not answered in time. */
    void (*lost)(redis_node *node);
    void (*close)(redis_store *self);
    void (*fini)(redis_store *self); /* also after a failed init */
};

/* A question to several servers, one after the other, until one gives an answer that will do. */
typedef struct redis_inquiry redis_inquiry;
struct redis_inquiry {
    redis_conn conn;
    void *owner;
    const char *const *question; /* a command of so many words */
    size_t words;
    /* False: that is no good, and `why` says so. */
    bool (*take)(redis_inquiry *inquiry, const redisReply *reply, char *why, size_t size);
    /* NULL: `take` had its answer. */
    void (*over)(redis_inquiry *inquiry, const simba_error *error);

    bool running;
    const simba__endpoint *candidates; /* stay put while it runs */
    size_t count, first, asked;
    size_t most;       /* of them are asked this time */
    simba_local until; /* so long for this one */
    simba_error error;
};

int simba__redis_inquiry_init(redis_inquiry *inquiry, redis_store *store, const redis_login *login);
/* `over` follows, now or later: no later than a connect-timeout, all candidates together. */
void simba__redis_inquiry_start(redis_inquiry *inquiry, const simba__endpoint *candidates, size_t count);
void simba__redis_inquiry_close(redis_inquiry *inquiry);
void simba__redis_inquiry_fini(redis_inquiry *inquiry);

struct redis_store {
    simba_host *host;
    redis_options options;
    redis_tls_context *tls;
    bool closing, closed;
    unsigned lookups; /* of names, under way */
    redis_node *nodes;
    void *topology; /* its own affair */
    redis_list *lists;
    simba_timer lists_deadline;

    /* What is listened for. */
    redis_watch **buckets;
    size_t watch_count, watch_capacity;
    redis_watch *idle_first, *idle_last; /* not watched any more, subscription kept for a moment; oldest first */
    redis_watch *grace;                  /* somebody was invited and has not been heard of */
    redis_watch *stale;                  /* CHANGED is to be pushed */
    simba_timer chores;
};

/* backend.c: something has ended, perhaps the last that the end had to wait for. */
void simba__redis_look_whether_closed(redis_store *self);

extern const redis_topology simba__redis_single, simba__redis_sentinel, simba__redis_cluster;
/* For those that have one server at a time. */
redis_node *simba__redis_route_to_one(redis_store *self, const char *mutex);
bool simba__redis_never_redirected(redis_node *node, simba_request *request, const char *error);
void simba__redis_lost_for_now(redis_node *node);

/* node.c. It lives as long as the store. NULL: out of memory. */
redis_node *simba__redis_node_new(redis_store *self, const simba__endpoint *at);
/* The first of a list that has mutexes; NULL: none. */
redis_node *simba__redis_node_serving(redis_node *first);
/* The one that a request goes to: that of its mutex; if it has none, the first. If that is not known, what stands for it. */
redis_node *simba__redis_node_for(redis_store *self, const simba_request *request);
void simba__redis_node_close(redis_node *node, const simba_error *why);
void simba__redis_node_free(redis_node *node);

/* A call of our own on the command connection; `answer` gets NULL when the connection was lost. */
typedef void redis_answer(redis_node *self, void *user, const redisReply *reply);

/* calls.c */
extern const redis_conn_events simba__redis_calls_events;
int simba__redis_calls_init(redis_node *self);
void simba__redis_calls_submit(redis_node *self, simba_request *request);
void simba__redis_calls_flush(redis_node *self);
void simba__redis_calls_close(redis_node *self, const simba_error *why);
void simba__redis_calls_fini(redis_node *self);
bool simba__redis_calls_put(redis_node *self, size_t argc, const char *const *argv, redis_answer *answer, void *user);
/* Put a waiter back into the queue, should it not be there any more. */
void simba__redis_calls_queue_up(redis_node *self, const char *mutex, const char *id);
/* Can requests be sent right now? */
bool simba__redis_calls_ready(const redis_node *self);
void simba__redis_calls_fail(redis_node *self, simba_request *request, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Send a request on to another node; asking: which does not own its slot yet. False: it has been through enough. */
bool simba__redis_calls_forward(redis_node *to, simba_request *request, bool asking);
/* The topology has changed: what was not sent yet may belong elsewhere. */
void simba__redis_calls_reroute(redis_node *self);

/* Release what an acquire was granted, as its reply says, whatever becomes of it. */
void simba__redis_calls_give_back(redis_node *self, const simba_request *request);

/* confirm.c */
/* Something was put that may be granted: have it confirmed. */
void simba__redis_confirm_soon(redis_node *self);
/* It was granted: keep the answer back until then. */
void simba__redis_confirm_hold(redis_node *self, simba_request *request, simba_local sent_at);
void simba__redis_confirm_lost(redis_node *self, const simba_error *error);
/* Fail those that are over their deadline. Returns the earliest deadline of the others. */
simba_local simba__redis_confirm_expire(redis_node *self, simba_local now);

/* examine.c: the answer to INFO, for EXAMINE. False: that is none. */
bool simba__redis_examined(redis_node *self, simba_request *request, const redisReply *reply);

/* list.c */
int simba__redis_lists_init(redis_store *self);
void simba__redis_list_begin(redis_store *self, simba_request *request);
/* The answer to a row's request; false: that is none. Or what went wrong with it. */
bool simba__redis_list_row(redis_store *self, simba_request *request, const redisReply *reply);
void simba__redis_list_row_failed(redis_store *self, simba_request *request, const simba_error *error);
/* A node can be asked now, or cannot be. */
void simba__redis_lists_up(redis_node *node);
void simba__redis_lists_down(redis_node *node, const simba_error *error);
/* The topology has changed. */
void simba__redis_lists_moved(redis_store *self);
void simba__redis_lists_close(redis_store *self);

/* subs.c */
extern const redis_conn_events simba__redis_subs_events;
int simba__redis_subs_init(redis_store *self);
int simba__redis_subs_watch(redis_store *self, simba_topic *topic);
void simba__redis_subs_unwatch(redis_store *self, simba_topic *topic);
/* What the answers to requests say about who waits here for what. */
void simba__redis_subs_waits(redis_store *self, const simba_request *request);
void simba__redis_subs_left(redis_store *self, const simba_request *request);
void simba__redis_subs_heard(redis_store *self, const char *mutex, uint64_t token);
/* Somebody reads it, and will watch it for that. */
void simba__redis_subs_observed(redis_store *self, const char *mutex);
/* Whose invitation to this mutex came here; "": none did. */
const char *simba__redis_subs_invited(redis_store *self, const char *mutex);
void simba__redis_subs_woken(redis_store *self);
/* The topology has changed. */
void simba__redis_subs_moved(redis_store *self);
/* Is there anything to be listened for on this node? */
bool simba__redis_subs_needs(const redis_node *node);
void simba__redis_subs_close(redis_store *self);
void simba__redis_subs_fini(redis_store *self);

#endif
