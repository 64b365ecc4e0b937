/* A contender that keeps a record of all that it is told, and the arena of one mutex. The arena sees the records of all
 * probes that contend for the mutex and judges them at every step: never two inside with valid leases; tokens that
 * grow; callbacks that alternate and never overlap; nobody else with a valid lease when a probe is told that it leads.
 * So every case checks the safety promises, whatever else it is about. */
#ifndef TCK_PROBE_H
#define TCK_PROBE_H

#include "kit.h"

/* Is the lease of this contender valid now, by its own clock? With the lock of the kit. */
typedef bool tck_holds(const void *who);

struct tck_arena {
    tck *kit;
    const char *mutex;
    tck_probe *probes;
    const void *inside;  /* the leader, as it was told; NULL: nobody */
    tck_holds *holds;    /* is its lease valid? */
    const void *last;    /* the one that led last */
    uint64_t last_token; /* and under which token: the greatest so far */
};

typedef enum tck_event_kind {
    TCK_ACQUIRED,
    TCK_RELEASED,
    TCK_CHANGED,
} tck_event_kind;

typedef struct tck_event {
    tck_event_kind kind;
    uint64_t token; /* of the grant gained or lost; of the new owner */
    simba_reason reason;
    int64_t at_ns;       /* when the callback began */
    int64_t end_ns;      /* when it returned; 0: not yet */
    int64_t held_for_ms; /* ACQUIRED: the answer of the contender in the callback */
} tck_event;

struct tck_probe {
    tck_probe *next;    /* of the case */
    tck_probe *sibling; /* of the arena */
    tck_arena *arena;
    tck_client *client;

    /* A case changes these before the first start. */
    const char *id; /* NULL: the default */
    simba_timing timing;
    void (*on_acquired)(tck_probe *probe); /* run inside the callback, without the lock; may be NULL */
    void (*on_released)(tck_probe *probe);
    void *user;

    /* Under the lock of the kit. */
    simba_contender *contender;           /* NULL: not started yet, or freed */
    unsigned acquired, released, changed; /* callbacks so far */
    bool inside;
    bool stopped; /* stop has returned: no callback may follow */
    bool in_callback;
    pthread_t callback_thread;
    bool stop_done; /* tck_probe_stop_async is done */
    int stop_rc;
    tck_event *events;
    size_t event_count, event_room;
};

/* On the mutex "tck-SLOT-CASE[-SUFFIX]", or on one of any name. */
tck_arena *tck_arena_new(tck *t, const char *suffix);
tck_arena *tck_arena_named(tck *t, const char *mutex);

/* For cases without probes. `again`: the same token may come again, for another run under the same leadership. With the
 * lock of the kit. */
void tck_arena_enter(tck_arena *arena, const void *who, tck_holds *holds, uint64_t token, bool again);
void tck_arena_leave(tck_arena *arena, const void *who);

tck_probe *tck_probe_new(tck_arena *arena, tck_client *client);

/* Start it; the first time, make the contender. */
void tck_probe_start(tck_probe *probe);
/* Start it another time; returns the code of simba_contender_start. */
int tck_probe_try_start(tck_probe *probe);
/* Returns the code of simba_contender_stop. The probe's own callback may call it. */
int tck_probe_stop(tck_probe *probe);
/* Stop it in another thread; sets stop_rc and stop_done. */
void tck_probe_stop_async(tck_probe *probe);
/* The probe's own callback may call it. */
void tck_probe_free(tck_probe *probe);

/* Is somebody inside stop, or has stop returned? With the lock of the kit. */
bool tck_probe_is_stopping(const tck_probe *probe);

/* The nth event of a kind, from 1; all zero if there is none. Without the lock. */
tck_event tck_probe_event(tck_probe *probe, tck_event_kind kind, unsigned nth);
/* The last event of a kind. */
tck_event tck_probe_last(tck_probe *probe, tck_event_kind kind);

/* Print the events of the probes of a failed case, as TAP comments. */
void tck_probes_dump(tck *t);
/* Free the records. */
void tck_probes_forget(tck *t);

#endif
