/* How one process wakes another. A client that wants to be woken hangs up a bell: a FIFO in the folder <database>-bells, with
 * a number for its name. The client reads from it, and whoever has news for the client writes a byte into it. So a writer
 * wakes those whom its news concerns and nobody else, and no limit of the system is in the way as there is for inotify.
 *
 * The client has an exclusive lock on its FIFO, which the kernel removes when the process ends, however it ends. Whoever
 * wants to ring tries to get a shared lock: if that succeeds, the bell belongs to nobody, and while the visitor has the lock
 * nobody can take the bell over.
 *
 * A writer opens the FIFO for reading, too. Otherwise a reader that dies at the wrong moment would kill it by SIGPIPE. */
#ifndef SIMBA_BACKENDS_SQLITE_BELL_H
#define SIMBA_BACKENDS_SQLITE_BELL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SIMBA__SQLITE_BELLS = 1024 }; /* clients that can have one at a time; the others poll */

/* What is said by ringing. */
typedef enum simba__sqlite_ring {
    SIMBA__SQLITE_RING_NEWS = 1 << 0,       /* look into the slots */
    SIMBA__SQLITE_RING_IN_RESERVE = 1 << 1, /* somebody else is next: see to it that he takes what is free */
    SIMBA__SQLITE_RING_REVOKED = 1 << 2,    /* a mutex was forced away from its holder */
    SIMBA__SQLITE_RING_WANTED = 1 << 3,     /* somebody waits for a mutex of a holder that listens */
} simba__sqlite_ring;

typedef struct simba__sqlite_bell {
    int fd;             /* -1: it does not hang */
    _Atomic int number; /* -1 as well. The worker reads it too */
    dev_t device;
    ino_t inode;
} simba__sqlite_bell;

/* Take a number that nobody has; `random` says where to begin to look. Returns 0, or a negative errno: -EUSERS if all are
 * taken. The folder is made if it is missing, and whoever may use the database may use it. */
int simba__sqlite_bell_hang(simba__sqlite_bell *bell, const char *folder, const char *database, uint64_t random);
void simba__sqlite_bell_take_down(simba__sqlite_bell *bell, const char *folder);
/* Is it still where others look for it? */
bool simba__sqlite_bell_is_current(const simba__sqlite_bell *bell, const char *folder);
/* Empty it, and say what was rung: a set of simba__sqlite_ring. */
unsigned simba__sqlite_bell_drain(const simba__sqlite_bell *bell);

/* The folder, for whoever rings: a descriptor, to be closed, or a negative errno. */
int simba__sqlite_bell_folder(const char *folder);
/* Ring at `number`, and say whether somebody has that bell. If nobody has, `forsaken` is called, while nobody can take it. */
typedef void (*simba__sqlite_bell_forsaken)(void *user, unsigned number);
bool simba__sqlite_bell_ring(int folder, unsigned number, simba__sqlite_ring ring, simba__sqlite_bell_forsaken forsaken,
                             void *user);

#endif
