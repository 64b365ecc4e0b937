/* Passwords: where they come from, how they get into a URL, and how they are kept out of sight. */
#ifndef SIMBA_CLI_SECRET_H
#define SIMBA_CLI_SECRET_H

/* The first line of a file. Returns 0 or -1 with errno; what was read stays for as long as the process runs. */
int secret_from_file(const char *path, const char **ret_secret);

/* The password to use where a URL has none: $SIMBA_PASSWORD, or the first line of $SIMBA_PASSWORD_FILE; NULL: there is
 * none. Returns 0 or -1 with errno and the file in `ret_path`. */
int secret_from_environment(const char **ret_secret, const char **ret_path);

/* A copy of the URL with the password in it, unless it has one already or names no host. NULL: no memory. free() it. */
char *secret_into_url(const char *url, const char *password);

/* Make the password in a URL unreadable in place: it came from the command line, which everybody can read. */
void secret_hide(char *url);

#endif
