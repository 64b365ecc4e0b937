/* zookeeper:// and zookeepers://: leases are ZooKeeper's sessions. The store speaks ZooKeeper's protocol itself, over one
 * connection of net/link.h.
 *
 * What is stored: mutex M is the node /simba/M, a container. Each contender is an ephemeral, numbered child of it, whose data is the
 * contender's id. The first child leads. The note of M is a persistent node in /simba-notes.
 *
 *   ACQUIRE      create a child and list the children; read and watch the child before
 *   RELEASE      delete the child; find it first if the answer to its creation was lost
 *   RENEW        read the child
 *   READ, FORCE  sync, list, read the first child; FORCE also deletes it
 *   LIST         list the folders of mutexes and notes, then each mutex with its first two children and its note
 *   WRITE_NOTE   read the note; check the child and set the note in one transaction
 *   READ_NOTE    have the servers agree on a write, then read the note
 *   FORGET       sync, list; delete the node and the note in one transaction
 *
 * Who wakes whom: each waiter watches the child before its own, lists again when that has changed, and leads if it is the first.
 * A leader watches its own child, so that it hears of a removal. An observer watches the children and the note.
 *
 *   wire.c      the protocol as bytes: pure      session.c   the connection, and the session that survives connections
 *   names.c     nodes, mutexes, uuids: pure      calls.c     procedures of several calls; watches
 *   liveness.c  what proves that it lives: pure  contend.c   ACQUIRE, RENEW, RELEASE
 *   store.c     the URL and the table            look.c      READ, FORCE_RELEASE, LIST, observers
 *                                                notes.c     WRITE_NOTE, READ_NOTE, FORGET
 */
#ifndef SIMBA_STORES_ZOOKEEPER_H
#define SIMBA_STORES_ZOOKEEPER_H

#include <simba/backend.h>

#include "net/link.h"
#include "net/resolver.h"
#include "stores/zookeeper/liveness.h"
#include "util/list.h"
#include "util/table.h"

/* --- names.c ------------------------------------------------------------------------------------------------ */

/* Can ZooKeeper have a node of this name, which is valid by simba's own rules? SIMBA_EINVAL says why not. */
int simba__zk_check_mutex(const char *mutex, simba_error *err);
/* Is this child of a mutex's node a contender? Others are parts of the names of other mutexes. */
bool simba__zk_is_contender(const char *child);
/* PATH/CHILD; ROOT/MUTEX is the node of a mutex. Free it; NULL: out of memory. */
char *simba__zk_child_path(const char *path, const char *child);
/* The name of the node that keeps the note of a mutex: its name, with %2F for a slash and %25 for a percent sign. Free it;
 * NULL: out of memory. And back; false: it is not the name of a note. */
char *simba__zk_note_name(const char *mutex);
bool simba__zk_mutex_of_note(const char *name, char ret_mutex[SIMBA_MUTEX_BYTES + 1]);

enum { ZK_PREFIX_MAX = 48, ZK_NAME_MAX = ZK_PREFIX_MAX + 12 };
/* The beginning of the name of an incarnation's child: "_c_{uuid}-latch-". */
void simba__zk_prefix(uint64_t nonce, const char *id, char ret_prefix[ZK_PREFIX_MAX]);
/* The nonce of an incarnation after so many sessions of its client are over. A child of an earlier session may still be there until
 * the server ends that session: nobody may take it for a child of this session. */
uint64_t simba__zk_salted(uint64_t nonce, unsigned sessions_over);
/* Did a contender of this library make this child, whose data is `id`? */
bool simba__zk_is_made_by_us(const char *child, const char *id);
/* Which of two children comes first? Like strcmp. Contenders come in the order in which they lead, and other nodes after them. */
int simba__zk_order(const char *a, const char *b);
/* A time that a server has told, in ms since 1970; from 0 to the end of the year 9999, so that nothing overflows that is computed
 * from it. */
int64_t simba__zk_time_ms(int64_t told_ms);
simba_owner simba__zk_owner(const char *id, int64_t czxid, int64_t ctime_ms);

/* --- wire.c ------------------------------------------------------------------------------------------------- */

/* Kinds of requests, as the protocol numbers them. */
typedef enum zk_type {
    ZK_CREATE = 1, /* a node that stays */
    ZK_DELETE = 2,
    ZK_EXISTS = 3,
    ZK_GET = 4,
    ZK_SET = 5,
    ZK_CHILDREN = 8,
    ZK_SYNC = 9,
    ZK_CHECK = 13, /* part of a MULTI */
    ZK_MULTI = 14,
    ZK_CREATE2 = 15,          /* an ephemeral, numbered node; the answer has its stat, */
    ZK_CREATE_CONTAINER = 19, /* as that to this one has */
    ZK_AUTH = 100,
    ZK_CLOSE = -11,
} zk_type;

typedef enum zk_acl {
    ZK_ACL_OPEN,    /* everybody may do everything */
    ZK_ACL_CREATOR, /* only this user may */
    ZK_ACL_READ,    /* the same, and everybody may read */
} zk_acl;

typedef struct zk_request zk_request;
struct zk_request {
    zk_type type;
    int32_t version; /* DELETE, SET, CHECK; -1: any */
    const char *path;
    const void *data;
    size_t length;
    const zk_request *parts; /* MULTI: two; a SET is the second */
    zk_acl acl;
    bool watch;
};

/* Errors: those of the server, which are negative, and those of the store. Of several, the highest counts. */
enum {
    ZK_OK = 0,
    ZK_MALFORMED = 1, /* the answer does not fit the question */
    ZK_NO_NUMBERS,    /* the server cannot number another child */
    ZK_VANISHES,      /* a node goes each time that it is made */
    ZK_REFUSED,       /* a node above it could not be made */
    ZK_TOO_MANY,      /* there are too many nodes to list */
    ZK_NO_MEMORY,
    ZK_INCONSISTENT = -2, /* a part of a transaction, of which another part failed */
    ZK_UNIMPLEMENTED = -6,
    ZK_NO_NODE = -101,
    ZK_NO_AUTH = -102,
    ZK_BAD_VERSION = -103,
    ZK_NODE_EXISTS = -110,
    ZK_NOT_EMPTY = -111,
    ZK_SESSION_EXPIRED = -112,
    ZK_INVALID_ACL = -114,
    ZK_AUTH_FAILED = -115,
    ZK_SESSION_MOVED = -118,
    ZK_THROTTLED = -127,
};

enum { ZK_XID_EVENT = -1, ZK_XID_AUTH = -4 };

enum {
    ZK_MESSAGE_MOST = 16 * 1024 * 1024 - 1, /* bytes */
    ZK_WELCOME_MOST = 64,
    ZK_NAMES_MOST = 1000000,
    ZK_PASSWORD = 16,
    ZK_SESSION_MIN_MS = 10,      /* no server grants less than this, */
    ZK_SESSION_MAX_MS = 1 << 29, /* nor more than a week */
};

typedef struct zk_stat {
    int64_t czxid, mzxid, ctime_ms, mtime_ms;
    int32_t version;
    int64_t session; /* of an ephemeral node */
} zk_stat;

typedef struct zk_result {
    int error;
    char *text; /* the path that was made, or the data that was read; a zero byte follows */
    size_t length;
    zk_stat stat;
    const char **names;       /* of children, in the order of simba__zk_order; simba__zk_result_fini frees the array */
    size_t count, contenders; /* all of them; those that contend, which come first */
    size_t failed;            /* which part of a MULTI is the reason for `error` */
} zk_result;

typedef struct zk_head {
    int32_t xid;
    int64_t zxid;
    int32_t error;
} zk_head;

enum { ZK_EVENT_CREATED = 1, ZK_EVENT_DELETED = 2, ZK_EVENT_CHANGED = 3, ZK_EVENT_CHILD = 4 };
typedef struct zk_event {
    int kind;
    const char *path;
} zk_event;

typedef struct zk_welcome {
    int32_t timeout_ms;
    int64_t id;
    char password[ZK_PASSWORD];
    bool read_only;
} zk_welcome;

/* Append a message. */
void simba__zk_put_hello(simba__buffer *out, int64_t zxid, int32_t timeout_ms, int64_t id,
                         const char password[ZK_PASSWORD]);
void simba__zk_put_auth(simba__buffer *out, const char *digest);
void simba__zk_put_request(simba__buffer *out, int32_t xid, const zk_request *request);

/* The length of the message that begins with these four bytes. */
uint32_t simba__zk_length(const char *bytes);
/* Read a message, without its length. False: no server says such a thing. The message is changed: texts in results lie in it. */
bool simba__zk_read_welcome(char *message, size_t length, zk_welcome *ret_welcome);
bool simba__zk_read_head(const char *message, size_t length, zk_head *ret_head);
bool simba__zk_read_event(char *message, size_t length, zk_event *ret_event);
/* The answer to a request of this type; `last`: of the second part of a MULTI. */
bool simba__zk_read_result(char *message, size_t length, zk_type type, zk_type last, zk_result *ret_result);
void simba__zk_result_fini(zk_result *result);

/* --- the store ---------------------------------------------------------------------------------------------- */

typedef struct zk_store zk_store;
typedef struct zk_op zk_op;
typedef struct zk_call zk_call;

/* What the URL says. */
typedef struct zk_options {
    simba__endpoint *hosts;
    size_t host_count;
    char where[128];    /* the hosts, for messages */
    char *root, *notes; /* the folders of mutexes and of notes, with the chroot before them */
    char *digest;       /* "user:password"; NULL: none */
    zk_acl acl;
    int session_ms;
    bool tls;
    simba__tls_files files; /* the texts are the URL's */
} zk_options;

int simba__zk_options_parse(const simba_url *url, zk_options *ret_options, simba_error *err);
void simba__zk_options_free(zk_options *options);

/* --- session.c ---------------------------------------------------------------------------------------------- */

enum { ZK_CALLS_MOST = 256 }; /* requests in flight, beyond which procedures wait that begin again after a break */

typedef struct zk_session {
    zk_store *store;
    simba__links links;
    simba__link link;
    zk_liveness live;
    simba__resolver resolver;
    uint8_t order[SIMBA__TARGETS_MAX]; /* of the resolver's targets, shuffled */
    size_t next;                       /* the target to try next, in that order */
    size_t tried;                      /* attempts in vain since the last connection that was good */
    unsigned broken;                   /* connections that the server broke off since it proved anything */
    int64_t id;                        /* 0: there is no session */
    char password[ZK_PASSWORD];
    int64_t zxid; /* the latest that a server has told */
    bool probes;  /* this handshake asks for a new session, while the old one might still go on */
    bool refused; /* the server refused user and password */
    bool anew;    /* a session has ended, and there was none since */
    bool closing; /* nobody will make another request */
    simba_local close_until;
    unsigned over;     /* how many sessions have ended */
    int32_t xid;       /* of the latest request */
    simba__list calls; /* in flight, in the order in which they were sent */
    simba__buffer in;  /* the beginning of a message */
    simba_local heard; /* when the server said something last */
    int64_t clock_ms;  /* the server's clock, less ours, as far as is known */
    char server[128];  /* of this connection, or of the last one */
    char cause[160];   /* of the latest failure */
} zk_session;

/* SIMBA_ENOMEM, or 0. Takes over `tls`, which may be NULL. */
int simba__zk_session_init(zk_session *session, zk_store *store, simba__tls_context *tls);
/* Open a session if there is none, and send what was asked. */
void simba__zk_session_flush(zk_session *session);
/* Send a call behind the others. False: out of memory. */
bool simba__zk_session_send(zk_session *session, zk_call *call, const zk_request *request);
/* An answer is overdue that somebody has waited for since `since`. If the server has said nothing since then, try another. */
void simba__zk_session_doubt(zk_session *session, simba_local since);
void simba__zk_session_malformed(zk_session *session);
/* Begin to end the session: host->closed follows. */
void simba__zk_session_close(zk_session *session);
void simba__zk_session_fini(zk_session *session);
/* Can requests be sent? */
static inline bool simba__zk_is_connected(const zk_session *session)
{
    return session->live.link == ZK_CONNECTED && session->link.state == SIMBA__LINK_UP;
}
/* The server's clock, as far as it is known; it shows this time, or a later one. */
int64_t simba__zk_now_ms(const zk_store *store);
void simba__zk_heed_clock(zk_store *store, int64_t ms);

/* --- calls.c ------------------------------------------------------------------------------------------------ */

/* A procedure: calls that are in flight together form a step. After a break it begins again on the next connection. */
typedef struct zk_kind {
    void (*begin)(zk_op *op); /* there is a connection; or it was to begin again later */
    void (*step)(zk_op *op);  /* all calls of the step are answered, without an error unless it stays */
    void (*lost)(zk_op *op);  /* the connection is gone, and with it all calls in flight; may be NULL */
    void (*fini)(zk_op *op);  /* free its members; may be NULL */
    bool stays;               /* it goes on without its request, and after an error */
} zk_kind;

struct zk_op {
    simba__list_item item;  /* of all */
    simba__list_item waits; /* to begin: in a list of the store */
    zk_store *store;
    const zk_kind *kind;
    simba_request *request; /* NULL: there is none, or it has been completed */
    simba_local begun;      /* when the request was handed over */
    bool expired;           /* nobody waits for the request any more */
    bool over;              /* nothing is left to do but to wait for its calls */
    int error;              /* of a call, which the procedure does not expect */
    unsigned awaited;       /* calls in flight, and parts that are procedures of their own */
};

typedef void zk_answered(zk_op *op, const zk_call *call, zk_result *result);

struct zk_call {
    simba__list_item item;
    zk_op *op; /* NULL: a beat */
    zk_answered *answered;
    int32_t xid;
    zk_type type, last; /* last: of the second part of a transaction */
    char path[];
};

/* Somebody wants to hear of the next change of a node, or of its children. A member of its owner. */
typedef struct zk_watch zk_watch;
struct zk_watch {
    simba__node node;
    char *path; /* NULL: not set */
    bool of_children;
    void (*fired)(zk_watch *watch, int kind);
};

/* A new procedure of this size. NULL: out of memory, and the request has failed. Then: begin it, now or when there is a connection. */
void *simba__zk_op_new(zk_store *store, const zk_kind *kind, size_t size, simba_request *request);
void simba__zk_op_start(zk_op *op);
/* Begin when there is a connection. */
void simba__zk_op_park(zk_op *op);
/* Begin again in a while. */
void simba__zk_op_later(zk_op *op);
/* Is there a connection, and has it begun on that? */
bool simba__zk_op_runs(const zk_op *op);
/* Go on if all calls of the step are answered. An error that the procedure does not expect ends it, unless it stays. */
void simba__zk_op_go(zk_op *op);
/* Nothing is left to do: free it, now or when its calls are answered. */
void simba__zk_op_end(zk_op *op);
void simba__zk_op_take(zk_op *op, simba_request *request);
/* A call was answered with an error that the procedure does not expect, or could not be made. */
void simba__zk_op_note(zk_op *op, int error);
/* Answer the request, if there is one. */
void simba__zk_complete(zk_op *op, simba_outcome outcome, const simba_owner *owner);
void simba__zk_fail(zk_op *op, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void simba__zk_fail_by(zk_op *op, int error);
/* The same, and end the procedure. */
void simba__zk_finish(zk_op *op, simba_outcome outcome, const simba_owner *owner);

/* Make a call about PATH, or PATH/CHILD. False: there was no memory, and the procedure knows. */
bool simba__zk_call(zk_op *op, zk_answered *answered, zk_type type, const char *path, const char *child, bool watch);
bool simba__zk_ask(zk_op *op, zk_answered *answered, const zk_request *request);
/* Make a node and the nodes above it that are missing: containers, or nodes that stay. */
void simba__zk_call_parents(zk_op *op, zk_answered *answered, zk_type type, const char *path);
void simba__zk_call_sync(zk_op *op);
/* Have most servers agree on a write that changes nothing. A sync only brings the server up to what its leader knows. If the
 * others have replaced that leader without its knowledge, this may be old; then `agree` fails. */
void simba__zk_call_agree(zk_op *op);

/* The answer of this call has set the watch. */
void simba__zk_watch(zk_op *op, zk_watch *watch, const zk_call *call);
void simba__zk_unwatch(zk_store *store, zk_watch *watch);
void simba__zk_fire(zk_store *store, const zk_event *event);

/* The session has news. */
void simba__zk_answer(zk_call *call, zk_result *result);
/* There is a connection: begin as many procedures as there is room for. */
void simba__zk_begin_parked(zk_store *store);
void simba__zk_begin_later(simba_timer *timer, simba_local now);
void simba__zk_disconnected(zk_store *store);
void simba__zk_unavailable(zk_store *store, int code, const char *why);
void simba__zk_over(zk_store *store);
void simba__zk_expire(void *instance, simba_request *request);
void simba__zk_ops_close(zk_store *store);

/* The leader or another contender according to its child: its data is its id; a LeaderLatch may have none. */
simba_owner simba__zk_owner_of(const zk_call *call, const zk_result *result);
/* The name of the node that a call is about. */
const char *simba__zk_child_of(const zk_call *call);

/* --- contend.c ---------------------------------------------------------------------------------------------- */

/* Where the child of a contender is. */
typedef enum zk_place {
    ZK_NONE,    /* there is none */
    ZK_UNSURE,  /* there may be one: its creation or its removal has no answer yet */
    ZK_WAITS,   /* there is one */
    ZK_LEADS,   /* there is one, and it is the first */
    ZK_REVOKED, /* it was the first, and somebody took it away */
} zk_place;

/* What the look under way waits for. */
typedef enum zk_stage {
    ZK_RESTS,   /* there is none */
    ZK_LISTS,   /* the children */
    ZK_STANDS,  /* the token, and the child before with its watch, if these are wanted */
    ZK_REMOVES, /* the removal of the child */
} zk_stage;

/* A contender. It stays in the table until its child is known to be gone. */
typedef struct zk_contender {
    zk_op op; /* first */
    simba__node node;
    bool in_table;
    uint64_t nonce;
    char *mutex, *id;
    char *path; /* of the node of the mutex */
    zk_place place;
    zk_stage stage;
    bool queue;      /* it is to wait if it does not lead */
    bool leaving;    /* the child must go */
    bool again;      /* there is a reason for another look */
    bool is_first;   /* the child was the first in the latest list, and nobody else has removed it since */
    bool is_second;  /* it was the second */
    bool asks;       /* it has waited for a while, and wants to know who leads */
    bool refused;    /* the node of the mutex could not be made */
    unsigned rounds; /* how many children it has tried to make since somebody asked */
    char prefix[ZK_PREFIX_MAX], name[ZK_NAME_MAX]; /* of the child; name: WAITS, LEADS, and while it is removed */
    int64_t czxid, ctime_ms;                       /* 0: not known */
    simba_owner owner;                             /* who leads, as far as the latest look shows */
    zk_watch before, own;                          /* WAITS: the child before; LEADS: the own one */
} zk_contender;

void simba__zk_acquire(zk_store *store, simba_request *request);
void simba__zk_renew(zk_store *store, simba_request *request);
void simba__zk_release(zk_store *store, simba_request *request);
zk_contender *simba__zk_contender_find(zk_store *store, const simba_request *request);
/* Does it hold the mutex under the token of the request? Did it, until somebody took it away? NULL: no. */
bool simba__zk_holds(const zk_contender *c, const simba_request *request);
bool simba__zk_was_revoked(const zk_contender *c, const simba_request *request);
simba_owner simba__zk_self(const zk_contender *c);
void simba__zk_contenders_drop(zk_store *store);

/* --- look.c, notes.c ---------------------------------------------------------------------------------------- */

void simba__zk_look(zk_store *store, simba_request *request);
void simba__zk_list(zk_store *store, simba_request *request);
int simba__zk_observe(void *instance, simba_watch *shown);
void simba__zk_unobserve(void *instance, simba_watch *shown);
void simba__zk_observers_anew(zk_store *store);

void simba__zk_forget(zk_store *store, simba_request *request);
void simba__zk_write_note(zk_store *store, simba_request *request);
void simba__zk_read_note(zk_store *store, simba_request *request);
char *simba__zk_note_path(const zk_store *store, const char *mutex);

/* A note as it is stored: a line "1 TOKEN NUMBER" (a version, the token of the grant that wrote it, the number of that write), and
 * behind it the bytes. Without bytes there is no note; the line stays, so that a delayed write cannot bring an earlier note back. */
enum { ZK_STORED_NOTE_MAX = SIMBA_NOTE_MAX + 48 };
typedef struct zk_stored_note {
    uint64_t token, number; /* 0: nobody has written yet */
    const char *bytes;
    size_t size;
} zk_stored_note;
/* False: simba does not write such a note. `bytes` points into `data`. */
bool simba__zk_stored_note_read(const char *data, size_t length, zk_stored_note *ret_note);
/* Did an earlier write than this request make it (negative), this very request (0), or a later one? */
int simba__zk_stored_note_order(const zk_stored_note *note, const simba_request *request);
size_t simba__zk_stored_note_write(const zk_stored_note *note, char ret_data[ZK_STORED_NOTE_MAX]);

/* --- store.c ------------------------------------------------------------------------------------------------ */

struct zk_store {
    simba_host *host;
    zk_options options;
    zk_session session;
    simba__list ops;
    simba__list parked, later, due; /* procedures that wait to begin: for a connection; for the timer; for room */
    simba_timer timer;
    simba__table watches;    /* by path */
    simba__table contenders; /* by nonce */
    simba__list observers;
};

extern const simba_backend simba__backend_zookeeper;

#endif
