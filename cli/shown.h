/* What a store says, as people and programs are shown it: points in time, the spans of a lease, notes. */
#ifndef SIMBA_CLI_SHOWN_H
#define SIMBA_CLI_SHOWN_H

#include <simba.h>
#include <stdint.h>

#include "util/escape.h"

/* --- points in time ------------------------------------------------------------------------------------ */

#define WHEN_SIZE 32

/* "2026-11-16T03:15:00Z", with milliseconds if there are any, which date(1) reads; "-" for 0. Returns `ret_text`. */
const char *when_utc(int64_t ms, char ret_text[WHEN_SIZE]);

/* --- the spans of a lease at the store's present time -------------------------------------------------- */

/* The times of an owner come from the store, where anybody may have written them: this code turns them into spans that
 * cannot overflow, or that say that they are unknown. */
#define LEASE_UNKNOWN INT64_C(-1)

typedef struct lease_view {
    bool owned; /* otherwise the rest is LEASE_UNKNOWN */
    int64_t held_ms;
    int64_t
        ttl_left_ms; /* at most as long as the whole lease; unknown where the lease is a session, which has no end of its own */
    int64_t left_ms;
} lease_view;

lease_view lease_look(const simba_owner *owner, int64_t now_ms);

/* --- a note, which is bytes of any value ---------------------------------------------------------------- */

#define NOTE_TEXT_SIZE SIMBA__ESCAPED_SIZE(SIMBA_NOTE_MAX)

/* How many bytes at the beginning of a note say when a schedule ran last, for `simba schedule --list`; those behind them are the note
 * for people. 0: there are none. */
size_t note_record(const void *bytes, size_t length);

/* The part of a note that is for people, and its length; NULL: there is none. */
const char *note_for_people(const char *bytes, size_t length, size_t *ret_length);

/* As one line, escaped as in util/escape.h, zero bytes too. `bytes` has a zero behind its `length` bytes. Returns `out`, of NOTE_TEXT_SIZE. */
const char *note_text(const char *bytes, size_t length, char *out, size_t size);

#endif
