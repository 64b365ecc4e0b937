/* One list of all mutexes of a store. */
#ifndef SIMBA_CLI_SERVE_LOOK_H
#define SIMBA_CLI_SERVE_LOOK_H

#include <simba.h>

enum { LOOK_ROWS_MAX = 200000 }; /* further rows are left out, and the answer says so */

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
    bool truncated;
} look;

/* Ask the store. Blocks until it has answered or the library gives up. Never NULL: a process that holds nothing may end
 * when there is no memory. */
look *look_at(simba_client *client);
void look_free(look *l);

int64_t look_clock_ms(int clock_id);

/* malloc, or the end of the process with a sentence. */
void *serve_alloc(size_t size);

#endif
