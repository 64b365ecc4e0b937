/* `simba schedule --list`: prints the schedules of a store, as the notes of its mutexes record them. */
#include <stdio.h>
#include <string.h>

#include "commands/schedule.h"
#include "json.h"
#include "term.h"
#include "util/escape.h"
#include "when.h"

#define COMMAND "schedule"

typedef struct listing {
    bool json;
    term t;
    size_t count;
} listing;

static const char *result_of(const simba_schedule_info *info, char text[WHEN_SIZE])
{
    const bool once = strncmp(info->when, "once ", 5) == 0;
    if (info->begun_at_ms == 0)
        return "-";
    if (info->ended_at_ms == 0)
        return once ? "begun" : "unfinished";
    snprintf(text, WHEN_SIZE, info->result == 0 ? "ok" : "failed (%d)", info->result);
    return text;
}

static void print_json(const listing *l, const char *mutex, const simba_schedule_info *info)
{
    fputs(l->count > 0 ? ",\n {\"mutex\":" : "[{\"mutex\":", stdout);
    json_string(stdout, mutex);
    fputs(",\"when\":", stdout);
    json_string(stdout, info->when);
    fputc(',', stdout);
    json_run(stdout, info);
    fputc(',', stdout);
    json_when(stdout, "next", info->next_at_ms);
    fputc('}', stdout);
}

static void print_line(const listing *l, const char *mutex, const simba_schedule_info *info)
{
    char name[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES) + 8];
    char last[WHEN_SIZE];
    char next[WHEN_SIZE];
    char result[WHEN_SIZE];
    if (l->count == 0)
        printf("%s%-24s  %-24s  %-12s  %-24s  WHEN%s\n", term_on(&l->t, TERM_BOLD), "MUTEX", "LAST", "RESULT", "NEXT",
               term_off(&l->t));
    printf("%-24s  %-24s  %-12s  %-24s  %s\n", simba__escape(mutex, name, sizeof name),
           when_utc(info->begun_at_ms, last), result_of(info, result), when_utc(info->next_at_ms, next), info->when);
}

static void take_row(const simba_listing *row, void *user)
{
    listing *l = user;
    simba_schedule_info info = SIMBA_SCHEDULE_INFO_INIT;
    simba_error error = {0, ""};
    const int code = simba_schedule_read(row->note, row->note_length, &error, &info);
    if (code == SIMBA_ENOTFOUND)
        return;
    if (code < 0) {
        cli_warn(COMMAND, "%s: %s.", row->mutex, error.text);
        return;
    }
    if (l->json)
        print_json(l, row->mutex, &info);
    else
        print_line(l, row->mutex, &info);
    l->count++;
}

int schedule_list(cli_globals *globals, const char *pattern, bool json)
{
    listing l = {.json = json};
    simba_client *client = NULL;
    simba_error error = {0, ""};
    globals->quiet = true;
    const int opened = cli_open(COMMAND, globals, &client);
    if (opened != CLI_GO)
        return opened;
    term_open(stdout, &l.t);
    const int code =
        simba_client_list(client, pattern, take_row, &l, &error) < 0 ? cli_failure(COMMAND, &error) : CLI_OK;
    if (json && code == CLI_OK)
        puts(l.count > 0 ? "]" : "[]");
    return cli_close(client, code);
}
