/* See news.h. */
#include "backends/sqlite/news.h"

#include <string.h>

#include "util/mem.h"

#define UNKNOWN_VERSION UINT64_MAX

void simba__news_init(simba__news *news, simba_host *host)
{
    news->host = host;
    simba__news_forget(news);
}

void simba__news_forget(simba__news *news)
{
    for (size_t slot = 0; slot < SIMBA__NOTIFY_SLOTS; slot++) {
        for (simba__watched *w = news->watched[slot]; w; w = w->next) {
            w->known = SIMBA__NOTIFY_UNSEEN;
            w->version = UNKNOWN_VERSION;
            w->note_token = UINT64_MAX;
        }
    }
    news->rescan = true;
}

simba__watched *simba__news_find(const simba__news *news, uint64_t hash, const char *mutex)
{
    simba__watched *w = news->watched[simba__notify_slot(hash)];
    while (w && (w->hash != hash || strcmp(w->topic->mutex, mutex) != 0))
        w = w->next;
    return w;
}

simba__watched *simba__news_add(simba__news *news, simba_topic *topic, uint32_t now_ms)
{
    simba__watched *w = simba__calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->topic = topic;
    w->hash = simba__notify_hash(topic->mutex);
    const size_t slot = simba__notify_slot(w->hash);
    w->known = SIMBA__NOTIFY_UNSEEN;
    w->version = UNKNOWN_VERSION;
    w->note_token = UINT64_MAX;
    w->since_ms = now_ms;
    w->next = news->watched[slot];
    news->watched[slot] = w;
    news->count++;
    return w;
}

void simba__news_remove(simba__news *news, simba__watched *watched)
{
    simba__watched **link = &news->watched[simba__notify_slot(watched->hash)];
    while (*link != watched)
        link = &(*link)->next;
    *link = watched->next;
    news->count--;
    simba__free(watched);
}

static void hear_note(simba__news *news, simba__watched *w, const simba__effect *effect)
{
    if (w->note_token == effect->note_token && w->note_number == effect->note_number)
        return;
    w->note_token = effect->note_token;
    w->note_number = effect->note_number;
    news->host->push(news->host, w->topic, &(simba_push){.kind = SIMBA_PUSH_NOTED});
}

/* Their times are not on the scale of the owner's. */
static bool is_about_note(const simba_request *request)
{
    return request->op == SIMBA_OP_WRITE_NOTE || request->op == SIMBA_OP_READ_NOTE || request->op == SIMBA_OP_FORGET;
}

void simba__news_heard(simba__news *news, const simba__effect *effect, const simba_request *request)
{
    simba__watched *w = simba__news_find(news, effect->hash, request->mutex);
    if (w && effect->concerns_note)
        hear_note(news, w, effect);
    if (!w || is_about_note(request))
        return;
    w->latest = request;
    if (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RELEASE)
        w->waits = request->queue && request->reply.outcome == SIMBA_NOT_MINE;
    w->is_news |= effect->marked || effect->before != w->version;
    w->told_free &= !effect->marked;
    w->yields = false;
    w->known = effect->seen;
    w->version = effect->after;
}

void simba__news_rang(simba__news *news, const simba__effect *effect)
{
    const size_t slot = simba__notify_slot(effect->hash);
    for (simba__watched *w = news->watched[slot]; w; w = w->next)
        if (w->known == effect->replaced)
            w->known = effect->marked;
}

void simba__news_tell(simba__news *news, const simba__effect *effect, const simba_request *request)
{
    simba__watched *w = simba__news_find(news, effect->hash, request->mutex);
    if (!w || w->latest != request)
        return;
    const bool is_free = request->reply.owner.id[0] == '\0';
    const bool due = w->is_news && !(is_free && w->told_free);
    w->latest = NULL;
    w->is_news = false;
    w->told_free = false;
    if (!due)
        return;
    w->yields = is_free && effect->invited == SIMBA__INVITED_OTHERS;
    const simba_push_kind freed = w->yields ? SIMBA_PUSH_FREED : SIMBA_PUSH_RELEASED;
    const simba_push push = {
        .kind = is_free ? freed : SIMBA_PUSH_ACQUIRED, .owner = request->reply.owner, .now_ms = request->reply.now_ms};
    news->host->push(news->host, w->topic, &push);
}

static void believe(simba__news *news, simba__watched *watched)
{
    watched->told_free = true;
    watched->yields = false;
    watched->version = UNKNOWN_VERSION;
    const simba_push push = {.kind = SIMBA_PUSH_RELEASED};
    news->host->push(news->host, watched->topic, &push);
}

void simba__news_scan(simba__news *news, const simba__notify *notify, simba__news_look look, void *user)
{
    simba__notify_read_all(notify, &news->cells);
    if (news->cells.disorder != news->disorder)
        simba__news_forget(news);
    news->disorder = news->cells.disorder;
    const bool all = news->rescan;
    news->rescan = false;
    for (size_t slot = 0; slot < SIMBA__NOTIFY_SLOTS; slot++) {
        const uint64_t value = news->cells.slots[slot];
        if (value == news->scanned[slot] && !all)
            continue;
        news->scanned[slot] = value;
        for (simba__watched *w = news->watched[slot], *next; w; w = next) {
            next = w->next;
            if (w->known == value)
                continue;
            if (!w->told_free && simba__notify_says_released(value, w->hash))
                believe(news, w);
            look(user, w);
        }
    }
}

void simba__news_step_in(simba__news *news, const simba__notify *notify)
{
    simba__notify_read_all(notify, &news->cells);
    for (size_t slot = 0; slot < SIMBA__NOTIFY_SLOTS; slot++) {
        const uint64_t value = news->cells.slots[slot];
        for (simba__watched *w = news->watched[slot], *next; w; w = next) {
            next = w->next;
            if (simba__notify_says_released(value, w->hash) && (w->yields || (w->known != value && !w->told_free)))
                believe(news, w);
        }
    }
}

uint64_t simba__news_place(const simba__news *news, size_t line)
{
    const simba__watched *only = NULL;
    for (size_t slot = line; slot < SIMBA__NOTIFY_SLOTS; slot += SIMBA__LINES) {
        for (const simba__watched *w = news->watched[slot]; w; w = w->next) {
            if (only)
                return simba__line_cell_of_several();
            only = w;
        }
    }
    return only ? simba__line_cell(only->hash, only->topic->every, only->since_ms) : 0;
}
