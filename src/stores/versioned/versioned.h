/* A mutex as one record in a store that has no clock, no queue and no scripts, only this: a record has a version, and a write says
 * which version it replaces (compare and swap). Kubernetes is such a store, and so is an object store with If-Match. Pure: records,
 * requests and times go in; out comes what to ask the store next.
 *
 *   expiry     A record has expired when *my* clock has seen what its holder renews unchanged for as long as it says. The holder sent
 *              that before I first saw it, so the holder's clock has ended the lease by then. That it is still unchanged, the write proves
 *              that replaces it. So a take-over needs a whole lease from the first look; a record without a holder is free at once.
 *   tokens     The token of a grant is the version that its write replaced: known before the write, and so stored by it. The store
 *              promises that versions grow with each write, also when the record was removed in between. A store that was restored
 *              from a backup breaks that. So the record keeps its latest token, tokens go on from there until the versions are greater,
 *              and meanwhile the record cannot be removed.
 *   creating   never grants: a delayed creation could arrive after the record was granted, released and removed, and would bring
 *              an old token back. A record that is missing is made without a holder, and then replaced like any other.
 *   fate       A write without an answer may have been carried out, or still be. So a read follows: if the record is as it
 *              was to be, the write was ours. If its old version is still there, the next write replaces that version, and the
 *              delayed one can no longer succeed.
 *   one write  of a mutex is in flight at a time, and a request that it did not serve is decided anew: after a conflict, read.
 *
 * What is known may be stale. That is harmless to a write, which then conflicts; so requests are decided on what is known, and only a
 * refusal needs a read first. */
#ifndef SIMBA_STORES_VERSIONED_H
#define SIMBA_STORES_VERSIONED_H

#include "core/row.h"

enum {
    VERSIONED_TAG_MAX = 63,
    VERSIONED_ROUNDS_MOST = 32, /* reads and writes for one request: then the store does not keep what it says */
};

/* The record as the store has it. The bytes of a note stay with the store. */
typedef struct versioned_record {
    bool exists;
    bool held;                        /* somebody has it, who may be none of ours */
    uint64_t version;                 /* of a record that does not exist: the last one known */
    char tag[VERSIONED_TAG_MAX + 1];  /* the store's own name for this very object, if it needs one for conditions */
    char id[SIMBA_ID_MAX + 1];        /* of the holder */
    uint64_t nonce, token;            /* of its grant; both 0: it is none of ours */
    uint64_t last_token;              /* of the latest grant: the next one's is greater */
    int64_t lease_ms;                 /* how long it has to stay unchanged */
    int64_t acquired_us, renewed_us;  /* on the wall clock of who wrote it: for people */
    int64_t grants;                   /* so far */
    uint64_t revoked_nonce;           /* of the latest grant that was forced away; 0: none */
    uint64_t note_token, note_number; /* of the write that the note is from; both 0: there never was one */
    int64_t note_written_at_ms;
} versioned_record;

typedef struct versioned_mutex {
    versioned_record known; /* as last seen */
    simba_local since;      /* when its present holder, with these times, was first seen */
    uint64_t asked_after;   /* the version that was known when the store was asked last */
    bool doubted;           /* its answer showed an earlier one */
    bool stale;             /* another version is there, or may be: read first */
    bool live;              /* the store's to set: every change reaches simba__versioned_saw soon */

    /* The latest write. */
    simba_local wrote_at;    /* when it was decided */
    versioned_record wanted; /* what it was to leave */
    uint64_t replaced;       /* the version that it replaces */
    bool unsettled;          /* it is in flight, or nobody knows what became of it */

    /* The present request. */
    bool read;        /* the record was read for it */
    bool wrote;       /* the latest write is its own */
    bool carried_out; /* and has succeeded */
    unsigned rounds;  /* steps so far */
} versioned_mutex;

/* What to do next for the present request. */
typedef enum versioned_ask {
    VERSIONED_ANSWER,  /* its reply is filled in */
    VERSIONED_READ,    /* then call …_saw */
    VERSIONED_CREATE,  /* a record without a holder, if there is none; then …_saw, …_conflict, or …_lost */
    VERSIONED_WRITE,   /* `wanted` over `replaced`; likewise */
    VERSIONED_REMOVE,  /* `replaced`; likewise */
    VERSIONED_GIVE_UP, /* it was tried too often */
    VERSIONED_BEHIND,  /* a later token could not be greater than `last_token`, because the versions are behind it */
} versioned_ask;

enum {
    VERSIONED_OWNER_CHANGED = 1 << 0,
    VERSIONED_NOTE_CHANGED = 1 << 1,
    VERSIONED_STEPPED_BACK = 1 << 2, /* the store has lost what it had */
};

void simba__versioned_init(versioned_mutex *mutex);
/* Requests of a mutex have their turn one after the other: the next one begins. */
void simba__versioned_begin(versioned_mutex *mutex);
versioned_ask simba__versioned_next(versioned_mutex *mutex, simba_request *request, simba__row_now now);

/* The record as a read, a watch, or the answer to a write shows it. `asked`: it answers the latest read or write, and is no older than
 * that. The version of a record that a read did not find is 0. Returns what has changed, for those who watch. */
unsigned simba__versioned_saw(versioned_mutex *mutex, const versioned_record *record, bool asked, simba_local now);
/* The store refused the write: another version is there. */
void simba__versioned_conflict(versioned_mutex *mutex);
/* The write, or creation, has no answer that says what became of it. */
void simba__versioned_lost(versioned_mutex *mutex);

bool simba__versioned_is_free(const versioned_mutex *mutex, simba_local now);
/* The owner, or nobody; and the present time on the scale of the owner's times, which is our wall clock. */
void simba__versioned_show(const versioned_mutex *mutex, simba__row_now now, simba_owner *ret_owner,
                           int64_t *ret_now_ms);
/* Until when it pays to remember a mutex that nobody here asks for: a later look could take it over, or has to know of a write whose
 * fate is unknown. {0}: it does not. */
simba_local simba__versioned_keep_until(const versioned_mutex *mutex);

#endif
