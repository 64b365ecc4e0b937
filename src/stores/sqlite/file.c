/* The database as the file system sees it: folders, creation, and what SQLite keeps beside it. SQLite opens the file that this
 * code has prepared, and so never creates one by itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "stores/sqlite/store.h"
#include "util/error.h"

int simba__sqlite_file_fail(const char *path, const char *what, int number, simba_error *err)
{
    char text[128];
    const bool refused = number == EACCES || number == EPERM || number == EROFS;
    return simba__fail(err, refused ? SIMBA_EPERM : SIMBA_EUNAVAILABLE, "sqlite: %s: %s: %s", path, what,
                       strerror_r(number, text, sizeof text));
}

/* --- the folder ------------------------------------------------------------------------------------- */

void simba__sqlite_file_folder(const char *path, char ret_folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(ret_folder, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* Where the database really is: SQLite puts its files there, not beside a link to it. */
static int locate(const char *path, char ret_path[PATH_MAX], simba_error *err)
{
    enum { BESIDE = 32 }; /* room for the longest name of a file beside it */
    const bool exists = realpath(path, ret_path) != NULL;
    if (!exists && errno != ENOENT)
        return simba__sqlite_file_fail(path, "cannot be opened", errno, err);
    if (strlen(exists ? ret_path : path) + BESIDE > PATH_MAX)
        return simba__sqlite_file_fail(path, "cannot be opened", ENAMETOOLONG, err);
    if (!exists)
        strcpy(ret_path, path);
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
    simba__sqlite_file_folder(folder, above);
    return simba__fail(err, SIMBA_EURL, "sqlite: there is no folder %s; make it, or correct the URL", above);
}

/* Two hosts do not see each other's boot-time clocks, and SQLite's shared memory does not reach from one to the other:
 * on a file that they share, both would be granted the same mutex. */
static int check_folder(const char *folder, const char *path, simba_error *err)
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
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
        return simba__sqlite_file_fail(folder, "this folder cannot be written to", errno, err);
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

/* --- the file --------------------------------------------------------------------------------------- */

static int remove_side(const char *path, const char *ending, simba_error *err)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s%s", path, ending);
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
    char real[PATH_MAX];
    char folder[PATH_MAX];
    int rc = locate(path, real, err);
    if (rc < 0)
        return rc;
    simba__sqlite_file_folder(real, folder);
    rc = make_folder(folder, share, err);
    if (rc == 0)
        rc = check_folder(folder, real, err);
    if (rc == 0)
        rc = simba__sqlite_share_check_folder(share, folder, err);
    if (rc == 0 && access(real, F_OK) != 0 && errno == ENOENT)
        rc = create(real, folder, share, busy, err);
    return rc == 0 ? check_file(real, err) : rc;
}

/* --- what SQLite keeps beside it ---------------------------------------------------------------------- */

static const char *const endings[SIMBA__SQLITE_SIDES] = {"-wal", "-shm"};

void simba__sqlite_file_identify(const char *path, simba__sqlite_side ret_sides[SIMBA__SQLITE_SIDES])
{
    for (size_t i = 0; i < SIMBA__SQLITE_SIDES; i++) {
        char name[PATH_MAX];
        struct stat status;
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        const bool exists = stat(name, &status) == 0;
        ret_sides[i] = exists ? (simba__sqlite_side){status.st_dev, status.st_ino} : (simba__sqlite_side){0};
    }
}

int simba__sqlite_file_discard(const char *path, const simba__sqlite_side sides[SIMBA__SQLITE_SIDES],
                               simba__sqlite_busy *busy, simba_error *err)
{
    char folder[PATH_MAX];
    simba__sqlite_side now[SIMBA__SQLITE_SIDES];
    int lock = -1;
    simba__sqlite_file_folder(path, folder);
    if (access(folder, F_OK) != 0)
        return 0; /* they have gone with it */
    int rc = lock_folder(folder, busy, err, &lock);
    if (rc < 0)
        return rc;
    simba__sqlite_file_identify(path, now);
    for (size_t i = 0; i < SIMBA__SQLITE_SIDES && rc == 0; i++)
        if (now[i].inode != 0 && now[i].inode == sides[i].inode && now[i].device == sides[i].device)
            rc = remove_side(path, endings[i], err);
    close(lock);
    return rc;
}
