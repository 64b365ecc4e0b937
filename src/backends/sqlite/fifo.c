/* See fifo.h. */
#include "backends/sqlite/fifo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/sqlite/file.h"
#include "util/assert.h"
#include "util/descriptors.h"

enum { DRAINED_AT_ONCE = 1 << 16 }; /* as much as a FIFO holds, so that a flood does not keep us */

typedef struct fifo_name {
    char text[16];
} fifo_name;

static fifo_name name_of(unsigned number)
{
    fifo_name name;
    snprintf(name.text, sizeof name.text, "%u", number);
    return name;
}

int simba__sqlite_fifo_folder(const char *folder)
{
    const int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

/* Returns the descriptor, or a negative errno. */
static int open_fifo(int folder, unsigned number)
{
    struct stat status;
    const int fd = openat(folder, name_of(number).text, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode))
        return fd;
    close(fd);
    return -EINVAL;
}

/* Returns a descriptor as simba__sqlite_fifo_folder does. */
static int make_folder(const char *folder, const char *database)
{
    if (mkdir(folder, 0700) != 0)
        return errno == EEXIST ? simba__sqlite_fifo_folder(folder) : -errno;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    simba__sqlite_file_adopt_mode(fd, database, true);
    return fd;
}

static bool is_at(int folder, unsigned number, dev_t device, ino_t inode)
{
    struct stat status;
    return fstatat(folder, name_of(number).text, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_dev == device &&
           status.st_ino == inode;
}

/* Returns 0, -EAGAIN if somebody has the fifo, or another negative errno. */
static int claim(simba__sqlite_fifo *fifo, int folder, unsigned number, const char *database)
{
    struct stat status;
    const bool made = mkfifoat(folder, name_of(number).text, 0600) == 0;
    if (!made && errno != EEXIST)
        return -errno;
    const int fd = open_fifo(folder, number);
    if (fd == -ENOENT || fd == -EACCES)
        return -EAGAIN; /* its owner has just taken it down, or has just made it and not let us in yet */
    if (fd < 0)
        return fd;
    if (made)
        simba__sqlite_file_adopt_mode(fd, database, false);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &status) != 0 ||
        !is_at(folder, number, status.st_dev, status.st_ino)) {
        close(fd);
        return -EAGAIN;
    }
    fifo->fd = fd;
    fifo->number = (int)number;
    fifo->device = status.st_dev;
    fifo->inode = status.st_ino;
    return 0;
}

int simba__sqlite_fifo_make(simba__sqlite_fifo *fifo, const char *folder, const char *database, uint64_t random)
{
    SIMBA__ASSERT(fifo->fd < 0);
    simba__descriptors_hold();
    const int fd = make_folder(folder, database);
    if (fd < 0)
        return fd;
    int rc = -EAGAIN;
    for (unsigned i = 0; i < SIMBA__SQLITE_FIFOS && rc == -EAGAIN; i++)
        rc = claim(fifo, fd, (unsigned)((random + i) % SIMBA__SQLITE_FIFOS), database);
    close(fd);
    if (rc == 0)
        (void)simba__sqlite_fifo_drain(fifo); /* drop what was meant for the owner before us */
    return rc == -EAGAIN ? -EUSERS : rc;
}

bool simba__sqlite_fifo_is_current(const simba__sqlite_fifo *fifo, const char *folder)
{
    const int fd = fifo->fd >= 0 ? simba__sqlite_fifo_folder(folder) : -EBADF;
    if (fd < 0)
        return false;
    const bool current = is_at(fd, (unsigned)fifo->number, fifo->device, fifo->inode);
    close(fd);
    return current;
}

/* Release the lock last: until then nobody else can take the number. */
void simba__sqlite_fifo_remove(simba__sqlite_fifo *fifo, const char *folder)
{
    if (fifo->fd < 0)
        return;
    const int fd = simba__sqlite_fifo_folder(folder);
    if (fd >= 0) {
        if (is_at(fd, (unsigned)fifo->number, fifo->device, fifo->inode))
            (void)unlinkat(fd, name_of((unsigned)fifo->number).text, 0);
        close(fd);
    }
    close(fifo->fd);
    fifo->fd = -1;
    fifo->number = -1;
}

unsigned simba__sqlite_fifo_drain(const simba__sqlite_fifo *fifo)
{
    unsigned char bytes[4096];
    unsigned rings = 0;
    size_t drained = 0;
    for (ssize_t got; drained < DRAINED_AT_ONCE && (got = read(fifo->fd, bytes, sizeof bytes)) > 0;) {
        for (ssize_t i = 0; i < got; i++)
            rings |= bytes[i];
        drained += (size_t)got;
    }
    return rings;
}

bool simba__sqlite_fifo_signal(int folder, unsigned number, simba__sqlite_signal ring,
                               simba__sqlite_fifo_abandoned abandoned, void *user)
{
    const unsigned char byte = (unsigned char)ring;
    const int fd = open_fifo(folder, number);
    if (fd < 0)
        return false;
    const bool somebodys = flock(fd, LOCK_SH | LOCK_NB) != 0;
    if (somebodys)
        (void)!write(fd, &byte, 1); /* if it is full, it has been signalled often enough */
    else
        abandoned(user, number);
    close(fd);
    return somebodys;
}
