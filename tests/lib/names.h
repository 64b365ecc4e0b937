/* The ids of owners for machines that know them (see simba__known in core/values.h): each text once, in memory that stays. */
#ifndef TESTS_LIB_NAMES_H
#define TESTS_LIB_NAMES_H

#include <stdlib.h>
#include <string.h>

#include "core/contention.h"

enum { NAMES_MAX = 64 };

/* Zeroes: none yet. */
typedef struct name_list {
    char text[NAMES_MAX][SIMBA_ID_MAX + 1];
    unsigned count;
} name_list;

static inline const char *name_of(name_list *all, const char *id)
{
    unsigned i = 0;
    while (i < all->count && strcmp(all->text[i], id) != 0)
        i++;
    if (i == NAMES_MAX)
        abort(); /* make it larger */
    if (i == all->count)
        strcpy(all->text[all->count++], id);
    return all->text[i];
}

/* For `owner_id` of this event. */
static inline const char *name_in(name_list *all, const simba__event *event)
{
    const simba_owner *owner = event->kind == SIMBA__EV_REPLY && event->reply->status == 0 ? &event->reply->owner
                               : event->kind == SIMBA__EV_PUSH && event->push->kind == SIMBA_PUSH_ACQUIRED
                                   ? &event->push->owner
                                   : NULL;
    return simba_owner_is_none(owner) ? NULL : name_of(all, owner->id);
}

#endif
