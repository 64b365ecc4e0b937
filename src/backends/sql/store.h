/* A store over a table on an SQL server: the contract of simba/backend.h, without what is particular to a server.
 *
 *   failure.h             why a statement failed, and what helps
 *   row.c                 a row of the table, and what a request does with it
 *   memory.c              what this client remembers of rows
 *   polling.c             which rows it polls, when, and what is news
 *   batch.c               requests that share a job, and the steps that it takes
 *   findings.c            what an EXAMINE has to say
 *   writes.c, reads.c     decide on the steps
 *   decisions.c           does so in place of writes.c, where the server decides what becomes of requests
 *   lane.c                has a dialect carry out the steps, by a job that blocks or in turns
 *   store.c               queues, answers
 *
 * All but the last two is pure, so that it can be run without a server.
 *
 * There are a few lanes, each a connection with a batch of requests. Requests gather; when a lane is idle it takes all of them, so what a busy client asks for in one go is one
 * transaction. One lane that waits for a locked row does not keep the others waiting, and once a row is known to be locked, it
 * is waited for by itself. Requests that write are begun from the first lane on, those that only read, and the polls, from
 * the last.
 *
 * A batch may take longer than a request has time. Then the request is cancelled; and a while after the last one has gone the
 * connection is cut, which ends the batch. Until then the batch works on copies.
 *
 * Changes of rows are polled for. A dialect that is told of them by its server calls simba__sql_notified, and
 * simba__sql_set_pace for as long as it can rely on that. */
#ifndef SIMBA_BACKENDS_SQL_STORE_H
#define SIMBA_BACKENDS_SQL_STORE_H

#include "backends/queue.h"
#include "backends/sql/lane.h"
#include "backends/sql/memory.h"
#include "backends/sql/polling.h"

enum { SIMBA__SQL_LANES_MAX = 8 };

typedef struct simba__sql_store simba__sql_store;

typedef enum simba__sql_life {
    SIMBA__SQL_OPEN,
    SIMBA__SQL_CLOSING,
    SIMBA__SQL_CLOSED, /* the host has been told */
} simba__sql_life;

/* What a batch consists of. */
typedef enum simba__sql_kind {
    SIMBA__SQL_KIND_WRITES,
    SIMBA__SQL_KIND_LOCKED, /* requests that write one row, which somebody else keeps locked */
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
    simba__queue writes, reads;
    simba__queue busy;      /* requests to write whose rows somebody else is at work on */
    unsigned busy_tries;    /* how often they were taken up, since there were none for a while */
    simba__sql_kind latest; /* what was begun last, or LOCKED: a row was found locked since */
    bool polls;             /* a poll is under way */
    simba__sql_life life;
    simba__sql_memory memory;
    simba__sql_polling polling;
    simba_timer patience; /* with lanes: when to give up polls, and when to cut a connection */
    simba_timer poll;
    simba_timer again; /* when to take up those that are busy */
};

/* `conns`: as many as there are to be lanes, which stay the caller's. SIMBA_ENOMEM; then, too, `fini` is called. */
int simba__sql_init(simba__sql_store *self, simba_host *host, const simba__sql_dialect *dialect, simba__sql_place place,
                    void *const *conns, unsigned count, simba_error *err);
void simba__sql_submit(void *instance, simba_request *request);
void simba__sql_cancel(void *instance, simba_request *request);
void simba__sql_flush(void *instance); /* and `woken` */
int simba__sql_watch(void *instance, simba_topic *topic);
void simba__sql_unwatch(void *instance, simba_topic *topic);
void simba__sql_close(void *instance);
/* The functions of a table that are the same for every SQL store. */
#define SIMBA__SQL_FUNCTIONS                                                                                           \
    .submit = simba__sql_submit, .cancel = simba__sql_cancel, .flush = simba__sql_flush, .watch = simba__sql_watch,    \
    .unwatch = simba__sql_unwatch, .woken = simba__sql_flush

/* For a dialect that hears from its server, in a turn. This mutex may have been released: whoever waits for it here tries. A
 * name that nobody here waits for is fine. */
void simba__sql_notified(simba__sql_store *self, const char *mutex);
/* The note of this mutex is another one: whoever watches it here is told. */
void simba__sql_noted(simba__sql_store *self, const char *mutex);
/* Somebody of every mutex that is waited for here asks the server now, and so enters the line. */
void simba__sql_ask_all(simba__sql_store *self);
/* It may have been released, and others are told before those who wait here: look in a while, the later the greater `place`
 * is, which begins with 1. */
void simba__sql_stand_by(simba__sql_store *self, const char *mutex, unsigned place);
/* RARELY: the server tells of every release from now on. OFTEN: that is over, or was never so; it is how a store begins. As
 * one may have been missed, all rows are looked at once after every change. */
void simba__sql_set_pace(simba__sql_store *self, simba__sql_pace pace);

/* The connections are not touched. */
void simba__sql_fini(simba__sql_store *self);

#endif
