/* What `simba demo` puts on the screen: a line per event as it happens, and at the end the timeline, the measured times
 * and the checks. */
#include <inttypes.h>
#include <string.h>

#include "demo/demo.h"
#include "timeline/timeline.h"

#define SPANS_MAX 32
#define WORD_COLUMN 10 /* wide enough for the longest word and a gap */

term_style demo_node_style(int node)
{
    static const term_style styles[DEMO_NODES] = {TERM_CYAN, TERM_MAGENTA, TERM_YELLOW};
    return styles[node];
}

/* --- events ------------------------------------------------------------------------------------- */

typedef struct event_words {
    term_style style;
    const char *word; /* NULL: not shown */
    char detail[80];
} event_words;

static event_words describe(const demo_cast *cast, const demo_event *event, int64_t start_ns)
{
    const demo_node *node = &cast->nodes[event->node];
    event_words words = {.style = TERM_DIM};
    switch (event->kind) {
    case DEMO_READY:
        words.word = "contends";
        break;
    case DEMO_CHANGED:
        if (node->sees == event->node || node->sees == DEMO_NOBODY)
            break;
        words.word = "waits";
        snprintf(words.detail, sizeof words.detail, "%s leads", event->detail);
        break;
    case DEMO_ACQUIRED:
        words.style = TERM_GREEN;
        words.word = "acquired";
        snprintf(words.detail, sizeof words.detail, "token %" PRIu64, event->token);
        break;
    case DEMO_LEASE:
        words.word = node->renewals > 0 ? "renewed" : NULL;
        snprintf(words.detail, sizeof words.detail, "lease valid until %.3fs by its own clock",
                 (double)(event->until_ns - start_ns) / 1e9);
        break;
    case DEMO_RELEASED:
        words.style = TERM_BOLD;
        words.word = "released";
        snprintf(words.detail, sizeof words.detail, "%s", event->detail);
        break;
    case DEMO_STOPPED:
        words.word = "ended";
        break;
    case DEMO_KILLED:
        words.style = TERM_RED;
        words.word = "killed";
        snprintf(words.detail, sizeof words.detail, "by SIGKILL");
        break;
    default:
        break;
    }
    return words;
}

void demo_show_event(const term *t, const demo_cast *cast, const demo_event *event, int64_t start_ns)
{
    const event_words words = describe(cast, event, start_ns);
    if (words.word == NULL)
        return;
    fprintf(t->stream, "  %7.3fs  %s%s%s  %s%s%s", (double)(event->at_ns - start_ns) / 1e9,
            term_on(t, demo_node_style(event->node)), cast->nodes[event->node].name, term_off(t),
            term_on(t, words.style), words.word, term_off(t));
    if (words.detail[0] != '\0')
        fprintf(t->stream, "%*s%s%s%s", (int)(WORD_COLUMN - strlen(words.word)), "", term_on(t, TERM_DIM), words.detail,
                term_off(t));
    fputc('\n', t->stream);
    fflush(t->stream);
}

/* --- timeline ----------------------------------------------------------------------------------- */

typedef struct picture {
    timeline_segment segments[SPANS_MAX];
    size_t segment_count;
    timeline_mark marks[SPANS_MAX];
    size_t mark_count;
} picture;

static void add_segment(picture *p, int node, int64_t from_ms, int64_t to_ms, timeline_kind kind)
{
    if (p->segment_count < SPANS_MAX)
        p->segments[p->segment_count++] = (timeline_segment){(size_t)node, from_ms, to_ms, kind, NULL};
}

static void add_mark(picture *p, int node, int64_t at_ms, timeline_sign sign)
{
    if (p->mark_count < SPANS_MAX)
        p->marks[p->mark_count++] = (timeline_mark){(size_t)node, at_ms, sign, NULL};
}

/* Follow one contender through the events, which are in order of time. */
static void draw_node(picture *p, const demo_cast *cast, int node, int64_t start_ns)
{
    timeline_kind doing = TIMELINE_DEAD;
    int64_t since_ms = 0;
    for (size_t i = 0; i < cast->event_count; i++) {
        const demo_event *event = &cast->events[i];
        const int64_t at_ms = (event->at_ns - start_ns) / 1000000;
        if (event->node != node || event->kind == DEMO_CHANGED || event->kind == DEMO_LEASE)
            continue;
        add_segment(p, node, since_ms, at_ms, doing);
        since_ms = at_ms;
        doing = event->kind == DEMO_ACQUIRED ? TIMELINE_OWNER
                : event->kind == DEMO_READY  ? TIMELINE_WAITING
                                             : TIMELINE_DEAD;
        if (event->kind == DEMO_ACQUIRED)
            add_mark(p, node, at_ms, TIMELINE_ACQUIRED);
        else if (event->kind == DEMO_RELEASED)
            add_mark(p, node, at_ms, TIMELINE_RELEASED);
        else if (event->kind == DEMO_KILLED)
            add_mark(p, node, at_ms, TIMELINE_KILLED);
    }
}

void demo_show_timeline(const term *t, const demo_cast *cast, int64_t start_ns)
{
    if (cast->event_count == 0)
        return;
    const int64_t last_ns = cast->events[cast->event_count - 1].at_ns;
    timeline_row rows[DEMO_NODES];
    picture p = {.segment_count = 0};
    for (int n = 0; n < DEMO_NODES; n++) {
        rows[n] = (timeline_row){cast->nodes[n].name, demo_node_style(n)};
        draw_node(&p, cast, n, start_ns);
    }
    const timeline line = {
        .rows = rows,
        .row_count = DEMO_NODES,
        .segments = p.segments,
        .segment_count = p.segment_count,
        .marks = p.marks,
        .mark_count = p.mark_count,
        .to_ms = (last_ns - start_ns) / 1000000 + 50,
    };
    fputc('\n', t->stream);
    timeline_print(&line, t);
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

void demo_show_verdict(const term *t, const demo_cast *cast, const demo_verdict *verdict)
{
    size_t passed = 0;
    fputc('\n', t->stream);
    if (verdict->handover_ns != 0) {
        char from_to[96];
        snprintf(from_to, sizeof from_to, "kill -9 to next leader; %.3f s of its lease were left",
                 (double)verdict->lease_left_ns / 1e9);
        show_time(t, "fail-over", verdict->failover_ns, from_to);
        snprintf(from_to, sizeof from_to, "release by %s to on_acquired in %s",
                 cast->nodes[verdict->reigns[1].node].name, cast->nodes[verdict->reigns[2].node].name);
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
