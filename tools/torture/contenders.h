/* The contender processes of `simba torture` and `simba demo`: starts them, does to them what the plan wants, reads their reports, and makes
 * sure that none is left behind. Everything that happens goes into the history. */
#ifndef SIMBA_CLI_TORTURE_CONTENDERS_H
#define SIMBA_CLI_TORTURE_CONTENDERS_H

#include <sys/types.h>

#include "torture/torture.h"

#define TORTURE_NOBODY (-1)

typedef enum torture_node_state {
    NODE_DEAD,   /* killed; another process follows at due_ns */
    NODE_AWAY,   /* does not contend yet, since it was just started or was asked to hand over */
    NODE_RUNS,   /* contends */
    NODE_ENDING, /* was asked to end */
    NODE_ENDED,  /* has ended, and is not started again */
} torture_node_state;

typedef struct torture_node {
    torture_node_state state;
    pid_t pid;
    int fd;     /* the pipe of its standard output; -1: closed */
    int status; /* as of waitpid, if it has ended without having been killed */
    unsigned life;
    torture_fault fault; /* the fault that lasts; TORTURE_FAULT_COUNT: none */
    int64_t due_ns;      /* when that ends */
    torture_proxy *proxy;
    char *url; /* its own way to the store */
    char text[2 * TORTURE_LINE_MAX];
    size_t text_length;
} torture_node;

typedef struct torture_contenders {
    const torture_options *options;
    torture_outcome *outcome;
    int64_t epoch_ns;
    torture_node nodes[TORTURE_CONTENDERS_MAX];
    int count;
    int leaders[TORTURE_MUTEXES_MAX]; /* the leaders, as last reported */
} torture_contenders;

/* Nanoseconds since the run began. */
int64_t torture_contenders_now(const torture_contenders *contenders);

/* Start everybody. Negative: errno. torture_contenders_end in any case. */
int torture_contenders_start(torture_contenders *contenders, const torture_options *options, torture_outcome *outcome);
/* Kill all contenders that still run, and free everything. */
void torture_contenders_end(torture_contenders *contenders);

/* Wait for news, for other_fd, or until that time, and take in the news. True: other_fd is readable. */
bool torture_contenders_listen(torture_contenders *contenders, int other_fd, int64_t until_ns);

/* Add something to the history that is about no contender. */
void torture_contenders_record(torture_contenders *contenders, torture_kind kind);

/* Carry out the step on this contender, which runs and has no trouble. */
void torture_contenders_inflict(torture_contenders *contenders, int number, const torture_step *step);
/* End the faults whose time has come, and start processes anew. Returns when the next one is due. */
int64_t torture_contenders_heal(torture_contenders *contenders, int64_t now_ns);
/* Ask a contender that runs to end. */
void torture_contenders_ask_to_end(torture_contenders *contenders, int number);

/* End all faults now, and ask all contenders that run to end. */
void torture_contenders_dismiss(torture_contenders *contenders);

/* Does this one run, without any trouble? */
bool torture_contenders_is_well(const torture_contenders *contenders, int number);
/* How many do? */
int torture_contenders_count_well(const torture_contenders *contenders);
/* Has everybody ended? */
bool torture_contenders_has_ended(const torture_contenders *contenders);

#endif
