/* What `simba demo` puts on the screen: a line per event as it happens, and at the end the measured times and the checks. */
#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "demo/demo.h"
#include "timeline/timeline.h"

#define WORD_COLUMN 10      /* wide enough for the longest word and a gap */
#define RENEWED_NS (5 * MS) /* a lease that ends later by so much was renewed */

/* --- events ------------------------------------------------------------------------------------- */

bool demo_is_acquired(const demo_node *before, const torture_event *event)
{
    return event->kind == TORTURE_HOLDS && event->token != before->token;
}

bool demo_is_renewed(const demo_node *before, const torture_event *event)
{
    return event->kind == TORTURE_HOLDS && event->token == before->token &&
           event->until_ns > before->until_ns + RENEWED_NS;
}

/* The word for the event; NULL: it is not shown. */
static const char *describe(const char *name, const demo_node *before, const torture_event *event,
                            term_style *ret_style, char *detail, size_t size)
{
    static const struct {
        const char *word;
        term_style style;
    } words[TORTURE_KIND_COUNT] = {
        [TORTURE_CONTENDS] = {"contends", TERM_DIM}, [TORTURE_SEES] = {"waits", TERM_DIM},
        [TORTURE_HOLDS] = {"acquired", TERM_GREEN},  [TORTURE_RELEASED] = {"released", TERM_BOLD},
        [TORTURE_STOPPED] = {"ended", TERM_DIM},     [TORTURE_KILLED] = {"killed", TERM_RED},
    };
    *ret_style = words[event->kind].style;
    detail[0] = '\0';
    if (event->kind == TORTURE_SEES && (event->what[0] == '\0' || strcmp(event->what, name) == 0))
        return NULL;
    if (event->kind == TORTURE_HOLDS && !demo_is_acquired(before, event)) {
        *ret_style = TERM_DIM;
        snprintf(detail, size, "lease valid until %.3fs by its own clock", seconds(event->until_ns));
        return demo_is_renewed(before, event) ? "renewed" : NULL;
    }
    if (event->kind == TORTURE_HOLDS)
        snprintf(detail, size, "token %" PRIu64, event->token);
    else if (event->kind == TORTURE_KILLED)
        snprintf(detail, size, "by SIGKILL");
    else if (event->kind == TORTURE_SEES || event->kind == TORTURE_RELEASED)
        snprintf(detail, size, event->kind == TORTURE_SEES ? "%s leads" : "%s", event->what);
    return words[event->kind].word;
}

void demo_show_event(const term *t, const char *name, const demo_node *before, const torture_event *event)
{
    term_style style;
    char detail[80];
    const char *word = describe(name, before, event, &style, detail, sizeof detail);
    if (word == NULL)
        return;
    fprintf(t->stream, "  %7.3fs  %s%s%s  %s%s%s", (double)event->at_ns / 1e9,
            term_on(t, timeline_style((size_t)event->contender)), name, term_off(t), term_on(t, style), word,
            term_off(t));
    if (detail[0] != '\0')
        fprintf(t->stream, "%*s%s%s%s", (int)(WORD_COLUMN - strlen(word)), "", term_on(t, TERM_DIM), detail,
                term_off(t));
    fputc('\n', t->stream);
    fflush(t->stream);
}

/* --- verdict ------------------------------------------------------------------------------------ */

static void show_time(const term *t, const char *what, int64_t ns, const char *from_to)
{
    char time[32];
    if (ns < INT64_C(1000000000))
        snprintf(time, sizeof time, "%.1f ms", (double)ns / 1e6);
    else
        snprintf(time, sizeof time, "%.3f s", (double)ns / 1e9);
    fprintf(t->stream, "  %-10s %s%9s%s   %s\n", what, term_on(t, TERM_BOLD), time, term_off(t), from_to);
}

static void show_check(const term *t, const demo_check *check)
{
    const char *sign = check->passed ? term_pick(t, "✓", "ok  ") : term_pick(t, "✗", "FAIL");
    fprintf(t->stream, "  %s%s%s %-44s  %s%s%s\n", term_on(t, check->passed ? TERM_GREEN : TERM_RED), sign, term_off(t),
            check->what, term_on(t, TERM_DIM), check->detail, term_off(t));
}

void demo_show_verdict(const term *t, const torture_contenders *contenders, const torture_verdict *found,
                       const demo_verdict *verdict)
{
    size_t passed = 0;
    fputc('\n', t->stream);
    if (verdict->handover_ns != 0) {
        char from_to[96];
        snprintf(from_to, sizeof from_to, "kill -9 to next leader; %.3f s of its lease were left",
                 (double)verdict->lease_left_ns / 1e9);
        show_time(t, "fail-over", verdict->failover_ns, from_to);
        snprintf(from_to, sizeof from_to, "release by %s to on_acquired in %s",
                 contenders->options->ids[found->reigns[1].contender],
                 contenders->options->ids[found->reigns[2].contender]);
        show_time(t, "hand-over", verdict->handover_ns, from_to);
        fputc('\n', t->stream);
    }
    for (size_t i = 0; i < verdict->check_count; i++) {
        show_check(t, &verdict->checks[i]);
        passed += verdict->checks[i].passed;
    }
    if (verdict->passed)
        fprintf(t->stream, "\n  %sall checks passed%s (%zu of %zu)\n", term_on(t, TERM_GREEN), term_off(t), passed,
                verdict->check_count);
    else
        fprintf(t->stream, "\n  %s%zu of %zu checks failed%s\n", term_on(t, TERM_RED), verdict->check_count - passed,
                verdict->check_count, term_off(t));
}
