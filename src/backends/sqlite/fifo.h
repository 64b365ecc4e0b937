/* How one process wakes another. A client that wants to be woken hangs up a fifo: a FIFO in the folder
 * <database>-bells, with a number for its name. The client reads from it, and a process that has news for the client
 * writes a byte into it. So a writer wakes only those whom its news concerns, and no limit of the system is in the way,
 * as there would be with inotify.
 *
 * The client has an exclusive lock on its FIFO, which the kernel removes when the process ends, however it ends. A
 * process that wants to ring tries to get a shared lock: if that succeeds, nobody owns the fifo, and nobody can take it
 * while that process has the lock.
 *
 * A writer opens the FIFO for reading, too. Otherwise a reader that dies at the wrong moment would kill it by
 * SIGPIPE. */
#ifndef SIMBA_BACKENDS_SQLITE_FIFO_H
#define SIMBA_BACKENDS_SQLITE_FIFO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SIMBA__SQLITE_FIFOS = 1024 }; /* how many clients can have one at a time; the others poll */

/* The reason for wakeups. */
typedef enum simba__sqlite_signal {
    SIMBA__SQLITE_SIGNAL_CHANGES = 1 << 0, /* look into the slots */
    SIMBA__SQLITE_SIGNAL_RESERVE = 1 << 1, /* another client is next: make sure that it takes the free mutex */
    SIMBA__SQLITE_SIGNAL_REVOKED = 1 << 2, /* a mutex was forced away from its holder */
} simba__sqlite_signal;

typedef struct simba__sqlite_fifo {
    int fd;             /* -1: it does not hang */
    _Atomic int number; /* -1: the same. The worker reads it too */
    dev_t device;
    ino_t inode;
} simba__sqlite_fifo;

/* Take a number that nobody has; `random` says where to begin to look. Returns 0, or a negative errno: -EUSERS if all
 * are taken. Makes the folder if it is missing; everybody who may use the database may use it. */
int simba__sqlite_fifo_make(simba__sqlite_fifo *fifo, const char *folder, const char *database, uint64_t random);
void simba__sqlite_fifo_remove(simba__sqlite_fifo *fifo, const char *folder);
/* Is it still where others look for it? */
bool simba__sqlite_fifo_is_current(const simba__sqlite_fifo *fifo, const char *folder);
/* Empty the fifo. Returns the reasons for which it was signalled, a set of simba__sqlite_signal. */
unsigned simba__sqlite_fifo_drain(const simba__sqlite_fifo *fifo);

/* Open the folder, in order to ring: returns a descriptor, which the caller closes, or a negative errno. */
int simba__sqlite_fifo_folder(const char *folder);
/* Ring the fifo `number`. Returns whether somebody has it. If nobody does, this calls `abandoned` while nobody can take
 * the fifo. */
typedef void (*simba__sqlite_fifo_abandoned)(void *user, unsigned number);
bool simba__sqlite_fifo_signal(int folder, unsigned number, simba__sqlite_signal ring,
                               simba__sqlite_fifo_abandoned abandoned, void *user);

#endif
