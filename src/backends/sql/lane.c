/* See lane.h. */
#include "backends/sql/lane.h"

#include <time.h>

#include "backends/sql/decisions.h"
#include "backends/sql/reads.h"
#include "backends/sql/writes.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/table.h"

/* A batch that nobody waits for any more may be about to end. Cutting its connection makes a slow server slower. */
#define GRACE_NS (250 * SIMBA__NS_PER_MS)

bool simba__sql_lane_is_idle(const simba__sql_lane *lane)
{
    return lane->stage == SIMBA__SQL_LANE_IDLE;
}

static void end(simba__sql_lane *lane)
{
    lane->stage = SIMBA__SQL_LANE_IDLE;
    lane->ended(lane);
}

static void begin_batch(simba__sql_lane *lane)
{
    const bool decides = lane->dialect->decides || lane->batch.has_notes;
    simba__sql_batch_begin(&lane->batch, lane->reads ? simba__sql_reads_next
                                         : decides   ? simba__sql_decisions_next
                                                     : simba__sql_writes_next);
}

static simba__sql_step *next_step(simba__sql_lane *lane, const simba__sql_failure *why)
{
    return simba__sql_batch_next(&lane->batch, why, lane->host->now(lane->host), atomic_load(&lane->is_over));
}

/* --- blocking ------------------------------------------------------------------------------------------- */

static void pause_for(int64_t ns)
{
    const struct timespec pause = {0, (long)ns}; /* some milliseconds */
    nanosleep(&pause, NULL);
}

/* The client library does not say how long a call will take, so only a thread of the client's own makes it. */
static bool run(simba_job *job, simba_local until)
{
    simba__sql_lane *lane = SIMBA__OF_NODE(job, simba__sql_lane, job);
    simba__sql_failure why;
    simba__sql_step *step;
    int rc = 0;
    if (until.ns != INT64_MAX)
        return false;
    begin_batch(lane);
    while ((step = next_step(lane, rc < 0 ? &why : NULL))) {
        rc = 0;
        if (step->action == SIMBA__SQL_PAUSE)
            pause_for(step->pause_ns);
        else
            rc = lane->dialect->carry_out(lane->conn, step, &lane->batch.table, &why);
    }
    return true;
}

static void done(simba_job *job)
{
    end(SIMBA__OF_NODE(job, simba__sql_lane, job));
}

/* --- event-driven --------------------------------------------------------------------------------------- */

/* Start one step after the other, as long as they end at once. */
static void go_on(simba__sql_lane *lane)
{
    simba__sql_step *step;
    while ((step = next_step(lane, lane->why.error.code < 0 ? &lane->why : NULL))) {
        lane->why.error.code = 0;
        if (atomic_load(&lane->is_over) && step->action != SIMBA__SQL_CLOSE) {
            (void)simba__sql_fail(&lane->why, SIMBA__SQL_RECONNECT, SIMBA_ETIMEDOUT, "the connection was cut");
        } else if (step->action == SIMBA__SQL_PAUSE) {
            lane->stage = SIMBA__SQL_LANE_PAUSES;
            lane->host->timer_set(lane->host, &lane->pause,
                                  (simba_local){lane->host->now(lane->host).ns + step->pause_ns});
            return;
        } else {
            lane->stage = SIMBA__SQL_LANE_CALLS;
            lane->dialect->start(lane->conn, lane, step, &lane->batch.table);
            if (lane->stage == SIMBA__SQL_LANE_CALLS) {
                lane->stage = SIMBA__SQL_LANE_AWAITS;
                return;
            }
        }
    }
    end(lane);
}

void simba__sql_carried_out(simba__sql_lane *lane, int rc, const simba__sql_failure *why)
{
    SIMBA__ASSERT(lane->stage == SIMBA__SQL_LANE_CALLS || lane->stage == SIMBA__SQL_LANE_AWAITS);
    SIMBA__ASSERT(rc == 0 || (rc < 0 && why->error.code == rc));
    if (rc < 0)
        lane->why = *why;
    if (lane->stage == SIMBA__SQL_LANE_CALLS)
        lane->stage = SIMBA__SQL_LANE_CALLED; /* the caller of the dialect goes on */
    else
        go_on(lane);
}

static void on_pause_over(simba_timer *timer, simba_local now)
{
    (void)now;
    go_on(SIMBA__OF_NODE(timer, simba__sql_lane, pause));
}

/* --- beginning and ending ------------------------------------------------------------------------------- */

int simba__sql_lane_init(simba__sql_lane *lane, simba_host *host, const simba__sql_dialect *dialect, void *conn,
                         simba__sql_place place)
{
    SIMBA__ASSERT(!dialect->carry_out != !dialect->start);
    lane->host = host;
    lane->dialect = dialect;
    lane->conn = conn;
    lane->job.run = run;
    lane->job.done = done;
    lane->pause.fire = on_pause_over;
    atomic_init(&lane->is_over, false);
    simba__sql_batch_init(&lane->batch, place, host->random(host));
    return dialect->start ? host->timer_add(host, &lane->pause) : 0;
}

void simba__sql_lane_begin(simba__sql_lane *lane)
{
    SIMBA__ASSERT(simba__sql_lane_is_idle(lane));
    lane->patience = SIMBA__SQL_WAITED_FOR;
    atomic_store(&lane->is_over, false);
    if (lane->dialect->start) {
        lane->why.error.code = 0;
        begin_batch(lane);
        go_on(lane);
        return;
    }
    lane->stage = SIMBA__SQL_LANE_WORKS;
    lane->dialect->resume(lane->conn);
    lane->host->work(lane->host, &lane->job);
}

/* Interrupt or cut the connection. False: the dialect has left it alone. */
static bool end_wait(simba__sql_lane *lane, bool cuts, simba_local now)
{
    if (cuts)
        return lane->dialect->cut(lane->conn, now);
    lane->dialect->interrupt(lane->conn);
    return true;
}

/* End the batch early, now or soon. False: the dialect wants to go on. */
static bool call_off(simba__sql_lane *lane, bool cuts, simba_local now)
{
    const simba__sql_stage stage = lane->stage;
    if (stage == SIMBA__SQL_LANE_PAUSES) {
        lane->host->timer_clear(lane->host, &lane->pause);
        atomic_store(&lane->is_over, true);
        go_on(lane);
        return true;
    }
    if (stage == SIMBA__SQL_LANE_AWAITS)
        lane->stage = SIMBA__SQL_LANE_CALLS;
    const bool is_over = end_wait(lane, cuts, now);
    if (is_over)
        atomic_store(&lane->is_over, true);
    if (lane->stage == SIMBA__SQL_LANE_CALLED)
        go_on(lane);
    else
        lane->stage = stage;
    return is_over;
}

simba_local simba__sql_lane_expire(simba__sql_lane *lane, simba_local now)
{
    SIMBA__ASSERT(!simba__sql_lane_is_idle(lane));
    if (lane->patience == SIMBA__SQL_CUT)
        return (simba_local){INT64_MAX};
    if (lane->patience == SIMBA__SQL_GRACE && now.ns < lane->cut_at.ns)
        return lane->cut_at;
    if (lane->patience == SIMBA__SQL_GRACE && call_off(lane, true, now)) {
        lane->patience = SIMBA__SQL_CUT;
        return (simba_local){INT64_MAX};
    }
    lane->patience = SIMBA__SQL_GRACE;
    lane->cut_at.ns = now.ns + GRACE_NS;
    return lane->cut_at;
}

void simba__sql_lane_interrupt(simba__sql_lane *lane)
{
    if (simba__sql_lane_is_idle(lane))
        return;
    atomic_store(&lane->is_over, true); /* before a worker asks for its next step */
    (void)call_off(lane, false, (simba_local){0});
}
