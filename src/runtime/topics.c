/* See topics.h. */
#include "runtime/topics.h"

#include <assert.h>
#include <string.h>

#include "util/hash.h"
#include "util/mem.h"

static bool grow(simba__topics *topics)
{
    const size_t capacity = topics->capacity ? topics->capacity * 2 : 16;
    simba__topic **buckets = simba__calloc(capacity, sizeof *buckets);
    if (!buckets)
        return false;
    for (size_t i = 0; i < topics->capacity; i++) {
        while (topics->buckets[i]) {
            simba__topic *topic = topics->buckets[i];
            topics->buckets[i] = topic->next;
            simba__topic **bucket = &buckets[simba__hash(topic->mutex) & (capacity - 1)];
            topic->next = *bucket;
            *bucket = topic;
        }
    }
    simba__free(topics->buckets);
    topics->buckets = buckets;
    topics->capacity = capacity;
    return true;
}

static void soil(simba__topics *topics, simba__topic *topic)
{
    if (topic->dirty)
        return;
    topic->dirty = true;
    topic->dirty_next = topics->dirty;
    topics->dirty = topic;
}

simba__topic *simba__topics_find(const simba__topics *topics, const char *mutex)
{
    simba__topic *topic = topics->capacity ? topics->buckets[simba__hash(mutex) & (topics->capacity - 1)] : NULL;
    while (topic && strcmp(topic->mutex, mutex) != 0)
        topic = topic->next;
    return topic;
}

simba__topic *simba__topics_get(simba__topics *topics, const char *mutex)
{
    simba__topic *topic = simba__topics_find(topics, mutex);
    if (topic) {
        topic->handles++;
        return topic;
    }
    if (topics->count >= topics->capacity && !grow(topics))
        return NULL;
    topic = simba__calloc(1, sizeof *topic + strlen(mutex) + 1);
    if (!topic)
        return NULL;
    strcpy(topic->mutex, mutex);
    topic->shown.mutex = topic->mutex;
    topic->handles = 1;
    simba__topic **bucket = &topics->buckets[simba__hash(mutex) & (topics->capacity - 1)];
    topic->next = *bucket;
    *bucket = topic;
    topics->count++;
    return topic;
}

void simba__topics_put(simba__topics *topics, simba__topic *topic)
{
    assert(topic->handles > 0);
    if (--topic->handles == 0)
        soil(topics, topic);
}

void simba__topic_want(simba__topics *topics, simba__topic *topic)
{
    if (topic->interest++ == 0 && !topic->watched)
        soil(topics, topic);
}

void simba__topic_unwant(simba__topics *topics, simba__topic *topic)
{
    assert(topic->interest > 0);
    if (--topic->interest == 0)
        soil(topics, topic);
}

void simba__topic_retry(simba__topics *topics, simba__topic *topic)
{
    if (topic->interest > 0 && !topic->watched)
        soil(topics, topic);
}

static void forget(simba__topics *topics, simba__topic *topic)
{
    simba__topic **link = &topics->buckets[simba__hash(topic->mutex) & (topics->capacity - 1)];
    while (*link != topic)
        link = &(*link)->next;
    *link = topic->next;
    topics->count--;
    simba__free(topic);
}

void simba__topics_settle(simba__topics *topics, const simba_backend *backend, void *store, bool keep)
{
    while (topics->dirty) {
        simba__topic *topic = topics->dirty;
        topics->dirty = topic->dirty_next;
        topic->dirty = false;
        const bool kept = keep && topic->watched && topic->handles > 0;
        const bool wanted = !topics->ending && (topic->interest > 0 || kept);
        if (wanted && !topic->watched) {
            topic->watched = backend->watch(store, &topic->shown) == 0;
        } else if (!wanted && topic->watched) {
            backend->unwatch(store, &topic->shown);
            topic->watched = false;
        }
        if (topic->handles == 0) {
            assert(topic->interest == 0);
            forget(topics, topic);
        }
    }
}

void simba__topics_unwatch_all(simba__topics *topics)
{
    topics->ending = true;
    for (size_t i = 0; i < topics->capacity; i++)
        for (simba__topic *topic = topics->buckets[i]; topic; topic = topic->next)
            soil(topics, topic);
}

void simba__topics_fini(simba__topics *topics)
{
    for (size_t i = 0; i < topics->capacity; i++)
        while (topics->buckets[i]) {
            simba__topic *topic = topics->buckets[i];
            topics->buckets[i] = topic->next;
            simba__free(topic);
        }
    simba__free(topics->buckets);
}
