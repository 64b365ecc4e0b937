/* The mutex of a `simba run` that was killed. Its watchdog, when it has killed all that came from the command, becomes
 * the command `simba give-back`, which gives back the very grant that the command ran under, so that the next one need
 * not wait for the end of the lease. The URL of the store may have a password in it, and so it all comes through
 * standard input. */
#ifndef SIMBA_CLI_GIVE_BACK_H
#define SIMBA_CLI_GIVE_BACK_H

#include <simba.h>

typedef struct give_back {
    size_t length; /* 0: the store cannot do it, and the lease has to end by itself */
    char text[8192];
} give_back;

/* `url` as it was opened, NULL for the library's default. `code` is what asking for the grant returned. */
void give_back_prepare(const char *url, const char *mutex, int code, const simba_grant *grant, give_back *ret_what);

/* Become that command. Signals stay blocked as they are: what was sent to the watchdog meanwhile does not end it, and it
 * takes a few seconds at most. May be called between fork and exec. Returns only if it fails. */
void give_back_exec(const give_back *what);

#endif
