/* A note, which is bytes of any value, as text that can be shown: one line, escaped as in util/escape.h, zero bytes too. */
#ifndef SIMBA_CLI_NOTETEXT_H
#define SIMBA_CLI_NOTETEXT_H

#include <simba.h>

#include "util/escape.h"

#define NOTE_TEXT_SIZE SIMBA__ESCAPED_SIZE(SIMBA_NOTE_MAX)

/* How many bytes at the beginning of a note say when a schedule ran last, for `simba schedule --list`; those behind them are the note
 * for people. 0: there are none. */
size_t note_record(const void *bytes, size_t length);

/* The part of a note that is for people, and its length; NULL: there is none. */
const char *note_for_people(const char *bytes, size_t length, size_t *ret_length);

/* `bytes` has a zero behind its `length` bytes. Returns `out`, of NOTE_TEXT_SIZE. */
const char *note_text(const char *bytes, size_t length, char *out, size_t size);

#endif
