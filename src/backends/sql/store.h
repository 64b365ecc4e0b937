/* A store over a table on an SQL server: the contract of simba/backend.h, without what is particular to a server.
 *
 *   failure.h             why a statement failed, and what helps
 *   row.c                 a row of the table, and what a request does with it
 *   recall.c              what this client remembers of rows
 *   polling.c             which rows it polls, when, and what is news
 *   batch.c               requests that share a job, and the steps that it takes
 *   writes.c, reads.c     decide on the steps
 *   decisions.c           does so in place of writes.c, if the server decides
 *   lane.c                lets a dialect carry out the steps, by a job that blocks or step by step
 *   store.c               which requests share a batch; answers
 *
 * All but the last two are pure, so that they can run without a server.
 *
 * There are a few lanes, each a connection with a batch of requests. Requests gather; an idle lane takes all of them, so the
 * requests of one moment form one transaction. A lane that waits for a locked row does not keep the others waiting, and once a
 * row is known to be locked, the store waits for it by itself. Requests that write begin from the first lane on; those that only
 * read, and the polls, from the last.
 *
 * A batch may take longer than the client waits for a request. A while after the last of its requests has expired, the store cuts
 * the connection, which ends the batch and answers them. A renewal that has waited in vain for a lane ends the batches that
 * read a row or a note: nothing else can help it if there is one connection, and that has gone silent. A renewal that has waited in
 * vain for another request about its mutex takes another lane with its next try.
 *
 * The store polls for changes of rows. A dialect whose server reports changes calls simba__sql_notified, and
 * simba__sql_set_pace for as long as it can rely on that. */
#ifndef SIMBA_BACKENDS_SQL_STORE_H
#define SIMBA_BACKENDS_SQL_STORE_H

#include "backends/sql/lane.h"
#include "backends/sql/polling.h"
#include "backends/sql/recall.h"

enum { SIMBA__SQL_LANES_MAX = 8 };

/* Requests that gather while the lanes are busy become one batch: see simba_backend. */
enum { SIMBA__SQL_WINDOW = 1024 };

typedef struct simba__sql_store simba__sql_store;

typedef enum simba__sql_life {
    SIMBA__SQL_OPEN,
    SIMBA__SQL_CLOSING,
    SIMBA__SQL_CLOSED, /* the host has been told */
} simba__sql_life;

/* Requests that wait for a lane, in the order in which they came, linked through `next`. Their backend_data is NULL; that of a
 * request in a batch is its item. */
typedef struct simba__sql_list {
    simba_request *first, **end;
} simba__sql_list;

/* The kind of requests in a batch. */
typedef enum simba__sql_kind {
    SIMBA__SQL_KIND_WRITES,
    SIMBA__SQL_KIND_LOCKED, /* requests that write one row, or its note, while somebody else keeps it locked */
    SIMBA__SQL_KIND_NOTES,  /* requests that write a note, or forget a mutex */
    SIMBA__SQL_KIND_READS,  /* and polls */
    SIMBA__SQL_KINDS,
} simba__sql_kind;

/* The first member of a store's instance, so that the functions below are those of its table. */
struct simba__sql_store {
    simba_host *host;
    simba__sql_place place;
    simba__sql_lane lanes[SIMBA__SQL_LANES_MAX];
    unsigned lane_count;
    simba__sql_list writes, reads;
    simba__sql_list busy;   /* requests to write whose rows somebody else is at work on */
    simba__sql_kind latest; /* the kind that was begun last, or LOCKED: a row was found locked since */
    bool polls;             /* a poll is under way */
    simba__sql_life life;
    simba__sql_recall recall;
    simba__sql_polling polling;
    simba_timer patience; /* with lanes: when to give up polls, and when to cut a connection */
    simba_timer poll;
    simba_timer again; /* when to take up requests whose rows were busy */
};

/* `conns`: one for each lane; they stay the caller's. SIMBA_ENOMEM; even then, call `fini`. */
int simba__sql_init(simba__sql_store *self, simba_host *host, const simba__sql_dialect *dialect, simba__sql_place place,
                    void *const *conns, unsigned count, simba_error *err);
void simba__sql_submit(void *instance, simba_request *request);
void simba__sql_expire(void *instance, simba_request *request);
void simba__sql_flush(void *instance); /* and `woken` */
int simba__sql_watch(void *instance, simba_topic *topic);
void simba__sql_unwatch(void *instance, simba_topic *topic);
void simba__sql_close(void *instance);
/* The functions of a table that are the same for every SQL store. */
#define SIMBA__SQL_FUNCTIONS                                                                                           \
    .submit = simba__sql_submit, .expire = simba__sql_expire, .flush = simba__sql_flush, .watch = simba__sql_watch,    \
    .unwatch = simba__sql_unwatch, .woken = simba__sql_flush

/* For a dialect that hears from its server, under the lock. This mutex may have been released: its waiters in this client
 * try. A name without waiters is fine. */
void simba__sql_notified(simba__sql_store *self, const char *mutex);
/* The note of this mutex has changed: tell its watchers in this client. */
void simba__sql_noted(simba__sql_store *self, const char *mutex);
/* The server may know nothing of the waiters here: every one of them asks, and so enters the queue. */
void simba__sql_enter_all(simba__sql_store *self);
/* The mutex may have been released, and others heard of it before the waiters here: look in a while, later for a
 * greater `place`, which begins with 1. */
void simba__sql_stand_by(simba__sql_store *self, const char *mutex, unsigned place);
/* RARELY: the server reports every release from now on. OFTEN: it no longer does, or never did; a store begins so.
 * Since a release may have been missed, every change of pace looks at all rows once. */
void simba__sql_set_pace(simba__sql_store *self, simba__sql_pace pace);

/* Does not touch the connections. */
void simba__sql_fini(simba__sql_store *self);

#endif
