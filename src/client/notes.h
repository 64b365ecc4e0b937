/* Reading and writing the note of a mutex. A note call is one request. Code under the lock, such as a scheduler, begins a call and
 * gets `done` when it is over; the functions at the end begin one and wait.
 *
 * The note of a mutex may begin with a record of core/record.h, which says when a schedule ran last. The work sees and writes only
 * what follows the record. */
#ifndef SIMBA_CLIENT_NOTES_H
#define SIMBA_CLIENT_NOTES_H

#include "client/handles.h"
#include "core/record.h"

typedef struct simba__note_call simba__note_call;
struct simba__note_call {
    simba_client *client;
    simba__candidate *writer; /* NULL: it reads */
    /* Under the lock, when `rc`, `err` and `note` are filled in. May be NULL. It may begin the call again. */
    void (*done)(simba__note_call *call);
    bool busy; /* under way: the call must stay where it is */
    int rc;    /* 0, or the error that the public functions return */
    simba_error err;
    simba_note note; /* the note that was read; after a write only its now_ms */
};

/* Under the lock: begin to read, or to write as the holder. 0: `done` will be called, also when the client closes. Otherwise nothing
 * has begun, and the code is that of the public functions: SIMBA_ENOTSUP, SIMBA_ECLOSED, SIMBA_ENOMEM, and for a write SIMBA_EINVAL,
 * SIMBA_ESTATE (not held, or another write of this candidate is under way: wait for that). A candidate must not be freed while a
 * write of it is busy: its owner acknowledges on_released, and so lets it stop, when the call is done. */
int simba__note_read(simba__note_call *call, simba_client *client, const char *mutex);
int simba__note_write(simba__note_call *call, simba__candidate *candidate, const void *bytes, size_t length);
/* Under the lock: wait for a call that has begun with `rc`. Returns its result. */
int simba__note_finish(simba_client *client, simba__note_call *call, int rc, simba_error *err);

/* --- without the lock: for callers that may wait ---------------------------------------------------------- */

/* Write `length` bytes as the holder, behind the record if there is one. The first write of a grant looks for it; later ones need
 * not, because only the holder writes. SIMBA_EINVAL: there is not enough room. */
int simba__work_note_set(simba__candidate *candidate, const void *bytes, size_t length, simba_error *err);
/* The same under the grant of this token, for a caller that knows the record. SIMBA_ELOST: it is another grant by now. */
int simba__work_note_set_behind(simba__candidate *candidate, uint64_t token, const char *record, size_t record_size,
                                const void *bytes, size_t length, simba_error *err);
/* Read what follows the record. */
int simba__work_note_get(simba__candidate *candidate, simba_error *err, simba_note *ret_note);

/* --- once per period: under the lock; these wait for the store ----------------------------------------- */

/* May work begin that is to begin once in a period, on any machine? SIMBA_ETOOSOON says when it last began. Otherwise the store's
 * error. */
int simba__once_check(simba__candidate *candidate, const simba__once *rule, simba_error *err);
/* As the holder: the same, and record that it begins now. */
int simba__once_begin(simba__candidate *candidate, const simba__once *rule, simba_error *err);
/* As the holder that began it: record that it has ended. SIMBA_ELOST, SIMBA_ESTATE: it no longer holds the mutex. SIMBA_EINVAL: the
 * note has no room for that. */
int simba__once_end(simba__candidate *candidate, int result, simba_error *err);

#endif
