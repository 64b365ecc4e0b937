/* See inbox.h. */
#include "runtime/inbox.h"

bool simba__inbox_post(simba__inbox *inbox, simba__post *post)
{
    post->next = atomic_load(&inbox->latest);
    while (post->next != simba__inbox_mark(inbox))
        if (atomic_compare_exchange_weak(&inbox->latest, &post->next, post))
            return true;
    return false;
}

simba__post *simba__inbox_take(simba__inbox *inbox)
{
    simba__post *first = NULL;
    for (simba__post *post = atomic_exchange(&inbox->latest, NULL), *earlier; post; post = earlier) {
        earlier = post->next;
        post->next = first;
        first = post;
    }
    return first;
}
