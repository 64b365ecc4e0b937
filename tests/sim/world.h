/* The inside of a simulation, for the files that make it up:
 *
 *   handle.c    contenders, observers and their applications: carries out what the machines of src/core want
 *   slots.c     applications whose lockers have slots
 *   process.c   life and death of a process, its clock; what goes wrong with it
 *   host.c      the client of a process, which is the host of its store, see simba/backend.h
 *   notes.c     the notes that applications write and read
 *   net_store.c the client's end of the stores that are models altogether
 *   net.c       messages between that and the model of a store
 *   store.c     what the stores have in common; store_lease.c and store_session.c are the models
 *   sockets.c   what such a store takes for the system: sockets, time, chance
 *   wire.c      connections between them and the models of the store's servers
 *   check.c     looks at everything after every step
 *   faults.c    carries out the plan
 *   sim.c       the run
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "client/handles.h"
#include "core/observation.h"
#include "core/pending.h"
#include "core/row.h"
#include "sim/events.h"
#include "sim/sim.h"

enum {
    SIM_HANDLES = SIM_CONTENDERS + SIM_OBSERVERS,
    SIM_SESSIONS = 64,
    SIM_CHILDREN = 48,
    SIM_REVOKED = 32,
    SIM_TROUBLES = 1024,
    SIM_UNDO = 512,
    SIM_NOBODY = 0xffff,
    SIM_SERVERS = 5,
    SIM_HOSTS = 8, /* addresses that a server may have */
};

#define SIM_OBSERVER_POLL_NS (5 * SIM_S)

typedef enum sim_event_kind {
    EV_ITEM,       /* arg: of the plan */
    EV_HEAL,       /* everything works from now on */
    EV_HAND_OVER,  /* the drill of L2 */
    EV_SLOTS,      /* the same for slots */
    EV_WIND_UP,    /* everybody stops */
    EV_TO_STORE,   /* arg: message */
    EV_TO_PROCESS, /* arg: message */
    EV_STORE_UP,
    EV_EXPIRE,         /* who: session of the store */
    EV_WIRE_TO_SERVER, /* who: wire; arg: what */
    EV_SERVER,         /* the model's own affair */
    EV_PROCESS_UP,     /* who: process; here and below, nothing of a paused process happens before it goes on */
    EV_RESUBSCRIBE,
    EV_SESSION_OVER,
    EV_PING,
    EV_POLL,
    EV_GIVE_UP,         /* arg: number of a request that has expired */
    EV_WIRE_TO_PROCESS, /* who: wire; arg: what */
    EV_HOST_TIMER,
    EV_JOB,       /* arg: which */
    EV_READY,     /* arg: descriptor */
    EV_CALLBACKS, /* who: handle, from here on */
    EV_CALLBACK_END,
    EV_LOCKER_RELEASE,
    EV_LOCKER_GIVE_UP,
    EV_LOCKER_AGAIN,
    EV_LOCKER_WAKE, /* slots */
    EV_NOTE,
} sim_event_kind;

typedef enum sim_message_kind {
    MSG_REQUEST,
    MSG_REPLY,
    MSG_PUSH,
    MSG_SUBSCRIBE,
    MSG_SUBSCRIBED,
    MSG_POLL,
    MSG_POLLED,
    MSG_CONNECT, /* a new session */
    MSG_CONNECTED,
    MSG_PING,
    MSG_PONG,
    MSG_EXPIRED,
} sim_message_kind;

/* The writer of a note: the text of all notes here. */
typedef struct sim_note {
    uint64_t token, number;
} sim_note;

/* A note as text: two numbers of sixteen hexadecimal digits. */
enum { SIM_NOTE_SIZE = 32 };

typedef struct sim_message {
    uint8_t kind;
    uint8_t process;
    uint8_t mutex;
    uint8_t handle;
    uint32_t boot; /* of the process */
    uint32_t generation;
    uint32_t next_free;
    uint64_t sequence; /* of the process */
    uint64_t session;
    uint64_t version; /* of the row, POLLED */
    int64_t sent_at;  /* by the clock of the process */
    simba_request request;
    sim_note note; /* READ_NOTE: the answer */
    simba_push push;
} sim_message;

typedef enum sim_callbacks { CALLBACKS_IDLE, CALLBACKS_QUEUED, CALLBACKS_RUNNING } sim_callbacks;

/* The request about the note that a handle makes beside its own. */
typedef struct sim_noting {
    bool outstanding;
    uint64_t number; /* of its latest write */
    sim_note wrote;
    sim_note read;    /* the answer */
    sim_note known;   /* the youngest that anybody had seen when it was asked */
    uint64_t granted; /* the greatest token that the store had granted by then */
} sim_noting;

typedef struct sim_handle {
    simba__candidate candidate; /* first. An observer has only the handle in it */
    sim *s;
    bool is_contender;
    uint8_t process;
    uint8_t mutex;
    const char *id;
    char name[16];

    simba__observation observation;
    simba__pending pending;
    simba__tell tell; /* the news that the running callback was told */
    sim_noting noting;
    uint32_t life;     /* of planned events: one per start and per process */
    uint8_t callbacks; /* a sim_callbacks */
    bool running;
    bool exists; /* the application has it */

    /* The application. */
    bool locker, try_once, held;
    bool asked, refused, failed; /* a slot, in the application's latest attempt */
    bool stop_inside;
    bool restarts; /* after its process has died */
    int64_t slow_ns, slow_until;

    /* The lease as held_for_ms sees it. */
    simba_local valid_until;
    int64_t margin_ns;

    /* For check.c. */
    bool app_leads;      /* from the beginning of on_acquired until on_released has returned */
    bool told_acquired;  /* callbacks alternate */
    bool stop_returned;  /* and nothing runs after that */
    bool stop_wanted;    /* stop was called and has not returned */
    uint64_t held_token; /* of the leadership that was announced last */
    int64_t started_at;
} sim_handle;

/* An application with slots, see slots.c. */
typedef enum sim_app_phase { SIM_APP_AWAY, SIM_APP_COMES, SIM_APP_CHOOSES, SIM_APP_IS_IN, SIM_APP_GOES } sim_app_phase;

typedef struct sim_app {
    sim_app_phase phase;
    uint32_t life;       /* of planned events: one per attempt */
    bool wakes;          /* that is planned */
    bool asked;          /* for the turnstile */
    bool try_once;       /* a slot */
    bool lost_turnstile; /* its lease has ended */
    unsigned first;
    unsigned shown; /* of its handles: the slot that it is in */
} sim_app;

/* What a store that is a model knows in the client of a mutex that it watches. */
typedef struct sim_watch {
    simba_watch *shown; /* NULL: it is not watched */
    bool polled;        /* there is something to compare with */
    uint64_t token;
    uint64_t version;
    bool is_free;
} sim_watch;

typedef struct sim_process {
    sim_clock clock;
    bool alive;
    uint32_t boot;
    int64_t paused_until;
    int64_t stall_ns; /* the next event stalls for that long, between reading the clock and all that follows */
    uint64_t stalled; /* the number of that event, plus one; 0: none */
    simba_local read; /* what its clock showed */
    bool late;        /* it happens, by that clock */
    int64_t lose_until, lose;
    int64_t delay_until, delay_ns;
    int64_t repeat_until, repeat;
    int64_t cut_until, cut;
    uint64_t sent;    /* messages */
    int64_t in_order; /* when the latest of them arrives */
    sim_watch watches[SIM_MUTEXES];
    /* The session, if the store has them. */
    uint64_t session;
    simba_local session_until;
    uint32_t session_version, ping_version, poll_version;
    uint32_t requests; /* that were ever handed to its store, if that is a model */
    uint32_t attempt;
} sim_process;

typedef struct sim_child {
    uint64_t token; /* czxid: also the order */
    uint64_t nonce;
    uint64_t session;
    uint8_t handle;
} sim_child;

typedef struct sim_children {
    unsigned count;
    sim_child child[SIM_CHILDREN];
} sim_children;

typedef struct sim_session {
    uint64_t id; /* 0: none */
    uint8_t process;
    uint32_t boot;
    uint32_t attempt; /* of the process to get a session */
    uint32_t version;
    int64_t expires_at; /* by the store's clock */
} sim_session;

typedef struct sim_waiting {
    unsigned count;
    uint8_t handle[SIM_CONTENDERS];
} sim_waiting;

typedef struct sim_undo {
    int64_t at;
    uint8_t mutex;
    simba__row row;
    sim_children children;
    sim_note note;
} sim_undo;

typedef struct sim_store {
    sim_clock clock;
    int64_t epoch_ms;
    int64_t down_until;
    int64_t frozen_until;
    simba__row row[SIM_MUTEXES];
    sim_waiting waiting[SIM_MUTEXES];
    uint8_t invited[SIM_MUTEXES]; /* the handle for which the mutex is kept for a moment */
    int64_t invited_until[SIM_MUTEXES];
    uint32_t subscribed[SIM_PROCESSES][SIM_MUTEXES]; /* the boot of the process, 0: not */
    uint64_t done[SIM_PROCESSES];                    /* session stores do requests of a process in order */
    sim_session session[SIM_SESSIONS];
    uint64_t sessions;
    uint64_t zxid;
    sim_children children[SIM_MUTEXES];
    sim_note note[SIM_MUTEXES]; /* where leases are sessions; otherwise the row has it */
    sim_undo *undo;
    unsigned undos;
} sim_store;

typedef struct sim_trouble {
    uint8_t process; /* or SIM_PROCESSES: everybody's */
    uint8_t row;     /* the mutex whose row was locked, plus one; 0: it is about something else */
    bool jump;       /* the clock skipped that much */
    int64_t from, to;
} sim_trouble;

typedef struct sim_checks {
    uint64_t token_granted[SIM_MUTEXES]; /* the greatest so far, by the store */
    uint64_t token_held[SIM_MUTEXES];    /* and by holders */
    uint64_t revoked[SIM_MUTEXES][SIM_REVOKED];
    unsigned revocations[SIM_MUTEXES];
    bool straggled[SIM_MUTEXES]; /* the latest grant came from a request that nobody waited for any more */
    bool lost_writes;
    bool stale_reads;     /* a server was replaced, and replicas confirm writes, not reads */
    int64_t neighbour_ns; /* how long a locked row may keep the requests of another mutex waiting */
    sim_trouble trouble[SIM_TROUBLES];
    unsigned troubles;
    sim_note noted[SIM_MUTEXES]; /* the youngest note that somebody has seen, or was told that it is written */
    uint64_t closed_token
        [SIM_MUTEXES]; /* it was granted, and then somebody saw the next: no note of an older one came after */
    sim_note closed_note[SIM_MUTEXES];
    int64_t owned_at[SIM_MUTEXES];   /* somebody held it then */
    int64_t changed_at[SIM_MUTEXES]; /* the store gave it to somebody or took it back */
    /* The drill of L2. */
    bool drill[SIM_MUTEXES];
    int64_t freed_at[SIM_MUTEXES];
    int64_t taken_at[SIM_MUTEXES];
    bool next[SIM_APPS]; /* when a slot was given back, it was in the turnstile, or had lost that and waited on */
} sim_checks;

typedef struct sim_client sim_client;
typedef struct sim_wires sim_wires;
typedef struct sim_sockets sim_sockets;

/* A store whose own code runs in the simulation, against a model of its servers. */
typedef struct sim_model {
    const simba_backend *backend;
    void *(*new)(void); /* once per simulation; it is s->servers from then on */
    void (*free)(void *servers);
    void (*begin)(sim *s); /* a run */
    void (*end)(sim *s);
    /* The URL for its clients. */
    void (*url)(const sim *s, char *out, size_t size);
    void (*event)(sim *s, const sim_event *event); /* EV_SERVER */
    /* The other end of a wire. A server that is frozen accepts, and does nothing else before that time. */
    bool (*accepts)(const sim *s, unsigned server);
    int64_t (*frozen_until)(const sim *s, unsigned server);
    /* Until when the two cannot reach each other. */
    int64_t (*cut_until)(const sim *s, unsigned process, unsigned server);
    void (*opened)(sim *s, unsigned wire);
    void (*bytes)(sim *s, unsigned wire, const char *data, size_t length);
    void (*closed)(sim *s, unsigned wire);
    /* Faults of the model. */
    void (*force_release)(sim *s, unsigned mutex);
    void (*fault)(sim *s, const sim_item *item, int64_t until); /* freeze, restart, fail-over */
    void (*lose_subscriptions)(sim *s, unsigned process);
    void (*healed)(sim *s);
    /* False: nobody owns it. */
    bool (*owner)(const sim *s, unsigned mutex, simba_owner *ret_owner);
} sim_model;

extern const sim_model sim_redis, sim_zookeeper, sim_sql, sim_postgresql, sim_etcd, sim_kubernetes;

struct sim {
    const sim_plan *plan;
    const sim_model *model; /* NULL: the store is a model altogether */
    simba_backend backend;
    void *servers;
    void *kept[SIM_STORES]; /* of each kind of store */
    sim_client *client[SIM_PROCESSES];
    sim_wires *wires;
    sim_sockets *sockets;
    simba__timing timing;
    int64_t now;
    uint64_t random; /* of the network and the applications */
    sim_events events;
    sim_message *message;
    uint32_t messages, message_capacity, message_free;
    sim_process process[SIM_PROCESSES];
    sim_handle handle[SIM_HANDLES];
    unsigned handles;
    sim_app app[SIM_APPS];
    sim_store store;
    sim_checks checks;
    bool healed;
    bool settled; /* and everything has had the time to go well again */
    bool winding_up;
    FILE *log;
    sim_verdict verdict;
};

/* --- sim.c ------------------------------------------------------------------------------------------ */

int64_t sim_pick(sim *s, int64_t low, int64_t high);
bool sim_chance(sim *s, int64_t per_mille);
void sim_plan_event(sim *s, sim_event_kind kind, unsigned who, int64_t at, uint32_t version, uint32_t arg);
/* How long after healing all promises of liveness must have been kept, and how long a hand-over may take. */
int64_t sim_settle_ns(const sim *s);
int64_t sim_hand_over_ns(const sim *s);
const char *sim_mutex_name(unsigned mutex);
/* Make it part of the run's fingerprint. */
void sim_mix(sim *s, uint64_t value);
/* A line of the event log: "TIME ROW WORDS…". */
void sim_log(sim *s, const char *row, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Prints an event of a server, for --servers. */
void sim_tell(sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- net.c ------------------------------------------------------------------------------------------ */

sim_message *net_message(sim *s, sim_message_kind kind, unsigned process, uint32_t *ret_index);
void net_free(sim *s, uint32_t index);
/* Hand it over; it may be lost, delayed, repeated. A reliable one is only late. `after_ns`: not before that. */
void net_to_store(sim *s, uint32_t index, bool reliable);
void net_to_process(sim *s, uint32_t index, bool reliable, int64_t after_ns);

/* --- wire.c ------------------------------------------------------------------------------------------ */

/* The events of the process's end of a connection. */
typedef struct sim_wire_events {
    void (*connected)(void *user, bool refused);
    void (*bytes)(void *user, const char *data, size_t length);
    void (*lost)(void *user); /* the wire is gone already */
} sim_wire_events;

sim_wires *wires_new(void);
void wires_clear(sim_wires *wires);
void wires_free(sim_wires *wires);
unsigned wire_connect(sim *s, unsigned process, unsigned server, const sim_wire_events *events, void *user);
void wire_send(sim *s, unsigned wire, const char *data, size_t length);
void wire_close(sim *s, unsigned wire);
/* The server's end. `peer` is for the server to use; the end that closes a wire has forgotten it. */
void wire_answer(sim *s, unsigned wire, const char *data, size_t length);
void wire_drop(sim *s, unsigned wire);
void *wire_peer(const sim *s, unsigned wire);
/* NULL: it is not open at this server. */
void *wire_peer_at(const sim *s, unsigned wire, unsigned server);
void wire_set_peer(sim *s, unsigned wire, void *peer);
unsigned wire_process(const sim *s, unsigned wire);
unsigned wire_server(const sim *s, unsigned wire);
/* The first after this one that is open at a server, in a fixed order; begin with 0. 0: there are no more. */
unsigned wire_next(const sim *s, unsigned wire);
/* From now on nothing passes, and neither end knows. */
void wire_silence(sim *s, unsigned wire);
/* The process is gone; noticed: and its kernel says so. */
void wires_abandon(sim *s, unsigned process, bool noticed);
/* By now servers know which of their connections are dead. */
void wires_notice(sim *s);
/* From now on, a client that sends on a connection that its server has forgotten is told so, also on a silent one. */
void wires_answer_again(sim *s);
void wire_to_server(sim *s, const sim_event *event);
void wire_to_process(sim *s, const sim_event *event);
/* Does it reach the process? Its kernel deals with what comes for a connection that the process has closed. */
bool wire_is_heard(const sim *s, const sim_event *event);

/* --- sockets.c --------------------------------------------------------------------------------------- */

sim_sockets *sockets_new(void);
void sockets_free(sim_sockets *sockets);
int sockets_attach(simba_io *io, unsigned interest);
void sockets_detach(simba_io *io);
void sockets_ready(sim *s, const sim_event *event);
void sockets_check_closed(const sim *s, unsigned process);

/* --- host.c ------------------------------------------------------------------------------------------ */

void client_open(sim *s, unsigned process);
void client_kill(sim *s, unsigned process, bool noticed);
sim *client_sim(simba_host *host, unsigned *ret_process);
void *client_store(const sim *s, unsigned process);
/* What the machine of a handle wants. */
void client_adopt(sim_handle *handle); /* its process has just begun */
void client_ask(sim_handle *handle, const simba__actions *actions);
void client_set_timer(sim_handle *handle, simba_local at);
void client_want(sim_handle *handle, bool wants);
void client_begin(sim_handle *handle);
void client_end(sim_handle *handle);
void client_withdraw(sim_handle *handle);
typedef void client_done(simba__request *request, const simba_error *error);
void client_add(sim_handle *handle, simba__request *request, client_done *done);
void client_plan_anew(sim *s, unsigned process);
void client_event(sim *s, unsigned process, const sim_event *event);
/* As before the lock is released: watch, and send the requests that there is room for, until nothing is left to do. */
void clients_settle(sim *s);
/* Whose code runs on this thread right now; NULL: nobody's. */
sim *client_running(unsigned *ret_process);
/* Around all that its code does. */
void client_enter(sim *s, unsigned process);
void client_leave(void);
/* Does its store have requests? Those that nobody waits for any more count, too. */
bool client_has_requests(const sim *s, unsigned process);
/* It has died: nothing that it does gets out. */
bool client_is_muted(const sim *s, unsigned process);

/* --- net_store.c ------------------------------------------------------------------------------------- */

extern const simba_backend sim_net_store;
void net_store_arrived(sim *s, const sim_message *message);
void net_store_event(sim *s, unsigned process, const sim_event *event);
/* Does anybody wait for the answer to this request? */
bool net_store_is_awaited(const sim *s, const sim_message *message);

/* --- handle.c ---------------------------------------------------------------------------------------- */

void handle_make(sim *s, sim_handle *handle);
void handle_step(sim *s, sim_handle *handle, simba__event *event);
void handle_event(sim *s, sim_handle *handle, const sim_event *event);

/* --- notes.c ----------------------------------------------------------------------------------------- */

void notes_start(sim *s, sim_handle *handle); /* with its process */
void notes_event(sim *s, sim_handle *handle, const sim_event *event);
/* False: these bytes are none that anybody has written. */
bool notes_read(const void *bytes, size_t size, sim_note *ret_note);
void notes_print(sim_note note, char text[SIM_NOTE_SIZE + 1]);
static inline bool notes_is_about(simba_op op)
{
    return op == SIMBA_OP_WRITE_NOTE || op == SIMBA_OP_READ_NOTE;
}

/* --- process.c -------------------------------------------------------------------------------------- */

void process_plan(sim *s, sim_event_kind kind, unsigned who, const sim_process *process, simba_local at,
                  uint32_t version);
/* Its clock, as it was read when the event began that is happening. */
simba_local process_event_time(const sim *s, const sim_process *process);

void process_init(sim *s);
simba_local process_now(const sim *s, const sim_process *process);
bool process_is_paused(const sim *s, const sim_process *process);
void process_start(sim *s, unsigned process);
void process_kill(sim *s, unsigned process, int64_t back_after_ns);
void process_set_rate(sim *s, unsigned process, int64_t ppm);
void process_jump(sim *s, unsigned process, int64_t ns); /* its clock, forward */
void process_event(sim *s, const sim_event *event);
/* The application's calls. */
void handle_start(sim *s, sim_handle *handle);
void handle_begin(sim *s, sim_handle *handle);
void handle_stop(sim *s, sim_handle *handle);
/* For how long the handle may act. */
int64_t handle_held_ns(const sim *s, const sim_handle *handle);

/* --- slots.c ----------------------------------------------------------------------------------------- */

void slots_told(sim *s, sim_handle *handle, const simba__event *event, const simba__actions *actions);
void slots_start(sim *s, sim_handle *handle);
void slots_stop(sim *s, sim_handle *handle);
void slots_killed(sim *s, unsigned process);
void slots_event(sim *s, const sim_handle *handle, const sim_event *event);
void slots_settled(sim *s);
void slots_drill(sim *s);
void slots_check_next(sim *s);

/* --- store.c, store_lease.c, store_session.c --------------------------------------------------------- */

void store_init(sim *s);
void store_event(sim *s, const sim_event *event);
void store_force_release(sim *s, unsigned mutex);
void store_fail_over(sim *s, int64_t down_ns, int64_t lost_ms);
bool store_is_away(const sim *s);
int64_t store_clock(const sim *s);
simba__row_now store_now(const sim *s);
void store_push(sim *s, unsigned process, unsigned mutex, const simba_push *push, int64_t after_ns);
void store_remember(sim *s, unsigned mutex); /* before a change */

void lease_request(sim *s, sim_message *message);
void lease_force_release(sim *s, unsigned mutex);
void session_request(sim *s, sim_message *message);
void session_message(sim *s, sim_message *message);
void session_force_release(sim *s, unsigned mutex);
void session_expire(sim *s, const sim_event *event);
void session_renew_all(sim *s);
bool session_owner(const sim *s, unsigned mutex, simba_owner *ret_owner);

/* --- faults.c --------------------------------------------------------------------------------------- */

void fault_item(sim *s, const sim_event *event);
void fault_heal(sim *s);

/* --- check.c ---------------------------------------------------------------------------------------- */

void check_broken(sim *s, const char *promise, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* By what it is told; what was taken away by force does not count. */
bool check_holds(const sim *s, const sim_handle *handle);
void check_trouble(sim *s, unsigned process, int64_t from, int64_t to);
void check_jump(sim *s, unsigned process, int64_t ns);
/* A request has to wait for the row of this mutex. Requests in the same statement may have to wait for a while. */
void check_row_locked(sim *s, unsigned mutex, int64_t from, int64_t to);
void check_step(sim *s, sim_handle *handle, const simba__contention *before, const simba__event *event,
                const simba__actions *actions);
void check_submit(sim *s, const sim_handle *handle, const simba__actions *actions);
void check_callback(sim *s, sim_handle *handle, const simba__tell *tell);
void check_granted(sim *s, unsigned mutex, unsigned grantee, uint64_t token, bool straggler);
void check_freed(sim *s, unsigned mutex);
void check_revoked(sim *s, unsigned mutex, uint64_t token);
void check_settled(sim *s);
void check_hand_over(sim *s);
void check_end(sim *s);

#endif
