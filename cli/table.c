/* See table.h. */
#include "table.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "lease.h"
#include "notetext.h"
#include "util/escape.h"

#define GAP 2 /* columns between two columns of the table */
#define SPAN_COLUMNS 6
#define BAR_MIN 8
#define BAR_MAX 20
#define WAITERS_COLUMNS 7
#define NAME_MIN 5 /* "MUTEX", "OWNER" and "TOKEN" have to fit */

/* In SPAN_COLUMNS. */
static void format_span(char *text, size_t size, int64_t ms)
{
    const int64_t days = ms / 86400000;
    if (ms == LEASE_UNKNOWN)
        snprintf(text, size, "-");
    else if (ms < 10000)
        snprintf(text, size, "%" PRId64 ".%" PRId64 "s", ms / 1000, ms % 1000 / 100);
    else if (ms < 120000)
        snprintf(text, size, "%" PRId64 "s", ms / 1000);
    else if (ms < 7200000)
        snprintf(text, size, "%" PRId64 "m", ms / 60000);
    else if (days < 4)
        snprintf(text, size, "%" PRId64 "h", ms / 3600000);
    else
        snprintf(text, size, days > 9999 ? ">9999d" : "%" PRId64 "d", days);
}

static int at_least(int least, int value)
{
    return value > least ? value : least;
}

static int shown_columns(const char *text)
{
    char shown[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
    return term_columns(simba__escape(text, shown, sizeof shown));
}

table_layout table_measure(const look *found)
{
    table_layout l = {.mutex = NAME_MIN, .owner = NAME_MIN, .token = NAME_MIN, .ttl = true, .longest_ms = 1};
    for (size_t i = 0; i < found->count; i++) {
        const look_row *e = &found->rows[i];
        size_t length;
        const lease_view lease = lease_look(&e->owner, found->store_ms);
        l.mutex = at_least(l.mutex, shown_columns(e->mutex));
        l.owner = at_least(l.owner, shown_columns(e->owner.id));
        l.token = at_least(l.token, snprintf(NULL, 0, "%" PRIu64, e->owner.token));
        l.longest_ms = lease.left_ms > l.longest_ms ? lease.left_ms : l.longest_ms;
        l.waiters |= e->waiters >= 0;
        l.note = note_for_people(e->note, e->note_length, &length) != NULL ? INT_MAX : l.note;
    }
    return l;
}

static int columns_without_names(const table_layout *l)
{
    return (2 + l->ttl) * (SPAN_COLUMNS + GAP) + (l->bar > 0 ? l->bar + GAP : 0) +
           (l->waiters ? WAITERS_COLUMNS + GAP : 0) + l->token;
}

static int columns(const table_layout *l)
{
    return l->mutex + GAP + l->owner + GAP + columns_without_names(l);
}

/* The bar gets the columns that the other fields leave. */
void table_add_bar(table_layout *l, int width)
{
    const int room = width - columns(l) - GAP;
    l->bar = room < BAR_MIN ? 0 : room > BAR_MAX ? BAR_MAX : room;
}

void table_squeeze(table_layout *l, int width)
{
    if (columns(l) > width)
        l->token = 0;
    if (columns(l) > width)
        l->waiters = false;
    if (columns(l) > width)
        l->ttl = false;
    const int room = at_least(2 * NAME_MIN, width - columns_without_names(l) - 2 * GAP);
    if (l->mutex + l->owner <= room)
        return;
    /* A column that needs less than half leaves the rest to the other one. */
    const int half = room / 2;
    if (l->mutex <= half)
        l->owner = room - l->mutex;
    else if (l->owner <= half)
        l->mutex = room - l->owner;
    else
        l->mutex = l->owner = half;
}

void table_fit_note(table_layout *l, int width)
{
    const int room = width - columns(l) - GAP;
    if (l->note > 0)
        l->note = room < NAME_MIN ? 0 : room;
}

static void print_name(const term *t, const char *text, int width)
{
    char shown[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
    term_cell(t, simba__escape(text, shown, sizeof shown), width);
    fprintf(t->stream, "%*s", GAP, "");
}

/* The rest of the ttl, and behind it the rest of the transition. */
static void print_bar(const term *t, const table_layout *l, const lease_view *lease)
{
    int ttl = 0;
    int all = 0;
    if (lease->left_ms != LEASE_UNKNOWN) {
        ttl = (int)((double)lease->ttl_left_ms / (double)l->longest_ms * l->bar);
        all = (int)((double)lease->left_ms / (double)l->longest_ms * l->bar);
    }
    assert(ttl <= all && all <= l->bar);
    fputs(term_on(t, TERM_GREEN), t->stream);
    for (int i = 0; i < ttl; i++)
        fputs(term_pick(t, "█", "#"), t->stream);
    fprintf(t->stream, "%s%s", term_off(t), term_on(t, TERM_YELLOW));
    for (int i = ttl; i < all; i++)
        fputs(term_pick(t, "▒", "="), t->stream);
    fprintf(t->stream, "%s%*s", term_off(t), l->bar - all + GAP, "");
}

static void print_span(const term *t, int64_t ms)
{
    char text[32];
    format_span(text, sizeof text, ms);
    fprintf(t->stream, "%*s%*s", SPAN_COLUMNS, text, GAP, "");
}

/* The last column: as much of it as fits, if that matters. */
static void print_note(const term *t, const table_layout *l, const look_row *e, int token_columns)
{
    char shown[NOTE_TEXT_SIZE];
    size_t length;
    const char *note = note_for_people(e->note, e->note_length, &length);
    if (note == NULL)
        return;
    note_text(note, length, shown, sizeof shown);
    if (l->token > 0)
        fprintf(t->stream, "%*s", l->token - token_columns + GAP, "");
    if (l->note < INT_MAX)
        term_cell(t, shown, term_columns(shown) < l->note ? term_columns(shown) : l->note);
    else
        fputs(shown, t->stream);
}

static void print_entry(const term *t, const table_layout *l, const look_row *e, int64_t now_ms)
{
    const lease_view lease = lease_look(&e->owner, now_ms);
    print_name(t, e->mutex, l->mutex);
    print_name(t, lease.owned ? e->owner.id : "-", l->owner);
    print_span(t, lease.held_ms);
    if (l->ttl)
        print_span(t, lease.ttl_left_ms);
    print_span(t, lease.left_ms);
    if (l->bar > 0)
        print_bar(t, l, &lease);
    char waiters[24] = "-";
    if (e->waiters >= 0)
        snprintf(waiters, sizeof waiters, "%" PRId64, e->waiters);
    if (l->waiters)
        fprintf(t->stream, "%*s%*s", WAITERS_COLUMNS, waiters, GAP, "");
    char token[24] = "-";
    if (lease.owned)
        snprintf(token, sizeof token, "%" PRIu64, e->owner.token);
    if (l->token > 0)
        fputs(token, t->stream);
    if (l->note > 0)
        print_note(t, l, e, (int)strlen(token));
    fputc('\n', t->stream);
}

static void print_head(const term *t, const table_layout *l)
{
    fputs(term_on(t, TERM_BOLD), t->stream);
    print_name(t, "MUTEX", l->mutex);
    print_name(t, "OWNER", l->owner);
    fprintf(t->stream, "%6s  ", "SINCE");
    if (l->ttl)
        fprintf(t->stream, "%6s  ", "TTL");
    fprintf(t->stream, "%6s  ", "UNTIL");
    if (l->bar > 0)
        print_name(t, "TTL, TRANSITION", l->bar);
    if (l->waiters)
        fprintf(t->stream, "WAITERS%*s", GAP, "");
    if (l->token > 0)
        fprintf(t->stream, "%-*s", l->note > 0 ? l->token + GAP : 0, "TOKEN");
    fprintf(t->stream, "%s%s\n", l->note > 0 ? "NOTE" : "", term_off(t));
}

void table_print(const term *t, const look *found, const table_layout *l, size_t first, size_t most)
{
    const size_t left = found->count - (first < found->count ? first : found->count);
    const size_t shown = left < most ? left : most;
    if (found->count == 0)
        return;
    print_head(t, l);
    for (size_t i = 0; i < shown; i++)
        print_entry(t, l, &found->rows[first + i], found->store_ms);
}

void table_show(const look *found)
{
    term t;
    term_open(stdout, &t);
    table_layout l = table_measure(found);
    if (t.is_terminal) {
        table_add_bar(&l, (int)t.width);
        table_fit_note(&l, (int)t.width);
    }
    table_print(&t, found, &l, 0, SIZE_MAX);
}
