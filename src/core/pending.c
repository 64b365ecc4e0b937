/* See pending.h. */
#include "core/pending.h"

bool simba__pending_note(simba__pending *pending, const simba__actions *actions, bool wants_changes)
{
    if (!actions->acquired && !actions->released && !actions->changed)
        return false;
    pending->acquired |= actions->acquired;
    pending->changed |= actions->changed && wants_changes;
    if (actions->released) {
        pending->released = true;
        pending->reason = (uint8_t)actions->reason;
    }
    return pending->acquired || pending->released || pending->changed;
}

bool simba__pending_take(simba__pending *pending, const simba_owner *owner, simba__tell *ret_tell)
{
    *ret_tell = (simba__tell){.ack = pending->released};
    if (pending->acquired && pending->released) {
        /* Leadership came and went before the application could be told. To start leading now would be wrong. */
        pending->acquired = false;
        pending->released = false;
        return true;
    }
    if (!pending->acquired && !pending->released && !pending->changed)
        return false;
    ret_tell->acquired = pending->acquired;
    ret_tell->released = pending->released;
    ret_tell->reason = (simba_reason)pending->reason;
    ret_tell->state = (simba_state){pending->told, *owner};
    if (pending->acquired && ret_tell->state.before.token == ret_tell->state.after.token)
        ret_tell->state.before = (simba_owner){0}; /* news of our own grant came before its late reply */
    ret_tell->changed = pending->changed && simba_state_changed(&ret_tell->state);
    pending->told = *owner;
    pending->acquired = false;
    pending->released = false;
    pending->changed = false;
    return true;
}
