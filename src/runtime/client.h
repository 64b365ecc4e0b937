/* The inside of a client, for the code that is built on it: parties, calls, and the host that back ends see. turn.h
 * says who may touch it when. */
#ifndef SIMBA_RUNTIME_CLIENT_H
#define SIMBA_RUNTIME_CLIENT_H

#include <simba/backend.h>
#include <stdatomic.h>

#include "core/timing.h"
#include "runtime/dispatcher.h"
#include "runtime/keeper.h"
#include "runtime/notice.h"
#include "runtime/requests.h"
#include "runtime/topics.h"
#include "runtime/turn.h"
#include "util/ring.h"
#include "util/slab.h"

typedef enum simba__store_state { SIMBA__STORE_UNKNOWN, SIMBA__STORE_ANSWERS, SIMBA__STORE_FAILS } simba__store_state;

/* A request of a party, while it is under way. */
typedef struct simba__asked {
    simba_request request; /* first */
    struct simba__party *party;
} simba__asked;

struct simba_client {
    simba_host host; /* first: a host is its client */
    const simba_backend *backend;
    void *store; /* the back end's instance */
    simba_url *url;
    simba__timing timing;
    simba_client_options options;
    unsigned fork_generation;
    _Atomic unsigned refs; /* the handle, and one for every party */

    simba__turn turn;
    simba__keeper keeper;
    simba__dispatcher dispatcher;
    simba__topics topics;

    simba__requests requests;
    simba__slab asked; /* requests of parties that are under way */
    atomic_bool wake_wanted;
    bool settling;

    simba__ring parties;
    uint64_t notes;    /* that were written, or tried to be */
    unsigned running;  /* parties that are started and not yet stopped */
    unsigned calls;    /* of calls.h, under way */
    bool closing;      /* the client begins nothing new */
    bool closed;       /* nothing is left to end */
    bool store_closed; /* or not opened yet */

    simba__store_state store_state; /* as last logged */
    char said_server[64];
    simba_timer session_overdue;      /* where leases are sessions: when a sign of life is overdue */
    _Atomic int64_t session_until_ns; /* INT64_MAX where leases are not sessions */
    _Atomic int64_t session_ms;       /* where they are: how long one lasts, as asked for and later as granted */

    simba_stats stats;
    simba_error last_cause; /* the latest error of the store, so that 100,000 contenders do not all report it */
    simba_local last_cause_at;
    uint64_t last_cause_successes; /* grants and renewals until then */
};

/* The caller opens the store afterwards. SIMBA_ENOMEM, SIMBA_ESYSTEM. */
int simba__client_new(const simba_client_options *options, simba_error *err, simba_client **ret_client);
/* The last reference frees the memory. Not in a turn. */
void simba__client_unref(simba_client *client);

/* 0 or SIMBA_EFORKED; any thread, in a turn or not. */
int simba__client_forked(const simba_client *client, simba_error *err);
/* Begin a turn. SIMBA_EFORKED: no turn has begun, because the lock belongs to the parent. */
int simba__client_enter(simba_client *client, simba_error *err);
/* The same, unless the client is closed. SIMBA_ECLOSED, SIMBA_EFORKED: no turn has begun. */
int simba__client_enter_open(simba_client *client);
/* Is this a valid name for a mutex, also in this store? Any thread. SIMBA_EINVAL. */
int simba__client_check_mutex(const simba_client *client, const char *mutex, simba_error *err);

#endif
