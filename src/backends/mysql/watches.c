/* See watches.h. */
#include "backends/mysql/watches.h"

#include <string.h>

#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/random.h"

enum { LOOKS_PER_RUNG = 12, LOST_RUNG = 3 };

static const int64_t rung_ns[SIMBA__MY_RUNGS] = {40 * SIMBA__NS_PER_MS,  80 * SIMBA__NS_PER_MS,
                                                 160 * SIMBA__NS_PER_MS, 320 * SIMBA__NS_PER_MS,
                                                 640 * SIMBA__NS_PER_MS, 900 * SIMBA__NS_PER_MS};

void simba__my_watches_init(simba__my_watches *watches, simba_host *host)
{
    watches->host = host;
    watches->seed = host->random(host);
}

void simba__my_watches_fini(simba__my_watches *watches)
{
    for (size_t rung = 0; rung < SIMBA__MY_RUNGS; rung++)
        while (watches->rungs[rung])
            simba__my_watches_remove(watches, watches->rungs[rung]);
    simba__free(watches->buckets);
}

/* --- the ladder --------------------------------------------------------------------------------------- */

static void leave_rung(simba__my_watches *watches, simba__my_watched *w)
{
    watches->counts[w->rung]--;
    *w->rung_link = w->rung_next;
    if (w->rung_next)
        w->rung_next->rung_link = w->rung_link;
}

/* A quarter less at random: processes that saw the same change should not go on in step. */
static simba_local next_due(simba__my_watches *watches, unsigned rung, simba_local now)
{
    return (simba_local){now.ns + simba__random_range(&watches->seed, rung_ns[rung] * 3 / 4, rung_ns[rung])};
}

static void enter_rung(simba__my_watches *watches, simba__my_watched *w, unsigned rung, simba_local now)
{
    const simba_local due = next_due(watches, rung, now);
    if (!watches->rungs[rung] || due.ns < watches->due[rung].ns)
        watches->due[rung] = due;
    watches->counts[rung]++;
    w->rung = rung;
    w->looks = 0;
    w->rung_next = watches->rungs[rung];
    w->rung_link = &watches->rungs[rung];
    if (w->rung_next)
        w->rung_next->rung_link = &w->rung_next;
    watches->rungs[rung] = w;
}

static void move(simba__my_watches *watches, simba__my_watched *w, unsigned rung, simba_local now)
{
    leave_rung(watches, w);
    enter_rung(watches, w, rung, now);
}

simba_local simba__my_watches_due(const simba__my_watches *watches)
{
    simba_local due = {INT64_MAX};
    for (size_t rung = 0; rung < SIMBA__MY_RUNGS; rung++)
        if (watches->rungs[rung] && watches->due[rung].ns < due.ns)
            due = watches->due[rung];
    return due;
}

/* What would be due before long comes along. */
static bool is_due(const simba__my_watches *watches, unsigned rung, simba_local now)
{
    return watches->rungs[rung] && watches->due[rung].ns <= now.ns + rung_ns[rung] / 2;
}

size_t simba__my_watches_count(const simba__my_watches *watches, simba_local now)
{
    size_t count = 0;
    for (unsigned rung = 0; rung < SIMBA__MY_RUNGS; rung++)
        if (is_due(watches, rung, now))
            count += watches->counts[rung];
    return count;
}

void simba__my_watches_take(simba__my_watches *watches, simba_local now,
                            void (*each)(void *user, simba__my_watched *watched), void *user)
{
    for (unsigned rung = 0; rung < SIMBA__MY_RUNGS; rung++) {
        if (!is_due(watches, rung, now))
            continue;
        watches->due[rung] = next_due(watches, rung, now);
        for (simba__my_watched *w = watches->rungs[rung]; w; w = w->rung_next)
            each(user, w);
    }
}

void simba__my_watched_looked(simba__my_watches *watches, simba__my_watched *w, simba_local now)
{
    if (++w->looks >= LOOKS_PER_RUNG && w->rung < SIMBA__MY_RUNGS - 1)
        move(watches, w, w->rung + 1, now);
}

/* --- who is watched ------------------------------------------------------------------------------------ */

static simba__my_watched **bucket_of(const simba__my_watches *watches, const char *mutex)
{
    return &watches->buckets[simba__hash(mutex) & (watches->capacity - 1)];
}

static bool grow(simba__my_watches *watches)
{
    const size_t capacity = watches->capacity ? watches->capacity * 2 : 16;
    simba__my_watches grown = {.capacity = capacity, .buckets = simba__calloc(capacity, sizeof(void *))};
    if (!grown.buckets)
        return false;
    for (size_t i = 0; i < watches->capacity; i++)
        while (watches->buckets[i]) {
            simba__my_watched *w = watches->buckets[i];
            watches->buckets[i] = w->next;
            simba__my_watched **bucket = bucket_of(&grown, w->topic->mutex);
            w->next = *bucket;
            *bucket = w;
        }
    simba__free(watches->buckets);
    watches->buckets = grown.buckets;
    watches->capacity = capacity;
    return true;
}

simba__my_watched *simba__my_watches_add(simba__my_watches *watches, simba_topic *topic, simba_local now)
{
    if (watches->count >= watches->capacity && !grow(watches))
        return NULL;
    simba__my_watched *w = simba__calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->topic = topic;
    simba__my_watched **bucket = bucket_of(watches, topic->mutex);
    w->next = *bucket;
    *bucket = w;
    watches->count++;
    enter_rung(watches, w, 0, now);
    watches->due[0] = now;
    return w;
}

void simba__my_watches_remove(simba__my_watches *watches, simba__my_watched *w)
{
    simba__my_watched **link = bucket_of(watches, w->topic->mutex);
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    leave_rung(watches, w);
    watches->count--;
    simba__free(w);
}

simba__my_watched *simba__my_watches_find(const simba__my_watches *watches, const char *mutex)
{
    if (watches->count == 0)
        return NULL;
    simba__my_watched *w = *bucket_of(watches, mutex);
    while (w && strcmp(w->topic->mutex, mutex) != 0)
        w = w->next;
    return w;
}

/* --- news ---------------------------------------------------------------------------------------------- */

static void push(simba__my_watches *watches, simba__my_watched *w, simba_push_kind kind, const simba_reply *reply)
{
    const simba_push message = {.kind = kind, .owner = reply->owner, .now_ms = reply->now_ms};
    watches->host->push(watches->host, w->topic, &message);
}

/* The same grant, but longer: who waits for its end need not come and ask. */
static bool is_renewal(const simba__my_watched *w, const simba_reply *reply, uint64_t version, size_t owner_hash)
{
    /* A JVM contender's renewal is a new version, and has no token. */
    const bool same = version == w->version || (reply->owner.token == 0 && owner_hash == w->owner_hash);
    return same && !w->is_free && reply->owner.id[0] != '\0';
}

static void remember(simba__my_watches *watches, simba__my_watched *w, const simba_reply *reply, uint64_t version)
{
    w->told = true;
    w->is_free = reply->owner.id[0] == '\0';
    w->version = version;
    w->owner_hash = simba__hash(reply->owner.id);
    w->transition_at_ms = reply->owner.transition_at_ms;
    w->stamp = ++watches->clock;
}

void simba__my_watched_heard(simba__my_watches *watches, simba__my_watched *w, const simba_reply *reply,
                             uint64_t version, uint64_t began, simba_local now)
{
    const bool is_free = reply->owner.id[0] == '\0';
    if (w->told && version < w->version && w->stamp > began)
        return;
    const bool same = w->told && version == w->version && is_free == w->is_free;
    const bool renewal = w->told && is_renewal(w, reply, version, simba__hash(reply->owner.id));
    if (same && reply->owner.transition_at_ms <= w->transition_at_ms)
        return;
    const bool first = !w->told;
    remember(watches, w, reply, version);
    if (renewal) {
        push(watches, w, SIMBA_PUSH_ACQUIRED, reply);
        return;
    }
    if (!first) {
        w->lost += !is_free;
        move(watches, w, w->lost < LOST_RUNG ? w->lost : LOST_RUNG, now);
    }
    /* A grant without a token cannot be compared with what contenders know: let them ask. */
    push(watches, w,
         is_free                             ? SIMBA_PUSH_RELEASED
         : reply->owner.token == 0 && !first ? SIMBA_PUSH_CHANGED
                                             : SIMBA_PUSH_ACQUIRED,
         reply);
}
