/* Which users share a database. One answer holds for all of it: the database, the files that SQLite keeps beside it, the folder
 * of the sockets, and what is in that. The settings mode= and group= of the URL give that answer; without them it is the mode and
 * the group that the database has.
 *
 * SQLite gives the log and the wal-index the mode of the database, whatever the umask is. It does not care for their
 * group, which is that of the process that happens to make them, or that of the folder if the folder has the setgid bit.
 * So a database that a group shares needs that bit, and simba refuses a folder without it: the first process would be
 * served, and the next user not.
 *
 * Nothing is opened but by O_PATH: to close any other descriptor would drop the locks that SQLite has on the file. And
 * no link is followed: a member of the group could put one there, and root would then open up some other file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stores/sqlite/store.h"
#include "util/descriptors.h"
#include "util/error.h"

/* What can be beside a database. "" is the database. */
static const char *const endings[] = {"", "-journal", "-wal", "-shm", "-wake"};

typedef struct rights {
    mode_t mode; /* of a file */
    uid_t owner; /* -1: it stays, as the group does */
    gid_t group;
    bool is_lenient; /* if the owner and group cannot be given, no other group gets the rights */
    bool only_look;
} rights;

#define STAYS (-1)

/* A folder can be entered by those who can read it. In one that a group shares, new files get its group. */
static mode_t mode_of_folder(mode_t mode)
{
    return mode | (mode & 0444) >> 2 | ((mode & 0066) == 0060 ? S_ISGID : 0);
}

/* --- one file, or a folder and what is in it ---------------------------------------------------------- */

/* Returns 0 or an errno; EPERM for what `only_look` has found. */
static int set(int fd, const struct stat *status, const rights *r)
{
    char path[64];
    mode_t mode = r->mode;
    const bool chowns = (r->group != (gid_t)STAYS && status->st_gid != r->group) ||
                        (r->owner != (uid_t)STAYS && status->st_uid != r->owner);
    /* First the group: with the mode first, a group that is not meant could use the file for a moment. */
    if (chowns && !r->only_look && fchownat(fd, "", r->owner, r->group, AT_EMPTY_PATH) != 0) {
        if (!r->is_lenient)
            return errno;
        mode &= ~(mode_t)0060;
    }
    if (S_ISDIR(status->st_mode))
        mode = mode_of_folder(mode);
    const bool differs = chowns || (status->st_mode & 07777) != mode;
    if (r->only_look)
        return differs ? EPERM : 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd); /* fchmod() wants no descriptor of O_PATH */
    return differs && chmod(path, mode) != 0 ? errno : 0;
}

static int give_contents(int folder, const rights *r);

/* Returns 0, also if there is no such file, or an errno. */
static int give(int folder, const char *name, const rights *r)
{
    struct stat status;
    simba__descriptors_hold();
    const int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : errno;
    int number = 0;
    if (fstat(fd, &status) != 0)
        number = errno;
    else if (S_ISREG(status.st_mode) && status.st_nlink > 1)
        number = EMLINK; /* it may be somebody else's file, too */
    else if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))
        number = set(fd, &status, r);
    else
        number = EINVAL;
    if (number == 0 && S_ISDIR(status.st_mode))
        number = give_contents(fd, r);
    close(fd);
    return number;
}

/* The folder has no folders in it. */
static int give_contents(int folder, const rights *r)
{
    const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    int number = entries ? 0 : errno;
    if (!entries && fd >= 0)
        close(fd);
    for (struct dirent *entry; entries && number == 0 && (entry = readdir(entries));)
        if (entry->d_type != DT_DIR)
            number = give(fd, entry->d_name, r);
    if (entries)
        closedir(entries);
    return number;
}

/* --- what the URL says -------------------------------------------------------------------------------- */

typedef struct group_name {
    char text[64];
} group_name;

static group_name name_of_group(gid_t group)
{
    group_name name;
    char names[16384];
    struct group entry;
    struct group *found = NULL;
    if (getgrgid_r(group, &entry, names, sizeof names, &found) == 0 && found)
        snprintf(name.text, sizeof name.text, "%s", found->gr_name);
    else
        snprintf(name.text, sizeof name.text, "%u", (unsigned)group);
    return name;
}

int simba__sqlite_share_check_folder(const simba__sqlite_share *share, const char *folder, simba_error *err)
{
    struct stat status;
    if (!share->given || share->mode == 0600)
        return 0;
    if (stat(folder, &status) != 0)
        return simba__sqlite_file_fail(folder, "this folder cannot be looked at", errno, err);
    if (status.st_mode & S_ISVTX)
        return simba__fail(err, SIMBA_EPERM,
                           "sqlite: %s: in a folder with the sticky bit users cannot share files; give the database a "
                           "folder of its own",
                           folder);
    const mode_t needed = mode_of_folder(share->mode);
    const bool is_groups = !share->has_group || status.st_gid == share->group;
    if (is_groups && (status.st_mode & needed) == needed)
        return 0;
    if (share->mode == 0666)
        return simba__fail(err, SIMBA_EPERM,
                           "sqlite: %s: with mode=0666 all users need this folder; run chmod a+rwx on it", folder);
    return simba__fail(err, SIMBA_EPERM,
                       "sqlite: %s: with mode=0660 a group needs this folder; run chgrp %s and chmod g+rwxs on it",
                       folder, name_of_group(share->has_group ? share->group : status.st_gid).text);
}

int simba__sqlite_share_apply(const simba__sqlite_share *share, const char *path, bool only_look, simba_error *err)
{
    char folder[PATH_MAX];
    struct stat status;
    if (!share->given)
        return 0;
    simba__sqlite_file_folder(path, folder);
    if (stat(folder, &status) != 0)
        return simba__sqlite_file_fail(folder, "this folder cannot be looked at", errno, err);
    const gid_t group = share->has_group ? share->group : status.st_gid;
    const bool is_groups = share->mode == 0660;
    const rights r = {
        .mode = share->mode, .owner = STAYS, .group = is_groups ? group : (gid_t)STAYS, .only_look = only_look};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char name[PATH_MAX];
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        const int number = give(AT_FDCWD, name, &r);
        if (number == EPERM && only_look)
            return simba__fail(err, SIMBA_EPERM, "%s has another mode or group than the URL says (%04o%s%s)", name,
                               (unsigned)share->mode, is_groups ? ", " : "",
                               is_groups ? name_of_group(group).text : "");
        if (number != 0)
            return simba__sqlite_file_fail(name, "its mode and group cannot be set", number, err);
    }
    return 0;
}

/* --- what is made ------------------------------------------------------------------------------------- */

static rights of_new(const simba__sqlite_share *share)
{
    return (rights){.mode = share->mode, .owner = STAYS, .group = share->has_group ? share->group : (gid_t)STAYS};
}

int simba__sqlite_share_new_folder(const simba__sqlite_share *share, const char *folder, simba_error *err)
{
    const rights r = of_new(share);
    const int number = give(AT_FDCWD, folder, &r);
    if (number == 0)
        return 0;
    rmdir(folder);
    return simba__sqlite_file_fail(folder, "this folder cannot be made with that mode and group", number, err);
}

int simba__sqlite_share_new_file(const simba__sqlite_share *share, const char *path, simba_error *err)
{
    const rights r = of_new(share);
    char made[PATH_MAX];
    snprintf(made, sizeof made, "%s-new", path);
    int number = unlink(made) == 0 || errno == ENOENT ? 0 : errno; /* of a process that was killed here */
    if (number == 0 && mknod(made, S_IFREG | 0600, 0) != 0)
        number = errno;
    if (number == 0)
        number = give(AT_FDCWD, made, &r);
    if (number == 0 && rename(made, path) != 0)
        number = errno;
    if (number == 0)
        return 0;
    unlink(made);
    return simba__sqlite_file_fail(path, "cannot be created with that mode and group", number, err);
}

void simba__sqlite_share_follow(const char *made, const char *database)
{
    struct stat status;
    if (stat(database, &status) != 0)
        return;
    const rights r = {.mode = status.st_mode & 0666,
                      .owner = geteuid() == 0 ? status.st_uid : (uid_t)STAYS,
                      .group = status.st_gid,
                      .is_lenient = true};
    (void)give(AT_FDCWD, made, &r);
}
