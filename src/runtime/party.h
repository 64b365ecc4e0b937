/* What contenders, lockers, schedulers and observers have in common: a mutex, a timer, one request in flight, a
 * strand for callbacks, and a reference count, because a callback or an executor may outlast the handle. */
#ifndef SIMBA_RUNTIME_PARTY_H
#define SIMBA_RUNTIME_PARTY_H

#include "core/contention.h"
#include "runtime/client.h"

typedef struct simba__party simba__party;

typedef struct simba__party_type {
    /* In a turn: TIMER, REPLY, PUSH, STOP. */
    void (*event)(simba__party *party, simba__event *event);
    /* See dispatcher.h. */
    int (*run_one)(simba__party *party);
    void (*destroy)(simba__party *party);
    /* In a turn, while it is started: the note may have changed. May be NULL. */
    void (*noted)(simba__party *party);
    bool is_member;  /* contends */
    bool hidden;     /* no handle of the program's: does not count in the statistics */
    unsigned timers; /* besides the party's own */
} simba__party_type;

struct simba__party {
    const simba__party_type *type;
    simba_client *client;
    simba__topic *topic;
    simba__ring of_client;
    simba__list_item of_topic; /* while started */
    simba__strand strand;
    simba_timer timer;
    simba_request *request; /* NULL: none is under way, or there was no memory for it */
    uint32_t generation;    /* of the latest request */
    unsigned starts : 27;   /* how often it was started: tells one life from the next */
    bool unasked : 1;       /* there was no memory for its request, and the machine has not heard of that yet */
    bool running : 1;       /* started and not yet stopped */
    bool wants : 1;         /* counts in the topic's interest */
    bool curious : 1;       /* wants to hear of every change; set before it is started */
    bool orphaned : 1;      /* the handle is gone: destroy the party when it has stopped */
};

/* For the client's dispatcher, whose strands are those of parties. */
extern const simba__strand_type simba__party_strands;

/* In a turn. The caller has checked the names. SIMBA_ENOMEM, SIMBA_ECLOSED. After success the party belongs to the
 * client's list and has one reference; after a failure the caller frees it. */
int simba__party_init(simba__party *party, const simba__party_type *type, simba_client *client, const char *mutex,
                      simba_error *err);

/* In a turn. A member's first step puts it into a list of its topic, that of those who wait as a rule. */
void simba__party_started(simba__party *party);
void simba__party_stopped(simba__party *party);
void simba__party_change_wants(simba__party *party, bool wants);
static inline void simba__party_want(simba__party *party, bool wants)
{
    if (party->wants != wants)
        simba__party_change_wants(party, wants);
}
/* Calls only started parties. */
void simba__party_send_stop(simba__party *party);
/* Carry out the actions that every party has: request, timer. A request has memory only while it is under way: most of a
 * million mutexes that are held wait for the time of their renewal. If there is no memory for it, it fails. */
void simba__party_act(simba__party *party, const simba__actions *actions, const char *id, const simba__timing *timing);
/* After `simba__party_act` has submitted a request: if that fails, write here why. */
void simba__party_explain(simba__party *party, simba_error *err);

/* In a turn: send STOP, then wait until the party has stopped and its strand is idle, running its callbacks
 * meanwhile. Does not wait inside a callback of the party itself. */
void simba__party_stop(simba__party *party);

/* Not in a turn: stop, drop the reference, free; inside the party's own callback, later. */
void simba__party_free(simba__party *party);
/* The same, without waiting. */
void simba__party_discard(simba__party *party);

#endif
