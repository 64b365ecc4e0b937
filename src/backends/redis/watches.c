/* See watches.h. */
#include "backends/redis/watches.h"

#include <string.h>

#include "util/hash.h"
#include "util/mem.h"

redis_watch *simba__redis_watch_find(redis_subs *self, const char *mutex)
{
    if (self->watch_capacity == 0)
        return NULL;
    redis_watch *watch = self->buckets[simba__hash(mutex) & (self->watch_capacity - 1)];
    while (watch && strcmp(watch->mutex, mutex) != 0)
        watch = watch->next;
    return watch;
}

static bool grow(redis_subs *self)
{
    const size_t capacity = self->watch_capacity ? self->watch_capacity * 2 : 16;
    redis_watch **buckets = simba__calloc(capacity, sizeof *buckets);
    if (!buckets)
        return false;
    for (size_t i = 0; i < self->watch_capacity; i++)
        while (self->buckets[i]) {
            redis_watch *watch = self->buckets[i];
            redis_watch **bucket = &buckets[simba__hash(watch->mutex) & (capacity - 1)];
            self->buckets[i] = watch->next;
            watch->next = *bucket;
            *bucket = watch;
        }
    simba__free(self->buckets);
    self->buckets = buckets;
    self->watch_capacity = capacity;
    return true;
}

void simba__redis_watch_chores(redis_subs *self, simba_local at)
{
    if (self->chores.index == 0 || at.ns < self->chores.at.ns)
        self->host->timer_set(self->host, &self->chores, at);
}

void simba__redis_watch_idle(redis_subs *self, redis_watch *watch)
{
    if (watch->is_idle)
        return;
    watch->is_idle = true;
    watch->idle_since = self->host->now(self->host);
    watch->idle_next = NULL;
    watch->idle_prev = self->idle_last;
    if (self->idle_last)
        self->idle_last->idle_next = watch;
    else
        self->idle_first = watch;
    self->idle_last = watch;
    simba__redis_watch_chores(self, simba__redis_later(self->idle_first->idle_since, REDIS_LINGER_MS));
}

void simba__redis_watch_busy(redis_subs *self, redis_watch *watch)
{
    if (!watch->is_idle)
        return;
    watch->is_idle = false;
    if (watch->idle_prev)
        watch->idle_prev->idle_next = watch->idle_next;
    else
        self->idle_first = watch->idle_next;
    if (watch->idle_next)
        watch->idle_next->idle_prev = watch->idle_prev;
    else
        self->idle_last = watch->idle_prev;
}

redis_watch *simba__redis_watch_make(redis_subs *self, const char *mutex)
{
    redis_watch *watch = simba__redis_watch_find(self, mutex);
    if (watch)
        return watch;
    if (self->watch_count >= self->watch_capacity && !grow(self))
        return NULL;
    watch = simba__calloc(1, sizeof *watch + strlen(mutex) + 1);
    if (!watch)
        return NULL;
    strcpy(watch->mutex, mutex);
    watch->node = self->nodes->topology->route(self->nodes, mutex);
    redis_watch **bucket = &self->buckets[simba__hash(mutex) & (self->watch_capacity - 1)];
    watch->next = *bucket;
    *bucket = watch;
    self->watch_count++;
    simba__redis_watch_idle(self, watch);
    return watch;
}

static void unlink_from(redis_watch **link, redis_watch *watch, size_t next_offset)
{
    while (*link && *link != watch)
        link = (redis_watch **)(void *)((char *)*link + next_offset);
    if (*link)
        *link = *(redis_watch **)(void *)((char *)watch + next_offset);
}

void simba__redis_watch_drop(redis_subs *self, redis_watch *watch)
{
    simba__redis_watch_busy(self, watch);
    unlink_from(&self->buckets[simba__hash(watch->mutex) & (self->watch_capacity - 1)], watch,
                offsetof(redis_watch, next));
    unlink_from(&self->looks, watch, offsetof(redis_watch, look_next));
    unlink_from(&self->stale, watch, offsetof(redis_watch, stale_next));
    self->watch_count--;
    while (watch->waiters) {
        redis_waiter *next = watch->waiters->next;
        simba__free(watch->waiters);
        watch->waiters = next;
    }
    simba__free(watch);
}
