/* See judge.h. */
#include "torture/judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define ROUNDING_NS (2 * MS)   /* the library tells contenders the time of their leases in whole milliseconds */
#define SETTLED_NS (2000 * MS) /* so long after trouble, everybody is connected again and hears pushes */

typedef struct judge {
    const torture_setup *setup;
    const torture_history *history;
    torture_spans troubles;
    int64_t stop_ns; /* when everybody was asked to stop; the judge expects nothing after that */
    torture_verdict *verdict;
    int64_t *waits[TORTURE_END_COUNT]; /* each as long as there are reigns */
} judge;

const char *torture_end_word(torture_end end)
{
#define TORTURE_END_WORD(name, word) word,
    static const char *const words[] = {TORTURE_ENDS(TORTURE_END_WORD)};
    return words[end];
}

int64_t torture_promised_ns(const torture_setup *setup, torture_end end)
{
    switch (end) {
    case TORTURE_END_HAND_OVER:
        return setup->handover_ns;
    case TORTURE_END_NETWORK:
    case TORTURE_END_OTHER:
        return setup->takeover_ns + setup->lease_ns;
    default:
        return setup->takeover_ns;
    }
}

static void __attribute__((format(printf, 6, 7)))
find(judge *j, torture_check check, unsigned mutex, int64_t at_ns, int64_t for_ns, const char *format, ...)
{
    torture_verdict *verdict = j->verdict;
    torture_finding finding = {.check = check, .at_ns = at_ns, .for_ns = for_ns, .mutex = mutex};
    va_list args;
    va_start(args, format);
    vsnprintf(finding.text, sizeof finding.text, format, args);
    va_end(args);
    const torture_finding *worst = &verdict->worst;
    if (verdict->kept || check < worst->check || (check == worst->check && for_ns > worst->for_ns))
        verdict->worst = finding;
    verdict->kept = false;
    verdict->broken[check]++;
    if (verdict->finding_count < TORTURE_FINDINGS_MAX)
        verdict->findings[verdict->finding_count++] = finding;
}

/* --- S1 ----------------------------------------------------------------------------------------------- */

static void check_pair(judge *j, const torture_reign *first, const torture_reign *second)
{
    const int64_t until_ns = first->claim_ns < second->claim_ns ? first->claim_ns : second->claim_ns;
    const int64_t for_ns = until_ns - second->from_ns;
    if (second->from_ns < first->acted_to_ns)
        find(j, TORTURE_ALONE, first->mutex, second->from_ns, for_ns,
             "contender %d (token %" PRIu64 ") and contender %d (token %" PRIu64
             ") both acted as leader of mutex %u, for %.3f s",
             first->contender, first->token, second->contender, second->token, first->mutex, seconds(for_ns));
    else
        find(j, TORTURE_ALONE, first->mutex, second->from_ns, for_ns,
             "contender %d (token %" PRIu64 ") led mutex %u although the lease of contender %d (token %" PRIu64
             ") was valid for another %.3f s",
             second->contender, second->token, first->mutex, first->contender, first->token, seconds(for_ns));
}

/* Compare each reign with the reigns of its mutex that began before it and whose claim has not ended. */
static void check_alone(judge *j)
{
    const torture_reign *reigns = j->verdict->reigns;
    for (size_t i = 0; i < j->verdict->reign_count; i++) {
        const torture_reign *second = &reigns[i];
        if (second->from_ns >= second->claim_ns)
            continue; /* the look took longer than the lease: it is not known to have led at any one moment */
        for (size_t k = i; k-- > 0 && reigns[k].mutex == second->mutex;)
            if (second->from_ns < reigns[k].claim_ns)
                check_pair(j, &reigns[k], second);
    }
}

/* --- S3 ----------------------------------------------------------------------------------------------- */

/* Two grants are in order if the first look at the one was over before that at the other began. */
static void check_tokens(judge *j)
{
    const torture_reign *reigns = j->verdict->reigns;
    for (size_t i = 0; i < j->verdict->reign_count; i++) {
        const torture_reign *later = &reigns[i];
        const torture_reign *greatest = NULL;
        bool repeated = false;
        for (size_t k = i; k-- > 0 && reigns[k].mutex == later->mutex;) {
            repeated = repeated || reigns[k].token == later->token;
            if (reigns[k].from_ns <= later->begun_ns && (greatest == NULL || reigns[k].token > greatest->token))
                greatest = &reigns[k];
        }
        if (repeated)
            find(j, TORTURE_TOKENS, later->mutex, later->begun_ns, 0,
                 "token %" PRIu64 " of mutex %u was given again, to contender %d", later->token, later->mutex,
                 later->contender);
        else if (greatest != NULL && greatest->token > later->token)
            find(j, TORTURE_TOKENS, later->mutex, later->begun_ns, 0,
                 "contender %d got token %" PRIu64 " of mutex %u after contender %d had token %" PRIu64,
                 later->contender, later->token, later->mutex, greatest->contender, greatest->token);
    }
}

/* --- losses ------------------------------------------------------------------------------------------- */

static bool was_wanted(const torture_reign *reign)
{
    return strcmp(reign->why, "stopped") == 0 || strcmp(reign->why, "hold limit reached") == 0;
}

static int by_begin(const void *left, const void *right)
{
    const torture_span *a = left;
    const torture_span *b = right;
    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

#define BIT(trouble) (1u << (trouble))

/* How long this contender had trouble of any of these kinds between the two moments. Troubles that overlap count once. */
static int64_t trouble_ns(const judge *j, int contender, unsigned kinds, int64_t from_ns, int64_t to_ns)
{
    int64_t sum_ns = 0;
    int64_t counted_ns = from_ns;
    for (size_t i = 0; i < j->troubles.count; i++) {
        const torture_span *span = &j->troubles.spans[i];
        if ((kinds & BIT(span->trouble)) == 0 || !torture_span_hits(span, contender))
            continue;
        const int64_t begin_ns = span->from_ns > counted_ns ? span->from_ns : counted_ns;
        const int64_t end_ns = span->to_ns < to_ns ? span->to_ns : to_ns;
        if (end_ns <= begin_ns)
            continue;
        sum_ns += end_ns - begin_ns;
        counted_ns = end_ns;
    }
    return sum_ns;
}

/* Trouble with the store counts by itself only if nothing was done to the contender: a fault that is too short to be a cause does
 * not become one because requests failed while it lasted. */
static void check_losses(judge *j)
{
    const torture_setup *setup = j->setup;
    for (size_t i = 0; i < j->verdict->reign_count; i++) {
        const torture_reign *reign = &j->verdict->reigns[i];
        if (!reign->released || was_wanted(reign))
            continue;
        j->verdict->losses++;
        const int64_t left_ns = reign->until_ns - reign->ended_ns;
        const int64_t from_ns = reign->ended_ns - setup->lease_ns - SETTLED_NS;
        const int64_t to_ns = reign->ended_ns;
        const int64_t fault_ns = trouble_ns(j, reign->contender, BIT(TORTURE_BY_FAULT), from_ns, to_ns);
        const int64_t store_ns = trouble_ns(j, reign->contender, BIT(TORTURE_BY_STORE), from_ns, to_ns);
        const int64_t ours_ns =
            trouble_ns(j, reign->contender, BIT(TORTURE_BY_FAULT) | BIT(TORTURE_BY_HOST), from_ns, to_ns);
        const bool has_cause = (ours_ns > 0 && ours_ns >= setup->outage_ns) || (fault_ns == 0 && store_ns > 0);
        if (left_ns > ROUNDING_NS)
            find(j, TORTURE_KEPT, reign->mutex, reign->ended_ns, left_ns,
                 "the store ended the lease of contender %d (token %" PRIu64 ") on mutex %u %.3f s early: %s",
                 reign->contender, reign->token, reign->mutex, seconds(left_ns), reign->why);
        else if (!has_cause)
            find(j, TORTURE_CAUSE, reign->mutex, reign->ended_ns, 0,
                 "contender %d lost mutex %u (token %" PRIu64
                 ", %s), and nothing had happened to it that lasted for %.3f s",
                 reign->contender, reign->mutex, reign->token, reign->why, seconds(setup->outage_ns));
    }
}

/* --- L1, L2 ------------------------------------------------------------------------------------------- */

/* A time in which nobody led, and the kind of end that it follows. */
typedef struct gap {
    unsigned mutex;
    torture_end after;
    int64_t from_ns; /* -1: there is none */
    int64_t to_ns;   /* somebody leads, or the end */
} gap;

/* A holder that cannot be heard of ends when that began, not when it finds out: others are counted on from there. The fault that a
 * loss was about is the last one that had begun before it. */
static gap gap_after(const judge *j, const torture_reign *reign)
{
    gap g = {.mutex = reign->mutex, .after = TORTURE_END_OTHER, .from_ns = reign->ended_ns};
    const torture_span *fault = NULL;
    if (reign->killed)
        g.after = TORTURE_END_KILL;
    else if (reign->released && was_wanted(reign))
        g.after = TORTURE_END_HAND_OVER;
    if (!reign->released || g.after != TORTURE_END_OTHER)
        return g;
    for (size_t i = 0; i < j->troubles.count; i++) {
        const torture_span *span = &j->troubles.spans[i];
        if (span->trouble == TORTURE_BY_FAULT && torture_span_hits(span, reign->contender) &&
            span->from_ns <= reign->ended_ns && span->to_ns >= reign->ended_ns - j->setup->lease_ns - SETTLED_NS &&
            (fault == NULL || span->from_ns > fault->from_ns))
            fault = span;
    }
    if (fault != NULL) {
        g.after = strcmp(fault->what, "pause") == 0 ? TORTURE_END_PAUSE : TORTURE_END_NETWORK;
        g.from_ns = fault->from_ns;
    }
    return g;
}

/* Had this contender trouble in this time? TORTURE_EVERYBODY: had anybody? */
static bool is_troubled(const judge *j, int contender, int64_t from_ns, int64_t to_ns)
{
    for (size_t i = 0; i < j->troubles.count; i++) {
        const torture_span *span = &j->troubles.spans[i];
        if (span->from_ns < to_ns && span->to_ns > from_ns &&
            (contender == TORTURE_EVERYBODY || torture_span_hits(span, contender)))
            return true;
    }
    return false;
}

/* Does any contender contend in all of this time, without trouble? */
static bool somebody_waits(const judge *j, int64_t from_ns, int64_t to_ns)
{
    for (int contender = 0; contender < j->setup->contenders; contender++) {
        bool contends = false;
        for (size_t i = 0; i < j->history->count && j->history->events[i].at_ns < to_ns; i++) {
            const torture_event *event = &j->history->events[i];
            if (event->contender != contender)
                continue;
            if (event->kind == TORTURE_CONTENDS)
                contends = contends || event->at_ns <= from_ns;
            else if (event->kind == TORTURE_KILLED || event->kind == TORTURE_ENDED || event->kind == TORTURE_ASKED ||
                     event->kind == TORTURE_STOPPED)
                contends = false;
        }
        if (contends && !is_troubled(j, contender, from_ns, to_ns))
            return true;
    }
    return false;
}

static void check_gap(judge *j, const gap *g)
{
    /* The promise counts from the last moment at which anything began or ended to be the matter with anybody. */
    int64_t from_ns = g->from_ns;
    for (size_t i = 0; i < j->troubles.count; i++) {
        const torture_span *span = &j->troubles.spans[i];
        const bool ends = span->trouble != TORTURE_BY_DEATH; /* no promise depends on a process that is started again */
        if (span->from_ns > from_ns && span->from_ns < g->to_ns)
            from_ns = span->from_ns;
        if (ends && span->to_ns > from_ns && span->to_ns < g->to_ns)
            from_ns = span->to_ns;
    }
    /* A hand-over is quick where nothing was wrong before it and somebody waited. Otherwise the release may not have reached
     * the store, or the push not the waiter, and it is like the end of a leader that is not heard of any more. */
    const int64_t settled_ns = g->from_ns - SETTLED_NS;
    const bool disturbed =
        g->after == TORTURE_END_HAND_OVER &&
        (is_troubled(j, TORTURE_EVERYBODY, settled_ns, g->to_ns) || !somebody_waits(j, settled_ns, g->to_ns));
    const int64_t limit_ns = torture_promised_ns(j->setup, disturbed ? TORTURE_END_KILL : g->after);
    const int64_t took_ns = g->to_ns - from_ns;
    if (took_ns > limit_ns && somebody_waits(j, from_ns, from_ns + limit_ns))
        find(j, TORTURE_IN_TIME, g->mutex, from_ns, took_ns - limit_ns,
             "nobody led mutex %u for %.3f s after %s, instead of for %.3f s at most", g->mutex, seconds(took_ns),
             g->after == TORTURE_END_START ? "the start" : torture_end_word(g->after), seconds(limit_ns));
}

/* Follow each mutex from leader to leader. Where two lead at once there is no gap between them, and nothing to judge here. */
static void check_times(judge *j)
{
    torture_verdict *verdict = j->verdict;
    size_t at = 0;
    int64_t start_ns = j->stop_ns; /* when the first contender began */
    for (size_t i = j->history->count; i-- > 0;)
        if (j->history->events[i].kind == TORTURE_CONTENDS)
            start_ns = j->history->events[i].at_ns;
    for (unsigned mutex = 0; mutex < j->setup->mutexes; mutex++) {
        gap g = {.mutex = mutex, .after = TORTURE_END_START, .from_ns = start_ns};
        for (; at < verdict->reign_count && verdict->reigns[at].mutex == mutex; at++) {
            const torture_reign *reign = &verdict->reigns[at];
            torture_times *times = &verdict->times[g.after];
            if (reign->begun_ns >= j->stop_ns)
                continue;
            g.to_ns = reign->begun_ns;
            if (g.from_ns >= 0 && g.from_ns <= g.to_ns) {
                const int64_t took_ns = g.to_ns - g.from_ns;
                j->waits[g.after][times->count++] = took_ns;
                if (times->count == 1 || took_ns > times->longest_ns) {
                    times->longest_ns = took_ns;
                    times->longest_at_ns = g.from_ns;
                    times->longest_mutex = mutex;
                }
                check_gap(j, &g);
            }
            g = gap_after(j, reign);
        }
        g.to_ns = j->stop_ns;
        if (g.from_ns >= 0 && g.from_ns < g.to_ns)
            check_gap(j, &g);
    }
    for (int end = 0; end < TORTURE_END_COUNT; end++) {
        torture_times *times = &verdict->times[end];
        if (times->count == 0)
            continue;
        qsort(j->waits[end], times->count, sizeof *j->waits[end], by_value);
        times->median_ns = j->waits[end][times->count / 2];
    }
}

/* --- all of it ---------------------------------------------------------------------------------------- */

void torture_judge(const torture_setup *setup, torture_history *history, torture_verdict *ret_verdict)
{
    judge j = {.setup = setup, .history = history, .stop_ns = INT64_MAX, .verdict = ret_verdict};
    int64_t end_ns = 0;
    memset(ret_verdict, 0, sizeof *ret_verdict);
    ret_verdict->kept = true;
    torture_history_sort(history);
    for (const torture_event *event = history->events; event < history->events + history->count; event++) {
        end_ns = max64(end_ns, max64(event->to_ns, event->at_ns));
        if (event->kind == TORTURE_END)
            j.stop_ns = min64(j.stop_ns, event->at_ns);
    }
    j.stop_ns = j.stop_ns == INT64_MAX ? end_ns : j.stop_ns;
    ret_verdict->length_ns = end_ns;
    j.troubles = torture_spans_of(history, end_ns);
    qsort(j.troubles.spans, j.troubles.count, sizeof *j.troubles.spans, by_begin);
    ret_verdict->reigns = torture_reigns_of(history, end_ns, &ret_verdict->reign_count);
    for (int end = 0; end < TORTURE_END_COUNT; end++) {
        j.waits[end] = calloc(ret_verdict->reign_count + 1, sizeof *j.waits[end]);
        if (j.waits[end] == NULL)
            abort();
    }
    check_alone(&j);
    check_tokens(&j);
    check_losses(&j);
    for (const torture_event *event = history->events; event < history->events + history->count; event++)
        if (event->kind == TORTURE_ENDED)
            find(&j, TORTURE_ALIVE, 0, event->at_ns, 0, "contender %d ended by itself: %s", event->contender,
                 event->what);
    check_times(&j);
    /* The troubles that the host and the store had by themselves. */
    for (size_t i = 0; i < j.troubles.count; i++) {
        const torture_span *span = &j.troubles.spans[i];
        const int64_t from_ns = span->from_ns - SETTLED_NS;
        const bool by_itself = trouble_ns(&j, span->contender, BIT(TORTURE_BY_FAULT), from_ns, span->to_ns) == 0;
        ret_verdict->late += by_itself && span->trouble == TORTURE_BY_HOST;
        ret_verdict->failed += by_itself && span->trouble == TORTURE_BY_STORE;
    }
    for (int end = 0; end < TORTURE_END_COUNT; end++)
        free(j.waits[end]);
    free(j.troubles.spans);
}

void torture_verdict_free(torture_verdict *verdict)
{
    free(verdict->reigns);
    verdict->reigns = NULL;
    verdict->reign_count = 0;
}
