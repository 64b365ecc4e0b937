/* The contention protocol of one contender, as a step function: an event and a time go in, actions come out. There is
 * no I/O here, no clock, no thread and no allocation, so a test can feed it any history and a simulator can feed it all
 * of them. The runtime carries out the actions and owns everything that can fail.
 *
 *            start          initial delay over           granted
 *     IDLE ────────▶ DELAY ────────────────────▶ SEEK ─────────────▶ HOLD
 *      ▲                                        ▲ │ ▲                 │ lease over, refused, revoked,
 *      │ stopped                 leads no more, │ │ │                 │ hold limit, stop
 *      │                         goes on        │ │ │ comes too late  ▼
 *      └──────────────────────── GIVE_BACK ◀────┼─┘ └──────────────  TIDY   on_released runs
 *                                    └──────────┘ ◀───────────────────┘
 *
 * Rules that always hold, and that everything else relies on:
 *   - A lease counts from the moment at which its request was handed to the store, never from the reply. It ends by our own
 *     clock. Every step looks at the clock first, whatever the event is.
 *   - At most one request is in flight. The machine ignores a reply that does not carry the generation of that request.
 *   - The application gets one on_released per on_acquired. Nothing new begins until it has returned (the ACK event).
 *   - A grant that may exist in the store (`maybe_granted`) is given back before the contender stops or begins anew.
 * A table in contention.c lists the moves between phases, and the code checks what holds in each phase after every step,
 * in release builds too.
 */
#ifndef SIMBA_CORE_CONTENTION_H
#define SIMBA_CORE_CONTENTION_H

#include "core/timing.h"

typedef enum simba__phase {
    SIMBA__IDLE,
    SIMBA__DELAY,
    SIMBA__SEEK,
    SIMBA__HOLD,
    SIMBA__TIDY,
    SIMBA__GIVE_BACK,
} simba__phase;

typedef enum simba__event_kind {
    SIMBA__EV_START,
    SIMBA__EV_STOP,
    SIMBA__EV_TIMER,
    SIMBA__EV_REPLY,
    SIMBA__EV_PUSH,
    SIMBA__EV_ACK, /* on_released has returned */
} simba__event_kind;

typedef struct simba__event {
    simba__event_kind kind;
    simba_local now;
    simba_local session_until; /* session stores: the session cannot have ended before this, by our own clock */
    uint64_t seed;             /* START: fresh randomness; the incarnation's nonce comes from it */
    uint32_t generation;       /* REPLY */
    const simba_reply *reply;  /* REPLY */
    simba_local sent_at;       /* REPLY: when the request was handed to the store; 0: it never was */
    const simba_error *error;  /* REPLY: why it failed, for those who report it; may be NULL */
    const simba_push *push;    /* PUSH */
    bool used;                 /* PUSH: whoever carries out the actions says here whether they have used it */
} simba__event;

/* What to do now, in this order. */
typedef struct simba__actions {
    bool acquired;       /* tell on_acquired */
    bool released;       /* tell on_released, with `reason`, and send ACK when it has returned */
    bool changed;        /* the known owner has changed */
    bool submit;         /* hand `op` to the store */
    bool done;           /* stopped: no more actions will follow */
    bool used;           /* PUSH: it led to something; otherwise another waiter should get it */
    bool late_win;       /* a grant came too late to be used */
    simba_reason reason; /* released */
    simba_op op;
    bool queue;
    uint32_t generation;
    uint64_t nonce;
    uint64_t token;
    int64_t timeout_ns; /* of the request, from handing it over */
    simba_local latest; /* a RENEW that is handed over before then fails by then; 0: never mind */
    bool withdraw;      /* if the request in flight has not been handed over, it fails now */
    simba_local timer;  /* always valid: wake the machine then; SIMBA__NEVER: not at all */
    /* What the machine was doing before the step, for those who look on. */
    simba__phase was_phase;
    simba_op was_op;
} simba__actions;

typedef struct simba__contention {
    const simba__timing *timing;
    uint64_t seed;
    uint64_t nonce; /* of this incarnation; new after every start and every loss */
    uint64_t token; /* of the grant; 0 without one */
    simba_local
        sent_at; /* when the latest request was made, or the session was lost since; once it is answered: when it was
                                * handed over */
    simba_local kicked_at;     /* of the latest `kick` */
    simba_local lease_from;    /* when the request that last confirmed the lease was handed over */
    simba_local session_until; /* from the latest event */
    simba_local held_since;
    int64_t min_hold_ns; /* a stop before this time keeps the mutex from others; 0: no such promise */
    simba_local wake;    /* when the phase goes on by itself */
    simba_owner owner;   /* as last heard */
    uint32_t generation; /* of the latest request */
    int last_error;      /* of the latest request that failed; 0 after one that did not */
    uint16_t failures;   /* in a row */
    uint8_t phase;
    uint8_t op;
    uint8_t reason;
    uint8_t last_outcome; /* of the latest answer */
    bool in_flight;
    bool stop;         /* the application asked to stop */
    bool once;         /* locker: one leadership, then done */
    bool try_once;     /* locker: one answer, then done */
    bool leaves_queue; /* waiters have an entry in the store that they must remove */
    bool queued;       /* that entry may exist */
    bool first_trace;  /* the acquire in flight is the first thing of this incarnation that the store hears */
    bool kick;         /* a push came while a request was in flight: ask again */
    bool graceful;     /* TIDY: the lease is still ours, and the machine renews it */
    bool acked;        /* TIDY: on_released has returned */
    bool maybe_granted;
} simba__contention;

/* `timing` must outlive the machine. */
void simba__contention_init(simba__contention *machine, const simba__timing *timing, bool leaves_queue);

void simba__contention_step(simba__contention *machine, const simba__event *event, simba__actions *ret_actions);

/* Until when the holder may act; {0} when it may not. Covers the tidying up after a graceful stop. */
simba_local simba__contention_valid_until(const simba__contention *machine);
simba_local simba__contention_ttl_until(const simba__contention *machine);

simba_status simba__contention_status(const simba__contention *machine);

/* Should the store watch the mutex for this contender? Where watching has a cost, only waiters need it; where the store calls each
 * waiter by itself, only those that report every change (`observes`). */
bool simba__contention_wants_news(const simba__contention *machine, unsigned caps, bool observes);

/* Fill in the request that `actions` ask for (of this machine, or of an observation, which has no timing), but for its names. */
void simba__actions_request(const simba__actions *actions, const simba__timing *timing, simba_request *ret_request);

#endif
