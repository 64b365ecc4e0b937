/* Which users share a database, as the settings mode= and group= of the URL say. One answer holds for all of it: the
 * database, the files that SQLite and simba keep beside it, the folder of the FIFOs, and what is in that. */
#ifndef SIMBA_BACKENDS_SQLITE_SHARE_H
#define SIMBA_BACKENDS_SQLITE_SHARE_H

#include <simba/backend.h>
#include <stdbool.h>
#include <sys/types.h>

/* All zero: the URL says nothing, and what exists is followed. */
typedef struct simba__sqlite_share {
    bool given;
    bool has_group; /* otherwise the group is that of the folder of the database */
    mode_t mode;    /* of a file: 0600, 0660 or 0666 */
    gid_t group;
} simba__sqlite_share;

/* SIMBA_EURL. */
int simba__sqlite_share_read(const simba_url *url, simba__sqlite_share *ret_share, simba_error *err);

/* For a folder that was made just now, with mode 0700. Removes it again if that fails. SIMBA_EPERM, SIMBA_EUNAVAILABLE. */
int simba__sqlite_share_new_folder(const simba__sqlite_share *share, const char *folder, simba_error *err);

/* Make an empty file, which nobody meets before it has its mode and group. There must be none at that path; the caller has
 * the lock of the folder. */
int simba__sqlite_share_new_file(const simba__sqlite_share *share, const char *path, simba_error *err);

/* SIMBA_EPERM: others who share the database could not make files beside it, or these files would get another group. */
int simba__sqlite_share_check_folder(const simba__sqlite_share *share, const char *path, simba_error *err);

/* Give all that belongs to the database its mode and group. SIMBA_EPERM, SIMBA_EUNAVAILABLE. */
int simba__sqlite_share_apply(const simba__sqlite_share *share, const char *path, simba_error *err);

/* What apply would change: SIMBA_EPERM, which names the first such file. */
int simba__sqlite_share_verify(const simba__sqlite_share *share, const char *path, simba_error *err);

#endif
