/* See runs.h. */
#include "runs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "look.h"

static void remember(runs *r, const run *latest)
{
    run *known = r->count > 0 ? &r->last[r->count - 1] : NULL;
    if (known != NULL && known->due_ms == latest->due_ms && known->begun_ms == latest->begun_ms) {
        *known = *latest; /* it has ended by now */
        return;
    }
    if (r->count == RUNS_MAX)
        memmove(r->last, r->last + 1, --r->count * sizeof *r->last);
    r->last[r->count++] = *latest;
}

runs *runs_take(runs *r, const void *note, size_t length)
{
    simba_schedule_info schedule = SIMBA_SCHEDULE_INFO_INIT;
    if (length == 0 || simba_schedule_read(note, length, NULL, &schedule) < 0) {
        free(r);
        return NULL;
    }
    if (r == NULL)
        r = cli_alloc(sizeof *r);
    r->schedule = schedule;
    const char *end = memchr(note, '\n', length);
    assert(end != NULL); /* the record is the first line of a note that has one */
    r->record_length = (size_t)(end - (const char *)note) + 1;
    if (schedule.begun_at_ms != 0)
        remember(r, &(run){.due_ms = schedule.due_at_ms,
                           .begun_ms = schedule.begun_at_ms,
                           .ended_ms = schedule.ended_at_ms,
                           .result = schedule.result,
                           .missed = schedule.missed});
    return r;
}
