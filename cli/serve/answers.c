/* See answers.h. */
#include "answers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "json.h"

static void put_time(FILE *to, const char *name, int64_t wall_ms)
{
    struct tm parts;
    char text[32];
    const time_t seconds = (time_t)(wall_ms / 1000);
    gmtime_r(&seconds, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    fprintf(to, "\"%s\":\"%s.%03dZ\"", name, text, (int)(wall_ms % 1000));
}

void answer_revision(FILE *to, const answers *a, uint64_t revision)
{
    fprintf(to, "%s-%" PRIu64, a->instance, revision);
}

bool answers_parse_revision(const answers *a, const char *text, uint64_t *ret_revision)
{
    const size_t length = strlen(a->instance);
    if (strncmp(text, a->instance, length) != 0 || text[length] != '-')
        return false;
    const char *digits = text + length + 1;
    const size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > 18 || digits[count] != '\0')
        return false;
    *ret_revision = strtoull(digits, NULL, 10);
    return *ret_revision <= a->t->revision;
}

void answer_store(FILE *to, const answers *a)
{
    const table *t = a->t;
    fputs("{\"url\":", to);
    json_string(to, simba_client_url(a->client));
    /* Before the first answer nothing is known to be wrong, but nothing to be right either. */
    fprintf(to, ",\"answers\":%s,", t->answers ? "true" : "false");
    if (t->since_ms > 0)
        put_time(to, "since", t->since_ms);
    else
        fputs("\"since\":null", to);
    fputc(',', to);
    json_text(to, "error", t->answers || t->since_ms == 0 ? NULL : t->error);
    if (t->was_answered) {
        fprintf(to, ",\"age_ms\":%" PRId64 ",", clock_read_ms(CLOCK_MONOTONIC) - t->mono_ms);
        put_time(to, "watched_since", t->watched_since_ms);
    } else {
        fputs(",\"age_ms\":null,\"watched_since\":null", to);
    }
    fprintf(to, ",\"mutexes\":%" PRIu64 ",\"owned\":%" PRIu64 ",\"overdue\":%" PRIu64 ",\"truncated\":%s}", t->present,
            t->owned, t->overdue, t->truncated ? "true" : "false");
}

void answer_row(FILE *to, const answers *a, const table_row *row)
{
    fputs("{\"mutex\":", to);
    json_string(to, row->mutex);
    fputc(',', to);
    json_owner(to, &row->owner, a->t->store_ms);
    json_line(to, row->waiters, row->next);
    fputs(",\"note\":", to);
    const size_t record_length = row->runs != NULL ? row->runs->record_length : 0;
    if (row->note_length == record_length)
        fputs("null", to);
    else
        json_bytes(to, row->note + record_length, row->note_length - record_length);
    if (!row->is_present)
        fputs(",\"gone\":true", to);
    fputc('}', to);
}

static void put_holder(FILE *to, const char *name, const simba_owner *owner)
{
    fprintf(to, ",\"%s\":", name);
    if (simba_owner_is_none(owner)) {
        fputs("null", to);
        return;
    }
    fputc('{', to);
    json_text(to, "id", owner->id);
    fputc(',', to);
    json_token(to, &owner->token);
    fputc('}', to);
}

void answer_change(FILE *to, const answers *a, const table_change *change)
{
    fputs("{\"revision\":\"", to);
    answer_revision(to, a, change->revision);
    fputs("\",", to);
    put_time(to, "at", change->at_ms);
    fprintf(to, ",\"kind\":\"%s\",", table_kind_name(change->kind));
    json_text(to, "mutex", change->row != NULL ? change->row->mutex : NULL);
    put_holder(to, "before", &change->before);
    put_holder(to, "after", &change->after);
    json_span(to, "held_ms", change->held_ms);
    fputc('}', to);
}

void answer_list_begin(FILE *to, const answers *a)
{
    fputs("{\"revision\":\"", to);
    answer_revision(to, a, a->t->revision);
    fprintf(to, "\",\"version\":\"%s\",\"can_release\":%s,\"mutexes\":[", simba_version(),
            a->can_release ? "true" : "false");
}

void answer_list_end(FILE *to, const answers *a)
{
    fputs("],\"store\":", to);
    answer_store(to, a);
    fputs("}\n", to);
}

static void put_run(FILE *to, const run *r)
{
    fputc('{', to);
    json_run(to, &(simba_schedule_info){.due_at_ms = r->due_ms,
                                        .begun_at_ms = r->begun_ms,
                                        .ended_at_ms = r->ended_ms,
                                        .result = r->result,
                                        .missed = r->missed});
    fputc('}', to);
}

static void put_schedule(FILE *to, const runs *r)
{
    if (r == NULL) {
        fputs(",\"schedule\":null", to);
        return;
    }
    fputs(",\"schedule\":{\"when\":", to);
    json_string(to, r->schedule.when);
    fputc(',', to);
    json_when(to, "next", r->schedule.next_at_ms);
    fputs(",\"runs\":[", to);
    for (unsigned i = 0; i < r->count; i++) {
        if (i > 0)
            fputc(',', to);
        put_run(to, &r->last[i]);
    }
    fputs("]}", to);
}

void answer_mutex(FILE *to, const answers *a, const table_row *row)
{
    const table_change *change;
    bool is_first = true;
    fputs("{\"revision\":\"", to);
    answer_revision(to, a, a->t->revision);
    fputs("\",\"state\":", to);
    answer_row(to, a, row);
    fputs(",\"history\":[", to);
    TAILQ_FOREACH (change, &row->changes, in_row) {
        if (!is_first)
            fputc(',', to);
        is_first = false;
        answer_change(to, a, change);
    }
    fputc(']', to);
    put_schedule(to, row->runs);
    fputs(",\"store\":", to);
    answer_store(to, a);
    fputs("}\n", to);
}

/* --- metrics ----------------------------------------------------------------------------------------- */

static void put_gauge(FILE *to, const char *name, const char *help, double value)
{
    fprintf(to, "# TYPE %s gauge\n# HELP %s %s\n%s %.15g\n", name, name, help, name, value);
}

static void put_changes(FILE *to, const table *t)
{
    fputs("# TYPE simba_store_changes counter\n"
          "# HELP simba_store_changes Changes that simba serve has seen, by kind.\n",
          to);
    for (table_kind kind = 0; kind < TABLE_KIND_COUNT; kind++)
        fprintf(to, "simba_store_changes_total{kind=\"%s\"} %" PRIu64 "\n", table_kind_name(kind), t->counts[kind]);
}

void answer_metrics(FILE *to, const answers *a)
{
    static char text[32768]; /* one client, as simba_stats_write says, and twice that */
    const table *t = a->t;
    simba_stats stats = SIMBA_STATS_INIT;
    const simba_stats *all[] = {&stats};
    if (simba_client_stats(a->client, &stats) == 0 &&
        simba_stats_write(all, NULL, 1, SIMBA_STATS_MORE, text, sizeof text) < (int)sizeof text)
        fputs(text, to);
    put_gauge(to, "simba_store_up", "Whether the store answered when it was last asked.", t->answers);
    if (t->was_answered) {
        const int64_t age_ms = clock_read_ms(CLOCK_MONOTONIC) - t->mono_ms;
        put_gauge(to, "simba_store_age_seconds", "How old what is known of the store is.", (double)age_ms / 1e3);
        put_gauge(to, "simba_store_list_seconds", "How long the store took to list its mutexes.",
                  (double)t->took_ms / 1e3);
        put_gauge(to, "simba_store_mutexes", "Mutexes that the store has.", (double)t->present);
        put_gauge(to, "simba_store_owned", "Mutexes that somebody owns.", (double)t->owned);
        put_gauge(to, "simba_store_overdue", "Mutexes whose owner should have renewed its lease, and did not.",
                  (double)t->overdue);
        if (t->waiters >= 0)
            put_gauge(to, "simba_store_waiters", "Contenders that wait, where the store knows.", (double)t->waiters);
    }
    put_changes(to, t);
    put_gauge(to, "simba_serve_connections", "Connections to simba serve.", a->connections);
    put_gauge(to, "simba_serve_streams", "Of those, streams of events.", a->streams);
    fputs("# EOF\n", to);
}
