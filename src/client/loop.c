/* The lock of a client, its polling thread, and how threads wait.
 *
 * Whoever takes the lock reads the clock once. Before the lock is released, the store gets the requests that there is room for,
 * the timer is set and jobs are announced, and then threads are woken: a stretch of code under the lock leaves nothing undone.
 *
 * One thread at a time polls the descriptors: the client's own thread, which does nothing else, or, if an application's loop
 * drives the client (SIMBA_DISPATCH_FD), any thread that waits in a call. All others sleep, each at a futex of its own. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/handles.h"
#include "client/log.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"

/* A thread that sleeps. It lies on that thread's stack: once it is taken from `waiters`, it stays until it is woken. */
typedef struct waiter {
    simba__list_item
        item; /* of `waiters`, then of `woken`, then of those whom the thread wakes that has released the lock */
    const void *awaits;
    _Atomic uint32_t awake; /* the futex */
} waiter;

/* --- fork ------------------------------------------------------------------------------------------ */

static _Atomic unsigned fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void forked(void)
{
    atomic_fetch_add(&fork_generation, 1);
}

static void begin_to_watch(void)
{
    pthread_atfork(NULL, NULL, forked);
}

void simba__loop_watch_forks(simba_client *client)
{
    pthread_once(&fork_once, begin_to_watch);
    client->fork_generation = atomic_load(&fork_generation);
}

int simba__client_forked(const simba_client *client, simba_error *err)
{
    if (client->fork_generation == atomic_load_explicit(&fork_generation, memory_order_relaxed))
        return 0;
    return simba__fail(err, SIMBA_EFORKED, "this client belongs to the parent process; open another one here");
}

/* --- sleeping --------------------------------------------------------------------------------------- */

static void wake_up(waiter *sleeper)
{
    _Atomic uint32_t *futex = &sleeper->awake;
    atomic_store_explicit(futex, 1, memory_order_release);
    /* It may be gone by now: then this wakes nobody, or somebody who looks again, as all who wait at a futex do. */
    syscall(SYS_futex, futex, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* False: the time has come before anybody woke it. */
static bool sleep_until(waiter *self, simba_local until)
{
    /* Futexes do not know the boot-time clock. The other clock only decides how long to sleep. */
    const bool limited = until.ns != INT64_MAX;
    const int64_t left_ns = limited ? until.ns - simba__clock_boot().ns : 0;
    const int64_t at_ns = simba__clock_mono_ns() + (left_ns > 0 ? left_ns : 0);
    const long at[] = {(long)(at_ns / 1000000000), (long)(at_ns % 1000000000)}; /* a timespec as the kernel has it */
    while (atomic_load_explicit(&self->awake, memory_order_acquire) == 0)
        if (syscall(SYS_futex, &self->awake, FUTEX_WAIT_BITSET_PRIVATE, 0, limited ? at : NULL, NULL,
                    FUTEX_BITSET_MATCH_ANY) < 0 &&
            errno == ETIMEDOUT)
            return false;
    return true;
}

/* --- before the lock is released -------------------------------------------------------------------- */

/* Have the store do what there is to do, until nothing is left: an answer may lead to a request, which a store in this process
 * answers at once. True: there was something. */
static bool settle(simba_client *client)
{
    bool any = false;
    for (; !client->store_closed; any = true) {
        if (client->watches.changed) {
            simba__watches_settle(&client->watches, client->backend, client->store);
        } else if (simba__window_hand_over(&client->window, client->now)) {
            client->stats.batches++;
            client->backend->flush(client->store);
        } else if (atomic_load_explicit(&client->wake_wanted, memory_order_relaxed) &&
                   atomic_exchange(&client->wake_wanted, false)) {
            client->backend->woken(client->store);
        } else {
            break;
        }
    }
    return any;
}

/* Threads are woken without the lock: otherwise they would run into it, and have to be woken once more. */
void simba__pause(simba_client *client)
{
    settle(client);
    if (!simba__reactor_arm(&client->reactor, simba__timers_earliest(&client->timers)))
        simba__log(&client->options, SIMBA_LOG_ERROR, "cannot arm the timer: error %d", errno);
    simba__jobs_announce(client);
    if (!client->polled && client->options.dispatch == SIMBA_DISPATCH_FD) {
        /* The application's loop may stand still: a thread that waits in a call must poll. Workers stay ready for jobs. */
        simba__list_item *item = client->waiters.first;
        while (item && SIMBA__OF_ITEM(item, waiter, item)->awaits == &client->jobs)
            item = item->next;
        if (item)
            simba__list_append(&client->woken, item);
    }
    simba__list woken = {0};
    while (client->woken.first)
        simba__list_append(&woken, client->woken.first);
    atomic_store_explicit(&client->locked_by, 0, memory_order_relaxed);
    pthread_mutex_unlock(&client->lock); /* from here on the client may be gone */
    for (simba__list_item *item = woken.first, *next; item; item = next) {
        next = item->next;
        wake_up(SIMBA__OF_ITEM(item, waiter, item));
    }
}

static void begin(simba_client *client)
{
    atomic_store_explicit(&client->locked_by, pthread_self(), memory_order_relaxed);
    client->now = simba__clock_boot();
}

/* --- the lock --------------------------------------------------------------------------------------- */

bool simba__is_locked_here(const simba_client *client)
{
    return pthread_equal(atomic_load_explicit(&client->locked_by, memory_order_relaxed), pthread_self());
}

void simba__lock(simba_client *client)
{
    /* The thread would wait for itself for ever, and nothing would renew the leases. */
    SIMBA__ASSERT(!simba__is_locked_here(client) || !"simba was called by a log function, or by a handler of a signal");
    if (atomic_load_explicit(&client->poller_waits, memory_order_relaxed)) {
        pthread_mutex_lock(&client->door);
        pthread_mutex_unlock(&client->door);
    }
    pthread_mutex_lock(&client->lock);
    begin(client);
}

/* For the thread that polls, since timers must not be late: a thread that locks in a loop takes the lock again before the kernel has
 * woken anybody who waits for it. While the poller waits, the others stop at the door. */
static void lock_as_poller(simba_client *client)
{
    pthread_mutex_lock(&client->door);
    atomic_store_explicit(&client->poller_waits, true, memory_order_relaxed);
    pthread_mutex_lock(&client->lock);
    atomic_store_explicit(&client->poller_waits, false, memory_order_relaxed);
    pthread_mutex_unlock(&client->door);
    begin(client);
}

int simba__lock_checked(simba_client *client, bool open, simba_error *err)
{
    const int rc = simba__client_forked(client, err);
    if (rc < 0)
        return rc;
    simba__lock(client);
    if (!open || !client->closed)
        return 0;
    simba__unlock(client);
    return simba__fail(err, SIMBA_ECLOSED, "the client is closed");
}

void simba__unlock(simba_client *client)
{
    settle(client);
    /* While the executor has our thread, another may close the client and free the last handle. */
    const bool hands_over = client->options.dispatch == SIMBA_DISPATCH_EXECUTOR;
    if (hands_over) {
        atomic_fetch_add(&client->refs, 1);
        simba__callbacks_hand_over(client);
    }
    simba__list dead = {0};
    while (client->callbacks.dead.first)
        simba__list_append(&dead, client->callbacks.dead.first);
    simba__pause(client);
    while (dead.first) { /* without the lock: the application may be told */
        simba__handle *handle = SIMBA__OF_ITEM(dead.first, simba__handle, of_callbacks);
        simba__list_remove(&handle->of_callbacks);
        handle->type->destroy(handle);
        simba__client_unref(client);
    }
    if (hands_over)
        simba__client_unref(client);
}

/* --- waking ----------------------------------------------------------------------------------------- */

void simba__wake(simba_client *client, const void *awaits)
{
    const void *also = client->closing ? client : awaits; /* whoever closes the client looks at all that ends */
    for (simba__list_item *item = client->waiters.first, *next; item; item = next) {
        const void *awaited = SIMBA__OF_ITEM(item, waiter, item)->awaits;
        next = item->next;
        if (awaited == awaits || awaited == also)
            simba__list_append(&client->woken, item);
    }
    if (client->polled_for == awaits || client->polled_for == also)
        simba__wakeup_raise(client->reactor.wakeup);
}

void simba__wake_one(simba_client *client, const void *awaits)
{
    simba__list_item *item = client->waiters.first;
    while (item && SIMBA__OF_ITEM(item, waiter, item)->awaits != awaits)
        item = item->next;
    if (item)
        simba__list_append(&client->woken, item);
}

void simba__loop_wake(simba_client *client)
{
    if (atomic_exchange(&client->wake_wanted, true) || simba__is_locked_here(client))
        return; /* this thread sees it before it releases the lock */
    simba__wakeup_raise(client->reactor.wakeup);
    simba__wakeup_raise(client->reactor.loop_wakeup);
}

/* --- polling ---------------------------------------------------------------------------------------- */

/* The two clocks run side by side unless the machine sleeps. Logging a jump explains why leases ended. Those who sleep by the
 * monotonic clock, which stood still, look anew. */
static void look_for_suspend(simba_client *client)
{
    const int64_t difference = client->now.ns - simba__clock_mono_ns();
    const int64_t slept_ns = difference - client->boot_minus_mono_ns;
    if (slept_ns < 100 * SIMBA__NS_PER_MS)
        return;
    client->boot_minus_mono_ns = difference;
    client->stats.suspends++;
    simba__log_slept(&client->options, slept_ns / SIMBA__NS_PER_MS);
    while (client->waiters.first)
        simba__list_append(&client->woken, client->waiters.first);
}

/* Descriptors come first: a process that was stopped for a while must not call an answer overdue that has arrived. Then so many
 * timers at a time: answers must be read in between, and the lock is wanted by others. */
static void handle_events(simba_client *client)
{
    enum { MOST = 1000 };
    if (!simba__reactor_take(&client->reactor))
        return;
    look_for_suspend(client);
    for (int i = 0; i < MOST; i++) {
        simba_timer *timer = simba__timers_pop(&client->timers, client->now);
        if (!timer)
            return;
        const uint64_t lag_ns = (uint64_t)(client->now.ns - timer->at.ns);
        if (lag_ns > client->stats.max_lag_ns)
            client->stats.max_lag_ns = lag_ns;
        timer->fire(timer, client->now);
    }
}

static void *run_loop(void *arg)
{
    simba_client *client = arg;
    simba__lock(client);
    while (!client->quit) {
        simba__unlock(client);
        simba__reactor_wait(&client->reactor, -1);
        lock_as_poller(client);
        handle_events(client);
    }
    simba__unlock(client);
    return NULL;
}

int simba_client_fd(simba_client *client)
{
    if (!client)
        return SIMBA_EINVAL;
    const int rc = simba__client_forked(client, NULL);
    return rc < 0 ? rc : client->options.dispatch == SIMBA_DISPATCH_FD ? client->reactor.loop_set : SIMBA_ESTATE;
}

int simba_client_dispatch(simba_client *client)
{
    const int fd = simba_client_fd(client);
    if (fd < 0)
        return fd;
    simba__lock(client);
    if (!client->callbacks.queued.first)
        simba__wakeup_clear(client->reactor.loop_wakeup); /* what the store wants is done below */
    handle_events(client);
    settle(client);
    const unsigned ran = simba__callbacks_run(client);
    simba__unlock(client);
    return (int)ran;
}

/* --- waiting ---------------------------------------------------------------------------------------- */

void simba__sleep(simba_client *client, const void *awaits, simba_local until)
{
    waiter self = {.awaits = awaits};
    bool awake;
    simba__list_append(&client->waiters, &self.item);
    do {
        simba__pause(client);
        awake = sleep_until(&self, until);
        simba__lock(client);
        until = SIMBA__NEVER;
    } while (!awake && self.item.list != &client->waiters); /* somebody is about to wake it */
    if (!awake)
        simba__list_remove(&self.item);
}

void simba__wait(simba_client *client, const void *awaits, simba_local until)
{
    if (settle(client) || simba__callbacks_hand_over(client) || simba__jobs_help(client))
        return; /* what it waits for may have happened in here */
    if (client->polled) {
        simba__sleep(client, awaits, until);
        return;
    }
    client->polled = true;
    client->polled_for = awaits;
    simba__pause(client);
    /* Rounded up: a thread that wakes early would need to wait again. */
    const int64_t left_ns = until.ns - simba__clock_boot().ns;
    const int64_t left_ms = left_ns > 0 ? (left_ns - 1) / SIMBA__NS_PER_MS + 1 : 0;
    simba__reactor_wait(&client->reactor, until.ns == INT64_MAX ? -1 : left_ms > INT_MAX ? INT_MAX : (int)left_ms);
    lock_as_poller(client);
    client->polled = false;
    client->polled_for = NULL; /* from now on nobody polls: whoever releases the lock next wakes another */
    handle_events(client);
}

/* --- beginning and end ------------------------------------------------------------------------------ */

int simba__thread_create(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int simba__loop_start(simba_client *client, simba_error *err)
{
    simba__lock(client); /* others may look already whether somebody polls */
    client->polled = client->looped = simba__thread_create(&client->loop, run_loop, client) == 0;
    simba__unlock(client);
    return client->looped ? 0 : simba__fail(err, SIMBA_ESYSTEM, "cannot start the client's thread");
}

void simba__loop_stop(simba_client *client)
{
    if (!client->looped)
        return;
    simba__lock(client);
    client->quit = true;
    simba__unlock(client);
    simba__wakeup_raise(client->reactor.wakeup);
    pthread_join(client->loop, NULL);
    client->looped = false;
}
