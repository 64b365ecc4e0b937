/* Gives back the mutex of a `simba run` that was killed. When its supervisor has killed all processes of the command,
 * it becomes the command `simba give-back`, which ends exactly the grant that the command ran under, so that the
 * next holder need not wait for the end of the lease. The URL of the store may have a password in it, so everything
 * comes through standard input. */
#ifndef SIMBA_CLI_GIVE_BACK_H
#define SIMBA_CLI_GIVE_BACK_H

#include <simba.h>

typedef struct give_back {
    size_t length; /* 0: nothing is given back, and the lease must end by itself */
    char text[8192];
} give_back;

/* `url` as it was opened, NULL for the library's default. */
void give_back_prepare(const char *url, const char *mutex, const simba_grant *grant, give_back *ret_what);

/* Become that command. Signals stay blocked, so that a signal to the supervisor does not end it; it takes a few seconds at
 * most. May be called between fork and exec. Returns only if it fails. */
void give_back_exec(const give_back *what);

#endif
