/* See wakeups.h. */
#include "backends/sqlite/wakeups.h"

#include <string.h>
#include <unistd.h>

#include "util/clock.h"

void simba__sqlite_wakeups_begin(simba__sqlite_wakeups *wakeups, const simba__sqlite_notify *notify, int64_t now_ns)
{
    wakeups->notify = notify;
    wakeups->folder = simba__sqlite_fifo_folder(notify->fifos);
    wakeups->now_ms = (uint32_t)(now_ns / SIMBA__NS_PER_MS);
    wakeups->reserve = false;
    memset(wakeups->signalled, 0, sizeof wakeups->signalled);
    simba__sqlite_notify_read_subscriptions(notify, &wakeups->subscriptions);
}

static bool is_ours(const simba__sqlite_wakeups *wakeups, int fifo)
{
    return wakeups->notify->fifo.number == fifo;
}

static void drop_subscription(void *user, unsigned fifo)
{
    simba__sqlite_wakeups *wakeups = user;
    wakeups->subscriptions.of[fifo] = 0;
    simba__sqlite_notify_drop_subscription(wakeups->notify, fifo);
}

static void drop_entry(void *user, unsigned fifo)
{
    const simba__sqlite_wakeups *wakeups = user;
    simba__sqlite_notify_drop_entry(wakeups->notify, wakeups->queue_number, fifo);
}

/* Ring a fifo, once for each reason. False: nobody has that fifo. */
static bool ring(simba__sqlite_wakeups *wakeups, unsigned fifo, simba__sqlite_signal reason,
                 simba__sqlite_fifo_abandoned abandoned)
{
    if (wakeups->signalled[fifo] & reason)
        return true;
    if (wakeups->folder < 0 || !simba__sqlite_fifo_signal(wakeups->folder, fifo, reason, abandoned, wakeups))
        return false;
    wakeups->signalled[fifo] |= reason;
    return true;
}

static void tell_observers(simba__sqlite_wakeups *wakeups, uint64_t hash)
{
    for (unsigned fifo = 0; fifo < SIMBA__SQLITE_FIFOS; fifo++) {
        if (is_ours(wakeups, (int)fifo))
            continue;
        if (simba__sqlite_queue_observes(wakeups->line.cells[fifo], hash))
            (void)ring(wakeups, fifo, SIMBA__SQLITE_SIGNAL_CHANGES, drop_entry);
        else if (wakeups->subscriptions.of[fifo] & SIMBA__SQLITE_WANTS_ALL_MARKS)
            (void)ring(wakeups, fifo, SIMBA__SQLITE_SIGNAL_CHANGES, drop_subscription);
    }
}

/* Ring the fifo of the client that has waited longest and is still there, and take it out of our copy of the line. -1:
 * nobody is there. */
static int call_next(simba__sqlite_wakeups *wakeups, uint64_t hash, simba__sqlite_signal reason)
{
    for (int fifo; (fifo = simba__sqlite_queue_first(&wakeups->line, hash, wakeups->now_ms)) >= 0;) {
        const bool there = is_ours(wakeups, fifo) || ring(wakeups, (unsigned)fifo, reason, drop_entry);
        wakeups->line.cells[fifo] = 0;
        if (there)
            return fifo;
    }
    return -1;
}

static simba__sqlite_invited invite(simba__sqlite_wakeups *wakeups, uint64_t hash)
{
    const int first = call_next(wakeups, hash, SIMBA__SQLITE_SIGNAL_CHANGES);
    if (first < 0)
        return SIMBA__SQLITE_INVITED_ANYBODY;
    const int second = call_next(wakeups, hash, SIMBA__SQLITE_SIGNAL_RESERVE);
    wakeups->reserve |= second >= 0 && is_ours(wakeups, second);
    return is_ours(wakeups, first) ? SIMBA__SQLITE_INVITED_US : SIMBA__SQLITE_INVITED_OTHERS;
}

simba__sqlite_invited simba__sqlite_wakeups_changed(simba__sqlite_wakeups *wakeups, uint64_t hash, bool released)
{
    wakeups->queue_number = simba__sqlite_queue_number(hash);
    simba__sqlite_notify_read_queue(wakeups->notify, wakeups->queue_number, &wakeups->line);
    tell_observers(wakeups, hash);
    return released ? invite(wakeups, hash) : SIMBA__SQLITE_INVITED_ANYBODY;
}

void simba__sqlite_wakeups_revoked(simba__sqlite_wakeups *wakeups)
{
    for (unsigned fifo = 0; fifo < SIMBA__SQLITE_FIFOS; fifo++)
        if ((wakeups->subscriptions.of[fifo] & SIMBA__SQLITE_WANTS_REVOCATIONS) && !is_ours(wakeups, (int)fifo))
            (void)ring(wakeups, fifo, SIMBA__SQLITE_SIGNAL_REVOKED, drop_subscription);
}

void simba__sqlite_wakeups_end(const simba__sqlite_wakeups *wakeups)
{
    if (wakeups->folder >= 0)
        close(wakeups->folder);
}
