/* The database as the file system sees it: folders, creation, permissions, and what SQLite keeps beside it. SQLite
 * opens the file that this code has prepared, and so never creates one by itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "stores/sqlite/store.h"
#include "util/descriptors.h"
#include "util/error.h"

int simba__sqlite_file_fail(const char *path, const char *what, int number, simba_error *err)
{
    char text[128];
    const bool refused = number == EACCES || number == EPERM || number == EROFS;
    return simba__fail(err, refused ? SIMBA_EPERM : SIMBA_EUNAVAILABLE, "sqlite: %s: %s: %s", path, what,
                       strerror_r(number, text, sizeof text));
}

/* --- the folder ------------------------------------------------------------------------------------- */

/* The folder of `path`, which is absolute, so there is a slash. */
static int folder_of(const char *path, char out[PATH_MAX], simba_error *err)
{
    const size_t length = (size_t)(strrchr(path, '/') - path);
    if (length >= PATH_MAX)
        return simba__sqlite_file_fail(path, "cannot be opened", ENAMETOOLONG, err);
    memcpy(out, path, length);
    out[length] = '\0';
    if (length == 0)
        strcpy(out, "/");
    return 0;
}

/* Make at most the last folder: a path that is mistyped in the middle must not become a store that nobody else uses. */
static int make_folder(const char *folder, const simba__sqlite_share *share, simba_error *err)
{
    struct stat status;
    if (stat(folder, &status) == 0)
        return S_ISDIR(status.st_mode) ? 0 : simba__sqlite_file_fail(folder, "cannot be used", ENOTDIR, err);
    if (mkdir(folder, 0700) == 0)
        return share->given ? simba__sqlite_share_new_folder(share, folder, err) : 0;
    if (errno == EEXIST)
        return 0;
    if (errno != ENOENT)
        return simba__sqlite_file_fail(folder, "this folder cannot be made", errno, err);
    char above[PATH_MAX];
    const int rc = folder_of(folder, above, err);
    return rc < 0 ? rc
                  : simba__fail(err, SIMBA_EURL, "sqlite: there is no folder %s; make it, or correct the URL", above);
}

/* Two hosts do not see each other's boot-time clocks, and SQLite's shared memory does not reach from one to the other:
 * on a file that they share, both would be granted the same mutex. */
static int check_local(const char *path, const char *folder, simba_error *err)
{
    static const unsigned network[] = {
        0x6969,     /* NFS */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB2 */
        0x517b,     /* SMB */
        0x00c36400, /* Ceph */
        0x0bd00bd0, /* Lustre */
        0x5346414f, /* AFS */
    };
    struct statfs status;
    if (statfs(folder, &status) != 0)
        return simba__sqlite_file_fail(path, "cannot be looked at", errno, err);
    for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        if ((unsigned)status.f_type == network[i])
            return simba__fail(err, SIMBA_ENOTSUP,
                               "sqlite: %s is on a network file system, and this store works within one host", path);
    return 0;
}

static int lock_folder(const char *folder, simba__sqlite_busy *busy, simba_error *err, int *ret_fd)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return simba__sqlite_file_fail(folder, "this folder cannot be opened", errno, err);
    int rc = 0;
    for (int attempt = 0; rc == 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; attempt++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            rc = simba__sqlite_file_fail(folder, "this folder cannot be locked", errno, err);
        else if (!simba__sqlite_busy_wait(busy, attempt))
            rc = simba__fail(err, SIMBA_ETIMEDOUT, "sqlite: %s: this folder is locked by another process", folder);
    }
    if (rc == 0)
        *ret_fd = fd;
    else
        close(fd);
    return rc;
}

/* --- creating it ------------------------------------------------------------------------------------ */

static int remove_side(const char *path, const char *ending, simba_error *err)
{
    char name[PATH_MAX];
    if ((size_t)snprintf(name, sizeof name, "%s%s", path, ending) >= sizeof name)
        return simba__sqlite_file_fail(path, "cannot be opened", ENAMETOOLONG, err);
    if (unlink(name) != 0 && errno != ENOENT)
        return simba__sqlite_file_fail(name, "this left-over cannot be removed", errno, err);
    return 0;
}

static int create(const char *path, const char *folder, const simba__sqlite_share *share, simba__sqlite_busy *busy,
                  simba_error *err)
{
    int lock = -1;
    int rc = lock_folder(folder, busy, err, &lock);
    if (rc < 0)
        return rc;
    struct stat status;
    if (lstat(path, &status) != 0 && errno == ENOENT) {
        /* A deleted database may still be open elsewhere, and with it the wal-index of that name. A process that shared that
         * wal-index would read pages that are not there. So remove it before there is a new database, under the lock that
         * every creator takes: then nobody can have opened it for the new one. (SQLite itself removes a log that was left
         * behind when it finds the database empty.) */
        rc = remove_side(path, "-shm", err);
        /* Do not use open(): closing the file again would drop the locks that SQLite may have taken on it meanwhile for
         * another client of this process. */
        if (rc == 0 && share->given)
            rc = simba__sqlite_share_new_file(share, path, err);
        else if (rc == 0 && mknod(path, S_IFREG | 0660, 0) != 0 && errno != EEXIST)
            rc = simba__sqlite_file_fail(path, "cannot be created", errno, err);
    }
    close(lock);
    return rc;
}

static int check_file(const char *path, simba_error *err)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return simba__sqlite_file_fail(path, "cannot be opened", errno, err);
    if (S_ISDIR(status.st_mode))
        return simba__fail(err, SIMBA_EURL, "sqlite: %s is a folder; name a file in it", path);
    if (!S_ISREG(status.st_mode))
        return simba__fail(err, SIMBA_EURL, "sqlite: %s is not a regular file", path);
    if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) != 0)
        return simba__sqlite_file_fail(path, "cannot be read and written", errno, err);
    return 0;
}

int simba__sqlite_file_prepare(const char *path, const simba__sqlite_share *share, simba__sqlite_busy *busy,
                               simba_error *err)
{
    char folder[PATH_MAX];
    int rc = folder_of(path, folder, err);
    if (rc == 0)
        rc = make_folder(folder, share, err);
    if (rc == 0)
        rc = check_local(path, folder, err);
    if (rc == 0 && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
        rc = simba__sqlite_file_fail(folder, "this folder cannot be written to", errno, err);
    if (rc == 0)
        rc = simba__sqlite_share_check_folder(share, path, err);
    if (rc == 0 && access(path, F_OK) != 0 && errno == ENOENT)
        rc = create(path, folder, share, busy, err);
    return rc == 0 ? check_file(path, err) : rc;
}

/* --- what is beside it ------------------------------------------------------------------------------ */

void simba__sqlite_file_adopt_mode(const char *made, const char *database)
{
    struct stat status;
    struct stat own;
    char link[64];
    if (stat(database, &status) != 0)
        return;
    simba__descriptors_hold();
    const int fd = open(made, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    const uid_t user = geteuid() == 0 ? status.st_uid : (uid_t)-1;
    mode_t mode = status.st_mode & 0666;
    const bool given = fchownat(fd, "", user, status.st_gid, AT_EMPTY_PATH) == 0;
    if (!given)
        mode &= ~(mode_t)0060; /* the group that it has is not the one that may use the database */
    if (fstat(fd, &own) == 0 && S_ISDIR(own.st_mode))
        mode |= (mode & 0444) >> 2 | ((mode & 0066) == 0060 ? S_ISGID : 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd); /* fchmod() wants no descriptor of O_PATH */
    if (given || user == (uid_t)-1)
        (void)chmod(link, mode);
    close(fd);
}

void simba__sqlite_file_identify(const char *path, const char *ending, simba__sqlite_side *ret_side)
{
    char name[PATH_MAX];
    struct stat status;
    *ret_side = (simba__sqlite_side){.ending = ending};
    if ((size_t)snprintf(name, sizeof name, "%s%s", path, ending) >= sizeof name || stat(name, &status) != 0)
        return;
    ret_side->device = status.st_dev;
    ret_side->inode = status.st_ino;
}

int simba__sqlite_file_discard(const char *path, const simba__sqlite_side *sides, size_t count,
                               simba__sqlite_busy *busy, simba_error *err)
{
    char folder[PATH_MAX];
    int lock = -1;
    int rc = folder_of(path, folder, err);
    if (rc < 0 || access(folder, F_OK) != 0)
        return rc; /* it has gone with its folder */
    rc = lock_folder(folder, busy, err, &lock);
    for (size_t i = 0; i < count && rc == 0; i++) {
        simba__sqlite_side now;
        simba__sqlite_file_identify(path, sides[i].ending, &now);
        if (now.inode != 0 && now.inode == sides[i].inode && now.device == sides[i].device)
            rc = remove_side(path, sides[i].ending, err);
    }
    if (lock >= 0)
        close(lock);
    return rc;
}
