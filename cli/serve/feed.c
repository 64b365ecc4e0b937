/* See feed.h. */
#include "feed.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"

static feed *new_feed(const answers *about, feed_kind kind, uint64_t limit)
{
    feed *f = cli_alloc(sizeof *f);
    f->about = about;
    f->kind = kind;
    f->left = limit;
    return f;
}

feed *feed_rows(const answers *about, const char *after, uint64_t limit)
{
    feed *f = new_feed(about, FEED_ROWS, limit);
    if (after != NULL)
        snprintf(f->after, sizeof f->after, "%s", after);
    return f;
}

feed *feed_history(const answers *about, uint64_t limit)
{
    feed *f = new_feed(about, FEED_HISTORY, limit);
    const table_change *change = TAILQ_LAST(&about->t->changes, table_changes);
    for (uint64_t n = 0; change != NULL && n < limit; n++)
        change = TAILQ_PREV(change, table_changes, in_all);
    f->revision = change != NULL ? change->revision : 0;
    return f;
}

feed *feed_stream(const answers *about, const char *since)
{
    feed *f = new_feed(about, FEED_STREAM, 0);
    f->revision = about->t->revision;
    if (since != NULL && !answers_parse_revision(about, since, &f->revision))
        f->revision = 0; /* whatever it was, it is not of this process */
    f->stage = since != NULL && f->revision == 0 ? FEED_BEGIN : FEED_MIDDLE;
    return f;
}

void feed_free(feed *f)
{
    if (f != NULL)
        free(f->piece);
    free(f);
}

/* --- one document ---------------------------------------------------------------------------------------- */

static void put_list(feed *f, FILE *to)
{
    const table *t = f->about->t;
    size_t at = table_after(t, f->after);
    if (f->stage == FEED_BEGIN)
        answer_list_begin(to, f->about);
    for (; at < t->row_count && f->left > 0 && ftell(to) < FEED_PIECE; at++) {
        const table_row *row = t->rows[at];
        snprintf(f->after, sizeof f->after, "%s", row->mutex);
        if (!row->is_present)
            continue;
        fputs(f->needs_comma ? ",\n" : "", to);
        f->needs_comma = true;
        answer_row(to, f->about, row);
        f->left--;
    }
    f->stage = at == t->row_count || f->left == 0 ? FEED_END : FEED_MIDDLE;
    if (f->stage == FEED_END)
        answer_list_end(to, f->about);
}

static void put_history(feed *f, FILE *to)
{
    const table_change *change = table_change_since(f->about->t, f->revision);
    if (f->stage == FEED_BEGIN)
        fputs("{\"history\":[", to);
    for (; change != NULL && ftell(to) < FEED_PIECE; change = TAILQ_NEXT(change, in_all)) {
        fputs(f->needs_comma ? ",\n" : "", to);
        f->needs_comma = true;
        answer_change(to, f->about, change);
        f->revision = change->revision;
    }
    f->stage = change == NULL ? FEED_END : FEED_MIDDLE;
    if (f->stage == FEED_END)
        fputs("]}\n", to);
}

/* --- the stream ------------------------------------------------------------------------------------------ */

static void begin_event(FILE *to, const char *name, const char *data)
{
    fprintf(to, "event: %s\ndata: %s", name, data);
}

static void end_event(feed *f, FILE *to, const char *data)
{
    char revision[ANSWER_REVISION_SIZE];
    fprintf(to, "%s\nid: %s\n\n", data, answer_revision(f->about, f->revision, revision));
}

/* Rows and changes in the order of their revisions; neighbouring rows share an event. */
static void put_news(feed *f, FILE *to)
{
    const table *t = f->about->t;
    const table_row *row = table_row_since(t, f->revision);
    const table_change *change = table_change_since(t, f->revision);
    bool in_rows = false;
    while ((row != NULL || change != NULL) && ftell(to) < FEED_PIECE) {
        if (row != NULL && (change == NULL || row->revision < change->revision)) {
            if (in_rows)
                fputc(',', to);
            else
                begin_event(to, "rows", "[");
            in_rows = true;
            answer_row(to, f->about, row);
            f->revision = row->revision;
            row = TAILQ_NEXT(row, in_all);
        } else {
            if (in_rows)
                end_event(f, to, "]");
            in_rows = false;
            begin_event(to, "change", "");
            answer_change(to, f->about, change);
            f->revision = change->revision;
            end_event(f, to, "");
            change = TAILQ_NEXT(change, in_all);
        }
    }
    if (in_rows)
        end_event(f, to, "]");
}

static void put_stream(feed *f, FILE *to)
{
    const table *t = f->about->t;
    const int64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (f->stage == FEED_BEGIN || f->revision < t->horizon) {
        f->revision = t->revision;
        begin_event(to, "reset", "{}");
        end_event(f, to, "");
    }
    f->stage = FEED_MIDDLE;
    const uint64_t sent = f->revision;
    put_news(f, to);
    if (f->revision > sent || now_ms >= f->alive_at_ms) {
        f->alive_at_ms = now_ms + FEED_ALIVE_MS;
        begin_event(to, "store", "");
        answer_store(to, f->about);
        end_event(f, to, "");
    }
}

/* ------------------------------------------------------------------------------------------------------------ */

static feed_state next_piece(feed *f)
{
    if (f->kind != FEED_STREAM && f->stage == FEED_END)
        return FEED_OVER;
    free(f->piece);
    f->piece = NULL;
    f->at = 0;
    FILE *to = open_memstream(&f->piece, &f->length);
    if (to == NULL)
        return FEED_OVER;
    if (f->kind == FEED_STREAM)
        put_stream(f, to);
    else if (f->kind == FEED_ROWS)
        put_list(f, to);
    else
        put_history(f, to);
    return fclose(to) != 0 ? FEED_OVER : f->length > 0 ? FEED_HAS : FEED_WAITS;
}

feed_state feed_read(feed *f, char *out, size_t size, size_t *ret_length)
{
    if (f->at == f->length) {
        f->length = 0;
        const feed_state state = next_piece(f);
        if (state != FEED_HAS)
            return state;
    }
    *ret_length = f->length - f->at < size ? f->length - f->at : size;
    memcpy(out, f->piece + f->at, *ret_length);
    f->at += *ret_length;
    return FEED_HAS;
}
