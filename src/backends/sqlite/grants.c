/* See grants.h. */
#include "backends/sqlite/grants.h"

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

void simba__sqlite_grants_init(simba__sqlite_grants *grants, simba_host *host)
{
    grants->host = host;
}

static void forget(simba__sqlite_grants *grants, grant *g)
{
    simba__table_remove(&grants->table, &g->node);
    simba__free(g);
}

void simba__sqlite_grants_fini(simba__sqlite_grants *grants)
{
    for (simba__node *node = simba__table_first(&grants->table), *next; node; node = next) {
        next = simba__table_next(&grants->table, node);
        forget(grants, of_node(node));
    }
    simba__table_fini(&grants->table);
}

static grant *make(simba__sqlite_grants *grants, uint64_t hash, const char *mutex)
{
    grant *g = simba__table_reserve(&grants->table) ? simba__malloc(sizeof *g + strlen(mutex) + 1) : NULL;
    if (!g)
        return NULL;
    strcpy(g->mutex, mutex);
    simba__table_add(&grants->table, &g->node, hash);
    return g;
}

static void ask(simba__sqlite_grants *grants, const grant *g)
{
    const simba_push push = {.kind = SIMBA_PUSH_CHANGED};
    grants->host->push_to(grants->host, g->mutex, g->nonce, &push);
}

static void note_grant(simba__sqlite_grants *grants, grant *g, const simba__sqlite_effect *effect,
                       const simba_request *request)
{
    if (!g)
        g = make(grants, effect->hash, request->mutex);
    if (!g)
        return;
    g->nonce = request->nonce;
    /* The slot has no mark of ours if nobody listened, or if we found the grant again because its reply was lost. */
    const bool marked = effect->marked && effect->replaced != SIMBA__SQLITE_NOTIFY_UNSURE;
    g->marked = marked ? effect->marked : effect->seen;
}

void simba__sqlite_grants_record(simba__sqlite_grants *grants, const simba__sqlite_effect *effect,
                                 const simba_request *request)
{
    if (request->op == SIMBA_OP_LIST || request->op == SIMBA_OP_READ)
        return;
    grant *g = of_node(simba__table_find(&grants->table, effect->hash, is_of, request->mutex));
    const bool mine = request->reply.outcome == SIMBA_MINE;
    if (request->op == SIMBA_OP_ACQUIRE && mine) {
        note_grant(grants, g, effect, request);
    } else if (request->op == SIMBA_OP_FORCE_RELEASE && mine && g) {
        g->marked = effect->marked;
        ask(grants, g);
    } else if (request->op == SIMBA_OP_RELEASE || (request->op == SIMBA_OP_RENEW && !mine)) {
        if (g && g->nonce == request->nonce)
            forget(grants, g);
    }
}

void simba__sqlite_grants_scan(simba__sqlite_grants *grants, const simba__sqlite_notify *notify)
{
    const uint64_t revocations = simba__sqlite_notify_revocations(notify);
    if (revocations == grants->revocations)
        return;
    grants->revocations = revocations;
    for (simba__node *node = simba__table_first(&grants->table); node; node = simba__table_next(&grants->table, node)) {
        grant *g = of_node(node);
        const uint64_t value = simba__sqlite_notify_read(notify, simba__sqlite_notify_slot(node->hash));
        if (value == g->marked)
            continue;
        g->marked = value;
        ask(grants, g);
    }
}

void simba__sqlite_grants_ask_all(simba__sqlite_grants *grants)
{
    for (simba__node *node = simba__table_first(&grants->table); node; node = simba__table_next(&grants->table, node))
        ask(grants, of_node(node));
}
