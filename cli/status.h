/* A small file that others read to learn how things are. */
#ifndef SIMBA_CLI_STATUS_H
#define SIMBA_CLI_STATUS_H

/* Replace the file as a whole: whoever reads it finds the old text or the new one. What stands there already, be it a
 * link or somebody's file, is not written to but replaced. Returns 0 or a negative errno. */
int status_write(const char *path, const char *text);

#endif
