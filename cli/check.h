/* --check: a shell command of the user that says whether this process may hold a mutex. It runs beside everything else, in a
 * process group of its own, without standard input, and prints to standard error. Before the first success the answer is no. */
#ifndef SIMBA_CLI_CHECK_H
#define SIMBA_CLI_CHECK_H

#include "cli.h"
#include "signals.h"

typedef struct check {
    const char *script; /* NULL: there is no check, and the answer is always yes */
    int64_t every_ms;   /* from the end of one run to the next; a run may take as long, too; 0: CHECK_EVERY_MS */
    const char *command;
    const char *mutex; /* for its environment; NULL: several */
    const cli_globals *globals;
    const cli_signals *signals;
    pid_t pid;      /* 0: none runs */
    int64_t due_ns; /* when to start it, or when it has taken too long */
    bool done;      /* there has been a result */
    bool good;      /* the last one */
} check;

#define CHECK_EVERY_MS 10000

/* The options that fill it in. */
#define CHECK_OPTIONS(check)                                                                                           \
    {"check", 0, CLI_TEXT, "CMD", "Hold it only while this shell command succeeds", &(check).script},                  \
    {                                                                                                                  \
        "check-every", 0, CLI_DURATION, "D", "How often, and how long it may take; default 10s", &(check).every_ms     \
    }

/* CLI_GO, or an exit code after a message. */
int check_options(const char *command, const check *c);

/* Do what is due, without waiting: start it, take its result, end it if it takes too long. Returns whether the process may hold a
 * mutex. */
bool check_look(check *c);
/* For how long the caller may wait until it looks again: at most `ms`, where -1 is for ever. */
int check_pause_ms(const check *c, int ms);
/* End it if it runs. */
void check_end(check *c);

#endif
