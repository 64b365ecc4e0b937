/* The world of the machine redis-waiters: what it consists of, and which file does what with it.
 *
 *   redis_machine_waiters.c  all that can happen, and what is promised
 *   redis_machine_clients.c  contenders and their connections: what comes of it
 *   redis_machine_server.c   the server: it runs the scripts that ship on the data of a world, and says who hears a message
 *   redis_machine_normal.c   one form for all worlds that are alike
 *
 * All points in time are in ms from now on: when time goes on, they become less. What has come is not told apart. */
#ifndef TESTS_SIM_REDIS_MACHINE_H
#define TESTS_SIM_REDIS_MACHINE_H

#include "sim/machine.h"
#include "stores/redis/waiters.h"

enum { CLIENTS = 3, CONTENDERS = 4, CALLS = 8, SAID = 8 };

/* A lease ends within the second step of time after it was granted, what is kept for the invited one within the first. */
enum { TICK_MS = 500, TTL_MS = 500, LEASE_MS = 999, HELD_MS = 1000 };

/* In the order of the table of bounds. */
enum { MEMBERS, TWINS, ENTERS, DELAYS, BREAKS, LEAVES, EXPIRIES, REFUSALS, LOSSES, REPEATS, BOUNDS };

/* Contenders, clients: from 0 on. */
enum { NOBODY = 255 };

/* What the server has stored. */
typedef struct stored {
    bool has_lock, has_grant;
    uint8_t owner;
    int16_t lock_ends_ms;
    uint8_t id; /* of the grant */
    int8_t incarnation;
    int16_t token;
    uint8_t next;     /* is invited; NOBODY: nobody is */
    bool has_standby; /* somebody was told to stand by */
    uint8_t queued, queue[CONTENDERS];
} stored;

/* A script that is to run, or has run; the answer is on its way then. */
typedef enum call_kind { CALL_NONE, CALL_ACQUIRE, CALL_RELEASE } call_kind;

typedef enum outcome { OUTCOME_DONE, OUTCOME_GRANTED, OUTCOME_REFUSED } outcome;

typedef struct call {
    uint8_t kind, who;
    char hears;     /* ACQUIRE: as the script has it; RELEASE: '1' it may be in the queue */
    bool is_wanted; /* somebody waits for the answer */
    int8_t incarnation;
    uint8_t outcome;
    bool is_owned;    /* REFUSED: somebody has it */
    int16_t token;    /* RELEASE, GRANTED */
    int16_t ends_ms;  /* GRANTED, REFUSED */
    int16_t asked_ms; /* ACQUIRE */
} call;

/* What a client asks for on the other connection, and what the server says there. */
typedef enum listening_kind { LISTEN, LISTEN_NO_MORE } listening_kind;

typedef struct listening {
    uint8_t kind;
    uint8_t to; /* the contender */
} listening;

typedef enum message_kind { INVITATION, STANDBY, CONFIRMED } message_kind;

typedef struct message {
    uint8_t kind, who;
} message;

/* redis_listener in plain data. */
typedef struct kept_listener {
    bool exists, is_queued, waits, will_look;
    uint8_t hearing, unconfirmed;
    int8_t incarnation; /* that waits */
    int16_t look_ms, idle_ms;
} kept_listener;

typedef struct client {
    bool has_commands, has_pushes; /* the connections are up */
    uint8_t calls, answered;       /* those that are answered come first */
    uint8_t listenings, messages;
    uint8_t hears; /* whose channel the server sends here: a set */
    call call[CALLS];
    listening listening[SAID];
    message message[SAID];
} client;

typedef enum phase { PHASE_OUT, PHASE_SEEKS, PHASE_HOLDS, PHASE_LEAVES } phase;

typedef struct contender {
    uint8_t phase;
    bool is_asking;  /* a request is under way, */
    bool is_pending; /* but not sent: there is no connection */
    bool is_kicked;  /* something was heard meanwhile */
    bool is_leaving; /* when the answer is there */
    int8_t incarnation;
    int16_t token, wake_ms, until_ms;
    kept_listener listener; /* to its channel, in its client */
} contender;

typedef struct world {
    machine_head head;
    uint8_t left[BOUNDS]; /* of what the bounds allow */
    int16_t token;        /* the latest that was granted */
    /* Somebody may have lost its place: a message was lost, or a release came late, and the queue knows ids only. */
    bool is_forgiven;
    bool has_late;
    call late; /* a command on a connection that is no more, which the server has not seen yet */
    stored store;
    client client[CLIENTS];
    contender contender[CONTENDERS];
} world;

static inline unsigned redis_machine_clients(const world *w)
{
    return w->head.bounds[MEMBERS];
}

static inline unsigned redis_machine_contenders(const world *w)
{
    const unsigned twins = w->head.bounds[TWINS], clients = w->head.bounds[MEMBERS];
    return clients + twins < CONTENDERS ? clients + twins : CONTENDERS;
}

/* The first contenders have a client each, and then come second ones of these. */
static inline unsigned redis_machine_client_of(const world *w, unsigned who)
{
    const unsigned clients = w->head.bounds[MEMBERS];
    return who < clients ? who : who - clients;
}

static inline const char *redis_machine_id(unsigned who)
{
    static const char *const ids[CONTENDERS] = {"a", "b", "c", "d"};
    return ids[who];
}

static inline uint64_t redis_machine_nonce(unsigned who, int8_t incarnation)
{
    return (who + 1U) * 1000U + (unsigned)incarnation;
}

/* --- redis_machine_clients.c ------------------------------------------------------------------------------ */

/* What can happen to what a client listens to for one of its contenders. */
typedef enum listener_event {
    EVENT_ASKS, /* an ACQUIRE is sent */
    EVENT_REFUSED,
    EVENT_LEFT, /* it was granted, or a RELEASE is sent */
    EVENT_UNQUEUED,
    EVENT_UP,
    EVENT_CONFIRMED,
    EVENT_DOWN,
    EVENT_INVITED,
    EVENT_STANDBY,
    EVENT_TICK,
} listener_event;

bool redis_machine_has_room(const client *c);
void redis_machine_happens(world *w, unsigned who, listener_event what);
void redis_machine_ask(world *w, unsigned who);
void redis_machine_deliver(world *w, unsigned index, bool is_confirmed);
void redis_machine_hear(world *w, unsigned index);
void redis_machine_drop_message(client *c);
void redis_machine_listen(world *w, unsigned index);
void redis_machine_break_off(world *w, unsigned index, unsigned carried_out, bool is_late);
void redis_machine_deafen(world *w, unsigned index);
void redis_machine_connect(world *w, unsigned index, bool to_listen);
void redis_machine_expire(world *w, unsigned who);
void redis_machine_come_to_time(world *w, unsigned who);
void redis_machine_leave(world *w, unsigned who);
void redis_machine_tick(world *w);

/* --- redis_machine_server.c ------------------------------------------------------------------------------- */

/* The server runs the script of this call, and notes in it what it has answered. Messages are on their way then. */
void redis_machine_run(world *w, call *what);

/* --- redis_machine_normal.c ------------------------------------------------------------------------------- */

/* The machine that ships, made of plain data, and the other way round, which frees it. */
void redis_machine_wake(const kept_listener *from, unsigned who, simba_local now, redis_listener *to);
void redis_machine_lay_down(redis_listener *from, simba_local now, kept_listener *to);
void redis_machine_normalise(void *of);

#endif
