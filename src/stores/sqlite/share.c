/* Which users share a database, as the settings mode= and group= of the URL say. One answer holds for all of it: the database,
 * the files that SQLite keeps beside it, the folder of the sockets, and what is in that.
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
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stores/sqlite/store.h"
#include "util/descriptors.h"
#include "util/error.h"

/* What can be beside a database. "" is the database. */
static const char *const endings[] = {"", "-journal", "-wal", "-shm", "-wake"};

/* --- the settings --------------------------------------------------------------------------------- */

static bool read_mode(const char *text, mode_t *ret_mode)
{
    char *end = NULL;
    const unsigned long mode = strtoul(text, &end, 8);
    *ret_mode = (mode_t)mode;
    return text[0] >= '0' && text[0] <= '7' && *end == '\0' && (mode == 0600 || mode == 0660 || mode == 0666);
}

static bool read_group(const char *text, gid_t *ret_group)
{
    char *end = NULL;
    const unsigned long number = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0') {
        *ret_group = (gid_t)number;
        return number < (gid_t)-1;
    }
    char names[16384];
    struct group entry;
    struct group *found = NULL;
    if (getgrnam_r(text, &entry, names, sizeof names, &found) != 0 || !found)
        return false;
    *ret_group = found->gr_gid;
    return true;
}

int simba__sqlite_share_read(const simba_url *url, simba__sqlite_share *ret_share, simba_error *err)
{
    const char *mode = simba_url_query(url, "mode");
    const char *group = simba_url_query(url, "group");
    simba__sqlite_share share = {.given = mode || group, .has_group = group, .mode = 0660};
    if (mode && !read_mode(mode, &share.mode))
        return simba__fail(err, SIMBA_EURL,
                           "sqlite: mode is \"%.40s\"; it can be 0600, 0660 or 0666, because whoever uses the database "
                           "reads and writes it",
                           mode);
    if (group && !read_group(group, &share.group))
        return simba__fail(err, SIMBA_EURL, "sqlite: there is no group \"%.40s\" on this host", group);
    if (group && share.mode != 0660)
        return simba__fail(err, SIMBA_EURL, "sqlite: group goes with mode=0660, not with mode=%.40s", mode);
    *ret_share = share;
    return 0;
}

/* --- the folder ----------------------------------------------------------------------------------- */

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

/* A folder can be entered by those who can read it. In one that a group shares, new files get its group. */
static mode_t mode_of_folder(const simba__sqlite_share *share)
{
    return share->mode | (share->mode & 0444) >> 2 | (share->mode == 0660 ? S_ISGID : 0);
}

/* Where the database really is: SQLite puts its files there, not beside a link to it. */
static int folder_of(const char *path, char ret_real[PATH_MAX], char ret_folder[PATH_MAX], simba_error *err)
{
    if (!realpath(path, ret_real)) {
        if (errno != ENOENT || strlen(path) >= PATH_MAX)
            return simba__sqlite_file_fail(path, "cannot be looked at", errno, err);
        strcpy(ret_real, path);
    }
    strcpy(ret_folder, ret_real);
    char *slash = strrchr(ret_folder, '/');
    slash[slash == ret_folder] = '\0';
    return 0;
}

int simba__sqlite_share_check_folder(const simba__sqlite_share *share, const char *path, simba_error *err)
{
    char real[PATH_MAX];
    char folder[PATH_MAX];
    struct stat status;
    if (!share->given || share->mode == 0600)
        return 0;
    const int rc = folder_of(path, real, folder, err);
    if (rc < 0)
        return rc;
    if (stat(folder, &status) != 0)
        return simba__sqlite_file_fail(folder, "this folder cannot be looked at", errno, err);
    if (status.st_mode & S_ISVTX)
        return simba__fail(err, SIMBA_EPERM,
                           "sqlite: %s: in a folder with the sticky bit users cannot share files; give the database a "
                           "folder of its own",
                           folder);
    const mode_t needed = mode_of_folder(share);
    const bool is_groups = !share->has_group || status.st_gid == share->group;
    if (is_groups && (status.st_mode & needed) == needed)
        return 0;
    const group_name name = name_of_group(share->has_group ? share->group : status.st_gid);
    if (share->mode == 0666)
        return simba__fail(err, SIMBA_EPERM,
                           "sqlite: %s: with mode=0666 all users need this folder; run chmod a+rwx on it", folder);
    return simba__fail(err, SIMBA_EPERM,
                       "sqlite: %s: with mode=0660 a group needs this folder; run chgrp %s and chmod g+rwxs on it",
                       folder, name.text);
}

/* --- files ---------------------------------------------------------------------------------------- */

typedef struct wanted {
    mode_t mode; /* of a file */
    mode_t folder_mode;
    bool has_group;
    gid_t group;
    bool only_look;
} wanted;

/* Returns 0 or an errno. */
static int set(int fd, const struct stat *status, mode_t mode, const wanted *w)
{
    char path[64];
    const bool regroups = w->has_group && status->st_gid != w->group;
    if (w->only_look)
        return regroups || (status->st_mode & 07777) != mode ? EPERM : 0;
    /* First the group: with the mode first, a group that is not meant could use the file for a moment. */
    if (regroups && fchownat(fd, "", (uid_t)-1, w->group, AT_EMPTY_PATH) != 0)
        return errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd); /* fchmod() wants no descriptor of O_PATH */
    if ((regroups || (status->st_mode & 07777) != mode) && chmod(path, mode) != 0)
        return errno;
    return 0;
}

static int treat_contents(int folder, const wanted *w);

/* Returns 0, also if there is no such file, or an errno. */
static int treat(int folder, const char *name, const wanted *w)
{
    struct stat status;
    simba__descriptors_hold();
    const int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : errno;
    int number = 0;
    if (fstat(fd, &status) != 0)
        number = errno;
    else if (S_ISDIR(status.st_mode))
        number = set(fd, &status, w->folder_mode, w);
    else if (S_ISREG(status.st_mode) && status.st_nlink > 1)
        number = EMLINK; /* it may be somebody else's file, too */
    else if (S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))
        number = set(fd, &status, w->mode, w);
    else
        number = EINVAL;
    if (number == 0 && S_ISDIR(status.st_mode))
        number = treat_contents(fd, w);
    close(fd);
    return number;
}

/* The folder has no folders in it. */
static int treat_contents(int folder, const wanted *w)
{
    const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    int number = entries ? 0 : errno;
    if (!entries && fd >= 0)
        close(fd);
    for (struct dirent *entry; entries && number == 0 && (entry = readdir(entries));)
        if (entry->d_type != DT_DIR)
            number = treat(fd, entry->d_name, w);
    if (entries)
        closedir(entries);
    return number;
}

static int treat_all(const simba__sqlite_share *share, const char *path, bool only_look, simba_error *err)
{
    char real[PATH_MAX];
    char folder[PATH_MAX];
    char name[PATH_MAX];
    struct stat status;
    if (!share->given)
        return 0;
    const int rc = folder_of(path, real, folder, err);
    if (rc < 0)
        return rc;
    if (stat(folder, &status) != 0)
        return simba__sqlite_file_fail(folder, "this folder cannot be looked at", errno, err);
    const wanted w = {.mode = share->mode,
                      .folder_mode = mode_of_folder(share),
                      .has_group = share->mode == 0660,
                      .group = share->has_group ? share->group : status.st_gid,
                      .only_look = only_look};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if ((size_t)snprintf(name, sizeof name, "%s%s", real, endings[i]) >= sizeof name)
            return simba__sqlite_file_fail(real, "cannot be looked at", ENAMETOOLONG, err);
        const int number = treat(AT_FDCWD, name, &w);
        if (number == EPERM && only_look)
            return simba__fail(err, SIMBA_EPERM, "%s has another mode or group than the URL says (%04o%s%s)", name,
                               (unsigned)share->mode, w.has_group ? ", " : "",
                               w.has_group ? name_of_group(w.group).text : "");
        if (number != 0)
            return simba__sqlite_file_fail(name, "its mode and group cannot be set", number, err);
    }
    return 0;
}

int simba__sqlite_share_apply(const simba__sqlite_share *share, const char *path, simba_error *err)
{
    return treat_all(share, path, false, err);
}

int simba__sqlite_share_verify(const simba__sqlite_share *share, const char *path, simba_error *err)
{
    return treat_all(share, path, true, err);
}

/* --- what is made --------------------------------------------------------------------------------- */

int simba__sqlite_share_new_folder(const simba__sqlite_share *share, const char *folder, simba_error *err)
{
    const wanted w = {.folder_mode = mode_of_folder(share), .has_group = share->has_group, .group = share->group};
    const int number = treat(AT_FDCWD, folder, &w);
    if (number == 0)
        return 0;
    rmdir(folder);
    return simba__sqlite_file_fail(folder, "this folder cannot be made with that mode and group", number, err);
}

int simba__sqlite_share_new_file(const simba__sqlite_share *share, const char *path, simba_error *err)
{
    const wanted w = {.mode = share->mode, .has_group = share->has_group, .group = share->group};
    char made[PATH_MAX];
    if ((size_t)snprintf(made, sizeof made, "%s-new", path) >= sizeof made)
        return simba__sqlite_file_fail(path, "cannot be created", ENAMETOOLONG, err);
    int number = unlink(made) == 0 || errno == ENOENT ? 0 : errno; /* of a process that was killed here */
    if (number == 0 && mknod(made, S_IFREG | 0600, 0) != 0)
        number = errno;
    if (number == 0)
        number = treat(AT_FDCWD, made, &w);
    if (number == 0 && rename(made, path) != 0)
        number = errno;
    if (number == 0)
        return 0;
    unlink(made);
    return simba__sqlite_file_fail(path, "cannot be created with that mode and group", number, err);
}
