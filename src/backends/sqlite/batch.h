/* A batch: requests that are carried out as one transaction. It runs without the client's lock; backend.c handles the answers
 * under it.
 *
 * A request stays put until it is completed, so the batch reads the names and notes of the requests in place. As long as the
 * transaction has not begun, because another process is writing, requests can still be taken out of the batch. */
#ifndef SIMBA_BACKENDS_SQLITE_BATCH_H
#define SIMBA_BACKENDS_SQLITE_BATCH_H

#include <pthread.h>

#include "backends/sqlite/db.h"
#include "backends/sqlite/news.h"
#include "backends/sqlite/note.h"
#include "backends/sqlite/notify.h"

/* What a LIST found. */
typedef struct simba__sqlite_listing simba__sqlite_listing;
struct simba__sqlite_listing {
    simba__sqlite_listing *next;
    int64_t now_ms;
    simba_owner owner;
    simba_stored_note note; /* its bytes follow the text */
    const char *fault;      /* NULL, or what is wrong with the row: then it is not shown */
    char text[];            /* the mutex, or the fault */
};

typedef struct simba__sqlite_batch_item {
    simba_request ask;          /* a copy, since the client may fill in the reply of one whose time is over */
    simba_request *request;     /* NULL: it was taken out, or a probe asks */
    simba__sqlite_probe *probe; /* a look for watchers, at the note as well. NULL: a request asks */
    simba__sqlite_effect effect;
    simba__sqlite_listing *found;  /* what a LIST found */
    simba__sqlite_note_copy *note; /* what a READ_NOTE found */
} simba__sqlite_batch_item;

typedef struct simba__sqlite_batch {
    simba_host *host;
    simba__sqlite_db db;
    simba__sqlite_notify *notify; /* replaced in a turn only, by `fresh`, while no batch runs */
    int64_t host_offset_ns;       /* from our boot-time clock to that of the host */
    uint64_t seed;
    bool notify_stale;
    int64_t notify_checked_ns;
    simba__sqlite_notify_cells cells; /* slots as they were at some time within the last second */
    int64_t cells_read_ns;            /* 0: never */

    /* In: */
    simba__sqlite_batch_item *items;
    size_t count; /* may be 0, to look only at the file */
    bool writes;
    bool grants;  /* or reads: there is more in it than releases */
    bool watches; /* this client watches something */

    pthread_mutex_t lock; /* guards `begun`, and until that is true the items */
    bool begun;           /* its transaction has begun: no request can be taken out any more */

    /* Out: */
    bool in_reserve;             /* see ringing.h */
    simba_error error;           /* code 0, or why the whole batch failed; otherwise each item has its effect */
    bool opened;                 /* the file was opened anew */
    simba__sqlite_notify *fresh; /* and so there is another notify file */

    simba__sqlite_ringing ringing;
    size_t capacity;
} simba__sqlite_batch;

/* Open the store. May block. */
int simba__sqlite_batch_init(simba__sqlite_batch *batch, simba_host *host, const char *path, bool sync_full,
                             simba_error *err);
/* Also after a failed init, and on zeroes. */
void simba__sqlite_batch_fini(simba__sqlite_batch *batch);

/* While no batch runs: make room for `count` requests; then add the requests one by one. */
bool simba__sqlite_batch_reserve(simba__sqlite_batch *batch, size_t count);
simba__sqlite_batch_item *simba__sqlite_batch_add(simba__sqlite_batch *batch, const simba_request *request);

/* Nobody waits for this request any more, whose item is request->backend_data. True: it has been taken out, and the batch does
 * not touch it again. False: the transaction has begun, and carries it out. */
bool simba__sqlite_batch_expire(simba__sqlite_batch *batch, simba_request *request);

/* The boot-time clock of the host, which all processes share. Any thread. */
int64_t simba__sqlite_batch_host_ns(const simba__sqlite_batch *batch);

/* Carry out the batch. Waits for other processes as long as the patience of the database allows; if that is not enough
 * (SIMBA_ETIMEDOUT), the same batch can be run again. */
void simba__sqlite_batch_run(simba__sqlite_batch *batch);
/* Its requests have been answered: drop the items. */
void simba__sqlite_batch_answered(simba__sqlite_batch *batch);

#endif
