/* See turn.h. */
#include "runtime/turn.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "core/timing.h"
#include "runtime/notice.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/thread.h"

static _Thread_local const simba__turn *turn_of;

/* --- lifetime ------------------------------------------------------------------------------------- */

int simba__turn_init(simba__turn *turn, const simba__turn_hooks *hooks, const simba_client_options *options,
                     simba_error *err)
{
    turn->hooks = hooks;
    turn->options = options;
    turn->boot_minus_mono_ns = simba__clock_boot().ns - simba__clock_mono_ns();
    pthread_mutex_init(&turn->lock, NULL);
    simba__gate_init(&turn->gate);
    if (simba__cond_init(&turn->changed) == 0) {
        if (simba__cond_init(&turn->hushed) == 0)
            return 0;
        pthread_cond_destroy(&turn->changed);
    }
    simba__gate_fini(&turn->gate);
    pthread_mutex_destroy(&turn->lock);
    return simba__fail(err, SIMBA_ESYSTEM, "cannot make a condition variable");
}

void simba__turn_fini(simba__turn *turn)
{
    simba__timers_fini(&turn->timers);
    pthread_cond_destroy(&turn->hushed);
    pthread_cond_destroy(&turn->changed);
    simba__gate_fini(&turn->gate);
    pthread_mutex_destroy(&turn->lock);
}

static void bring(void *context, simba_job *job)
{
    simba__turn *turn = context;
    simba__enter(turn);
    job->done(job);
    simba__leave(turn);
}

int simba__turn_start_workers(simba__turn *turn, unsigned count, simba_error *err)
{
    return simba__worker_start(&turn->worker, count, bring, turn, err);
}

/* --- what the reactor reports --------------------------------------------------------------------- */

/* The two clocks run side by side unless the machine sleeps. Logging a jump explains why leases ended. */
static void look_for_suspend(simba__turn *turn)
{
    const int64_t difference = turn->now.ns - simba__clock_mono_ns();
    const int64_t slept_ns = difference - turn->boot_minus_mono_ns;
    if (slept_ns < 100 * SIMBA__NS_PER_MS)
        return;
    turn->boot_minus_mono_ns = difference;
    turn->suspends++;
    simba__notice_say(turn->options, SIMBA__NOTICE_SLEPT, &(simba__facts){.slept_ms = slept_ns / SIMBA__NS_PER_MS});
}

static void run_timers(simba__turn *turn)
{
    look_for_suspend(turn);
    /* Look before anything counts as overdue: the thread that the kernel woke for an answer may be held up. */
    if (simba__local_reached(turn->now, simba__timers_earliest(&turn->timers)))
        simba__reactor_look(&turn->reactor);
    for (simba_timer *timer = simba__timers_pop(&turn->timers, turn->now); timer;
         timer = simba__timers_pop(&turn->timers, turn->now)) {
        const uint64_t lag_ns = (uint64_t)(turn->now.ns - timer->at.ns);
        if (lag_ns > turn->max_lag_ns)
            turn->max_lag_ns = lag_ns;
        timer->fire(timer, turn->now);
    }
}

void simba__turn_take(simba__turn *turn, const simba__arrivals *arrivals)
{
    simba__reactor_take(&turn->reactor, arrivals);
    if (arrivals->timer)
        run_timers(turn);
}

void simba__turn_arm(simba__turn *turn)
{
    const simba_local before = turn->reactor.armed;
    const simba_local earliest = simba__timers_earliest(&turn->timers);
    if (simba__local_reached(earliest, before))
        return; /* it is set to that time, or to an earlier one */
    if (!simba__reactor_arm(&turn->reactor, earliest))
        simba__log(turn->options, SIMBA_LOG_ERROR, "cannot arm the timer: error %d", errno);
    if (turn->aside && turn->reactor.armed.ns < before.ns)
        pthread_cond_signal(&turn->hushed); /* so that the keeper waits less long */
}

/* --- entering and leaving ------------------------------------------------------------------------- */

bool simba__in_turn(const simba__turn *turn)
{
    return turn_of == turn;
}

/* The thread would wait for itself for ever, and nothing would renew the leases. */
static void check_not_in_turn(const simba__turn *turn)
{
    SIMBA__ASSERT(!simba__in_turn(turn) || !"simba was called by a log function, or by a handler of a signal");
}

static void begin(simba__turn *turn)
{
    turn_of = turn;
    turn->now = simba__clock_boot();
}

void simba__enter(simba__turn *turn)
{
    check_not_in_turn(turn);
    simba__gate_pass_by(&turn->gate, &turn->lock);
    begin(turn);
}

void simba__enter_in_line(simba__turn *turn)
{
    check_not_in_turn(turn);
    simba__gate_pass(&turn->gate, &turn->lock);
    begin(turn);
}

static void unlock(simba__turn *turn)
{
    simba__worker_announce(&turn->worker);
    turn_of = NULL;
    simba__gate_leave(&turn->gate);
    pthread_mutex_unlock(&turn->lock);
}

/* The application's loop drives the client: there is no keeper, nor will there be one. */
static bool has_loop(const simba__turn *turn)
{
    return turn->options->dispatch == SIMBA_DISPATCH_FD;
}

typedef struct follower {
    simba__list_item item;
    pthread_cond_t *cond;
} follower;

/* This thread no longer waits. If there is no keeper and no other thread leads, a following thread has to: the
 * application's loop may stand still. */
static void pass_lead_on(simba__turn *turn)
{
    if (has_loop(turn) && !turn->led_for && turn->followers.first)
        pthread_cond_signal(SIMBA__OF_ITEM(turn->followers.first, follower, item)->cond);
}

bool simba__turn_settle(simba__turn *turn)
{
    const bool any = turn->hooks->settle(turn);
    simba__turn_arm(turn);
    return any;
}

void simba__turn_end(simba__turn *turn)
{
    pass_lead_on(turn);
    unlock(turn);
}

void simba__leave(simba__turn *turn)
{
    turn->hooks->leave(turn);
}

void simba__turn_pause(simba__turn *turn)
{
    simba__turn_settle(turn);
    simba__turn_end(turn);
}

/* --- waiting -------------------------------------------------------------------------------------- */

/* Condition variables do not know the boot-time clock. The other clock only decides how long to wait. */
static int wait_until(simba__turn *turn, pthread_cond_t *cond, simba_local until)
{
    if (until.ns == INT64_MAX)
        return pthread_cond_wait(cond, &turn->lock);
    const int64_t left_ns = until.ns - simba__clock_boot().ns;
    const int64_t at_ns = simba__clock_mono_ns() + (left_ns > 0 ? left_ns : 0);
    const struct timespec at = {(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)};
    return pthread_cond_timedwait(cond, &turn->lock, &at);
}

/* In a settled turn. */
static bool follow(simba__turn *turn, pthread_cond_t *cond, simba_local until)
{
    follower self = {.cond = cond};
    simba__list_append(&turn->followers, &self.item);
    simba__worker_announce(&turn->worker);
    simba__gate_leave(&turn->gate);
    const int rc = wait_until(turn, cond, until);
    turn->now = simba__clock_boot();
    simba__list_remove(&self.item);
    return rc == 0;
}

/* Rounded up: a thread that wakes early would have to wait again. */
static int timeout_ms(simba_local until)
{
    if (until.ns == INT64_MAX)
        return -1;
    const int64_t left_ns = until.ns - simba__clock_boot().ns;
    const int64_t left_ms = (left_ns + SIMBA__NS_PER_MS - 1) / SIMBA__NS_PER_MS;
    return left_ns <= 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

/* In a settled turn: wait at the reactor, and take the events there. */
static bool lead(simba__turn *turn, const pthread_cond_t *cond, simba_local until)
{
    assert(!turn->led_for);
    turn->led_for = cond;
    unlock(turn);
    const simba__arrivals arrivals = simba__reactor_wait(&turn->reactor, &turn->reactor.threads, timeout_ms(until));
    simba__enter(turn);
    turn->led_for = NULL;
    if (arrivals.bell || turn->reactor.threads.rung)
        simba__waitset_hush(&turn->reactor.threads);
    if (turn->aside)
        pthread_cond_signal(&turn->hushed);
    simba__turn_take(turn, &arrivals);
    return arrivals.any;
}

bool simba__turn_wait(simba__turn *turn, pthread_cond_t *cond, simba_local until)
{
    /* The awaited event may have happened in here. */
    const bool settled = simba__turn_settle(turn);
    if (turn->hooks->hand_over(turn) || settled)
        return true;
    return has_loop(turn) && !turn->led_for ? lead(turn, cond, until) : follow(turn, cond, until);
}

static void run_job(simba__turn *turn, simba_job *job)
{
    simba__turn_pause(turn);
    job->run(job);
    simba__enter(turn);
    job->done(job);
}

void simba__turn_help(simba__turn *turn)
{
    simba__turn_settle(turn);
    simba_job *job = turn->followers.first ? simba__worker_take(&turn->worker, SIMBA_JOB_BRIEF) : NULL;
    if (job)
        run_job(turn, job);
}

/* One thread at a time, and only if answers arrive at the reactor: otherwise signalling a condition is quicker. */
static bool may_lead(const simba__turn *turn)
{
    return !turn->led_for && (turn->reactor.answering > 0 || !turn->kept);
}

bool simba__turn_await(simba__turn *turn, pthread_cond_t *cond, simba_local until, simba_job_length longest)
{
    if (simba__turn_settle(turn))
        return true; /* the awaited event may have happened in here */
    simba_job *job = simba__worker_take(&turn->worker, longest);
    if (job) {
        run_job(turn, job);
        return true;
    }
    if (turn->hooks->hand_over(turn))
        return true;
    return may_lead(turn) ? lead(turn, cond, until) : simba__turn_wait(turn, cond, until);
}

void simba__turn_signal(simba__turn *turn, pthread_cond_t *cond)
{
    pthread_cond_broadcast(cond);
    if (turn->led_for != cond || turn->reactor.threads.rung)
        return;
    turn->reactor.threads.rung = true;
    simba__waitset_ring(&turn->reactor.threads);
}
