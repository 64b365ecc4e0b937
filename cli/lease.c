/* See lease.h. */
#include "lease.h"

/* From one moment to a later one; 0 if it is not later. */
static int64_t span_ms(int64_t from_ms, int64_t to_ms)
{
    int64_t span;
    if (to_ms <= from_ms)
        return 0;
    return __builtin_sub_overflow(to_ms, from_ms, &span) ? INT64_MAX : span;
}

lease_view lease_look(const simba_owner *owner, int64_t now_ms)
{
    lease_view view = {false, LEASE_UNKNOWN, LEASE_UNKNOWN, LEASE_UNKNOWN};
    view.owned = simba_owner_has_owner(owner, now_ms);
    if (!view.owned)
        return view;
    if (owner->acquired_at_ms > 0) /* contenders that do not write it leave 0 */
        view.held_ms = span_ms(owner->acquired_at_ms, now_ms);
    if (owner->transition_at_ms != INT64_MAX) {
        view.left_ms = span_ms(now_ms, owner->transition_at_ms);
        view.ttl_left_ms = span_ms(now_ms, owner->ttl_at_ms);
        if (view.ttl_left_ms > view.left_ms)
            view.ttl_left_ms = view.left_ms;
    }
    return view;
}
