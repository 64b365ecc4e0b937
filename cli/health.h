/* Answers and notifications about the one mutex that this process contends for: HTTP for load balancers and probes
 * (--status-listen), and systemd's notifications (--notify). Both judge by the lease as the client has it at that moment:
 * when a renewal hangs, they turn red before the lease ends.
 *
 * A process has one of these. It starts no thread. The command's loop polls health_fd() and calls health_run(),
 * which never blocks and does little at a time, so that neither a renewal nor the end of a command waits for a
 * client of the listener. */
#ifndef SIMBA_CLI_HEALTH_H
#define SIMBA_CLI_HEALTH_H

#include "cli.h"

/* The state of the mutex that this process contends for, at one moment. */
typedef struct health_view {
    const char *mutex;
    const char *id;    /* NULL: not known yet */
    bool contends;     /* it has begun to, and the store does not refuse it from the first */
    bool leads;        /* it means to: is not giving it back */
    simba_lease lease; /* as it is now */
    simba_owner owner; /* as last heard; a leader does not need it */
    bool refused;      /* the store refuses it, and waiting does not mend that: `refusal` says why */
    simba_error refusal;
    int64_t reserve_ms;   /* the end of the lease that the answer does not promise */
    simba_client *client; /* whose statistics are shown; NULL: none yet */
} health_view;

/* Is this process the leader, and for a while yet? */
bool health_is_leader(const health_view *view);

/* The present state. */
typedef void (*health_look_fn)(void *user, health_view *ret_view);

/* Call this before the store is opened, so that mistakes are reported first. Returns CLI_GO, or an exit code after a
 * message. Does nothing if neither option is given. */
int health_open(const char *command, const cli_globals *globals, health_look_fn look, void *user);
/* Leadership has been given back, or never came: stop all notifications. */
void health_close(void);

/* Poll it for input; -1: there is no listener. */
int health_fd(void);
/* How long the loop may wait: `ms` (-1: for ever), or less if something is due before. */
int health_pause_ms(int ms);
/* Call it once in every iteration of the loop. */
void health_run(void);

#endif
