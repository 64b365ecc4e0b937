/* The parts of `simba demo`: the contender processes and what they report (cast.c), the judgement of it
 * (judge.c), and the drawing of both (report.c). The story itself is in demo.c. */
#ifndef SIMBA_CLI_DEMO_H
#define SIMBA_CLI_DEMO_H

#include <simba.h>
#include <sys/types.h>

#include "cli.h"
#include "term.h"

/* The words of one line from a contender: "AT_NS EVENT TOKEN DETAIL". AT_NS is on CLOCK_BOOTTIME, which all processes
 * of a host share. All but `killed` are written by `simba contend`. */
#define DEMO_EVENTS(X)                                                                                                 \
    X(READY, "ready")       /* contends from now on */                                                                 \
    X(CHANGED, "changed")   /* heard of another owner; detail: its id, or "-" */                                       \
    X(ACQUIRED, "acquired") /* leads */                                                                                \
    X(LEASE, "lease")       /* detail: until when the lease is valid by its own clock, at least */                     \
    X(RELEASED, "released") /* leads no longer, has tidied up; detail: why */                                          \
    X(STOPPED, "stopped")   /* has stopped as asked */                                                                 \
    X(KILLED, "killed")     /* by the parent; detail: until when it may have lived */

typedef enum demo_event_kind {
#define DEMO_EVENT_ENUM(name, word) DEMO_##name,
    DEMO_EVENTS(DEMO_EVENT_ENUM)
#undef DEMO_EVENT_ENUM
        DEMO_EVENT_KINDS
} demo_event_kind;

const char *demo_event_word(demo_event_kind kind);

#define DEMO_NODES 3
#define DEMO_EVENTS_MAX 512
#define DEMO_NOBODY (-1)

typedef struct demo_event {
    int64_t at_ns;
    int64_t until_ns; /* LEASE and KILLED */
    uint64_t token;
    int node;
    demo_event_kind kind;
    char detail[48];
} demo_event;

/* --- cast.c: the processes ----------------------------------------------------------------- */

typedef struct demo_node {
    char name[16];
    pid_t pid;
    int fd;          /* the pipe of its standard output; -1: closed */
    int exit_status; /* as from waitpid, once it has ended */
    bool ended;
    bool may_end; /* it was asked to, or killed */
    bool ready;
    int sees; /* the leader it last heard of */
    unsigned renewals;
    int64_t lease_until_ns;
    char text[512]; /* a line that is not complete yet */
    size_t text_length;
} demo_node;

typedef struct demo_cast {
    demo_node nodes[DEMO_NODES];
    demo_event events[DEMO_EVENTS_MAX];
    size_t event_count;
    int leader;
    int signal_fd;   /* Ctrl-C and the like arrive here */
    int interrupted; /* the signal that did */
    int broken;      /* the node that ended or spoke out of turn */
    char broken_text[96];
    void (*show)(const demo_event *event, void *user);
    void *show_user;
} demo_cast;

typedef enum demo_outcome {
    DEMO_DONE,
    DEMO_LATE,        /* not in time */
    DEMO_INTERRUPTED, /* cast->interrupted */
    DEMO_BROKEN,      /* cast->broken, cast->broken_text */
} demo_outcome;

typedef bool (*demo_condition)(const demo_cast *cast);

int64_t demo_now_ns(void);

/* Blocks the signals that end a program until demo_cast_end, so that nothing is left behind. Negative: errno. */
int demo_cast_init(demo_cast *cast);
/* Start the contenders of `mutex`. Which store they use is in their environment. Negative: errno. */
int demo_cast_start(demo_cast *cast, const char *mutex, const simba_timing *timing, const cli_globals *globals);
/* Listen to the contenders until `condition` (NULL: never) or for `patience_ms`. */
demo_outcome demo_cast_await(demo_cast *cast, demo_condition condition, int64_t patience_ms);
/* SIGKILL: it has no chance to say anything. SIGTERM: it gives the mutex back and ends. */
void demo_cast_kill(demo_cast *cast, int node);
void demo_cast_stop(demo_cast *cast, int node);
/* Kill all contenders that still run. Safe after any failure, and twice. */
void demo_cast_end(demo_cast *cast);

/* --- judge.c: was it all as promised? ------------------------------------------------------ */

#define DEMO_REIGNS_MAX 8
#define DEMO_CHECKS_MAX 8

/* One leadership, from on_acquired to on_released or death. */
typedef struct demo_reign {
    int node;
    bool killed;
    uint64_t token;
    int64_t from_ns;
    int64_t to_ns;    /* released, or surely dead; 0: still leads */
    int64_t ended_ns; /* released, or the moment of the kill */
    int64_t lease_until_ns;
} demo_reign;

typedef struct demo_check {
    bool passed;
    const char *what;
    char detail[96];
} demo_check;

typedef struct demo_verdict {
    demo_reign reigns[DEMO_REIGNS_MAX];
    size_t reign_count;
    demo_check checks[DEMO_CHECKS_MAX];
    size_t check_count;
    bool passed; /* all of them */
    int64_t failover_ns;
    int64_t handover_ns;
    int64_t lease_left_ns; /* of the killed leader, at the kill */
} demo_verdict;

/* How long after the kill somebody must lead, at the latest. */
int64_t demo_failover_limit_ms(const simba_timing *timing);

/* Pure: judges the events. Sorts them by time first. */
void demo_judge(demo_cast *cast, const simba_timing *timing, demo_verdict *ret_verdict);

/* --- report.c: on the screen --------------------------------------------------------------- */

term_style demo_node_style(int node);
void demo_show_event(const term *t, const demo_cast *cast, const demo_event *event, int64_t start_ns);
void demo_show_timeline(const term *t, const demo_cast *cast, int64_t start_ns);
void demo_show_verdict(const term *t, const demo_cast *cast, const demo_verdict *verdict);

#endif
