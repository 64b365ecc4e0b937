/* See polling.h. */
#include "backends/sql/polling.h"

#include <string.h>

#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/random.h"

enum { POLLS_PER_RUNG = 12, LOST_RUNG = 3 };

static const int64_t rung_ns[SIMBA__SQL_RUNGS] = {
    40 * SIMBA__NS_PER_MS,  80 * SIMBA__NS_PER_MS,  160 * SIMBA__NS_PER_MS,   320 * SIMBA__NS_PER_MS,
    640 * SIMBA__NS_PER_MS, 900 * SIMBA__NS_PER_MS, 300000 * SIMBA__NS_PER_MS};

void simba__sql_polling_init(simba__sql_polling *polling, uint64_t seed)
{
    *polling = (simba__sql_polling){.seed = seed};
}

void simba__sql_polling_fini(simba__sql_polling *polling)
{
    for (size_t rung = 0; rung < SIMBA__SQL_RUNGS; rung++)
        while (polling->rungs[rung])
            simba__sql_polling_remove(polling, polling->rungs[rung]);
    simba__table_fini(&polling->mutexes);
}

/* --- the ladder --------------------------------------------------------------------------------------- */

static void leave_rung(simba__sql_polling *polling, simba__sql_polled *polled)
{
    polling->counts[polled->rung]--;
    *polled->rung_link = polled->rung_next;
    if (polled->rung_next)
        polled->rung_next->rung_link = polled->rung_link;
}

/* A quarter less at random: processes that saw the same change should not go on in step. */
static simba_local next_due(simba__sql_polling *polling, unsigned rung, simba_local now)
{
    return (simba_local){now.ns + simba__random_range(&polling->seed, rung_ns[rung] * 3 / 4, rung_ns[rung])};
}

static void enter_rung(simba__sql_polling *polling, simba__sql_polled *polled, unsigned rung, simba_local now)
{
    const simba_local due = next_due(polling, rung, now);
    if (!polling->rungs[rung] || due.ns < polling->due[rung].ns)
        polling->due[rung] = due;
    polling->counts[rung]++;
    polled->rung = rung;
    polled->polls = 0;
    polled->rung_next = polling->rungs[rung];
    polled->rung_link = &polling->rungs[rung];
    if (polled->rung_next)
        polled->rung_next->rung_link = &polled->rung_next;
    polling->rungs[rung] = polled;
}

static void move(simba__sql_polling *polling, simba__sql_polled *polled, unsigned rung, simba_local now)
{
    leave_rung(polling, polled);
    enter_rung(polling, polled, rung, now);
}

simba_local simba__sql_polling_due(const simba__sql_polling *polling)
{
    simba_local due = {INT64_MAX};
    for (size_t rung = 0; rung < SIMBA__SQL_RUNGS; rung++)
        if (polling->rungs[rung] && polling->due[rung].ns < due.ns)
            due = polling->due[rung];
    return due;
}

/* Rows that will be due before long come along. */
static bool is_due(const simba__sql_polling *polling, unsigned rung, simba_local now)
{
    return polling->rungs[rung] && polling->due[rung].ns <= now.ns + rung_ns[rung] / 2;
}

size_t simba__sql_polling_count(const simba__sql_polling *polling, simba_local now)
{
    size_t count = 0;
    for (unsigned rung = 0; rung < SIMBA__SQL_RUNGS; rung++)
        if (is_due(polling, rung, now))
            count += polling->counts[rung];
    return count;
}

void simba__sql_polling_take(simba__sql_polling *polling, simba_local now,
                             void (*each)(void *user, simba__sql_polled *watched), void *user)
{
    for (unsigned rung = 0; rung < SIMBA__SQL_RUNGS; rung++) {
        if (!is_due(polling, rung, now))
            continue;
        polling->due[rung] = next_due(polling, rung, now);
        for (simba__sql_polled *polled = polling->rungs[rung]; polled; polled = polled->rung_next)
            each(user, polled);
    }
}

void simba__sql_polled_put_off(simba__sql_polling *polling, const simba__sql_polled *polled, simba_local now)
{
    polling->due[polled->rung] = now;
}

void simba__sql_polled_came_back(simba__sql_polling *polling, simba__sql_polled *polled, bool answered, uint64_t began,
                                 simba_local now)
{
    if (polled->rung == SIMBA__SQL_RUNG_NET || began < polled->hastened_at)
        return;
    if (polling->pace == SIMBA__SQL_RARELY && !polled->topic->observed && answered && began > polling->pace_since)
        move(polling, polled, SIMBA__SQL_RUNG_NET, now);
    else if (++polled->polls >= POLLS_PER_RUNG && polled->rung < SIMBA__SQL_RUNG_NET - 1)
        move(polling, polled, polled->rung + 1, now);
}

void simba__sql_polled_hasten(simba__sql_polling *polling, simba__sql_polled *polled, unsigned rung, simba_local now)
{
    polled->hastened_at = ++polling->clock;
    if (polled->rung == SIMBA__SQL_RUNG_NET)
        move(polling, polled, rung, now);
}

void simba__sql_polling_set_pace(simba__sql_polling *polling, simba__sql_pace pace, simba_local now)
{
    polling->pace = pace;
    polling->pace_since = ++polling->clock;
    while (polling->rungs[SIMBA__SQL_RUNG_NET])
        move(polling, polling->rungs[SIMBA__SQL_RUNG_NET], 0, now);
    for (unsigned rung = 0; rung < SIMBA__SQL_RUNGS; rung++)
        polling->due[rung] = now;
}

/* --- what is polled -------------------------------------------------------------------------------------- */

static bool has_name(const simba__node *node, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(node, simba__sql_polled, node)->topic->mutex, mutex) == 0;
}

simba__sql_polled *simba__sql_polling_add(simba__sql_polling *polling, simba_topic *topic, simba_local now)
{
    simba__sql_polled *polled = simba__table_reserve(&polling->mutexes) ? simba__calloc(1, sizeof *polled) : NULL;
    if (!polled)
        return NULL;
    polled->topic = topic;
    simba__table_add(&polling->mutexes, &polled->node, simba__hash(topic->mutex));
    enter_rung(polling, polled, 0, now);
    polling->due[0] = now;
    return polled;
}

void simba__sql_polling_remove(simba__sql_polling *polling, simba__sql_polled *polled)
{
    simba__table_remove(&polling->mutexes, &polled->node);
    leave_rung(polling, polled);
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
    if (!first && !renewal && polled->rung != SIMBA__SQL_RUNG_NET) {
        polled->lost += !is_free;
        move(polling, polled, polled->lost < LOST_RUNG ? polled->lost : LOST_RUNG, now);
    }
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

bool simba__sql_polled_read_note(simba__sql_polled *polled, simba__sql_mark mark)
{
    const bool is_news = mark.is_known && (mark.token != polled->mark.token || mark.number != polled->mark.number);
    if (mark.is_known)
        polled->mark = mark;
    return is_news;
}
