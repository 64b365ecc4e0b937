/* See conductor.h. */
#include "core/conductor.h"

#include "util/assert.h"

static simba__conductor_act go_on(simba__conductor *c, const simba__record *record, int64_t now_ms)
{
    c->plan = simba__schedule_plan(c->policy, record, c->since_ms, now_ms);
    switch (c->plan.kind) {
    case SIMBA__PLAN_NOTE:
        c->record = simba__schedule_adopt(c->policy, record, now_ms);
        c->phase = SIMBA__CONDUCTOR_ADOPTING;
        return SIMBA__ACT_WRITE;
    case SIMBA__PLAN_RUN:
        simba__schedule_begin(c->policy, &c->record, &c->plan, now_ms);
        c->phase = SIMBA__CONDUCTOR_BEGINNING;
        return SIMBA__ACT_WRITE;
    case SIMBA__PLAN_WAIT:
        break;
    }
    c->phase = SIMBA__CONDUCTOR_WAITING;
    return SIMBA__ACT_WAIT;
}

simba__conductor_act simba__conductor_lead(simba__conductor *c, const simba__record *found, int64_t now_ms)
{
    SIMBA__ASSERT(c->phase == SIMBA__CONDUCTOR_AWAY);
    c->since_ms = now_ms;
    if (found)
        c->record = *found;
    return go_on(c, found ? &c->record : NULL, now_ms);
}

simba__conductor_act simba__conductor_written(simba__conductor *c, int64_t now_ms)
{
    switch (c->phase) {
    case SIMBA__CONDUCTOR_BEGINNING:
        c->phase = SIMBA__CONDUCTOR_RUNNING;
        return SIMBA__ACT_RUN;
    case SIMBA__CONDUCTOR_ADOPTING:
    case SIMBA__CONDUCTOR_ENDING:
        return go_on(c, &c->record, now_ms);
    case SIMBA__CONDUCTOR_AWAY:
    case SIMBA__CONDUCTOR_WAITING:
    case SIMBA__CONDUCTOR_RUNNING:
        break;
    }
    return SIMBA__ACT_NONE; /* the store wrote it, but leadership has ended since */
}

simba__conductor_act simba__conductor_look(simba__conductor *c, int64_t now_ms)
{
    return c->phase == SIMBA__CONDUCTOR_WAITING ? go_on(c, &c->record, now_ms) : SIMBA__ACT_NONE;
}

simba__conductor_act simba__conductor_ran(simba__conductor *c, int result, int64_t now_ms)
{
    SIMBA__ASSERT(c->phase == SIMBA__CONDUCTOR_RUNNING);
    simba__schedule_end(c->policy, &c->record, result, now_ms);
    c->since_ms = now_ms;
    c->phase = SIMBA__CONDUCTOR_ENDING;
    return SIMBA__ACT_WRITE;
}

void simba__conductor_leave(simba__conductor *c)
{
    c->phase = SIMBA__CONDUCTOR_AWAY;
}
