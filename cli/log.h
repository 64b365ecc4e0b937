/* All output of the commands on standard error goes through here: their own messages and the library's log, as text
 * for people, as text with a level for systemd's journal, or as JSON for programs. One write per line, so that lines
 * of several processes do not mix. Text from outside is escaped. */
#ifndef SIMBA_CLI_LOG_H
#define SIMBA_CLI_LOG_H

#include "cli.h"

/* "text", "journal" or "json". Until then, and with NULL: journal if standard error leads to the journal, and text
 * otherwise. False: there is no such format. */
bool log_set_format(const char *name);

/* Who speaks: the command or the library. */
typedef enum log_source { LOG_COMMAND, LOG_LIBRARY } log_source;

/* A line to be written, without its end; NULL: no memory. free() it. `command` may be NULL. */
char *log_line(const char *command, log_source source, const simba_log_record *record);
/* Write it. Does nothing for NULL. */
void log_write(const char *line);

/* Let the client that is opened with these options write its log: lines for people to standard error, in this form, and the
 * events of contenders to the file of --event-log. Returns CLI_GO, or an exit code after a message. */
int log_open(const char *command, const cli_globals *globals, simba_client_options *options);

/* --- for a person who waits for a mutex, or holds one that cannot be renewed ---------------------------- */

/* When to look for the first time whether there is something to report, and how often after that. */
enum { WAITING_FIRST_MS = 700, WAITING_AGAIN_MS = 1000 };

typedef struct waiting_words {
    const char *command;
    const char *mutex;
    bool at_terminal;     /* there is a person to read it */
    simba_owner reported; /* the owner that was printed last */
} waiting_words;

/* With -v the library reports it, which is enough. */
waiting_words waiting_words_for(const char *command, const char *mutex, const cli_globals *globals);

/* Print who owns the mutex and until when, if that was not printed yet, and if standard error is a terminal. */
void waiting_report(waiting_words *words, const simba_owner *owner, int64_t left_ms);

typedef struct outage_words {
    const char *command;
    const char *mutex;
    const char *consequence; /* "the command will be stopped" */
    bool verbose;            /* the library prints that it was renewed in the end */
    bool reported;
} outage_words;

/* Print that an overdue lease cannot be renewed, and what will happen when; later, that it was renewed. Once each. */
void outage_look(outage_words *words, const simba_lease *lease);

#endif
