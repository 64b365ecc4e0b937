/* The notify file: how a process learns that another one changed a mutex. It lies beside the database as
 * <database>-notify, is mapped by every process, and has 4,096 slots; a mutex has its slot by its hash. After a commit
 * that granted or released a mutex the writer puts a fresh value into its slot and then, if some other process listens,
 * writes a byte of the file, which the kernel reports to all who have an inotify watch on it.
 *
 * SQLite's own files do not do as a bell: they change before the commit can be seen. The slots are shared memory rather
 * than file contents because a writer has to know what it replaced (see news.h), which takes an atomic exchange. That
 * asks nothing of the file system that SQLite's write-ahead log does not ask as well, and has the same weakness: whoever
 * truncates the file under us kills us.
 *
 * There are so many slots because one that two mutexes share makes each other's watchers look for nothing. */
#ifndef SIMBA_BACKENDS_SQLITE_NOTIFY_H
#define SIMBA_BACKENDS_SQLITE_NOTIFY_H

#include <simba.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { SIMBA__NOTIFY_SLOTS = 4096 };

typedef struct simba__notify {
    _Atomic uint64_t *slots;
    int fd;
    int watch; /* descriptor in the inotify instance; -1: none */
    dev_t device;
    ino_t inode;
    char path[];
} simba__notify;

/* Open, and create if need be, the one of this database. SIMBA_EPERM, SIMBA_EUNAVAILABLE, SIMBA_ENOMEM. */
int simba__notify_open(const char *database, simba_error *err, simba__notify **ret_notify);
void simba__notify_close(simba__notify *notify); /* takes NULL */
/* Is it still the file at its path? */
bool simba__notify_is_current(const simba__notify *notify);

/* The same in every process. */
uint64_t simba__notify_hash(const char *mutex);
static inline size_t simba__notify_slot(uint64_t hash)
{
    return hash % SIMBA__NOTIFY_SLOTS;
}

static inline uint64_t simba__notify_read(const simba__notify *notify, size_t slot)
{
    return atomic_load(&notify->slots[slot]);
}

/* A value for the slot of this mutex, which tells whether it was released; `random` makes it fresh. Never 0, which is
 * in a slot that nobody has used. */
uint64_t simba__notify_value(uint64_t hash, bool released, uint64_t random);
/* Does the value say that this very mutex was released? */
bool simba__notify_says_released(uint64_t value, uint64_t hash);

/* Put a value into its slot; what it replaced. */
static inline uint64_t simba__notify_mark(simba__notify *notify, size_t slot, uint64_t value)
{
    return atomic_exchange(&notify->slots[slot], value);
}
/* Wake every other process that listens. Costs one system call when there is none. */
void simba__notify_ring(simba__notify *notify);

/* Listen through `inotify` (-1: just be counted as a listener). What was marked before this returns may not be heard:
 * look at the slots afterwards. False: the bell cannot be heard, the slots have to be polled. */
bool simba__notify_listen(simba__notify *notify, int inotify);
void simba__notify_unlisten(simba__notify *notify, int inotify);

/* The inotify instance: non-blocking, or a negative errno; and emptying it. */
int simba__notify_inotify(void);
void simba__notify_drain(int inotify);

#endif
