/* A batch: requests that are carried out as one transaction. This is the worker's half of the store; what the answers
 * lead to is in backend.c. */
#ifndef SIMBA_BACKENDS_SQLITE_BATCH_H
#define SIMBA_BACKENDS_SQLITE_BATCH_H

#include "backends/sqlite/db.h"
#include "backends/sqlite/news.h"
#include "backends/sqlite/notify.h"

typedef struct simba__batch {
    simba_host *host;
    simba__db db;
    simba__notify *notify;  /* replaced in a turn only, by `fresh`, while no batch runs */
    int64_t host_offset_ns; /* from our boot-time clock to that of the host */
    uint64_t seed;
    bool notify_stale;
    int64_t notify_checked_ns;

    /* In: */
    simba_request *requests; /* through `next`; may be none, to look at the file only */
    size_t count;
    bool writes;

    /* Out: */
    simba_error error;      /* code 0, or what the whole batch failed with */
    simba__effect *effects; /* otherwise: one for each request, in their order */
    size_t capacity;
    bool opened;          /* the file was opened anew */
    simba__notify *fresh; /* and with it another notify file */
} simba__batch;

/* What a LIST found: a chain at its request's backend_data, which the batch leaves behind whatever came of it. */
typedef struct simba__listing simba__listing;
struct simba__listing {
    simba__listing *next;
    int64_t now_ms;
    simba_owner owner;
    const char *fault; /* NULL, or what is wrong with the row: it is not to be shown */
    char text[];       /* the mutex, or the fault */
};

/* Open the store. May block. */
int simba__batch_init(simba__batch *batch, simba_host *host, const char *path, bool sync_full, simba_error *err);
/* Also after a failed init, and on zeroes. */
void simba__batch_fini(simba__batch *batch);

/* Room for the effects of so many requests. */
bool simba__batch_reserve(simba__batch *batch, size_t count);

/* On the worker. Waits for other processes as long as the patience of the database allows. */
void simba__batch_run(simba__batch *batch);
/* Its requests have been answered, and their effects are not needed any more. */
void simba__batch_answered(simba__batch *batch);

#endif
