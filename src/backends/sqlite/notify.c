/* See notify.h. */
#include "backends/sqlite/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/sqlite/file.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"

enum {
    SLOTS_BYTES = SIMBA__NOTIFY_SLOTS * sizeof(uint64_t),
    BELL_AT = SLOTS_BYTES, /* where to write for others to hear it; behind the slots, so that it disturbs none */
    FILE_BYTES = SLOTS_BYTES + 1,
};

/* --- the file ------------------------------------------------------------------------------------- */

/* Whoever may use the database may use this file. */
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

/* Space on the disk has to be there before the memory is touched: a full disk would be a signal, not an error. */
static int map(simba__notify *notify)
{
    struct stat status;
    if (fstat(notify->fd, &status) != 0)
        return errno;
    notify->device = status.st_dev;
    notify->inode = status.st_ino;
    if (!S_ISREG(status.st_mode))
        return EINVAL;
    const int number = status.st_size < FILE_BYTES ? posix_fallocate(notify->fd, 0, FILE_BYTES) : 0;
    if (number != 0)
        return number;
    void *slots = mmap(NULL, SLOTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, notify->fd, 0);
    if (slots == MAP_FAILED)
        return errno;
    notify->slots = slots;
    return 0;
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
    const int number = notify->fd < 0 ? errno : map(notify);
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
    if (notify->slots)
        munmap(notify->slots, SLOTS_BYTES);
    if (notify->fd >= 0)
        close(notify->fd);
    simba__free(notify);
}

bool simba__notify_is_current(const simba__notify *notify)
{
    struct stat status;
    return stat(notify->path, &status) == 0 && status.st_dev == notify->device && status.st_ino == notify->inode;
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

/* --- the bell ------------------------------------------------------------------------------------- */

/* Listeners hold a read lock on the first byte. Unlike a counter in the file it goes away with its process. The lock is
 * of the open file, not of the process, so that two clients in one process see each other. */
static int lock_call(const simba__notify *notify, int command, short type, short *ret_type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    const int rc = fcntl(notify->fd, command, &lock);
    if (ret_type)
        *ret_type = lock.l_type;
    return rc;
}

void simba__notify_ring(simba__notify *notify)
{
    /* The exchange in the slot came before this question, and a listener takes its lock before it looks at the slots:
     * either we see the lock, or it sees the value. */
    short found;
    if (lock_call(notify, F_OFD_GETLK, F_WRLCK, &found) == 0 && found == F_UNLCK)
        return;
    static const char byte;
    (void)!pwrite(notify->fd, &byte, 1, BELL_AT);
}

bool simba__notify_listen(simba__notify *notify, int inotify)
{
    /* This very file, whatever is at its path by now. */
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", notify->fd);
    if (inotify >= 0)
        notify->watch = inotify_add_watch(inotify, self, IN_MODIFY);
    /* Writers whose question fails ring anyhow, so where there are no such locks nothing is lost. */
    (void)lock_call(notify, F_OFD_SETLK, F_RDLCK, NULL);
    return notify->watch >= 0;
}

void simba__notify_unlisten(simba__notify *notify, int inotify)
{
    (void)lock_call(notify, F_OFD_SETLK, F_UNLCK, NULL);
    if (notify->watch >= 0)
        inotify_rm_watch(inotify, notify->watch);
    notify->watch = -1;
}

int simba__notify_inotify(void)
{
    const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void simba__notify_drain(int inotify)
{
    char events[4096];
    while (read(inotify, events, sizeof events) > 0)
        ;
}
