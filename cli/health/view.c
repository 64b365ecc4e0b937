/* See view.h. */
#include "health/view.h"

/* held_for_ms is 0 when leadership has ended here, which is before the lease ends by the time that stopping takes. */
bool health_is_leader(const health_view *view)
{
    return view->leads && view->lease.token != 0 && view->lease.held_for_ms > view->reserve_ms;
}
