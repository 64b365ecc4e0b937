/* simba: distributed mutexes, leader election and leader-gated work over the store you already run.
 *
 * This header is the whole public interface. There are four doors to one protocol:
 *
 *   contender   callbacks when this process gains and loses a mutex
 *   locker      a blocking lock
 *   scheduler   periodic work that runs on the leader only
 *   observer    sees the owner of a mutex without contending
 *
 * All of them hang off a client, which is a connection to a store, named by a URL.
 *
 * Conventions, true for every declaration unless it says otherwise:
 *   - Functions return 0 (or a count) or a negative SIMBA_E… code. A `ret_` pointer comes last, and a failing function
 *     leaves it untouched. `err`, where there is one, may be NULL; a failing function writes the code and a sentence that
 *     names the culprit into it.
 *   - Simba copies the strings that you pass in. A string that it hands out belongs to the handle it came from.
 *   - You may use a handle from any thread. Do not free it while another thread uses it.
 *   - You may call everything inside a callback unless its comment says otherwise.
 *   - Destructors take NULL.
 *   - In a child of fork() every handle of the parent answers SIMBA_EFORKED. The child must open a client of its own.
 *   - A signal handler may call only the functions whose comment says that they are lock-free. This does not concern a
 *     thread that takes signals by sigwait().
 *   - You may close a client in an exit handler or in the destructor of a library. If the connection uses TLS and OpenSSL
 *     has already shut down, simba cannot tell the store, and the mutexes become free when their leases end.
 *   - A plugin should close its clients before it is unloaded. The shared library stays in memory, and a client that is
 *     still open goes on holding its mutexes. With the static library, unloading removes the code that the client's
 *     threads are running.
 *   - The library changes no setting of the process, and its threads take no signals. If descriptors 0 to 2 are closed,
 *     the library opens placeholders there that nobody can read or write. Otherwise the program's output could end up in
 *     a connection to the store.
 *   - Initialise a struct whose first member is `size` with its …_INIT macro, also when simba fills in the rest. A later
 *     version may add members at its end; programs compiled before that keep working. The other structs never change.
 *   - Durations are milliseconds. A name that ends in `_at_ms` is a point on the *store's* clock: compare it only with
 *     other such points.
 */
#ifndef SIMBA_H
#define SIMBA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(SIMBA_STATIC)
#define SIMBA_API
#else
#define SIMBA_API __attribute__((visibility("default")))
#endif

#define SIMBA_VERSION_MAJOR 0
#define SIMBA_VERSION_MINOR 1
#define SIMBA_VERSION_PATCH 0

/* The version of the library that is loaded, such as "0.1.0". The macros above have the version of this header. */
SIMBA_API const char *simba_version(void);

/* --- errors ------------------------------------------------------------------------------------- */

/* Codes are stable: a number never gets another meaning. EUNAVAILABLE, ETIMEDOUT, ENOMEM and ECANCELED may go away when
 * you try again. */
#define SIMBA_ERRORS(X)                                                                                                \
    X(EINVAL, -1, "bad argument")                                                                                      \
    X(ENOMEM, -2, "out of memory")                                                                                     \
    X(ESTATE, -3, "not possible in this state")                                                                        \
    X(ETIMEDOUT, -4, "timed out")                                                                                      \
    X(ECANCELED, -5, "cancelled")                                                                                      \
    X(ECLOSED, -6, "client is closed")                                                                                 \
    X(EFORKED, -7, "handle belongs to the parent of this process")                                                     \
    X(EURL, -8, "bad store URL")                                                                                       \
    X(ENOTBUILT, -9, "this store is not installed")                                                                    \
    X(EUNAVAILABLE, -10, "store cannot be reached")                                                                    \
    X(ESTORE, -11, "store refused")                                                                                    \
    X(EPERM, -12, "no permission")                                                                                     \
    X(ECORRUPT, -13, "stored data is damaged or not simba's")                                                          \
    X(ELOST, -14, "leadership ended before")                                                                           \
    X(ENOTSUP, -15, "not supported by this store")                                                                     \
    X(ENOTFOUND, -16, "no such mutex")                                                                                 \
    X(ESYSTEM, -17, "the operating system refused")                                                                    \
    X(ETOOSOON, -18, "begun too recently")

enum {
#define SIMBA_ERROR_ENUM(name, number, text) SIMBA_##name = (number),
    SIMBA_ERRORS(SIMBA_ERROR_ENUM)
#undef SIMBA_ERROR_ENUM
};

/* A failing call writes its code and message here. The caller owns it; the library keeps no "last error" of its own. The
 * text is UTF-8 that a terminal can show: control characters from the store appear as \xNN, here and in the log. */
typedef struct simba_error {
    int code;
    char text[256];
} simba_error;

/* The name of an error code, and its meaning. For instance "SIMBA_EINVAL" and "bad argument"; for an unknown code
 * "SIMBA_E?" and "unknown error". Never NULL. */
SIMBA_API const char *simba_error_name(int code);
SIMBA_API const char *simba_error_text(int code);

/* --- values ------------------------------------------------------------------------------------- */

#define SIMBA_ID_MAX 128                         /* bytes of a contender id */
#define SIMBA_MUTEX_MAX 66                       /* characters of a mutex name, in UTF-8 */
#define SIMBA_SLOTS_MAX 256                      /* of a locker */
#define SIMBA_MUTEX_BYTES 264                    /* bytes of the longest mutex name: 66 characters of 4 bytes */
#define SIMBA_TTL_MIN_MS 10                      /* shortest time to live */
#define SIMBA_NOTE_MAX 1024                      /* bytes of a note */
#define SIMBA_LEASE_MAX_MS INT64_C(315360000000) /* longest ttl + transition: ten years */

/* The owner of a mutex. If there is none, the id is "" and the rest is 0. The id is the bytes that the store has, which
 * any contender may have written: they may be invalid UTF-8, so escape them before you print them. A contender without
 * memory for the id of another owner shows "?" instead. Times are on the store's clock, and 0 if unknown. Where leases
 * are sessions, the last two times are INT64_MAX: the lease lasts as long as the session. */
typedef struct simba_owner {
    char id[SIMBA_ID_MAX + 1];
    int64_t acquired_at_ms;
    int64_t ttl_at_ms;        /* the owner renews before this */
    int64_t transition_at_ms; /* nobody else may take over before this */
    uint64_t token;           /* fencing token of this grant; grows from grant to grant */
} simba_owner;

/* One change of ownership. */
typedef struct simba_state {
    simba_owner before;
    simba_owner after;
} simba_state;

/* Does this owner own the mutex, and in which part of its lease? `now_ms` is the store's current time. NULL means nobody.
 * simba_owner_is_none: nobody owns the mutex. simba_owner_in_ttl, simba_owner_in_transition: the lease is in that part.
 * simba_owner_has_owner: the lease is in either part, so nobody else may take over. simba_owner_is: the owner has this id. */
SIMBA_API bool simba_owner_is_none(const simba_owner *owner);
SIMBA_API bool simba_owner_in_ttl(const simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_in_transition(const simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_has_owner(const simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_is(const simba_owner *owner, const char *id);

/* Has the owner changed, and did this id gain or lose the mutex by that? A new grant to the same id is a change too: its
 * token differs. */
SIMBA_API bool simba_state_changed(const simba_state *state);
SIMBA_API bool simba_state_acquired(const simba_state *state, const char *id);
SIMBA_API bool simba_state_released(const simba_state *state, const char *id);

/* Why leadership ended. */
#define SIMBA_REASONS(X)                                                                                               \
    X(NONE, "none")                 /* it has not ended */                                                             \
    X(STOPPED, "stopped")           /* this program called stop, release or close */                                   \
    X(SUPERSEDED, "superseded")     /* the store names another owner, or has forgotten the grant */                    \
    X(EXPIRED, "expired")           /* the lease ended by the client's clock before the store could be reached */      \
    X(SESSION_LOST, "session lost") /* the session ended, on a store whose leases are sessions */                      \
    X(REVOKED, "revoked")           /* an administrator took it away */                                                \
    X(HOLD_LIMIT, "hold limit reached")

typedef enum simba_reason {
#define SIMBA_REASON_ENUM(name, text) SIMBA_REASON_##name,
    SIMBA_REASONS(SIMBA_REASON_ENUM)
#undef SIMBA_REASON_ENUM
} simba_reason;

/* A reason in words, such as "session lost". Never NULL. */
SIMBA_API const char *simba_reason_name(simba_reason reason);

typedef enum simba_status {
    SIMBA_STATUS_INITIAL,
    SIMBA_STATUS_STARTING, /* started, and waiting for the initial delay to pass */
    SIMBA_STATUS_RUNNING,
    SIMBA_STATUS_STOPPING,
} simba_status;

/* A status in one word, such as "running". Never NULL. */
SIMBA_API const char *simba_status_name(simba_status status);

/* Read a duration. "500ms", "10s", "1.5m", "1h": the unit is required, and a fraction must come to whole milliseconds.
 * Errors: EINVAL. */
SIMBA_API int simba_duration_parse(const char *text, int64_t *ret_ms);

/* --- contender ids ------------------------------------------------------------------------------ */

/* Make an id for a contender. simba_id_host makes the default id "{host}.{pid}.{number}", such as web-3.1742.k7f2q9ab. It
 * is ASCII, has at most 32 characters, and differs in every process, even in containers that share a host name and a pid.
 * simba_id_uuid makes 32 hexadecimal digits; it returns SIMBA_ESYSTEM when the system has no randomness. Both write at
 * most SIMBA_ID_MAX + 1 bytes.
 *
 * Simba on the JVM uses ids of the form {counter}:{pid}@{address}, or 32 hexadecimal digits. Avoid the first form here: a
 * JVM contender can have the same id, and then the two do not exclude each other. */
SIMBA_API void simba_id_host(char ret_id[SIMBA_ID_MAX + 1]);
SIMBA_API int simba_id_uuid(char ret_id[SIMBA_ID_MAX + 1]);

/* --- timing ------------------------------------------------------------------------------------- */

/* "Take the value from the level above": contender from client, client from URL, URL from the defaults. */
#define SIMBA_INHERIT INT64_MIN

/* Timing of a lease. Other structs contain it, so its size never changes: later settings will use the reserved members. */
typedef struct simba_timing {
    int64_t ttl_ms;           /* default 10,000; the owner renews just before it is over */
    int64_t transition_ms;    /* default 6,000; with 0, a renewal that fails gets no second chance */
    int64_t initial_delay_ms; /* default 0: contend at once */
    int64_t stop_margin_ms;   /* default 0: how long before the end of its lease a holder that cannot renew is told */
    int64_t hold_limit_ms;    /* default 0: none; otherwise the holder gives leadership back after this time */
    /* A waiter tries at a random time between these two, counted from the end of the owner's transition. A waiter that
     * knows its place in a queue waits its turn instead. */
    int64_t jitter_min_ms; /* default -200, scaled down for short leases */
    int64_t jitter_max_ms; /* default 1,000, likewise */
    int64_t reserved[5];   /* for later settings: SIMBA_INHERIT or 0 */
} simba_timing;

#define SIMBA_TIMING_INHERIT                                                                                           \
    {                                                                                                                  \
        SIMBA_INHERIT, SIMBA_INHERIT, SIMBA_INHERIT, SIMBA_INHERIT, SIMBA_INHERIT, SIMBA_INHERIT, SIMBA_INHERIT,       \
        {                                                                                                              \
            SIMBA_INHERIT, SIMBA_INHERIT, SIMBA_INHERIT, SIMBA_INHERIT, SIMBA_INHERIT                                  \
        }                                                                                                              \
    }

/* --- client ------------------------------------------------------------------------------------- */

typedef struct simba_client simba_client;

/* Where callbacks run. The callbacks of one contender never overlap. */
typedef enum simba_dispatch {
    SIMBA_DISPATCH_POOL,     /* threads of the library; the pool grows while callbacks are slow */
    SIMBA_DISPATCH_FD,       /* the application's own loop, which drives the whole client: see simba_client_fd() */
    SIMBA_DISPATCH_EXECUTOR, /* the application's own executor */
} simba_dispatch;

/* Must arrange for run(arg) to be called exactly once, soon, on any thread. The library calls the executor from any
 * thread. The executor must not call `run` before it returns. */
typedef void (*simba_executor_fn)(void *user, void (*run)(void *arg), void *arg);

typedef enum simba_log_level {
    SIMBA_LOG_ERROR,
    SIMBA_LOG_WARN,
    SIMBA_LOG_INFO,
    SIMBA_LOG_DEBUG,
    SIMBA_LOG_EVENT, /* every event of every contender, as a line for simba-timeline(1) rather than for people */
} simba_log_level;

/* Called from any thread while the library holds locks: return quickly, and call nothing of simba. `text` is a sentence,
 * followed by its subjects as key=value: "waits for its owner; mutex=m id=a owner=b left_ms=1850". A value that contains
 * blanks, quotes or the like is quoted. */
typedef void (*simba_log_fn)(void *user, simba_log_level level, const char *text);

/* The same for programs. A record is valid during the call. Do not read members beyond its `size`. */
typedef struct simba_log_field {
    const char *key; /* a key that ends in _ms has whole milliseconds as its value */
    const char
        *value; /* as the store has it: an id may be invalid UTF-8. "": not known, such as the end of a session */
} simba_log_field;

typedef struct simba_log_record {
    size_t size;
    simba_log_level level;
    const char *event;   /* such as "waits", the same on every store; docs/log.md lists all events and their keys */
    const char *message; /* a sentence */
    const simba_log_field *fields;
    size_t field_count;
} simba_log_record;

/* The rules of simba_log_fn hold. */
typedef void (*simba_log_record_fn)(void *user, const simba_log_record *record);

typedef struct simba_client_options {
    size_t size; /* sizeof(simba_client_options) */
    simba_timing timing;
    simba_dispatch dispatch;
    simba_executor_fn executor; /* with SIMBA_DISPATCH_EXECUTOR */
    void *executor_user;
    unsigned max_callback_threads; /* of the pool; default 64 */
    unsigned drift_ppm;            /* most that the rates of two clocks may differ; default 10,000 (1 %) */
    int64_t op_timeout_ms;         /* longest wait for one answer of the store; default 4,000 */
    simba_log_fn log;
    void *log_user;
    simba_log_level log_level;      /* default SIMBA_LOG_WARN */
    simba_log_record_fn log_record; /* if set, called instead of `log`, with log_user */
} simba_client_options;

#define SIMBA_CLIENT_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(simba_client_options), SIMBA_TIMING_INHERIT, SIMBA_DISPATCH_POOL, NULL, NULL, 64, 10000, 4000, NULL,    \
            NULL, SIMBA_LOG_WARN, NULL                                                                                 \
    }

/* Open a store. If `url` is NULL, $SIMBA_URL names the store; without that, it is this user's embedded SQLite store.
 * `options` may be NULL. Opening a file may block for as long as that takes. The client connects to a store behind a
 * network later, in the background.
 * Errors: EINVAL (options), EURL, ENOTBUILT, EPERM, ECORRUPT, ESTORE (made by a newer version), ENOTSUP (a file on a
 * network), ETIMEDOUT (a file that stays locked), EUNAVAILABLE, ENOMEM, ESYSTEM. */
SIMBA_API int simba_client_open(const char *url, const simba_client_options *options, simba_error *err,
                                simba_client **ret_client);

/* Close a client. Stops all its contenders, lockers, schedulers and observers as their own stop would, closes the store
 * and ends the threads. Waits for callbacks in progress, and for at most a few answers of the store. Afterwards you must
 * still free the handles; any other call on them returns SIMBA_ECLOSED.
 * Inside a callback, close does nothing and returns SIMBA_ESTATE. A process that ends with a client open gives nothing
 * back: others must wait for the end of its leases. */
SIMBA_API int simba_client_close(simba_client *client);

/* The URL as opened, without passwords. Valid until close. */
SIMBA_API const char *simba_client_url(const simba_client *client);

/* Which contenders a store can keep apart: all that reach the same server, only the processes of this host, or only the
 * threads of this process. */
typedef enum simba_reach { SIMBA_REACH_NETWORK, SIMBA_REACH_HOST, SIMBA_REACH_PROCESS } simba_reach;

/* The settings that result from a client's options, its URL and the defaults. `timing` applies to a contender whose own
 * options inherit it. Where leases are sessions, ttl_ms and transition_ms have no meaning. */
typedef struct simba_settings {
    size_t size;
    simba_timing timing;
    int64_t session_ms;   /* how long a session lasts: as asked for, later as granted; 0: leases are not sessions */
    bool session_granted; /* there is a session now, and session_ms is what the server has granted */
    int64_t longest_margin_ms; /* the longest stop_margin_ms for a contender that inherits the rest */
    simba_reach reach;
} simba_settings;

#define SIMBA_SETTINGS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(simba_settings), SIMBA_TIMING_INHERIT, 0, false, 0, SIMBA_REACH_NETWORK                                 \
    }

/* Report the settings that a client works with. Set `ret_settings->size` before the call (SIMBA_SETTINGS_INIT does). */
SIMBA_API int simba_client_settings(const simba_client *client, simba_settings *ret_settings);

/* SIMBA_DISPATCH_FD only (SIMBA_ESTATE otherwise): the application's loop drives the client, which starts no thread. The
 * descriptor becomes readable when the client has work: I/O, a timer, a renewal, a callback. Wait for it with poll() or
 * in an epoll of your own, level-triggered. Then call simba_client_dispatch(): it does the work that is due without
 * waiting, runs the callbacks on this thread, and returns how many it ran, which may be none. The descriptor belongs to
 * the client.
 *
 * While the loop stands still, nothing renews the leases. They end in time, here (held_for_ms returns 0) and in the store;
 * others take over, and the next dispatch calls on_released. So a program that is stuck loses its leadership. A callback
 * that takes longer than the lease loses the lease in the same way, and the client does not wait for an on_released that
 * takes longer. Do slow work in a thread of your own, or call simba_client_dispatch() from inside of it.
 * A thread that waits in a call of this client (acquire, stop, list, close, simba_run_sleep) drives the client meanwhile.
 * Such a call needs no loop, and you may make it on the loop's thread.
 *
 * Some stores still use threads, because their client library blocks: SQLite, and MySQL while it connects. A
 * redis://, zookeeper:// or etcd:// URL with a host name uses one thread to look the name up; a URL with addresses uses none. */
SIMBA_API int simba_client_fd(simba_client *client);
SIMBA_API int simba_client_dispatch(simba_client *client);

/* How often something took how long. A bucket counts the durations up to its own bound that are above the bound of the
 * bucket before it. The bounds are 10 us, 30 us, 100 us and so on up to 30 s, then 1, 5 and 15 minutes, 1 and 6 hours, and
 * a day; the last bucket has no bound. The bounds never change. */
#define SIMBA_HISTOGRAM_BUCKETS 21

typedef struct simba_histogram {
    uint64_t sum_ns; /* of all durations counted */
    uint64_t buckets[SIMBA_HISTOGRAM_BUCKETS];
} simba_histogram;

/* The bound of a bucket in nanoseconds; INT64_MAX for the last bucket, which has none. */
SIMBA_API int64_t simba_histogram_bound_ns(unsigned bucket);

/* The counters of one client since it was opened. A request that failed counts in `errors` and `errors_by_code`, and in
 * none of the histograms. */
typedef struct simba_stats {
    size_t size;
    uint64_t contenders;         /* handles alive now: contenders, lockers, schedulers */
    uint64_t held;               /* of those, holding now */
    uint64_t requests;           /* handed to the store */
    uint64_t batches;            /* flushes that carried those requests */
    uint64_t errors;             /* requests that the store refused or did not answer */
    uint64_t grants;             /* leaderships gained */
    uint64_t renewals;           /* successful ones */
    uint64_t renewals_failed;    /* unanswered or refused ones */
    uint64_t losses[8];          /* leaderships ended, by simba_reason */
    uint64_t late_wins;          /* grants that came too late, so that the client gave them back */
    uint64_t pushes;             /* wake-ups from the store */
    uint64_t callbacks;          /* callbacks run */
    uint64_t callback_threads;   /* alive now */
    uint64_t suspends;           /* times the machine slept, seen as jumps between boot time and monotonic time */
    uint64_t max_lag_ns;         /* the longest delay of a timer */
    uint64_t waiting;            /* contenders, lockers and schedulers that want the mutex now and do not hold it */
    uint64_t waits_abandoned;    /* waits that ended without leadership: stopped, timed out, cancelled, won too late */
    uint64_t errors_by_code[32]; /* `errors`, by the negated SIMBA_E… code; 0: codes that this library does not know */
    simba_histogram wait;        /* from wanting a mutex to holding it; without waits in progress */
    simba_histogram hold;        /* from holding a mutex to learning that it ended; without holds in progress */
    simba_histogram acquire;     /* how long the store took to answer an acquire, won or not */
    simba_histogram renew;       /* how long it took to answer a renewal */
    simba_histogram release;     /* how long it took to answer a release */
} simba_stats;

#define SIMBA_STATS_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(simba_stats), 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0, 0, 0, 0, 0, 0, 0, 0, {0}, {0, {0}}, {0, {0}}, {0, {0}},   \
            {0, {0}},                                                                                                  \
        {                                                                                                              \
            0,                                                                                                         \
            {                                                                                                          \
                0                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Fill in the counters of a client. Set `ret_stats->size` before the call. Takes less than a millisecond and sends nothing
 * to the store. */
SIMBA_API int simba_client_stats(simba_client *client, simba_stats *ret_stats);

/* Flags of simba_stats_write. */
#define SIMBA_STATS_MORE 1u  /* leave out the final "# EOF", so that the program can append metrics of its own */
#define SIMBA_STATS_MUTEX 2u /* the label is mutex="…": each client contends for one mutex, and `names` names those */

/* Write statistics as OpenMetrics text, which Prometheus and others read. The media type of the text is
 * "application/openmetrics-text; version=1.0.0; charset=utf-8". A metric may occur only once in a text, so pass all
 * clients of the process to one call: `stats[0]` to `stats[count - 1]`. The label client="…" tells them apart; the program
 * chooses the `names`. If `names` is NULL there is no such label, and `count` must be 1.
 * Works like snprintf: returns the length of the whole text and writes at most `size` bytes, including the terminating
 * zero. `ret_text` may be NULL when `size` is 0. A client needs some 12,000 bytes. Equal statistics make an equal text, so
 * a program can ask for the length first. Numbers do not depend on the locale.
 * Errors: EINVAL (no statistics, several without names, two of one name, unknown flags). */
SIMBA_API int simba_stats_write(const simba_stats *const *stats, const char *const *names, size_t count, unsigned flags,
                                char *ret_text, size_t size);

/* One row of a list. It is valid during the call. Do not read members beyond its `size`. */
typedef struct simba_listing {
    size_t size;
    const char *mutex;
    const simba_owner *owner;
    int64_t now_ms;   /* the store's time, to compare with the owner's times */
    int64_t waiters;  /* contenders that wait for it; -1: the store does not know */
    const void *note; /* bytes of any value; NULL: there is none, or the store keeps no notes */
    size_t note_length;
    uint64_t note_token;        /* of the grant under which it was written */
    int64_t note_written_at_ms; /* on the store's wall clock */
    const char
        *next; /* the id of the contender that is first in the queue; NULL: nobody waits, or the store does not know */
} simba_listing;

/* List the mutexes of a store. Calls `row` for every mutex whose name matches the shell pattern (NULL: all), ordered by
 * name, on this thread, after the store has answered. Blocks for one answer. Do not call it inside `row`.
 * Errors: ENOTSUP, and the store's errors. */
SIMBA_API int simba_client_list(simba_client *client, const char *pattern,
                                void (*row)(const simba_listing *listing, void *user), void *user, simba_error *err);

typedef enum simba_verdict { SIMBA_VERDICT_OK, SIMBA_VERDICT_WARNING, SIMBA_VERDICT_BROKEN } simba_verdict;

/* Something about the store that its administrator should know. It is valid during the call. Do not read members beyond
 * its `size`. */
typedef struct simba_finding {
    size_t size;
    simba_verdict verdict;
    const char *what;   /* one word: "schema", "durability" */
    const char *text;   /* a sentence */
    const char *remedy; /* what to do about it; NULL: nothing to do */
} simba_finding;

/* Check how the store is set up. Calls `found` for each finding, on this thread, after the store has answered. Changes
 * nothing in the store. Blocks for one answer.
 * Errors: ENOTSUP (there is nothing to set up), and the store's errors. */
SIMBA_API int simba_client_examine(simba_client *client, void (*found)(const simba_finding *finding, void *user),
                                   void *user, simba_error *err);
/* Create the tables and columns that are missing in the store. Leaves existing ones as they are; the files of a SQLite
 * database get the mode and group of the URL. Does nothing for a store that needs none, or that creates them when it is
 * opened. Blocks for one answer. */
SIMBA_API int simba_client_prepare(simba_client *client, simba_error *err);

/* Take a mutex away from its owner. The owner hears of it (SIMBA_REASON_REVOKED) by push if the store can push that,
 * and at the latest when it renews; until then it may act. Blocks for one answer.
 * Errors: ENOTFOUND (it has no owner), and the store's errors. */
SIMBA_API int simba_client_force_release(simba_client *client, const char *mutex, simba_error *err);

/* The note of a mutex: up to SIMBA_NOTE_MAX bytes of any value, stored with the mutex. Only the owner can write it. The
 * store checks the grant in the same step, so an owner that has been replaced cannot overwrite its successor's note. The
 * note stays when the mutex is released, expires or changes hands, and every client can read it. So a new leader finds
 * the note of the last one. */
typedef struct simba_note {
    size_t size;
    size_t length;                  /* of the note; 0: there is none */
    uint64_t token;                 /* of the grant under which it was written */
    int64_t written_at_ms;          /* when it was written, on the store's wall clock: milliseconds since 1970 */
    int64_t now_ms;                 /* the same clock when the note was read; this host's if the store has none */
    char bytes[SIMBA_NOTE_MAX + 1]; /* the note, and a zero behind it */
} simba_note;

#define SIMBA_NOTE_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(simba_note), 0, 0, 0, 0,                                                                                \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

/* Read the note of a mutex, whether it has an owner or not. Set `ret_note->size` before the call. Blocks for one answer.
 * Errors: EINVAL, ENOTSUP (this store keeps no notes, or `simba init` must prepare it for them), and the store's
 * errors. */
SIMBA_API int simba_client_note(simba_client *client, const char *mutex, simba_error *err, simba_note *ret_note);

/* Remove a mutex that has no owner from the store, together with its note. A later contender creates it anew, and gets
 * greater tokens than those before. Blocks for one answer.
 * Errors: ESTATE (it has an owner, whom the text names), ENOTFOUND (the store does not know it), EINVAL, ENOTSUP,
 * and the store's errors. */
SIMBA_API int simba_client_forget(simba_client *client, const char *mutex, simba_error *err);

/* One grant of a mutex, in values that outlive the handle and the process that got it. */
typedef struct simba_grant {
    char id[SIMBA_ID_MAX + 1];
    uint64_t nonce; /* of the attempt that won it */
    uint64_t token;
} simba_grant;

/* Give a mutex back in place of its holder, for instance after that process has died. Ends exactly this grant and never
 * another. Call it only when nothing acts under the grant any more: the next owner may follow at once. Blocks for one
 * answer.
 * Errors: ELOST (the grant had ended before), ENOTSUP (leases are sessions), and the store's errors. */
SIMBA_API int simba_client_give_back(simba_client *client, const char *mutex, const simba_grant *grant,
                                     simba_error *err);

/* The lease that a contender or locker holds, by this process's own clock. Asking needs no round trip to the store. */
typedef struct simba_lease {
    size_t size;
    uint64_t token;      /* 0: it holds none, and the rest is 0 too */
    int64_t held_for_ms; /* until leadership ends here unless the lease is renewed: what held_for_ms returns */
    int64_t left_ms;     /* until the lease itself ends, stop margin included */
    int64_t ttl_left_ms; /* until the ttl ends; equal to left_ms where leases are sessions */
    bool overdue;        /* its renewal is long overdue */
} simba_lease;

#define SIMBA_LEASE_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(simba_lease), 0, 0, 0, 0, false                                                                         \
    }

/* --- contender ---------------------------------------------------------------------------------- */

typedef struct simba_contender simba_contender;

/* The callbacks of one contender never overlap, and alternate: acquired, released, acquired … `state` is valid during the
 * call. If leadership ends before on_acquired could start, neither of the two is called. */
typedef void (*simba_acquired_fn)(simba_contender *contender, const simba_state *state, void *user);
typedef void (*simba_released_fn)(simba_contender *contender, const simba_state *state, simba_reason reason,
                                  void *user);
/* Called for every change of ownership that this contender learns of, its own included. One call may stand for several. */
typedef void (*simba_changed_fn)(simba_contender *contender, const simba_state *state, void *user);

/* The note of the mutex may have changed: read it. Called once soon after the start, then after every write that this
 * contender learns of, its own included. One call may stand for several writes, and a call may come without a change. */
typedef void (*simba_noted_fn)(simba_contender *contender, void *user);

/* Called once after you freed a handle, when none of its callbacks runs or will run any more: you may free what `user`
 * points to. (A handle that you free inside its own callback still has callbacks to come.) Runs on any thread; call
 * nothing of simba in it. In a child of fork() it is not called for handles of the parent. */
typedef void (*simba_freed_fn)(void *user);

typedef struct simba_contender_options {
    size_t size;
    const char *id; /* NULL: simba_id_host() */
    simba_timing timing;
    simba_acquired_fn on_acquired; /* each may be NULL */
    simba_released_fn on_released;
    simba_changed_fn on_changed;
    void *user;
    simba_freed_fn on_freed; /* may be NULL; not called if simba_contender_new fails */
    simba_noted_fn on_noted; /* may be NULL; never called where the store keeps no notes */
} simba_contender_options;

#define SIMBA_CONTENDER_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(simba_contender_options), NULL, SIMBA_TIMING_INHERIT, NULL, NULL, NULL, NULL, NULL, NULL                \
    }

/* Make a contender for a mutex. It does nothing until it is started. `options` may be NULL.
 * Errors: EINVAL, ENOMEM, ECLOSED. */
SIMBA_API int simba_contender_new(simba_client *client, const char *mutex, const simba_contender_options *options,
                                  simba_error *err, simba_contender **ret_contender);

/* Begin to contend. Returns at once; SIMBA_ESTATE unless the status is SIMBA_STATUS_INITIAL. */
SIMBA_API int simba_contender_start(simba_contender *contender);

/* Stop contending. If the contender leads, on_released(stopped) runs first, on this thread unless it already runs
 * elsewhere. The client renews the lease until on_released has returned, and only then gives the mutex back. When stop
 * has returned, no callback of this contender runs or will run, and it can neither take nor keep the mutex. You may start
 * it again.
 * Inside a callback of the same contender, stop cannot wait: it returns at once, and the same steps follow, in the same
 * order, after that callback has returned. (If the callbacks of two contenders stop each other at the same time, both
 * wait for ever.)
 * Returns 0 also when the contender was not started. Returns the store's error, such as SIMBA_EUNAVAILABLE or
 * SIMBA_ETIMEDOUT, when the contender has stopped but could not tell the store: then the mutex becomes free only when the
 * lease ends. */
SIMBA_API int simba_contender_stop(simba_contender *contender);

/* Stop, then free. Inside a callback of the same contender, both happen after that callback has returned. */
SIMBA_API void simba_contender_free(simba_contender *contender);
/* The same without waiting, for a loop that must not block. Do not use the handle afterwards. on_released runs where
 * callbacks run, then the client gives the mutex back, and then on_freed says that all of it is over. */
SIMBA_API void simba_contender_discard(simba_contender *contender);

/* The mutex, the id and the status of a contender. The strings live as long as the contender. */
SIMBA_API const char *simba_contender_mutex(const simba_contender *contender);
SIMBA_API const char *simba_contender_id(const simba_contender *contender);
SIMBA_API simba_status simba_contender_status(const simba_contender *contender);

/* How long a contender may still act, and under which token. Returns the time left of the lease by this process's clock,
 * less the stop margin; 0 if it is not the owner. While the on_released of a graceful stop runs, the margin is not
 * deducted: it is there for that. Lock-free, no round trip. Correct even before a slow dispatcher calls on_released. */
SIMBA_API int64_t simba_contender_held_for_ms(const simba_contender *contender);
/* The same as yes or no, to the nanosecond; and whether the lease is still in its ttl. Lock-free. */
SIMBA_API bool simba_contender_is_owner(const simba_contender *contender);
SIMBA_API bool simba_contender_in_ttl(const simba_contender *contender);
/* The fencing token of the grant held now; 0 without one. Lock-free. */
SIMBA_API uint64_t simba_contender_token(const simba_contender *contender);
/* All of that at once; set `ret_lease->size` before the call. Lock-free. */
SIMBA_API int simba_contender_lease(const simba_contender *contender, simba_lease *ret_lease);
/* The owner that this contender last heard of. */
SIMBA_API int simba_contender_owner(simba_contender *contender, simba_owner *ret_owner);
/* How long that owner's lease still lasts unless it is renewed, by what this contender last heard. 0: nobody owns the
 * mutex, or the lease may be over; INT64_MAX: the lease lasts as long as a session. */
SIMBA_API int64_t simba_contender_owner_left_ms(simba_contender *contender);
/* The grant held now, for simba_client_give_back. ESTATE: there is none; ENOTSUP: leases are sessions. */
SIMBA_API int simba_contender_grant(simba_contender *contender, simba_grant *ret_grant);

/* Write the note of the mutex, as its holder; a length of 0 removes it. The lease stays as it is. Blocks for one answer. The
 * first write of a grant blocks for two: it looks for the record of a schedule (see simba_schedule_read) and leaves that in place.
 * Errors: EINVAL (longer than SIMBA_NOTE_MAX), ESTATE (not held), ELOST (the store says that leadership has ended, and
 * wrote nothing), ENOTSUP (as for simba_client_note), and the store's errors. After EUNAVAILABLE or ETIMEDOUT the store may
 * have written the note or not, or may still write it, unless another write succeeds before. */
SIMBA_API int simba_contender_note_set(simba_contender *contender, const void *bytes, size_t length, simba_error *err);
/* Read it, as simba_client_note does, but without the record of a schedule. */
SIMBA_API int simba_contender_note(simba_contender *contender, simba_error *err, simba_note *ret_note);

/* --- locker ------------------------------------------------------------------------------------- */

typedef struct simba_locker simba_locker;

typedef struct simba_locker_options {
    size_t size;
    const char *id;
    simba_timing timing;
    /* 0: no such rule. Otherwise acquire returns SIMBA_ETOOSOON at once if an acquire under such a rule succeeded within
     * the last so many milliseconds, here or elsewhere, by the store's clock. The note of the mutex records when the
     * latest such run began, and simba_locker_once_end adds how it ended: see simba_schedule_read. simba_locker_note and
     * _note_set read and write the rest of the note. Acquire returns SIMBA_ESTATE if the note has the record of a
     * schedule. Needs a store that keeps notes. */
    int64_t once_per_ms;
    /* 0: none. Otherwise nobody else gets the mutex for so many milliseconds after acquire. The client makes the lease at
     * least as long. If you release earlier, or the client closes, or the process dies, the lease stays until it ends by
     * itself. Not available where leases are sessions. */
    int64_t min_hold_ms;
    /* With once_per_ms: a run that failed or was cut short may begin again within the period. A run failed if its holder
     * called simba_locker_once_end with a result other than 0. It was cut short if its holder gave the mutex back, lost
     * it or died without that call. While a run goes on, acquire waits for its end. A run that begins again begins a new
     * period. */
    bool once_retry_failed;
    /* 0: one at a time. Otherwise at most so many lockers, up to SIMBA_SLOTS_MAX, hold the mutex at a time. Each of its slots
     * is a mutex of its own, called MUTEX#1, MUTEX#2 and so on; the locker shows the token, owner, lease and note of its slot.
     * The mutex itself is a turnstile: only one contender at a time asks for slots. Its note has the number of slots; acquire
     * returns SIMBA_ESTATE if that is another one. An acquire that tries once may wait for the turnstile for a second. Not
     * together with once_per_ms. Needs a store that keeps notes. */
    int64_t slots;
} simba_locker_options;

#define SIMBA_LOCKER_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(simba_locker_options), NULL, SIMBA_TIMING_INHERIT, 0, 0, false, 0                                       \
    }

/* Make a lock for a mutex. It acquires nothing yet. `options` may be NULL.
 * Errors: EINVAL, ENOMEM, ECLOSED, ENOTSUP (once_per_ms or min_hold_ms on a store that cannot do it). */
SIMBA_API int simba_locker_new(simba_client *client, const char *mutex, const simba_locker_options *options,
                               simba_error *err, simba_locker **ret_locker);

/* Block until the locker owns the mutex. `timeout_ms` 0: try once; -1: wait for ever. While the mutex is held, the client
 * renews the lease in the background. On a timeout or a cancel, acquire returns within 100 ms even if the store does not
 * answer.
 * If the store granted the mutex after all, the client gives it back in the background; the next acquire of this locker,
 * free and close wait for that.
 * Errors: ETIMEDOUT (another contender owned it all the time; the text names it), ECANCELED, ESTATE (a second acquire
 * while held or waiting: a locker is not re-entrant), EUNAVAILABLE (the only or last try could not reach the store),
 * ETOOSOON (once_per_ms), and at once any permanent error of the store. With once_per_ms or slots it sends up to three
 * more requests to the store, and each may take as long as a request may. */
SIMBA_API int simba_locker_acquire(simba_locker *locker, int64_t timeout_ms, simba_error *err);

/* Record how a run under once_per_ms has ended, and when by the store's clock: 0 is success, any other number is the
 * program's own. Call it while the mutex is held, before release. You may call it again, for instance after an error; the
 * last result counts. No other thread may write the note of this locker meanwhile. Blocks for two answers.
 * Errors: ESTATE (the locker has no once_per_ms or does not hold the mutex), ELOST (leadership has ended, and nothing was
 * recorded), EINVAL (the note of the work leaves no room), and the store's errors. After EUNAVAILABLE or ETIMEDOUT the
 * store may have recorded the end or not. */
SIMBA_API int simba_locker_once_end(simba_locker *locker, int result, simba_error *err);

/* Give the mutex back. After every result the mutex is no longer held, and you can use the locker again.
 * Errors: ELOST (leadership had ended before; the text says why), ESTATE (not held), EUNAVAILABLE, ETIMEDOUT (given up
 * here, but the store could not be told). */
SIMBA_API int simba_locker_release(simba_locker *locker, simba_error *err);

/* Make an acquire that waits in another thread return SIMBA_ECANCELED. Does nothing if none waits. */
SIMBA_API int simba_locker_cancel(simba_locker *locker);

/* Release if held, then free. Not while another thread waits in acquire: cancel and join it first. */
SIMBA_API void simba_locker_free(simba_locker *locker);

/* Why the leadership of the latest acquire ended. SIMBA_REASON_NONE while it goes on, and if that acquire failed. After a
 * loss it has the reason at once, and release then returns SIMBA_ELOST. After a release without loss it is
 * SIMBA_REASON_STOPPED. */
SIMBA_API simba_reason simba_locker_reason(simba_locker *locker);

/* The state of a locker. Each works like the contender's function of that name: see simba_contender_held_for_ms. */
SIMBA_API int64_t simba_locker_held_for_ms(const simba_locker *locker);
SIMBA_API int simba_locker_lease(const simba_locker *locker, simba_lease *ret_lease);
SIMBA_API uint64_t simba_locker_token(const simba_locker *locker);
/* The slot that it holds, from 1 on; 0: it holds none, or has none. */
SIMBA_API int simba_locker_slot(const simba_locker *locker);
SIMBA_API const char *simba_locker_id(const simba_locker *locker);
SIMBA_API int simba_locker_owner(simba_locker *locker, simba_owner *ret_owner);
SIMBA_API int64_t simba_locker_owner_left_ms(simba_locker *locker);
SIMBA_API int simba_locker_grant(simba_locker *locker, simba_grant *ret_grant);
SIMBA_API int simba_locker_note_set(simba_locker *locker, const void *bytes, size_t length, simba_error *err);
SIMBA_API int simba_locker_note(simba_locker *locker, simba_error *err, simba_note *ret_note);

/* Release and free a locker at the end of its scope. With gcc and clang, for a variable declared as
 * SIMBA_LOCKER_SCOPED simba_locker *lock = NULL; */
SIMBA_API void simba_locker_cleanup(simba_locker **locker);
#define SIMBA_LOCKER_SCOPED __attribute__((cleanup(simba_locker_cleanup)))

/* --- scheduler ---------------------------------------------------------------------------------- */

typedef struct simba_scheduler simba_scheduler;
typedef struct simba_run simba_run;

/* One run of the work, on a callback thread, as leader. Runs of one scheduler never overlap. */
typedef void (*simba_work_fn)(simba_run *run, void *user);

/* What the work asks while it runs. Must it end, because leadership is lost or ending? How long may it still act? Under
 * which token? */
SIMBA_API bool simba_run_stopping(const simba_run *run);
SIMBA_API int64_t simba_run_held_for_ms(const simba_run *run);
SIMBA_API uint64_t simba_run_token(const simba_run *run);

/* Sleep, but not past the moment at which the run must end. True: the run must end. */
SIMBA_API bool simba_run_sleep(simba_run *run, int64_t ms);

/* Write and read the note of the scheduler's mutex. Work like simba_contender_note_set and simba_contender_note. The
 * record of a remembered schedule takes up to SIMBA_SCHEDULE_RECORD_MAX bytes of the note; these two handle the rest. */
SIMBA_API int simba_run_note_set(simba_run *run, const void *bytes, size_t length, simba_error *err);
SIMBA_API int simba_run_note(simba_run *run, simba_error *err, simba_note *ret_note);

/* Ask about this run of a remembered schedule (INTERVAL or CRON). When was it due, in milliseconds since 1970 on the
 * store's wall clock? How many due times between the last run and this one were missed and will not run? Was the last run
 * cut short, because its leader died or lost the mutex? (With SIMBA_AT_LEAST_ONCE, this run then repeats it.) For other
 * schedules: 0, 0 and false. */
SIMBA_API int64_t simba_run_due_at_ms(const simba_run *run);
SIMBA_API int64_t simba_run_missed(const simba_run *run);
SIMBA_API bool simba_run_cut_short(const simba_run *run);

/* Say how the run has ended: 0 is success, any other number is the program's own. Work that returns without calling this
 * has succeeded, or was cut short if simba_run_stopping() was true by then. */
SIMBA_API void simba_run_finish(simba_run *run, int result);

/* The first two start anew with each leadership. The last two are remembered in the note of the mutex: their due times
 * follow from the note and the store's clock, and not from the leader. See docs/schedules.md. */
typedef enum simba_schedule {
    SIMBA_SCHEDULE_FIXED_RATE,  /* every period, counted from start to start; skips a start that falls into a run */
    SIMBA_SCHEDULE_FIXED_DELAY, /* one period between the end of a run and the next start */
    SIMBA_SCHEDULE_INTERVAL,    /* every period, counted from the first run of all */
    SIMBA_SCHEDULE_CRON,        /* at the times that a cron expression names */
} simba_schedule;

/* What to do about due times that passed while nobody led, or while a run was in progress. */
typedef enum simba_catch_up {
    SIMBA_CATCH_UP_ONCE, /* run the last of them, in place of all */
    SIMBA_CATCH_UP_SKIP, /* run none of them */
    SIMBA_CATCH_UP_ALL,  /* run each of them in order; above the limit, leave out the oldest */
} simba_catch_up;

typedef enum simba_guarantee {
    SIMBA_AT_MOST_ONCE,  /* records a run before it begins; does not repeat a run that was cut short or failed */
    SIMBA_AT_LEAST_ONCE, /* records a run when it has succeeded; repeats a run that was cut short, and one that failed
                            after a pause that grows from one second to five minutes */
} simba_guarantee;

#define SIMBA_CATCH_UP_LIMIT 100 /* for SIMBA_CATCH_UP_ALL, unless the options say otherwise */
#define SIMBA_SCHEDULE_RECORD_MAX 640

typedef struct simba_scheduler_options {
    size_t size;
    const char *id;
    simba_timing timing;
    simba_schedule schedule;
    int64_t
        initial_delay_ms; /* from gaining leadership to the first run; INTERVAL: the first leadership of all; CRON: 0 */
    int64_t period_ms;    /* at least 1; CRON: 0 */
    simba_work_fn work;   /* required */
    void *user;
    simba_freed_fn on_freed; /* as for contenders */
    /* INTERVAL and CRON only. */
    const char
        *cron; /* "15 3 * * 1-5": minute, hour, day, month, day of the week; or six fields, seconds first; or @daily */
    const char *time_zone; /* of cron: "Europe/Berlin"; NULL: UTC */
    simba_catch_up catch_up;
    int64_t catch_up_limit; /* of SIMBA_CATCH_UP_ALL: 1 to 1,000; 0: SIMBA_CATCH_UP_LIMIT */
    simba_guarantee guarantee;
} simba_scheduler_options;

#define SIMBA_SCHEDULER_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(simba_scheduler_options), NULL, SIMBA_TIMING_INHERIT, SIMBA_SCHEDULE_FIXED_RATE, 0, 0, NULL, NULL,      \
            NULL, NULL, NULL, SIMBA_CATCH_UP_ONCE, 0, SIMBA_AT_MOST_ONCE                                               \
    }

/* Make a scheduler for a mutex. It runs nothing until you start it.
 * Errors: EINVAL, ENOMEM, ECLOSED; INTERVAL and CRON: ENOTSUP (this store keeps no notes); CRON: ENOTFOUND (no such time
 * zone), ECORRUPT (a damaged time zone file), ESYSTEM. */
SIMBA_API int simba_scheduler_new(simba_client *client, const char *mutex, const simba_scheduler_options *options,
                                  simba_error *err, simba_scheduler **ret_scheduler);

/* Start, stop and free a scheduler, and ask how it is. As for contenders, see simba_contender_start and its siblings.
 * simba_scheduler_stop tells a run in progress to end, waits for it, and keeps the mutex until it has ended. Inside the
 * work it cannot wait and returns at once. */
SIMBA_API int simba_scheduler_start(simba_scheduler *scheduler);
SIMBA_API int simba_scheduler_stop(simba_scheduler *scheduler);
SIMBA_API void simba_scheduler_free(simba_scheduler *scheduler);
SIMBA_API simba_status simba_scheduler_status(const simba_scheduler *scheduler);
SIMBA_API bool simba_scheduler_is_leader(const simba_scheduler *scheduler);
/* The state of a scheduler. Each works like the contender's function of that name. */
SIMBA_API const char *simba_scheduler_id(const simba_scheduler *scheduler);
SIMBA_API int simba_scheduler_lease(const simba_scheduler *scheduler, simba_lease *ret_lease);
SIMBA_API int simba_scheduler_owner(simba_scheduler *scheduler, simba_owner *ret_owner);
SIMBA_API int64_t simba_scheduler_owner_left_ms(simba_scheduler *scheduler);
SIMBA_API int simba_scheduler_grant(simba_scheduler *scheduler, simba_grant *ret_grant);

/* What the note of a mutex says of its schedule. Times are in milliseconds since 1970 on the store's wall clock. */
typedef struct simba_schedule_info {
    size_t size;
    char when[SIMBA_SCHEDULE_RECORD_MAX +
              1];      /* "every 3600000" and "once per 3600000", in ms; "cron 15 3 * * 1-5 in Europe/Berlin" */
    int64_t due_at_ms; /* of the last run; 0: there was none, and the next four mean nothing */
    int64_t begun_at_ms;
    int64_t ended_at_ms; /* 0: it goes on, or was cut short */
    int result;          /* of a run that has ended; 0: success */
    int64_t missed;      /* due times before it that were not run */
    int64_t next_at_ms;  /* the next due time; 0: not known, for instance because this host lacks the time zone */
    size_t length;       /* of the record, in bytes; what follows it in the note belongs to the work */
} simba_schedule_info;

#define SIMBA_SCHEDULE_INFO_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(simba_schedule_info), {0}, 0, 0, 0, 0, 0, 0, 0                                                          \
    }

/* Read the record of a schedule from a note. The note comes from simba_client_note or simba_client_list. Set
 * `ret_info->size` before the call. Asks no store.
 * Errors: ENOTFOUND (the note has no record of a schedule), ECORRUPT, EINVAL. */
SIMBA_API int simba_schedule_read(const void *note, size_t length, simba_error *err, simba_schedule_info *ret_info);

/* --- observer ----------------------------------------------------------------------------------- */

typedef struct simba_observer simba_observer;

/* The first call reports the owner at the start; if there is none, before and after are both nobody. Calls never overlap.
 * Several changes may be reported as one, but the last call always reports the true owner. */
typedef void (*simba_observed_fn)(simba_observer *observer, const simba_state *state, void *user);
/* The note of the mutex may have changed: read it with simba_client_note. As simba_noted_fn. */
typedef void (*simba_observed_note_fn)(simba_observer *observer, void *user);

typedef struct simba_observer_options {
    size_t size;
    simba_observed_fn on_changed; /* required */
    void *user;
    int64_t poll_ms;                 /* default 1,000: how often to ask; ten times as long on a store that pushes */
    simba_freed_fn on_freed;         /* as for contenders */
    simba_observed_note_fn on_noted; /* may be NULL, as for contenders */
} simba_observer_options;

#define SIMBA_OBSERVER_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(simba_observer_options), NULL, NULL, 1000, NULL, NULL                                                   \
    }

/* Make an observer of a mutex. It reports nothing until you start it.
 * Errors: EINVAL, ENOMEM, ECLOSED. */
SIMBA_API int simba_observer_new(simba_client *client, const char *mutex, const simba_observer_options *options,
                                 simba_error *err, simba_observer **ret_observer);

/* Start, stop and free an observer. When simba_observer_stop has returned, on_changed neither runs nor will run. Inside
 * on_changed it cannot wait and returns at once.
 * Errors: ESTATE (it is started already), ECLOSED. */
SIMBA_API int simba_observer_start(simba_observer *observer);
SIMBA_API int simba_observer_stop(simba_observer *observer);
SIMBA_API void simba_observer_free(simba_observer *observer);

/* The mutex of an observer, and the owner that it last heard of. */
SIMBA_API const char *simba_observer_mutex(const simba_observer *observer);
SIMBA_API int simba_observer_owner(simba_observer *observer, simba_owner *ret_owner);

/* --- memory ------------------------------------------------------------------------------------- */

/* Replace malloc, realloc and free for the library's own memory. Call it before anything else, with all three or none
 * (NULL, NULL, NULL: the system's). SIMBA_EINVAL otherwise. */
SIMBA_API int simba_set_allocator(void *(*malloc_fn)(size_t), void *(*realloc_fn)(void *, size_t),
                                  void (*free_fn)(void *));

#ifdef __cplusplus
}
#endif
#endif
