/* The client library and the program around it: starts the library once for all clients of the process, and keeps
 * its signals from the program. */
#ifndef SIMBA_STORES_MYSQL_LIBRARY_H
#define SIMBA_STORES_MYSQL_LIBRARY_H

#include <signal.h>
#include <stdbool.h>

/* Any thread, any number of times. False: the library does not start. */
bool simba__my_library_start(void);

/* Call these around calls that send over TLS: a lost connection may raise SIGPIPE there, and a thread of the
 * application may run the job. Without TLS the library sends in a way that raises none. */
typedef struct simba__my_sigpipe {
    sigset_t before;
    bool was_pending;
} simba__my_sigpipe;
void simba__my_sigpipe_block(simba__my_sigpipe *sigpipe);
void simba__my_sigpipe_restore(const simba__my_sigpipe *sigpipe);

#endif
