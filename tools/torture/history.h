/* The history of a run of `simba torture`: what every contender believed and what was done to it, one event per line of
 * JSON. The contenders write these lines, the command collects them, and the judge reads nothing else. The format is
 * documented in docs/torture.md; other programs may write it and have it judged.
 *
 * Times are nanoseconds since the run began, on CLOCK_BOOTTIME, which all processes of a host share. */
#ifndef SIMBA_CLI_TORTURE_HISTORY_H
#define SIMBA_CLI_TORTURE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Contenders report the first group about themselves. The command, or whoever else breaks things, reports the second. */
#define TORTURE_KINDS(X)                                                                                               \
    X(CONTENDS, "contends") /* it has been started, and wants all mutexes */                                           \
    X(HOLDS, "holds")       /* it looked before it acted, and its lease was valid; see torture_event */                \
    X(RELEASED, "released") /* its leadership has ended; what: why */                                                  \
    X(SEES, "sees")         /* it has heard who leads now, if it reports that; what: the id, or nothing */             \
    X(STOPPED, "stopped")   /* it has stopped as it was asked to, and contends no more */                              \
    X(LATE, "late")         /* the host did not let it run from `at` to `to` */                                        \
    X(FAILED, "failed")     /* the store failed requests of it between `at` and `to` */                                \
    X(FAULT, "fault")       /* something is done to it from now on; what: one of torture_fault, or any other word */   \
    X(HEALED, "healed")     /* the fault of that name is over */                                                       \
    X(KILLED, "killed")     /* by SIGKILL, and it was certainly dead at `to` */                                        \
    X(ASKED, "asked")       /* it was asked to hand over */                                                            \
    X(ENDED, "ended")       /* the process ended although nobody had asked it to; what: how */                         \
    X(END, "end")           /* of the run: from now on everybody is asked to stop */

typedef enum torture_kind {
#define TORTURE_KIND_ENUM(name, word) TORTURE_##name,
    TORTURE_KINDS(TORTURE_KIND_ENUM)
#undef TORTURE_KIND_ENUM
        TORTURE_KIND_COUNT
} torture_kind;

#define TORTURE_CONTENDERS_MAX 64
#define TORTURE_MUTEXES_MAX 16
#define TORTURE_EVERYBODY (-1) /* the contender of a fault of the store or of the whole network */
#define TORTURE_LINE_MAX 512
#define TORTURE_FLAW_MAX 128

/* A HOLDS event sums up looks at one lease that all found it valid. The first look began at `at` and ended at `seen_ns`; the
 * last one began at `to_ns`. What the lease was found valid for is counted from before the look, so that until_ns is never
 * later than the truth. */
typedef struct torture_event {
    int64_t at_ns;
    int64_t seen_ns;  /* HOLDS */
    int64_t to_ns;    /* HOLDS, LATE, FAILED, KILLED */
    int64_t until_ns; /* HOLDS: the lease is valid until then by the contender's own clock */
    uint64_t token;   /* HOLDS, RELEASED */
    torture_kind kind;
    int contender; /* TORTURE_EVERYBODY: not one of them */
    unsigned life; /* how often it was started before: a process that was killed is followed by another one */
    unsigned mutex;
    char what[32];
} torture_event;

/* The settings of a run, and what the protocol promises for it. The first line of a history file. */
typedef struct torture_setup {
    uint64_t seed;
    int contenders;
    unsigned mutexes;
    int64_t
        lease_ns; /* nobody follows a dead leader earlier than its lease lets them: ttl and transition, or the session */
    int64_t outage_ns;   /* trouble that is shorter than this costs nobody the leadership (L3); 0: any may */
    int64_t takeover_ns; /* after a leader that cannot be heard of any more, somebody leads within this (L1) */
    int64_t handover_ns; /* after one that has given the mutex back, within this (L2) */
} torture_setup;

typedef struct torture_history {
    torture_event *events;
    size_t count;
    size_t capacity;
} torture_history;

const char *torture_kind_word(torture_kind kind);

/* Write the event as one line with its end. Returns its length. */
size_t torture_event_write(const torture_event *event, char ret_line[TORTURE_LINE_MAX]);
/* Read such a line, without its end. Members that are not known are passed over. False: it is none, and ret_flaw, unless it is
 * NULL, says which member is wrong. */
bool torture_event_read(const char *line, torture_event *ret_event, char ret_flaw[TORTURE_FLAW_MAX]);

/* The same for the first line, {"kind":"run",…}. */
size_t torture_setup_write(const torture_setup *setup, char ret_line[TORTURE_LINE_MAX]);
bool torture_setup_read(const char *line, torture_setup *ret_setup, char ret_flaw[TORTURE_FLAW_MAX]);

/* Add an event. Ends the program if there is no memory. */
void torture_history_add(torture_history *history, const torture_event *event);
/* In order of time; events of one moment stay in the order in which they were added. */
void torture_history_sort(torture_history *history);
void torture_history_free(torture_history *history);

#endif
