/* See held.h. */
#include "backends/sqlite/held.h"

#include <string.h>

#include "util/mem.h"

typedef struct grant {
    simba__node node; /* by the notify file's hash of the mutex */
    uint64_t nonce;
    uint64_t marked; /* the slot's value, as the grant left it */
    char mutex[];
} grant;

static grant *of_node(simba__node *node)
{
    return node ? SIMBA__OF_NODE(node, grant, node) : NULL;
}

static bool is_of(const simba__node *node, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(node, const grant, node)->mutex, mutex) == 0;
}

void simba__sqlite_held_init(simba__sqlite_held *held, simba_host *host)
{
    held->host = host;
}

static void forget(simba__sqlite_held *held, grant *g)
{
    simba__table_remove(&held->grants, &g->node);
    simba__free(g);
}

void simba__sqlite_held_fini(simba__sqlite_held *held)
{
    for (simba__node *node = simba__table_first(&held->grants), *next; node; node = next) {
        next = simba__table_next(&held->grants, node);
        forget(held, of_node(node));
    }
    simba__table_fini(&held->grants);
}

static grant *make(simba__sqlite_held *held, uint64_t hash, const char *mutex)
{
    grant *g = simba__table_reserve(&held->grants) ? simba__malloc(sizeof *g + strlen(mutex) + 1) : NULL;
    if (!g)
        return NULL;
    strcpy(g->mutex, mutex);
    simba__table_add(&held->grants, &g->node, hash);
    return g;
}

static void ask(simba__sqlite_held *held, const grant *g)
{
    const simba_push push = {.kind = SIMBA_PUSH_CHANGED};
    held->host->push_to(held->host, g->mutex, g->nonce, &push);
}

static void note_grant(simba__sqlite_held *held, grant *g, const simba__sqlite_effect *effect,
                       const simba_request *request)
{
    if (!g)
        g = make(held, effect->hash, request->mutex);
    if (!g)
        return;
    g->nonce = request->nonce;
    /* The slot has no mark of ours if nobody listened, or if we found the grant again because its reply was lost. */
    const bool marked = effect->marked && effect->replaced != SIMBA__SQLITE_NOTIFY_UNSURE;
    g->marked = marked ? effect->marked : effect->seen;
}

void simba__sqlite_held_note(simba__sqlite_held *held, const simba__sqlite_effect *effect, const simba_request *request)
{
    if (request->op == SIMBA_OP_LIST || request->op == SIMBA_OP_READ)
        return;
    grant *g = of_node(simba__table_find(&held->grants, effect->hash, is_of, request->mutex));
    const bool mine = request->reply.outcome == SIMBA_MINE;
    if (request->op == SIMBA_OP_ACQUIRE && mine) {
        note_grant(held, g, effect, request);
    } else if (request->op == SIMBA_OP_FORCE_RELEASE && mine && g) {
        g->marked = effect->marked;
        ask(held, g);
    } else if (request->op == SIMBA_OP_RELEASE || (request->op == SIMBA_OP_RENEW && !mine)) {
        if (g && g->nonce == request->nonce)
            forget(held, g);
    }
}

void simba__sqlite_held_scan(simba__sqlite_held *held, const simba__sqlite_notify *notify)
{
    const uint64_t revocations = simba__sqlite_notify_revocations(notify);
    if (revocations == held->revocations)
        return;
    held->revocations = revocations;
    for (simba__node *node = simba__table_first(&held->grants); node; node = simba__table_next(&held->grants, node)) {
        grant *g = of_node(node);
        const uint64_t value = simba__sqlite_notify_read(notify, simba__sqlite_notify_slot(node->hash));
        if (value == g->marked)
            continue;
        g->marked = value;
        ask(held, g);
    }
}

void simba__sqlite_held_ask_all(simba__sqlite_held *held)
{
    for (simba__node *node = simba__table_first(&held->grants); node; node = simba__table_next(&held->grants, node))
        ask(held, of_node(node));
}
