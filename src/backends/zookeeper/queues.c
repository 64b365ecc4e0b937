/* What is known about whole queues: see zk_queue. A table by path; those that nobody refers to are kept for a while, because
 * whoever has locked something will do so again. */
#include <stdlib.h>
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "util/hash.h"
#include "util/mem.h"

enum {
    IDLE_MAX = 1024, /* how many are kept */
    WINS_MIN = 2,    /* of a queue that is worth a watch */
};

/* --- the table ------------------------------------------------------------------------------------------- */

static zk_queue **bucket_of(const zk_store *self, const char *path)
{
    return &self->queues[simba__hash(path) & (self->queue_capacity - 1)];
}

static bool grow(zk_store *self)
{
    const size_t before = self->queue_capacity;
    zk_queue **old = self->queues;
    zk_queue **buckets = simba__calloc(before ? before * 2 : 16, sizeof(zk_queue *));
    if (!buckets)
        return false;
    self->queues = buckets;
    self->queue_capacity = before ? before * 2 : 16;
    for (size_t i = 0; i < before; i++)
        while (old[i]) {
            zk_queue *queue = old[i];
            old[i] = queue->next;
            zk_queue **bucket = bucket_of(self, queue->path);
            queue->next = *bucket;
            *bucket = queue;
        }
    simba__free(old);
    return true;
}

static void leave_idle(zk_queue *queue)
{
    zk_store *self = queue->store;
    queue->idle = false;
    self->idle_count--;
    if (queue->idle_previous)
        queue->idle_previous->idle_next = queue->idle_next;
    else
        self->idle_first = queue->idle_next;
    if (queue->idle_next)
        queue->idle_next->idle_previous = queue->idle_previous;
    else
        self->idle_last = queue->idle_previous;
}

static void forget(zk_queue *queue)
{
    if (queue->watch)
        queue->watch->queue = NULL;
    queue->watch = NULL;
    queue->gone = -1;
}

static void queue_free(zk_queue *queue)
{
    zk_store *self = queue->store;
    zk_queue **link = bucket_of(self, queue->path);
    while (*link != queue)
        link = &(*link)->next;
    *link = queue->next;
    self->queue_count--;
    forget(queue);
    simba__free(queue->path);
    simba__free(queue);
}

zk_queue *simba__zk_queue_get(zk_store *self, const char *mutex)
{
    if (self->queue_count >= self->queue_capacity && !grow(self))
        return NULL;
    char *path = simba__zk_child_path(self->options.root, mutex);
    if (!path)
        return NULL;
    zk_queue *queue = *bucket_of(self, path);
    while (queue && strcmp(queue->path, path) != 0)
        queue = queue->next;
    if (queue) {
        simba__free(path);
        if (queue->idle)
            leave_idle(queue);
        queue->refs++;
        return queue;
    }
    queue = simba__calloc(1, sizeof *queue);
    if (!queue) {
        simba__free(path);
        return NULL;
    }
    *queue = (zk_queue){.store = self, .path = path, .refs = 1, .gone = -1};
    zk_queue **bucket = bucket_of(self, path);
    queue->next = *bucket;
    *bucket = queue;
    self->queue_count++;
    return queue;
}

void simba__zk_queue_put(zk_queue *queue)
{
    zk_store *self = queue->store;
    if (--queue->refs > 0)
        return;
    queue->idle = true;
    queue->idle_next = NULL;
    queue->idle_previous = self->idle_last;
    if (self->idle_last)
        self->idle_last->idle_next = queue;
    else
        self->idle_first = queue;
    self->idle_last = queue;
    if (++self->idle_count <= IDLE_MAX)
        return;
    zk_queue *oldest = self->idle_first;
    leave_idle(oldest);
    queue_free(oldest);
}

void simba__zk_queues_forget(zk_store *self)
{
    for (size_t i = 0; i < self->queue_capacity; i++)
        for (zk_queue *queue = self->queues[i]; queue; queue = queue->next)
            forget(queue);
}

void simba__zk_queues_fini(zk_store *self)
{
    for (size_t i = 0; i < self->queue_capacity; i++)
        while (self->queues[i])
            queue_free(self->queues[i]);
    simba__free(self->queues);
}

/* --- the watch -------------------------------------------------------------------------------------------- */

static void mutex_changed(zk_watch *watch, int type)
{
    (void)type;
    if (watch->queue)
        forget(watch->queue);
}

static void armed(zk_op *op)
{
    simba__zk_op_end(op);
}

static void arm(zk_op *op)
{
    zk_watch *watch = op->queue->watch ? NULL : simba__zk_watch_new(op->store, mutex_changed);
    if (!watch) {
        simba__zk_op_end(op);
        return;
    }
    watch->queue = op->queue;
    simba__zk_op_step(op, armed);
    simba__zk_call_queue_watch(op, watch);
    simba__zk_op_go(op);
}

static void arming_over(zk_op *op)
{
    op->queue->arming = false;
    simba__zk_queue_put(op->queue);
    op->queue = NULL;
}

static void begin_to_arm(zk_queue *queue)
{
    if (queue->watch || queue->arming || queue->wins < WINS_MIN)
        return;
    zk_op *op = simba__zk_op_new(queue->store, NULL, arm);
    if (!op)
        return;
    op->persists = true;
    op->finished = arming_over;
    op->queue = queue;
    queue->refs++;
    queue->arming = true;
    simba__zk_op_start(op);
}

/* --- numbers ----------------------------------------------------------------------------------------------- */

/* Of a child that we made. -1: that is no number. */
static int64_t number_of(const char *name)
{
    const size_t length = strlen(name);
    char *end = NULL;
    const long long number = length > 10 ? strtoll(name + length - 10, &end, 10) : -1;
    return end && *end == '\0' && number >= 0 ? number : -1;
}

/* As long as it is there, so is the node that it is a child of: what is learned now is about that one. */
void simba__zk_queue_led(zk_queue *queue, const char *name)
{
    queue->wins++;
    if (queue->watch)
        queue->gone = number_of(name) - 1;
    else
        begin_to_arm(queue);
}

void simba__zk_queue_left(zk_queue *queue, const char *name)
{
    if (queue->watch && queue->gone == number_of(name) - 1)
        queue->gone++;
}

bool simba__zk_queue_may_be_empty(const zk_queue *queue)
{
    return queue->watch && queue->gone >= 0;
}

bool simba__zk_queue_is_first(const zk_queue *queue, const char *name)
{
    return simba__zk_queue_may_be_empty(queue) && number_of(name) == queue->gone + 1;
}
