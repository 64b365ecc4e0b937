/* `simba list`: who has which mutex, and for how much longer. */
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "clock.h"
#include "json.h"
#include "look.h"
#include "shown.h"
#include "term.h"

#define COMMAND "list"

/* --- for people --------------------------------------------------------------------------------------- */

#define GAP 2 /* columns between two columns of the table */
#define SPAN_COLUMNS 6
#define BAR_MIN 8
#define BAR_MAX 20
#define WAITERS_COLUMNS 7
#define NAME_MIN 5 /* "MUTEX", "OWNER" and "TOKEN" must fit */

/* Which columns there are, and how wide they are; 0: left out. */
typedef struct layout {
    int mutex, owner, bar, token;
    int note; /* the most that there is room for */
    bool waiters;
    int64_t longest_ms; /* the time that a full bar stands for */
} layout;

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

static int shown_columns(const char *text)
{
    char shown[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
    return term_columns(simba__escape(text, shown, sizeof shown));
}

/* `width` 0: the output is for a program, which wants all of it. */
static layout measure(const look *found, int width)
{
    layout l = {.mutex = NAME_MIN, .owner = NAME_MIN, .token = NAME_MIN, .longest_ms = 1};
    for (const look_row *e = found->rows; e < found->rows + found->count; e++) {
        size_t length;
        const lease_view lease = lease_look(&e->owner, found->store_ms);
        l.mutex = (int)max64(l.mutex, shown_columns(e->mutex));
        l.owner = (int)max64(l.owner, shown_columns(e->owner.id));
        l.token = (int)max64(l.token, snprintf(NULL, 0, "%" PRIu64, e->owner.token));
        l.longest_ms = lease.left_ms > l.longest_ms ? lease.left_ms : l.longest_ms;
        l.waiters |= e->waiters >= 0;
        l.note = note_for_people(e->note, e->note_length, &length) != NULL ? INT_MAX : l.note;
    }
    if (width == 0)
        return l;
    /* The bar gets the columns that the other fields leave, and a note those that the bar leaves. */
    int room = width - (l.mutex + GAP + l.owner + GAP + 3 * (SPAN_COLUMNS + GAP) +
                        (l.waiters ? WAITERS_COLUMNS + GAP : 0) + l.token + GAP);
    l.bar = room < BAR_MIN ? 0 : room > BAR_MAX ? BAR_MAX : room;
    room -= l.bar > 0 ? l.bar + GAP : 0;
    if (l.note > 0)
        l.note = room < NAME_MIN ? 0 : room;
    return l;
}

static void print_name(const term *t, const char *text, int width)
{
    char shown[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
    term_cell(t, simba__escape(text, shown, sizeof shown), width);
    fprintf(t->stream, "%*s", GAP, "");
}

/* The rest of the ttl, and behind it the rest of the transition. */
static void print_bar(const term *t, const layout *l, const lease_view *lease)
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
static void print_note(const term *t, const layout *l, const look_row *e, int token_columns)
{
    char shown[NOTE_TEXT_SIZE];
    size_t length;
    const char *note = note_for_people(e->note, e->note_length, &length);
    if (note == NULL)
        return;
    note_text(note, length, shown, sizeof shown);
    fprintf(t->stream, "%*s", l->token - token_columns + GAP, "");
    if (l->note < INT_MAX)
        term_cell(t, shown, term_columns(shown) < l->note ? term_columns(shown) : l->note);
    else
        fputs(shown, t->stream);
}

static void print_entry(const term *t, const layout *l, const look_row *e, int64_t now_ms)
{
    const lease_view lease = lease_look(&e->owner, now_ms);
    print_name(t, e->mutex, l->mutex);
    print_name(t, lease.owned ? e->owner.id : "-", l->owner);
    print_span(t, lease.held_ms);
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
    fputs(token, t->stream);
    if (l->note > 0)
        print_note(t, l, e, (int)strlen(token));
    fputc('\n', t->stream);
}

static void print_head(const term *t, const layout *l)
{
    fputs(term_on(t, TERM_BOLD), t->stream);
    print_name(t, "MUTEX", l->mutex);
    print_name(t, "OWNER", l->owner);
    fprintf(t->stream, "%6s  %6s  %6s  ", "SINCE", "TTL", "UNTIL");
    if (l->bar > 0)
        print_name(t, "TTL, TRANSITION", l->bar);
    if (l->waiters)
        fprintf(t->stream, "WAITERS%*s", GAP, "");
    fprintf(t->stream, "%-*s", l->note > 0 ? l->token + GAP : 0, "TOKEN");
    fprintf(t->stream, "%s%s\n", l->note > 0 ? "NOTE" : "", term_off(t));
}

/* --- for programs ------------------------------------------------------------------------------------- */

static void print_json(const look *l)
{
    json_writer j = {.to = stdout};
    json_open(&j, NULL, '[');
    for (const look_row *row = l->rows; row < l->rows + l->count; row++) {
        size_t length;
        const char *note = note_for_people(row->note, row->note_length, &length);
        json_line_break(&j);
        json_open(&j, NULL, '{');
        json_text(&j, "mutex", row->mutex);
        json_owner(&j, &row->owner, l->store_ms);
        json_waiters(&j, row->waiters, row->next);
        if (note == NULL)
            json_text(&j, "note", NULL);
        else
            json_bytes(&j, "note", note, length);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    putchar('\n');
}

int cmd_list(cli_globals *globals, int argc, char **argv)
{
    bool json = false;
    bool held_only = false;
    const cli_option own[] = {
        {"held", 0, CLI_FLAG, NULL, "List only mutexes that have an owner", &held_only},
        {"json", 0, CLI_FLAG, NULL, "Print an array of objects", &json},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "[PATTERN]",
        .about = "Lists the mutexes of a store whose names match the shell pattern, or all: who\n"
                 "owns each, since when, for how much longer (TTL: until it should be renewed,\n"
                 "UNTIL: until another may have it), how many wait if the store knows that,\n"
                 "the fencing token, and the note if there is one.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_URL,
        .max_operands = 1,
    };
    simba_client *client = NULL;
    globals->only_looks = true;
    const int begun = cli_begin(&syntax, globals, &argc, argv, &client);
    if (begun != CLI_GO)
        return begun;

    look *l = look_at(client, argc > 0 ? argv[0] : NULL, SIZE_MAX);
    const int code = l->code < 0 ? look_failure(COMMAND, l) : CLI_OK;
    if (code == CLI_OK)
        cli_take_warnings(); /* such as a damaged row: the list is of the others */
    if (held_only) {
        size_t kept = 0;
        for (size_t i = 0; i < l->count; i++)
            if (simba_owner_has_owner(&l->rows[i].owner, l->store_ms))
                l->rows[kept++] = l->rows[i];
        l->count = kept;
    }
    if (code == CLI_OK && json) {
        print_json(l);
    } else if (code == CLI_OK) {
        term t;
        term_open(stdout, &t);
        const layout columns = measure(l, t.is_terminal ? (int)t.width : 0);
        if (l->count > 0)
            print_head(&t, &columns);
        for (size_t i = 0; i < l->count; i++)
            print_entry(&t, &columns, &l->rows[i], l->store_ms);
    }
    look_free(l);
    return cli_close(client, code);
}
