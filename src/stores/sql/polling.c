/* See polling.h. */
#include "stores/sql/polling.h"

#include <string.h>

#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/random.h"

enum { POLLS_PER_LEVEL = 12, LOST_LEVEL = 3 };

static const int64_t level_ns[SIMBA__SQL_LEVELS] = {
    40 * SIMBA__NS_PER_MS,  80 * SIMBA__NS_PER_MS,  160 * SIMBA__NS_PER_MS,   320 * SIMBA__NS_PER_MS,
    640 * SIMBA__NS_PER_MS, 900 * SIMBA__NS_PER_MS, 300000 * SIMBA__NS_PER_MS};

void simba__sql_polling_init(simba__sql_polling *polling, uint64_t seed)
{
    *polling = (simba__sql_polling){.seed = seed};
}

void simba__sql_polling_fini(simba__sql_polling *polling)
{
    for (size_t level = 0; level < SIMBA__SQL_LEVELS; level++)
        while (polling->levels[level].first)
            simba__sql_polling_remove(polling,
                                      SIMBA__OF_ITEM(polling->levels[level].first, simba__sql_polled, of_level));
    simba__table_fini(&polling->mutexes);
}

/* --- levels of backoff -------------------------------------------------------------------------------- */

/* A quarter less at random: processes that saw the same change should not go on in step. */
static simba_local next_due(simba__sql_polling *polling, unsigned level, simba_local now)
{
    return (simba_local){now.ns + simba__random_range(&polling->seed, level_ns[level] * 3 / 4, level_ns[level])};
}

static void move(simba__sql_polling *polling, simba__sql_polled *polled, unsigned level, simba_local now)
{
    const simba_local due = next_due(polling, level, now);
    simba__list_remove(&polled->of_level);
    if (polling->levels[level].count == 0 || due.ns < polling->due[level].ns)
        polling->due[level] = due;
    simba__list_append(&polling->levels[level], &polled->of_level);
    polled->level = level;
    polled->polls = 0;
}

simba_local simba__sql_polling_due(const simba__sql_polling *polling)
{
    simba_local due = {INT64_MAX};
    for (size_t level = 0; level < SIMBA__SQL_LEVELS; level++)
        if (polling->levels[level].first && polling->due[level].ns < due.ns)
            due = polling->due[level];
    return due;
}

/* Rows that will be due before long come along. */
static bool is_due(const simba__sql_polling *polling, unsigned level, simba_local now)
{
    return polling->levels[level].first && polling->due[level].ns <= now.ns + level_ns[level] / 2;
}

void simba__sql_polling_take(simba__sql_polling *polling, simba_local now, simba__list *ret_asked)
{
    for (unsigned level = 0; level < SIMBA__SQL_LEVELS; level++) {
        if (!is_due(polling, level, now))
            continue;
        polling->due[level] = next_due(polling, level, now);
        for (simba__list_item *item = polling->levels[level].first; item; item = item->next)
            simba__list_append(ret_asked, &SIMBA__OF_ITEM(item, simba__sql_polled, of_level)->asked);
    }
}

void simba__sql_polled_came_back(simba__sql_polling *polling, simba__sql_polled *polled, bool answered, uint64_t began,
                                 simba_local now)
{
    if (polled->level == SIMBA__SQL_LEVEL_BACKUP || began < polled->hastened_at)
        return;
    if (polling->pace == SIMBA__SQL_RARELY && !polled->watch->observed && answered && began > polling->pace_since)
        move(polling, polled, SIMBA__SQL_LEVEL_BACKUP, now);
    else if (++polled->polls >= POLLS_PER_LEVEL && polled->level < SIMBA__SQL_LEVEL_BACKUP - 1)
        move(polling, polled, polled->level + 1, now);
}

void simba__sql_polled_hasten(simba__sql_polling *polling, simba__sql_polled *polled, unsigned level, simba_local now)
{
    polled->hastened_at = ++polling->clock;
    if (polled->level == SIMBA__SQL_LEVEL_BACKUP)
        move(polling, polled, level, now);
}

void simba__sql_polling_set_pace(simba__sql_polling *polling, simba__sql_pace pace, simba_local now)
{
    polling->pace = pace;
    polling->pace_since = ++polling->clock;
    simba__list *backup = &polling->levels[SIMBA__SQL_LEVEL_BACKUP];
    while (backup->first)
        move(polling, SIMBA__OF_ITEM(backup->first, simba__sql_polled, of_level), 0, now);
    for (unsigned level = 0; level < SIMBA__SQL_LEVELS; level++)
        polling->due[level] = now;
}

/* --- what is polled -------------------------------------------------------------------------------------- */

static bool has_name(const simba__node *node, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(node, simba__sql_polled, node)->watch->mutex, mutex) == 0;
}

simba__sql_polled *simba__sql_polling_add(simba__sql_polling *polling, simba_watch *watch, simba_local now)
{
    simba__sql_polled *polled = simba__table_reserve(&polling->mutexes) ? simba__calloc(1, sizeof *polled) : NULL;
    if (!polled)
        return NULL;
    polled->watch = watch;
    simba__table_add(&polling->mutexes, &polled->node, simba__hash(watch->mutex));
    move(polling, polled, 0, now);
    polling->due[0] = now;
    return polled;
}

void simba__sql_polling_remove(simba__sql_polling *polling, simba__sql_polled *polled)
{
    simba__table_remove(&polling->mutexes, &polled->node);
    simba__list_remove(&polled->of_level);
    simba__list_remove(&polled->asked);
    simba__free(polled);
}

simba__sql_polled *simba__sql_polling_find(const simba__sql_polling *polling, const char *mutex)
{
    if (polling->mutexes.count == 0)
        return NULL;
    simba__node *node = simba__table_find(&polling->mutexes, simba__hash(mutex), has_name, mutex);
    return node ? SIMBA__OF_NODE(node, simba__sql_polled, node) : NULL;
}

/* --- news ---------------------------------------------------------------------------------------------- */

uint64_t simba__sql_polling_begin(simba__sql_polling *polling)
{
    return ++polling->clock;
}

/* The same grant, but longer: a contender that waits for its end need not ask. */
static bool is_renewal(const simba__sql_polled *polled, const simba_reply *reply, uint64_t version)
{
    /* A JVM contender's renewal is a new version, and has no token. */
    const bool same =
        version == polled->version || (reply->owner.token == 0 && simba__hash(reply->owner.id) == polled->owner_hash);
    return polled->told && same && !polled->is_free && reply->owner.id[0] != '\0';
}

static void remember(simba__sql_polling *polling, simba__sql_polled *polled, const simba_reply *reply, uint64_t version)
{
    polled->told = true;
    polled->is_free = reply->owner.id[0] == '\0';
    polled->version = version;
    polled->owner_hash = simba__hash(reply->owner.id);
    polled->transition_at_ms = reply->owner.transition_at_ms;
    polled->told_at = ++polling->clock;
}

bool simba__sql_polled_read(simba__sql_polling *polling, simba__sql_polled *polled, const simba_reply *reply,
                            uint64_t version, uint64_t began, simba_local now, simba_push *ret_push)
{
    const bool is_free = reply->owner.id[0] == '\0';
    if (polled->told && version < polled->version && polled->told_at > began)
        return false;
    if (polled->told && version == polled->version && is_free == polled->is_free &&
        reply->owner.transition_at_ms <= polled->transition_at_ms)
        return false;
    const bool first = !polled->told;
    const bool renewal = is_renewal(polled, reply, version);
    remember(polling, polled, reply, version);
    if (!first && !renewal && polled->level != SIMBA__SQL_LEVEL_BACKUP) {
        polled->lost += !is_free;
        move(polling, polled, polled->lost < LOST_LEVEL ? polled->lost : LOST_LEVEL, now);
    }
    if (renewal && polled->level == SIMBA__SQL_LEVEL_BACKUP)
        return false;
    /* A grant without a token cannot be compared with what contenders know: let them ask. */
    const bool unknown = reply->owner.token == 0 && !first && !renewal;
    *ret_push = (simba_push){
        .kind = is_free   ? SIMBA_PUSH_RELEASED
                : unknown ? SIMBA_PUSH_CHANGED
                          : SIMBA_PUSH_ACQUIRED,
        .owner = reply->owner,
        .now_ms = reply->now_ms,
    };
    return true;
}

bool simba__sql_polled_read_note(simba__sql_polled *polled, uint64_t token, uint64_t number)
{
    const bool is_news = token != polled->note_token || number != polled->note_number;
    polled->note_token = token;
    polled->note_number = number;
    return is_news;
}
