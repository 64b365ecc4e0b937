/* Reading and writing the note of a mutex. A note call is one request to the store. Code in a turn, such as a
 * scheduler, begins a call and gets `done` when it is over; the public functions begin one and wait. */
#ifndef SIMBA_RUNTIME_NOTES_H
#define SIMBA_RUNTIME_NOTES_H

#include "runtime/member.h"

typedef struct simba__note_call simba__note_call;
struct simba__note_call {
    simba_request request; /* first */
    simba_client *client;
    simba__member *writer; /* NULL: it reads */
    /* In a turn, when `rc`, `err` and `note` are filled in. May be NULL. It may begin the call again. */
    void (*done)(simba__note_call *call);
    bool busy; /* the store has it: the call and the bytes that it writes must stay where they are */
    int rc;    /* 0, or the error that the public functions return */
    simba_error err;
    simba_note note; /* the note that was read; after a write only its now_ms */
};

/* In a turn: begin to read, or to write as the holder. 0: `done` will be called, also when the client closes.
 * Otherwise nothing has begun, and the code is that of the public functions: SIMBA_ENOTSUP, SIMBA_ECLOSED, and for a
 * write SIMBA_EINVAL, SIMBA_ESTATE (not held, or another write of this member is under way: wait for that). Do not
 * free a member while a write of it is busy: its owner acknowledges on_released, and so lets it stop, when the call
 * is done. */
int simba__note_read(simba__note_call *call, simba_client *client, const char *mutex);
int simba__note_write(simba__note_call *call, simba__member *member, const void *bytes, size_t length);

/* Under which grant a note is written, and in which use of it if lockers share the grant. */
typedef struct simba__tenure {
    uint64_t token;
    uint32_t use;
} simba__tenure;

/* For callers that may wait: not in a turn. A write belongs to its tenure: SIMBA_ELOST if the member is in another one by now. */
int simba__member_note_set(simba__member *member, simba__tenure tenure, const void *bytes, size_t length,
                           simba_error *err);
int simba__member_note(simba__member *member, simba_error *err, simba_note *ret_note);

#endif
