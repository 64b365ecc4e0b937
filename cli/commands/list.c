/* `simba list`: who has which mutex, and for how much longer. */
#include <stdio.h>

#include "cli.h"
#include "json.h"
#include "notetext.h"
#include "table.h"

#define COMMAND "list"

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

static void leave_out_free(look *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++)
        if (simba_owner_has_owner(&l->rows[i].owner, l->store_ms))
            l->rows[kept++] = l->rows[i];
    l->count = kept;
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
        cli_take_warnings(NULL, NULL); /* such as a damaged row: the list is of the others */
    if (held_only)
        leave_out_free(l);
    if (code == CLI_OK && json)
        print_json(l);
    else if (code == CLI_OK)
        table_show(l);
    look_free(l);
    return cli_close(client, code);
}
