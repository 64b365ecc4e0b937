/* simba: distributed mutexes, leader election and leader-gated work over the store you already run.
 *
 * This header is the whole public interface. There are four doors to one protocol:
 *
 *   contender   callbacks when this process gains and loses a mutex
 *   locker      a blocking lock
 *   scheduler   periodic work that runs on the leader only
 *   observer    sees who owns a mutex without contending
 *
 * All of them hang off a client, which is a connection to a store, named by a URL.
 *
 * Conventions, true for every declaration unless it says otherwise:
 *   - Functions return 0 (or a count) or a negative SIMBA_E… code. A `ret_` pointer comes last and is
 *     untouched on failure. `err`, where there is one, may be NULL; on failure it gets the code and a
 *     sentence that names the culprit.
 *   - Strings passed in are copied. Strings handed out belong to the handle they came from.
 *   - Handles may be used from any thread. Freeing one while another thread uses it is the caller's error.
 *   - Everything may be called inside a callback unless its comment says otherwise.
 *   - Destructors take NULL.
 *   - In a child of fork() every handle of the parent answers SIMBA_EFORKED; open a client of its own there.
 *   - In a handler of a signal, only those functions may be called whose comment says that they are lock-free. A thread that
 *     takes signals by sigwait() is a thread like any other.
 *   - A client may be closed in an exit handler or in the destructor of a library. Where the connection uses TLS and OpenSSL has
 *     been taken down before, the store cannot be told any more, and what was held becomes free when its lease ends.
 *   - A plugin that is unloaded should have closed its clients. The shared library stays in memory, and a client that
 *     was left open goes on holding what it holds; with the static library, unloading takes the code from under its threads.
 *   - The library changes nothing of the process that is the program's, and its threads take no signals. Where descriptors 0
 *     to 2 are closed it puts something there that can be neither read nor written, so that no output of the program
 *     ends up in a connection.
 *   - A struct whose first member is `size` is initialised with its …_INIT macro, whichever side fills in the rest. It may
 *     get more members at its end; programs that were compiled before go on as they are. The other structs never change.
 *   - Durations are milliseconds. A name that ends in `_at_ms` is a point on the *store's* clock; it means
 *     something only beside another such point.
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

/* The version of the library that is loaded, such as "0.1.0"; that of this header is in the macros. */
SIMBA_API const char *simba_version(void);

/* --- errors ------------------------------------------------------------------------------------- */

/* Codes are stable: a number is never reused. The transient ones may go away by themselves. */
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
    X(ECORRUPT, -13, "stored data is damaged or not ours")                                                             \
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

/* Where a failing call leaves its words. The caller owns it; nothing is remembered behind its back. The text is UTF-8 that a
 * terminal can show: control characters in what a store answered appear as \xNN, here and in the log. */
typedef struct simba_error {
    int code;
    char text[256];
} simba_error;

/* The name of an error code, and its meaning. "SIMBA_EINVAL" and "bad argument", for instance; for an unknown code
 * "SIMBA_E?" and "unknown error". Never NULL. */
SIMBA_API const char *simba_error_name(int code);
SIMBA_API const char *simba_error_text(int code);

/* --- values ------------------------------------------------------------------------------------- */

#define SIMBA_ID_MAX 128                         /* bytes of a contender id */
#define SIMBA_MUTEX_MAX 66                       /* characters of a mutex name, in UTF-8 */
#define SIMBA_MUTEX_BYTES 264                    /* what 66 characters can come to */
#define SIMBA_TTL_MIN_MS 10                      /* shortest time to live */
#define SIMBA_NOTE_MAX 1024                      /* bytes of a note */
#define SIMBA_LEASE_MAX_MS INT64_C(315360000000) /* longest ttl + transition: ten years */

/* Who owns a mutex. Nobody: id "" and zeroes. The id is what the store has, whoever wrote that: it may be no UTF-8, and is
 * not for a terminal as it stands. Times are on the store's clock, and 0 if unknown. Where leases are sessions, the two
 * ends are INT64_MAX: as long as the session lives. */
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

/* Does this owner own the mutex, and in which part of its lease? `now_ms` is the store's now. NULL stands for nobody.
 * simba_owner_is_none: it is nobody. simba_owner_in_ttl, simba_owner_in_transition: the lease is in that part now.
 * simba_owner_has_owner: it is in one of them, so nobody else may take over. simba_owner_is: the owner has this id. */
SIMBA_API bool simba_owner_is_none(const simba_owner *owner);
SIMBA_API bool simba_owner_in_ttl(const simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_in_transition(const simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_has_owner(const simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_is(const simba_owner *owner, const char *id);

/* Has the owner changed, and did this id gain or lose the mutex by that? A new grant to the same id is a change too: the
 * token tells them apart. */
SIMBA_API bool simba_state_changed(const simba_state *state);
SIMBA_API bool simba_state_acquired(const simba_state *state, const char *id);
SIMBA_API bool simba_state_released(const simba_state *state, const char *id);

/* Why leadership ended. */
#define SIMBA_REASONS(X)                                                                                               \
    X(NONE, "none")                 /* it has not */                                                                   \
    X(STOPPED, "stopped")           /* by stop, release or close */                                                    \
    X(SUPERSEDED, "superseded")     /* the store names another owner, or has forgotten the grant */                    \
    X(EXPIRED, "expired")           /* the store could not be reached until the lease ended by our own clock */        \
    X(SESSION_LOST, "session lost") /* stores whose leases are sessions */                                             \
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
    SIMBA_STATUS_STARTING, /* started, waiting out its initial delay */
    SIMBA_STATUS_RUNNING,
    SIMBA_STATUS_STOPPING,
} simba_status;

/* A status in one word, such as "running". Never NULL. */
SIMBA_API const char *simba_status_name(simba_status status);

/* Read a duration. "500ms", "10s", "1.5m", "1h": a unit is required, and a fraction has to come to whole milliseconds.
 * Errors: EINVAL. */
SIMBA_API int simba_duration_parse(const char *text, int64_t *ret_ms);

/* --- contender ids ------------------------------------------------------------------------------ */

/* Make an id for a contender. simba_id_host, the default: "{host}.{pid}.{number}", such as web-3.1742.k7f2q9ab: ASCII, at
 * most 32 characters, and different in every process, also of containers that share a host name and a pid. simba_id_uuid:
 * 32 hexadecimal digits; SIMBA_ESYSTEM when the system has no randomness to give. Both write at most SIMBA_ID_MAX + 1
 * bytes.
 *
 * Simba on the JVM calls its contenders {counter}:{pid}@{address}, or by 32 hexadecimal digits. An id of the first form may
 * be given here too, but a JVM contender can have the same one, and under one id the two do not exclude each other. */
SIMBA_API void simba_id_host(char ret_id[SIMBA_ID_MAX + 1]);
SIMBA_API int simba_id_uuid(char ret_id[SIMBA_ID_MAX + 1]);

/* --- timing ------------------------------------------------------------------------------------- */

/* "Take it from the level above": contender from client, client from URL, URL from the defaults. */
#define SIMBA_INHERIT INT64_MIN

/* A part of other structs, so its own size never changes: what is reserved becomes the settings to come. */
typedef struct simba_timing {
    int64_t ttl_ms;           /* default 10,000; the owner renews just before it is over */
    int64_t transition_ms;    /* default 6,000; may be 0, at the price of no second chance for a renewal */
    int64_t initial_delay_ms; /* default 0: contend at once */
    int64_t stop_margin_ms;   /* default 0: how long before the end of its lease an unreachable holder is told */
    int64_t hold_limit_ms;    /* default 0: none; otherwise leadership is given back after this long */
    /* Around the end of somebody's transition a waiter tries between these two. One that knows its place in a queue comes in
     * turn instead. */
    int64_t jitter_min_ms; /* default -200, scaled down for short leases */
    int64_t jitter_max_ms; /* default 1,000, likewise */
    int64_t reserved[5];   /* for settings to come: SIMBA_INHERIT or 0 */
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

/* Where callbacks run. In every form they are serial per contender. */
typedef enum simba_dispatch {
    SIMBA_DISPATCH_POOL,     /* threads of the library; grows while callbacks are slow */
    SIMBA_DISPATCH_FD,       /* the application's own loop, which drives the whole client: see simba_client_fd() */
    SIMBA_DISPATCH_EXECUTOR, /* the application's own executor */
} simba_dispatch;

/* Must arrange for run(arg) to be called exactly once, soon, on any thread. It may be called from any thread,
 * and must not call run itself. */
typedef void (*simba_executor_fn)(void *user, void (*run)(void *arg), void *arg);

typedef enum simba_log_level {
    SIMBA_LOG_ERROR,
    SIMBA_LOG_WARN,
    SIMBA_LOG_INFO,
    SIMBA_LOG_DEBUG,
    SIMBA_LOG_EVENT, /* not for people: every event of every contender as a line for simba-timeline(1) */
} simba_log_level;

/* Called from any thread with locks of the library held: return quickly, call nothing of simba. `text` is a sentence and,
 * behind it, what it is about as key=value: "waits for its owner; mutex=m id=a owner=b left_ms=1850". A value with blanks or
 * the like stands in quotes. */
typedef void (*simba_log_fn)(void *user, simba_log_level level, const char *text);

/* The same for programs. Valid during the call. Members that are beyond `size` are not there. */
typedef struct simba_log_field {
    const char *key; /* one that ends in _ms has whole milliseconds */
    const char
        *value; /* as the store has it: an id may be no UTF-8. "": not known, for instance when a session will end */
} simba_log_field;

typedef struct simba_log_record {
    size_t size;
    simba_log_level level;
    const char *event;   /* "waits": which ones there are, and their keys, is in docs/log.md; the same on every store */
    const char *message; /* the sentence */
    const simba_log_field *fields;
    size_t field_count;
} simba_log_record;

/* Called as simba_log_fn is. */
typedef void (*simba_log_record_fn)(void *user, const simba_log_record *record);

typedef struct simba_client_options {
    size_t size; /* sizeof(simba_client_options) */
    simba_timing timing;
    simba_dispatch dispatch;
    simba_executor_fn executor; /* with SIMBA_DISPATCH_EXECUTOR */
    void *executor_user;
    unsigned max_callback_threads; /* of the pool; default 64 */
    unsigned drift_ppm;            /* by how much two clocks' rates may differ; default 10,000 (1 %) */
    int64_t op_timeout_ms;         /* longest wait for one answer of the store; default 4,000 */
    simba_log_fn log;
    void *log_user;
    simba_log_level log_level;      /* default SIMBA_LOG_WARN */
    simba_log_record_fn log_record; /* instead of `log` if it is set, with the same user */
} simba_client_options;

#define SIMBA_CLIENT_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(simba_client_options), SIMBA_TIMING_INHERIT, SIMBA_DISPATCH_POOL, NULL, NULL, 64, 10000, 4000, NULL,    \
            NULL, SIMBA_LOG_WARN, NULL                                                                                 \
    }

/* Open a store. With `url` NULL it is the one that $SIMBA_URL names, and without that the embedded SQLite store of this
 * user. `options` may be NULL. May block for as long as it takes to open a file; a store behind a network is connected to
 * later.
 * Errors: EINVAL (options), EURL, ENOTBUILT, EPERM, ECORRUPT, ESTORE (made by a newer version), ENOTSUP (a file on a
 * network), ETIMEDOUT (a file that stays locked), EUNAVAILABLE, ENOMEM, ESYSTEM. */
SIMBA_API int simba_client_open(const char *url, const simba_client_options *options, simba_error *err,
                                simba_client **ret_client);

/* Close a client. Stops everything that hangs off it as its own stop would, closes the store, ends the threads. Takes as long
 * as callbacks in progress take, plus at most a few answers of the store. Contenders, lockers, schedulers and
 * observers stay to be freed by their owners; all else they answer with SIMBA_ECLOSED.
 * Not inside a callback: SIMBA_ESTATE there, and nothing happened. A process that ends with a client open gives nothing back:
 * others have to wait for the end of its leases. */
SIMBA_API int simba_client_close(simba_client *client);

/* The URL as opened, without passwords. Valid until close. */
SIMBA_API const char *simba_client_url(const simba_client *client);

/* Whom a store can keep apart: all who reach the same server, or only the processes of this host, or the threads of this
 * process. */
typedef enum simba_reach { SIMBA_REACH_NETWORK, SIMBA_REACH_HOST, SIMBA_REACH_PROCESS } simba_reach;

/* What the options of a client, its URL and the defaults come to: the timing of a contender whose own options leave it
 * open. Where leases are sessions, ttl_ms and transition_ms have no meaning. */
typedef struct simba_settings {
    size_t size;
    simba_timing timing;
    int64_t session_ms;   /* how long a session lasts, as asked for and later as granted; 0: leases are not sessions */
    bool session_granted; /* there is a session now, and session_ms is what the server has granted */
    int64_t longest_margin_ms; /* the longest stop_margin_ms that a contender may have which inherits the rest */
    simba_reach reach;
} simba_settings;

#define SIMBA_SETTINGS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(simba_settings), SIMBA_TIMING_INHERIT, 0, false, 0, SIMBA_REACH_NETWORK                                 \
    }

/* Tell the settings that a client works with. `ret_settings` comes with its size. */
SIMBA_API int simba_client_settings(const simba_client *client, simba_settings *ret_settings);

/* SIMBA_DISPATCH_FD only (SIMBA_ESTATE otherwise): the application's loop drives the client, which starts no thread. The
 * descriptor becomes readable when there is anything to do: I/O, a timer, a renewal, a callback. Wait for that by poll, or in an
 * epoll of your own, level-triggered. Then call simba_client_dispatch(): it does what is due without waiting, runs the
 * callbacks on this thread, and returns how many it ran, which may be none. The descriptor belongs to the client.
 *
 * A loop that stands still renews nothing. Its leases end in time, here (held_for_ms says 0) and in the store, others take
 * over, and the next dispatch calls on_released. So a program that is stuck loses its leadership instead of keeping it. The
 * same holds for a callback: one that takes longer than the lease loses it, and an on_released that does is no longer waited
 * for. Leave slow work to a thread of your own, or call simba_client_dispatch() from inside of it.
 * A thread that waits in a call of this client, such as acquire, stop, list, close or simba_run_sleep, drives the client
 * meanwhile: such a call needs no loop, and may be made on the loop's thread.
 *
 * Where a client library blocks, the store has threads all the same: SQLite one, MySQL and ZooKeeper a few. So has a
 * redis:// URL with the name of a host, which a thread looks up; one with an address has none. */
SIMBA_API int simba_client_fd(simba_client *client);
SIMBA_API int simba_client_dispatch(simba_client *client);

/* How often something took how long. A bucket counts what took longer than the bound of the bucket before it, and not longer
 * than its own bound. The bounds are 10 us, 30 us, 100 us and so on up to 30 s, then 1, 5 and 15 minutes, 1 and 6 hours, and
 * a day; the last bucket has none. They never change. */
#define SIMBA_HISTOGRAM_BUCKETS 21

typedef struct simba_histogram {
    uint64_t sum_ns; /* of all that was counted */
    uint64_t buckets[SIMBA_HISTOGRAM_BUCKETS];
} simba_histogram;

/* The bound of a bucket in nanoseconds; INT64_MAX: it has none. */
SIMBA_API int64_t simba_histogram_bound_ns(unsigned bucket);

/* What one client has counted since it was opened. A request that the store failed counts in `errors` and
 * `errors_by_code`, and in none of the histograms. */
typedef struct simba_stats {
    size_t size;
    uint64_t contenders;         /* handles alive now: contenders, lockers, schedulers */
    uint64_t held;               /* of those, holding now */
    uint64_t requests;           /* handed to the store */
    uint64_t batches;            /* flushes those went out in */
    uint64_t errors;             /* requests that the store did not answer or refused */
    uint64_t grants;             /* leaderships gained */
    uint64_t renewals;           /* successful ones */
    uint64_t renewals_failed;    /* unanswered or refused ones */
    uint64_t losses[8];          /* leaderships ended, by simba_reason */
    uint64_t late_wins;          /* grants that came back too late and were given back */
    uint64_t pushes;             /* wake-ups from the store */
    uint64_t callbacks;          /* run */
    uint64_t callback_threads;   /* alive now */
    uint64_t suspends;           /* times the machine slept, seen as jumps between boot time and monotonic time */
    uint64_t max_lag_ns;         /* longest that a timer was late */
    uint64_t waiting;            /* contenders, lockers and schedulers that want the mutex now and do not hold it */
    uint64_t waits_abandoned;    /* waits that ended without leadership: stopped, timed out, cancelled, won too late */
    uint64_t errors_by_code[32]; /* `errors`, by the negated SIMBA_E… code; 0: codes that this library does not know */
    simba_histogram wait;        /* from wanting a mutex to holding it; waits in progress are not counted yet */
    simba_histogram hold;        /* from holding a mutex to being told that it ended; likewise */
    simba_histogram acquire;     /* how long the store took to answer an acquire, whoever owns the mutex then, */
    simba_histogram renew;       /* a renewal, */
    simba_histogram release;     /* and a release */
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

/* Fill in what the client has counted. `ret_stats` comes with its size. Takes less than a millisecond, and asks the store
 * for nothing. */
SIMBA_API int simba_client_stats(simba_client *client, simba_stats *ret_stats);

/* Flags of simba_stats_write. */
#define SIMBA_STATS_MORE 1u /* leave out the final "# EOF": the program adds metrics of its own behind it */

/* Write statistics as OpenMetrics text, which Prometheus and its kin read; its media type is
 * "application/openmetrics-text; version=1.0.0; charset=utf-8". A text has each metric once, so the statistics of all clients
 * of a process go into one call: `stats[0]` to `stats[count - 1]`, told apart by the label client="…" with the
 * names that the program chooses. With `names` NULL there is no such label, and `count` is 1.
 * Works as snprintf does: it returns the length of the whole text, writes at most `size` bytes with the terminating zero, and
 * `ret_text` may be NULL when `size` is 0. Some 12,000 bytes are needed per client, and equal statistics make an
 * equal text, so a program can ask for the length first. Numbers do not depend on the locale.
 * Errors: EINVAL (no statistics, several without names, two of one name, unknown flags). */
SIMBA_API int simba_stats_write(const simba_stats *const *stats, const char *const *names, size_t count, unsigned flags,
                                char *ret_text, size_t size);

/* One row of a list. Valid during the call. Members that are beyond `size` are not there. */
typedef struct simba_listing {
    size_t size;
    const char *mutex;
    const simba_owner *owner;
    int64_t now_ms;   /* of the store, for the owner's times */
    int64_t waiters;  /* contenders that wait for it; -1: the store does not know */
    const void *note; /* bytes of any value; NULL: there is none, or the store keeps no notes */
    size_t note_length;
    uint64_t note_token;        /* of the grant under which it was written */
    int64_t note_written_at_ms; /* on the store's wall clock */
} simba_listing;

/* List the mutexes of a store. Calls `row` for every mutex whose name matches the shell pattern (NULL: all), ordered by
 * name, on this thread, after the store has answered. Blocks for one answer. Not inside `row`.
 * Errors: ENOTSUP, and what the store answers. */
SIMBA_API int simba_client_list(simba_client *client, const char *pattern,
                                void (*row)(const simba_listing *listing, void *user), void *user, simba_error *err);

typedef enum simba_verdict { SIMBA_VERDICT_OK, SIMBA_VERDICT_WARNING, SIMBA_VERDICT_BROKEN } simba_verdict;

/* Something about the store that whoever runs it wants to know. Valid during the call. Members that are beyond `size` are
 * not there. */
typedef struct simba_finding {
    size_t size;
    simba_verdict verdict;
    const char *what;   /* one word: "schema", "durability" */
    const char *text;   /* a sentence */
    const char *remedy; /* what to do about it; NULL: nothing */
} simba_finding;

/* Look at how the store is set up. Calls `found` for each thing to say about it, on this thread, after the store has
 * answered. Changes nothing. Blocks for one answer. Errors: ENOTSUP (there is nothing to set up), and what the store
 * answers. */
SIMBA_API int simba_client_examine(simba_client *client, void (*found)(const simba_finding *finding, void *user),
                                   void *user, simba_error *err);
/* Make in the store what is missing there: a table, a column. What exists stays as it is. Stores that need nothing, or
 * whose opening makes it, have nothing to do. Blocks for one answer. */
SIMBA_API int simba_client_prepare(simba_client *client, simba_error *err);

/* Take a mutex away from whoever owns it. The holder is told SIMBA_REASON_REVOKED as soon as it learns, by push where the
 * store has one for it, at the latest when it renews: until then it may act. SIMBA_ENOTFOUND when nobody owns it. Blocks
 * for one answer. */
SIMBA_API int simba_client_force_release(simba_client *client, const char *mutex, simba_error *err);

/* The note of a mutex: up to SIMBA_NOTE_MAX bytes of any value that belong to the mutex itself. Only its holder can write
 * it: the store checks the grant in the same step, so that a holder that has been replaced cannot overwrite what its successor
 * wrote. It stays when the mutex is released, expires or changes hands, and everybody can read it: the next leader finds what
 * the last one has left. */
typedef struct simba_note {
    size_t size;
    size_t length;                  /* of the note; 0: there is none */
    uint64_t token;                 /* of the grant under which it was written */
    int64_t written_at_ms;          /* when that was, on the store's wall clock: milliseconds since 1970 */
    int64_t now_ms;                 /* the same clock when the note was read; where the store has none, this host's */
    char bytes[SIMBA_NOTE_MAX + 1]; /* the note, and a zero behind it */
} simba_note;

#define SIMBA_NOTE_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(simba_note), 0, 0, 0, 0,                                                                                \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

/* Read the note of a mutex, whoever owns it. `ret_note` comes with its size. Blocks for one answer.
 * Errors: EINVAL, ENOTSUP (this store keeps no notes, or has to be made ready for them by `simba init`), and what the store
 * answers. */
SIMBA_API int simba_client_note(simba_client *client, const char *mutex, simba_error *err, simba_note *ret_note);

/* Remove a mutex that nobody owns from the store, with its note and all else that belongs to it. Whoever contends for it later
 * makes it anew, and gets greater tokens than those before. Blocks for one answer.
 * Errors: ESTATE (somebody owns it; the text names whom), ENOTFOUND (the store does not know it), EINVAL, ENOTSUP, and what the
 * store answers. */
SIMBA_API int simba_client_forget(simba_client *client, const char *mutex, simba_error *err);

/* One grant of a mutex, in values that outlive the handle and the process that got it. */
typedef struct simba_grant {
    char id[SIMBA_ID_MAX + 1];
    uint64_t nonce; /* of the attempt that got it */
    uint64_t token;
} simba_grant;

/* Give a mutex back in the place of its holder, for instance after that process has died. Ends this very grant and never
 * another. Only when nothing acts under the grant any more: the next owner may follow at once.
 * Errors: ELOST (the grant had ended before), ENOTSUP (leases are sessions), and what the store answers. Blocks for one
 * answer. */
SIMBA_API int simba_client_give_back(simba_client *client, const char *mutex, const simba_grant *grant,
                                     simba_error *err);

/* The lease that a contender or locker holds, as this client knows it: by our own clock, without a round trip. */
typedef struct simba_lease {
    size_t size;
    uint64_t token;      /* 0: it holds none, and the rest is 0 too */
    int64_t held_for_ms; /* until leadership ends here unless the lease is renewed: what held_for_ms answers */
    int64_t left_ms;     /* until the lease itself ends, so with the stop margin */
    int64_t ttl_left_ms; /* of that, until the ttl is over; where leases are sessions the same as left_ms */
    bool overdue;        /* it should have been renewed long before, and was not */
} simba_lease;

#define SIMBA_LEASE_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(simba_lease), 0, 0, 0, 0, false                                                                         \
    }

/* --- contender ---------------------------------------------------------------------------------- */

typedef struct simba_contender simba_contender;

/* Serial per contender and alternating: acquired, released, acquired … `state` is valid during the call.
 * If leadership came and went before on_acquired could start, neither of the two is called. */
typedef void (*simba_acquired_fn)(simba_contender *contender, const simba_state *state, void *user);
typedef void (*simba_released_fn)(simba_contender *contender, const simba_state *state, simba_reason reason,
                                  void *user);
/* Any change of ownership that this contender learns of, its own among them. Several may be told as one. */
typedef void (*simba_changed_fn)(simba_contender *contender, const simba_state *state, void *user);

/* The note of the mutex may have changed: read it. Called once soon after the start, and then after every write that this
 * contender learns of, its own among them; several may be told as one, and there may be calls without a change. */
typedef void (*simba_noted_fn)(simba_contender *contender, void *user);

/* Called once after a handle was freed, when none of its callbacks runs or will run any more: what `user` points to may go.
 * A handle that is freed inside its own callback still has callbacks to come, so whoever frees cannot tell by itself. Runs on
 * any thread; call nothing of simba in it. In a child of fork() it is not called for handles of the parent. */
typedef void (*simba_freed_fn)(void *user);

typedef struct simba_contender_options {
    size_t size;
    const char *id; /* NULL: simba_id_host() */
    simba_timing timing;
    simba_acquired_fn on_acquired; /* each may be NULL */
    simba_released_fn on_released;
    simba_changed_fn on_changed;
    void *user;
    simba_freed_fn on_freed; /* may be NULL; called only if the contender came about */
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

/* Begin to contend; returns at once. SIMBA_ESTATE unless the status is SIMBA_STATUS_INITIAL. */
SIMBA_API int simba_contender_start(simba_contender *contender);

/* Stop contending. If it leads: on_released(stopped) runs first (on this thread, unless it already runs elsewhere),
 * the lease is renewed until it has returned, and only then is the mutex given back. When stop has returned, no
 * callback of this contender runs or will run, and nothing of it can take or keep the mutex. It may be started again.
 * Inside a callback of this same contender it cannot wait: it returns at once, and the same happens, in the same
 * order, after that callback has returned. (Two contenders whose callbacks stop each other at the same time wait for
 * ever: nobody could say whose callback is to be over first.)
 * Returns 0 also when it was not started; what the store answered, such as SIMBA_EUNAVAILABLE or SIMBA_ETIMEDOUT, when
 * it has stopped but the store could not be told, so that the mutex becomes free only when the lease ends. */
SIMBA_API int simba_contender_stop(simba_contender *contender);

/* Stop, then free. Inside a callback of this same contender the freeing happens after that callback and the stop. */
SIMBA_API void simba_contender_free(simba_contender *contender);
/* The same without waiting, for a loop that must not block: the handle is gone at once, on_released runs where callbacks run,
 * the mutex is given back after it, and on_freed says that all of it is over. */
SIMBA_API void simba_contender_discard(simba_contender *contender);

/* What a contender is for, under which id, and whether it is started. The texts live as long as the contender. */
SIMBA_API const char *simba_contender_mutex(const simba_contender *contender);
SIMBA_API const char *simba_contender_id(const simba_contender *contender);
SIMBA_API simba_status simba_contender_status(const simba_contender *contender);

/* How long a contender may still act, and under which token. The lease as it is by our own clock, less the stop margin
 * (without that deduction while the on_released of a graceful stop runs, which is what the margin is for); 0: not the
 * owner. Lock-free, no round trip. Also true in the moment before a slow dispatcher gets to call on_released. */
SIMBA_API int64_t simba_contender_held_for_ms(const simba_contender *contender);
/* The same question as yes or no, to the nanosecond; and for the ttl alone. Lock-free. */
SIMBA_API bool simba_contender_is_owner(const simba_contender *contender);
SIMBA_API bool simba_contender_in_ttl(const simba_contender *contender);
/* The fencing token of the grant held now; 0 without one. Lock-free. */
SIMBA_API uint64_t simba_contender_token(const simba_contender *contender);
/* All of that at once; `ret_lease` comes with its size. Lock-free. */
SIMBA_API int simba_contender_lease(const simba_contender *contender, simba_lease *ret_lease);
/* The owner as this contender last heard. */
SIMBA_API int simba_contender_owner(simba_contender *contender, simba_owner *ret_owner);
/* How long that owner's lease lasts from now unless it is renewed, by what this contender last heard. 0: nobody owns the
 * mutex, or the lease may be over; INT64_MAX: as long as a session lives. */
SIMBA_API int64_t simba_contender_owner_left_ms(simba_contender *contender);
/* The grant held now, for simba_client_give_back. ESTATE: there is none; ENOTSUP: leases are sessions. */
SIMBA_API int simba_contender_grant(simba_contender *contender, simba_grant *ret_grant);

/* Write the note of the mutex, as its holder; a length of 0 removes it. The lease stays as it is. Blocks for one answer, and for a
 * second one before the first write of a grant: where a schedule has noted its last run (see simba_schedule_read), that stays.
 * Errors: EINVAL (longer than SIMBA_NOTE_MAX), ESTATE (not held), ELOST (the store says that leadership has ended: nothing was
 * written), ENOTSUP (as for simba_client_note), and what the store answers. After EUNAVAILABLE or ETIMEDOUT the note
 * may have been written or not, or may still be, unless another write succeeds before. */
SIMBA_API int simba_contender_note_set(simba_contender *contender, const void *bytes, size_t length, simba_error *err);
/* Read it, as simba_client_note does, but without what a schedule has noted. */
SIMBA_API int simba_contender_note(simba_contender *contender, simba_error *err, simba_note *ret_note);

/* --- locker ------------------------------------------------------------------------------------- */

typedef struct simba_locker simba_locker;

typedef struct simba_locker_options {
    size_t size;
    const char *id;
    simba_timing timing;
    /* 0: no such rule. Acquire succeeds only if no acquire under such a rule did within the last so many milliseconds,
     * here or elsewhere, by the store's clock: otherwise it returns SIMBA_ETOOSOON at once. When it succeeded last is
     * remembered in the note of the mutex, as a schedule is: see simba_schedule_read. simba_locker_note and _note_set deal with
     * the rest of the note. The store has to keep notes. */
    int64_t once_per_ms;
    /* 0: none. Nobody else gets the mutex for so many milliseconds after it was acquired: the lease is made at least as long,
     * and a release before that leaves it to end by itself, also when the client closes or this process dies. Not where leases
     * are sessions. */
    int64_t min_hold_ms;
} simba_locker_options;

#define SIMBA_LOCKER_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(simba_locker_options), NULL, SIMBA_TIMING_INHERIT, 0, 0                                                 \
    }

/* Make a lock for a mutex. Nothing is acquired yet. `options` may be NULL.
 * Errors: EINVAL, ENOMEM, ECLOSED, ENOTSUP (once_per_ms or min_hold_ms on a store that cannot do it). */
SIMBA_API int simba_locker_new(simba_client *client, const char *mutex, const simba_locker_options *options,
                               simba_error *err, simba_locker **ret_locker);

/* Block until the mutex is ours. `timeout_ms` 0: try once; -1: for ever. While held, the lease is renewed behind the
 * scenes. When the time is over or it is cancelled, acquire returns within 100 ms, also if the store does not answer: what
 * it may have got is then given back in the background, which the next acquire of this locker, free and close wait for.
 * Errors: ETIMEDOUT (owned by somebody else all the while; the text names whom), ECANCELED, ESTATE (a second acquire while
 * held or waiting; it is not re-entrant), EUNAVAILABLE (the only or last try found no store), ETOOSOON (once_per_ms), and at once
 * whatever permanent error the store answers. With once_per_ms it asks the store up to three times more, and may take as long
 * for each as a request may. */
SIMBA_API int simba_locker_acquire(simba_locker *locker, int64_t timeout_ms, simba_error *err);

/* Give the mutex back. Whatever it returns, the mutex is not held any more, and the locker can be used again.
 * Errors: ELOST (leadership had ended before, and the text says why), ESTATE (not held), EUNAVAILABLE, ETIMEDOUT (given up
 * here, but the store could not be told). */
SIMBA_API int simba_locker_release(simba_locker *locker, simba_error *err);

/* Make an acquire that waits in another thread return SIMBA_ECANCELED. Without one it does nothing. */
SIMBA_API int simba_locker_cancel(simba_locker *locker);

/* Release if held, then free. Not while another thread waits in acquire: cancel and join it first. */
SIMBA_API void simba_locker_free(simba_locker *locker);

/* Why leadership ended that the latest acquire has brought: SIMBA_REASON_NONE while it goes on, and if that acquire brought
 * none, for which its own code is the reason. What it answers from the moment of the loss on, release confirms by
 * SIMBA_ELOST; after a release that found nothing amiss it is SIMBA_REASON_STOPPED. */
SIMBA_API simba_reason simba_locker_reason(simba_locker *locker);

/* What a locker has and knows. Each as the function of that name for contenders, see simba_contender_held_for_ms. */
SIMBA_API int64_t simba_locker_held_for_ms(const simba_locker *locker);
SIMBA_API int simba_locker_lease(const simba_locker *locker, simba_lease *ret_lease);
SIMBA_API uint64_t simba_locker_token(const simba_locker *locker);
SIMBA_API const char *simba_locker_id(const simba_locker *locker);
SIMBA_API int simba_locker_owner(simba_locker *locker, simba_owner *ret_owner);
SIMBA_API int64_t simba_locker_owner_left_ms(simba_locker *locker);
SIMBA_API int simba_locker_grant(simba_locker *locker, simba_grant *ret_grant);
SIMBA_API int simba_locker_note_set(simba_locker *locker, const void *bytes, size_t length, simba_error *err);
SIMBA_API int simba_locker_note(simba_locker *locker, simba_error *err, simba_note *ret_note);

/* Release and free a locker at the end of its scope. With gcc and clang, for variables that are declared as
 * SIMBA_LOCKER_SCOPED simba_locker *lock = NULL; */
SIMBA_API void simba_locker_cleanup(simba_locker **locker);
#define SIMBA_LOCKER_SCOPED __attribute__((cleanup(simba_locker_cleanup)))

/* --- scheduler ---------------------------------------------------------------------------------- */

typedef struct simba_scheduler simba_scheduler;
typedef struct simba_run simba_run;

/* One run of the work, on a callback thread, as leader. Runs of one scheduler never overlap. */
typedef void (*simba_work_fn)(simba_run *run, void *user);

/* What the work asks while it runs. Must it end, because leadership is lost or ending? How long may it still act? Under which
 * token? */
SIMBA_API bool simba_run_stopping(const simba_run *run);
SIMBA_API int64_t simba_run_held_for_ms(const simba_run *run);
SIMBA_API uint64_t simba_run_token(const simba_run *run);

/* Sleep, but not past the moment at which the run must end. True: it must. */
SIMBA_API bool simba_run_sleep(simba_run *run, int64_t ms);

/* Write and read the note of the scheduler's mutex. As simba_contender_note_set and simba_contender_note. Where the schedule is
 * remembered, its record takes up to SIMBA_SCHEDULE_RECORD_MAX bytes of the note; these two deal with the rest. */
SIMBA_API int simba_run_note_set(simba_run *run, const void *bytes, size_t length, simba_error *err);
SIMBA_API int simba_run_note(simba_run *run, simba_error *err, simba_note *ret_note);

/* Of a schedule that is remembered: when was this run due, in milliseconds since 1970 on the store's wall clock? How many due
 * times before it, after the run before this one, were missed and are not run? Was the last run cut short, because its leader
 * died or lost the mutex? With SIMBA_AT_LEAST_ONCE this run is that one again. Otherwise 0, 0 and false. */
SIMBA_API int64_t simba_run_due_at_ms(const simba_run *run);
SIMBA_API int64_t simba_run_missed(const simba_run *run);
SIMBA_API bool simba_run_cut_short(const simba_run *run);

/* Say how the run has ended: 0 is well, any other number is the program's own. Work that returns without it has ended well,
 * or was cut short if simba_run_stopping() was true by then. */
SIMBA_API void simba_run_finish(simba_run *run, int result);

/* The first two begin anew with each leadership. The last two are remembered in the note of the mutex: their due times follow
 * from that and from the store's clock, whoever leads. See docs/schedules.md. */
typedef enum simba_schedule {
    SIMBA_SCHEDULE_FIXED_RATE, /* every period, counted from start to start; a start that falls into a run is skipped */
    SIMBA_SCHEDULE_FIXED_DELAY, /* a period of rest between the end of a run and the next start */
    SIMBA_SCHEDULE_INTERVAL,    /* every period, counted from the first run of all */
    SIMBA_SCHEDULE_CRON,        /* at the times that a cron expression names */
} simba_schedule;

/* What to do about due times that passed while nobody led, or while a run was in progress. */
typedef enum simba_catch_up {
    SIMBA_CATCH_UP_ONCE, /* run the last one, for all of them */
    SIMBA_CATCH_UP_SKIP, /* nothing */
    SIMBA_CATCH_UP_ALL,  /* run each of them in order, but no more than the limit: the oldest are left out */
} simba_catch_up;

typedef enum simba_guarantee {
    SIMBA_AT_MOST_ONCE, /* a run is noted before it begins. If it is cut short or fails, it is not run again */
    SIMBA_AT_LEAST_ONCE, /* a run is noted when it has ended well. If it was cut short it is run again, if it failed likewise,
                            after a pause of one second at first and of five minutes at most */
} simba_guarantee;

#define SIMBA_CATCH_UP_LIMIT 100 /* of SIMBA_CATCH_UP_ALL, unless the options say otherwise */
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

/* Make a scheduler for a mutex. Nothing runs until it is started.
 * Errors: EINVAL, ENOMEM, ECLOSED; INTERVAL and CRON: ENOTSUP (this store keeps no notes); CRON: ENOTFOUND (no such time zone),
 * ECORRUPT (its file), ESYSTEM. */
SIMBA_API int simba_scheduler_new(simba_client *client, const char *mutex, const simba_scheduler_options *options,
                                  simba_error *err, simba_scheduler **ret_scheduler);

/* Start, stop and free a scheduler, and ask how it is. As for contenders, see simba_contender_start and its siblings.
 * simba_scheduler_stop tells a run in progress and waits for it, and keeps the mutex until it is over; inside the work it
 * cannot wait and returns at once. */
SIMBA_API int simba_scheduler_start(simba_scheduler *scheduler);
SIMBA_API int simba_scheduler_stop(simba_scheduler *scheduler);
SIMBA_API void simba_scheduler_free(simba_scheduler *scheduler);
SIMBA_API simba_status simba_scheduler_status(const simba_scheduler *scheduler);
SIMBA_API bool simba_scheduler_is_leader(const simba_scheduler *scheduler);
/* What a scheduler has and knows. Each as the function of that name for contenders. */
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
    int64_t due_at_ms; /* of the last run; 0: there was none, and the next five mean nothing */
    int64_t begun_at_ms;
    int64_t ended_at_ms; /* 0: it goes on, or was cut short */
    int result;          /* if it has ended; 0: well */
    int64_t missed;      /* due times before it that were not run */
    int64_t next_at_ms;  /* the next due time; 0: not known here, for instance because there is no such time zone */
    size_t length;       /* how many bytes of the note say all this; those behind them are the note of the work */
} simba_schedule_info;

#define SIMBA_SCHEDULE_INFO_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(simba_schedule_info), {0}, 0, 0, 0, 0, 0, 0, 0                                                          \
    }

/* Read what a note says of a schedule. The note comes from simba_client_note or simba_client_list. `ret_info` comes with its size.
 * Asks no store.
 * Errors: ENOTFOUND (the note is of no schedule), ECORRUPT, EINVAL. */
SIMBA_API int simba_schedule_read(const void *note, size_t length, simba_error *err, simba_schedule_info *ret_info);

/* --- observer ----------------------------------------------------------------------------------- */

typedef struct simba_observer simba_observer;

/* The first call tells the owner at the start (also if there is none: before and after are then both nobody).
 * Ends on the true owner. Serial per observer. */
typedef void (*simba_observed_fn)(simba_observer *observer, const simba_state *state, void *user);
/* The note of the mutex may have changed: read it by simba_client_note. As simba_noted_fn. */
typedef void (*simba_observed_note_fn)(simba_observer *observer, void *user);

typedef struct simba_observer_options {
    size_t size;
    simba_observed_fn on_changed; /* required */
    void *user;
    int64_t poll_ms; /* default 1,000: for stores that do not push, and behind those that do ten times as long */
    simba_freed_fn on_freed;         /* as for contenders */
    simba_observed_note_fn on_noted; /* may be NULL, as for contenders */
} simba_observer_options;

#define SIMBA_OBSERVER_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(simba_observer_options), NULL, NULL, 1000, NULL, NULL                                                   \
    }

/* Make an observer of a mutex. It hears nothing until it is started.
 * Errors: EINVAL, ENOMEM, ECLOSED. */
SIMBA_API int simba_observer_new(simba_client *client, const char *mutex, const simba_observer_options *options,
                                 simba_error *err, simba_observer **ret_observer);

/* Start, stop and free an observer. When simba_observer_stop has returned, on_changed does not run and will not. Inside
 * on_changed it cannot wait and returns at once.
 * Errors: ESTATE (it is started already), ECLOSED. */
SIMBA_API int simba_observer_start(simba_observer *observer);
SIMBA_API int simba_observer_stop(simba_observer *observer);
SIMBA_API void simba_observer_free(simba_observer *observer);

/* What an observer looks at, and the owner as it last heard. */
SIMBA_API const char *simba_observer_mutex(const simba_observer *observer);
SIMBA_API int simba_observer_owner(simba_observer *observer, simba_owner *ret_owner);

/* --- memory ------------------------------------------------------------------------------------- */

/* Replace malloc, realloc and free for the library's own memory. Before anything else is called; all three or none
 * (NULL, NULL, NULL: the system's). SIMBA_EINVAL otherwise. */
SIMBA_API int simba_set_allocator(void *(*malloc_fn)(size_t), void *(*realloc_fn)(void *, size_t),
                                  void (*free_fn)(void *));

#ifdef __cplusplus
}
#endif
#endif
