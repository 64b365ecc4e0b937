/* See table.h. */
#include "util/table.h"

#include "util/assert.h"
#include "util/mem.h"

enum { FIRST_CAPACITY = 16 };

static size_t bucket_of(const simba__table *table, uint64_t hash)
{
    return (size_t)(hash & (table->capacity - 1));
}

static void link_in(simba__table *table, simba__node *node)
{
    simba__node **bucket = &table->buckets[bucket_of(table, node->hash)];
    node->next = *bucket;
    *bucket = node;
}

bool simba__table_reserve(simba__table *table)
{
    if (table->count < table->capacity)
        return true;
    simba__table grown = {.capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY, .count = table->count};
    grown.buckets = simba__calloc(grown.capacity, sizeof(simba__node *));
    if (!grown.buckets)
        return false;
    for (simba__node *node = simba__table_first(table), *next; node; node = next) {
        next = simba__table_next(table, node);
        link_in(&grown, node);
    }
    simba__free(table->buckets);
    *table = grown;
    return true;
}

void simba__table_add(simba__table *table, simba__node *node, uint64_t hash)
{
    SIMBA__ASSERT(table->count < table->capacity);
    node->hash = hash;
    link_in(table, node);
    table->count++;
}

void simba__table_remove(simba__table *table, simba__node *node)
{
    SIMBA__ASSERT(table->count > 0);
    simba__node **link = &table->buckets[bucket_of(table, node->hash)];
    while (*link != node) {
        SIMBA__ASSERT(*link);
        link = &(*link)->next;
    }
    *link = node->next;
    node->next = NULL;
    table->count--;
}

simba__node *simba__table_find(const simba__table *table, uint64_t hash, simba__table_is is, const void *key)
{
    simba__node *node = table->capacity ? table->buckets[bucket_of(table, hash)] : NULL;
    while (node && (node->hash != hash || !is(node, key)))
        node = node->next;
    return node;
}

static simba__node *first_from(const simba__table *table, size_t bucket)
{
    for (; bucket < table->capacity; bucket++)
        if (table->buckets[bucket])
            return table->buckets[bucket];
    return NULL;
}

simba__node *simba__table_first(const simba__table *table)
{
    return first_from(table, 0);
}

simba__node *simba__table_next(const simba__table *table, const simba__node *node)
{
    return node->next ? node->next : first_from(table, bucket_of(table, node->hash) + 1);
}

void simba__table_fini(simba__table *table)
{
    simba__free(table->buckets);
    *table = (simba__table){0};
}
