/* The inside of an exploration, see explore.h. A world is plain data without pointers of its own: it is copied for every
 * choice, and its normal form is its identity. */
#ifndef TESTS_SIM_EXPLORE_WORLD_H
#define TESTS_SIM_EXPLORE_WORLD_H

#include "core/pending.h"
#include "core/row.h"
#include "sim/explore.h"

enum { WORLD_MESSAGES = 2, WORLD_CHILDREN = 8, WORLD_SESSIONS = 6, WORLD_CHOICES = 64 };

/* The op timeout of the client, in ticks. */
enum { EXPLORE_OP_TIMEOUT = 5 };

typedef struct choice {
    uint8_t kind, contender, slot;
} choice;

/* The time of all clocks in the normal form. */
#define WORLD_EPOCH_NS INT64_C(1000000000000)

typedef enum choice_kind {
    CHOICE_TICK,
    CHOICE_TIMER,
    CHOICE_DEADLINE,
    CHOICE_DELIVER, /* a message, to the store or from it */
    CHOICE_LOSE,
    CHOICE_REPEAT, /* a request is carried out, and goes on being under way */
    CHOICE_REFUSE, /* a request fails, and was not carried out */
    CHOICE_PUSH,
    CHOICE_LOSE_PUSH,
    CHOICE_BEGIN, /* a callback */
    CHOICE_RETURN,
    CHOICE_START,
    CHOICE_STOP,
    CHOICE_KILL,
    CHOICE_FORCE,
    CHOICE_BEAT, /* sessions: say that we live, or ask for a new session */
    CHOICE_HEAR, /* the store hears it, or we hear its answer */
    CHOICE_LOSE_BEAT,
    CHOICE_EXPIRE,
} choice_kind;

typedef enum message_kind { NO_MESSAGE, REQUEST, REPLY } message_kind;

typedef struct message {
    uint8_t kind, op, outcome;
    bool queue : 1;
    bool is_behind_push : 1; /* REPLY in a session, where everything arrives in order */
    int32_t status;
    uint32_t generation;
    uint32_t session;
    uint64_t nonce, token;
    uint64_t owner_token; /* REPLY; 0: nobody */
    int64_t left_ms;      /* of the owner's lease, when it was answered */
} message;

/* The messages that keep a session up. */
typedef enum beat_kind { NO_BEAT, BEAT, BEAT_HEARD, BEAT_EXPIRED } beat_kind;

typedef enum callback { NO_CALLBACK, IN_ACQUIRED, IN_RELEASED } callback;

typedef struct contender {
    simba__contention machine;
    simba__pending pending;
    simba_local now; /* by its own clock */
    simba_local timer, deadline;
    message message[WORLD_MESSAGES];
    int64_t push_left_ms;
    uint64_t push_token;
    uint64_t revoked_token; /* the grant of this token was forced away from it */
    uint8_t push;           /* simba_push_kind + 1; 0: none */
    bool is_alive, is_running, is_outstanding, is_watching;
    uint8_t callback;
    bool told_acquired, app_leads, wants_stop, has_stopped;
    /* Its session, as it knows. */
    uint8_t beat;
    uint32_t session, beat_session; /* 0: none */
    simba_local session_until, beat_at;
} contender;

typedef struct child {
    uint64_t nonce, token;
    uint32_t session;
    uint8_t contender;
} child;

typedef struct session {
    uint32_t id;        /* 0: none */
    int64_t expires_at; /* by the store's clock */
} session;

typedef struct world {
    const explore_bounds *bounds;
    const simba__timing *timing;
    const char *promise; /* that was broken */
    char text[192];
    FILE *log;
    int64_t log_ns;

    /* From here on: what makes it this world and no other. */
    uint8_t losses, kills, starts, stops, forces, pauses, delays; /* that may still come */
    bool is_healed;
    bool has_straggler; /* a contender that is gone was granted the mutex */
    int64_t store_ns;
    simba__row row;
    uint64_t zxid;
    child child[WORLD_CHILDREN];
    unsigned children;
    session session[WORLD_SESSIONS];
    uint64_t token_granted, token_held;
    contender contender[EXPLORE_CONTENDERS]; /* the last one is cut off where it is not needed */
} world;

/* --- explore_world.c --- */
void world_begin(world *w, const explore_bounds *bounds, const simba__timing *timing);
unsigned world_choices(const world *w, choice *ret_choices);
void world_choose(world *w, choice what);
void world_step(world *w, contender *m, simba__event *event);
size_t world_size(const world *w);
int64_t world_tick_ns(const world *w);
/* From here on nothing fails, everything is done at once, and time goes on when there is nothing to do. */
void world_heal(world *w);
/* Until the next tick, healed. */
void world_settle(world *w);
void world_say(world *w, const contender *m, const char *format, ...) __attribute__((format(printf, 3, 4)));
void world_lose_session(world *w, contender *m);

/* --- explore_store.c --- */
simba__row_now store_of(const world *w);
/* Carry out the request, which becomes its own reply. */
void explore_store_carry_out(world *w, contender *m, message *what);
void explore_store_force(world *w);
bool explore_store_is_free(const world *w);
void explore_store_hear(world *w, contender *m);
void explore_store_expire(world *w, session *which);
int64_t explore_session_ms(const world *w);

/* --- explore_check.c --- */
void check_world_broken(world *w, const char *promise, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool check_world_holds(const world *w, const contender *m);
/* The promises about a world as it is. */
void check_world_now(world *w);
void check_world_granted(world *w, uint64_t nonce, uint64_t token);
void check_world_acquired(world *w, const contender *m);
void check_world_submit(world *w, const contender *m, const simba__actions *actions);
void check_world_callback(world *w, contender *m, const simba__tell *tell);
/* Check the promises about the future of this world when all is well. Does not change the world. */
void check_world_future(const world *w, world *scratch);

/* --- explore_search.c --- */
/* False: there is no such timing. */
bool world_timing(const explore_bounds *bounds, simba__timing *ret_timing);

/* --- explore_normal.c --- */
void world_normalise(world *w);
uint64_t world_hash(const world *w);

#endif
