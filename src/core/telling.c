/* See telling.h. */
#include "core/telling.h"

bool simba__telling_note(simba__telling *telling, const simba__actions *actions, bool wants_changes)
{
    if (!actions->acquired && !actions->released && !actions->changed)
        return false;
    telling->acquired |= actions->acquired;
    telling->changed |= actions->changed && wants_changes;
    if (actions->released) {
        telling->released = true;
        telling->reason = (uint8_t)actions->reason;
    }
    return telling->acquired || telling->released || telling->changed;
}

bool simba__telling_take(simba__telling *telling, const simba_owner *owner, simba__tell *ret_tell)
{
    *ret_tell = (simba__tell){.ack = telling->released};
    if (telling->acquired && telling->released) {
        /* Leadership came and went before the application could be told. To start leading now would be wrong. */
        telling->acquired = false;
        telling->released = false;
        return true;
    }
    if (!telling->acquired && !telling->released && !telling->changed)
        return false;
    ret_tell->acquired = telling->acquired;
    ret_tell->released = telling->released;
    ret_tell->reason = (simba_reason)telling->reason;
    ret_tell->state = (simba_state){telling->told, *owner};
    if (telling->acquired && ret_tell->state.before.token == ret_tell->state.after.token)
        ret_tell->state.before = (simba_owner){0}; /* news of our own grant came before its late reply */
    ret_tell->changed = telling->changed && simba_state_changed(&ret_tell->state);
    telling->told = *owner;
    telling->acquired = false;
    telling->released = false;
    telling->changed = false;
    return true;
}
