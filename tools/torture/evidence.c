/* What the judge finds in a history: who led when, by what the contenders said of themselves; and the troubles of each
 * contender, for which the judge asks before it calls a loss or a long wait a broken promise. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "torture/judge.h"

/* --- who led when --------------------------------------------------------------------------------- */

typedef struct builder {
    torture_reign *reigns;
    size_t count;
} builder;

static bool is_of(const torture_reign *reign, const torture_event *event)
{
    return reign->contender == event->contender && reign->life == event->life;
}

static torture_reign *latest_of(const builder *b, const torture_event *event)
{
    for (size_t i = b->count; i-- > 0;)
        if (is_of(&b->reigns[i], event) && b->reigns[i].mutex == event->mutex)
            return &b->reigns[i];
    return NULL;
}

/* A look belongs to the leadership before it if the token is the same and the mutex was not released in between. A contender
 * that is being killed may still look once. */
static void take_look(builder *b, const torture_event *event)
{
    torture_reign *reign = latest_of(b, event);
    if (reign == NULL || reign->token != event->token || reign->released) {
        reign = &b->reigns[b->count++];
        *reign = (torture_reign){
            .contender = event->contender,
            .life = event->life,
            .mutex = event->mutex,
            .token = event->token,
            .begun_ns = event->at_ns,
            .from_ns = event->seen_ns,
            .ended_ns = -1,
        };
    }
    reign->acted_to_ns = event->to_ns > reign->acted_to_ns ? event->to_ns : reign->acted_to_ns;
    reign->until_ns = event->until_ns > reign->until_ns ? event->until_ns : reign->until_ns;
}

static void take_release(builder *b, const torture_event *event)
{
    torture_reign *reign = latest_of(b, event);
    if (reign == NULL || reign->token != event->token || reign->released)
        return; /* it was over before anybody looked */
    reign->released = true;
    reign->ended_ns = event->at_ns;
    memcpy(reign->why, event->what, sizeof reign->why);
}

static void take_death(builder *b, const torture_event *event)
{
    for (size_t i = 0; i < b->count; i++) {
        torture_reign *reign = &b->reigns[i];
        if (is_of(reign, event) && reign->ended_ns < 0) {
            reign->killed = true;
            reign->ended_ns = event->at_ns;
        }
    }
}

static void set_claim(torture_reign *reign, int64_t end_ns)
{
    reign->claim_ns = max64(reign->until_ns, reign->acted_to_ns);
    if (reign->released && reign->ended_ns < reign->claim_ns)
        reign->claim_ns = max64(reign->ended_ns, reign->from_ns);
    if (!reign->released && !reign->killed && reign->claim_ns > end_ns)
        reign->claim_ns = max64(end_ns, reign->acted_to_ns);
}

static int by_mutex_and_time(const void *left, const void *right)
{
    const torture_reign *a = left;
    const torture_reign *b = right;
    if (a->mutex != b->mutex)
        return a->mutex < b->mutex ? -1 : 1;
    if (a->from_ns != b->from_ns)
        return a->from_ns < b->from_ns ? -1 : 1;
    return (a->contender > b->contender) - (a->contender < b->contender);
}

torture_reign *torture_reigns_of(const torture_history *history, int64_t end_ns, size_t *ret_count)
{
    builder b = {calloc(history->count + 1, sizeof *b.reigns), 0};
    if (b.reigns == NULL)
        abort();
    for (size_t i = 0; i < history->count; i++) {
        const torture_event *event = &history->events[i];
        if (event->kind == TORTURE_HOLDS)
            take_look(&b, event);
        else if (event->kind == TORTURE_RELEASED)
            take_release(&b, event);
        else if (event->kind == TORTURE_KILLED || event->kind == TORTURE_ENDED)
            take_death(&b, event);
    }
    for (size_t i = 0; i < b.count; i++)
        set_claim(&b.reigns[i], end_ns);
    qsort(b.reigns, b.count, sizeof *b.reigns, by_mutex_and_time);
    *ret_count = b.count;
    return b.reigns;
}

/* --- troubles ------------------------------------------------------------------------------------- */

static torture_span *open_span(torture_spans *spans, const torture_event *event)
{
    for (size_t i = spans->count; i-- > 0;) {
        torture_span *span = &spans->spans[i];
        if (span->to_ns == INT64_MAX && span->contender == event->contender && strcmp(span->what, event->what) == 0)
            return span;
    }
    return NULL;
}

static void add_span(torture_spans *spans, const torture_event *event, torture_trouble trouble, int64_t to_ns)
{
    torture_span *span = &spans->spans[spans->count++];
    *span = (torture_span){event->contender, trouble, event->at_ns, to_ns, ""};
    memcpy(span->what, event->what, sizeof span->what);
}

/* A process that was killed is dead until the next one of its name contends. */
static void end_death(torture_spans *spans, const torture_event *event)
{
    for (size_t i = spans->count; i-- > 0;) {
        torture_span *span = &spans->spans[i];
        if (span->trouble == TORTURE_BY_DEATH && span->contender == event->contender && span->to_ns == INT64_MAX)
            span->to_ns = event->at_ns;
    }
}

torture_spans torture_spans_of(const torture_history *history, int64_t end_ns)
{
    torture_spans spans = {calloc(history->count + 1, sizeof *spans.spans), 0};
    if (spans.spans == NULL)
        abort();
    for (size_t i = 0; i < history->count; i++) {
        const torture_event *event = &history->events[i];
        torture_span *healed = NULL;
        switch (event->kind) {
        case TORTURE_FAULT:
            add_span(&spans, event, TORTURE_BY_FAULT, INT64_MAX);
            break;
        case TORTURE_HEALED:
            healed = open_span(&spans, event);
            if (healed != NULL)
                healed->to_ns = event->at_ns;
            break;
        case TORTURE_KILLED:
        case TORTURE_ENDED:
            add_span(&spans, event, TORTURE_BY_DEATH, INT64_MAX);
            break;
        case TORTURE_CONTENDS:
            end_death(&spans, event);
            break;
        case TORTURE_LATE:
            add_span(&spans, event, TORTURE_BY_HOST, event->to_ns);
            break;
        case TORTURE_FAILED:
            add_span(&spans, event, TORTURE_BY_STORE, event->to_ns);
            break;
        default:
            break;
        }
    }
    for (size_t i = 0; i < spans.count; i++)
        if (spans.spans[i].to_ns == INT64_MAX)
            spans.spans[i].to_ns = end_ns;
    return spans;
}

bool torture_span_hits(const torture_span *span, int contender)
{
    return span->contender == contender || span->contender == TORTURE_EVERYBODY;
}
