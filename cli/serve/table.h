/* The mutexes of a store as `simba serve` knows them, and what happened to them: it compares each list of the store
 * with the one before, and each difference becomes a change of the history. Pure: no I/O, no clock, no thread.
 *
 * Every new row and every change gets the next revision. For a client that knows all up to a revision, the rest is
 * found by walking two lists, which are ordered by revision. The history is bounded; dropping a change raises the
 * horizon: a client below it cannot be brought up to date, and must begin anew. */
#ifndef SIMBA_CLI_SERVE_TABLE_H
#define SIMBA_CLI_SERVE_TABLE_H

#include <sys/queue.h>

#include "look.h"
#include "shown.h"

/* The schedule of a mutex, and its last runs. A note has one run, the latest; a reader of every note of a mutex knows
 * the earlier runs too. */
enum { RUNS_MAX = 16 }; /* that are remembered of a mutex */

typedef struct runs {
    simba_schedule_info schedule;       /* of the latest note */
    size_t record_length;               /* bytes of the note that are the record; the note of the work follows them */
    simba_schedule_info last[RUNS_MAX]; /* oldest first; one without an end goes on, or nobody looked after it */
    unsigned count;
} runs;

/* Take in the note of a mutex. `r` has the runs of earlier notes; NULL: none. Returns `r` or its replacement;
 * NULL: the note is of no schedule, or of one that cannot be read. */
runs *runs_take(runs *r, const void *note, size_t length);

enum { TABLE_CHANGES_MAX = 16384, TABLE_CHANGES_PER_MUTEX = 128 };

/* A store that ends leases by sessions does not say why a session ended: there it is never expired or failed over. */
#define TABLE_KINDS(X)                                                                                                 \
    X(ACQUIRED, "acquired")       /* nobody had it */                                                                  \
    X(RELEASED, "released")       /* given back before its lease was over */                                           \
    X(EXPIRED, "expired")         /* its lease ran out, and nobody has it */                                           \
    X(HANDED_OVER, "handed-over") /* another has it, or the same by a new grant, before the lease was over */          \
    X(FAILED_OVER, "failed-over") /* another has it after the lease ran out */                                         \
    X(FORCED, "forced")           /* taken away by a client of this process; another may have it */                    \
    X(STORE_LOST, "store-lost")   /* the store did not answer; until it is back nothing is known */                    \
    X(STORE_BACK, "store-back")

typedef enum table_kind {
#define TABLE_KIND_ENUM(name, text) TABLE_##name,
    TABLE_KINDS(TABLE_KIND_ENUM)
#undef TABLE_KIND_ENUM
        TABLE_KIND_COUNT,
} table_kind;

const char *table_kind_name(table_kind kind);

typedef struct table_row table_row;

typedef struct table_change {
    TAILQ_ENTRY(table_change) in_all;
    TAILQ_ENTRY(table_change) in_row;
    table_row *row; /* NULL: about the store */
    uint64_t revision;
    table_kind kind;
    int64_t at_ms; /* since the epoch; never before the look at which it was still otherwise */
    simba_owner before, after;
    int64_t held_ms; /* how long `before` had had it; LEASE_UNKNOWN: nobody had, or the store does not say since when */
} table_change;

typedef TAILQ_HEAD(table_changes, table_change) table_changes;

struct table_row {
    TAILQ_ENTRY(table_row) in_all;
    uint64_t revision;
    bool is_present; /* false: the store no longer has it, but there is a history */
    bool is_owned;   /* otherwise `owner` is nobody */
    simba_owner owner;
    int64_t waiters; /* -1: the store does not know */
    char *next;      /* the first waiter; NULL: nobody, or the store does not know */
    char *note;      /* bytes, with a zero behind them; NULL: there is none */
    size_t note_length;
    runs *runs;            /* NULL: it has no schedule */
    table_changes changes; /* oldest first */
    unsigned change_count;
    char mutex[];
};

typedef TAILQ_HEAD(table_rows, table_row) table_rows;

typedef struct table {
    table_row **rows; /* ordered by name */
    size_t row_count;
    table_rows by_revision;
    table_changes changes; /* oldest first */
    unsigned change_count;
    uint64_t revision; /* the last that was given out */
    uint64_t horizon;  /* a client that knows less than this cannot be brought up to date */
    bool truncated;

    bool was_answered; /* at least once */
    bool answers;      /* the last look did */
    char error[256];
    int64_t since_ms;                  /* since the epoch: as long as it answers, or does not */
    int64_t watched_since_ms;          /* the first look that was answered, since the epoch */
    int64_t wall_ms, mono_ms;          /* of the last look that was answered */
    int64_t store_ms;                  /* the store's now at that look */
    int64_t took_ms;                   /* that look */
    uint64_t counts[TABLE_KIND_COUNT]; /* changes ever seen */
    uint64_t owned, overdue, present;  /* rows: owned, of those past their ttl; and all that the store has */
    int64_t waiters;                   /* of all; -1: the store does not know */
} table;

void table_init(table *t);
void table_fini(table *t);
/* Take in a look. It can be freed afterwards. */
void table_apply(table *t, const look *l);

/* The row of a mutex; NULL: there is none. */
table_row *table_find(const table *t, const char *mutex);
/* The index of the first row whose name is greater. */
size_t table_after(const table *t, const char *mutex);

/* The oldest row or change that is newer than a revision; NULL: there is none. */
table_row *table_row_since(const table *t, uint64_t revision);
table_change *table_change_since(const table *t, uint64_t revision);

#endif
