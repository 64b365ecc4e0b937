/* All output of the commands on standard error goes through here: their own messages and the library's log, as text
 * for people, as text with a level for systemd's journal, or as JSON for programs. One write per line, so that lines
 * of several processes do not mix. Text from outside is escaped. */
#ifndef SIMBA_CLI_SAY_H
#define SIMBA_CLI_SAY_H

#include "cli.h"

/* "text", "journal" or "json". Until then, and with NULL: journal if standard error leads to the journal, and text
 * otherwise. False: there is no such format. */
bool say_set_format(const char *name);

/* Who speaks: the command or the library. */
typedef enum say_whose { SAY_OURS, SAY_LIBRARY } say_whose;

/* A line to be written, without its end; NULL: no memory. free() it. `command` may be NULL. */
char *say_line(const char *command, say_whose whose, const simba_log_record *record);
/* Write it. Does nothing for NULL. */
void say_write(const char *line);

/* Let the client that is opened with these options write its log: lines for people to standard error, in this form, and the
 * events of contenders to the file of --event-log. Returns CLI_GO, or an exit code after a message. */
int journal_open(const char *command, const cli_globals *globals, simba_client_options *options);

#endif
