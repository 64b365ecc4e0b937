/* The loop thread: libuv for the back ends that want it, and a timerfd on the boot-time clock for the deadlines. */
#include <errno.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "runtime/client.h"
#include "util/clock.h"
#include "util/error.h"

bool simba__on_loop_thread(const simba_client *client)
{
    return client->loop_started && pthread_equal(client->loop_thread, pthread_self());
}

void simba__loop_wake(simba_client *client)
{
    uv_async_send(&client->async);
}

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

/* The two clocks run side by side unless the machine sleeps. A jump explains to a person why leases ended. */
static void look_for_suspend(simba_client *client)
{
    const int64_t difference = client->now.ns - simba__clock_mono_ns();
    const int64_t slept_ns = difference - client->boot_minus_mono_ns;
    if (slept_ns < 100 * SIMBA__NS_PER_MS)
        return;
    client->boot_minus_mono_ns = difference;
    client->stats.suspends++;
    simba__log(client, SIMBA_LOG_WARN, "this machine slept for %lld ms", (long long)(slept_ns / SIMBA__NS_PER_MS));
}

static void on_timer(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    simba_client *client = poll->data;
    uint64_t expirations;
    (void)!read(client->timer_fd, &expirations, sizeof expirations);
    simba__enter(client);
    client->timers_armed = SIMBA__NEVER;
    look_for_suspend(client);
    simba__inputs_take(&client->inputs); /* before anything is found to be overdue */
    for (simba_timer *timer = simba__timers_pop(&client->timers, client->now); timer;
         timer = simba__timers_pop(&client->timers, client->now)) {
        const uint64_t lag_ns = (uint64_t)(client->now.ns - timer->at.ns);
        if (lag_ns > client->stats.max_lag_ns)
            client->stats.max_lag_ns = lag_ns;
        timer->fire(timer, client->now);
    }
    simba__leave(client);
}

void simba__loop_arm(simba_client *client)
{
    /* A later deadline than the one that is armed needs no system call: the timer fires for nothing, and is armed
     * then. Any thread may arm a timerfd, so the loop thread is not disturbed either. */
    const simba_local earliest = simba__timers_earliest(&client->timers);
    if (earliest.ns >= client->timers_armed.ns)
        return;
    const int64_t ns = earliest.ns > 0 ? earliest.ns : 1;
    const struct itimerspec when = {.it_value = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};
    if (timerfd_settime(client->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0)
        client->timers_armed = earliest;
    else
        simba__log(client, SIMBA_LOG_ERROR, "cannot arm the timer: error %d", errno);
}

static void close_own_handles(simba_client *client)
{
    uv_close((uv_handle_t *)&client->async, NULL);
    uv_close((uv_handle_t *)&client->timer_poll, NULL);
}

static void on_async(uv_async_t *async)
{
    simba_client *client = async->data;
    simba__enter(client);
    if (client->store_close_wanted && !client->store_close_begun) {
        client->store_close_begun = true;
        simba__topics_settle(&client->topics, client->backend, client->store, false);
        client->backend->close(client->store);
    }
    const bool over = client->store_closed;
    if (over)
        simba__inputs_close(&client->inputs);
    simba__leave(client);
    if (over && !uv_is_closing((uv_handle_t *)async))
        close_own_handles(client);
}

static void on_inputs(simba__inputs *inputs)
{
    simba_client *client = (simba_client *)(void *)((char *)inputs - offsetof(simba_client, inputs));
    simba__enter(client);
    if (!inputs->awaited) /* somebody may have begun to read just now */
        simba__inputs_take(inputs);
    simba__leave(client);
}

static void *loop_thread(void *arg)
{
    simba_client *client = arg;
    uv_run(&client->loop, UV_RUN_DEFAULT);
    return NULL;
}

static int fail_uv(int rc, const char *what, simba_error *err)
{
    return simba__fail(err, rc == UV_ENOMEM ? SIMBA_ENOMEM : SIMBA_ESYSTEM, "cannot %s: %s", what, uv_strerror(rc));
}

int simba__loop_init(simba_client *client, simba_error *err)
{
    client->boot_minus_mono_ns = simba__clock_boot().ns - simba__clock_mono_ns();
    client->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (client->timer_fd < 0)
        return fail_uv(-errno, "make a timer", err);
    int rc = uv_loop_init(&client->loop);
    if (rc != 0) {
        close(client->timer_fd);
        return fail_uv(rc, "make an event loop", err);
    }
    client->loop_ready = true;
    client->inputs.readable = on_inputs;
    client->async.data = client;
    client->timer_poll.data = client;
    rc = uv_async_init(&client->loop, &client->async, on_async);
    if (rc != 0)
        return fail_uv(rc, "make the loop's wake-up", err);
    rc = uv_poll_init(&client->loop, &client->timer_poll, client->timer_fd);
    if (rc != 0) {
        uv_close((uv_handle_t *)&client->async, NULL);
        return fail_uv(rc, "watch the timer", err);
    }
    client->loop_handles = true;
    rc = uv_poll_start(&client->timer_poll, UV_READABLE, on_timer);
    return rc == 0 ? 0 : fail_uv(rc, "watch the timer", err);
}

int simba__loop_start(simba_client *client, simba_error *err)
{
    /* In a turn, so that the new thread does not look for loop_thread before it is written. */
    simba__enter(client);
    client->loop_started = simba__thread_create(&client->loop_thread, loop_thread, client) == 0;
    simba__leave(client);
    return client->loop_started ? 0 : simba__fail(err, SIMBA_ESYSTEM, "cannot start the loop thread");
}

void simba__loop_fini(simba_client *client)
{
    if (!client->loop_ready)
        return;
    if (client->loop_started)
        pthread_join(client->loop_thread, NULL);
    else if (client->loop_handles)
        close_own_handles(client);
    uv_run(&client->loop, UV_RUN_DEFAULT);
    uv_loop_close(&client->loop);
    simba__inputs_fini(&client->inputs);
    close(client->timer_fd);
    client->loop_ready = false;
}
