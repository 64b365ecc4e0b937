/* See keeper.h. */
#include "runtime/keeper.h"

#include <errno.h>

#include "runtime/client.h"
#include "runtime/notice.h"
#include "util/clock.h"
#include "util/error.h"

/* --- what the reactor reports --------------------------------------------------------------------- */

/* The two clocks run side by side unless the machine sleeps. A jump explains to a person why leases ended. */
static void look_for_suspend(simba_client *client)
{
    const int64_t difference = client->now.ns - simba__clock_mono_ns();
    const int64_t slept_ns = difference - client->boot_minus_mono_ns;
    if (slept_ns < 100 * SIMBA__NS_PER_MS)
        return;
    client->boot_minus_mono_ns = difference;
    client->stats.suspends++;
    simba__notice_say(&client->options, SIMBA__NOTICE_SLEPT, &(simba__facts){.slept_ms = slept_ns / SIMBA__NS_PER_MS});
}

static void run_timers(simba_client *client)
{
    look_for_suspend(client);
    /* Before anything is found to be overdue: the thread that was told of the answer may be held up. */
    if (simba__local_reached(client->now, simba__timers_earliest(&client->timers)))
        simba__reactor_look(&client->reactor);
    for (simba_timer *timer = simba__timers_pop(&client->timers, client->now); timer;
         timer = simba__timers_pop(&client->timers, client->now)) {
        const uint64_t lag_ns = (uint64_t)(client->now.ns - timer->at.ns);
        if (lag_ns > client->stats.max_lag_ns)
            client->stats.max_lag_ns = lag_ns;
        timer->fire(timer, client->now);
    }
}

void simba__keeper_take(simba_client *client, const simba__arrivals *arrivals)
{
    simba__reactor_take(&client->reactor, arrivals);
    if (arrivals->timer)
        run_timers(client);
}

void simba__keeper_arm(simba_client *client)
{
    const simba_local before = client->reactor.armed;
    if (!simba__reactor_arm(&client->reactor, simba__timers_earliest(&client->timers)))
        simba__log(&client->options, SIMBA_LOG_ERROR, "cannot arm the timer: error %d", errno);
    if (client->keeper.aside && client->reactor.armed.ns < before.ns)
        pthread_cond_signal(&client->keeper.hushed); /* it has to wait less long */
}

/* --- the thread ------------------------------------------------------------------------------------ */

/* In a turn. The bell wakes all who wait. It is for the one who leads, if there is one, and goes on ringing until that one
 * has come; meanwhile waiting at the reactor would not be waiting. The timer is kept here as well. */
static void heed_bell(simba_client *client)
{
    simba__keeper *keeper = &client->keeper;
    if (!client->led_for) {
        simba__reactor_hush(&client->reactor);
        return;
    }
    client->reactor.rung = true;
    keeper->aside = true;
    while (client->reactor.rung && client->led_for)
        if (!simba__turn_wait(client, &keeper->hushed, client->reactor.armed))
            simba__keeper_take(client, &(simba__arrivals){.timer = true});
    keeper->aside = false;
}

static void *keep(void *arg)
{
    simba_client *client = arg;
    simba__enter(client);
    while (!client->keeper.quit) {
        simba__leave(client);
        const simba__arrivals arrivals = simba__reactor_wait(&client->reactor, -1);
        simba__enter(client);
        simba__keeper_take(client, &arrivals);
        if (arrivals.bell)
            heed_bell(client);
    }
    simba__leave(client);
    return NULL;
}

int simba__keeper_start(simba_client *client, simba_error *err)
{
    simba__keeper *keeper = &client->keeper;
    if (simba__cond_init(&keeper->hushed) != 0)
        return simba__fail(err, SIMBA_ESYSTEM, "cannot make a condition variable");
    simba__enter(client); /* others may be in turns already, and look whether there is one */
    keeper->started = simba__thread_create(&keeper->thread, keep, client) == 0;
    simba__leave(client);
    if (keeper->started)
        return 0;
    pthread_cond_destroy(&keeper->hushed);
    return simba__fail(err, SIMBA_ESYSTEM, "cannot start the client's thread");
}

void simba__keeper_stop(simba_client *client)
{
    simba__keeper *keeper = &client->keeper;
    if (!keeper->started)
        return;
    simba__enter(client);
    keeper->quit = true;
    simba__leave(client);
    simba__reactor_ring(&client->reactor);
    pthread_join(keeper->thread, NULL);
    pthread_cond_destroy(&keeper->hushed);
    keeper->started = false;
}
