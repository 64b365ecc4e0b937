/* The contract between simba and a store.
 *
 * Threads. Everything of a client is guarded by its one lock. The client calls every function of the table except `init`, `fini`
 * and `accepts` under that lock, on any thread. A back end must call the functions of the host table under it too, except
 * those marked "any thread". No function of the host table calls back into the back end before it returns. Nothing may block
 * under the lock: do work that may block in a job (host->work).
 *
 * Requests. The client hands over as many requests as the table's `window` allows, and keeps the others: so a store that is
 * handed a request sends it with the next `flush`, and keeps no queue of its own. The back end completes every request
 * exactly once, by host->complete or host->fail, also inside `submit`; the request is gone as soon as either is called. The
 * client keeps the deadlines. When the time of a request is over it calls `expire`, and nobody waits for the answer any
 * more; but the request keeps its place in the window until the back end completes it, because its server may still be
 * working on it: otherwise an overload would feed itself. "Somebody else owns it" is an outcome, never an error. An error
 * means that nobody knows whether the store carried the request out. `text` of an error names the store and the cause, never a
 * password. The client checks every reply. It turns a grant or renewal (MINE) into an error if the reply does not name the
 * request's id, has no token, has another token than the one to be renewed, or has a lease that is over at the reply's
 * own now_ms.
 *
 * Memory. The client allocates the instance (`instance_size`, zeroed) and frees it after `fini`; a back end frees
 * only what it made. A request and all it points to belong to the client and stay put until completion. A watch
 * stays put from `watch` until `unwatch` has returned. The client calls `fini` exactly once, also after a failed `init`.
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
 *   LIST           every mutex whose name matches `mutex`, a shell pattern or NULL, through host->listed. A store that knows
 *                  how many wait also names the first of them.
 *   FORCE_RELEASE  ends any grant. MINE when there was one, NOT_MINE when nobody owned it.
 *   WRITE_NOTE     replaces the note of the mutex by `note`, `note_size` bytes; 0 bytes remove it. One atomic step both checks
 *                  and writes: the grant of this id, nonce and token is live, and no later write of this grant (greater
 *                  note_number) was carried out before. MINE when written, REVOKED when the grant was forced away,
 *                  NOT_MINE otherwise. The store keeps token, note_number and the time with the note. The lease, the token
 *                  and the owner stay as they are.
 *   READ_NOTE      the note, through host->noted. Without one, host->noted is not called.
 *   FORGET         removes a mutex that nobody owns, together with its note. MINE when removed;
 *                  NOT_MINE when somebody owns it (the reply says who) or when the store does not know it. The tokens of
 *                  later grants must be greater anyway: a store keeps the greatest token that it has forgotten, or
 *                  makes tokens from a clock and refuses (SIMBA_ESTORE) while that clock is behind the mutex's token.
 *
 * Notes (SIMBA_CAP_NOTE). A note has up to SIMBA_NOTE_MAX bytes of any value. It survives releases, the ends of leases and
 * sessions, and changes of owner. After every write, and after a FORGET that removed a note, the store pushes NOTED to all
 * watchers of the mutex, on every client. A store that cannot tell notes from other changes pushes CHANGED. Whenever pushes
 * may have been lost, the store pushes CHANGED anyway, so every watcher learns of a note in the end. In replies to
 * WRITE_NOTE and READ_NOTE, now_ms is the store's wall clock in milliseconds since 1970, and so is the time of writing; a
 * store without a clock uses host->epoch_us. If the stored data has no room for notes yet, the store fails the request with
 * SIMBA_ENOTSUP and a text that says that `simba init` makes room.
 *
 *   EXAMINE        how the store is set up, through host->found. Changes nothing.
 *   PREPARE        creates what is missing in the store and leaves alone what exists, but for rights that the URL names.
 *
 * Sessions (SIMBA_CAP_SESSION). A grant belongs to the session that made it: a grant that an earlier session left under the
 * same nonce is not MINE. When a session ends, the store fails every request that is still outstanding. A session that was
 * reported lost is never used again. Nothing is renewed, so the store must push to a holder whose grant is forced away.
 */
#ifndef SIMBA_BACKEND_H
#define SIMBA_BACKEND_H

#include <simba.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMBA_BACKEND_VERSION 5

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
    int status; /* 0; or a negative SIMBA_E… code, and then the members below mean nothing */
    simba_outcome outcome;
    simba_owner owner; /* after the operation; zeroes for nobody. token is that of the grant */
    int64_t now_ms;    /* the store's clock, on the same scale as the owner's times */
    int64_t place;     /* ACQUIRE that must wait: its place in the queue, from 1 on; 0: the store does not know */
} simba_reply;

typedef struct simba_request simba_request;
struct simba_request {
    /* Filled in by the client. */
    simba_op op;
    bool queue;        /* ACQUIRE: the contender will wait if it does not win */
    const char *mutex; /* LIST: the pattern, or NULL; EXAMINE, PREPARE: NULL */
    const char *id;
    uint64_t nonce;
    uint64_t token;
    int64_t ttl_ms;
    int64_t transition_ms;
    const void *note;     /* WRITE_NOTE: the bytes; NULL if there are none */
    size_t note_size;     /* at most SIMBA_NOTE_MAX */
    uint64_t note_number; /* WRITE_NOTE: counts the writes of a grant, from 1 on */
    simba_local deadline; /* when the client gives the answer up and calls `expire` */

    /* Filled in by the back end. */
    simba_reply reply;

    /* For the back end's own use while it has the request. */
    simba_request *next;
    void *backend_data;
};

/* A mutex that somebody in this client waits for or observes. */
typedef struct simba_watch {
    const char *mutex;
    void *backend_data;
    /* Somebody wants to hear of every change at once: an observer, or a contender that reports changes. Otherwise a release that
     * is ours to take is told at once, and it does if the rest is told within a second. Stays as it is while it is watched. */
    bool observed;
} simba_watch;

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
    SIMBA_PUSH_FREED, /* free now, but the store invited another waiter: tells observers. owner.token: of the ended grant */
    SIMBA_PUSH_SESSION_LOST, /* the session has ended, and all its grants with it; watch NULL: concerns the whole client */
    SIMBA_PUSH_SESSION_BACK, /* there is a new session, or an empty queue: every waiter enters anew; watch NULL */
    SIMBA_PUSH_NOTED,        /* the note has changed; the owner has not */
} simba_push_kind;

typedef struct simba_push {
    simba_push_kind kind;
    simba_owner owner; /* ACQUIRED; FREED: the token of the ended grant, or 0 */
    int64_t now_ms;    /* ACQUIRED: the store's clock */
} simba_push;

/* Work that may block. The client calls `run` without the lock, on a thread of its own or on one of the application that waits
 * for the outcome, and then `done` under the lock. The back end owns the job and leaves it alone in between. `run` returns
 * true when the work is done. If it cannot be sure to be done soon after `until`, it returns false, at once or then, having
 * left everything so that `run` can be called again: a thread of the client's own then does so, with an `until` of
 * INT64_MAX, for which the answer must be true. */
typedef struct simba_job simba_job;
struct simba_job {
    bool (*run)(simba_job *job, simba_local until);
    void (*done)(simba_job *job);
    simba_job *next; /* the client's */
};

/* A descriptor that the client waits for. */
enum {
    SIMBA_READABLE = 1 << 0,
    SIMBA_WRITABLE = 1 << 1,
};
typedef struct simba_io simba_io;
struct simba_io {
    /* Under the lock: some of the `events` asked for have happened, or an error has. The client reports an event again as long
     * as it lasts. There may be nothing; do not block. */
    void (*ready)(simba_io *io, unsigned events);
    int fd;
    unsigned interest; /* SIMBA_READABLE, …: the initial value; io_change changes it later */

    simba_io *next; /* the client's */
};

typedef struct simba_timer simba_timer;
struct simba_timer {
    void (*fire)(simba_timer *timer, simba_local now); /* under the lock */
    simba_local at;
    size_t index; /* 0: not set */
};

/* What the client offers a back end. */
typedef struct simba_host simba_host;
struct simba_host {
    unsigned workers; /* how many threads will run jobs of `work`; `init` may change it */

    simba_local (*now)(simba_host *host);  /* any thread */
    int64_t (*epoch_us)(simba_host *host); /* any thread; wall clock, to show to people and as a floor for tokens */
    uint64_t (*random)(simba_host *host);  /* any thread */
    void (*log)(simba_host *host, simba_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
    /* The server does not keep what it acknowledges: if it restarts, two may hold one mutex. The text says which server, why,
     * and what to change. The client warns of it once; later calls do nothing. */
    void (*forgets)(simba_host *host, const char *format, ...) __attribute__((format(printf, 2, 3)));

    void (*complete)(simba_host *host, simba_request *request);
    void (*fail)(simba_host *host, simba_request *request, int code, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
    /* One row of a LIST, before it completes. If it returns a negative code (SIMBA_ENOMEM), fail the request with it. */
    int (*listed)(simba_host *host, simba_request *request, const simba_listing *row);
    /* One finding of an EXAMINE, likewise. */
    int (*found)(simba_host *host, simba_request *request, const simba_finding *finding);
    /* The note, before a READ_NOTE completes, at most once. If it returns a negative code (SIMBA_ECORRUPT: too long for a
     * note), fail the request with it. */
    int (*noted)(simba_host *host, simba_request *request, const simba_stored_note *note);
    void (*push)(simba_host *host, simba_watch *watch, const simba_push *push);
    /* Only to the contender of this nonce, whether the mutex is watched or not. Does nothing if there is no such contender. */
    void (*push_to)(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push);

    /* Session stores: the session lives, and the store keeps it for `ms` after `from`. The store must not have begun to
     * count before `from`. */
    void (*session)(simba_host *host, simba_local from, int64_t ms);

    /* Have `woken` called soon, under the lock. Any thread; one call of `woken` may answer several of these. */
    void (*wake)(simba_host *host);
    void (*work)(simba_host *host, simba_job *job);
    /* Register a timer once, in `init` or later, so that setting it cannot fail. SIMBA_ENOMEM. */
    int (*timer_add)(simba_host *host, simba_timer *timer);
    void (*timer_set)(simba_host *host, simba_timer *timer, simba_local at);
    void (*timer_clear)(simba_host *host, simba_timer *timer);

    /* SIMBA_ENOMEM, SIMBA_ESYSTEM. The io stays put until the back end removes it. Remove it before you close its descriptor;
     * if a library has closed the descriptor already, set `fd` to -1 first. Removing an io that was not added does nothing.
     * The client also reports events that are already there when you add an io or change its interest. */
    int (*io_add)(simba_host *host, simba_io *io);
    int (*io_change)(simba_host *host, simba_io *io, unsigned interest);
    void (*io_remove)(simba_host *host, simba_io *io);

    /* `close` is complete: no code of the back end will run any more. */
    void (*closed)(simba_host *host);
};

/* A parsed URL. All percent-encoding is already decoded. */
typedef struct simba_url simba_url;

/* Read a URL into its parts, and free them. Any thread.
 * Errors: EURL (the text shows no password), ENOMEM. */
SIMBA_API int simba_url_parse(const char *text, simba_error *err, simba_url **ret_url);
SIMBA_API void simba_url_free(simba_url *url);

/* The parts of a URL. They live as long as the URL. A user, password or key that is not given is NULL; a missing authority
 * (such as "h1:1,h2:2") or path (with its leading slash) is "". simba_url_shown is the URL as it was written, with *** for
 * the password. Any thread. */
SIMBA_API const char *simba_url_scheme(const simba_url *url);
SIMBA_API const char *simba_url_user(const simba_url *url);
SIMBA_API const char *simba_url_password(const simba_url *url);
SIMBA_API const char *simba_url_authority(const simba_url *url);
SIMBA_API const char *simba_url_path(const simba_url *url);
SIMBA_API const char *simba_url_query(const simba_url *url, const char *key);
SIMBA_API const char *simba_url_shown(const simba_url *url);

/* Where every waiter has its own place in the store's queue (SIMBA_CAP_CALLS), the store tells a contender by push_to: RELEASED
 * when it is invited, CHANGED when it should ask again, or when its grant was forced away. The client then watches a mutex
 * only for observers, and for contenders with on_changed or on_noted.
 * Where leases are sessions (SIMBA_CAP_SESSION), ttl and transition do not apply and nothing is renewed. The times at which
 * an owner's lease ends are INT64_MAX. The store carries out a RELEASE in the end if the session lives, even after the
 * request has failed: unlike a lease, the session goes on, because other contenders use it. */
enum {
    SIMBA_CAP_PUSH = 1 << 0,          /* the store pushes a release to waiters */
    SIMBA_CAP_PUSH_EVERY = 1 << 1,    /* observers see every single change */
    SIMBA_CAP_SESSION = 1 << 2,       /* leases are sessions, see above */
    SIMBA_CAP_STORE_CLOCK = 1 << 3,   /* the store judges leases by a clock of its own */
    SIMBA_CAP_QUEUE = 1 << 4,         /* a waiter leaves an entry in the store and must RELEASE it */
    SIMBA_CAP_WATCH_FREE = 1 << 5,    /* watching costs nothing: also watch held mutexes, to learn of a revocation */
    SIMBA_CAP_LIST = 1 << 6,          /* LIST and FORCE_RELEASE work */
    SIMBA_CAP_EXAMINE = 1 << 7,       /* EXAMINE works */
    SIMBA_CAP_PREPARE = 1 << 8,       /* PREPARE works: opening the store does not create everything */
    SIMBA_CAP_HOST_ONLY = 1 << 9,     /* only processes of this host can use it */
    SIMBA_CAP_PROCESS_ONLY = 1 << 10, /* only this process can use it */
    SIMBA_CAP_NOTE = 1 << 11,         /* WRITE_NOTE, READ_NOTE and FORGET work */
    SIMBA_CAP_CALLS = 1 << 12,        /* the store calls each waiter by push_to; see above */
};

typedef struct simba_backend {
    size_t size;                /* sizeof(simba_backend) */
    unsigned version;           /* SIMBA_BACKEND_VERSION */
    unsigned caps;              /* SIMBA_CAP_… */
    const char *const *schemes; /* of its URLs, ended by NULL */
    const char *const *keys;    /* query keys it understands besides the common ones, ended by NULL */
    size_t instance_size;
    unsigned
        window; /* of RENEW, of RELEASE and WRITE_NOTE, and of all others: requests of each that it takes at a time; 0: 256 */
    unsigned workers; /* threads for host->work: the initial value of host->workers */

    /* On the thread that opens the client, before anything else; without the lock, and may block. */
    int (*init)(void *self, simba_host *host, const simba_url *url, simba_error *err);
    void (*submit)(void *self, simba_request *request);
    /* The time of this request, which was submitted and not completed, is over, and the client waits for its answer no more.
     * Complete it once nothing of it is left: at once if it has not been sent, or else when its server has answered or the
     * connection has ended. Fail it by SIMBA_ETIMEDOUT, or by a code that says better what is wrong, and a text that says what it
     * waited for. A server that says nothing at all any more must not keep its requests for long: give the connection up. */
    void (*expire)(void *self, simba_request *request);
    /* Send all submitted requests at once. */
    void (*flush)(void *self);
    /* Push changes of this mutex from now on. Push CHANGED once when the watch is live. Skip it only if you compare against
     * the oldest state that a contender of this client may still hold (contenders may hold different ones). When in doubt,
     * push. An error means that there will be no pushes: the client then relies on its timers. */
    int (*watch)(void *self, simba_watch *watch);
    void (*unwatch)(void *self, simba_watch *watch);
    void (*woken)(void *self);
    /* Complete all outstanding requests, remove every descriptor, clear every timer, then call host->closed, now or later.
     * The client submits nothing after this. */
    void (*close)(void *self);
    /* Called after the client's threads have ended. */
    void (*fini)(void *self);
    /* May be NULL. Can a mutex of this name, which is valid by simba's own rules, exist in a store of this URL? If not,
     * SIMBA_EINVAL and a sentence. Any thread, under the lock or not. */
    int (*accepts)(const simba_url *url, const char *mutex, simba_error *err);
    /* With SIMBA_CAP_SESSION, after init: the length of a session to ask the server for, in ms. */
    int64_t (*session_ms)(void *self);
    /* May be NULL. Names the one of several servers that answers, for people; "": the URL already says it. Under the lock. */
    const char *(*server)(void *self);
} simba_backend;

/* Add a store of your own, for simba_client_open. The client copies the table; everything it points to must live for ever.
 * Any thread.
 * Errors: EINVAL (wrong version or size, or an incomplete table), ESTATE (the scheme is taken, or there are too many). */
SIMBA_API int simba_backend_register(const simba_backend *backend);
/* Find a store by its scheme; NULL: not known. Any thread. */
SIMBA_API const simba_backend *simba_backend_find(const char *scheme);

#ifdef __cplusplus
}
#endif
#endif
