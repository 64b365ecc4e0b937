/* The verdict of `simba torture` for people and for programs. */
#include <inttypes.h>

#include "clock.h"
#include "json.h"
#include "torture/torture.h"
#include "util/escape.h"

#define SHOWN_MAX 10 /* findings that people want to read */

/* In the order of torture_check. */
static const struct {
    const char *word; /* for programs */
    const char *promise;
} checks[TORTURE_CHECKS] = {
    [TORTURE_ALONE] = {"overlaps", "never two leaders at once"},
    [TORTURE_TOKENS] = {"tokens", "fencing tokens grow, and none comes twice"},
    [TORTURE_KEPT] = {"forgotten", "the store ends no lease early"},
    [TORTURE_ALIVE] = {"ended", "no contender ends by itself"},
    [TORTURE_IN_TIME] = {"late", "the next leader comes in time"},
    [TORTURE_CAUSE] = {"losses", "nobody loses a mutex without a cause"},
};

/* In the order of torture_end. */
static const char *const end_texts[TORTURE_END_COUNT] = {
    [TORTURE_END_START] = "the start", [TORTURE_END_HAND_OVER] = "a hand-over",  [TORTURE_END_KILL] = "a kill",
    [TORTURE_END_PAUSE] = "a pause",   [TORTURE_END_NETWORK] = "a cut or stall", [TORTURE_END_OTHER] = "anything else",
};

/* --- for people ---------------------------------------------------------------------------------------- */

static void print_what_was_done(const torture_report *report, FILE *out)
{
    const torture_setup *setup = report->setup;
    char url[SIMBA__ESCAPED_SIZE(512)] = "a history";
    if (report->url != NULL)
        simba__escape(report->url, url, sizeof url);
    fprintf(out, "%s, seed %" PRIu64 ": %d contenders, %u mutex%s, %.1f s\n", url, setup->seed, setup->contenders,
            setup->mutexes, setup->mutexes == 1 ? "" : "es", seconds(report->verdict->length_ns));
    if (report->no_cuts != NULL)
        fprintf(out, "  no cuts: %s\n", report->no_cuts);
    if (report->faults != NULL) {
        fputs("  done:", out);
        for (int fault = 0; fault < TORTURE_FAULT_COUNT; fault++)
            if (report->faults[fault] > 0)
                fprintf(out, " %s %u", torture_fault_word((torture_fault)fault), report->faults[fault]);
        fputc('\n', out);
    }
    fprintf(out, "  %zu leaderships, %zu of them lost\n", report->verdict->reign_count, report->verdict->losses);
    if (report->verdict->failed > 0)
        fprintf(out, "  the store failed requests of contenders that nothing was done to, %zu times\n",
                report->verdict->failed);
    if (report->verdict->late > 0)
        fprintf(out, "  this host is busy: contenders were held up for more than 100 ms, %zu times\n",
                report->verdict->late);
}

void torture_report_checks(const torture_verdict *verdict, const term *t)
{
    for (int check = 0; check < TORTURE_CHECKS; check++) {
        const bool kept = verdict->broken[check] == 0;
        const char *sign = kept ? term_pick(t, "✓", "ok  ") : term_pick(t, "✗", "FAIL");
        fprintf(t->stream, "  %s%s%s %s", term_on(t, kept ? TERM_GREEN : TERM_RED), sign, term_off(t),
                checks[check].promise);
        if (!kept)
            fprintf(t->stream, ": broken %zu time%s", verdict->broken[check], verdict->broken[check] == 1 ? "" : "s");
        fputc('\n', t->stream);
    }
}

static void print_times(const torture_report *report, FILE *out)
{
    fprintf(out, "\n  %-28s %6s %9s %9s %9s\n", "time to the next leader after", "", "median", "longest", "promised");
    for (int end = 0; end < TORTURE_END_COUNT; end++) {
        const torture_times *times = &report->verdict->times[end];
        if (times->count > 0)
            fprintf(out, "    %-27s %6zu %7.3f s %7.3f s %7.3f s\n", end_texts[end], times->count,
                    seconds(times->median_ns), seconds(times->longest_ns),
                    seconds(torture_promised_ns(report->setup, (torture_end)end)));
    }
}

void torture_report_findings(const torture_verdict *verdict, const term *t)
{
    const size_t shown = verdict->finding_count < SHOWN_MAX ? verdict->finding_count : SHOWN_MAX;
    size_t all = 0;
    fputc('\n', t->stream);
    for (size_t i = 0; i < shown; i++) {
        char text[SIMBA__ESCAPED_SIZE(sizeof verdict->findings[0].text)];
        simba__escape(verdict->findings[i].text, text, sizeof text);
        fprintf(t->stream, "  at %.3f s: %s\n", seconds(verdict->findings[i].at_ns), text);
    }
    for (int check = 0; check < TORTURE_CHECKS; check++)
        all += verdict->broken[check];
    if (all > shown)
        fprintf(t->stream, "  and %zu more\n", all - shown);
}

void torture_report_text(const torture_report *report, const term *t)
{
    const torture_verdict *verdict = report->verdict;
    print_what_was_done(report, t->stream);
    fputc('\n', t->stream);
    torture_report_checks(verdict, t);
    print_times(report, t->stream);
    if (verdict->kept) {
        fprintf(t->stream, "\n  %severy promise was kept%s\n", term_on(t, TERM_GREEN), term_off(t));
        return;
    }
    torture_report_findings(verdict, t);
    fprintf(t->stream, "\n  The worst moment, of mutex %u:\n\n", verdict->worst.mutex);
    torture_picture_text(report, t);
    fprintf(t->stream, "\n  %spromises were broken%s\n", term_on(t, TERM_RED), term_off(t));
}

/* --- for programs -------------------------------------------------------------------------------------- */

static void write_findings(const torture_verdict *verdict, json_writer *j)
{
    json_open(j, "findings", '[');
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const torture_finding *finding = &verdict->findings[i];
        json_open(j, NULL, '{');
        json_text(j, "check", checks[finding->check].word);
        json_number(j, "at_ns", finding->at_ns);
        json_number(j, "for_ns", finding->for_ns);
        json_number(j, "mutex", finding->mutex);
        json_text(j, "text", finding->text);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_times(const torture_report *report, json_writer *j)
{
    json_open(j, "next_leader", '{');
    for (int end = 0; end < TORTURE_END_COUNT; end++) {
        const torture_times *times = &report->verdict->times[end];
        if (times->count == 0)
            continue;
        json_open(j, torture_end_word((torture_end)end), '{');
        json_number(j, "count", (int64_t)times->count);
        json_real(j, "median_ms", (double)times->median_ns / 1e6, 3);
        json_real(j, "longest_ms", (double)times->longest_ns / 1e6, 3);
        json_real(j, "promised_ms", (double)torture_promised_ns(report->setup, (torture_end)end) / 1e6, 3);
        json_close(j, '}');
    }
    json_close(j, '}');
}

void torture_report_json(const torture_report *report, FILE *out)
{
    const torture_setup *setup = report->setup;
    const torture_verdict *verdict = report->verdict;
    json_writer j = {.to = out};
    json_open(&j, NULL, '{');
    json_bool(&j, "kept", verdict->kept);
    json_token(&j, "seed", &setup->seed);
    json_number(&j, "contenders", setup->contenders);
    json_number(&j, "mutexes", setup->mutexes);
    json_real(&j, "length_ms", (double)verdict->length_ns / 1e6, 3);
    json_number(&j, "leaderships", (int64_t)verdict->reign_count);
    json_number(&j, "lost", (int64_t)verdict->losses);
    json_number(&j, "host_late", (int64_t)verdict->late);
    json_number(&j, "store_failed", (int64_t)verdict->failed);
    json_open(&j, "broken", '{');
    for (int check = 0; check < TORTURE_CHECKS; check++)
        json_number(&j, checks[check].word, (int64_t)verdict->broken[check]);
    json_close(&j, '}');
    json_text(&j, "url", report->url);
    json_text(&j, "no_cuts", report->no_cuts);
    if (report->faults != NULL) {
        json_open(&j, "faults", '{');
        for (int fault = 0; fault < TORTURE_FAULT_COUNT; fault++)
            json_number(&j, torture_fault_word((torture_fault)fault), report->faults[fault]);
        json_close(&j, '}');
    }
    write_times(report, &j);
    write_findings(verdict, &j);
    json_close(&j, '}');
    fputc('\n', out);
}
