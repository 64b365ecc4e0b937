#include "backends/zookeeper/queues.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"
#include "util/mem.h"

enum { IN_FLIGHT_MAX = 2 };

#define QUEUE_OF(node_) SIMBA__OF_NODE(node_, zk_queue, node)

/* --- the table ---------------------------------------------------------------------------------------------- */

static bool is_at(const simba__node *node, const void *path)
{
    return strcmp(SIMBA__OF_NODE(node, const zk_queue, node)->path, path) == 0;
}

zk_queue *simba__zk_queue_get(zk_queues *queues, const char *mutex)
{
    char *path = simba__zk_child_path(queues->ops->session->options->root, mutex);
    if (!path)
        return NULL;
    const uint64_t hash = simba__hash(path);
    simba__node *node = simba__table_find(&queues->table, hash, is_at, path);
    zk_queue *queue = node ? QUEUE_OF(node) : NULL;
    if (!queue && simba__table_reserve(&queues->table))
        queue = simba__calloc(1, sizeof *queue + strlen(path) + 1);
    if (queue && !node) {
        queue->queues = queues;
        strcpy(queue->path, path);
        simba__table_add(&queues->table, &queue->node, hash);
    }
    simba__free(path);
    if (queue)
        queue->refs++;
    return queue;
}

void simba__zk_queue_put(zk_queue *queue)
{
    if (--queue->refs > 0)
        return;
    simba__table_remove(&queue->queues->table, &queue->node);
    simba__free(queue);
}

void simba__zk_queues_fini(zk_queues *queues)
{
    assert(queues->table.count == 0);
    simba__table_fini(&queues->table);
}

/* --- lists and those who wait for them ---------------------------------------------------------------------- */

/* Somebody who waits for a list. */
struct member {
    simba__list_item item;
    zk_op *op;
    const zk_latch *latch;
    zk_answered *answered;
};

/* One list, and those who wait for it. */
struct zk_view {
    zk_op op; /* first */
    zk_queue *queue;
    simba__list members;
};

static zk_view *of(zk_op *op)
{
    return (zk_view *)op;
}

/* --- names -------------------------------------------------------------------------------------------------- */

/* The contenders among the children, in their order. */
typedef struct line {
    const char **names; /* NULL: not sorted */
    size_t count;
} line;

static int compare(const void *a, const void *b)
{
    return simba__zk_order(*(const char *const *)a, *(const char *const *)b);
}

/* Not worth it for one; and without memory everybody looks through all names. */
static line sort(const zk_result *result, size_t members)
{
    line sorted = {0};
    if (members > 1 && result->rc == ZOK && result->count > 0)
        sorted.names = simba__malloc(result->count * sizeof *sorted.names);
    for (size_t i = 0; sorted.names && i < result->count; i++)
        if (simba__zk_is_contender(result->names[i]))
            sorted.names[sorted.count++] = result->names[i];
    if (sorted.names)
        qsort(sorted.names, sorted.count, sizeof *sorted.names, compare);
    return sorted;
}

static void tell(const struct member *member, const zk_result *result, const line *sorted)
{
    const zk_latch *latch = member->latch;
    const bool is_named = latch->place == ZK_HERE || latch->place == ZK_LEADS;
    const char **own = sorted->names && is_named
                           ? bsearch(&latch->name, sorted->names, sorted->count, sizeof *sorted->names, compare)
                           : NULL;
    if (!own) {
        member->answered(member->op, result);
        return;
    }
    /* The first, the one before ours, and ours. */
    char *few[3] = {(char *)(uintptr_t)sorted->names[0], (char *)(uintptr_t)(own > sorted->names ? own[-1] : *own),
                    (char *)(uintptr_t)*own};
    zk_result narrow = *result;
    narrow.names = few;
    narrow.count = 3;
    member->answered(member->op, &narrow);
}

/* --- members ------------------------------------------------------------------------------------------------ */

static bool join(zk_view *view, zk_op *op, const zk_latch *latch, zk_answered *answered)
{
    struct member *member = simba__calloc(1, sizeof *member);
    if (!member)
        return false;
    member->op = op;
    member->latch = latch;
    member->answered = answered;
    simba__list_append(&view->members, &member->item);
    op->awaited++;
    return true;
}

static struct member *take(zk_view *view)
{
    struct member *member = SIMBA__OF_ITEM(view->members.first, struct member, item);
    simba__list_remove(&member->item);
    member->op->awaited--;
    return member;
}

static void answer_all(zk_view *view, const zk_result *result)
{
    const line sorted = sort(result, view->members.count);
    while (view->members.first) {
        struct member *member = take(view);
        zk_op *op = member->op;
        tell(member, result, &sorted);
        simba__free(member);
        simba__zk_op_go(op);
    }
    simba__free(sorted.names);
}

/* --- lists ---------------------------------------------------------------------------------------------------- */

static void call(zk_view *view);

/* Before its members are told, who may want the next one at once. */
static void leave_queue(zk_queue *queue)
{
    zk_view *next = queue->gathering;
    queue->lists--;
    queue->gathering = NULL;
    if (next)
        call(next);
}

static void listed(zk_op *op, const zk_result *result)
{
    leave_queue(of(op)->queue);
    answer_all(of(op), result);
}

static void call(zk_view *view)
{
    zk_op *op = &view->op;
    view->queue->lists++;
    simba__zk_call_children(op, view->queue->path, NULL, listed);
    if (op->awaited > 0)
        return;
    const zk_result failed = {.rc = op->error};
    leave_queue(view->queue);
    answer_all(view, &failed);
    simba__zk_op_end(op);
}

/* Also when the store closes: then those who wait are not told. */
static void ended(zk_op *op)
{
    zk_view *view = of(op);
    while (view->members.first) {
        struct member *member = take(view);
        if (member->op->phase != ZK_OP_RUNS)
            simba__zk_op_go(member->op);
        simba__free(member);
    }
    if (view->queue->gathering == view)
        view->queue->gathering = NULL;
    simba__zk_queue_put(view->queue);
}

static const zk_procedure procedure = {.step = simba__zk_op_end, .ended = ended, .persists = true};

static zk_view *gather(zk_queue *queue)
{
    if (queue->gathering)
        return queue->gathering;
    zk_view *view = simba__zk_op_new(queue->queues->ops, &procedure, sizeof *view, NULL);
    if (!view)
        return NULL;
    view->queue = queue;
    queue->refs++;
    return view;
}

void simba__zk_queue_list(zk_queue *queue, zk_op *op, const zk_latch *latch, zk_answered *answered)
{
    zk_view *view = gather(queue);
    op->awaited++; /* it has more calls to make, and does not go on before */
    if (!view || !join(view, op, latch, answered)) {
        if (view && !view->members.first)
            simba__zk_op_end(&view->op);
        simba__zk_call_children(op, queue->path, NULL, answered);
    } else if (queue->lists < IN_FLIGHT_MAX) {
        queue->gathering = NULL;
        call(view);
    } else {
        queue->gathering = view;
    }
    op->awaited--;
}
