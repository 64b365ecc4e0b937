/* The rules of a store that keeps one row per mutex. The memory, SQLite and MySQL stores and the models of the
 * simulator all call these functions, so that one place says who may have a mutex. Pure: the caller brings the row,
 * the time and the request, and keeps the row if it changed. */
#ifndef SIMBA_CORE_ROW_H
#define SIMBA_CORE_ROW_H

#include <simba/backend.h>

/* The greatest token that a store may grant: every store and every language has room for it. */
#define SIMBA__TOKEN_MAX ((uint64_t)INT64_MAX)

typedef struct simba__row {
    simba_owner owner;      /* of the grant, live or ended; zeroes after a release. For people, and for replies */
    uint64_t nonce;         /* of the incarnation that has the grant */
    uint64_t token;         /* of the latest grant; stays when the owner goes */
    uint64_t revoked_token; /* of the latest grant that was forced away; 0: none */
    uint64_t version;       /* counts grants, renewals and releases */
    int64_t until_ns;       /* end of the lease on the judging clock */
    uint64_t note_token;    /* of the grant that wrote the note; 0: nobody has. The store keeps the bytes */
    uint64_t note_number;   /* of that write */
    int64_t note_written_at_ms;
    bool counts_tokens; /* the next token is one more, without the wall clock as a floor: the column is too narrow */
} simba__row;

/* The store's present time: on the clock that judges leases, and on the wall clock. */
typedef struct simba__row_now {
    int64_t ns;
    int64_t epoch_us;
} simba__row_now;

bool simba__row_is_free(const simba__row *row, simba__row_now now);

/* Carry out a request for one mutex and fill request->reply. True: the row changed. After a WRITE_NOTE that returned true the
 * store keeps request->note; after such a FORGET it drops the row and keeps `token` as the floor of later ones. A status of
 * SIMBA_ESTORE in the reply: the mutex is free, but its tokens are used up, and a grant needs a greater one. */
bool simba__row_apply(simba__row *row, simba__row_now now, simba_request *request);

/* The owner as a reply shows it (nobody, if the lease has ended), and the store's time on the scale of the owner's
 * times. The difference between the two is the time that is really left. */
void simba__row_show(const simba__row *row, simba__row_now now, simba_owner *ret_owner, int64_t *ret_now_ms);

#endif
