/* The client's insides, for the rest of the runtime and the four doors.
 *
 * One lock per client, the turn lock, guards everything in here that is not atomic. Whoever holds it is "in a turn":
 * the keeper for timers and I/O, a worker that brings results, or an application's thread in a call. That is why a blocking
 * lock on a fast store costs no trip through another thread. No callback of the application runs in a turn.
 */
#ifndef SIMBA_RUNTIME_CLIENT_H
#define SIMBA_RUNTIME_CLIENT_H

#include <pthread.h>
#include <simba/backend.h>
#include <stdatomic.h>

#include "core/contention.h"
#include "runtime/dispatcher.h"
#include "runtime/keeper.h"
#include "runtime/requests.h"
#include "runtime/timers.h"
#include "runtime/topics.h"
#include "runtime/worker.h"
#include "util/list.h"

typedef struct simba__party simba__party;

typedef enum simba__store_state { SIMBA__STORE_UNKNOWN, SIMBA__STORE_ANSWERS, SIMBA__STORE_FAILS } simba__store_state;

struct simba_client {
    simba_host host; /* first: a host is its client */
    const simba_backend *backend;
    void *store; /* the back end's instance */
    simba_url *url;
    simba__timing timing;
    simba_client_options options;
    unsigned fork_generation;
    _Atomic unsigned refs; /* the handle, and one for every party */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* a party stopped, a strand ended, a call was answered */
    simba_local now;        /* of this turn */

    simba__reactor reactor;
    simba__keeper keeper;
    const pthread_cond_t *led_for; /* a thread of the application waits at the reactor, for this; NULL: none does */
    simba__list followers;         /* threads that wait while another one leads */
    int64_t boot_minus_mono_ns;

    simba__timers timers;
    simba__topics topics;
    simba__dispatcher dispatcher;
    simba__worker worker;

    simba__requests requests;
    atomic_bool wake_wanted;
    bool settling;

    simba__party *parties;
    simba__party *dead; /* to be freed at the end of the turn */
    unsigned running;   /* parties that are started and not yet stopped */
    unsigned calls;     /* of calls.h, under way */
    bool closing;       /* nothing new is begun */
    bool closed;        /* and nothing is left to be ended */
    bool store_closed;

    simba__store_state store_state;   /* as it was logged last */
    _Atomic int64_t session_until_ns; /* INT64_MAX where leases are not sessions */
    _Atomic int64_t session_ms;       /* where they are: how long one lasts, as asked for and later as granted */

    simba_stats stats;
    simba_error last_cause; /* the latest complaint about the store, so that 100,000 contenders do not all repeat it */
    simba_local last_cause_at;
    uint64_t last_cause_successes; /* grants and renewals until then */
};

/* --- turns (turn.c) -------------------------------------------------------------------------------- */

void simba__enter(simba_client *client);
/* Is this thread in a turn of this client? */
bool simba__in_turn(const simba_client *client);
/* Look at what was answered, hand over what was submitted, arm the timer, and let go of the lock. */
void simba__leave(simba_client *client);
/* In a turn: wait until `cond` is signalled or `until` has come (SIMBA__NEVER: no limit). False: it came. Like any
 * condition variable it may return for no reason. */
bool simba__turn_wait(simba_client *client, pthread_cond_t *cond, simba_local until);
/* The same, for a thread that waits for the store's answer: if that has to be read from somewhere, or takes a job that is not
 * longer than `longest`, it may as well do it itself. */
bool simba__turn_await(simba_client *client, pthread_cond_t *cond, simba_local until, simba_job_length longest);
/* In a turn: deal with what has come for the application's loop, without waiting. */
void simba__turn_poll(simba_client *client);
/* In a turn: what is waited for by this condition may have come about. */
void simba__turn_signal(simba_client *client, pthread_cond_t *cond);
/* In a turn: leave it, and come back. For calling the application. */
void simba__turn_pause(simba_client *client);
void simba__turn_resume(simba_client *client);
int simba__cond_init(pthread_cond_t *cond);
/* A thread of ours: takes no signals, so that they go to the application's threads. */
int simba__thread_create(pthread_t *thread, void *(*run)(void *), void *arg);

/* --- the host that back ends see (host.c) ------------------------------------------------------------ */

void simba__host_init(simba_client *client);
void simba__log(simba_client *client, simba_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* --- lifetime (client.c) ----------------------------------------------------------------------------- */

/* 0 or SIMBA_EFORKED; any thread, in a turn or not. */
int simba__client_forked(const simba_client *client, simba_error *err);
/* Is this a name for a mutex, also for the store? Any thread. SIMBA_EINVAL. */
int simba__client_check_mutex(const simba_client *client, const char *mutex, simba_error *err);
/* The last one to let go frees the memory. Not in a turn. */
void simba__client_unref(simba_client *client);

#endif
