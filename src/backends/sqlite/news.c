/* See news.h. */
#include "backends/sqlite/news.h"

#include <string.h>

#include "util/mem.h"

#define UNKNOWN_VERSION UINT64_MAX

void simba__sqlite_news_init(simba__sqlite_news *news, simba_host *host)
{
    news->host = host;
    simba__sqlite_news_forget(news);
}

void simba__sqlite_news_forget(simba__sqlite_news *news)
{
    for (size_t slot = 0; slot < SIMBA__SQLITE_NOTIFY_SLOTS; slot++) {
        for (simba__sqlite_watched *w = news->watched[slot]; w; w = w->next) {
            w->known = SIMBA__SQLITE_NOTIFY_UNSEEN;
            w->version = UNKNOWN_VERSION;
            w->note_token = UINT64_MAX;
        }
    }
    news->rescan = true;
}

simba__sqlite_watched *simba__sqlite_news_find(const simba__sqlite_news *news, uint64_t hash, const char *mutex)
{
    simba__sqlite_watched *w = news->watched[simba__sqlite_notify_slot(hash)];
    while (w && (w->hash != hash || strcmp(w->topic->mutex, mutex) != 0))
        w = w->next;
    return w;
}

simba__sqlite_watched *simba__sqlite_news_add(simba__sqlite_news *news, simba_topic *topic, uint32_t now_ms)
{
    simba__sqlite_watched *w = simba__calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->topic = topic;
    w->hash = simba__sqlite_notify_hash(topic->mutex);
    const size_t slot = simba__sqlite_notify_slot(w->hash);
    w->known = SIMBA__SQLITE_NOTIFY_UNSEEN;
    w->version = UNKNOWN_VERSION;
    w->note_token = UINT64_MAX;
    w->since_ms = now_ms;
    w->next = news->watched[slot];
    news->watched[slot] = w;
    news->count++;
    return w;
}

void simba__sqlite_news_remove(simba__sqlite_news *news, simba__sqlite_watched *watched)
{
    simba__sqlite_watched **link = &news->watched[simba__sqlite_notify_slot(watched->hash)];
    while (*link != watched)
        link = &(*link)->next;
    *link = watched->next;
    news->count--;
    simba__free(watched);
}

static void hear_note(simba__sqlite_news *news, simba__sqlite_watched *w, const simba__sqlite_effect *effect)
{
    if (w->note_token == effect->note_token && w->note_number == effect->note_number)
        return;
    w->note_token = effect->note_token;
    w->note_number = effect->note_number;
    news->host->push(news->host, w->topic, &(simba_push){.kind = SIMBA_PUSH_NOTED});
}

/* The times of notes are not on the scale of the owner's. */
static bool is_about_note(const simba_request *request)
{
    return request->op == SIMBA_OP_WRITE_NOTE || request->op == SIMBA_OP_READ_NOTE || request->op == SIMBA_OP_FORGET;
}

void simba__sqlite_news_heard(simba__sqlite_news *news, const simba__sqlite_effect *effect,
                              const simba_request *request)
{
    simba__sqlite_watched *w = simba__sqlite_news_find(news, effect->hash, request->mutex);
    if (w && effect->concerns_note)
        hear_note(news, w, effect);
    if (!w || is_about_note(request))
        return;
    w->latest = request;
    w->is_news |= effect->marked || effect->before != w->version;
    w->told_free &= !effect->marked;
    w->yields = false;
    /* A request that did not look at the note does not tell what has changed for whoever hears of notes. */
    if (effect->concerns_note || !w->topic->observed)
        w->known = effect->seen;
    w->version = effect->after;
}

void simba__sqlite_news_rang(simba__sqlite_news *news, const simba__sqlite_effect *effect)
{
    const size_t slot = simba__sqlite_notify_slot(effect->hash);
    for (simba__sqlite_watched *w = news->watched[slot]; w; w = w->next)
        if (w->known == effect->replaced)
            w->known = effect->marked;
}

void simba__sqlite_news_tell(simba__sqlite_news *news, const simba__sqlite_effect *effect, const simba_request *request)
{
    simba__sqlite_watched *w = simba__sqlite_news_find(news, effect->hash, request->mutex);
    if (!w || w->latest != request)
        return;
    const bool is_free = request->reply.owner.id[0] == '\0';
    const bool due = w->is_news && !(is_free && w->told_free);
    w->latest = NULL;
    w->is_news = false;
    w->told_free = false;
    if (!due)
        return;
    w->yields = is_free && effect->invited == SIMBA__SQLITE_INVITED_OTHERS;
    const simba_push_kind freed = w->yields ? SIMBA_PUSH_FREED : SIMBA_PUSH_RELEASED;
    const simba_push push = {
        .kind = is_free ? freed : SIMBA_PUSH_ACQUIRED,
        .owner = request->reply.owner,
        .now_ms = request->reply.now_ms,
    };
    news->host->push(news->host, w->topic, &push);
}

static void believe(simba__sqlite_news *news, simba__sqlite_watched *watched)
{
    watched->told_free = true;
    watched->yields = false;
    watched->version = UNKNOWN_VERSION;
    const simba_push push = {.kind = SIMBA_PUSH_RELEASED};
    news->host->push(news->host, watched->topic, &push);
}

void simba__sqlite_news_scan(simba__sqlite_news *news, const simba__sqlite_notify *notify, simba__sqlite_news_look look,
                             void *user)
{
    simba__sqlite_notify_read_all(notify, &news->cells);
    if (news->cells.disorder != news->disorder)
        simba__sqlite_news_forget(news);
    news->disorder = news->cells.disorder;
    const bool all = news->rescan;
    news->rescan = false;
    for (size_t slot = 0; slot < SIMBA__SQLITE_NOTIFY_SLOTS; slot++) {
        const uint64_t value = news->cells.slots[slot];
        if (value == news->scanned[slot] && !all)
            continue;
        news->scanned[slot] = value;
        for (simba__sqlite_watched *w = news->watched[slot], *next; w; w = next) {
            next = w->next;
            if (w->known == value)
                continue;
            if (!w->told_free && simba__sqlite_notify_says_released(value, w->hash))
                believe(news, w);
            look(user, w);
        }
    }
}

void simba__sqlite_news_step_in(simba__sqlite_news *news, const simba__sqlite_notify *notify)
{
    simba__sqlite_notify_read_all(notify, &news->cells);
    for (size_t slot = 0; slot < SIMBA__SQLITE_NOTIFY_SLOTS; slot++) {
        const uint64_t value = news->cells.slots[slot];
        for (simba__sqlite_watched *w = news->watched[slot], *next; w; w = next) {
            next = w->next;
            if (simba__sqlite_notify_says_released(value, w->hash) &&
                (w->yields || (w->known != value && !w->told_free)))
                believe(news, w);
        }
    }
}

uint64_t simba__sqlite_news_place(const simba__sqlite_news *news, size_t line)
{
    const simba__sqlite_watched *only = NULL;
    for (size_t slot = line; slot < SIMBA__SQLITE_NOTIFY_SLOTS; slot += SIMBA__SQLITE_LINES) {
        for (const simba__sqlite_watched *w = news->watched[slot]; w; w = w->next) {
            if (only)
                return simba__sqlite_line_cell_of_several();
            only = w;
        }
    }
    return only ? simba__sqlite_line_cell(only->hash, only->topic->observed, only->since_ms) : 0;
}
