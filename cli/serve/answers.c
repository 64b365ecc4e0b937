/* See answers.h. */
#include "answers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "json.h"

const char *answer_revision(const answers *a, uint64_t revision, char ret_text[ANSWER_REVISION_SIZE])
{
    snprintf(ret_text, ANSWER_REVISION_SIZE, "%s-%" PRIu64, a->instance, revision);
    return ret_text;
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

static void open_answer(json_writer *j, const answers *a, uint64_t revision)
{
    char text[ANSWER_REVISION_SIZE];
    json_open(j, NULL, '{');
    json_text(j, "revision", answer_revision(a, revision, text));
}

void answer_store(FILE *to, const answers *a)
{
    const table *t = a->t;
    json_writer j = {.to = to};
    json_open(&j, NULL, '{');
    json_text(&j, "url", simba_client_url(a->client));
    /* Before the first answer nothing is known to be wrong, but nothing to be right either. */
    json_bool(&j, "answers", t->answers);
    json_when(&j, "since", t->since_ms);
    json_text(&j, "error", t->answers || t->since_ms == 0 ? NULL : t->error);
    json_count(&j, "age_ms", t->was_answered ? clock_read_ms(CLOCK_MONOTONIC) - t->mono_ms : -1);
    json_when(&j, "watched_since", t->was_answered ? t->watched_since_ms : 0);
    json_number(&j, "mutexes", (int64_t)t->present);
    json_number(&j, "owned", (int64_t)t->owned);
    json_number(&j, "overdue", (int64_t)t->overdue);
    json_bool(&j, "truncated", t->truncated);
    json_close(&j, '}');
}

void answer_row(FILE *to, const answers *a, const table_row *row)
{
    const size_t record_length = row->runs != NULL ? row->runs->record_length : 0;
    json_writer j = {.to = to};
    json_open(&j, NULL, '{');
    json_text(&j, "mutex", row->mutex);
    json_owner(&j, &row->owner, a->t->store_ms);
    json_waiters(&j, row->waiters, row->next);
    if (row->note_length == record_length)
        json_text(&j, "note", NULL);
    else
        json_bytes(&j, "note", row->note + record_length, row->note_length - record_length);
    if (!row->is_present)
        json_bool(&j, "gone", true);
    json_close(&j, '}');
}

static void put_holder(json_writer *j, const char *name, const simba_owner *owner)
{
    if (simba_owner_is_none(owner)) {
        json_text(j, name, NULL);
        return;
    }
    json_open(j, name, '{');
    json_text(j, "id", owner->id);
    json_token(j, "token", &owner->token);
    json_close(j, '}');
}

void answer_change(FILE *to, const answers *a, const table_change *change)
{
    json_writer j = {.to = to};
    open_answer(&j, a, change->revision);
    json_when(&j, "at", change->at_ms);
    json_text(&j, "kind", table_kind_name(change->kind));
    json_text(&j, "mutex", change->row != NULL ? change->row->mutex : NULL);
    put_holder(&j, "before", &change->before);
    put_holder(&j, "after", &change->after);
    json_count(&j, "held_ms", change->held_ms);
    json_close(&j, '}');
}

void answer_list_begin(FILE *to, const answers *a)
{
    json_writer j = {.to = to};
    open_answer(&j, a, a->t->revision);
    json_text(&j, "version", simba_version());
    json_bool(&j, "can_release", a->can_release);
    json_open(&j, "mutexes", '[');
}

void answer_list_end(FILE *to, const answers *a)
{
    json_writer j = {.to = to};
    json_close(&j, ']');
    json_name(&j, "store");
    answer_store(to, a);
    json_close(&j, '}');
    fputc('\n', to);
}

static void put_schedule(json_writer *j, const runs *r)
{
    if (r == NULL) {
        json_text(j, "schedule", NULL);
        return;
    }
    json_open(j, "schedule", '{');
    json_text(j, "when", r->schedule.when);
    json_when(j, "next", r->schedule.next_at_ms);
    json_open(j, "runs", '[');
    for (unsigned i = 0; i < r->count; i++) {
        json_open(j, NULL, '{');
        json_run(j, &r->last[i]);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

void answer_mutex(FILE *to, const answers *a, const table_row *row)
{
    const table_change *change;
    json_writer j = {.to = to};
    open_answer(&j, a, a->t->revision);
    json_name(&j, "state");
    answer_row(to, a, row);
    json_open(&j, "history", '[');
    TAILQ_FOREACH (change, &row->changes, in_row) {
        json_name(&j, NULL);
        answer_change(to, a, change);
    }
    json_close(&j, ']');
    put_schedule(&j, row->runs);
    json_name(&j, "store");
    answer_store(to, a);
    json_close(&j, '}');
    fputc('\n', to);
}

/* --- metrics ----------------------------------------------------------------------------------------- */

static void put_gauge(FILE *to, const char *name, const char *help, double value)
{
    fprintf(to, "# TYPE %s gauge\n# HELP %s %s\n%s %.15g\n", name, name, help, name, value);
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
    fputs("# TYPE simba_store_changes counter\n"
          "# HELP simba_store_changes Changes that simba serve has seen, by kind.\n",
          to);
    for (table_kind kind = 0; kind < TABLE_KIND_COUNT; kind++)
        fprintf(to, "simba_store_changes_total{kind=\"%s\"} %" PRIu64 "\n", table_kind_name(kind), t->counts[kind]);
    put_gauge(to, "simba_serve_connections", "Connections to simba serve.", a->connections);
    put_gauge(to, "simba_serve_streams", "Of those, streams of events.", a->streams);
    fputs("# EOF\n", to);
}
