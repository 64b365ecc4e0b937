/* See ears.h. */
#include "backends/sql/ears.h"

#include <string.h>

#include "util/hash.h"
#include "util/mem.h"

typedef struct ear {
    simba__node node;
    uint64_t nonce; /* of the one that holds the mutex, or of the latest one that asks for it */
    bool holds;
    bool is_wanted; /* somebody waits, and the one that holds it is not known yet: its answer is on the way */
    char mutex[];
} ear;

void simba__sql_ears_fini(simba__sql_ears *ears)
{
    for (simba__node *node = simba__table_first(&ears->table), *next; node; node = next) {
        next = simba__table_next(&ears->table, node);
        simba__free(SIMBA__OF_NODE(node, ear, node));
    }
    simba__table_fini(&ears->table);
}

static bool is_of(const simba__node *node, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(node, const ear, node)->mutex, mutex) == 0;
}

static ear *find(const simba__sql_ears *ears, const char *mutex)
{
    simba__node *node =
        ears->table.count > 0 ? simba__table_find(&ears->table, simba__hash(mutex), is_of, mutex) : NULL;
    return node ? SIMBA__OF_NODE(node, ear, node) : NULL;
}

/* NULL: there is no memory. */
static ear *open_ear(simba__sql_ears *ears, const simba_request *request)
{
    ear *e = find(ears, request->mutex);
    if (!e && simba__table_reserve(&ears->table)) {
        e = simba__malloc(sizeof *e + strlen(request->mutex) + 1);
        if (e) {
            *e = (ear){0};
            strcpy(e->mutex, request->mutex);
            simba__table_add(&ears->table, &e->node, simba__hash(request->mutex));
        }
    }
    if (e) {
        e->nonce = request->nonce;
        e->holds = false;
    }
    return e;
}

static void close_ear(simba__sql_ears *ears, const simba_request *request)
{
    ear *e = find(ears, request->mutex);
    if (!e || e->nonce != request->nonce || e->is_wanted)
        return;
    simba__table_remove(&ears->table, &e->node);
    simba__free(e);
}

void simba__sql_ears_asked(simba__sql_ears *ears, const simba_request *request)
{
    const ear *e = find(ears, request->mutex);
    const bool other_holds = e && e->holds && e->nonce != request->nonce;
    if (request->op == SIMBA_OP_ACQUIRE && request->listens && !other_holds)
        open_ear(ears, request);
    else if (request->op == SIMBA_OP_RELEASE)
        close_ear(ears, request);
}

static void push(const simba__sql_ears *ears, const ear *e, simba_push_kind kind)
{
    ears->host->push_to(ears->host, e->mutex, e->nonce, &(simba_push){.kind = kind});
}

static void hold(simba__sql_ears *ears, const simba_request *request)
{
    ear *e = open_ear(ears, request);
    if (!e)
        return;
    if (e->is_wanted)
        push(ears, e, SIMBA_PUSH_WANTED);
    e->holds = true;
    e->is_wanted = false;
}

void simba__sql_ears_answered(simba__sql_ears *ears, const simba_request *request)
{
    const bool is_mine = request->reply.outcome == SIMBA_MINE;
    if (request->op == SIMBA_OP_ACQUIRE && request->listens && is_mine)
        hold(ears, request); /* of several that ask, it is this one */
    else if (request->op == SIMBA_OP_RENEW && !is_mine)
        close_ear(ears, request);
}

bool simba__sql_ears_are_open(const simba__sql_ears *ears, const char *mutex)
{
    return find(ears, mutex) != NULL;
}

void simba__sql_ears_wanted(const simba__sql_ears *ears, const char *mutex)
{
    ear *e = find(ears, mutex);
    if (e && e->holds)
        push(ears, e, SIMBA_PUSH_WANTED);
    else if (e)
        e->is_wanted = true;
}

/* A push to a contender that waits would only make it ask once more. Nothing is closed meanwhile: requests are handed over at the
 * end of the turn. */
void simba__sql_ears_ask_all(const simba__sql_ears *ears)
{
    for (simba__node *node = simba__table_first(&ears->table), *next; node; node = next) {
        next = simba__table_next(&ears->table, node);
        push(ears, SIMBA__OF_NODE(node, const ear, node), SIMBA_PUSH_CHANGED);
    }
}
