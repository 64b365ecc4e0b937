/* The database file as the file system sees it: folders, creation, permissions. SQLite opens the file that this code
 * has prepared, and so never creates one by itself. */
#ifndef SIMBA_BACKENDS_SQLITE_FILE_H
#define SIMBA_BACKENDS_SQLITE_FILE_H

#include <sys/types.h>

#include "backends/sqlite/busy.h"
#include "backends/sqlite/share.h"

/* Make sure that `path` is a regular file that we may read and write, in a folder that we may write; make that folder (mode
 * 0700 unless it is shared, and none above it) and an empty file if they are missing. What exists is not touched.
 * SIMBA_EPERM, SIMBA_EURL (not a file, or no folder to make it in), SIMBA_ENOTSUP (a network file system), SIMBA_EUNAVAILABLE, SIMBA_ETIMEDOUT. */
int simba__sqlite_file_prepare(const char *path, const simba__sqlite_share *share, simba__sqlite_busy *busy,
                               simba_error *err);

/* Give a new file or folder beside the database the database's mode and group, so that the same users may use it. If the
 * group cannot be given, no other group gets its rights. */
void simba__sqlite_file_adopt_mode(int fd, const char *database, bool is_folder);

/* One of the files beside a database, such as "-wal". An inode of 0: there is none. */
typedef struct simba__sqlite_file_side {
    const char *ending;
    dev_t device;
    ino_t inode;
} simba__sqlite_file_side;

void simba__sqlite_file_identify(const char *path, const char *ending, simba__sqlite_file_side *ret_side);

/* The database at `path` is no longer the one to which these files belong. SQLite goes by the name: it would take them
 * for files of the new one, and read pages of the old one out of them. Remove those that are still there while the old
 * connection is open: until it closes, no other file gets their inodes. */
int simba__sqlite_file_discard(const char *path, const simba__sqlite_file_side *sides, size_t count,
                               simba__sqlite_busy *busy, simba_error *err);

#endif
