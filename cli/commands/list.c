/* `simba list`: who has which mutex, and for how much longer. */
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "json.h"
#include "lease.h"
#include "notetext.h"
#include "term.h"
#include "util/escape.h"

#define COMMAND "list"
#define FOLLOW_S 1

typedef struct entry {
    char mutex[SIMBA_MUTEX_BYTES + 1];
    simba_owner owner;
    int64_t now_ms;
    int64_t waiters; /* -1: not known */
    char *note;      /* bytes, and a zero behind them; NULL: there is none */
    size_t note_length;
} entry;

typedef struct listing {
    entry *entries;
    size_t count;
    size_t room;
    bool held_only;
    bool out_of_memory;
} listing;

static void take_row(const simba_listing *row, void *user)
{
    listing *list = user;
    if (list->held_only && !simba_owner_has_owner(row->owner, row->now_ms))
        return;
    if (list->count == list->room) {
        const size_t room = list->room > 0 ? list->room * 2 : 64;
        entry *grown = realloc(list->entries, room * sizeof *grown);
        if (grown == NULL) {
            list->out_of_memory = true;
            return;
        }
        list->entries = grown;
        list->room = room;
    }
    entry *e = &list->entries[list->count++];
    snprintf(e->mutex, sizeof e->mutex, "%s", row->mutex);
    e->owner = *row->owner;
    e->now_ms = row->now_ms;
    e->waiters = row->waiters;
    e->note = NULL;
    e->note_length = row->note_length;
    if (row->note_length == 0)
        return;
    e->note = malloc(row->note_length + 1);
    if (e->note == NULL) {
        list->out_of_memory = true;
        return;
    }
    memcpy(e->note, row->note, row->note_length);
    e->note[row->note_length] = '\0';
}

static void empty(listing *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->entries[i].note);
    list->count = 0;
}

/* --- JSON ------------------------------------------------------------------------------------------ */

static void print_json(const listing *list)
{
    fputc('[', stdout);
    for (size_t i = 0; i < list->count; i++) {
        fputs(i > 0 ? ",\n {\"mutex\":" : "{\"mutex\":", stdout);
        json_string(stdout, list->entries[i].mutex);
        fputc(',', stdout);
        json_owner(stdout, &list->entries[i].owner, list->entries[i].now_ms);
        if (list->entries[i].waiters < 0)
            fputs(",\"waiters\":null", stdout);
        else
            printf(",\"waiters\":%" PRId64, list->entries[i].waiters);
        fputs(",\"note\":", stdout);
        if (list->entries[i].note == NULL)
            fputs("null}", stdout);
        else {
            json_bytes(stdout, list->entries[i].note, list->entries[i].note_length);
            fputc('}', stdout);
        }
    }
    fputs("]\n", stdout);
}

/* --- for people ------------------------------------------------------------------------------------ */

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

/* How the table is laid out: what there is to show, and what there is room for. */
typedef struct layout {
    int mutex, owner, bar, token; /* columns; 0: left out */
    int note;                     /* the most that there is room for; 0: left out */
    bool waiters;
    int64_t longest_ms; /* what a whole bar stands for */
} layout;

static int at_least(int least, int value)
{
    return value > least ? value : least;
}

static int shown_columns(const char *text)
{
    char shown[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
    return term_columns(simba__escape(text, shown, sizeof shown));
}

static layout measure(const listing *list)
{
    layout l = {.mutex = NAME_MIN, .owner = NAME_MIN, .token = NAME_MIN, .longest_ms = 1};
    for (size_t i = 0; i < list->count; i++) {
        const entry *e = &list->entries[i];
        const lease_view lease = lease_look(&e->owner, e->now_ms);
        l.mutex = at_least(l.mutex, shown_columns(e->mutex));
        l.owner = at_least(l.owner, shown_columns(e->owner.id));
        l.token = at_least(l.token, snprintf(NULL, 0, "%" PRIu64, e->owner.token));
        l.longest_ms = lease.left_ms > l.longest_ms ? lease.left_ms : l.longest_ms;
        l.waiters |= e->waiters >= 0;
        l.note = e->note != NULL ? INT_MAX : l.note;
    }
    return l;
}

static int columns_without_names(const layout *l)
{
    return 3 * (SPAN_COLUMNS + GAP) + (l->bar > 0 ? l->bar + GAP : 0) + (l->waiters ? WAITERS_COLUMNS + GAP : 0) +
           l->token;
}

static int columns(const layout *l)
{
    return l->mutex + GAP + l->owner + GAP + columns_without_names(l);
}

/* A line that is too long for its terminal breaks, and takes the next ones out of their places: the bar takes what the
 * rest leaves to it, and goes first. */
static void add_bar(layout *l, int width)
{
    const int room = width - columns(l) - GAP;
    l->bar = room < BAR_MIN ? 0 : room > BAR_MAX ? BAR_MAX : room;
}

/* A picture that is drawn in place may have no line that breaks: it does without numbers, then names are cut. */
static void squeeze(layout *l, int width)
{
    if (columns(l) > width)
        l->token = 0;
    if (columns(l) > width)
        l->waiters = false;
    const int room = at_least(2 * NAME_MIN, width - columns_without_names(l) - 2 * GAP);
    if (l->mutex + l->owner <= room)
        return;
    /* Who needs less than half leaves the rest to the other. */
    const int half = room / 2;
    if (l->mutex <= half)
        l->owner = room - l->mutex;
    else if (l->owner <= half)
        l->mutex = room - l->owner;
    else
        l->mutex = l->owner = half;
}

/* A note has what the rest leaves to it. */
static void fit_note(layout *l, int width)
{
    const int room = width - columns(l) - GAP;
    if (l->note > 0)
        l->note = room < NAME_MIN ? 0 : room;
}

static void print_name(const term *t, const char *text, int width)
{
    char shown[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
    term_cell(t, simba__escape(text, shown, sizeof shown), width);
    printf("%*s", GAP, "");
}

/* What is left of the ttl, and behind it of the transition. */
static void print_bar(const term *t, const layout *l, const lease_view *lease)
{
    int ttl = 0;
    int all = 0;
    if (lease->left_ms != LEASE_UNKNOWN) {
        ttl = (int)((double)lease->ttl_left_ms / (double)l->longest_ms * l->bar);
        all = (int)((double)lease->left_ms / (double)l->longest_ms * l->bar);
    }
    assert(ttl <= all && all <= l->bar);
    fputs(term_on(t, TERM_GREEN), stdout);
    for (int i = 0; i < ttl; i++)
        fputs(term_pick(t, "█", "#"), stdout);
    printf("%s%s", term_off(t), term_on(t, TERM_YELLOW));
    for (int i = ttl; i < all; i++)
        fputs(term_pick(t, "▒", "="), stdout);
    printf("%s%*s", term_off(t), l->bar - all + GAP, "");
}

static void print_span(int64_t ms)
{
    char text[32];
    format_span(text, sizeof text, ms);
    printf("%*s%*s", SPAN_COLUMNS, text, GAP, "");
}

/* The last column: as much of it as fits, if that matters. */
static void print_note(const term *t, const layout *l, const entry *e, int token_columns)
{
    char shown[NOTE_TEXT_SIZE];
    note_text(e->note, e->note_length, shown, sizeof shown);
    if (l->token > 0)
        printf("%*s", l->token - token_columns + GAP, "");
    if (l->note < INT_MAX)
        term_cell(t, shown, term_columns(shown) < l->note ? term_columns(shown) : l->note);
    else
        fputs(shown, stdout);
}

static void print_entry(const term *t, const layout *l, const entry *e)
{
    const lease_view lease = lease_look(&e->owner, e->now_ms);
    print_name(t, e->mutex, l->mutex);
    print_name(t, lease.owned ? e->owner.id : "-", l->owner);
    print_span(lease.held_ms);
    print_span(lease.ttl_left_ms);
    print_span(lease.left_ms);
    if (l->bar > 0)
        print_bar(t, l, &lease);
    if (l->waiters)
        printf("%*" PRId64 "%*s", WAITERS_COLUMNS, e->waiters, GAP, "");
    char token[24] = "-";
    if (lease.owned)
        snprintf(token, sizeof token, "%" PRIu64, e->owner.token);
    if (l->token > 0)
        fputs(token, stdout);
    if (l->note > 0 && e->note != NULL)
        print_note(t, l, e, (int)strlen(token));
    fputc('\n', stdout);
}

static void print_head(const term *t, const layout *l)
{
    fputs(term_on(t, TERM_BOLD), stdout);
    print_name(t, "MUTEX", l->mutex);
    print_name(t, "OWNER", l->owner);
    printf("%6s  %6s  %6s  ", "SINCE", "TTL", "UNTIL");
    if (l->bar > 0)
        print_name(t, "TTL, TRANSITION", l->bar);
    if (l->waiters)
        printf("WAITERS%*s", GAP, "");
    if (l->token > 0)
        printf("%-*s", l->note > 0 ? l->token + GAP : 0, "TOKEN");
    printf("%s%s\n", l->note > 0 ? "NOTE" : "", term_off(t));
}

/* At most so many of them. */
static void print_table(const term *t, const listing *list, const layout *l, size_t most)
{
    const size_t shown = list->count < most ? list->count : most;
    if (list->count == 0)
        return;
    print_head(t, l);
    for (size_t i = 0; i < shown; i++)
        print_entry(t, l, &list->entries[i]);
    if (shown < list->count)
        printf("and %zu more\n", list->count - shown);
}

/* --- asking ---------------------------------------------------------------------------------------- */

static int ask(simba_client *client, const char *pattern, listing *list, simba_error *error)
{
    empty(list);
    int code = simba_client_list(client, pattern, take_row, list, error);
    if (code == 0 && list->out_of_memory) {
        code = SIMBA_ENOMEM;
        *error = (simba_error){code, ""};
    }
    return code;
}

static void draw_warning(void *user, const char *line)
{
    term_wrap(user, TERM_YELLOW, 0, line);
}

/* One picture in place of the one before. */
static void draw(const listing *list, const simba_error *error)
{
    term t;
    term_open(stdout, &t);
    fputs("\033[H\033[J", stdout);
    if (error->code < 0)
        term_wrap(&t, TERM_RED, 0, error->text);
    else if (list->count == 0)
        puts("No mutex.");
    layout l = measure(list);
    add_bar(&l, (int)t.width);
    squeeze(&l, (int)t.width);
    fit_note(&l, (int)t.width);
    print_table(&t, list, &l, t.height > 4 ? t.height - 3 : 1);
    if (error->code == 0)
        cli_take_warnings(draw_warning, &t);
    fflush(stdout);
}

/* Until a signal ends the process, as it does by itself: nothing is held. A store that does not answer is a line on the
 * screen. */
static int follow(simba_client *client, const char *pattern, listing *list)
{
    const struct timespec pause = {.tv_sec = FOLLOW_S};
    while (!ferror(stdout)) {
        simba_error error = {0, ""};
        error.code = ask(client, pattern, list, &error);
        draw(list, &error);
        nanosleep(&pause, NULL);
    }
    return CLI_FAILED;
}

static int print_once(simba_client *client, const char *pattern, listing *list, bool json)
{
    simba_error error = {0, ""};
    if (ask(client, pattern, list, &error) < 0)
        return cli_failure(COMMAND, &error);
    cli_take_warnings(NULL, NULL); /* such as a damaged row: the list is of the others */
    if (json) {
        print_json(list);
        return CLI_OK;
    }
    term t;
    term_open(stdout, &t);
    layout l = measure(list);
    if (t.is_terminal) {
        add_bar(&l, (int)t.width);
        fit_note(&l, (int)t.width);
    }
    print_table(&t, list, &l, SIZE_MAX);
    return CLI_OK;
}

int cmd_list(cli_globals *globals, int argc, char **argv)
{
    bool json = false;
    bool following = false;
    bool held_only = false;
    const cli_option own[] = {
        {"held", 0, CLI_FLAG, NULL, "Only those that somebody holds", &held_only},
        {"follow", 'f', CLI_FLAG, NULL, "Draw it anew every second, on a terminal", &following},
        {"json", 0, CLI_FLAG, NULL, "Print an array of objects", &json},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "[PATTERN]",
        .about = "Lists the mutexes of a store whose names match the shell pattern, or all: who\n"
                 "owns each, since when, for how much longer (TTL: until it should be renewed,\n"
                 "UNTIL: until somebody else may have it), how many wait where the store knows\n"
                 "that, under which fencing token, and the note if there is one.",
        .options = own,
        .option_count = sizeof own / sizeof own[0],
        .takes = CLI_TAKES_URL,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (following && (json || isatty(STDOUT_FILENO) != 1))
        return cli_usage_error(COMMAND,
                               "--follow draws on a terminal; `simba watch --json` tells a program of changes");
    globals->quiet = true; /* what fails is said once, or drawn */
    simba_client *client = NULL;
    const int opened = cli_open(COMMAND, globals, &client);
    if (opened != CLI_GO)
        return opened;

    listing list = {.held_only = held_only};
    const char *pattern = argc > 0 ? argv[0] : NULL;
    const int code = following ? follow(client, pattern, &list) : print_once(client, pattern, &list, json);
    empty(&list);
    free(list.entries);
    return cli_close(client, code);
}
