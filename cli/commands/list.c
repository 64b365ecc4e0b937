/* `simba list`: who has which mutex, and for how much longer. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "json.h"
#include "signals.h"
#include "term.h"

#define COMMAND "list"
#define BAR_COLUMNS 20
#define FOLLOW_MS 1000

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

/* A session has no end of its own: nothing can be said about what is left of it. */
static int64_t left_ms(int64_t at_ms, int64_t now_ms)
{
    return at_ms > now_ms && at_ms != INT64_MAX ? at_ms - now_ms : 0;
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
        if (e->owner.transition_at_ms != INT64_MAX) {
            format_span(ttl, sizeof ttl, ttl_ms);
            format_span(transition, sizeof transition, transition_ms);
        }
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

/* At most so many of them. */
static void print_table(const listing *list, size_t most)
{
    term t;
    term_open(stdout, &t);
    const bool bars = t.is_terminal;
    const widths w = measure(list);
    const size_t shown = list->count < most ? list->count : most;
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
    for (size_t i = 0; i < shown; i++)
        print_entry(&t, &w, &list->entries[i], bars);
    if (shown < list->count)
        printf("and %zu more\n", list->count - shown);
}

/* --- asking ---------------------------------------------------------------------------------------- */

static int ask(simba_client *client, const char *pattern, listing *list, simba_error *error)
{
    list->count = 0;
    int code = simba_client_list(client, pattern, take_row, list, error);
    if (code == 0 && list->out_of_memory) {
        code = SIMBA_ENOMEM;
        *error = (simba_error){code, ""};
    }
    return code;
}

/* One picture in place of the one before. */
static void draw(const listing *list, const simba_error *error)
{
    term t;
    term_open(stdout, &t);
    fputs("\033[H\033[J", stdout);
    if (error->code < 0)
        printf("%s%s%s\n", term_on(&t, TERM_RED), error->text, term_off(&t));
    else if (list->count == 0)
        puts("No mutex.");
    print_table(list, t.height > 4 ? t.height - 3 : 1);
    fflush(stdout);
}

/* Until a signal ends it. A store that does not answer is a line on the screen. */
static int follow(simba_client *client, const char *pattern, listing *list, const cli_signals *signals)
{
    struct pollfd waiting = {.fd = signals->fd, .events = POLLIN};
    for (;;) {
        simba_error error = {0, ""};
        error.code = ask(client, pattern, list, &error);
        draw(list, &error);
        const int number = poll(&waiting, 1, FOLLOW_MS) == 1 ? signals_read(signals) : 0;
        if (signals_is_ending(number))
            return CLI_SIGNAL + number;
        if (number == SIGTSTP)
            raise(SIGSTOP);
        if (ferror(stdout))
            return CLI_FAILED;
    }
}

static int print_once(simba_client *client, const char *pattern, listing *list, bool json)
{
    simba_error error = {0, ""};
    if (ask(client, pattern, list, &error) < 0)
        return cli_failure(COMMAND, &error);
    if (json)
        print_json(list);
    else
        print_table(list, SIZE_MAX);
    return CLI_OK;
}

int cmd_list(cli_globals *globals, int argc, char **argv)
{
    bool json = false;
    bool following = false;
    const cli_option own[] = {
        {"follow", 'f', CLI_FLAG, NULL, "Draw it anew every second, on a terminal", &following},
        {"json", 0, CLI_FLAG, NULL, "Print an array of objects", &json},
    };
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
    if (following && (json || isatty(STDOUT_FILENO) != 1))
        return cli_usage_error(COMMAND,
                               "--follow draws on a terminal; `simba watch --json` tells a program of changes");
    cli_signals signals;
    if (following && signals_open(&signals) < 0) {
        fprintf(stderr, "simba list: signals cannot be listened to: %s.\n", strerror(errno));
        return CLI_FAILED;
    }
    globals->quiet = true; /* what fails is said once, or drawn */
    simba_client *client = NULL;
    const int opened = cli_open(COMMAND, globals, &client);
    if (opened != CLI_GO)
        return opened;

    listing list = {NULL, 0, 0, false};
    const char *pattern = argc > 0 ? argv[0] : NULL;
    const int code = following ? follow(client, pattern, &list, &signals) : print_once(client, pattern, &list, json);
    simba_client_close(client);
    free(list.entries);
    return code;
}
