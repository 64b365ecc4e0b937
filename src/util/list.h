/* A list whose links are members of the things in it, so that adding and removing allocate nothing. A link knows its list:
 * whoever is in none can be removed all the same. Lists and links of zeroes are empty, and in no list. */
#ifndef SIMBA_UTIL_LIST_H
#define SIMBA_UTIL_LIST_H

#include <stddef.h>

typedef struct simba__link simba__link;
typedef struct simba__list {
    simba__link *first, *last;
    size_t count;
} simba__list;

struct simba__link {
    simba__link *previous, *next;
    simba__list *list; /* NULL: in none */
};

/* The struct whose member `field` this link is. */
#define SIMBA__OF_LINK(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

/* Take it out of the list it is in, if any. */
static inline void simba__list_remove(simba__link *link)
{
    simba__list *list = link->list;
    if (!list)
        return;
    *(link->previous ? &link->previous->next : &list->first) = link->next;
    *(link->next ? &link->next->previous : &list->last) = link->previous;
    list->count--;
    *link = (simba__link){0};
}

/* Move it to the end of this list, from wherever it is. */
static inline void simba__list_append(simba__list *list, simba__link *link)
{
    simba__list_remove(link);
    *link = (simba__link){list->last, NULL, list};
    *(list->last ? &list->last->next : &list->first) = link;
    list->last = link;
    list->count++;
}

#endif
