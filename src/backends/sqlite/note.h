/* Notes in the database. They have a table of their own, so that a renewal does not write the note again, and so that
 * an older simba without notes can use the same file. The row without a name has the greatest token of the forgotten
 * mutexes. As in db.h, everything here blocks and belongs to one thread at a time. */
#ifndef SIMBA_BACKENDS_SQLITE_NOTE_H
#define SIMBA_BACKENDS_SQLITE_NOTE_H

#include "backends/sqlite/db.h"

typedef struct simba__sqlite_note_copy {
    simba_stored_note stored; /* its bytes are `bytes` */
    char bytes[];
} simba__sqlite_note_copy;

/* Read which note there is: fills in note_token and note_number of the row. */
int simba__sqlite_note_identify(simba__sqlite_db *db, const char *mutex, simba__row *row, simba_error *err);
/* A copy of the note, which the caller frees; NULL: there is none. */
int simba__sqlite_note_load(simba__sqlite_db *db, const char *mutex, simba__sqlite_note_copy **ret_note,
                            simba_error *err);
/* Replace the note by that of the request, as the row says. */
int simba__sqlite_note_store(simba__sqlite_db *db, const simba_request *request, const simba__row *row,
                             simba_error *err);

/* Remove the mutex and its note, and remember its token. */
int simba__sqlite_note_forget(simba__sqlite_db *db, const char *mutex, uint64_t token, simba_error *err);
/* For a mutex that is not in the table: the greatest forgotten token. */
int simba__sqlite_note_floor(simba__sqlite_db *db, uint64_t *ret_token, simba_error *err);

#endif
