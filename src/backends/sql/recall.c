/* See recall.h. */
#include "backends/sql/recall.h"

#include "util/assert.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"

struct simba__sql_entry {
    simba__node node;
    simba__sql_entry *newer, *older; /* by when it was last used */
    uint64_t version;                /* the greatest seen */
    uint64_t nonce;                  /* of the latest grant of ours */
    simba_local until;               /* when that ends by our own clock; {0}: it has ended */
    unsigned lane;                   /* that works on the row, if it has tasks */
    unsigned tasks;                  /* how many it has */
    bool is_overtaken;               /* renewals do not wait for these tasks */
    bool is_locked;                  /* by somebody else, when it was last worked on */
};

void simba__sql_recall_fini(simba__sql_recall *recall)
{
    for (simba__sql_entry *entry = recall->newest, *older; entry; entry = older) {
        older = entry->older;
        simba__free(entry);
    }
    simba__table_fini(&recall->entries);
}

static bool is_any(const simba__node *node, const void *key)
{
    (void)node;
    (void)key;
    return true;
}

static simba__sql_entry *find(const simba__sql_recall *recall, const char *mutex)
{
    simba__node *node = simba__table_find(&recall->entries, simba__hash(mutex), is_any, NULL);
    return node ? SIMBA__OF_NODE(node, simba__sql_entry, node) : NULL;
}

uint64_t simba__sql_recall_floor(const simba__sql_recall *recall, const char *mutex)
{
    const simba__sql_entry *entry = find(recall, mutex);
    return entry ? entry->version : 0;
}

bool simba__sql_recall_is_held(const simba__sql_recall *recall, const char *mutex, uint64_t nonce, simba_local now)
{
    const simba__sql_entry *entry = find(recall, mutex);
    return entry && entry->nonce != nonce && now.ns < entry->until.ns;
}

uint64_t simba__sql_recall_holder(const simba__sql_recall *recall, const char *mutex)
{
    const simba__sql_entry *entry = find(recall, mutex);
    return entry ? entry->nonce : 0;
}

/* --- entries -------------------------------------------------------------------------------------------- */

static void take_out(simba__sql_recall *recall, simba__sql_entry *entry)
{
    *(entry->newer ? &entry->newer->older : &recall->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &recall->oldest) = entry->newer;
}

static void put_first(simba__sql_recall *recall, simba__sql_entry *entry)
{
    entry->newer = NULL;
    entry->older = recall->newest;
    *(recall->newest ? &recall->newest->newer : &recall->oldest) = entry;
    recall->newest = entry;
}

static void forget_oldest(simba__sql_recall *recall, simba_local now)
{
    simba__sql_entry *entry = recall->oldest;
    if (recall->entries.count < SIMBA__SQL_ENTRIES_MAX || entry->until.ns > now.ns || entry->tasks > 0)
        return;
    simba__table_remove(&recall->entries, &entry->node);
    take_out(recall, entry);
    recall->locked -= entry->is_locked;
    simba__free(entry);
}

/* The entry of this mutex, as the newest. NULL: out of memory. */
static simba__sql_entry *use(simba__sql_recall *recall, const char *mutex, simba_local now)
{
    simba__sql_entry *entry = find(recall, mutex);
    if (entry) {
        take_out(recall, entry);
    } else {
        forget_oldest(recall, now);
        entry = simba__table_reserve(&recall->entries) ? simba__calloc(1, sizeof *entry) : NULL;
        if (!entry)
            return NULL;
        simba__table_add(&recall->entries, &entry->node, simba__hash(mutex));
    }
    put_first(recall, entry);
    return entry;
}

/* --- what is written into them ---------------------------------------------------------------------------- */

bool simba__sql_recall_begin(simba__sql_recall *recall, const char *mutex, unsigned lane, simba_local now)
{
    SIMBA__ASSERT(lane > 0);
    simba__sql_entry *entry = use(recall, mutex, now);
    if (!entry)
        return true; /* without memory they may have to wait for each other */
    if (entry->tasks > 0 && entry->lane != lane)
        return false;
    entry->lane = lane;
    entry->tasks++;
    return true;
}

void simba__sql_recall_finish(simba__sql_recall *recall, const char *mutex, unsigned lane)
{
    simba__sql_entry *entry = find(recall, mutex);
    if (!entry || entry->tasks == 0 || entry->lane != lane)
        return;
    entry->tasks--;
    entry->is_overtaken &= entry->tasks > 0;
}

void simba__sql_recall_overtake(simba__sql_recall *recall, const char *mutex)
{
    simba__sql_entry *entry = find(recall, mutex);
    if (entry)
        entry->is_overtaken = entry->tasks > 0;
}

bool simba__sql_recall_is_overtaken(const simba__sql_recall *recall, const char *mutex)
{
    const simba__sql_entry *entry = find(recall, mutex);
    return entry && entry->is_overtaken;
}

void simba__sql_recall_found_locked(simba__sql_recall *recall, const char *mutex, bool is_locked)
{
    if (!is_locked && recall->locked == 0)
        return;
    simba__sql_entry *entry = find(recall, mutex);
    if (!entry || entry->is_locked == is_locked)
        return;
    entry->is_locked = is_locked;
    recall->locked += is_locked ? 1 : (size_t)-1;
}

bool simba__sql_recall_is_locked(const simba__sql_recall *recall, const char *mutex)
{
    const simba__sql_entry *entry = recall->locked > 0 ? find(recall, mutex) : NULL;
    return entry && entry->is_locked;
}

void simba__sql_recall_saw(simba__sql_recall *recall, const char *mutex, uint64_t version, simba_local now)
{
    simba__sql_entry *entry = use(recall, mutex, now);
    if (entry && version > entry->version)
        entry->version = version;
}

void simba__sql_recall_answered(simba__sql_recall *recall, const simba_request *request, simba_local since)
{
    simba__sql_entry *entry = find(recall, request->mutex);
    if (!entry)
        return;
    const bool holds = request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW;
    if (holds && request->reply.outcome == SIMBA_MINE) {
        entry->nonce = request->nonce;
        entry->until.ns = since.ns + (request->ttl_ms + request->transition_ms) * SIMBA__NS_PER_MS;
    } else if (request->op == SIMBA_OP_FORCE_RELEASE || request->nonce == entry->nonce) {
        entry->until = (simba_local){0};
    }
}

void simba__sql_recall_releasing(simba__sql_recall *recall, const char *mutex, uint64_t nonce)
{
    simba__sql_entry *entry = find(recall, mutex);
    if (entry && entry->nonce == nonce)
        entry->until = (simba_local){0};
}
