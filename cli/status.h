/* A small file that tells others the state. */
#ifndef SIMBA_CLI_STATUS_H
#define SIMBA_CLI_STATUS_H

/* Replace the file as a whole: a reader finds the old text or the new one. A link or a file at that path is
 * replaced, not written to. Returns 0 or a negative errno. */
int status_write(const char *path, const char *text);

#endif
