/* The troubles of each contender, and their times. The judge asks for them before it calls a loss or a long wait a broken
 * promise. */
#include <stdlib.h>
#include <string.h>

#include "torture/judge.h"

static torture_span *open_span(torture_spans *spans, const torture_event *event)
{
    for (size_t i = spans->count; i-- > 0;) {
        torture_span *span = &spans->spans[i];
        if (span->to_ns == INT64_MAX && span->contender == event->contender && strcmp(span->what, event->what) == 0)
            return span;
    }
    return NULL;
}

static void add(torture_spans *spans, const torture_event *event, torture_trouble trouble, int64_t to_ns)
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
            add(&spans, event, TORTURE_BY_FAULT, INT64_MAX);
            break;
        case TORTURE_HEALED:
            healed = open_span(&spans, event);
            if (healed != NULL)
                healed->to_ns = event->at_ns;
            break;
        case TORTURE_KILLED:
        case TORTURE_ENDED:
            add(&spans, event, TORTURE_BY_DEATH, INT64_MAX);
            break;
        case TORTURE_CONTENDS:
            end_death(&spans, event);
            break;
        case TORTURE_LATE:
            add(&spans, event, TORTURE_BY_HOST, event->to_ns);
            break;
        case TORTURE_FAILED:
            add(&spans, event, TORTURE_BY_STORE, event->to_ns);
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
