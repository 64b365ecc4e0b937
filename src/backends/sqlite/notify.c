/* See notify.h. */
#include "backends/sqlite/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/sqlite/error.h"
#include "backends/sqlite/file.h"
#include "util/clock.h"
#include "util/descriptors.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"

enum {
    LISTEN_BYTE = 0, /* a listener holds a read lock on it */
    MARK_TRIES = 100,
};

/* The layout of the file. */
#define SUBSCRIPTIONS_AT ((off_t)40 * 1024)
#define BIRTH_AT ((off_t)offsetof(simba__sqlite_notify_cells, birth))
#define QUEUES_AT ((off_t)64 * 1024)
_Static_assert(sizeof(simba__sqlite_notify_cells) <= SUBSCRIPTIONS_AT, "the slots lie before the subscriptions");
_Static_assert(SUBSCRIPTIONS_AT + sizeof(simba__sqlite_subscriptions) <= QUEUES_AT,
               "the subscriptions lie before the lines");

/* --- the file ------------------------------------------------------------------------------------- */

static int open_file(const char *path, const char *database)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    simba__descriptors_hold();
    int fd = open(path, flags);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    fd = open(path, flags | O_CREAT | O_EXCL, 0600);
    if (fd >= 0)
        simba__sqlite_file_adopt_mode(fd, database, false);
    else if (errno == EEXIST)
        fd = open(path, flags); /* another process was faster */
    return fd;
}

/* Bytes behind the end of the file count as 0. */
static void read_cells(const simba__sqlite_notify *notify, off_t offset, void *out, size_t size)
{
    const ssize_t got = pread(notify->fd, out, size, offset);
    const size_t there = got > 0 ? (size_t)got : 0;
    memset((char *)out + there, 0, size - there);
}

static void write_cell(const simba__sqlite_notify *notify, off_t offset, uint64_t value)
{
    (void)!pwrite(notify->fd, &value, sizeof value, offset);
}

static uint64_t read_birth(const simba__sqlite_notify *notify)
{
    uint64_t birth;
    read_cells(notify, BIRTH_AT, &birth, sizeof birth);
    return birth;
}

/* Ask for space on the disk now: a mark that does not fit would be lost. */
static int make_whole(simba__sqlite_notify *notify)
{
    struct stat status;
    if (fstat(notify->fd, &status) != 0)
        return errno;
    notify->device = status.st_dev;
    notify->inode = status.st_ino;
    if (!S_ISREG(status.st_mode))
        return EINVAL;
    const off_t size = sizeof(simba__sqlite_notify_cells);
    const int rc = status.st_size < size ? posix_fallocate(notify->fd, 0, size) : 0;
    notify->birth = read_birth(notify);
    if (rc == 0 && notify->birth == 0) {
        notify->birth = (uint64_t)simba__clock_mono_ns() | 1;
        write_cell(notify, BIRTH_AT, notify->birth);
    }
    return rc;
}

int simba__sqlite_notify_open(const char *database, simba_error *err, simba__sqlite_notify **ret_notify)
{
    const size_t size = strlen(database) + sizeof "-notify";
    simba__sqlite_notify *notify = simba__calloc(1, sizeof *notify + 3 * size);
    if (!notify)
        return simba__fail(err, SIMBA_ENOMEM, "sqlite: out of memory");
    notify->fifos = notify->path + size;
    notify->database = notify->fifos + size;
    snprintf(notify->path, size, "%s-notify", database);
    snprintf(notify->fifos, size, "%s-bells", database);
    strcpy(notify->database, database);
    notify->fifo = (simba__sqlite_fifo){.fd = -1, .number = -1};
    notify->fd = open_file(notify->path, database);
    const int number = notify->fd < 0 ? errno : make_whole(notify);
    if (number != 0) {
        const int code = simba__sqlite_file_fail(notify->path, "cannot be used", number, err);
        simba__sqlite_notify_close(notify);
        return code;
    }
    *ret_notify = notify;
    return 0;
}

void simba__sqlite_notify_close(simba__sqlite_notify *notify)
{
    if (!notify)
        return;
    simba__sqlite_fifo_remove(&notify->fifo, notify->fifos);
    if (notify->fd >= 0)
        close(notify->fd);
    simba__free(notify);
}

bool simba__sqlite_notify_is_current(const simba__sqlite_notify *notify)
{
    struct stat status;
    return stat(notify->path, &status) == 0 && status.st_dev == notify->device && status.st_ino == notify->inode &&
           read_birth(notify) == notify->birth;
}

uint64_t simba__sqlite_notify_read(const simba__sqlite_notify *notify, size_t slot)
{
    uint64_t value;
    read_cells(notify, (off_t)(slot * sizeof value), &value, sizeof value);
    return value;
}

void simba__sqlite_notify_read_all(const simba__sqlite_notify *notify, simba__sqlite_notify_cells *ret_cells)
{
    read_cells(notify, 0, ret_cells, sizeof *ret_cells);
}

uint64_t simba__sqlite_notify_revocations(const simba__sqlite_notify *notify)
{
    uint64_t value;
    read_cells(notify, offsetof(simba__sqlite_notify_cells, revocations), &value, sizeof value);
    return value;
}

/* --- values --------------------------------------------------------------------------------------- */

uint64_t simba__sqlite_notify_hash(const char *mutex)
{
    const uint64_t hash = simba__hash(mutex) * UINT64_C(0xD6E8FEB86659FD93); /* mixes the low bits once more */
    return hash ^ (hash >> 32);
}

/* 31 bits of the hash (the slot comes from others), 31 random ones, one that is never 0, one for "released". */
uint64_t simba__sqlite_notify_value(uint64_t hash, bool released, uint64_t random)
{
    return hash >> 33 << 33 | (random & INT32_MAX) << 2 | 2 | released;
}

bool simba__sqlite_notify_says_released(uint64_t value, uint64_t hash)
{
    return value >> 33 == hash >> 33 && (value & 1);
}

/* --- locks ---------------------------------------------------------------------------------------- */

/* Locks go away with their process, unlike anything written into the file. They belong to the open file, not to the
 * process, so that two clients in one process see each other. A writer that marks uses flock(2): with the other kind,
 * of which every listener has one, the kernel would go through all of them. */
static int lock_call(const simba__sqlite_notify *notify, int command, short type, off_t byte, short *ret_type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    const int rc = fcntl(notify->fd, command, &lock);
    if (ret_type)
        *ret_type = lock.l_type;
    return rc;
}

/* --- marks ---------------------------------------------------------------------------------------- */

simba__sqlite_notify_marking simba__sqlite_notify_begin(simba__sqlite_notify *notify)
{
    simba__sqlite_notify_marking marking = {.notify = notify};
    /* Others have the lock for a microsecond or two. A process that has it for longer is not running. */
    for (int i = 0; i < MARK_TRIES && !marking.locked; i++) {
        if (i > 0)
            sched_yield();
        marking.locked = flock(notify->fd, LOCK_EX | LOCK_NB) == 0;
    }
    return marking;
}

uint64_t simba__sqlite_notify_mark(const simba__sqlite_notify_marking *marking, size_t slot, uint64_t value)
{
    const uint64_t replaced =
        marking->locked ? simba__sqlite_notify_read(marking->notify, slot) : SIMBA__SQLITE_NOTIFY_UNSURE;
    write_cell(marking->notify, (off_t)(slot * sizeof value), value);
    return replaced;
}

void simba__sqlite_notify_end(const simba__sqlite_notify_marking *marking, uint64_t random)
{
    if (marking->locked)
        (void)flock(marking->notify->fd, LOCK_UN);
    else /* after the marks, so that a process that sees this sees them */
        write_cell(marking->notify, offsetof(simba__sqlite_notify_cells, disorder), random);
}

/* --- who hears what -------------------------------------------------------------------------------- */

bool simba__sqlite_notify_is_heard(const simba__sqlite_notify *notify)
{
    short found;
    return lock_call(notify, F_OFD_GETLK, F_WRLCK, LISTEN_BYTE, &found) != 0 || found != F_UNLCK;
}

/* If a writer cannot find out whether anybody listens, it marks and rings. So nothing is lost on a system without such
 * locks. */
void simba__sqlite_notify_listen(simba__sqlite_notify *notify)
{
    (void)lock_call(notify, F_OFD_SETLK, F_RDLCK, LISTEN_BYTE, NULL);
}

void simba__sqlite_notify_unlisten(simba__sqlite_notify *notify)
{
    (void)lock_call(notify, F_OFD_SETLK, F_UNLCK, LISTEN_BYTE, NULL);
}

static off_t subscription_at(unsigned fifo)
{
    return SUBSCRIPTIONS_AT + (off_t)(fifo * sizeof(uint64_t));
}

static off_t entry_at(size_t line, unsigned fifo)
{
    return QUEUES_AT + (off_t)(line * sizeof(simba__sqlite_queue) + fifo * sizeof(uint64_t));
}

void simba__sqlite_notify_read_subscriptions(const simba__sqlite_notify *notify, simba__sqlite_subscriptions *ret_ears)
{
    read_cells(notify, SUBSCRIPTIONS_AT, ret_ears, sizeof *ret_ears);
}

void simba__sqlite_notify_read_queue(const simba__sqlite_notify *notify, size_t line, simba__sqlite_queue *ret_line)
{
    read_cells(notify, entry_at(line, 0), ret_line, sizeof *ret_line);
}

void simba__sqlite_notify_subscribe(const simba__sqlite_notify *notify, uint64_t subscriptions)
{
    if (notify->fifo.number >= 0)
        write_cell(notify, subscription_at((unsigned)notify->fifo.number), subscriptions);
}

void simba__sqlite_notify_write_entry(const simba__sqlite_notify *notify, size_t line, uint64_t cell)
{
    if (notify->fifo.number >= 0)
        write_cell(notify, entry_at(line, (unsigned)notify->fifo.number), cell);
}

void simba__sqlite_notify_drop_subscription(const simba__sqlite_notify *notify, unsigned fifo)
{
    write_cell(notify, subscription_at(fifo), 0);
}

void simba__sqlite_notify_drop_entry(const simba__sqlite_notify *notify, size_t line, unsigned fifo)
{
    write_cell(notify, entry_at(line, fifo), 0);
}

/* The next line, from this one on, in which the cell of this fifo may be written. The file has holes where nobody has ever waited: to
 * read a cell of each of the 512 lines takes much longer than to ask for the next data. */
static size_t next_written(const simba__sqlite_notify *notify, size_t line, unsigned fifo)
{
    if (line >= SIMBA__SQLITE_QUEUES)
        return line;
    const off_t from = entry_at(line, fifo);
    const off_t data = lseek(notify->fd, from, SEEK_DATA);
    if (data < 0)
        return errno == ENXIO ? SIMBA__SQLITE_QUEUES : line; /* nothing follows; or this file system does not know */
    const off_t size = sizeof(simba__sqlite_queue);
    return line + (size_t)((data - from + size - 1) / size);
}

/* The owner of the fifo before us may have been killed while it waited. */
static void drop_old_entries(const simba__sqlite_notify *notify, unsigned fifo)
{
    for (size_t line = next_written(notify, 0, fifo); line < SIMBA__SQLITE_QUEUES;
         line = next_written(notify, line + 1, fifo)) {
        uint64_t cell;
        read_cells(notify, entry_at(line, fifo), &cell, sizeof cell);
        if (cell != 0)
            simba__sqlite_notify_drop_entry(notify, line, fifo);
    }
}

int simba__sqlite_notify_attend(simba__sqlite_notify *notify, uint64_t random)
{
    if (notify->fifo.fd >= 0)
        return 0;
    const int rc = simba__sqlite_fifo_make(&notify->fifo, notify->fifos, notify->database, random);
    if (rc < 0)
        return rc;
    drop_old_entries(notify, (unsigned)notify->fifo.number);
    simba__sqlite_notify_subscribe(notify, SIMBA__SQLITE_WANTS_REVOCATIONS);
    return 0;
}

void simba__sqlite_notify_leave(simba__sqlite_notify *notify)
{
    simba__sqlite_notify_unlisten(notify);
    simba__sqlite_notify_subscribe(notify, 0);
    simba__sqlite_fifo_remove(&notify->fifo, notify->fifos);
}

void simba__sqlite_notify_revoke(const simba__sqlite_notify *notify, uint64_t random)
{
    write_cell(notify, offsetof(simba__sqlite_notify_cells, revocations), random);
}
