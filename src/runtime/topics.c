/* See topics.h. */
#include "runtime/topics.h"

#include <assert.h>
#include <string.h>

#include "util/hash.h"
#include "util/mem.h"
#include "util/name.h"

static simba__topic *of_node(simba__node *node)
{
    return node ? SIMBA__OF_NODE(node, simba__topic, node) : NULL;
}

static bool is_named(const simba__node *node, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(node, const simba__topic, node)->mutex, mutex) == 0;
}

void simba__topic_mark_dirty(simba__topics *topics, simba__topic *topic)
{
    if (topic->dirty)
        return;
    topic->dirty = true;
    topic->dirty_next = topics->dirty;
    topics->dirty = topic;
}

simba__topic *simba__topics_find(const simba__topics *topics, const char *mutex)
{
    return of_node(simba__table_find(&topics->table, simba__hash(mutex), is_named, mutex));
}

simba__topic *simba__topics_get(simba__topics *topics, const char *mutex)
{
    simba__topic *topic = simba__topics_find(topics, mutex);
    if (topic) {
        topic->handles++;
        return topic;
    }
    if (!simba__table_reserve(&topics->table))
        return NULL;
    topic = simba__calloc(1, offsetof(simba__topic, mutex) + strlen(mutex) + 1);
    if (!topic)
        return NULL;
    strcpy(topic->mutex, mutex);
    topic->shown.mutex = topic->mutex;
    topic->handles = 1;
    simba__table_add(&topics->table, &topic->node, simba__hash(mutex));
    return topic;
}

void simba__topics_put(simba__topics *topics, simba__topic *topic)
{
    assert(topic->handles > 0);
    if (--topic->handles == 0)
        simba__topic_mark_dirty(topics, topic);
}

void simba__topic_want(simba__topics *topics, simba__topic *topic, bool every)
{
    topic->curious += every;
    if ((topic->interest++ == 0 && !topic->watched) || (topic->curious > 0) != topic->shown.every)
        simba__topic_mark_dirty(topics, topic);
}

void simba__topic_unwant(simba__topics *topics, simba__topic *topic, bool every)
{
    assert(topic->interest > 0 && topic->curious >= every);
    topic->curious -= every;
    if ((--topic->interest == 0 && !topics->keeps) || (topic->curious > 0) != topic->shown.every)
        simba__topic_mark_dirty(topics, topic);
}

const char *simba__topic_hear(simba__topic *topic, const char *owner_id)
{
    if (topic->heard && strcmp(topic->heard, owner_id) == 0)
        return topic->heard;
    const char *name = simba__name_make(owner_id);
    simba__name_drop(topic->heard);
    topic->heard = name ? name : simba__name_unknown();
    return topic->heard;
}

static void forget(simba__topics *topics, simba__topic *topic)
{
    simba__name_drop(topic->heard);
    simba__free(topic->news);
    simba__table_remove(&topics->table, &topic->node);
    simba__free(topic);
}

void simba__topics_settle(simba__topics *topics, const simba_backend *backend, void *store)
{
    while (topics->dirty) {
        simba__topic *topic = topics->dirty;
        topics->dirty = topic->dirty_next;
        topic->dirty = false;
        const bool kept = topics->keeps && topic->watched && topic->handles > 0;
        const bool wanted = !topics->ending && (topic->interest > 0 || kept);
        const bool changed = topic->shown.every != (topic->curious > 0);
        topic->shown.every = topic->curious > 0;
        if (wanted && !topic->watched) {
            topic->watched = backend->watch(store, &topic->shown) == 0;
        } else if (!wanted && topic->watched) {
            backend->unwatch(store, &topic->shown);
            topic->watched = false;
        } else if (topic->watched && changed && backend->every_changed) {
            backend->every_changed(store, &topic->shown);
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
    for (simba__node *node = simba__table_first(&topics->table); node; node = simba__table_next(&topics->table, node))
        simba__topic_mark_dirty(topics, of_node(node));
}

void simba__topics_fini(simba__topics *topics)
{
    for (simba__node *node = simba__table_first(&topics->table), *next; node; node = next) {
        next = simba__table_next(&topics->table, node);
        forget(topics, of_node(node));
    }
    simba__table_fini(&topics->table);
}
