/* See notify.h. */
#include "backends/sqlite/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/sqlite/file.h"
#include "util/descriptors.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"

enum {
    LISTEN_BYTE = 0, /* a listener holds a read lock on it */
    MARK_BYTE = 1,   /* whoever marks holds a write lock on it */
    MARK_TRIES = 100,
};

/* --- the file ------------------------------------------------------------------------------------- */

/* A user who may use the database may use this file. */
static void adopt_mode(int fd, const char *database)
{
    struct stat status;
    if (stat(database, &status) != 0)
        return;
    if (geteuid() == 0 && fchown(fd, status.st_uid, status.st_gid) != 0)
        return;
    (void)fchmod(fd, status.st_mode & 0666);
}

static int open_file(const char *path, const char *database)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    simba__descriptors_hold();
    int fd = open(path, flags);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    fd = open(path, flags | O_CREAT | O_EXCL, 0600);
    if (fd >= 0)
        adopt_mode(fd, database);
    else if (errno == EEXIST)
        fd = open(path, flags); /* another process was faster */
    return fd;
}

/* Reserve the space on the disk now: a mark that does not fit would be lost. */
static int make_whole(simba__notify *notify)
{
    struct stat status;
    if (fstat(notify->fd, &status) != 0)
        return errno;
    notify->device = status.st_dev;
    notify->inode = status.st_ino;
    if (!S_ISREG(status.st_mode))
        return EINVAL;
    const off_t size = sizeof(simba__notify_cells);
    return status.st_size < size ? posix_fallocate(notify->fd, 0, size) : 0;
}

int simba__notify_open(const char *database, simba_error *err, simba__notify **ret_notify)
{
    static const char ending[] = "-notify";
    const size_t size = strlen(database) + sizeof ending;
    simba__notify *notify = simba__calloc(1, sizeof *notify + size);
    if (!notify)
        return simba__fail(err, SIMBA_ENOMEM, "sqlite: out of memory");
    snprintf(notify->path, size, "%s%s", database, ending);
    notify->watch = -1;
    notify->fd = open_file(notify->path, database);
    const int number = notify->fd < 0 ? errno : make_whole(notify);
    if (number != 0) {
        const int code = simba__file_fail(notify->path, "cannot be used", number, err);
        simba__notify_close(notify);
        return code;
    }
    *ret_notify = notify;
    return 0;
}

void simba__notify_close(simba__notify *notify)
{
    if (!notify)
        return;
    if (notify->fd >= 0)
        close(notify->fd);
    simba__free(notify);
}

bool simba__notify_is_current(const simba__notify *notify)
{
    struct stat status;
    return stat(notify->path, &status) == 0 && status.st_dev == notify->device && status.st_ino == notify->inode &&
           status.st_size >= (off_t)sizeof(simba__notify_cells);
}

/* Beyond the end of the file everything is 0. */
static void read_cells(const simba__notify *notify, size_t offset, void *out, size_t size)
{
    memset(out, 0, size);
    (void)!pread(notify->fd, out, size, (off_t)offset);
}

static void write_cell(const simba__notify *notify, size_t offset, uint64_t value)
{
    (void)!pwrite(notify->fd, &value, sizeof value, (off_t)offset);
}

uint64_t simba__notify_read(const simba__notify *notify, size_t slot)
{
    uint64_t value;
    read_cells(notify, slot * sizeof value, &value, sizeof value);
    return value;
}

void simba__notify_read_all(const simba__notify *notify, simba__notify_cells *ret_cells)
{
    read_cells(notify, 0, ret_cells, sizeof *ret_cells);
}

uint64_t simba__notify_revocations(const simba__notify *notify)
{
    uint64_t value;
    read_cells(notify, offsetof(simba__notify_cells, revocations), &value, sizeof value);
    return value;
}

/* --- values --------------------------------------------------------------------------------------- */

uint64_t simba__notify_hash(const char *mutex)
{
    const uint64_t hash = simba__hash(mutex) * UINT64_C(0xD6E8FEB86659FD93); /* a last stir for the low bits */
    return hash ^ (hash >> 32);
}

/* 31 bits of the hash (the slot comes from others), 31 random ones, one that is never 0, one for "released". */
uint64_t simba__notify_value(uint64_t hash, bool released, uint64_t random)
{
    return hash >> 33 << 33 | (random & INT32_MAX) << 2 | 2 | released;
}

bool simba__notify_says_released(uint64_t value, uint64_t hash)
{
    return value >> 33 == hash >> 33 && (value & 1);
}

/* --- locks ---------------------------------------------------------------------------------------- */

/* Locks vanish with their process, unlike anything written into the file. They belong to the open file, not to the
 * process, so that two clients in one process see each other. */
static int lock_call(const simba__notify *notify, int command, short type, off_t byte, short *ret_type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    const int rc = fcntl(notify->fd, command, &lock);
    if (ret_type)
        *ret_type = lock.l_type;
    return rc;
}

/* --- marks ---------------------------------------------------------------------------------------- */

simba__notify_marking simba__notify_begin(simba__notify *notify)
{
    simba__notify_marking marking = {.notify = notify};
    /* Others have the lock for a microsecond or two. A process that has it for longer is not running. */
    for (int i = 0; i < MARK_TRIES && !marking.locked; i++) {
        if (i > 0)
            sched_yield();
        marking.locked = lock_call(notify, F_OFD_SETLK, F_WRLCK, MARK_BYTE, NULL) == 0;
    }
    return marking;
}

uint64_t simba__notify_mark(const simba__notify_marking *marking, size_t slot, uint64_t value)
{
    const uint64_t replaced = marking->locked ? simba__notify_read(marking->notify, slot) : SIMBA__NOTIFY_UNSURE;
    write_cell(marking->notify, slot * sizeof value, value);
    return replaced;
}

void simba__notify_end(const simba__notify_marking *marking, uint64_t random)
{
    if (marking->locked)
        (void)lock_call(marking->notify, F_OFD_SETLK, F_UNLCK, MARK_BYTE, NULL);
    else /* after the marks: whoever sees this sees them */
        write_cell(marking->notify, offsetof(simba__notify_cells, disorder), random);
}

/* --- the bells ------------------------------------------------------------------------------------ */

bool simba__notify_is_heard(const simba__notify *notify)
{
    short found;
    return lock_call(notify, F_OFD_GETLK, F_WRLCK, LISTEN_BYTE, &found) != 0 || found != F_UNLCK;
}

void simba__notify_ring(simba__notify *notify)
{
    (void)futimens(notify->fd, NULL);
}

/* The open file itself, whatever is at its path by now. */
typedef struct self_path {
    char text[32];
} self_path;

static self_path path_of(const simba__notify *notify)
{
    self_path path;
    snprintf(path.text, sizeof path.text, "/proc/self/fd/%d", notify->fd);
    return path;
}

void simba__notify_ring_revoked(simba__notify *notify, uint64_t random)
{
    write_cell(notify, offsetof(simba__notify_cells, revocations), random);
    const int fd = open(path_of(notify).text, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd); /* this is the bell */
}

static void watch(simba__notify *notify, int inotify, uint32_t events)
{
    if (inotify >= 0)
        notify->watch = inotify_add_watch(inotify, path_of(notify).text, events);
}

void simba__notify_attend(simba__notify *notify, int inotify)
{
    watch(notify, inotify, IN_CLOSE_WRITE);
}

bool simba__notify_listen(simba__notify *notify, int inotify)
{
    watch(notify, inotify, IN_CLOSE_WRITE | IN_ATTRIB);
    /* Writers whose question fails mark and ring anyway, so without such locks nothing is lost. */
    (void)lock_call(notify, F_OFD_SETLK, F_RDLCK, LISTEN_BYTE, NULL);
    return notify->watch >= 0;
}

void simba__notify_unlisten(simba__notify *notify, int inotify)
{
    (void)lock_call(notify, F_OFD_SETLK, F_UNLCK, LISTEN_BYTE, NULL);
    simba__notify_attend(notify, inotify);
}

void simba__notify_leave(simba__notify *notify, int inotify)
{
    (void)lock_call(notify, F_OFD_SETLK, F_UNLCK, LISTEN_BYTE, NULL);
    if (notify->watch >= 0)
        inotify_rm_watch(inotify, notify->watch);
    notify->watch = -1;
}

int simba__notify_inotify(void)
{
    const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

simba__notify_heard simba__notify_drain(int inotify)
{
    _Alignas(struct inotify_event) char events[4096];
    uint32_t mask = 0;
    for (ssize_t got; (got = read(inotify, events, sizeof events)) > 0;) {
        const struct inotify_event *event;
        for (const char *at = events; at < events + got; at += sizeof *event + event->len) {
            event = (const void *)at;
            mask |= event->mask;
        }
    }
    const bool lost = mask & IN_Q_OVERFLOW; /* some were dropped, of whatever kind */
    return (simba__notify_heard){
        .marks = lost || (mask & IN_ATTRIB),
        .revocations = lost || (mask & IN_CLOSE_WRITE),
    };
}
