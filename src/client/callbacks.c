/* Runs the application's callbacks: on a pool of threads, in the application's own loop, or in its executor. The callbacks of one
 * handle run one at a time; those of different handles do not wait for each other. Whoever runs them has a reference to the
 * handle, because a callback or an executor may outlast it. */
#include "client/handles.h"

#include "client/log.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

#define STALL_NS (5 * SIMBA__NS_PER_MS)

typedef struct pool_thread {
    simba__list_item item;
    simba_client *client;
    pthread_t thread;
} pool_thread;

/* The callbacks that run on this thread, innermost first. */
struct frame {
    const simba__handle *handle;
    struct frame *outer;
};

static _Thread_local struct frame *frames;

bool simba__callbacks_are_inside(const simba_client *client, const simba__handle *handle)
{
    const struct frame *frame = frames;
    while (frame && (handle ? frame->handle != handle : frame->handle->client != client))
        frame = frame->outer;
    return frame != NULL;
}

/* --- running ---------------------------------------------------------------------------------------- */

/* The wakeup of the application's loop stays raised while anything is queued, whichever thread takes it. */
static simba__handle *take(simba_client *client, simba__list_item *item)
{
    simba__list_remove(item);
    if (client->callbacks.queued.count == 0)
        simba__wakeup_clear(client->reactor.loop_wakeup);
    return SIMBA__OF_ITEM(item, simba__handle, of_callbacks);
}

/* The caller has taken the handle out of the queue; this uses up the queue's reference. */
static unsigned run(simba__handle *handle)
{
    simba_client *client = handle->client;
    struct frame frame = {handle, frames};
    unsigned ran = 0;
    handle->callback_state = SIMBA__CALLBACKS_RUNNING;
    frames = &frame;
    for (int more = handle->type->callback(handle); more >= 0; more = handle->type->callback(handle))
        ran += (unsigned)more;
    frames = frame.outer;
    handle->callback_state = SIMBA__CALLBACKS_IDLE;
    client->stats.callbacks += ran;
    simba__wake(client, handle);
    simba__handle_unref(handle);
    return ran;
}

unsigned simba__callbacks_run(simba_client *client)
{
    unsigned ran = 0;
    while (client->callbacks.queued.first)
        ran += run(take(client, client->callbacks.queued.first));
    return ran;
}

bool simba__callbacks_help(simba__handle *handle)
{
    if (handle->callback_state != SIMBA__CALLBACKS_QUEUED)
        return false;
    if (handle->handed)
        handle->refs++; /* the executor still has its own reference, and will find nothing to run */
    else
        take(handle->client, &handle->of_callbacks);
    run(handle);
    return true;
}

/* --- the pool --------------------------------------------------------------------------------------- */

static void *run_pool(void *arg)
{
    pool_thread *self = arg;
    simba_client *client = self->client;
    simba__callbacks *pool = &client->callbacks;
    simba__lock(client);
    while (!pool->quit) {
        if (pool->queued.first) {
            pool->progress_at = client->now;
            run(take(client, pool->queued.first));
            continue;
        }
        pool->idle++;
        simba__unlock(client); /* handles that are dead go now */
        simba__lock(client);
        if (!pool->queued.first && !pool->quit)
            simba__sleep(client, pool, SIMBA__NEVER);
        pool->idle--;
    }
    simba__unlock(client);
    return NULL;
}

static int add_thread(simba_client *client)
{
    pool_thread *self = simba__calloc(1, sizeof *self);
    if (!self)
        return SIMBA_ENOMEM;
    self->client = client;
    if (simba__thread_create(&self->thread, run_pool, self) != 0) {
        simba__free(self);
        return SIMBA_ESYSTEM;
    }
    simba__list_append(&client->callbacks.threads, &self->item);
    return 0;
}

/* A slow callback must not delay those of another mutex. Quick callbacks, however many, need no more threads: the pool adds a
 * thread only when none of its threads has made progress for a moment. If it cannot, the existing threads get to it later. */
static void on_stalled(simba_timer *timer, simba_local now)
{
    simba_client *client = SIMBA__OF_ITEM(timer, simba_client, callbacks.stalled);
    simba__callbacks *pool = &client->callbacks;
    if (pool->quit || pool->queued.count <= pool->idle || pool->threads.count >= client->options.max_callback_threads)
        return;
    const bool stalled = simba__local_reached(now, simba__local_add(pool->progress_at, STALL_NS));
    if (stalled && add_thread(client) < 0)
        simba__log(&client->options, SIMBA_LOG_WARN, "cannot add a callback thread to the %zu there are",
                   pool->threads.count);
    simba__timers_set(&client->timers, timer, simba__local_add(now, STALL_NS));
}

/* --- the executor ----------------------------------------------------------------------------------- */

static void run_handed(void *arg)
{
    simba__handle *handle = arg;
    simba_client *client = handle->client;
    simba__lock(client);
    handle->handed = false;
    if (handle->callback_state == SIMBA__CALLBACKS_QUEUED)
        run(handle);
    else
        simba__handle_unref(handle); /* another thread has run it */
    simba__unlock(client);
}

bool simba__callbacks_hand_over(simba_client *client)
{
    if (!client->callbacks.queued.first || client->options.dispatch != SIMBA_DISPATCH_EXECUTOR)
        return false;
    while (client->callbacks.queued.first) {
        simba__handle *handle = take(client, client->callbacks.queued.first);
        handle->handed = true;
        simba__pause(client);
        client->options.executor(client->options.executor_user, run_handed, handle);
        simba__lock(client);
    }
    return true;
}

/* --- adding ----------------------------------------------------------------------------------------- */

void simba__callbacks_add(simba__handle *handle)
{
    simba_client *client = handle->client;
    simba__callbacks *callbacks = &client->callbacks;
    if (handle->callback_state != SIMBA__CALLBACKS_IDLE)
        return; /* the thread that runs them will look again */
    handle->callback_state = SIMBA__CALLBACKS_QUEUED;
    if (!handle->handed) { /* otherwise the executor still owes a call for an earlier time, which will do */
        handle->refs++;
        simba__list_append(&callbacks->queued, &handle->of_callbacks);
    }
    simba__wake(client, handle); /* a thread that waits for the handle may run them itself */
    if (client->options.dispatch == SIMBA_DISPATCH_FD && callbacks->queued.count == 1) {
        simba__wakeup_raise(client->reactor.loop_wakeup);
    } else if (client->options.dispatch == SIMBA_DISPATCH_POOL) {
        simba__wake_one(client, callbacks);
        if (callbacks->queued.count > callbacks->idle && callbacks->stalled.index == 0)
            simba__timers_set(&client->timers, &callbacks->stalled, simba__local_add(client->now, STALL_NS));
    }
}

/* --- beginning and end ------------------------------------------------------------------------------ */

int simba__callbacks_start(simba_client *client, simba_error *err)
{
    simba__callbacks *callbacks = &client->callbacks;
    callbacks->stalled.fire = on_stalled;
    callbacks->ready = true;
    if (client->options.dispatch != SIMBA_DISPATCH_POOL)
        return 0;
    simba__lock(client);
    int rc = simba__timers_reserve(&client->timers, 1);
    if (rc == 0)
        rc = add_thread(client);
    simba__unlock(client);
    return rc == 0 ? 0 : simba__fail(err, rc, "cannot start a callback thread");
}

void simba__callbacks_stop(simba_client *client)
{
    simba__callbacks *pool = &client->callbacks;
    if (!pool->ready)
        return;
    simba__lock(client);
    pool->quit = true;
    simba__timers_clear(&client->timers, &pool->stalled);
    simba__wake(client, pool);
    simba__unlock(client);
    while (pool->threads.first) { /* nobody adds one any more */
        pool_thread *ended = SIMBA__OF_ITEM(pool->threads.first, pool_thread, item);
        simba__list_remove(&ended->item);
        pthread_join(ended->thread, NULL);
        simba__free(ended);
    }
    pool->ready = false;
}
