/* The notify file: how a process learns that another one changed a mutex. It lies beside the database as
 * <database>-notify and has 4,096 slots; the hash of a mutex says which slot it has. After a commit that granted or
 * released a mutex the writer puts a fresh value into its slot, and then rings the bells of those whom it concerns.
 * bell.h says what a bell is, and line.h who waits for what; the lines are in this file too, behind the slots.
 *
 * SQLite's own files cannot serve as a bell: they change before others can see the commit.
 *
 * Processes read and write the file and never map it: if somebody truncated it under a mapping, that would kill them. A
 * slot that was cut off reads as 0. A process that looks at a truncated file (is_current) makes it whole, and every
 * client repeats now and then what it waits for.
 *
 * A writer has to know which value it replaced (see news.h). So it takes a lock, reads the slot, writes it, and
 * unlocks. It never waits for the lock, since the process that has it may be frozen. A writer that does not get the
 * lock marks without it, and also changes the cell `disorder`. This tells all clients that what they know of the slots
 * may be too new.
 *
 * A client that wants to hear of marks is a listener. If nobody else listens, a writer marks nothing. A client that has
 * a bell hears of revocations, which also change the cell `revocations`; the many clients that only hold a mutex need
 * no more than that.
 *
 * There are many slots because two mutexes in one slot make each other's watchers look in vain. */
#ifndef SIMBA_BACKENDS_SQLITE_NOTIFY_H
#define SIMBA_BACKENDS_SQLITE_NOTIFY_H

#include <simba.h>
#include <sys/types.h>

#include "backends/sqlite/line.h"

enum { SIMBA__SQLITE_NOTIFY_SLOTS = 4096 };

/* The beginning of the file. */
typedef struct simba__sqlite_notify_cells {
    uint64_t slots[SIMBA__SQLITE_NOTIFY_SLOTS];
    uint64_t disorder;    /* a writer that marks without the lock changes it */
    uint64_t revocations; /* every revocation changes it */
    uint64_t birth; /* when the file was made, or made whole. Another value, or 0: somebody has truncated it since */
} simba__sqlite_notify_cells;

typedef struct simba__sqlite_notify {
    int fd;
    simba__sqlite_bell bell;
    dev_t device;
    ino_t inode;
    uint64_t birth;
    char *bells; /* the folder of the bells */
    char *database;
    char path[];
} simba__sqlite_notify;

/* Open the notify file of this database, and create it if necessary. SIMBA_EPERM, SIMBA_EUNAVAILABLE, SIMBA_ENOMEM. */
int simba__sqlite_notify_open(const char *database, simba_error *err, simba__sqlite_notify **ret_notify);
void simba__sqlite_notify_close(simba__sqlite_notify *notify); /* takes NULL */
/* Is it still the file at its path, and whole? */
bool simba__sqlite_notify_is_current(const simba__sqlite_notify *notify);

/* The hash is the same in every process. */
uint64_t simba__sqlite_notify_hash(const char *mutex);
static inline size_t simba__sqlite_notify_slot(uint64_t hash)
{
    return hash % SIMBA__SQLITE_NOTIFY_SLOTS;
}

uint64_t simba__sqlite_notify_read(const simba__sqlite_notify *notify, size_t slot);
void simba__sqlite_notify_read_all(const simba__sqlite_notify *notify, simba__sqlite_notify_cells *ret_cells);
uint64_t simba__sqlite_notify_revocations(const simba__sqlite_notify *notify);

/* A value for the slot of this mutex, which says whether it was released; `random` makes it fresh. Never 0, the
 * value of an unused slot. */
uint64_t simba__sqlite_notify_value(uint64_t hash, bool released, uint64_t random);
/* Does the value say that exactly this mutex was released? */
bool simba__sqlite_notify_says_released(uint64_t value, uint64_t hash);
/* No slot ever has one of these values. The first is for a watcher that has seen none, the second for a mark that does
 * not know what it replaced. */
#define SIMBA__SQLITE_NOTIFY_UNSEEN UINT64_C(1)
#define SIMBA__SQLITE_NOTIFY_UNSURE UINT64_C(4)

/* Put values into slots: begin, mark as often as necessary, end. A mark returns the value that it replaced;
 * SIMBA__SQLITE_NOTIFY_UNSURE: that is not known. `random` makes the cell `disorder` fresh, if it has to change. */
typedef struct simba__sqlite_notify_marking {
    simba__sqlite_notify *notify;
    bool locked;
} simba__sqlite_notify_marking;
simba__sqlite_notify_marking simba__sqlite_notify_begin(simba__sqlite_notify *notify);
uint64_t simba__sqlite_notify_mark(const simba__sqlite_notify_marking *marking, size_t slot, uint64_t value);
void simba__sqlite_notify_end(const simba__sqlite_notify_marking *marking, uint64_t random);

/* Does anybody else listen? Ask after the commit. A listener takes its lock before it looks at the rows. So if the
 * answer is no, a later listener finds the commit by itself, and needs no mark. */
bool simba__sqlite_notify_is_heard(const simba__sqlite_notify *notify);
void simba__sqlite_notify_listen(simba__sqlite_notify *notify);
void simba__sqlite_notify_unlisten(simba__sqlite_notify *notify);

/* Hang up our bell, if it does not hang, and so hear of revocations. 0, or a negative errno as of simba__sqlite_bell_hang. */
int simba__sqlite_notify_attend(simba__sqlite_notify *notify, uint64_t random);
/* Stop hearing of anything. */
void simba__sqlite_notify_leave(simba__sqlite_notify *notify);

/* What the owner of a bell wants to hear, a set. 0: nobody has the bell. */
enum { SIMBA__SQLITE_HEARS_REVOCATIONS = 1, SIMBA__SQLITE_HEARS_ALL_MARKS = 2 };
typedef struct simba__sqlite_ears {
    uint64_t of[SIMBA__SQLITE_BELLS];
} simba__sqlite_ears;
void simba__sqlite_notify_read_ears(const simba__sqlite_notify *notify, simba__sqlite_ears *ret_ears);
void simba__sqlite_notify_read_line(const simba__sqlite_notify *notify, size_t line, simba__sqlite_line *ret_line);
/* Write what we want to hear, or what we wait for in this line. We may not hear of earlier marks: look at the slots
 * afterwards. Does nothing if our bell does not hang. */
void simba__sqlite_notify_say_ears(const simba__sqlite_notify *notify, uint64_t ears);
void simba__sqlite_notify_say_place(const simba__sqlite_notify *notify, size_t line, uint64_t cell);
/* Nobody has that bell any more. */
void simba__sqlite_notify_drop_ears(const simba__sqlite_notify *notify, unsigned bell);
void simba__sqlite_notify_drop_place(const simba__sqlite_notify *notify, size_t line, unsigned bell);

/* Make the cell `revocations` fresh. */
void simba__sqlite_notify_revoke(const simba__sqlite_notify *notify, uint64_t random);

#endif
