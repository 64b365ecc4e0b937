/* The sockets by which clients say "look" to each other. A client has a datagram socket in the folder `<database>-wake`, under a
 * random name that is never used again. Its rows in the database bear that name. Others send it a byte after they have
 * committed something that concerns these rows; what that is stands in the rows. So a datagram may be lost or be one too many,
 * and a full socket loses nothing: whoever has an unread datagram will look.
 *
 * The kernel says whether the process lives: it refuses to connect to a socket that nobody has open. Names of sockets are
 * reached through the descriptor of their folder, because a path of a socket has 108 bytes at most. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "stores/sqlite/store.h"
#include "util/descriptors.h"

/* Names come out of a file that others write: no other path than that of a socket in our folder may be made of them. */
static bool is_name(const char *name)
{
    return strlen(name) == 16 && strspn(name, "0123456789abcdef") == 16;
}

static struct sockaddr_un address_of(const simba__sqlite_wake *wake, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%.16s", wake->folder_fd, name);
    return address;
}

static int make_socket(void)
{
    simba__descriptors_hold();
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void close_all(simba__sqlite_wake *wake)
{
    const int fds[] = {wake->fd, wake->sender, wake->folder_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    wake->fd = wake->sender = wake->folder_fd = -1;
}

void simba__sqlite_wake_init(simba__sqlite_wake *wake, uint64_t random)
{
    wake->fd = wake->sender = wake->folder_fd = -1;
    snprintf(wake->name, sizeof wake->name, "-%016" PRIx64, random);
}

/* The folder and the socket get the mode of the database. bind() obeys the umask, so the mode is set afterwards; until then
 * nobody knows the name. */
static int open_all(simba__sqlite_wake *wake, const char *database, const char *name)
{
    char path[sizeof wake->folder + SIMBA__SQLITE_NAME_SIZE];
    struct stat status;
    snprintf(wake->folder, sizeof wake->folder, "%s-wake", database);
    if (mkdir(wake->folder, 0700) == 0)
        simba__sqlite_share_follow(wake->folder, database);
    else if (errno != EEXIST)
        return errno;
    simba__descriptors_hold();
    wake->folder_fd = open(wake->folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (wake->folder_fd < 0)
        return errno;
    wake->fd = make_socket();
    wake->sender = make_socket();
    const struct sockaddr_un address = address_of(wake, name);
    if (wake->fd < 0 || wake->sender < 0 || bind(wake->fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return errno;
    snprintf(path, sizeof path, "%s/%s", wake->folder, name);
    simba__sqlite_share_follow(path, database);
    if (fstatat(wake->folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    wake->device = status.st_dev;
    wake->inode = status.st_ino;
    return 0;
}

int simba__sqlite_wake_open(simba__sqlite_wake *wake, const char *database, uint64_t random)
{
    char name[SIMBA__SQLITE_NAME_SIZE];
    snprintf(name, sizeof name, "%016" PRIx64, random);
    const int number = open_all(wake, database, name);
    if (number == 0)
        memcpy(wake->name, name, sizeof name);
    else
        close_all(wake);
    return number;
}

void simba__sqlite_wake_close(simba__sqlite_wake *wake, uint64_t random, bool keep)
{
    if (wake->fd < 0)
        return;
    if (!keep)
        unlinkat(wake->folder_fd, wake->name, 0);
    close_all(wake);
    simba__sqlite_wake_init(wake, random);
}

bool simba__sqlite_wake_is_current(const simba__sqlite_wake *wake)
{
    char path[sizeof wake->folder + SIMBA__SQLITE_NAME_SIZE];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", wake->folder, wake->name);
    return lstat(path, &status) == 0 && status.st_dev == wake->device && status.st_ino == wake->inode;
}

simba__sqlite_life simba__sqlite_wake_probe(const simba__sqlite_wake *wake, const char *name)
{
    if (wake->fd < 0 || !is_name(name))
        return SIMBA__SQLITE_MUTE;
    if (strcmp(name, wake->name) == 0)
        return SIMBA__SQLITE_ALIVE;
    const struct sockaddr_un address = address_of(wake, name);
    if (connect(wake->sender, (const struct sockaddr *)&address, sizeof address) == 0)
        return SIMBA__SQLITE_ALIVE;
    /* If somebody has removed the folder, nobody is in ours any more, and all the others are in another. */
    const bool gone = errno == ECONNREFUSED || errno == ENOENT;
    return gone && simba__sqlite_wake_is_current(wake) ? SIMBA__SQLITE_DEAD : SIMBA__SQLITE_MUTE;
}

void simba__sqlite_wake_notify(const simba__sqlite_wake *wake, const char *name)
{
    if (wake->fd < 0 || !is_name(name))
        return;
    const struct sockaddr_un address = address_of(wake, name);
    (void)sendto(wake->sender, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&address, sizeof address);
}

void simba__sqlite_wake_remove(const simba__sqlite_wake *wake, const char *name)
{
    if (wake->fd >= 0 && is_name(name))
        unlinkat(wake->folder_fd, name, 0);
}

void simba__sqlite_wake_drain(const simba__sqlite_wake *wake)
{
    char byte;
    while (wake->fd >= 0 && recv(wake->fd, &byte, sizeof byte, MSG_DONTWAIT) >= 0)
        continue;
}

size_t simba__sqlite_wake_sweep(const simba__sqlite_wake *wake, char (*ret_dead)[SIMBA__SQLITE_NAME_SIZE])
{
    const int fd = wake->fd < 0 ? -1 : openat(wake->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    size_t looked = 0;
    size_t dead = 0;
    if (!entries && fd >= 0)
        close(fd);
    for (struct dirent *entry; entries && looked < SIMBA__SQLITE_SWEPT && (entry = readdir(entries));) {
        if (!is_name(entry->d_name))
            continue;
        looked++;
        if (simba__sqlite_wake_probe(wake, entry->d_name) == SIMBA__SQLITE_DEAD)
            strcpy(ret_dead[dead++], entry->d_name);
    }
    if (entries)
        closedir(entries);
    return dead;
}
