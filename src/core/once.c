/* See once.h. */
#include "core/once.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/assert.h"
#include "util/saturate.h"

static const char once[] = "once per ";

bool simba__once_is_record(const simba__record *record)
{
    return strncmp(record->spec, once, strlen(once)) == 0;
}

/* If the store's clock went back, the wait becomes longer: nobody can know whether the period is over. */
bool simba__once_may_begin(const simba__once *rule, const simba__record *record, int64_t now_ms)
{
    if (record->state == SIMBA__RUN_NONE || simba__sat_sub(now_ms, record->begun_ms) >= rule->per_ms)
        return true;
    const bool succeeded = record->state == SIMBA__RUN_ENDED && record->result == 0;
    return rule->retry_failed && !succeeded;
}

void simba__once_begun(const simba__once *rule, simba__record *record, int64_t now_ms)
{
    record->state = SIMBA__RUN_BEGUN;
    record->due_ms = record->begun_ms = record->through_ms = now_ms;
    record->missed = record->tries = 0;
    snprintf(record->spec, sizeof record->spec, "%s%" PRId64, once, rule->per_ms);
}

void simba__once_ended(simba__record *record, int result, int64_t now_ms)
{
    SIMBA__ASSERT(record->state != SIMBA__RUN_NONE);
    record->state = SIMBA__RUN_ENDED;
    record->result = result;
    record->ended_ms = now_ms;
}

int64_t simba__once_next_ms(const simba__record *record)
{
    return simba__sat_add(record->begun_ms, strtoll(record->spec + strlen(once), NULL, 10));
}
