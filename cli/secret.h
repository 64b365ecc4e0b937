/* Passwords: where they come from, how they get into a URL, and how they are kept out of sight. */
#ifndef SIMBA_CLI_SECRET_H
#define SIMBA_CLI_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/* The first line of a file. Warns on standard error, in the name of `command`, if others can read the file. Returns
 * 0, or -1 with errno; the text stays for as long as the process runs. */
int secret_from_file(const char *command, const char *path, const char **ret_secret);
/* Does the mode of this open file let everybody read it? */
bool secret_is_exposed(int fd);

/* The password for a URL that has none: $SIMBA_PASSWORD, or the first line of $SIMBA_PASSWORD_FILE; NULL: there is
 * none. Returns 0, or -1 with errno and the file in `ret_path`. */
int secret_from_environment(const char *command, const char **ret_secret, const char **ret_path);

/* A copy of the URL with the password in it, unless it has one already or names no host. NULL: no memory. free() it. */
char *secret_into_url(const char *url, const char *password);

/* Write text into a URL: what is neither a letter, a digit nor one of these characters as %XX. Returns the length; `out` has room for
 * three times the text. */
size_t secret_escape(const char *text, const char *plain, char *out);

/* Does the URL have a password in it? */
bool secret_is_in_url(const char *url);
/* Take the password out of a URL, in place. */
void secret_strip(char *url);
/* Overwrite the password in a URL in place: it came from the command line, which everybody can read. */
void secret_hide(char *url);

#endif
