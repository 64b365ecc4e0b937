/* Decides whether work that is to begin once in a period may begin: a pure function of the record that its last holder left, of the
 * rule, and of the store's time. The record has the form of core/record.h; its spec is "once per N", in milliseconds.
 *
 *   begun   the work goes on, or was cut short: its process died or lost the mutex. Only a holder can tell the two apart, because
 *           while it holds the mutex nobody else runs the work.
 *   ended   with a result; 0 is success. */
#ifndef SIMBA_CORE_ONCE_H
#define SIMBA_CORE_ONCE_H

#include "core/record.h"

typedef struct simba__once {
    int64_t per_ms;    /* 0: no such rule */
    bool retry_failed; /* a run that failed or was cut short does not count */
} simba__once;

/* Is it the record of such work? Otherwise it is that of a schedule. */
bool simba__once_is_record(const simba__record *record);

/* May it begin now? Before the mutex is held, "yes" means only that acquiring it makes sense: a run that goes on looks like one that
 * was cut short. */
bool simba__once_may_begin(const simba__once *rule, const simba__record *record, int64_t now_ms);

/* The record to write before and after a run. */
void simba__once_begun(const simba__once *rule, simba__record *record, int64_t now_ms);
void simba__once_ended(simba__record *record, int result, int64_t now_ms);

/* When its period is over. */
int64_t simba__once_next_ms(const simba__record *record);

#endif
