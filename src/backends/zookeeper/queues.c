#include "backends/zookeeper/queues.h"

#include <string.h>

#include "util/hash.h"
#include "util/mem.h"

enum {
    IDLE_MAX = 1024, /* how many idle queues are kept */
    WINS_MIN = 2,    /* how often we lead before a watch is worth its cost */
};

#define QUEUE_OF(node_) SIMBA__OF_NODE(node_, zk_queue, node)

/* --- the table ------------------------------------------------------------------------------------------- */

static void forget(zk_queue *queue)
{
    simba__zk_watch_drop(&queue->watch);
    simba__zk_numbers_forget(&queue->numbers);
}

static void queue_free(zk_queue *queue)
{
    simba__list_remove(&queue->idle);
    simba__table_remove(&queue->queues->table, &queue->node);
    forget(queue);
    simba__free(queue->path);
    simba__free(queue);
}

static bool is_at(const simba__node *node, const void *path)
{
    return strcmp(QUEUE_OF(node)->path, path) == 0;
}

static zk_queue *queue_new(zk_queues *queues, char *path)
{
    zk_queue *queue = simba__table_reserve(&queues->table) ? simba__calloc(1, sizeof *queue) : NULL;
    if (!queue) {
        simba__free(path);
        return NULL;
    }
    *queue = (zk_queue){.queues = queues, .path = path};
    forget(queue);
    simba__table_add(&queues->table, &queue->node, simba__hash(path));
    return queue;
}

zk_queue *simba__zk_queue_get(zk_queues *queues, const char *mutex)
{
    char *path = simba__zk_child_path(queues->ops->session->options->root, mutex);
    if (!path)
        return NULL;
    const simba__node *node = simba__table_find(&queues->table, simba__hash(path), is_at, path);
    zk_queue *queue = node ? QUEUE_OF(node) : queue_new(queues, path);
    if (node)
        simba__free(path);
    if (!queue)
        return NULL;
    simba__list_remove(&queue->idle);
    queue->refs++;
    return queue;
}

void simba__zk_queue_put(zk_queue *queue)
{
    simba__list *idle = &queue->queues->idle;
    if (--queue->refs > 0)
        return;
    simba__list_append(idle, &queue->idle);
    if (idle->count > IDLE_MAX)
        queue_free(SIMBA__OF_ITEM(idle->first, zk_queue, idle));
}

void simba__zk_queues_forget(zk_queues *queues)
{
    for (simba__node *node = simba__table_first(&queues->table); node; node = simba__table_next(&queues->table, node))
        forget(QUEUE_OF(node));
}

void simba__zk_queues_fini(zk_queues *queues)
{
    for (simba__node *node; (node = simba__table_first(&queues->table));)
        queue_free(QUEUE_OF(node));
    simba__table_fini(&queues->table);
}

/* --- the watch -------------------------------------------------------------------------------------------- */

struct arming {
    zk_op op; /* first */
    zk_queue *queue;
};

static void mutex_changed(void *owner, int type)
{
    (void)type;
    forget(owner);
}

static void armed(zk_op *op, const zk_result *result)
{
    ((struct arming *)op)->queue->numbers.watched = result->watched;
    simba__zk_op_note(op, result->rc);
}

static void arm(zk_op *op)
{
    zk_queue *queue = ((struct arming *)op)->queue;
    zk_watch *watch = queue->watch ? NULL : simba__zk_watch_new(op, &queue->watch, queue, mutex_changed);
    if (watch)
        simba__zk_call_get(op, queue->path, NULL, watch, armed);
    simba__zk_op_go(op);
}

static void arming_ended(zk_op *op)
{
    zk_queue *queue = ((struct arming *)op)->queue;
    queue->arming = false;
    simba__zk_queue_put(queue);
}

static const zk_procedure arming = {.run = arm, .step = simba__zk_op_end, .ended = arming_ended, .persists = true};

void simba__zk_queue_won(zk_queue *queue)
{
    queue->wins++;
    if (queue->numbers.watched || queue->arming || queue->wins < WINS_MIN)
        return;
    struct arming *op = simba__zk_op_new(queue->queues->ops, &arming, sizeof *op, NULL);
    if (!op)
        return;
    op->queue = queue;
    queue->refs++;
    queue->arming = true;
    simba__zk_op_start(&op->op);
}
