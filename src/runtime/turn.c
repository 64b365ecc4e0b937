/* Turns: how a client's threads take their turns, and what is settled before one ends. See client.h. */
#include <assert.h>
#include <limits.h>
#include <signal.h>
#include <time.h>

#include "runtime/party.h"
#include "util/clock.h"

static _Thread_local const simba_client *turn_of;

bool simba__in_turn(const simba_client *client)
{
    return turn_of == client;
}

int simba__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    if (rc != 0)
        return rc;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
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

static bool look_at_answers(simba_client *client)
{
    bool any = false;
    for (simba_request *request; (request = simba__requests_take(&client->requests)) != NULL; any = true)
        request->done(request);
    return any;
}

/* Hand what was submitted to the store, all of it in one flush. */
static bool send_outbox(simba_client *client)
{
    if (!client->requests.outbox_first)
        return false;
    client->stats.requests += simba__requests_hand_over(&client->requests);
    client->stats.batches++;
    client->backend->flush(client->store);
    simba__requests_arm(&client->requests);
    return true;
}

static bool wants_store(simba_client *client)
{
    return client->topics.dirty || client->requests.outbox_first || atomic_load(&client->wake_wanted);
}

static bool deal_with_store(simba_client *client)
{
    if (client->store_closed || !wants_store(client))
        return false;
    if (client->topics.dirty)
        simba__topics_settle(&client->topics, client->backend, client->store,
                             client->backend->caps & SIMBA_CAP_WATCH_FREE);
    else if (!send_outbox(client) && atomic_exchange(&client->wake_wanted, false))
        client->backend->woken(client->store);
    return true;
}

/* Until nothing is left to do: an answer may lead to a request, which a store in this process answers at once. */
static bool settle(simba_client *client)
{
    assert(!client->settling);
    client->settling = true;
    bool any = false;
    for (bool more = true; more;) {
        more = look_at_answers(client);
        more |= deal_with_store(client);
        any |= more;
    }
    client->settling = false;
    simba__keeper_arm(client);
    return any;
}

void simba__enter(simba_client *client)
{
    pthread_mutex_lock(&client->lock);
    turn_of = client;
    client->now = simba__clock_boot();
}

static void free_dead(simba_client *client, simba__party *dead)
{
    while (dead) {
        simba__party *next = dead->next;
        dead->type->destroy(dead);
        simba__client_unref(client);
        dead = next;
    }
}

/* A thread that waits for what another one reads. */
typedef struct follower {
    simba__list_item item;
    pthread_cond_t *cond;
} follower;

/* The application's loop drives the client: there is no keeper. */
static bool has_loop(const simba_client *client)
{
    return client->options.dispatch == SIMBA_DISPATCH_FD;
}

/* This thread waits no longer. Where there is no keeper, and nobody leads any more, a follower has to: the application's loop
 * may stand still. */
static void pass_lead_on(simba_client *client)
{
    if (has_loop(client) && !client->led_for && client->followers.first)
        pthread_cond_signal(SIMBA__OF_ITEM(client->followers.first, follower, item)->cond);
}

void simba__leave(simba_client *client)
{
    settle(client);
    /* While the executor has our thread, another may close the client and free the last handle. */
    const bool hands_over = client->dispatcher.form == SIMBA_DISPATCH_EXECUTOR;
    if (hands_over)
        atomic_fetch_add(&client->refs, 1);
    simba__dispatch_hand_over(client);
    simba__worker_announce(&client->worker);
    pass_lead_on(client);
    simba__party *dead = client->dead;
    client->dead = NULL;
    turn_of = NULL;
    pthread_mutex_unlock(&client->lock);
    free_dead(client, dead);
    if (hands_over)
        simba__client_unref(client);
}

void simba__turn_pause(simba_client *client)
{
    settle(client);
    simba__worker_announce(&client->worker);
    pass_lead_on(client);
    turn_of = NULL;
    pthread_mutex_unlock(&client->lock);
}

void simba__turn_resume(simba_client *client)
{
    simba__enter(client);
}

/* Condition variables do not know the boot-time clock. Waiting is all that the other one decides here. */
static int wait_until(simba_client *client, pthread_cond_t *cond, simba_local until)
{
    if (until.ns == INT64_MAX)
        return pthread_cond_wait(cond, &client->lock);
    const int64_t left_ns = until.ns - simba__clock_boot().ns;
    const int64_t at_ns = simba__clock_mono_ns() + (left_ns > 0 ? left_ns : 0);
    const struct timespec at = {(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)};
    return pthread_cond_timedwait(cond, &client->lock, &at);
}

/* In a settled turn. */
static bool follow(simba_client *client, pthread_cond_t *cond, simba_local until)
{
    follower self = {.cond = cond};
    simba__list_append(&client->followers, &self.item);
    simba__worker_announce(&client->worker);
    const int rc = wait_until(client, cond, until);
    client->now = simba__clock_boot();
    simba__list_remove(&self.item);
    return rc == 0;
}

static void run_job(simba_client *client, simba_job *job)
{
    simba__turn_pause(client);
    job->run(job);
    simba__turn_resume(client);
    job->done(job);
}

/* Rounded up: who comes early has to wait again. */
static int timeout_ms(simba_local until)
{
    if (until.ns == INT64_MAX)
        return -1;
    const int64_t left_ns = until.ns - simba__clock_boot().ns;
    const int64_t left_ms = (left_ns + SIMBA__NS_PER_MS - 1) / SIMBA__NS_PER_MS;
    return left_ns <= 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

/* In a settled turn: wait at the reactor, and take what comes there. */
static bool lead(simba_client *client, pthread_cond_t *cond, simba_local until)
{
    assert(!client->led_for);
    client->led_for = cond;
    simba__worker_announce(&client->worker);
    turn_of = NULL;
    pthread_mutex_unlock(&client->lock);
    const simba__arrivals arrivals = simba__reactor_wait(&client->reactor, timeout_ms(until));
    simba__enter(client);
    client->led_for = NULL;
    if (arrivals.bell || client->reactor.rung)
        simba__reactor_hush(&client->reactor);
    if (client->keeper.aside)
        pthread_cond_signal(&client->keeper.hushed);
    simba__keeper_take(client, &arrivals);
    if (client->closing)
        pthread_cond_broadcast(&client->changed); /* who closes waits for us to be out of there */
    return arrivals.any;
}

bool simba__turn_wait(simba_client *client, pthread_cond_t *cond, simba_local until)
{
    /* What was waited for may have happened in here. */
    const bool settled = settle(client);
    if (simba__dispatch_hand_over(client) || settled)
        return true;
    return has_loop(client) && !client->led_for ? lead(client, cond, until) : follow(client, cond, until);
}

/* One thread at a time, and only where answers come in at the reactor: a condition is quicker to be signalled. */
static bool may_lead(const simba_client *client)
{
    return !client->led_for && (client->reactor.answering > 0 || !client->keeper.started);
}

bool simba__turn_await(simba_client *client, pthread_cond_t *cond, simba_local until, simba_job_length longest)
{
    if (settle(client))
        return true; /* what was waited for may have happened in here */
    simba_job *job = simba__worker_take(&client->worker, longest);
    if (job) {
        run_job(client, job);
        return true;
    }
    if (simba__dispatch_hand_over(client))
        return true;
    return may_lead(client) ? lead(client, cond, until) : simba__turn_wait(client, cond, until);
}

void simba__turn_poll(simba_client *client)
{
    const simba__arrivals arrivals = simba__reactor_poll(&client->reactor);
    if (arrivals.bell && client->dispatcher.queued == 0)
        simba__reactor_hush_loop(&client->reactor); /* what it rang for is settled below */
    simba__keeper_take(client, &arrivals);
    settle(client);
}

void simba__turn_signal(simba_client *client, pthread_cond_t *cond)
{
    pthread_cond_broadcast(cond);
    if (client->led_for != cond || client->reactor.rung)
        return;
    client->reactor.rung = true;
    simba__reactor_ring(&client->reactor);
}
