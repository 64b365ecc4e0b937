/* A list whose items are members of its elements, so that adding and removing allocate nothing. An item knows its
 * list; removing an item that is in no list does nothing. Zeroed lists and items are empty, and in no list. */
#ifndef SIMBA_UTIL_LIST_H
#define SIMBA_UTIL_LIST_H

#include <stddef.h>

typedef struct simba__list_item simba__list_item;
typedef struct simba__list {
    simba__list_item *first, *last;
    size_t count;
} simba__list;

struct simba__list_item {
    simba__list_item *previous, *next;
    simba__list *list; /* NULL: in none */
};

/* The struct whose member `field` this item is. */
#define SIMBA__OF_ITEM(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

/* Remove it from its list, if it is in one. */
static inline void simba__list_remove(simba__list_item *item)
{
    simba__list *list = item->list;
    if (!list)
        return;
    *(item->previous ? &item->previous->next : &list->first) = item->next;
    *(item->next ? &item->next->previous : &list->last) = item->previous;
    list->count--;
    *item = (simba__list_item){0};
}

/* Move it to the end of this list, from wherever it is. */
static inline void simba__list_append(simba__list *list, simba__list_item *item)
{
    simba__list_remove(item);
    *item = (simba__list_item){list->last, NULL, list};
    *(list->last ? &list->last->next : &list->first) = item;
    list->last = item;
    list->count++;
}

#endif
