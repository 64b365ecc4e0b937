/* etcd:// and etcds://: leases are etcd's leases. The store speaks to etcd's JSON gateway by net/http.h.
 *
 * What is stored, shared with etcdctl and Go's package `concurrency`: each contender of mutex M has the key PREFIX M/LEASE-NONCE (both in
 * hex) with the contender's id as its value. The key belongs to the client's one lease, so it goes when the lease ends. Contenders
 * stand in the order of create_revision; the first leads, and its create_revision is the token. The note of M is the key
 * simba-notes/PREFIX M. No key that has a further slash behind M/ contends for M.
 *
 *   ACQUIRE      enter: if there is no such key, put it; in the same transaction read our key and the first 16 keys. Then look.
 *                queue.c decides
 *   look         one transaction: our key, and the last 16 keys before it. Leads if ours is there and no contender before it
 *   RELEASE      delete the key if it has our create_revision; look for the key first if an answer was lost
 *   RENEW        read our key
 *   READ, FORCE  read the first keys; FORCE then deletes the first contender if it has the same create_revision
 *   WRITE_NOTE   read the note; put it if the note is as seen and our key has our create_revision
 *   READ_NOTE    read it
 *   FORGET       read the first keys; delete the note if it is as old as that, and nobody has entered since
 *   LIST         all names in pages, then owners and notes, all at one revision
 *
 * Who wakes whom: a waiter watches the contender before it and its own key; when one of them is deleted, it looks. A leader watches its
 * own key, so that it hears of a removal. An observer watches all keys of the mutex and the note. All watches of a client share one
 * stream.
 *
 *   wire.c      requests and answers as JSON: pure      session.c   the lease, and the connection that keeps it alive
 *   liveness.c  what proves that it lives: pure         calls.c     connections, procedures, log-in
 *   queue.c     what a contender does: pure             watch.c     the stream of watches
 *   store.c     the URL, the table                      contend.c   ACQUIRE, RENEW, RELEASE: carries out what queue.c decides
 *                                                       look.c      READ, FORCE_RELEASE, FORGET, observers
 *   examine.c   EXAMINE                                 list.c      LIST
 *                                                       notes.c     WRITE_NOTE, READ_NOTE
 */
#ifndef SIMBA_STORES_ETCD_H
#define SIMBA_STORES_ETCD_H

#include <simba/backend.h>

#include "net/http.h"
#include "net/json.h"
#include "net/resolver.h"
#include "stores/etcd/liveness.h"
#include "util/list.h"
#include "util/table.h"

/* --- store.c: the URL ---------------------------------------------------------------------------------------------- */

enum { ETCD_PREFIX_MAX = 256 };

typedef struct etcd_options {
    simba__endpoint *hosts;
    size_t host_count;
    char where[128];       /* the hosts, for messages */
    char *user, *password; /* NULL: none */
    char prefix[ETCD_PREFIX_MAX + 1];
    int64_t session_ms; /* in whole seconds, as etcd counts */
    bool tls;
    simba__tls_files files; /* the texts are the URL's */
} etcd_options;

int simba__etcd_options_parse(const simba_url *url, etcd_options *ret_options, simba_error *err);
void simba__etcd_options_free(etcd_options *options);

/* --- wire.c ------------------------------------------------------------------------------------------------- */

enum {
    ETCD_FOLDER_MAX = ETCD_PREFIX_MAX + SIMBA_MUTEX_BYTES + 16, /* "PREFIX M/", "simba-notes/PREFIX M" */
    ETCD_KEY_MAX = ETCD_FOLDER_MAX + 40,
    ETCD_PAGE = 16, /* keys at a time */
};

/* The keys of a mutex. */
typedef struct etcd_names {
    char folder[ETCD_FOLDER_MAX + 1]; /* "PREFIX M/" */
    char note[ETCD_FOLDER_MAX + 1];
    char own[ETCD_KEY_MAX + 1]; /* of a contender; "": none */
} etcd_names;

void simba__etcd_names(const char *prefix, const char *mutex, etcd_names *ret_names);
void simba__etcd_name_own(etcd_names *names, int64_t lease, uint64_t nonce);
/* Append ,"key":…[,"range_end":…], without the comma: one key, or all that begin with it. */
void simba__etcd_put_key(simba__buffer *out, const char *key);
void simba__etcd_put_folder(simba__buffer *out, const char *folder);
/* The same, beginning behind the key `last`; "": from the beginning on. */
void simba__etcd_put_page(simba__buffer *out, const char *folder, const char *last);
/* Bodies of requests. `below`: look at keys with a lower create_revision than this; 0: only at our own. */
void simba__etcd_put_enter(simba__buffer *out, const etcd_names *names, int64_t lease, const char *id);
void simba__etcd_put_look(simba__buffer *out, const etcd_names *names, uint64_t below);
/* `result`: "EQUAL" or "LESS", what the key's create_revision must be. */
void simba__etcd_put_delete(simba__buffer *out, const char *key, const char *result, uint64_t create_revision);

/* A key as etcd tells it. `value` is a piece of the answer. */
typedef struct etcd_kv {
    char key[ETCD_KEY_MAX + 1]; /* "": longer than any of ours, or not a text */
    uint64_t create_revision, mod_revision;
    int64_t lease;
    simba__json value;
} etcd_kv;

/* False: no etcd says such a thing. */
bool simba__etcd_read_kv(simba__json json, etcd_kv *ret_kv);
bool simba__etcd_read_header(simba__json answer, uint64_t *ret_revision, uint64_t *ret_term);
/* The keys of the nth answer in a transaction, counting from 0; and whether the page has left some out. */
simba__json simba__etcd_response_kvs(simba__json answer, unsigned nth, bool *ret_more);

/* Does this key contend for the mutex of the folder? */
bool simba__etcd_contends(const char *folder, const char *key);
/* Is it the key of a contender of any mutex, by its form and its lease? Then the mutex is the text before the last slash. */
bool simba__etcd_is_lock(const etcd_kv *kv);
simba_owner simba__etcd_owner(const etcd_kv *kv);

/* What a transaction has shown of a queue. */
typedef struct etcd_sight {
    uint64_t revision; /* of the answer */
    uint64_t own;      /* the create_revision of our key; 0: it is not there */
    uint64_t before;   /* of the contender right before ours; 0: none was found */
    uint64_t rest;     /* keys below this were not seen; 0: all were */
    char before_key[ETCD_KEY_MAX + 1];
    bool has_first; /* enter: the first contender is known */
    etcd_kv first;
} etcd_sight;

bool simba__etcd_read_enter(simba__json answer, const etcd_names *names, etcd_sight *ret_sight);
bool simba__etcd_read_look(simba__json answer, const etcd_names *names, etcd_sight *ret_sight);

/* An error of etcd: a code of gRPC, and its message. */
enum {
    ETCD_INVALID = 3,
    ETCD_NOT_FOUND = 5,
    ETCD_DENIED = 7,
    ETCD_EXHAUSTED = 8,
    ETCD_PRECONDITION = 9,
    ETCD_OUT_OF_RANGE = 11,
    ETCD_UNIMPLEMENTED = 12,
    ETCD_UNAUTHENTICATED = 16,
};
typedef struct etcd_fault {
    int64_t code;
    char text[160];
} etcd_fault;

void simba__etcd_read_fault(simba__json answer, etcd_fault *ret_fault);

/* A note as it is stored: a line "1 TOKEN NUMBER MS" (a version, the token of the grant that wrote it, the number of that write, when),
 * and behind it the bytes. Without bytes there is no note; the line stays, so that a delayed write cannot bring an earlier note back. */
enum { ETCD_STORED_NOTE_MAX = SIMBA_NOTE_MAX + 72 };
typedef struct etcd_note {
    uint64_t token, number; /* 0: nobody has written yet */
    int64_t written_at_ms;
    const char *bytes;
    size_t size;
} etcd_note;

/* False: simba does not write such a note. `bytes` points into `data`. */
bool simba__etcd_note_read(const char *data, size_t length, etcd_note *ret_note);
size_t simba__etcd_note_write(const etcd_note *note, char ret_data[ETCD_STORED_NOTE_MAX]);

/* --- queue.c ------------------------------------------------------------------------------------------------ */

/* Where the key of a contender is. */
typedef enum etcd_place {
    ETCD_NONE,   /* there is none */
    ETCD_UNSURE, /* there may be one: it is being put or deleted, or the answer to that was lost */
    ETCD_WAITS,  /* there is one */
    ETCD_LEADS,  /* there is one, and it is the first */
    ETCD_GONE,   /* it was the first, and somebody took it away */
} etcd_place;

typedef enum etcd_step {
    ETCD_REST,
    ETCD_ENTER,
    ETCD_LOOK,
    ETCD_LEAVE,
} etcd_step;

typedef enum etcd_tell {
    ETCD_TELL_NOTHING,
    ETCD_TELL_LEADS,   /* it leads: MINE, or RELEASED if nobody asks */
    ETCD_TELL_WAITS,   /* it stands in the queue, behind `before` */
    ETCD_TELL_FREED,   /* it had led, and is gone */
    ETCD_TELL_OUT,     /* it is gone, or there was none; without a RELEASE: another one leads, and nobody was to wait */
    ETCD_TELL_REVOKED, /* it leads no more */
    ETCD_TELL_REFUSED, /* the key goes each time that it is put */
} etcd_tell;

typedef struct etcd_move {
    etcd_step step; /* to take now */
    etcd_tell tell;
} etcd_move;

typedef struct etcd_queue {
    etcd_place place;
    etcd_step step;    /* under way */
    bool queue;        /* it is to wait if it does not lead */
    bool leaving;      /* the key must go */
    bool asked;        /* somebody waits for what comes of it */
    bool again;        /* something has happened since the step began */
    bool led;          /* it was the first, and its key has yet to go */
    bool fresh;        /* ENTER: there was no key before */
    uint64_t revision; /* create_revision of the key; 0: not known */
    uint64_t left;     /* a LEAVE of this create_revision was sent: nobody leads by it any more */
    uint64_t below;    /* LOOK: at keys below this create_revision; 0: only at our own */
    unsigned rounds;   /* how often it has entered since somebody asked */
} etcd_queue;

etcd_move simba__etcd_queue_acquire(etcd_queue *q, bool queue);
etcd_move simba__etcd_queue_renew(etcd_queue *q);
etcd_move simba__etcd_queue_release(etcd_queue *q);
/* The contender before it, or its own key, was deleted; or that may have been missed. */
etcd_move simba__etcd_queue_news(etcd_queue *q);
/* The step has its answer; `deleted`: the transaction deleted the key. */
etcd_move simba__etcd_queue_saw(etcd_queue *q, const etcd_sight *sight);
etcd_move simba__etcd_queue_left(etcd_queue *q, bool deleted);
/* The step has none, or an error. `sent`: etcd may have carried it out, or may yet do so. Nothing is under way then; `go` goes on. */
void simba__etcd_queue_lose(etcd_queue *q, bool sent);
etcd_move simba__etcd_queue_go(etcd_queue *q);

/* --- the store ---------------------------------------------------------------------------------------------- */

typedef struct etcd_store etcd_store;
typedef struct etcd_op etcd_op;
typedef struct etcd_contender etcd_contender;

/* --- calls.c ------------------------------------------------------------------------------------------------ */

enum {
    ETCD_CONNECTIONS = 4,
    ETCD_ANSWER_MOST = 4 * 1024 * 1024, /* bytes */
};

/* What came of a call. */
typedef struct etcd_answer {
    int code;         /* 0, or SIMBA_E… */
    bool unsure;      /* an attempt without a clear answer: etcd may have carried it out, or may yet do so */
    etcd_fault fault; /* what etcd said; its text says why in any case */
    int64_t date_s;   /* the server's clock; 0: not known */
    simba__json json;
} etcd_answer;

typedef void etcd_answered(etcd_op *op, const etcd_answer *answer);

/* A procedure: calls one after the other. A call whose answer was lost is sent again, to another server if there is one, so every call
 * must be one that may be carried out twice. */
struct etcd_op {
    simba__http_call call; /* first */
    simba__list_item item; /* of all */
    simba__list_item parked, later;
    simba_local later_at;
    etcd_store *store;
    simba_request *request; /* NULL: there is none, or it has been completed */
    simba__http *http;      /* the connection to use; NULL: any of those for everybody */
    simba__http *by;        /* the one that it was sent by */
    bool expired;           /* nobody waits for the request any more */
    bool stays;             /* it goes on without its request */
    bool calls;             /* a call is under way, or parked */
    bool unsure;            /* as in the answer */
    unsigned tries, log_ins;
    unsigned token_no; /* of the token that it was sent with */
    etcd_answered *answered;
    const char *path;
    simba__buffer body;
    void (*woken)(etcd_op *op); /* see simba__etcd_op_later */
    void (*fini)(etcd_op *op);  /* free its members; may be NULL */
};

typedef struct etcd_calls {
    simba__links links;
    simba__resolver resolver;
    uint8_t order[SIMBA__TARGETS_MAX]; /* of the resolver's targets, shuffled */
    size_t server;                     /* in that order: where new connections go */
    size_t failures;                   /* of connections, since a server answered */
    int64_t connect_ns;                /* how long the last one took to be made; 0: there was none */
    simba__http https[ETCD_CONNECTIONS];
    simba__list ops;
    simba__list parked;    /* their call waits for a token, or for its time */
    simba__list later;     /* they are woken at some time */
    simba_timer timer;     /* of the first of these */
    char *token;           /* NULL: not logged in */
    unsigned token_no;     /* how many tokens etcd has taken back */
    bool no_auth;          /* etcd wants no log-in */
    etcd_op *login;        /* under way */
    simba_local login_at;  /* not before: the latest one has failed */
    char cause[160];       /* of the latest failure */
    char server_name[128]; /* the one that answered last */
} etcd_calls;

int simba__etcd_calls_init(etcd_store *store, simba__tls_context *tls);
/* Fail all requests; then close the connections and call host->closed, now or later. */
void simba__etcd_calls_end(etcd_store *store);
void simba__etcd_calls_close(etcd_store *store);
void simba__etcd_calls_fini(etcd_store *store);
/* The events of every connection. */
extern const simba__http_events simba__etcd_events;
/* How long to wait for a server before another one may do better. */
int64_t simba__etcd_patience_ns(const etcd_store *store);

/* A new procedure of this size. NULL: out of memory, and the request has failed. */
void *simba__etcd_op_new(etcd_store *store, size_t size, simba_request *request);
void simba__etcd_op_take(etcd_op *op, simba_request *request);
void simba__etcd_op_end(etcd_op *op);
/* Call op->woken in a while, or sooner if that was asked for before. If a call waits then, it is made instead. */
void simba__etcd_op_later(etcd_op *op, int64_t ms);
/* Make a call: op->body has what to send. The procedure may have ended when this returns. */
void simba__etcd_call(etcd_op *op, const char *path, etcd_answered *answered);
/* Nobody waits for its answer any more. */
void simba__etcd_call_drop(etcd_op *op);
void simba__etcd_expire(void *instance, simba_request *request);

/* Answer the request, if there is one; `finish` also ends the procedure. */
void simba__etcd_complete(etcd_op *op, simba_outcome outcome, const simba_owner *owner);
void simba__etcd_fail(etcd_op *op, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void simba__etcd_finish(etcd_op *op, simba_outcome outcome, const simba_owner *owner);
/* False: there is an error, and the procedure has ended with it. */
bool simba__etcd_good(etcd_op *op, const etcd_answer *answer);
void simba__etcd_malformed(etcd_op *op);
int64_t simba__etcd_now_ms(const etcd_store *store);
/* Is there a token, or no need of one? Otherwise asks for one; simba__etcd_stream_flush follows when there is. */
bool simba__etcd_is_logged_in(etcd_store *store);
/* Does etcd refuse the token, or want one? Then the token of this number is forgotten, if it still counts. */
bool simba__etcd_refuses_token(etcd_store *store, int status, const etcd_fault *fault, unsigned token_no);
/* This server answers with errors: what begins from now on goes to the next one. */
void simba__etcd_turn_from(etcd_store *store, simba__http *http);
/* Does it go to another server than new connections do? */
bool simba__etcd_is_elsewhere(const etcd_store *store, const simba__http *http);

/* --- session.c ---------------------------------------------------------------------------------------------- */

typedef struct etcd_session {
    simba__http http;
    etcd_op *op; /* asks what liveness.h says */
    etcd_op *sweep;
    etcd_liveness live;
    simba_timer timer;
    int64_t lease; /* 0: nobody has needed one yet */
    bool leased;   /* contenders know of it */
    bool anew;     /* a lease has ended, and there was none since */
    bool closing;
    simba_local doubts; /* until then, look for keys of this lease that no contender knows */
} etcd_session;

int simba__etcd_session_init(etcd_store *store);
/* A contender needs a lease. */
void simba__etcd_session_want(etcd_store *store);
/* A key may have been put whose contender does not know of it. */
void simba__etcd_session_doubt(etcd_store *store);
/* Has the lease ended? Ask now. */
void simba__etcd_session_ask(etcd_store *store);
/* etcd says that there is no such lease. */
void simba__etcd_session_end(etcd_store *store);
/* Revoke the lease, then close all connections: host->closed follows. */
void simba__etcd_session_close(void *instance);

/* --- watch.c ------------------------------------------------------------------------------------------------ */

/* Somebody wants to hear of changes. A member of its owner. */
typedef struct etcd_watch etcd_watch;
struct etcd_watch {
    simba__list_item item; /* of all; in no list: not set */
    simba__node node;      /* by its number */
    const char *key;
    bool folder;   /* all keys that begin with it */
    bool puts;     /* tell of puts, too */
    int64_t id;    /* its number, which is never used again */
    uint64_t from; /* the revision to begin with */
    /* Something has changed; or changes were missed. The watch goes on. */
    void (*fired)(etcd_watch *watch, bool missed);
};

typedef struct etcd_stream {
    simba__http http;
    simba__http_call call;
    simba__list watches;
    simba__table by_id;
    simba_timer timer;
    int64_t last_id;
    bool open;         /* the call is under way */
    unsigned token_no; /* as that of a call */
} etcd_stream;

int simba__etcd_stream_init(etcd_store *store);
/* False: out of memory. */
bool simba__etcd_watch_set(etcd_store *store, etcd_watch *watch, const char *key, uint64_t from);
void simba__etcd_watch_clear(etcd_store *store, etcd_watch *watch);
void simba__etcd_stream_flush(etcd_store *store);
void simba__etcd_stream_close(etcd_store *store);
void simba__etcd_stream_fini(etcd_store *store);

/* --- contend.c ---------------------------------------------------------------------------------------------- */

/* A contender: its queue, and what is around it. It stays in the table until its key is known to be gone, or the lease is over. */
struct etcd_contender {
    etcd_op op; /* first */
    simba__node node;
    simba__list_item waiting; /* for a lease; or for the session to say why its key is gone */
    uint64_t nonce;
    char *mutex, *id;
    etcd_names names;
    etcd_queue queue;
    etcd_watch before, own;
    char before_key[ETCD_KEY_MAX + 1];
    simba_owner owner; /* the leader, as far as is known */
    uint64_t revision; /* of the latest answer */
};

void simba__etcd_acquire(etcd_store *store, simba_request *request);
void simba__etcd_renew(etcd_store *store, simba_request *request);
void simba__etcd_release(etcd_store *store, simba_request *request);
/* There is a lease; there can be none for now; the lease is alive: who was removed was removed. */
void simba__etcd_contenders_leased(etcd_store *store);
void simba__etcd_contenders_unavailable(etcd_store *store, int code, const char *why);
void simba__etcd_contenders_removed(etcd_store *store);
void simba__etcd_contenders_drop(etcd_store *store);
etcd_contender *simba__etcd_contender_find(etcd_store *store, const simba_request *request);
bool simba__etcd_holds(const etcd_contender *c, const simba_request *request);
/* Does some contender of this client have this key? */
bool simba__etcd_is_ours(const etcd_store *store, const char *key);

/* --- look.c, list.c, notes.c, examine.c --------------------------------------------------------------------- */

void simba__etcd_look(etcd_store *store, simba_request *request);
void simba__etcd_forget(etcd_store *store, simba_request *request);
int simba__etcd_observe(void *instance, simba_watch *shown);
void simba__etcd_unobserve(void *instance, simba_watch *shown);
void simba__etcd_list(etcd_store *store, simba_request *request);
void simba__etcd_write_note(etcd_store *store, simba_request *request);
void simba__etcd_read_note(etcd_store *store, simba_request *request);
void simba__etcd_examine(etcd_store *store, simba_request *request);

/* --- store.c ------------------------------------------------------------------------------------------------ */

struct etcd_store {
    simba_host *host;
    etcd_options options;
    etcd_calls calls;
    etcd_session session;
    etcd_stream stream;
    simba__table contenders; /* by nonce */
    simba__list unleased;    /* contenders that wait for a lease */
    simba__list removed;     /* contenders whose holder asks why the key is gone */
    bool closing;
};

extern const simba_backend simba__backend_etcd;

#endif
