/* The mutexes that handles of this client name: what the store watches, and which handles hear what it pushes. */
#include "client/handles.h"

#include <assert.h>
#include <string.h>

#include "util/hash.h"
#include "util/mem.h"

static simba__watch *of_node(simba__node *node)
{
    return node ? SIMBA__OF_NODE(node, simba__watch, node) : NULL;
}

static bool is_named(const simba__node *node, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(node, const simba__watch, node)->mutex, mutex) == 0;
}

static void mark(simba__watches *watches, simba__watch *watch)
{
    if (watch->changed)
        return;
    watch->changed = true;
    watch->changed_next = watches->changed;
    watches->changed = watch;
}

simba__watch *simba__watches_find(const simba__watches *watches, const char *mutex)
{
    return of_node(simba__table_find(&watches->table, simba__hash(mutex), is_named, mutex));
}

simba__watch *simba__watches_get(simba__watches *watches, const char *mutex)
{
    simba__watch *watch = simba__watches_find(watches, mutex);
    if (watch) {
        watch->refs++;
        return watch;
    }
    if (!simba__table_reserve(&watches->table))
        return NULL;
    watch = simba__calloc(1, offsetof(simba__watch, mutex) + strlen(mutex) + 1);
    if (!watch)
        return NULL;
    strcpy(watch->mutex, mutex);
    watch->shown.mutex = watch->mutex;
    watch->refs = 1;
    simba__table_add(&watches->table, &watch->node, simba__hash(mutex));
    return watch;
}

void simba__watches_put(simba__watches *watches, simba__watch *watch)
{
    assert(watch->refs > 0);
    if (--watch->refs == 0)
        mark(watches, watch);
}

void simba__watches_want(simba__watches *watches, simba__handle *handle, bool wants)
{
    simba__watch *watch = handle->watch;
    const unsigned by = wants ? 1U : -1U;
    if (handle->wants == wants && (!wants || watch->watched))
        return;
    if (handle->wants != wants) {
        handle->wants = wants;
        watch->interested += by;
        watch->observing += handle->observes ? by : 0;
    }
    assert(watch->observing <= watch->interested && watch->interested <= watch->refs);
    mark(watches, watch);
}

static void forget(simba__watches *watches, simba__watch *watch)
{
    simba__table_remove(&watches->table, &watch->node);
    simba__free(watch);
}

void simba__watches_settle(simba__watches *watches, const simba_backend *backend, void *store)
{
    while (watches->changed) {
        simba__watch *watch = watches->changed;
        watches->changed = watch->changed_next;
        watch->changed = false;
        const bool kept = watches->keeps && watch->watched && watch->refs > 0;
        const bool wanted = !watches->ending && (watch->interested > 0 || kept);
        const bool observed = watch->observing > 0;
        /* What the store sees of it stays as it is while it is watched. */
        if (watch->watched && (!wanted || (watch->interested > 0 && observed != watch->shown.observed))) {
            backend->unwatch(store, &watch->shown);
            watch->watched = false;
        }
        if (wanted && !watch->watched) {
            watch->shown.observed = observed;
            watch->watched = backend->watch(store, &watch->shown) == 0;
        }
        if (watch->refs == 0)
            forget(watches, watch);
    }
}

void simba__watches_end(simba__watches *watches)
{
    watches->ending = true;
    for (simba__node *node = simba__table_first(&watches->table); node; node = simba__table_next(&watches->table, node))
        mark(watches, of_node(node));
}

void simba__watches_fini(simba__watches *watches)
{
    for (simba__node *node = simba__table_first(&watches->table), *next; node; node = next) {
        next = simba__table_next(&watches->table, node);
        forget(watches, of_node(node));
    }
    simba__table_fini(&watches->table);
}

/* --- who hears a push ------------------------------------------------------------------------------- */

void simba__watches_tell_note(simba__handle *handle, const simba_push *push)
{
    const bool may_have_changed =
        push->kind == SIMBA_PUSH_NOTED || push->kind == SIMBA_PUSH_CHANGED || push->kind == SIMBA_PUSH_SESSION_BACK;
    if (may_have_changed && handle->type->noted)
        handle->type->noted(handle);
}

static simba__candidate *candidate_of(simba__handle *handle)
{
    return handle->type->contends ? (simba__candidate *)(void *)handle : NULL;
}

void simba__watches_push(simba__watch *watch, const simba_push *push, simba_local now)
{
    const bool is_news = push->kind == SIMBA_PUSH_ACQUIRED || push->kind == SIMBA_PUSH_FREED;
    bool used = false;
    for (simba__list_item *item = watch->handles.first, *next; item; item = next) {
        simba__handle *handle = SIMBA__OF_ITEM(item, simba__handle, of_watch);
        const simba__candidate *candidate = candidate_of(handle);
        const bool waits = candidate && candidate->machine.phase == SIMBA__SEEK;
        simba__event event = {.kind = SIMBA__EV_PUSH, .now = now, .push = push};
        next = item->next;
        simba__watches_tell_note(handle, push);
        if (push->kind == SIMBA_PUSH_NOTED || (used && !is_news && waits))
            continue;
        handle->type->step(handle, &event);
        used |= event.used;
    }
}

void simba__watches_push_to(const simba__watches *watches, const char *mutex, uint64_t nonce, const simba_push *push,
                            simba_local now)
{
    const simba__watch *watch = simba__watches_find(watches, mutex);
    simba__list_item *item = watch ? watch->handles.first : NULL;
    for (; item; item = item->next) {
        simba__handle *handle = SIMBA__OF_ITEM(item, simba__handle, of_watch);
        const simba__candidate *candidate = candidate_of(handle);
        simba__event event = {.kind = SIMBA__EV_PUSH, .now = now, .push = push};
        if (candidate && candidate->machine.nonce == nonce) {
            handle->type->step(handle, &event);
            return;
        }
    }
}
