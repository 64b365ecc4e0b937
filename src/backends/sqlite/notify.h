/* The notify file: how a process learns that another one changed a mutex. It lies beside the database as
 * <database>-notify and has 4,096 slots; the hash of a mutex chooses its slot. After a commit that granted or released a
 * mutex, the writer puts a fresh value into its slot and then rings: the kernel reports that to all processes with an
 * inotify watch on the file.
 *
 * SQLite's own files cannot serve as a bell: they change before others can see the commit.
 *
 * Processes read and write the file and never map it: truncating it under a mapping would kill them. A slot that was cut off
 * reads as 0, and is_current makes a short file whole.
 *
 * A writer has to know which value it replaced (see news.h). So it takes a lock, reads the slot, writes it, and unlocks.
 * It never waits for the lock, since its holder may be frozen. A writer that does not get the lock marks without it, and also
 * changes the cell `disorder`, which tells everybody that what they know of the slots may be too new.
 *
 * There are two bells, because the many holders need not wake up for the hand-overs of others:
 *   - Every mark rings for listeners: the writer sets the file's times (IN_ATTRIB). If nobody else listens, it does not
 *     mark at all.
 *   - A revocation changes the cell `revocations` and rings for all processes that have the file open (IN_CLOSE_WRITE).
 *
 * There are many slots because two mutexes in one slot make each other's watchers look in vain. */
#ifndef SIMBA_BACKENDS_SQLITE_NOTIFY_H
#define SIMBA_BACKENDS_SQLITE_NOTIFY_H

#include <simba.h>
#include <sys/types.h>

enum { SIMBA__NOTIFY_SLOTS = 4096 };

/* What is in the file. */
typedef struct simba__notify_cells {
    uint64_t slots[SIMBA__NOTIFY_SLOTS];
    uint64_t disorder;    /* changed by whoever marked without the lock */
    uint64_t revocations; /* changed by every revocation */
} simba__notify_cells;

typedef struct simba__notify {
    int fd;
    int watch; /* descriptor in the inotify instance; -1: none */
    dev_t device;
    ino_t inode;
    char path[];
} simba__notify;

/* Open the notify file of this database, and create it if necessary. SIMBA_EPERM, SIMBA_EUNAVAILABLE, SIMBA_ENOMEM. */
int simba__notify_open(const char *database, simba_error *err, simba__notify **ret_notify);
void simba__notify_close(simba__notify *notify); /* takes NULL */
/* Is it still the file at its path, and whole? */
bool simba__notify_is_current(const simba__notify *notify);

/* The same in every process. */
uint64_t simba__notify_hash(const char *mutex);
static inline size_t simba__notify_slot(uint64_t hash)
{
    return hash % SIMBA__NOTIFY_SLOTS;
}

uint64_t simba__notify_read(const simba__notify *notify, size_t slot);
void simba__notify_read_all(const simba__notify *notify, simba__notify_cells *ret_cells);
uint64_t simba__notify_revocations(const simba__notify *notify);

/* A value for the slot of this mutex, which says whether it was released; `random` makes it fresh. Never 0, the
 * value of an unused slot. */
uint64_t simba__notify_value(uint64_t hash, bool released, uint64_t random);
/* Does the value say that exactly this mutex was released? */
bool simba__notify_says_released(uint64_t value, uint64_t hash);
/* No slot ever has one of these: for a watcher that has seen none, and for a mark that does not know what it
 * replaced. */
#define SIMBA__NOTIFY_UNSEEN UINT64_C(1)
#define SIMBA__NOTIFY_UNSURE UINT64_C(4)

/* Put values into slots: begin, mark as often as necessary, end. A mark returns the value that it replaced;
 * SIMBA__NOTIFY_UNSURE: that is not known. `random` makes the cell `disorder` fresh, if it has to change. */
typedef struct simba__notify_marking {
    simba__notify *notify;
    bool locked;
} simba__notify_marking;
simba__notify_marking simba__notify_begin(simba__notify *notify);
uint64_t simba__notify_mark(const simba__notify_marking *marking, size_t slot, uint64_t value);
void simba__notify_end(const simba__notify_marking *marking, uint64_t random);

/* Does anybody else listen? Ask after the commit. A listener takes its lock before it looks at the rows. So if the
 * answer is no, a later listener finds the commit by itself, and needs no mark. */
bool simba__notify_is_heard(const simba__notify *notify);
/* Wake every process that listens. */
void simba__notify_ring(simba__notify *notify);
/* Wake every process that attends to revocations. `random` makes the cell `revocations` fresh. */
void simba__notify_ring_revoked(simba__notify *notify, uint64_t random);

/* Hear of revocations through `inotify` (-1: nothing is heard). */
void simba__notify_attend(simba__notify *notify, int inotify);
/* Hear all marks as well, and count as a listener. Marks made before this returns may go unheard: look at the slots
 * afterwards. False: the bell cannot be heard, poll the slots. */
bool simba__notify_listen(simba__notify *notify, int inotify);
void simba__notify_unlisten(simba__notify *notify, int inotify);
/* Stop hearing anything. */
void simba__notify_leave(simba__notify *notify, int inotify);

/* The inotify instance: non-blocking, or a negative errno. */
int simba__notify_inotify(void);
/* Empty it, and say which bells rang. */
typedef struct simba__notify_heard {
    bool marks;
    bool revocations;
} simba__notify_heard;
simba__notify_heard simba__notify_drain(int inotify);

#endif
