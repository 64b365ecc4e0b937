/* The mutexes of a store at one moment: what `simba list` and `simba serve` show. */
#ifndef SIMBA_CLI_LOOK_H
#define SIMBA_CLI_LOOK_H

#include <simba.h>

typedef struct look_names look_names; /* where the names and notes are */

typedef struct look_row {
    const char *mutex;
    simba_owner owner;
    int64_t waiters;    /* -1: the store does not know */
    const char *next;   /* NULL: nobody, or the store does not know */
    const char *note;   /* bytes of any value, with a zero behind them */
    size_t note_length; /* 0: there is none */
} look_row;

typedef struct look {
    int code; /* 0, or why the store did not answer */
    char error[sizeof((simba_error *)NULL)->text];
    int64_t wall_ms;  /* when the store was asked, since the epoch; its answer is at least as new */
    int64_t mono_ms;  /* the same on the monotonic clock */
    int64_t took_ms;  /* until it had answered */
    int64_t store_ms; /* the store's own now */
    look_row *rows;   /* ordered by name as strcmp does */
    size_t count;
    look_names *names;
    bool truncated; /* some are left out */
    /* Since the look before, this process took this grant away; "": none was. */
    char forced[SIMBA_MUTEX_BYTES + 1];
    uint64_t forced_token;
} look;

/* Ask the store for the mutexes that match the pattern (NULL: all), but for so many at most. Blocks until it has answered or the
 * library gives up. Never NULL, see cli_alloc. */
look *look_at(simba_client *client, const char *pattern, size_t most);
void look_free(look *l);

/* Print why the store did not answer. Returns the exit code. */
int look_failure(const char *command, const look *l);

/* Memory of zeroes; or the end of the process after a message, for commands that hold nothing. */
void *cli_alloc(size_t size);

#endif
