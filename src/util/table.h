/* A hash table whose entries are members of the things that it finds, so that adding and removing allocate nothing. The
 * table owns its buckets only. Growing is the one thing that can fail, and has a call of its own: reserve, then add.
 *
 *     struct row { simba__node node; char mutex[]; };
 *     if (simba__table_reserve(&rows))
 *         simba__table_add(&rows, &row->node, simba__hash(row->mutex));
 *
 * A table of zeroes is empty. */
#ifndef SIMBA_UTIL_TABLE_H
#define SIMBA_UTIL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct simba__node simba__node;
struct simba__node {
    simba__node *next; /* in its bucket */
    uint64_t hash;
};

typedef struct simba__table {
    simba__node **buckets;
    size_t count;
    size_t capacity; /* a power of two, or 0 */
} simba__table;

/* The struct whose member `field` this node is. */
#define SIMBA__OF_NODE(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

/* Make room for one more. False: out of memory, and nothing has changed. */
bool simba__table_reserve(simba__table *table);
/* There is room, and the node is in no table. */
void simba__table_add(simba__table *table, simba__node *node, uint64_t hash);
/* The node must be in this table. Its memory belongs to the caller again. */
void simba__table_remove(simba__table *table, simba__node *node);

/* The node of this hash for which `is` returns true. NULL: there is none. */
typedef bool (*simba__table_is)(const simba__node *node, const void *key);
simba__node *simba__table_find(const simba__table *table, uint64_t hash, simba__table_is is, const void *key);

/* All nodes, in no particular order, until NULL. Ask for the next node before you remove one; add nothing meanwhile. */
simba__node *simba__table_first(const simba__table *table);
simba__node *simba__table_next(const simba__table *table, const simba__node *node);

/* Free the buckets. Nodes that are still in the table are not freed. */
void simba__table_fini(simba__table *table);

#endif
