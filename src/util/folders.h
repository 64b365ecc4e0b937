/* Folders on the way to a file. */
#ifndef SIMBA_UTIL_FOLDERS_H
#define SIMBA_UTIL_FOLDERS_H

/* Make the missing folders on the way to the file at this absolute path, for this user alone (mode 0700). 0, or the
 * errno of the first that could not be made. */
int simba__folders_make(const char *path);

#endif
