/* Messages for a person while a command waits for a mutex, or holds one that cannot be renewed. */
#ifndef SIMBA_CLI_WAITING_H
#define SIMBA_CLI_WAITING_H

#include "cli.h"

/* When to look for the first time whether there is something to report, and how often after that. */
enum { WAITING_FIRST_MS = 700, WAITING_AGAIN_MS = 1000 };

typedef struct waiting_words {
    const char *command;
    const char *mutex;
    bool at_terminal; /* there is a person to read it */
    simba_owner told; /* the owner that was printed last */
} waiting_words;

/* With -v the library reports it, which is enough. */
waiting_words waiting_words_for(const char *command, const char *mutex, const cli_globals *globals);

/* Print who owns the mutex and until when, if that was not printed yet, and if standard error is a terminal. */
void waiting_say(waiting_words *words, const simba_owner *owner, int64_t left_ms);

typedef struct outage_words {
    const char *command;
    const char *mutex;
    const char *consequence; /* "the command will be stopped" */
    bool verbose;            /* that it was renewed in the end is said by the library */
    bool said;
} outage_words;

outage_words outage_words_for(const char *command, const char *mutex, const char *consequence,
                              const cli_globals *globals);

/* Print that an overdue lease cannot be renewed, and what will happen when; later, that it was renewed. Once each. */
void outage_look(outage_words *words, const simba_lease *lease);

#endif
