/* A command that contends for one mutex until a signal ends it: what `simba elect` and `simba schedule` share. One
 * thread does everything: it runs the callbacks of the contender or the scheduler, listens to signals, and does the
 * command's own work. */
#ifndef SIMBA_CLI_SERVICE_H
#define SIMBA_CLI_SERVICE_H

#include "check.h"
#include "child/child.h"

typedef struct service service;

typedef struct service_type {
    const char *command;
    const char *consequence; /* of a lease that cannot be renewed: "the command will be stopped" */
    /* Make the scheduler that contends, with this timing; NULL: a contender does, and the following functions are
     * called. */
    int (*make)(service *s, const simba_timing *timing, simba_error *error);
    /* As for contenders. `leads` of the service is set before. */
    void (*acquired)(service *s, uint64_t token);
    void (*released)(service *s, uint64_t token, simba_reason reason);
    /* When to call `act` again, in ms, although nothing happens; -1: no need to. */
    int (*pause_ms)(const service *s);
    /* Something has happened, or the pause is over. Both NULL: never. */
    void (*act)(service *s);
    /* The command holds nothing any more, and closing the store may be cut short; NULL: nothing to do. */
    void (*leaving)(service *s);
} service_type;

/* The first member of the command's own state. */
struct service {
    const service_type *type;
    const char *mutex;
    int64_t grace_ms;   /* -1: as long as seems good */
    bool runs_commands; /* so they must be supervised */
    cli_globals *globals;
    check check;       /* it contends while this succeeds */
    int64_t resume_ns; /* and not before this */
    child_times times;
    cli_signals signals;
    simba_client *client;
    simba_contender *contender; /* one of the two contends */
    simba_scheduler *scheduler;
    waiting_words waiting;
    outage_words outage;
    bool leads;
    bool settled;  /* the store has answered, or may yet */
    int exit_code; /* CLI_GO: go on */
};

/* Open the store, contend, and go on until `exit_code` is set. Returns the exit code. */
int service_run(service *s);

/* The lease of the contender or scheduler; it is over when the check fails. */
void service_lease(service *s, simba_lease *ret_lease);

#endif
