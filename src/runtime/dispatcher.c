/* See dispatcher.h. */
#include "runtime/dispatcher.h"

#include "runtime/party.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

#define IDLE_NS (5000 * SIMBA__NS_PER_MS)
#define STALL_NS (5 * SIMBA__NS_PER_MS)

struct simba__pool_thread {
    simba_client *client;
    simba__pool_thread *next;
    pthread_t thread;
};

/* The callbacks that this thread is in, innermost first. */
struct frame {
    const simba__party *party;
    struct frame *outer;
};

static _Thread_local struct frame *frames;

bool simba__inside_party(const simba__party *party)
{
    for (const struct frame *frame = frames; frame; frame = frame->outer)
        if (frame->party == party)
            return true;
    return false;
}

bool simba__inside_client(const simba_client *client)
{
    for (const struct frame *frame = frames; frame; frame = frame->outer)
        if (frame->party->client == client)
            return true;
    return false;
}

/* --- strands -------------------------------------------------------------------------------------- */

/* Take a strand out of the queue. The loop's bell rings as long as there is one in it, whoever takes them. */
static void take_out(simba_client *client, simba__party **link)
{
    simba__dispatcher *dispatcher = &client->dispatcher;
    *link = (*link)->strand_next;
    if (!*link)
        dispatcher->last = link;
    if (--dispatcher->queued == 0)
        simba__reactor_hush_loop(&client->reactor);
}

static simba__party *take_first(simba_client *client)
{
    simba__party *party = client->dispatcher.first;
    if (party)
        take_out(client, &client->dispatcher.first);
    return party;
}

static void take_this(simba_client *client, const simba__party *party)
{
    simba__party **link = &client->dispatcher.first;
    while (*link != party)
        link = &(*link)->strand_next;
    take_out(client, link);
}

/* In a turn. The caller has taken the party out of the queue; the queue's reference is used up here. */
static unsigned run_strand(simba_client *client, simba__party *party)
{
    struct frame frame = {party, frames};
    unsigned ran = 0;
    party->strand = SIMBA__STRAND_RUNNING;
    frames = &frame;
    for (int more = party->type->run_one(party); more >= 0; more = party->type->run_one(party))
        ran += (unsigned)more;
    frames = frame.outer;
    party->strand = SIMBA__STRAND_IDLE;
    client->stats.callbacks += ran;
    if (party->orphaned && !party->running) {
        party->orphaned = false;
        simba__party_unref(party);
    }
    simba__party_unref(party);
    simba__turn_signal(client, &client->changed);
    return ran;
}

bool simba__dispatch_help(simba_client *client, simba__party *party)
{
    if (party->strand != SIMBA__STRAND_QUEUED)
        return false;
    if (party->handed)
        party->refs++; /* the executor still has its own reference, and will find nothing to run */
    else
        take_this(client, party);
    run_strand(client, party);
    return true;
}

/* --- the pool ------------------------------------------------------------------------------------- */

static void *pool_thread(void *arg)
{
    simba__pool_thread *self = arg;
    simba_client *client = self->client;
    simba__dispatcher *pool = &client->dispatcher;

    simba__enter(client);
    while (!pool->quit) {
        simba__party *party = take_first(client);
        if (party) {
            pool->progress_at = client->now;
            run_strand(client, party);
            continue;
        }
        pool->idle++;
        const bool woken = simba__turn_wait(client, &pool->wanted, simba__local_add(client->now, IDLE_NS));
        pool->idle--;
        if (!woken && !pool->first && pool->threads > 1)
            break;
    }
    pool->threads--;
    simba__pool_thread **link = &pool->running;
    while (*link != self)
        link = &(*link)->next;
    *link = self->next;
    self->next = pool->ended;
    pool->ended = self;
    simba__turn_signal(client, &client->changed);
    simba__leave(client);
    return NULL;
}

static void join_ended(simba__pool_thread *ended)
{
    while (ended) {
        simba__pool_thread *next = ended->next;
        pthread_join(ended->thread, NULL);
        simba__free(ended);
        ended = next;
    }
}

static int add_thread(simba_client *client)
{
    simba__dispatcher *pool = &client->dispatcher;
    simba__pool_thread *self = simba__calloc(1, sizeof *self);
    if (!self)
        return SIMBA_ENOMEM;
    self->client = client;
    if (simba__thread_create(&self->thread, pool_thread, self) != 0) {
        simba__free(self);
        return SIMBA_ESYSTEM;
    }
    self->next = pool->running;
    pool->running = self;
    pool->threads++;
    return 0;
}

/* A slow callback must not delay another mutex's. Quick ones, however many, need no more threads: one is added only when
 * none of those there are has got on for a moment. If there is none to be had, those that exist will come to it. */
static void on_stalled(simba_timer *timer, simba_local now)
{
    simba__dispatcher *pool = (simba__dispatcher *)(void *)((char *)timer - offsetof(simba__dispatcher, stalled));
    simba_client *client = (simba_client *)(void *)((char *)pool - offsetof(simba_client, dispatcher));
    if (pool->quit || pool->queued <= pool->idle || pool->threads >= client->options.max_callback_threads)
        return;
    if (simba__local_reached(now, simba__local_add(pool->progress_at, STALL_NS))) {
        join_ended(pool->ended);
        pool->ended = NULL;
        if (add_thread(client) < 0)
            simba__log(client, SIMBA_LOG_WARN, "cannot add a callback thread to the %u there are", pool->threads);
    }
    simba__timers_set(&client->timers, timer, simba__local_add(now, STALL_NS));
}

static void want_thread(simba_client *client)
{
    simba__dispatcher *pool = &client->dispatcher;
    pthread_cond_signal(&pool->wanted);
    if (pool->queued > pool->idle && pool->stalled.index == 0)
        simba__timers_set(&client->timers, &pool->stalled, simba__local_add(client->now, STALL_NS));
}

/* --- the executor --------------------------------------------------------------------------------- */

static void run_handed(void *arg)
{
    simba__party *party = arg;
    simba_client *client = party->client;
    simba__enter(client);
    party->handed = false;
    if (party->strand == SIMBA__STRAND_QUEUED)
        run_strand(client, party);
    else
        simba__party_unref(party); /* somebody helped */
    simba__leave(client);
}

bool simba__dispatch_hand_over(simba_client *client)
{
    if (client->dispatcher.form != SIMBA_DISPATCH_EXECUTOR || !client->dispatcher.first)
        return false;
    for (simba__party *party = take_first(client); party; party = take_first(client)) {
        party->handed = true;
        simba__turn_pause(client);
        client->options.executor(client->options.executor_user, run_handed, party);
        simba__turn_resume(client);
    }
    return true;
}

/* --- posting -------------------------------------------------------------------------------------- */

void simba__dispatch_post(simba_client *client, simba__party *party)
{
    simba__dispatcher *dispatcher = &client->dispatcher;
    if (party->strand != SIMBA__STRAND_IDLE)
        return; /* whoever has it will look again */
    party->strand = SIMBA__STRAND_QUEUED;
    if (party->handed)
        return; /* the executor has yet to call for an earlier time that somebody helped with: that call will serve */
    party->refs++;
    party->strand_next = NULL;
    *dispatcher->last = party;
    dispatcher->last = &party->strand_next;
    dispatcher->queued++;
    if (dispatcher->form == SIMBA_DISPATCH_POOL)
        want_thread(client);
    else if (dispatcher->queued == 1)
        simba__reactor_ring_loop(&client->reactor);
}

/* --- the application's loop ----------------------------------------------------------------------- */

int simba_client_fd(simba_client *client)
{
    if (!client)
        return SIMBA_EINVAL;
    const int rc = simba__client_forked(client, NULL);
    if (rc < 0)
        return rc;
    return client->dispatcher.form == SIMBA_DISPATCH_FD ? client->reactor.loop.set : SIMBA_ESTATE;
}

int simba_client_dispatch(simba_client *client)
{
    if (!client)
        return SIMBA_EINVAL;
    const int rc = simba__client_forked(client, NULL);
    if (rc < 0)
        return rc;
    if (client->dispatcher.form != SIMBA_DISPATCH_FD)
        return SIMBA_ESTATE;
    int ran = 0;
    simba__enter(client);
    simba__turn_poll(client);
    for (simba__party *party = take_first(client); party; party = take_first(client))
        ran += (int)run_strand(client, party);
    simba__leave(client);
    return ran;
}

/* --- lifetime ------------------------------------------------------------------------------------- */

int simba__dispatcher_init(simba_client *client, simba_error *err)
{
    simba__dispatcher *dispatcher = &client->dispatcher;
    dispatcher->form = client->options.dispatch;
    dispatcher->last = &dispatcher->first;
    if (simba__cond_init(&dispatcher->wanted) != 0)
        return simba__fail(err, SIMBA_ESYSTEM, "cannot make a condition variable");
    dispatcher->ready = true;
    if (dispatcher->form == SIMBA_DISPATCH_POOL) {
        simba__enter(client);
        dispatcher->stalled.fire = on_stalled;
        int rc = simba__timers_reserve(&client->timers);
        if (rc == 0)
            rc = add_thread(client);
        simba__leave(client);
        if (rc < 0)
            return simba__fail(err, rc, "cannot start a callback thread");
    }
    return 0;
}

void simba__dispatcher_fini(simba_client *client)
{
    simba__dispatcher *dispatcher = &client->dispatcher;
    if (!dispatcher->ready)
        return;
    simba__enter(client);
    dispatcher->quit = true;
    simba__timers_clear(&client->timers, &dispatcher->stalled);
    pthread_cond_broadcast(&dispatcher->wanted);
    while (dispatcher->running)
        simba__turn_wait(client, &client->changed, SIMBA__NEVER);
    simba__leave(client);
    join_ended(dispatcher->ended);
    dispatcher->ended = NULL;
    pthread_cond_destroy(&dispatcher->wanted);
    dispatcher->ready = false;
}
