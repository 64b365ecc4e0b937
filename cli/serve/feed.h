/* Answers that are written in pieces, each when the client has read the one before; the rest is not in memory. So
 * neither ten thousand rows nor a slow client costs more than one piece. */
#ifndef SIMBA_CLI_SERVE_FEED_H
#define SIMBA_CLI_SERVE_FEED_H

#include "answers.h"

enum { FEED_PIECE = 16384, FEED_ALIVE_MS = 2000 };

typedef enum feed_kind {
    FEED_ROWS,    /* the list of mutexes */
    FEED_HISTORY, /* the changes that are remembered */
    FEED_STREAM,  /* every change, for ever: Server-Sent Events */
} feed_kind;

typedef enum feed_stage { FEED_BEGIN, FEED_MIDDLE, FEED_END } feed_stage;

typedef struct feed {
    const answers *about;
    feed_kind kind;
    feed_stage stage;
    uint64_t revision;                 /* sent so far */
    char after[SIMBA_MUTEX_BYTES + 1]; /* the last row that was sent */
    uint64_t left;                     /* rows or changes that may still be sent */
    bool needs_comma;
    int64_t alive_at_ms; /* when the next sign of life is due */
    char *piece;
    size_t length, at;
} feed;

feed *feed_rows(const answers *about, const char *after, uint64_t limit);
feed *feed_history(const answers *about, uint64_t limit);
/* A feed of all changes after this revision, in the form in which answers write it; NULL: after now. A client that cannot be
 * brought up to date must begin anew. */
feed *feed_stream(const answers *about, const char *since);
void feed_free(feed *f);

typedef enum feed_state { FEED_HAS, FEED_WAITS, FEED_OVER } feed_state;

/* Copy the next bytes, at most `size`. */
feed_state feed_read(feed *f, char *out, size_t size, size_t *ret_length);

#endif
