/* The one way in which commands speak on standard error: their own words and the library's log, as text for people, as text
 * with a level for systemd's journal, or as JSON for programs. One write per line, so that lines of several processes do not
 * mix. Nothing that comes from outside can do harm in them. */
#ifndef SIMBA_CLI_SAY_H
#define SIMBA_CLI_SAY_H

#include <simba.h>

/* "text", "journal" or "json". Until then, and with NULL, it is journal if standard error is the journal's, and text
 * otherwise. False: there is no such format. */
bool say_set_format(const char *name);

/* Whose words they are. */
typedef enum say_whose { SAY_OURS, SAY_LIBRARY } say_whose;

/* A line, without its end, as it is to be written; NULL: no memory. free() it. `command` may be NULL. */
char *say_line(const char *command, say_whose whose, const simba_log_record *record);
/* Write it. NULL is left out. */
void say_write(const char *line);

#endif
