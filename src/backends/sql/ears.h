/* Contenders of this client that listen: they want to hear when others begin to wait for what they hold (SIMBA_PUSH_WANTED).
 * Each has an entry from the time when it asks for the mutex until it gives it back or has lost it. Pure, but for pushes. */
#ifndef SIMBA_BACKENDS_SQL_EARS_H
#define SIMBA_BACKENDS_SQL_EARS_H

#include <simba/backend.h>

#include "util/table.h"

/* One of zeroes, but for the host, is empty. */
typedef struct simba__sql_ears {
    simba_host *host;
    simba__table table; /* by mutex */
} simba__sql_ears;

void simba__sql_ears_fini(simba__sql_ears *ears);

/* A request was handed over; it was answered. Without memory the contender does not hear. */
void simba__sql_ears_asked(simba__sql_ears *ears, const simba_request *request);
void simba__sql_ears_answered(simba__sql_ears *ears, const simba_request *request);

/* Does a contender of this client listen for this mutex, which it holds or asks for? */
bool simba__sql_ears_are_open(const simba__sql_ears *ears, const char *mutex);
/* Somebody waits for the mutex. */
void simba__sql_ears_wanted(const simba__sql_ears *ears, const char *mutex);
/* Somebody may have begun to wait and was not heard: every contender that listens asks the server, whose answer says so. */
void simba__sql_ears_ask_all(const simba__sql_ears *ears);

#endif
