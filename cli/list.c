/* `simba list`: who has which mutex, and for how much longer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "term.h"

#define COMMAND "list"
#define BAR_COLUMNS 20

typedef struct entry {
    char mutex[SIMBA_MUTEX_BYTES + 1];
    simba_owner owner;
    int64_t now_ms;
    int64_t waiters; /* -1: not known */
} entry;

typedef struct listing {
    entry *entries;
    size_t count;
    size_t room;
    bool out_of_memory;
} listing;

static void take_row(const simba_listing *row, void *user)
{
    listing *list = user;
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
            fputs(",\"waiters\":null}", stdout);
        else
            printf(",\"waiters\":%" PRId64 "}", list->entries[i].waiters);
    }
    fputs("]\n", stdout);
}

/* --- for people ------------------------------------------------------------------------------------ */

static void format_span(char *text, size_t size, int64_t ms)
{
    if (ms < 10000)
        snprintf(text, size, "%" PRId64 ".%" PRId64 "s", ms / 1000, ms % 1000 / 100);
    else if (ms < 120000)
        snprintf(text, size, "%" PRId64 "s", ms / 1000);
    else if (ms < 7200000)
        snprintf(text, size, "%" PRId64 "m", ms / 60000);
    else
        snprintf(text, size, "%" PRId64 "h", ms / 3600000);
}

/* Columns that a text takes on the screen, near enough: its characters. */
static int columns_of(const char *text)
{
    int columns = 0;
    for (; *text != '\0'; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

static void print_padded(const char *text, int width)
{
    printf("%s%*s  ", text, width > columns_of(text) ? width - columns_of(text) : 0, "");
}

typedef struct widths {
    int mutex;
    int owner;
    int64_t longest_ms; /* what a whole bar stands for */
    bool waiters;       /* the store knows them */
} widths;

static int64_t left_ms(int64_t at_ms, int64_t now_ms)
{
    return at_ms > now_ms ? at_ms - now_ms : 0;
}

static widths measure(const listing *list)
{
    widths w = {.mutex = 5, .owner = 5, .longest_ms = 1};
    for (size_t i = 0; i < list->count; i++) {
        const entry *e = &list->entries[i];
        const int64_t left = left_ms(e->owner.transition_at_ms, e->now_ms);
        w.mutex = columns_of(e->mutex) > w.mutex ? columns_of(e->mutex) : w.mutex;
        w.owner = columns_of(e->owner.id) > w.owner ? columns_of(e->owner.id) : w.owner;
        w.longest_ms = left > w.longest_ms ? left : w.longest_ms;
        w.waiters |= e->waiters >= 0;
    }
    return w;
}

/* What is left of the ttl, and behind it of the transition. */
static void print_bar(const term *t, const widths *w, int64_t ttl_ms, int64_t transition_ms)
{
    const int ttl = (int)(ttl_ms * BAR_COLUMNS / w->longest_ms);
    const int all = (int)(transition_ms * BAR_COLUMNS / w->longest_ms);
    fputs(term_on(t, TERM_GREEN), stdout);
    for (int i = 0; i < ttl; i++)
        fputs(term_pick(t, "█", "#"), stdout);
    printf("%s%s", term_off(t), term_on(t, TERM_YELLOW));
    for (int i = ttl; i < all; i++)
        fputs(term_pick(t, "▒", "="), stdout);
    printf("%s%*s  ", term_off(t), BAR_COLUMNS - all, "");
}

static void print_entry(const term *t, const widths *w, const entry *e, bool bars)
{
    char held[32] = "-";
    char ttl[32] = "-";
    char transition[32] = "-";
    char token[32] = "-";
    const bool owned = simba_owner_has_owner(&e->owner, e->now_ms);
    const int64_t ttl_ms = owned ? left_ms(e->owner.ttl_at_ms, e->now_ms) : 0;
    const int64_t transition_ms = owned ? left_ms(e->owner.transition_at_ms, e->now_ms) : 0;
    if (owned) {
        format_span(held, sizeof held, e->now_ms - e->owner.acquired_at_ms);
        format_span(ttl, sizeof ttl, ttl_ms);
        format_span(transition, sizeof transition, transition_ms);
        snprintf(token, sizeof token, "%" PRIu64, e->owner.token);
    }
    print_padded(e->mutex, w->mutex);
    print_padded(owned ? e->owner.id : "-", w->owner);
    printf("%6s  %6s  %6s  ", held, ttl, transition);
    if (bars)
        print_bar(t, w, ttl_ms, transition_ms);
    if (w->waiters)
        printf("%7" PRId64 "  ", e->waiters);
    printf("%s\n", token);
}

static void print_table(const listing *list)
{
    term t;
    term_open(stdout, &t);
    const bool bars = t.is_terminal;
    const widths w = measure(list);
    if (list->count == 0)
        return;
    fputs(term_on(&t, TERM_BOLD), stdout);
    print_padded("MUTEX", w.mutex);
    print_padded("OWNER", w.owner);
    printf("%6s  %6s  %6s  ", "SINCE", "TTL", "UNTIL");
    if (bars)
        printf("%-*s  ", BAR_COLUMNS, "TTL, TRANSITION");
    if (w.waiters)
        printf("WAITERS  ");
    printf("TOKEN%s\n", term_off(&t));
    for (size_t i = 0; i < list->count; i++)
        print_entry(&t, &w, &list->entries[i], bars);
}

int cmd_list(cli_globals *globals, int argc, char **argv)
{
    bool json = false;
    const cli_option own[] = {{"json", 0, CLI_FLAG, NULL, "Print an array of objects", &json}};
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "[PATTERN]",
        .about = "Lists the mutexes of a store whose names match the shell pattern, or all: who\n"
                 "owns each, since when, for how much longer (TTL: until it should be renewed,\n"
                 "UNTIL: until somebody else may have it), how many wait where the store knows\n"
                 "that, and under which fencing token.",
        .options = own,
        .option_count = sizeof own / sizeof own[0],
        .takes = CLI_TAKES_URL,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    simba_client *client = NULL;
    const int opened = cli_open(COMMAND, globals, &client);
    if (opened != CLI_GO)
        return opened;

    listing list = {NULL, 0, 0, false};
    simba_error error = {0, ""};
    int code = simba_client_list(client, argc > 0 ? argv[0] : NULL, take_row, &list, &error);
    simba_client_close(client);
    if (code == 0 && list.out_of_memory) {
        error = (simba_error){SIMBA_ENOMEM, ""};
        code = SIMBA_ENOMEM;
    }
    if (code == 0 && json)
        print_json(&list);
    else if (code == 0)
        print_table(&list);
    free(list.entries);
    return code == 0 ? CLI_OK : cli_failure(COMMAND, &error);
}
