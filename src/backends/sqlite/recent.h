/* Rows as the latest transactions of this client left them, so that a client that takes a mutex and gives it back does not read
 * the row each time. They hold as long as no other connection has committed anything since: db.h says how we know. That is
 * how SQLite itself decides whether the pages in its cache are still good.
 *
 * A few rows are enough. With more mutexes at a time than there is room for, their rows are read. */
#ifndef SIMBA_BACKENDS_SQLITE_RECENT_H
#define SIMBA_BACKENDS_SQLITE_RECENT_H

#include "core/row.h"

enum { SIMBA__SQLITE_RECENT_ROWS = 16, SIMBA__SQLITE_RECENT_NAME = 63 };

typedef struct simba__sqlite_recent {
    struct simba__sqlite_recent_row {
        char mutex[SIMBA__SQLITE_RECENT_NAME + 1]; /* "": none. A row of a longer name is not kept */
        simba__row row;
    } rows[SIMBA__SQLITE_RECENT_ROWS]; /* by the hash of the mutex */
} simba__sqlite_recent;

/* NULL: it is not known. */
const simba__row *simba__sqlite_recent_find(const simba__sqlite_recent *recent, uint64_t hash, const char *mutex);
/* The row is in the database as it is here, or will be when the transaction at hand commits. What it says of the note is not
 * kept, since that is in another table. */
void simba__sqlite_recent_keep(simba__sqlite_recent *recent, uint64_t hash, const char *mutex, const simba__row *row);
void simba__sqlite_recent_forget(simba__sqlite_recent *recent);

#endif
