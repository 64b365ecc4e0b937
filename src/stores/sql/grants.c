/* See grants.h. */
#include "stores/sql/grants.h"

#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"

typedef struct entry {
    simba__node node;
    simba__list_item used;
    uint64_t version;  /* the greatest seen */
    uint64_t nonce;    /* of the latest grant to this client */
    simba_local until; /* when that ends by this client's clock; {0}: it has ended */
} entry;

void simba__sql_grants_fini(simba__sql_grants *grants)
{
    while (grants->used.first) {
        entry *oldest = SIMBA__OF_ITEM(grants->used.first, entry, used);
        simba__list_remove(&oldest->used);
        simba__free(oldest);
    }
    simba__table_fini(&grants->entries);
}

static bool is_any(const simba__node *node, const void *key)
{
    (void)node;
    (void)key;
    return true;
}

static entry *find(const simba__sql_grants *grants, const char *mutex)
{
    simba__node *node = simba__table_find(&grants->entries, simba__hash(mutex), is_any, NULL);
    return node ? SIMBA__OF_NODE(node, entry, node) : NULL;
}

uint64_t simba__sql_grants_floor(const simba__sql_grants *grants, const char *mutex)
{
    const entry *of = find(grants, mutex);
    return of ? of->version : 0;
}

bool simba__sql_grants_is_held(const simba__sql_grants *grants, const char *mutex, uint64_t nonce, simba_local now)
{
    const entry *of = find(grants, mutex);
    return of && of->nonce != nonce && now.ns < of->until.ns;
}

uint64_t simba__sql_grants_holder(const simba__sql_grants *grants, const char *mutex)
{
    const entry *of = find(grants, mutex);
    return of ? of->nonce : 0;
}

static void make_room(simba__sql_grants *grants, simba_local now)
{
    entry *oldest = grants->used.first ? SIMBA__OF_ITEM(grants->used.first, entry, used) : NULL;
    if (!oldest || grants->entries.count < SIMBA__SQL_GRANTS_MAX || oldest->until.ns > now.ns)
        return;
    simba__table_remove(&grants->entries, &oldest->node);
    simba__list_remove(&oldest->used);
    simba__free(oldest);
}

void simba__sql_grants_saw(simba__sql_grants *grants, const char *mutex, uint64_t version, simba_local now)
{
    entry *of = find(grants, mutex);
    if (!of) {
        make_room(grants, now);
        of = simba__table_reserve(&grants->entries) ? simba__calloc(1, sizeof *of) : NULL;
        if (!of)
            return;
        simba__table_add(&grants->entries, &of->node, simba__hash(mutex));
    }
    simba__list_append(&grants->used, &of->used);
    if (version > of->version)
        of->version = version;
}

void simba__sql_grants_answered(simba__sql_grants *grants, const simba_request *request, simba_local since)
{
    entry *of = find(grants, request->mutex);
    if (!of)
        return;
    const bool holds = request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW;
    if (holds && request->reply.outcome == SIMBA_MINE) {
        of->nonce = request->nonce;
        of->until.ns = since.ns + (request->ttl_ms + request->transition_ms) * SIMBA__NS_PER_MS;
    } else if (request->op == SIMBA_OP_FORCE_RELEASE || request->nonce == of->nonce) {
        of->until = (simba_local){0};
    }
}

void simba__sql_grants_releasing(simba__sql_grants *grants, const char *mutex, uint64_t nonce)
{
    entry *of = find(grants, mutex);
    if (of && of->nonce == nonce)
        of->until = (simba_local){0};
}
