/* See ringing.h. */
#include "backends/sqlite/ringing.h"

#include <string.h>
#include <unistd.h>

#include "util/clock.h"

void simba__sqlite_ringing_begin(simba__sqlite_ringing *ringing, const simba__sqlite_notify *notify, int64_t now_ns)
{
    ringing->notify = notify;
    ringing->folder = simba__sqlite_bell_folder(notify->bells);
    ringing->now_ms = (uint32_t)(now_ns / SIMBA__NS_PER_MS);
    ringing->in_reserve = false;
    memset(ringing->rung, 0, sizeof ringing->rung);
    simba__sqlite_notify_read_ears(notify, &ringing->ears);
}

static bool is_ours(const simba__sqlite_ringing *ringing, int bell)
{
    return ringing->notify->bell.number == bell;
}

static void drop_ears(void *user, unsigned bell)
{
    simba__sqlite_ringing *ringing = user;
    ringing->ears.of[bell] = 0;
    simba__sqlite_notify_drop_ears(ringing->notify, bell);
}

static void drop_place(void *user, unsigned bell)
{
    const simba__sqlite_ringing *ringing = user;
    simba__sqlite_notify_drop_place(ringing->notify, ringing->line_number, bell);
}

/* Ring a bell, once for each reason. False: nobody has that bell. */
static bool ring(simba__sqlite_ringing *ringing, unsigned bell, simba__sqlite_ring reason,
                 simba__sqlite_bell_forsaken forsaken)
{
    if (ringing->rung[bell] & reason)
        return true;
    if (ringing->folder < 0 || !simba__sqlite_bell_ring(ringing->folder, bell, reason, forsaken, ringing))
        return false;
    ringing->rung[bell] |= reason;
    return true;
}

static void tell_observers(simba__sqlite_ringing *ringing, uint64_t hash)
{
    for (unsigned bell = 0; bell < SIMBA__SQLITE_BELLS; bell++) {
        if (is_ours(ringing, (int)bell))
            continue;
        if (simba__sqlite_line_observes(ringing->line.cells[bell], hash))
            (void)ring(ringing, bell, SIMBA__SQLITE_RING_NEWS, drop_place);
        else if (ringing->ears.of[bell] & SIMBA__SQLITE_HEARS_ALL_MARKS)
            (void)ring(ringing, bell, SIMBA__SQLITE_RING_NEWS, drop_ears);
    }
}

/* Ring the bell of the client that has waited longest and is still there, and take it out of our copy of the line. -1:
 * nobody is there. */
static int call_next(simba__sqlite_ringing *ringing, uint64_t hash, simba__sqlite_ring reason)
{
    for (int bell; (bell = simba__sqlite_line_first(&ringing->line, hash, ringing->now_ms)) >= 0;) {
        const bool there = is_ours(ringing, bell) || ring(ringing, (unsigned)bell, reason, drop_place);
        ringing->line.cells[bell] = 0;
        if (there)
            return bell;
    }
    return -1;
}

static simba__sqlite_invited invite(simba__sqlite_ringing *ringing, uint64_t hash)
{
    const int first = call_next(ringing, hash, SIMBA__SQLITE_RING_NEWS);
    if (first < 0)
        return SIMBA__SQLITE_INVITED_ANYBODY;
    const int second = call_next(ringing, hash, SIMBA__SQLITE_RING_IN_RESERVE);
    ringing->in_reserve |= second >= 0 && is_ours(ringing, second);
    return is_ours(ringing, first) ? SIMBA__SQLITE_INVITED_US : SIMBA__SQLITE_INVITED_OTHERS;
}

simba__sqlite_invited simba__sqlite_ringing_tell(simba__sqlite_ringing *ringing, uint64_t hash, bool released)
{
    ringing->line_number = simba__sqlite_line_number(hash);
    simba__sqlite_notify_read_line(ringing->notify, ringing->line_number, &ringing->line);
    tell_observers(ringing, hash);
    return released ? invite(ringing, hash) : SIMBA__SQLITE_INVITED_ANYBODY;
}

void simba__sqlite_ringing_tell_revoked(simba__sqlite_ringing *ringing)
{
    for (unsigned bell = 0; bell < SIMBA__SQLITE_BELLS; bell++)
        if ((ringing->ears.of[bell] & SIMBA__SQLITE_HEARS_REVOCATIONS) && !is_ours(ringing, (int)bell))
            (void)ring(ringing, bell, SIMBA__SQLITE_RING_REVOKED, drop_ears);
}

void simba__sqlite_ringing_end(const simba__sqlite_ringing *ringing)
{
    if (ringing->folder >= 0)
        close(ringing->folder);
}
