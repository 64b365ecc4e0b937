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

/* --- lifetime ------------------------------------------------------------------------------------- */

void simba__turn_init(simba__turn *turn, const simba__turn_hooks *hooks, const simba_client_options *options)
{
    turn->hooks = hooks;
    turn->options = options;
    turn->boot_minus_mono_ns = simba__clock_boot().ns - simba__clock_mono_ns();
    pthread_mutex_init(&turn->lock, NULL);
    simba__gate_init(&turn->gate);
    simba__inbox_init(&turn->inbox);
}

void simba__turn_fini(simba__turn *turn)
{
    simba__timers_fini(&turn->timers);
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
        simba__turn_signal(turn, &turn->hushed); /* so that the keeper waits less long */
}

/* --- entering and leaving ------------------------------------------------------------------------- */

bool simba__in_turn(const simba__turn *turn)
{
    return pthread_equal(atomic_load_explicit(&turn->thread, memory_order_relaxed), pthread_self());
}

/* The thread would wait for itself for ever, and nothing would renew the leases. */
static void check_not_in_turn(const simba__turn *turn)
{
    SIMBA__ASSERT(!simba__in_turn(turn) || !"simba was called by a log function, or by a handler of a signal");
}

/* Begin the calls that threads have posted, and let those threads follow. */
static bool begin_posts(simba__turn *turn)
{
    if (!simba__inbox_has_posts(&turn->inbox))
        return false;
    simba__post *next;
    for (simba__post *post = simba__inbox_take(&turn->inbox); post; post = next) {
        simba__sleeper *sleeper = &post->sleeper;
        next = post->next;
        simba__list_append(&turn->followers, &sleeper->of_turn);
        simba__list_append(&post->condition->sleepers, &sleeper->of_condition);
        post->begun = post->begin(post);
        if (!post->begun && !sleeper->noted)
            simba__sleeper_wake(sleeper, &turn->wakeups, false);
    }
    return true;
}

/* Has this thread left just before? */
static void note_return(simba__turn *turn)
{
    enum { AT_ONCE_NS = 20000 };
    if (turn->left_at.ns == 0 || !pthread_equal(turn->left, pthread_self()))
        return;
    turn->quick_returns = turn->now.ns - turn->left_at.ns < AT_ONCE_NS ? turn->quick_returns + 1 : 0;
    turn->left_at.ns = 0;
}

static void begin(simba__turn *turn)
{
    atomic_store_explicit(&turn->thread, pthread_self(), memory_order_relaxed);
    turn->now = simba__clock_boot();
    turn->puts_off = false;
    note_return(turn);
    if (atomic_load(&turn->reactor.answering) > 0)
        simba__inbox_open(&turn->inbox);
}

void simba__enter(simba__turn *turn)
{
    check_not_in_turn(turn);
    simba__gate_pass_by(&turn->gate, &turn->lock);
    begin(turn);
}

bool simba__enter_if_free(simba__turn *turn)
{
    check_not_in_turn(turn);
    if (!simba__gate_try(&turn->gate, &turn->lock))
        return false;
    begin(turn);
    return true;
}

void simba__enter_in_line(simba__turn *turn)
{
    check_not_in_turn(turn);
    simba__gate_pass(&turn->gate, &turn->lock);
    begin(turn);
}

/* After so many quick returns in a row, the next one will be quick, too. A thread that locks, unlocks, and is away for a while makes
 * one in a row. */
static bool comes_back(const simba__turn *turn)
{
    enum { QUICK_RETURNS = 3 };
    return turn->quick_returns >= QUICK_RETURNS;
}

/* A few threads follow, so that looking at them takes no time. Those of the pool, which wait for callbacks, are among them. */
static bool are_few(const simba__turn *turn)
{
    enum { FEW = 6 };
    return turn->followers.count <= FEW;
}

/* Does one of the few wait for an answer? `watchful`: and looks after it itself, if need be? */
static bool does_any_await(const simba__turn *turn, bool watchful)
{
    const simba__list_item *item = are_few(turn) ? turn->followers.first : NULL;
    for (; item; item = item->next) {
        const simba__sleeper *sleeper = SIMBA__OF_ITEM(item, simba__sleeper, of_turn);
        if (sleeper->awaits && (sleeper->watchful || !watchful))
            return true;
    }
    return false;
}

static void release_lock(simba__turn *turn)
{
    SIMBA__ASSERT(!turn->puts_off || does_any_await(turn, true)); /* or nobody would look after what is put off */
    simba__turn_arm(turn);
    simba__wakeups wakeups = turn->wakeups;
    turn->wakeups = (simba__wakeups){0};
    simba__worker_announce(&turn->worker);
    atomic_store_explicit(&turn->thread, 0, memory_order_relaxed);
    simba__gate_leave(&turn->gate);
    pthread_mutex_unlock(&turn->lock);
    simba__wakeups_make(&wakeups);
}

/* The application's loop drives the client: there is no keeper, nor will there be one. */
static bool has_loop(const simba__turn *turn)
{
    return turn->options->dispatch == SIMBA_DISPATCH_FD;
}

/* This thread no longer waits. If there is no keeper and no other thread leads, a following thread has to: the
 * application's loop may stand still. */
static void pass_lead_on(simba__turn *turn)
{
    if (has_loop(turn) && !turn->led_for && turn->followers.first)
        simba__sleeper_wake(SIMBA__OF_ITEM(turn->followers.first, simba__sleeper, of_turn), &turn->wakeups, false);
}

/* Afterwards the turn may be gone. If another thread is sure to come, it finds the calls that are posted from now on. */
static void unlock(simba__turn *turn)
{
    while (!simba__gate_is_urgent(&turn->gate) && !simba__inbox_close(&turn->inbox)) {
        simba__turn_settle(turn);
        turn->hooks->hand_over(turn);
        pass_lead_on(turn);
    }
    release_lock(turn);
}

bool simba__turn_settle(simba__turn *turn)
{
    const bool any = begin_posts(turn);
    return turn->hooks->settle(turn) || any;
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

static simba__awaited sleep_until(simba__turn *turn, simba__sleeper *self, simba_local until)
{
    if (!simba__sleep(self, until)) {
        simba__enter(turn);
        if (!self->noted) {
            simba__list_remove(&self->of_turn);
            simba__list_remove(&self->of_condition);
            return SIMBA__TIME_OVER;
        }
        unlock(turn);
        simba__sleep(self, SIMBA__NEVER); /* the thread that has noted this one is about to call it */
    }
    if (self->let_go)
        return SIMBA__LET_GO;
    simba__enter(turn);
    return SIMBA__MAYBE;
}

/* In a settled turn. `awaits`: an answer of the store. If that may be put off, the thread looks after it itself when nobody has for
 * 0.1 ms and what two jobs take. */
static simba__awaited follow(simba__turn *turn, simba__condition *condition, simba_local until, bool awaits)
{
    enum { MOMENT_NS = 100000 };
    simba__sleeper self = {.awaits = awaits};
    simba__list_append(&turn->followers, &self.of_turn);
    simba__list_append(&condition->sleepers, &self.of_condition);
    simba_local at = until;
    if (awaits && turn->worker.count > 0 && comes_back(turn) && are_few(turn)) {
        at = simba__local_add(simba__clock_boot(), MOMENT_NS + 2 * turn->job_ns);
        self.watchful = at.ns < until.ns;
    }
    const bool watchful = self.watchful;
    unlock(turn);
    const simba__awaited awaited = sleep_until(turn, &self, watchful ? at : until);
    return awaited == SIMBA__TIME_OVER && watchful ? SIMBA__MAYBE : awaited;
}

/* Take the lock, or post the call. The inbox is closed for a moment when a thread has just taken the lock, or is just about to release
 * it; and always if the store is in this process, because then a call does not wait for answers. True: it is posted. */
static bool take_lock_or_post(simba__turn *turn, simba__post *post)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES && atomic_load(&turn->reactor.answering) > 0; i++) {
        if (simba__gate_try(&turn->gate, &turn->lock))
            return false;
        if (simba__inbox_post(&turn->inbox, post))
            return true;
    }
    simba__gate_pass(&turn->gate, &turn->lock);
    return false;
}

simba__awaited simba__enter_or_post(simba__turn *turn, simba__post *post, simba_local until)
{
    check_not_in_turn(turn);
    if (!take_lock_or_post(turn, post)) {
        begin(turn);
        return SIMBA__MAYBE;
    }
    return sleep_until(turn, &post->sleeper, until);
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
static simba__awaited lead(simba__turn *turn, const simba__condition *condition, simba_local until)
{
    assert(!turn->led_for);
    turn->led_for = condition;
    unlock(turn);
    const simba__arrivals arrivals = simba__reactor_wait(&turn->reactor, &turn->reactor.threads, timeout_ms(until));
    simba__enter(turn);
    turn->led_for = NULL;
    if (arrivals.bell || turn->reactor.threads.rung)
        simba__waitset_hush(&turn->reactor.threads);
    if (turn->aside)
        simba__turn_signal(turn, &turn->hushed);
    simba__turn_take(turn, &arrivals);
    return arrivals.any ? SIMBA__MAYBE : SIMBA__TIME_OVER;
}

bool simba__turn_wait(simba__turn *turn, simba__condition *condition, simba_local until)
{
    /* The awaited event may have happened in here. */
    const bool settled = simba__turn_settle(turn);
    if (turn->hooks->hand_over(turn) || settled)
        return true;
    const bool leads = has_loop(turn) && !turn->led_for;
    const simba__awaited awaited = leads ? lead(turn, condition, until) : follow(turn, condition, until, false);
    SIMBA__ASSERT(awaited != SIMBA__LET_GO);
    return awaited != SIMBA__TIME_OVER;
}

/* Settle, but hand nothing to the store. */
static void take_answers(simba__turn *turn)
{
    turn->puts_off = true;
    simba__turn_settle(turn);
    turn->puts_off = false;
}

static void run_job(simba__turn *turn, simba_job *job)
{
    enum { LONG_NS = 5000000 }; /* nobody is put off for longer than two of these */
    simba__turn_pause(turn);
    const simba_local begun_at = simba__clock_boot();
    job->run(job);
    simba__enter(turn);
    turn->job_ns = turn->now.ns - begun_at.ns < LONG_NS ? turn->now.ns - begun_at.ns : LONG_NS;
    job->done(job);
    take_answers(turn); /* simba__turn_help may put off what else there is to do */
}

void simba__turn_help(simba__turn *turn)
{
    if (turn->worker.count == 0)
        return; /* this store has no jobs */
    take_answers(turn);
    const bool others_wait = turn->reactor.answering == 0 && does_any_await(turn, false);
    turn->puts_off = others_wait && comes_back(turn) && does_any_await(turn, true);
    if (!turn->puts_off) {
        simba__turn_settle(turn);
        simba_job *job = turn->followers.first ? simba__worker_take(&turn->worker, SIMBA_JOB_BRIEF) : NULL;
        if (job)
            run_job(turn, job);
    }
    if (others_wait) {
        turn->left = pthread_self();
        turn->left_at = simba__clock_boot();
    }
}

/* One thread at a time, and only if answers arrive at the reactor: otherwise signalling a condition is quicker. */
static bool may_lead(const simba__turn *turn)
{
    return !turn->led_for && (turn->reactor.answering > 0 || !turn->kept);
}

simba__awaited simba__turn_await(simba__turn *turn, simba__condition *condition, simba_local until,
                                 simba_job_length longest)
{
    if (simba__turn_settle(turn))
        return SIMBA__MAYBE; /* the awaited event may have happened in here */
    simba_job *job = simba__worker_take(&turn->worker, longest);
    if (job) {
        run_job(turn, job);
        return SIMBA__MAYBE;
    }
    if (turn->hooks->hand_over(turn))
        return SIMBA__MAYBE;
    const bool leads = may_lead(turn) || (has_loop(turn) && !turn->led_for);
    return leads ? lead(turn, condition, until) : follow(turn, condition, until, true);
}

void simba__turn_wake(simba__turn *turn, simba__condition *condition)
{
    simba__condition_wake(condition, &turn->wakeups, false);
    if (turn->led_for != condition || turn->reactor.threads.rung)
        return;
    turn->reactor.threads.rung = true;
    simba__waitset_ring(&turn->reactor.threads);
}

void simba__turn_signal_one(simba__turn *turn, simba__condition *condition)
{
    if (condition->sleepers.first)
        simba__sleeper_wake(SIMBA__OF_ITEM(condition->sleepers.first, simba__sleeper, of_condition), &turn->wakeups,
                            false);
}

void simba__turn_let_go(simba__turn *turn, simba__condition *condition)
{
    simba__condition_wake(condition, &turn->wakeups, true);
}
