/* What the judge finds in a history: who led when, by the reports of the contenders; and the troubles of each
 * contender, for which the judge asks before it calls a loss or a long wait a broken promise. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "torture/judge.h"

/* --- who led when --------------------------------------------------------------------------------- */

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
    torture_reign *reigns = calloc(history->count + 1, sizeof *reigns);
    size_t count = 0;
    if (reigns == NULL)
        abort();
    for (const torture_event *event = history->events; event < history->events + history->count; event++) {
        const bool kills = event->kind == TORTURE_KILLED || event->kind == TORTURE_ENDED;
        torture_reign *latest = NULL; /* of this process on this mutex */
        for (torture_reign *reign = reigns; reign < reigns + count; reign++) {
            if (reign->contender != event->contender || reign->life != event->life)
                continue;
            if (reign->mutex == event->mutex)
                latest = reign;
            if (kills && reign->ended_ns < 0) {
                reign->killed = true;
                reign->ended_ns = event->at_ns;
            }
        }
        /* A look belongs to the leadership before it if the token is the same and the mutex was not released in between.
         * A contender that is being killed may still look once. */
        const bool goes_on = latest != NULL && latest->token == event->token && !latest->released;
        if (event->kind == TORTURE_HOLDS) {
            if (!goes_on) {
                latest = &reigns[count++];
                *latest = (torture_reign){
                    .contender = event->contender,
                    .life = event->life,
                    .mutex = event->mutex,
                    .token = event->token,
                    .begun_ns = event->at_ns,
                    .from_ns = event->seen_ns,
                    .ended_ns = -1,
                };
            }
            latest->acted_to_ns = max64(event->to_ns, latest->acted_to_ns);
            latest->until_ns = max64(event->until_ns, latest->until_ns);
        } else if (event->kind == TORTURE_RELEASED && goes_on) { /* otherwise it was over before anybody looked */
            latest->released = true;
            latest->ended_ns = event->at_ns;
            memcpy(latest->why, event->what, sizeof latest->why);
        }
    }
    for (torture_reign *reign = reigns; reign < reigns + count; reign++) {
        reign->claim_ns = max64(reign->until_ns, reign->acted_to_ns);
        if (reign->released && reign->ended_ns < reign->claim_ns)
            reign->claim_ns = max64(reign->ended_ns, reign->from_ns);
        if (!reign->released && !reign->killed && reign->claim_ns > end_ns)
            reign->claim_ns = max64(end_ns, reign->acted_to_ns);
    }
    qsort(reigns, count, sizeof *reigns, by_mutex_and_time);
    *ret_count = count;
    return reigns;
}

/* --- troubles ------------------------------------------------------------------------------------- */

/* The trouble that a line begins; false: none. */
static bool begins_trouble(const torture_event *event, torture_trouble *ret_trouble)
{
    switch (event->kind) {
    case TORTURE_FAULT:
        *ret_trouble = TORTURE_BY_FAULT;
        return true;
    case TORTURE_KILLED:
    case TORTURE_ENDED:
        *ret_trouble = TORTURE_BY_DEATH;
        return true;
    case TORTURE_LATE:
        *ret_trouble = TORTURE_BY_HOST;
        return true;
    case TORTURE_FAILED:
        *ret_trouble = TORTURE_BY_STORE;
        return true;
    default:
        return false;
    }
}

torture_spans torture_spans_of(const torture_history *history, int64_t end_ns)
{
    torture_spans spans = {calloc(history->count + 1, sizeof *spans.spans), 0};
    if (spans.spans == NULL)
        abort();
    for (const torture_event *event = history->events; event < history->events + history->count; event++) {
        torture_trouble trouble;
        if (begins_trouble(event, &trouble)) {
            const bool lasts = trouble == TORTURE_BY_FAULT || trouble == TORTURE_BY_DEATH;
            torture_span *span = &spans.spans[spans.count++];
            *span = (torture_span){event->contender, trouble, event->at_ns, lasts ? INT64_MAX : event->to_ns, ""};
            memcpy(span->what, event->what, sizeof span->what);
        }
        /* A fault lasts until the latest of its name is healed, and a process that was killed is dead until the next one
         * of its name contends. */
        bool found = false;
        for (size_t i = spans.count; i-- > 0;) {
            torture_span *span = &spans.spans[i];
            const bool open = span->contender == event->contender && span->to_ns == INT64_MAX;
            const bool heals = event->kind == TORTURE_HEALED && !found && strcmp(span->what, event->what) == 0;
            const bool revives = event->kind == TORTURE_CONTENDS && span->trouble == TORTURE_BY_DEATH;
            if (open && (heals || revives)) {
                span->to_ns = event->at_ns;
                found = true;
            }
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
