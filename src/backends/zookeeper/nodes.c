/* Our own places in the queues: a table by nonce of what this client has made or may have made in the store. A place stays
 * in it until it is known to be gone, so that nothing of ours is forgotten there. */
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "util/mem.h"
#include "util/text.h"

static zk_node **bucket_of(const zk_store *self, uint64_t nonce)
{
    return &self->buckets[nonce & (self->node_capacity - 1)];
}

static bool grow(zk_store *self)
{
    const size_t before = self->node_capacity;
    zk_node **old = self->buckets;
    zk_node **buckets = simba__calloc(before ? before * 2 : 16, sizeof(zk_node *));
    if (!buckets)
        return false;
    self->buckets = buckets;
    self->node_capacity = before ? before * 2 : 16;
    for (size_t i = 0; i < before; i++)
        while (old[i]) {
            zk_node *node = old[i];
            old[i] = node->next;
            zk_node **bucket = bucket_of(self, node->nonce);
            node->next = *bucket;
            *bucket = node;
        }
    simba__free(old);
    return true;
}

zk_node *simba__zk_node_find(zk_store *self, const simba_request *request)
{
    zk_node *node = self->node_capacity ? *bucket_of(self, request->nonce) : NULL;
    while (node && (node->nonce != request->nonce || strcmp(node->id, request->id) != 0 ||
                    strcmp(node->mutex, request->mutex) != 0))
        node = node->next;
    return node;
}

static void node_free(zk_node *node)
{
    simba__free(node->mutex);
    simba__free(node->id);
    if (node->queue)
        simba__zk_queue_put(node->queue);
    simba__free(node->name);
    simba__free(node->leader);
    simba__free(node);
}

zk_node *simba__zk_node_new(zk_store *self, const simba_request *request)
{
    if (self->node_count >= self->node_capacity && !grow(self))
        return NULL;
    zk_node *node = simba__calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->store = self;
    node->nonce = request->nonce;
    node->mutex = simba__strdup(request->mutex);
    node->id = simba__strdup(request->id);
    node->queue = simba__zk_queue_get(self, request->mutex);
    if (!node->mutex || !node->id || !node->queue) {
        node_free(node);
        return NULL;
    }
    simba__zk_prefix(simba__zk_salted(node->nonce, self->session.over), node->id, node->prefix);
    node->refs = 1;
    node->in_table = true;
    zk_node **bucket = bucket_of(self, node->nonce);
    node->next = *bucket;
    *bucket = node;
    self->node_count++;
    return node;
}

void simba__zk_node_ref(zk_node *node)
{
    node->refs++;
}

void simba__zk_node_unref(zk_node *node)
{
    if (--node->refs == 0)
        node_free(node);
}

static void forget_watches(zk_node *node)
{
    if (node->before)
        node->before->node = NULL;
    if (node->guard)
        node->guard->node = NULL;
    node->before = node->guard = NULL;
}

void simba__zk_node_attended(zk_node *node)
{
    zk_store *self = node->store;
    if (!node->unattended)
        return;
    node->unattended = false;
    if (node->unattended_previous)
        node->unattended_previous->unattended_next = node->unattended_next;
    else
        self->unattended_first = node->unattended_next;
    if (node->unattended_next)
        node->unattended_next->unattended_previous = node->unattended_previous;
    else
        self->unattended_last = node->unattended_previous;
}

void simba__zk_node_unattended(zk_node *node)
{
    zk_store *self = node->store;
    if (node->unattended)
        return;
    node->unattended = true;
    node->unattended_next = NULL;
    node->unattended_previous = self->unattended_last;
    if (self->unattended_last)
        self->unattended_last->unattended_next = node;
    else
        self->unattended_first = node;
    self->unattended_last = node;
    node->since = self->host->now(self->host);
}

void simba__zk_node_drop(zk_node *node)
{
    zk_store *self = node->store;
    if (!node->in_table)
        return;
    node->in_table = false;
    node->place = ZK_ABSENT;
    zk_node **link = bucket_of(self, node->nonce);
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    self->node_count--;
    forget_watches(node);
    simba__zk_node_attended(node);
    simba__zk_node_unref(node);
}

void simba__zk_nodes_drop(zk_store *self)
{
    for (size_t i = 0; i < self->node_capacity; i++)
        while (self->buckets[i])
            simba__zk_node_drop(self->buckets[i]);
}

void simba__zk_nodes_fini(zk_store *self)
{
    simba__zk_nodes_drop(self);
    simba__free(self->buckets);
}

simba_owner simba__zk_node_owner(const zk_node *node)
{
    simba_owner owner = {.acquired_at_ms = node->ctime_ms,
                         .ttl_at_ms = INT64_MAX,
                         .transition_at_ms = INT64_MAX,
                         .token = (uint64_t)node->czxid};
    memcpy(owner.id, node->id, (size_t)simba__text_cut(node->id, SIMBA_ID_MAX));
    return owner;
}
