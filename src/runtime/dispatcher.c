/* See dispatcher.h. */
#include "runtime/dispatcher.h"

#include <assert.h>

#include "core/timing.h"
#include "runtime/notice.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/thread.h"

#define IDLE_NS (5000 * SIMBA__NS_PER_MS)
#define STALL_NS (5 * SIMBA__NS_PER_MS)

typedef struct pool_thread {
    simba__list_item item;
    simba__dispatcher *pool;
    pthread_t thread;
} pool_thread;

/* The callbacks that run on this thread, innermost first. */
struct frame {
    const simba__strand *strand;
    struct frame *outer;
};

static _Thread_local struct frame *frames;

bool simba__strand_inside(const simba__strand *strand)
{
    for (const struct frame *frame = frames; frame; frame = frame->outer)
        if (frame->strand == strand)
            return true;
    return false;
}

bool simba__dispatcher_inside(const simba__dispatcher *dispatcher)
{
    for (const struct frame *frame = frames; frame; frame = frame->outer)
        if (frame->strand->dispatcher == dispatcher)
            return true;
    return false;
}

/* --- strands -------------------------------------------------------------------------------------- */

void simba__strand_unref(simba__strand *strand)
{
    assert(strand->refs > 0);
    if (--strand->refs > 0)
        return;
    strand->dispatcher->type->gone(strand);
    simba__list_append(&strand->dispatcher->dead, &strand->item);
}

static simba__strand *of_item(simba__list_item *item)
{
    return SIMBA__OF_ITEM(item, simba__strand, item);
}

void simba__strands_destroy(simba__list *dead)
{
    for (simba__list_item *item = dead->first, *next; item; item = next) {
        next = item->next;
        of_item(item)->dispatcher->type->destroy(of_item(item));
    }
}

/* The loop's bell rings while the queue is not empty, whichever thread takes from it. */
static simba__strand *take(simba__dispatcher *dispatcher, simba__list_item *item)
{
    if (!item)
        return NULL;
    simba__list_remove(item);
    if (dispatcher->queued.count == 0)
        simba__waitset_hush(&dispatcher->turn->reactor.loop);
    return of_item(item);
}

static simba__strand *take_first(simba__dispatcher *dispatcher)
{
    return take(dispatcher, dispatcher->queued.first);
}

/* In a turn. The caller has taken the strand out of the queue; this uses up the queue's reference. */
static unsigned run_strand(simba__strand *strand)
{
    simba__dispatcher *dispatcher = strand->dispatcher;
    struct frame frame = {strand, frames};
    unsigned ran = 0;
    strand->state = SIMBA__STRAND_RUNNING;
    frames = &frame;
    for (int more = strand->dispatcher->type->run_one(strand); more >= 0;
         more = strand->dispatcher->type->run_one(strand))
        ran += (unsigned)more;
    frames = frame.outer;
    strand->state = SIMBA__STRAND_IDLE;
    dispatcher->callbacks += ran;
    strand->dispatcher->type->ran(strand);
    simba__strand_unref(strand);
    simba__turn_signal(dispatcher->turn, &dispatcher->turn->changed);
    return ran;
}

bool simba__strand_help(simba__strand *strand)
{
    if (strand->state != SIMBA__STRAND_QUEUED)
        return false;
    if (strand->handed)
        strand->refs++; /* the executor still has its own reference, and will find nothing to run */
    else
        take(strand->dispatcher, &strand->item);
    run_strand(strand);
    return true;
}

unsigned simba__dispatcher_run(simba__dispatcher *dispatcher)
{
    unsigned ran = 0;
    for (simba__strand *strand = take_first(dispatcher); strand; strand = take_first(dispatcher))
        ran += run_strand(strand);
    return ran;
}

/* --- the pool ------------------------------------------------------------------------------------- */

static void *run_pool(void *arg)
{
    pool_thread *self = arg;
    simba__dispatcher *pool = self->pool;
    simba__turn *turn = pool->turn;

    simba__enter(turn);
    while (!pool->quit) {
        simba__strand *strand = take_first(pool);
        if (strand) {
            pool->progress_at = turn->now;
            run_strand(strand);
            continue;
        }
        pool->idle++;
        const bool woken = simba__turn_wait(turn, &pool->wanted, simba__local_add(turn->now, IDLE_NS));
        pool->idle--;
        if (!woken && !pool->queued.first && pool->threads.count > 1)
            break;
    }
    simba__list_append(&pool->ended, &self->item);
    simba__turn_signal(turn, &turn->changed);
    simba__leave(turn);
    return NULL;
}

static void join_ended(simba__dispatcher *pool)
{
    while (pool->ended.first) {
        pool_thread *ended = SIMBA__OF_ITEM(pool->ended.first, pool_thread, item);
        simba__list_remove(&ended->item);
        pthread_join(ended->thread, NULL);
        simba__free(ended);
    }
}

static int add_thread(simba__dispatcher *pool)
{
    pool_thread *self = simba__calloc(1, sizeof *self);
    if (!self)
        return SIMBA_ENOMEM;
    self->pool = pool;
    if (simba__thread_create(&self->thread, run_pool, self) != 0) {
        simba__free(self);
        return SIMBA_ESYSTEM;
    }
    simba__list_append(&pool->threads, &self->item);
    return 0;
}

/* A slow callback must not delay those of another mutex. Quick callbacks, however many, need no more threads: the
 * pool adds a thread only when none of its threads has made progress for a moment. If it cannot, the existing
 * threads get to it later. */
static void on_stalled(simba_timer *timer, simba_local now)
{
    simba__dispatcher *pool = (simba__dispatcher *)(void *)((char *)timer - offsetof(simba__dispatcher, stalled));
    simba__turn *turn = pool->turn;
    if (pool->quit || pool->queued.count <= pool->idle || pool->threads.count >= turn->options->max_callback_threads)
        return;
    if (simba__local_reached(now, simba__local_add(pool->progress_at, STALL_NS))) {
        join_ended(pool);
        if (add_thread(pool) < 0)
            simba__log(turn->options, SIMBA_LOG_WARN, "cannot add a callback thread to the %zu there are",
                       pool->threads.count);
    }
    simba__timers_set(&turn->timers, timer, simba__local_add(now, STALL_NS));
}

static void want_thread(simba__dispatcher *pool)
{
    simba__turn_signal_one(pool->turn, &pool->wanted);
    if (pool->queued.count > pool->idle && pool->stalled.index == 0)
        simba__timers_set(&pool->turn->timers, &pool->stalled, simba__local_add(pool->turn->now, STALL_NS));
}

/* --- the executor --------------------------------------------------------------------------------- */

static void run_handed(void *arg)
{
    simba__strand *strand = arg;
    simba__turn *turn = strand->dispatcher->turn;
    simba__enter(turn);
    strand->handed = false;
    if (strand->state == SIMBA__STRAND_QUEUED)
        run_strand(strand);
    else
        simba__strand_unref(strand); /* another thread has run it */
    simba__leave(turn);
}

bool simba__dispatcher_hand_over(simba__dispatcher *dispatcher)
{
    if (!dispatcher->queued.first || dispatcher->turn->options->dispatch != SIMBA_DISPATCH_EXECUTOR)
        return false;
    const simba_client_options *options = dispatcher->turn->options;
    for (simba__strand *strand = take_first(dispatcher); strand; strand = take_first(dispatcher)) {
        strand->handed = true;
        simba__turn_pause(dispatcher->turn);
        options->executor(options->executor_user, run_handed, strand);
        simba__enter(dispatcher->turn);
    }
    return true;
}

/* --- posting -------------------------------------------------------------------------------------- */

void simba__strand_post(simba__strand *strand)
{
    simba__dispatcher *dispatcher = strand->dispatcher;
    if (strand->state != SIMBA__STRAND_IDLE)
        return; /* the thread that runs it will look again */
    strand->state = SIMBA__STRAND_QUEUED;
    if (strand->handed)
        return; /* the executor still owes a call for an earlier post, which another thread served: that call will do */
    strand->refs++;
    simba__list_append(&dispatcher->queued, &strand->item);
    if (dispatcher->turn->options->dispatch == SIMBA_DISPATCH_POOL)
        want_thread(dispatcher);
    else if (dispatcher->queued.count == 1)
        simba__waitset_ring(&dispatcher->turn->reactor.loop);
}

/* --- lifetime ------------------------------------------------------------------------------------- */

int simba__dispatcher_init(simba__dispatcher *dispatcher, simba__turn *turn, const simba__strand_type *type,
                           simba_error *err)
{
    dispatcher->type = type;
    dispatcher->turn = turn;
    dispatcher->stalled.fire = on_stalled;
    dispatcher->ready = true;
    if (turn->options->dispatch != SIMBA_DISPATCH_POOL)
        return 0;
    simba__enter(turn);
    int rc = simba__timers_reserve(&turn->timers, 1);
    if (rc == 0)
        rc = add_thread(dispatcher);
    simba__leave(turn);
    return rc == 0 ? 0 : simba__fail(err, rc, "cannot start a callback thread");
}

void simba__dispatcher_fini(simba__dispatcher *dispatcher)
{
    simba__turn *turn = dispatcher->turn;
    if (!dispatcher->ready)
        return;
    simba__enter(turn);
    dispatcher->quit = true;
    simba__timers_clear(&turn->timers, &dispatcher->stalled);
    simba__turn_signal(turn, &dispatcher->wanted);
    while (dispatcher->threads.first)
        simba__turn_wait(turn, &turn->changed, SIMBA__NEVER);
    simba__leave(turn);
    join_ended(dispatcher);
    dispatcher->ready = false;
}
