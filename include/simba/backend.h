/* The contract between simba and a store.
 *
 * Threads. A client works in turns. A turn is a stretch of code that holds the client's turn lock: at any moment at
 * most one thread is in a turn of a given client. Every function of the table except `init` and `fini` is called in a
 * turn, on whatever thread runs it: no thread is special. Every function of the host table must be called in a turn too,
 * except those marked "any thread". No function of the host table calls back into the back end before it returns. A turn
 * must not block: what may block is a job (host->work).
 *
 * Completion. Every request that was submitted completes exactly once, by host->complete or host->fail. Completing may
 * happen inside `submit`: it only queues, and the runtime looks at the queue after the call has returned. The runtime keeps
 * the deadlines: when the time of a request is over it calls `cancel`. A store need not watch them. It may look at them, to
 * bound what it asks of a server. "Somebody else owns it" is an outcome, never an error. An error means: whether it was
 * carried out is not known. `text` of an error names the store and the cause, never a password. The runtime checks every
 * reply: a grant or renewal (MINE) that does not name the request's id, has no token, has another token than the one to be
 * renewed, or has a lease that is over at the reply's own now_ms, becomes an error.
 *
 * Memory. The runtime allocates the instance (`instance_size`, zeroed) and frees it after `fini`; a back end frees
 * only what it made. A request and all it points to belong to the runtime and stay put until completion. A topic
 * stays put from `watch` until `unwatch` has returned. `fini` is called exactly once, also after a failed `init`.
 *
 * Time and randomness come from the host, so that a simulator can supply them.
 *
 * What a store has to do with the operations (see also src/core/row.h, which row-like stores share):
 *   ACQUIRE        free, or the lease has ended: grant it under a token greater than any before.
 *                  Held under this id and nonce: MINE with the same token, the lease extended (the reply to an earlier
 *                  acquire was lost). Otherwise NOT_MINE and the owner.
 *   RENEW          extends only a live grant of this id, nonce and token, and never changes the token.
 *                  REVOKED when the grant was forced away, NOT_MINE otherwise.
 *   RELEASE        ends a grant of this id and nonce (and token, if that is not 0), and leaves any queue of waiters.
 *                  MINE when there was one, REVOKED when it was forced away, NOT_MINE otherwise.
 *   READ           the owner.
 *   LIST           every mutex whose name matches `mutex`, a shell pattern or NULL, through host->listed.
 *   FORCE_RELEASE  ends any grant. MINE when there was one, NOT_MINE when nobody owned it.
 *   WRITE_NOTE     replaces the note of the mutex by `note`, `note_size` bytes; 0 bytes remove it. One atomic step both checks
 *                  and writes: the grant of this id, nonce and token is live, and no later write of this grant (greater
 *                  note_number) was carried out before. MINE when written, REVOKED when the grant was forced away,
 *                  NOT_MINE otherwise. The store keeps token, note_number and the time with the note. The lease, the token
 *                  and the owner stay as they are.
 *   READ_NOTE      the note, through host->noted. Without one, host->noted is not called.
 *   FORGET         removes a mutex that nobody owns, with its note and all else that belongs to it. MINE when removed;
 *                  NOT_MINE when somebody owns it (the reply says who) or when the store does not know it. The tokens of
 *                  later grants must be greater all the same: a store keeps the greatest token that it has forgotten, or
 *                  makes tokens from a clock and refuses (SIMBA_ESTORE) while that clock is behind the mutex's token.
 *
 * Notes (SIMBA_CAP_NOTE). A note has up to SIMBA_NOTE_MAX bytes of any value. It outlives releases, the ends of leases and
 * sessions, and changes of hands. After every write, and after a FORGET that removed a note, the store pushes NOTED to whoever
 * watches the mutex, on every client; a store that cannot tell pushes CHANGED. Whenever pushes may have been lost, the store
 * pushes CHANGED anyway, so nobody misses a note for ever. now_ms of replies to WRITE_NOTE and READ_NOTE is the store's wall
 * clock, in milliseconds since 1970, as is the time of writing; a store without a clock takes host->epoch_us. A store whose
 * data has no room for notes yet fails the request with SIMBA_ENOTSUP, in words that say that `simba init` makes room.
 *
 *   EXAMINE        how the store is set up, through host->found. Changes nothing.
 *   PREPARE        makes what is missing in the store and leaves alone what exists.
 *
 * Sessions (SIMBA_CAP_SESSION). A grant belongs to the session that made it: what an earlier session of ours has left
 * under the same nonce is not MINE. What a session did not answer while it lasted fails when it is over. A session that was
 * reported lost is not taken up again. Nothing is renewed, so a holder is told when its grant is forced away.
 */
#ifndef SIMBA_BACKEND_H
#define SIMBA_BACKEND_H

#include <simba.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMBA_BACKEND_VERSION 4

/* A point on this host's boot-time clock, which counts suspended time and never steps. A type of its own, so that the
 * compiler refuses to mix it with the store's clock. */
typedef struct simba_local {
    int64_t ns;
} simba_local;

typedef enum simba_op {
    SIMBA_OP_ACQUIRE,
    SIMBA_OP_RENEW,
    SIMBA_OP_RELEASE,
    SIMBA_OP_READ,
    SIMBA_OP_LIST,
    SIMBA_OP_FORCE_RELEASE,
    SIMBA_OP_EXAMINE,
    SIMBA_OP_PREPARE,
    SIMBA_OP_WRITE_NOTE,
    SIMBA_OP_READ_NOTE,
    SIMBA_OP_FORGET,
} simba_op;

typedef enum simba_outcome {
    SIMBA_NOT_MINE, /* somebody else's, nobody's, or no longer mine */
    SIMBA_MINE,     /* granted, renewed, released, written, forgotten as asked */
    SIMBA_REVOKED,  /* RENEW, RELEASE, WRITE_NOTE: it was forced away from us */
} simba_outcome;

typedef struct simba_reply {
    int status; /* 0, or a negative SIMBA_E… code and then nothing below counts */
    simba_outcome outcome;
    simba_owner owner; /* after the operation; zeroes for nobody. token is that of the grant */
    int64_t now_ms;    /* the store's clock, on the same scale as the owner's times */
    int64_t place;     /* ACQUIRE that has to wait: how many come before it, plus one; 0: the store does not know */
} simba_reply;

typedef struct simba_request simba_request;
struct simba_request {
    /* Filled in by the runtime. */
    simba_op op;
    bool queue;          /* ACQUIRE: the contender is going to wait if it does not win */
    unsigned char stage; /* the runtime's */
    const char *mutex;   /* LIST: the pattern, or NULL; EXAMINE, PREPARE: NULL */
    const char *id;
    uint64_t nonce;
    uint64_t token;
    int64_t ttl_ms;
    int64_t transition_ms;
    const void *note;     /* WRITE_NOTE: the bytes; NULL if there are none */
    size_t note_size;     /* at most SIMBA_NOTE_MAX */
    uint64_t note_number; /* WRITE_NOTE: grows from write to write of a grant, from 1 on */
    simba_local deadline;

    /* Filled in by the back end, or by host->fail. */
    simba_reply reply;

    /* The back end's to use while it has the request. */
    simba_request *next;
    void *backend_data;

    /* The runtime's. */
    void (*done)(simba_request *request);
    simba_error *err;
    simba_note *ret_note; /* where host->noted puts it */
    simba_request *queue_next, *queue_prev, *queue_child;
};

/* A mutex that somebody here waits for or observes. */
typedef struct simba_topic {
    const char *mutex;
    void *backend_data;
    /* Somebody wants to hear of every change at once. Otherwise a release that is ours to take is told at once, and it does if
     * the rest is told within a second. */
    bool every;
} simba_topic;

/* A note as a store has it. */
typedef struct simba_stored_note {
    const void *bytes;
    size_t size;
    uint64_t token;        /* of the grant under which it was written */
    int64_t written_at_ms; /* on the store's wall clock */
} simba_stored_note;

typedef enum simba_push_kind {
    SIMBA_PUSH_CHANGED,  /* something may have changed; owner unknown */
    SIMBA_PUSH_RELEASED, /* free now: try */
    SIMBA_PUSH_ACQUIRED, /* `owner` has it */
    SIMBA_PUSH_FREED,    /* free now, and another waiter was invited: for observers. owner.token is that of its end */
    SIMBA_PUSH_SESSION_LOST, /* the session has ended, and with it all that it held; topic NULL: for all of the client */
    SIMBA_PUSH_SESSION_BACK, /* there is another one: whoever waits enters anew; topic NULL */
    SIMBA_PUSH_NOTED,        /* the note is another one; the owner is as it was */
} simba_push_kind;

typedef struct simba_push {
    simba_push_kind kind;
    simba_owner owner; /* ACQUIRED; FREED: its token, or 0 */
    int64_t now_ms;    /* ACQUIRED: the store's clock */
} simba_push;

/* How long may a job take, and so, whom may it keep? A thread that has a time limit, or that can be called off, cannot be got
 * out of a job. */
typedef enum simba_job_length {
    SIMBA_JOB_BRIEF = -1,  /* some 10 ms, whoever else has to be waited for: for any thread that waits for it */
    SIMBA_JOB_LONG = 0,    /* as long as its requests have: for threads that wait without a limit */
    SIMBA_JOB_PATIENT = 1, /* longer than that: for worker threads only */
} simba_job_length;

/* Work that may block. `run` is called outside any turn, on a worker thread or on a thread of the application that waits
 * for the outcome; `done` in a turn after it. The back end owns the job and leaves it alone in between. */
typedef struct simba_job simba_job;
struct simba_job {
    void (*run)(simba_job *job);
    void (*done)(simba_job *job);
    simba_job_length length;
    simba_job *next;
};

/* A descriptor that the runtime waits for, on whatever thread: in the best case the one that waits for the answer. */
enum { SIMBA_READABLE = 1 << 0, SIMBA_WRITABLE = 1 << 1 };
typedef struct simba_io simba_io;
struct simba_io {
    /* In a turn: `events` of those that were asked for have come about, or an error has. Each is reported once, and then
     * again only when more has come: go on until the descriptor would block, and do not block. There may be nothing. */
    void (*ready)(simba_io *io, unsigned events);
    int fd;
    unsigned interest; /* SIMBA_READABLE, SIMBA_WRITABLE: as at first, and then as set by io_change */
    bool answers;      /* answers to requests come here, so who waits for one is to read it itself */

    /* The runtime's. */
    simba_io *next;
    unsigned looked;
};

typedef struct simba_timer simba_timer;
struct simba_timer {
    void (*fire)(simba_timer *timer, simba_local now); /* in a turn */
    simba_local at;
    size_t index; /* 0: not set */
};

/* What the runtime offers a back end. */
typedef struct simba_host simba_host;
struct simba_host {
    unsigned workers; /* how many threads there will be for `work`; `init` may change it */

    simba_local (*now)(simba_host *host);  /* any thread */
    int64_t (*epoch_us)(simba_host *host); /* any thread; wall clock, for people and as a floor for tokens */
    uint64_t (*random)(simba_host *host);  /* any thread */
    void (*log)(simba_host *host, simba_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

    void (*complete)(simba_host *host, simba_request *request);
    void (*fail)(simba_host *host, simba_request *request, int code, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
    /* One row of a LIST, before it completes. Negative (SIMBA_ENOMEM): fail the request with that. */
    int (*listed)(simba_host *host, simba_request *request, const simba_listing *row);
    /* One finding of an EXAMINE, likewise. */
    int (*found)(simba_host *host, simba_request *request, const simba_finding *finding);
    /* The note, before a READ_NOTE completes, at most once. Negative (SIMBA_ECORRUPT: no note can be that long): fail the
     * request with that. */
    int (*noted)(simba_host *host, simba_request *request, const simba_stored_note *note);
    void (*push)(simba_host *host, simba_topic *topic, const simba_push *push);
    /* To the contender of this nonce alone, watched or not. If there is none, nothing happens. */
    void (*push_to)(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push);

    /* Session stores: the session lives, and the store keeps it for `ms` after `from`, a moment before which the store
     * cannot have begun to count. */
    void (*session)(simba_host *host, simba_local from, int64_t ms);

    /* Have `woken` called in a turn soon. Any thread; several calls may lead to one. */
    void (*wake)(simba_host *host);
    void (*work)(simba_host *host, simba_job *job);
    /* A timer is registered once and for all, in `init` or later, so that setting it cannot fail. SIMBA_ENOMEM. */
    int (*timer_add)(simba_host *host, simba_timer *timer);
    void (*timer_set)(simba_host *host, simba_timer *timer, simba_local at);
    void (*timer_clear)(simba_host *host, simba_timer *timer);

    /* SIMBA_ENOMEM, SIMBA_ESYSTEM. It stays put until it is removed, which is before its descriptor is closed; where a library
     * has closed that already, `fd` is set to -1 first.
     * Removing one that is not there does nothing. What is there already when it is added, or when its interest is
     * changed, is reported too. */
    int (*io_add)(simba_host *host, simba_io *io);
    int (*io_change)(simba_host *host, simba_io *io, unsigned interest);
    void (*io_remove)(simba_host *host, simba_io *io);

    /* `close` is over: nothing of the back end will run any more. */
    void (*closed)(simba_host *host);
};

/* A parsed URL. Nothing in it is percent-encoded any more. */
typedef struct simba_url simba_url;

/* Read a URL, and free what came of it. Any thread.
 * Errors: EURL (the text shows no password), ENOMEM. */
SIMBA_API int simba_url_parse(const char *text, simba_error *err, simba_url **ret_url);
SIMBA_API void simba_url_free(simba_url *url);

/* The parts of a URL. They live as long as the URL. NULL stands for a user, a password or a key that is not given;
 * the authority, "h1:1,h2:2" for instance, and the path with its leading slash are "" then. simba_url_shown is the URL as
 * it was written, with *** for the password. Any thread. */
SIMBA_API const char *simba_url_scheme(const simba_url *url);
SIMBA_API const char *simba_url_user(const simba_url *url);
SIMBA_API const char *simba_url_password(const simba_url *url);
SIMBA_API const char *simba_url_authority(const simba_url *url);
SIMBA_API const char *simba_url_path(const simba_url *url);
SIMBA_API const char *simba_url_query(const simba_url *url, const char *key);
SIMBA_API const char *simba_url_shown(const simba_url *url);

/* Where leases are sessions, ttl and transition do not apply and nothing is renewed. Every waiter has its own place in the
 * store's line, so contenders are told by push_to, and `watch` is for observers alone. The times at which an owner's lease
 * ends are INT64_MAX. A RELEASE is carried out in the end if the session lives, also after it has failed: unlike a lease, a
 * session goes on for the others that have to do with it. */
enum {
    SIMBA_CAP_PUSH = 1 << 0,          /* a release is pushed to waiters */
    SIMBA_CAP_PUSH_EVERY = 1 << 1,    /* observers see every single change */
    SIMBA_CAP_SESSION = 1 << 2,       /* leases are sessions, see above */
    SIMBA_CAP_STORE_CLOCK = 1 << 3,   /* leases are judged on a clock of the store */
    SIMBA_CAP_QUEUE = 1 << 4,         /* a waiter leaves something in the store and has to RELEASE it */
    SIMBA_CAP_WATCH_FREE = 1 << 5,    /* watching costs nothing: watch also what we hold, to learn of a revocation */
    SIMBA_CAP_LIST = 1 << 6,          /* LIST and FORCE_RELEASE work */
    SIMBA_CAP_EXAMINE = 1 << 7,       /* EXAMINE works */
    SIMBA_CAP_PREPARE = 1 << 8,       /* PREPARE works: opening the store does not make everything by itself */
    SIMBA_CAP_HOST_ONLY = 1 << 9,     /* only processes of this host can use it */
    SIMBA_CAP_PROCESS_ONLY = 1 << 10, /* nobody outside of this process can */
    SIMBA_CAP_NOTE = 1 << 11,         /* WRITE_NOTE, READ_NOTE and FORGET work */
};

typedef struct simba_backend {
    size_t size;                /* sizeof(simba_backend) */
    unsigned version;           /* SIMBA_BACKEND_VERSION */
    const char *const *schemes; /* of its URLs, ended by NULL */
    const char *const *keys;    /* query keys it understands besides the common ones, ended by NULL */
    size_t instance_size;
    unsigned caps;
    unsigned workers; /* threads for host->work, see there */

    /* On the thread that opens the client, in no turn and before there are any; may block. */
    int (*init)(void *self, simba_host *host, const simba_url *url, simba_error *err);
    void (*submit)(void *self, simba_request *request);
    /* The time of this request, which was submitted and not completed, is over. Let go of it and fail it before you return,
     * with SIMBA_ETIMEDOUT or with a code that says better what is wrong, in words that say what it waited for. What is under
     * way at the server may go on; its answer is dropped. */
    void (*cancel)(void *self, simba_request *request);
    /* The turn is over: send what was submitted, in one go. */
    void (*flush)(void *self);
    /* Push changes of this mutex from now on. After it has taken effect push CHANGED once, unless changes are judged
     * against a state as old as the oldest answer that any contender of this client may still go by (they may have been
     * told different ones). When in doubt, push. An error means no pushes: timers alone will do. */
    int (*watch)(void *self, simba_topic *topic);
    void (*unwatch)(void *self, simba_topic *topic);
    void (*woken)(void *self);
    /* Complete what is outstanding, remove every descriptor, clear every timer, then call host->closed, now or later. Nothing is
     * submitted after this. */
    void (*close)(void *self);
    /* After the client's threads have ended. */
    void (*fini)(void *self);
    /* May be NULL: can a mutex have this name, which is a good one by our own rules, in a store of this URL? Otherwise
     * SIMBA_EINVAL and a sentence. Any thread, in a turn or not. */
    int (*accepts)(const simba_url *url, const char *mutex, simba_error *err);
    /* With SIMBA_CAP_SESSION, after init: how long a session is asked to last, in ms. */
    int64_t (*session_ms)(void *self);
    /* May be NULL: which of several servers it is that answers, for people; "": the URL says it. In a turn. */
    const char *(*server)(void *self);
    /* May be NULL: `every` of a topic that is watched is not as it was. */
    void (*every_changed)(void *self, simba_topic *topic);
} simba_backend;

/* Add a store of your own, for simba_client_open. The table is copied; what it points to must live for ever. Any thread.
 * SIMBA_EINVAL: wrong version or size, or an incomplete table; SIMBA_ESTATE: the scheme is taken, or there are too many. */
SIMBA_API int simba_backend_register(const simba_backend *backend);
/* By scheme; NULL: not known. Any thread. */
SIMBA_API const simba_backend *simba_backend_find(const char *scheme);

#ifdef __cplusplus
}
#endif
#endif
