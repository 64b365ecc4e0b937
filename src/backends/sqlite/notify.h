/* The notify file: how a process learns that another one changed a mutex. It lies beside the database as
 * <database>-notify and has 4,096 slots; a mutex has its slot by its hash. After a commit that granted or released a mutex
 * the writer puts a fresh value into its slot, and then rings the bells of those whom it concerns: bell.h says what a bell
 * is, line.h who waits for what. That is in this file, too, behind the slots.
 *
 * SQLite's own files do not do as a bell: they change before the commit can be seen.
 *
 * The file is read and written, never mapped: whoever truncated it under a mapping would kill us. A slot that was cut off
 * reads as 0, a file that was truncated is made whole when somebody looks (is_current), and everybody repeats now and
 * then what it waits for.
 *
 * A writer has to know what its value replaced (see news.h). So it takes a lock, reads the slot, writes it, and lets go.
 * It never waits for the lock, since its holder may be frozen: who does not get it marks without, and changes the cell
 * `disorder` as well, which tells everybody that what they know of the slots may be too new.
 *
 * Whoever wants to hear of marks is a listener. If nobody else listens, nothing is marked at all. Whoever has a bell hears
 * of revocations, which also change the cell `revocations`; the many who hold a mutex need no more than that.
 *
 * There are so many slots because one that two mutexes share makes each other's watchers look for nothing. */
#ifndef SIMBA_BACKENDS_SQLITE_NOTIFY_H
#define SIMBA_BACKENDS_SQLITE_NOTIFY_H

#include <simba.h>
#include <sys/types.h>

#include "backends/sqlite/line.h"

enum { SIMBA__NOTIFY_SLOTS = 4096 };

/* What is at the beginning of the file. */
typedef struct simba__notify_cells {
    uint64_t slots[SIMBA__NOTIFY_SLOTS];
    uint64_t disorder;    /* changed by whoever marked without the lock */
    uint64_t revocations; /* changed by every revocation */
    uint64_t birth;       /* when the file was made, or made whole; another value, or 0: it was truncated since */
} simba__notify_cells;

typedef struct simba__notify {
    int fd;
    simba__bell bell;
    dev_t device;
    ino_t inode;
    uint64_t birth;
    char *bells; /* the folder of the bells */
    char *database;
    char path[];
} simba__notify;

/* Open, and create if need be, the one of this database. SIMBA_EPERM, SIMBA_EUNAVAILABLE, SIMBA_ENOMEM. */
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

/* A value for the slot of this mutex, which tells whether it was released; `random` makes it fresh. Never 0, which is
 * in a slot that nobody has used. */
uint64_t simba__notify_value(uint64_t hash, bool released, uint64_t random);
/* Does the value say that this very mutex was released? */
bool simba__notify_says_released(uint64_t value, uint64_t hash);
/* No slot ever has one of these: for a watcher that has seen none, and for a mark that does not know what it replaced. */
#define SIMBA__NOTIFY_UNSEEN UINT64_C(1)
#define SIMBA__NOTIFY_UNSURE UINT64_C(4)

/* Put values into slots: begin, mark as often as need be, end. A mark returns the value that it replaced;
 * SIMBA__NOTIFY_UNSURE: that is not known. `random` makes the cell `disorder` fresh, should it have to be changed. */
typedef struct simba__notify_marking {
    simba__notify *notify;
    bool locked;
} simba__notify_marking;
simba__notify_marking simba__notify_begin(simba__notify *notify);
uint64_t simba__notify_mark(const simba__notify_marking *marking, size_t slot, uint64_t value);
void simba__notify_end(const simba__notify_marking *marking, uint64_t random);

/* Does anybody else listen? To be asked after the commit. A listener takes its lock before it looks at the rows, so if the
 * answer is no, whoever begins to listen later finds the commit by himself, and nothing need be marked for him. */
bool simba__notify_is_heard(const simba__notify *notify);
void simba__notify_listen(simba__notify *notify);
void simba__notify_unlisten(simba__notify *notify);

/* Hang up our bell, if it does not hang, and so hear of revocations. 0, or a negative errno as of simba__bell_hang. */
int simba__notify_attend(simba__notify *notify, uint64_t random);
/* Hear nothing any more. */
void simba__notify_leave(simba__notify *notify);

/* What the owners of the bells want to hear: a set. 0: nobody has the bell. */
enum { SIMBA__HEARS_REVOCATIONS = 1, SIMBA__HEARS_ALL_MARKS = 2 };
typedef struct simba__ears {
    uint64_t of[SIMBA__BELLS];
} simba__ears;
void simba__notify_read_ears(const simba__notify *notify, simba__ears *ret_ears);
void simba__notify_read_line(const simba__notify *notify, size_t line, simba__line *ret_line);
/* Say what we want to hear, or what we wait for in this line. What was marked before may not be heard: look at the slots
 * afterwards. Nothing, if our bell does not hang. */
void simba__notify_say_ears(const simba__notify *notify, uint64_t ears);
void simba__notify_say_place(const simba__notify *notify, size_t line, uint64_t cell);
/* Nobody has that bell any more. */
void simba__notify_drop_ears(const simba__notify *notify, unsigned bell);
void simba__notify_drop_place(const simba__notify *notify, size_t line, unsigned bell);

/* Make the cell `revocations` fresh. */
void simba__notify_revoke(const simba__notify *notify, uint64_t random);

#endif
