/* The contract between simba and a store.
 *
 * Threads. A client works in turns. A turn is a stretch of code that holds the client's turn lock: at any moment at
 * most one thread is in a turn of a given client. The runtime calls every function of the table except `init` and `fini` in
 * a turn, on any thread. A back end must call the functions of the host table in a turn too, except those marked
 * "any thread". No function of the host table calls back into the back end before it returns. A turn must not block: do
 * work that may block in a job (host->work).
 *
 * Completion. The back end completes every submitted request exactly once, by host->complete or host->fail. It may do so
 * inside `submit`: completing only queues, and the runtime looks at the queue after the call has returned. The runtime
 * keeps the deadlines, and calls `cancel` when the time of a request is over. A store may use a deadline to bound what it
 * asks of a server, but need not watch it. "Somebody else owns it" is an outcome, never an error. An error means that
 * nobody knows whether the store carried the request out. `text` of an error names the store and the cause, never a
 * password. The runtime checks every reply. It turns a grant or renewal (MINE) into an error if the reply does not name the
 * request's id, has no token, has another token than the one to be renewed, or has a lease that is over at the reply's
 * own now_ms.
 *
 * Memory. The runtime allocates the instance (`instance_size`, zeroed) and frees it after `fini`; a back end frees
 * only what it made. A request and all it points to belong to the runtime and stay put until completion. A topic
 * stays put from `watch` until `unwatch` has returned. The runtime calls `fini` exactly once, also after a failed `init`.
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
 *                  later grants must be greater all the same: a store keeps the greatest token that it has forgotten, or
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
 * Holders that listen (SIMBA_CAP_WANTED). A client may keep a mutex that nobody of it uses, to take it again without asking.
 * It sets `listens` in the requests of that contender, and the store pushes WANTED to it as soon as another contender waits
 * for the mutex: one that begins to wait later, and one that already waits when the mutex is granted (also before the ACQUIRE
 * completes, or right after). A store that does not know who waits says in its push ACQUIRED that the holder listens; then one
 * who waits asks. WANTED may come more than once, and in vain. A push that is lost must come again when the waiter asks again.
 * Costs nothing for holders that do not listen. Without the capability, `listens` has no meaning.
 *
 *   EXAMINE        how the store is set up, through host->found. Changes nothing.
 *   PREPARE        creates what is missing in the store and leaves alone what exists, but for rights that the URL names.
 *
 * Sessions (SIMBA_CAP_SESSION). A grant belongs to the session that made it: a grant that an earlier session left under the
 * same nonce is not MINE. When a session ends, the store fails every request that is still outstanding. A session that was
 * reported lost is never used again. Nothing is renewed, so the store has to push to a holder whose grant is forced away.
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
    int status; /* 0; or a negative SIMBA_E… code, and then the members below mean nothing */
    simba_outcome outcome;
    simba_owner owner; /* after the operation; zeroes for nobody. token is that of the grant */
    int64_t now_ms;    /* the store's clock, on the same scale as the owner's times */
    int64_t place;     /* ACQUIRE that has to wait: its place in the queue, from 1 on; 0: the store does not know */
} simba_reply;

typedef struct simba_request simba_request;
struct simba_request {
    /* Filled in by the runtime. */
    simba_op op;
    bool queue;          /* ACQUIRE: the contender will wait if it does not win */
    unsigned char stage; /* the runtime's */
    /* The contender wants to hear when others wait for what it holds, see above. So it says with every request of its own. */
    bool listens;
    const char *mutex; /* LIST: the pattern, or NULL; EXAMINE, PREPARE: NULL */
    const char *id;
    uint64_t nonce;
    uint64_t token;
    int64_t ttl_ms;
    int64_t transition_ms;
    const void *note;     /* WRITE_NOTE: the bytes; NULL if there are none */
    size_t note_size;     /* at most SIMBA_NOTE_MAX */
    uint64_t note_number; /* WRITE_NOTE: counts the writes of a grant, from 1 on */
    simba_local deadline;

    /* Filled in by the back end, or by host->fail. */
    simba_reply reply;

    /* For the back end's own use while it has the request. */
    simba_request *next;
    void *backend_data;

    /* The runtime's. */
    void (*done)(simba_request *request);
    simba_error *err;
    simba_note *ret_note; /* host->noted writes it */
    simba_request *queue_next, *queue_prev, *queue_child;
    int64_t patience_ns; /* from handing it over to its first deadline */

    /* Filled in by the runtime: as long as the request stands in line (see `in_line`) its deadline is put off, up to this
     * time. At 0 it is not put off. */
    simba_local give_up;
    /* Filled in by the back end, if a request may stand in line before its server is asked: a time before which the server
     * cannot have begun with it. A lease counts from then, and so does the time for the answer. 0: from handing it over. */
    simba_local asked_at;
};

/* A mutex that somebody in this client waits for or observes. */
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
    SIMBA_PUSH_FREED, /* free now, but the store invited another waiter: tells observers. owner.token: of the ended grant */
    SIMBA_PUSH_SESSION_LOST, /* the session has ended, and all its grants with it; topic NULL: concerns the whole client */
    SIMBA_PUSH_SESSION_BACK, /* there is a new session: every waiter enters anew; topic NULL */
    SIMBA_PUSH_NOTED,        /* the note has changed; the owner has not */
    SIMBA_PUSH_WANTED,       /* somebody else waits for it; by push_to, to a holder that listens */
} simba_push_kind;

typedef struct simba_push {
    simba_push_kind kind;
    /* ACQUIRED: this holder listens, and the store does not know whether somebody here waits. So one who does asks once, and is
     * refused, and the store tells the holder. */
    bool listens;
    simba_owner owner; /* ACQUIRED; FREED: the token of the ended grant, or 0 */
    int64_t now_ms;    /* ACQUIRED: the store's clock */
} simba_push;

/* How long a job may take, and so which threads may run it. A thread that has a time limit, or that can be cancelled, cannot
 * leave a job before the job is done. */
typedef enum simba_job_length {
    SIMBA_JOB_BRIEF = -1,  /* some 10 ms, even under contention: any waiting thread may run it */
    SIMBA_JOB_LONG = 0,    /* no longer than its requests may take: threads that wait without a limit may run it */
    SIMBA_JOB_PATIENT = 1, /* longer than that: only worker threads run it */
} simba_job_length;

/* Work that may block. The runtime calls `run` outside any turn, on a worker thread or on a thread of the application that
 * waits for the outcome, and then `done` in a turn. The back end owns the job and leaves it alone in between. */
typedef struct simba_job simba_job;
struct simba_job {
    void (*run)(simba_job *job);
    void (*done)(simba_job *job);
    simba_job_length length;
    simba_job *next;
};

/* A descriptor that the runtime waits for, on any thread: ideally the one that waits for the answer. */
enum {
    SIMBA_READABLE = 1 << 0,
    SIMBA_WRITABLE = 1 << 1,
    /* The other side sends no more, or the connection has failed. Who asks for this with SIMBA_READABLE need not read until the
     * descriptor would block: as long as this is not reported, a read that fills less than its buffer was the last. */
    SIMBA_ENDED = 1 << 2,
};
typedef struct simba_io simba_io;
struct simba_io {
    /* In a turn: some of the `events` asked for have happened, or an error has. The runtime reports each event once, and
     * again only when more has come: go on until the descriptor would block, and do not block. There may be nothing. */
    void (*ready)(simba_io *io, unsigned events);
    int fd;
    unsigned interest; /* SIMBA_READABLE, …: the initial value; io_change changes it later */
    bool answers;      /* answers to requests arrive here, so a thread that waits for one should read it itself */

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
    unsigned workers; /* how many threads will run jobs of `work`; `init` may change it */

    simba_local (*now)(simba_host *host);  /* any thread */
    int64_t (*epoch_us)(simba_host *host); /* any thread; wall clock, to show to people and as a floor for tokens */
    uint64_t (*random)(simba_host *host);  /* any thread */
    void (*log)(simba_host *host, simba_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

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
    void (*push)(simba_host *host, simba_topic *topic, const simba_push *push);
    /* Only to the contender of this nonce, whether the mutex is watched or not. Does nothing if there is no such contender. */
    void (*push_to)(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push);

    /* Session stores: the session lives, and the store keeps it for `ms` after `from`. The store must not have begun to
     * count before `from`. */
    void (*session)(simba_host *host, simba_local from, int64_t ms);

    /* Have `woken` called in a turn soon. Any thread; one call of `woken` may answer several of these. */
    void (*wake)(simba_host *host);
    void (*work)(simba_host *host, simba_job *job);
    /* Register a timer once, in `init` or later, so that setting it cannot fail. SIMBA_ENOMEM. */
    int (*timer_add)(simba_host *host, simba_timer *timer);
    void (*timer_set)(simba_host *host, simba_timer *timer, simba_local at);
    void (*timer_clear)(simba_host *host, simba_timer *timer);

    /* SIMBA_ENOMEM, SIMBA_ESYSTEM. The io stays put until the back end removes it. Remove it before you close its descriptor;
     * if a library has closed the descriptor already, set `fd` to -1 first. Removing an io that was not added does nothing.
     * The runtime also reports events that are already there when you add an io or change its interest. */
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

/* Where leases are sessions (SIMBA_CAP_SESSION), ttl and transition do not apply and nothing is renewed. Every waiter has
 * its own place in the store's queue, so the store tells contenders by push_to, and `watch` serves only observers. The
 * times at which an owner's lease ends are INT64_MAX. The store carries out a RELEASE in the end if the session lives, even
 * after the request has failed: unlike a lease, the session goes on, because other contenders use it. */
enum {
    SIMBA_CAP_PUSH = 1 << 0,          /* the store pushes a release to waiters */
    SIMBA_CAP_PUSH_EVERY = 1 << 1,    /* observers see every single change */
    SIMBA_CAP_SESSION = 1 << 2,       /* leases are sessions, see above */
    SIMBA_CAP_STORE_CLOCK = 1 << 3,   /* the store judges leases by a clock of its own */
    SIMBA_CAP_QUEUE = 1 << 4,         /* a waiter leaves an entry in the store and has to RELEASE it */
    SIMBA_CAP_WATCH_FREE = 1 << 5,    /* watching costs nothing: also watch held mutexes, to learn of a revocation */
    SIMBA_CAP_LIST = 1 << 6,          /* LIST and FORCE_RELEASE work */
    SIMBA_CAP_EXAMINE = 1 << 7,       /* EXAMINE works */
    SIMBA_CAP_PREPARE = 1 << 8,       /* PREPARE works: opening the store does not create everything */
    SIMBA_CAP_HOST_ONLY = 1 << 9,     /* only processes of this host can use it */
    SIMBA_CAP_PROCESS_ONLY = 1 << 10, /* only this process can use it */
    SIMBA_CAP_NOTE = 1 << 11,         /* WRITE_NOTE, READ_NOTE and FORGET work */
    SIMBA_CAP_WANTED = 1 << 12,       /* the store pushes WANTED */
    SIMBA_CAP_ORDER = 1 << 13,        /* a free mutex goes to the first who waits, not to the first who asks */
};

typedef struct simba_backend {
    size_t size;                /* sizeof(simba_backend) */
    unsigned version;           /* SIMBA_BACKEND_VERSION */
    const char *const *schemes; /* of its URLs, ended by NULL */
    const char *const *keys;    /* query keys it understands besides the common ones, ended by NULL */
    size_t instance_size;
    unsigned caps;
    unsigned workers; /* threads for host->work: the initial value of host->workers */

    /* On the thread that opens the client, before there are any turns; may block. */
    int (*init)(void *self, simba_host *host, const simba_url *url, simba_error *err);
    void (*submit)(void *self, simba_request *request);
    /* The time of this request, which was submitted and not completed, is over. Let go of it and fail it before you return.
     * Use SIMBA_ETIMEDOUT, or a code that says better what is wrong, and a text that says what the request waited for. The
     * server may go on with it; drop its answer. */
    void (*cancel)(void *self, simba_request *request);
    /* The turn is over: send all submitted requests at once. */
    void (*flush)(void *self);
    /* Push changes of this mutex from now on. Push CHANGED once when the watch is live. Skip it only if you compare against
     * the oldest state that a contender of this client may still hold (contenders may hold different ones). When in doubt,
     * push. An error means that there will be no pushes: the runtime then relies on its timers. */
    int (*watch)(void *self, simba_topic *topic);
    void (*unwatch)(void *self, simba_topic *topic);
    void (*woken)(void *self);
    /* Complete all outstanding requests, remove every descriptor, clear every timer, then call host->closed, now or later.
     * The runtime submits nothing after this. */
    void (*close)(void *self);
    /* Called after the client's threads have ended. */
    void (*fini)(void *self);
    /* May be NULL. Can a mutex of this name, which is valid by simba's own rules, exist in a store of this URL? If not,
     * SIMBA_EINVAL and a sentence. Any thread, in a turn or not. */
    int (*accepts)(const simba_url *url, const char *mutex, simba_error *err);
    /* With SIMBA_CAP_SESSION, after init: the length of a session to ask the server for, in ms. */
    int64_t (*session_ms)(void *self);
    /* May be NULL. Names the one of several servers that answers, for people; "": the URL already says it. In a turn. */
    const char *(*server)(void *self);
    /* May be NULL: `every` of a topic that is watched is not as it was. */
    void (*every_changed)(void *self, simba_topic *topic);
    /* May be NULL. The deadline of this request, which was submitted and not completed, has come. Does it stand in line, here
     * or at its server, behind others that are being answered? Then its turn will come, and asking again would only make the
     * line longer: the runtime waits on. A store that says so fails the request when its server falls silent. */
    bool (*in_line)(void *self, simba_request *request);
} simba_backend;

/* Add a store of your own, for simba_client_open. The runtime copies the table; everything it points to must live for ever.
 * Any thread.
 * Errors: EINVAL (wrong version or size, or an incomplete table), ESTATE (the scheme is taken, or there are too many). */
SIMBA_API int simba_backend_register(const simba_backend *backend);
/* Find a store by its scheme; NULL: not known. Any thread. */
SIMBA_API const simba_backend *simba_backend_find(const char *scheme);

#ifdef __cplusplus
}
#endif
#endif
