/* Lockers of one client that share one grant of a mutex, as a step function: an event and a time go in, actions come out.
 * Pure, like contention.h. The grant belongs to one contender of the client; this machine decides which locker has it, and
 * when the contender gives it back.
 *
 *            somebody wants          granted              nobody here wants it
 *     AWAY ───────────────▶ SOUGHT ──────────▶ USED ◀──────────────────────────▶ KEPT
 *      ▲                     ▲│                 │        somebody wants it        │
 *      │        a moment has ││ nobody wants it │ others are let in,              │ the linger is over,
 *      │        passed       │▼                 ▼ the grant is lost               ▼ others wait
 *      │ the contender       │└────────────▶ LEAVING ◀────────────────────────────┘
 *      ├─────────────────────│──────────────────┤
 *      │ has stopped         │                  ▼ likewise, and others are to ask first
 *      └─────────────────────┴─────────────── YIELDS
 *        nobody wants it
 *
 * Rules:
 *   - At most one locker has the grant. Lockers get it in the order in which they came; a locker that has released it and
 *     wants it again comes last.
 *   - Nobody here wants a grant that is KEPT. It is kept for the linger of the locker that released it. Where the store does
 *     not say that others wait, the linger counts from the first release of the grant, however often it was used since. What
 *     a store says may be lost: so in any case the grant goes back after SIMBA__LINGER_LONGEST_NS, or the linger if that is
 *     longer, counted from its first release.
 *   - When others wait, a grant that is KEPT goes back at once. One that is USED goes back when its locker releases it and
 *     nobody here is in line, or SIMBA__LINGER_TURNS lockers had it meanwhile, or SIMBA__LINGER_NS have passed.
 *   - What a store says takes a while to come, and a client that nobody stops makes thousands of turns meanwhile. So a client that
 *     has heard of others expects them under its next grants too, and gives those back unasked: after SIMBA__LINGER_TURNS, and twice
 *     as many for every SIMBA__LINGER_DOUBLES_NS for which it had the mutex and heard of nobody. After SIMBA__LINGER_DOUBLINGS of
 *     these it no longer expects anybody.
 *   - A store that keeps no order gives a free mutex to the first to ask, and the client that gave it back would be quicker than the
 *     one that is told so. So that client YIELDS when it has let others in: it asks again after four times as long as giving back
 *     took, but at most SIMBA__LINGER_NS.
 *   - A grant whose note may still change, because a write of its last user went unanswered, is not passed on.
 *   - A grant that is LEAVING is not used again. Who is in line then gets the next one.
 */
#ifndef SIMBA_CORE_LINGER_H
#define SIMBA_CORE_LINGER_H

#include "core/timing.h"
#include "util/list.h"

enum { SIMBA__LINGER_TURNS = 8, SIMBA__LINGER_DOUBLINGS = 10 };
#define SIMBA__LINGER_NS INT64_C(5000000)
#define SIMBA__LINGER_DOUBLES_NS INT64_C(10000000)
#define SIMBA__LINGER_LONGEST_NS INT64_C(1000000000)

typedef enum simba__linger_phase {
    SIMBA__AWAY,    /* the client does not have the mutex, and does not ask for it */
    SIMBA__SOUGHT,  /* the contender asks for it */
    SIMBA__USED,    /* a locker has it */
    SIMBA__KEPT,    /* no locker has it or wants it */
    SIMBA__LEAVING, /* the contender gives it back, or has lost it, and has not stopped yet */
    SIMBA__YIELDS,  /* the contender has stopped. Lockers want the mutex, and let others ask first */
} simba__linger_phase;

/* A locker. Zeroed, it neither waits nor has anything. */
typedef struct simba__lingerer {
    simba__list_item item; /* while it waits */
    int64_t linger_ns;     /* how long the client may keep what this locker releases */
} simba__lingerer;

typedef enum simba__linger_kind {
    SIMBA__LINGER_WANT,    /* `who` wants the mutex; it neither waits nor has it */
    SIMBA__LINGER_LEAVE,   /* `who` gives up waiting, or releases what it has */
    SIMBA__LINGER_GRANTED, /* the contender has it */
    SIMBA__LINGER_LOST,    /* the contender has it no longer */
    SIMBA__LINGER_STOPPED, /* the contender has stopped: after a give_back, a loss, or an attempt that failed */
    SIMBA__LINGER_OTHERS,  /* the store says that others wait */
    SIMBA__LINGER_TIMER,
    SIMBA__LINGER_END, /* the client closes */
} simba__linger_kind;

typedef struct simba__linger_event {
    simba__linger_kind kind;
    simba_local now;
    simba__lingerer *who; /* WANT, LEAVE */
    bool unsettled;       /* LEAVE of the user: a write of the note may still come */
} simba__linger_event;

/* What to do now, in this order. */
typedef struct simba__linger_actions {
    simba__lingerer *loses; /* it had the grant, which has ended without its doing */
    simba__lingerer *gets;  /* it has the grant now */
    bool give_back;         /* stop the contender */
    bool seek;              /* start the contender, which has stopped */
    simba_local timer;      /* always valid: send TIMER then; SIMBA__NEVER: not at all */
} simba__linger_actions;

typedef struct simba__linger {
    simba__list line;           /* lockers that wait, in the order in which they came */
    simba__lingerer *user;      /* USED: the locker that has it */
    simba_local first_released; /* of this grant; SIMBA__NEVER: not yet */
    simba_local others_since;   /* they have waited while we had it */
    simba_local heard_at; /* when it last heard of others, less the time without the mutex; SIMBA__NEVER: it did not */
    simba_local left_at;  /* when the latest grant ended; SIMBA__NEVER: there was none */
    simba_local until;    /* KEPT: when the linger is over. YIELDS: when to ask */
    uint8_t phase;
    bool others;    /* others wait for it, or did when it was given back */
    bool told;      /* the store says so when they begin to */
    bool ordered;   /* the store keeps their order */
    bool ending;    /* the client closes: begin nothing new */
    uint16_t turns; /* lockers that got the grant after the first, while others waited or were expected */
} simba__linger;

/* `told`: this store tells a holder when others begin to wait. `ordered`: it grants a mutex that becomes free to the first who
 * waits. */
void simba__linger_init(simba__linger *machine, bool told, bool ordered);
void simba__linger_step(simba__linger *machine, const simba__linger_event *event, simba__linger_actions *ret_actions);

#endif
