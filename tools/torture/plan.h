/* The plan of `simba torture`: which fault comes next, to whom and for how long. A pure function of the seed and of the
 * settings, so that the same seed breaks the same things in the same order. Who leads just then is up to the store. */
#ifndef SIMBA_CLI_TORTURE_PLAN_H
#define SIMBA_CLI_TORTURE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/* Each has the word that stands in histories and in --faults. */
#define TORTURE_FAULTS(X)                                                                                              \
    X(HAND_OVER, "handover") /* the process is asked to stop contending, and begins again */                           \
    X(KILL, "kill")          /* SIGKILL, and later another process in its place */                                     \
    X(PAUSE, "pause")        /* SIGSTOP, and later SIGCONT */                                                          \
    X(CUT, "cut")            /* its connections are closed, and new ones too */                                        \
    X(STALL, "stall")        /* its connections stand, but no byte passes */                                           \
    X(DEAF, "deaf")          /* its requests pass, the answers do not */                                               \
    X(MUTE, "mute")          /* the other way round */                                                                 \
    X(DELAY, "delay")        /* every byte is late, both ways */

typedef enum torture_fault {
#define TORTURE_FAULT_ENUM(name, word) TORTURE_FAULT_##name,
    TORTURE_FAULTS(TORTURE_FAULT_ENUM)
#undef TORTURE_FAULT_ENUM
        TORTURE_FAULT_COUNT
} torture_fault;

#define TORTURE_FAULT_BIT(fault) (1u << (fault))
/* The faults that need a proxy between a contender and the store. */
#define TORTURE_NETWORK_FAULTS                                                                                         \
    (TORTURE_FAULT_BIT(TORTURE_FAULT_CUT) | TORTURE_FAULT_BIT(TORTURE_FAULT_STALL) |                                   \
     TORTURE_FAULT_BIT(TORTURE_FAULT_DEAF) | TORTURE_FAULT_BIT(TORTURE_FAULT_MUTE) |                                   \
     TORTURE_FAULT_BIT(TORTURE_FAULT_DELAY))
#define TORTURE_ALL_FAULTS ((1u << TORTURE_FAULT_COUNT) - 1)

const char *torture_fault_word(torture_fault fault);
/* Reads "kill,pause,cut"; "cut" stands for all that break the network but delays. False: *ret_bad is the word that is none. */
bool torture_faults_parse(const char *text, unsigned *ret_faults, char *ret_bad, unsigned size);

typedef struct torture_step {
    torture_fault fault;
    bool to_leader; /* of the mutex; otherwise to one that waits */
    unsigned mutex;
    unsigned pick;   /* which of the waiters: modulo their number */
    int64_t rest_ms; /* how long everything is left alone before it */
    int64_t for_ms;  /* how long it lasts; KILL: how long until the next process is started */
    int64_t late_ms; /* DELAY: by how much */
    bool goes_on;    /* the next step comes while this one lasts */
} torture_step;

typedef struct torture_plan {
    uint64_t state;
    unsigned faults; /* bits, at least one */
    unsigned mutexes;
    int64_t lease_ms; /* two faults in three last at least as long as this */
    int64_t short_ms; /* the others are shorter than this */
} torture_plan;

void torture_plan_init(torture_plan *plan, uint64_t seed, unsigned faults, unsigned mutexes, int64_t lease_ms,
                       int64_t short_ms);
/* The next step. There always is one. */
torture_step torture_plan_next(torture_plan *plan);

#endif
