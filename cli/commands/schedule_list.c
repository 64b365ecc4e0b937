/* `simba schedule --list`: prints the schedules of a store, as the notes of its mutexes record them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands/schedule.h"
#include "json.h"
#include "look.h"
#include "term.h"
#include "util/escape.h"
#include "when.h"

#define COMMAND "schedule"

static const char *result_of(const simba_schedule_info *info, char text[WHEN_SIZE])
{
    if (info->begun_at_ms == 0)
        return "-";
    if (info->ended_at_ms == 0)
        return "unfinished";
    snprintf(text, WHEN_SIZE, info->result == 0 ? "ok" : "failed (%d)", info->result);
    return text;
}

/* "every 3600000" → "every 1h", as --every takes it; the words of cron stay as they are. */
static const char *plan_of(const simba_schedule_info *info, char text[sizeof info->when])
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    size_t unit = 0;
    int words = 0;
    int64_t ms = 0;
    if (sscanf(info->when, "every %n%" SCNd64, &words, &ms) != 1 &&
        sscanf(info->when, "once per %n%" SCNd64, &words, &ms) != 1)
        return info->when;
    while (ms % units[unit].ms != 0)
        unit++;
    snprintf(text, sizeof info->when, "%.*s%" PRId64 "%s", words, info->when, ms / units[unit].ms, units[unit].name);
    return text;
}

static void print_json(json_writer *j, const char *mutex, const simba_schedule_info *info)
{
    json_line_break(j);
    json_open(j, NULL, '{');
    json_text(j, "mutex", mutex);
    json_text(j, "when", info->when);
    json_run(j, info);
    json_when(j, "next", info->next_at_ms);
    json_close(j, '}');
}

static void print_line(const term *t, size_t number, const char *mutex, const simba_schedule_info *info)
{
    char name[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES) + 8];
    char last[WHEN_SIZE];
    char ended[WHEN_SIZE];
    char next[WHEN_SIZE];
    char result[WHEN_SIZE];
    char plan[sizeof info->when];
    if (number == 0)
        printf("%s%-24s  %-24s  %-24s  %-12s  %-24s  WHEN%s\n", term_on(t, TERM_BOLD), "MUTEX", "LAST", "ENDED",
               "RESULT", "NEXT", term_off(t));
    printf("%-24s  %-24s  %-24s  %-12s  %-24s  %s\n", simba__escape(mutex, name, sizeof name),
           when_utc(info->begun_at_ms, last), when_utc(info->ended_at_ms, ended), result_of(info, result),
           when_utc(info->next_at_ms, next), plan_of(info, plan));
}

static void print_all(const look *l, bool json)
{
    term t;
    size_t count = 0;
    json_writer j = {.to = stdout};
    term_open(stdout, &t);
    if (json)
        json_open(&j, NULL, '[');
    for (const look_row *row = l->rows; row < l->rows + l->count; row++) {
        simba_schedule_info info = SIMBA_SCHEDULE_INFO_INIT;
        simba_error error = {0, ""};
        const int code = simba_schedule_read(row->note, row->note_length, &error, &info);
        if (code < 0 && code != SIMBA_ENOTFOUND)
            cli_warn(COMMAND, "%s: %s.", row->mutex, error.text);
        else if (code == 0 && json)
            print_json(&j, row->mutex, &info);
        else if (code == 0)
            print_line(&t, count++, row->mutex, &info);
    }
    if (json)
        puts("]");
}

int schedule_list(cli_globals *globals, const char *pattern, bool json)
{
    simba_client *client = NULL;
    globals->quiet = true;
    globals->only_looks = true;
    const int opened = cli_open(COMMAND, globals, &client);
    if (opened != CLI_GO)
        return opened;
    look *l = look_at(client, pattern, SIZE_MAX);
    const int code = l->code < 0 ? look_failure(COMMAND, l) : CLI_OK;
    if (code == CLI_OK)
        print_all(l, json);
    look_free(l);
    return cli_close(client, code);
}
