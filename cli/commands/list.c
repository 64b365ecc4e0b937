/* `simba list`: who has which mutex, and for how much longer. */
#include <stdio.h>
#include <stdlib.h>

#include "json.h"
#include "table.h"

#define COMMAND "list"

static void print_json(const listing *list)
{
    fputc('[', stdout);
    for (size_t i = 0; i < list->count; i++) {
        fputs(i > 0 ? ",\n {\"mutex\":" : "{\"mutex\":", stdout);
        json_string(stdout, list->entries[i].mutex);
        fputc(',', stdout);
        json_owner(stdout, &list->entries[i].owner, list->entries[i].now_ms);
        json_line(stdout, list->entries[i].waiters, list->entries[i].next[0] != '\0' ? list->entries[i].next : NULL);
        fputs(",\"note\":", stdout);
        if (list->entries[i].note == NULL)
            fputs("null", stdout);
        else
            json_bytes(stdout, list->entries[i].note, list->entries[i].note_length);
        fputc('}', stdout);
    }
    fputs("]\n", stdout);
}

static int print_once(simba_client *client, const char *pattern, listing *list, bool json)
{
    simba_error error = {0, ""};
    if (listing_ask(client, pattern, list, &error) < 0)
        return cli_failure(COMMAND, &error);
    cli_take_warnings(NULL, NULL); /* such as a damaged row: the list is of the others */
    if (json) {
        print_json(list);
        return CLI_OK;
    }
    term t;
    term_open(stdout, &t);
    table_layout l = table_measure(list);
    if (t.is_terminal) {
        table_add_bar(&l, (int)t.width);
        table_fit_note(&l, (int)t.width);
    }
    table_print(&t, list, &l, 0, SIZE_MAX);
    return CLI_OK;
}

int cmd_list(cli_globals *globals, int argc, char **argv)
{
    bool json = false;
    bool held_only = false;
    const cli_option own[] = {
        {"held", 0, CLI_FLAG, NULL, "List only mutexes that somebody holds", &held_only},
        {"json", 0, CLI_FLAG, NULL, "Print an array of objects", &json},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "[PATTERN]",
        .about = "Lists the mutexes of a store whose names match the shell pattern, or all: who\n"
                 "owns each, since when, for how much longer (TTL: until it should be renewed,\n"
                 "UNTIL: until somebody else may have it), how many wait if the store knows that,\n"
                 "the fencing token, and the note if there is one.",
        .options = own,
        .option_count = sizeof own / sizeof own[0],
        .takes = CLI_TAKES_URL,
        .max_operands = 1,
    };
    simba_client *client = NULL;
    const int begun = cli_begin(&syntax, globals, &argc, argv, &client);
    if (begun != CLI_GO)
        return begun;

    listing list = {.held_only = held_only};
    const char *pattern = argc > 0 ? argv[0] : NULL;
    const int code = print_once(client, pattern, &list, json);
    listing_free(&list);
    return cli_close(client, code);
}
