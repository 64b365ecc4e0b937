/* Two worlds that differ in nothing but names and points in time are one. Nothing in the code under test depends on what a
 * nonce is but on which are equal, on tokens but on which is greater, on when it is but on how long ago something was. So all
 * clocks are set back to the same moment, and nonces, tokens, sessions and generations are numbered anew. */
#include <string.h>

#include "sim/explore_world.h"

enum { FAILURES_MAX = 8 }; /* pauses do not grow any more */

/* Old enough for any lease of it to be over. */
static int64_t oldest(const world *w)
{
    return WORLD_EPOCH_NS - (int64_t)(2 * (w->bounds->ttl + w->bounds->transition) + 2) * world_tick_ns(w);
}

static void set_back(int64_t *at, int64_t shift, int64_t floor)
{
    if (*at == INT64_MAX || *at == 0)
        return;
    *at -= shift;
    if (*at < floor)
        *at = floor;
}

/* --- names ------------------------------------------------------------------------------------------ */

typedef struct names {
    uint64_t *at[64];
    unsigned count;
} names;

static void add(names *n, uint64_t *name)
{
    if (*name)
        n->at[n->count++] = name;
}

/* In the order in which they come. */
static void rename_all(names *n)
{
    uint64_t next = 1;
    bool done[64] = {false};
    for (unsigned i = 0; i < n->count; i++) {
        const uint64_t old = *n->at[i];
        if (done[i])
            continue;
        for (unsigned k = i; k < n->count; k++)
            if (!done[k] && *n->at[k] == old) {
                *n->at[k] = next;
                done[k] = true;
            }
        next++;
    }
}

/* In the order of their size. */
static void rank_all(names *n)
{
    uint64_t ranks[64];
    for (unsigned i = 0; i < n->count; i++) {
        ranks[i] = 1;
        for (unsigned k = 0; k < n->count; k++) {
            bool is_first = *n->at[k] < *n->at[i];
            for (unsigned j = 0; j < k && is_first; j++)
                is_first = *n->at[j] != *n->at[k];
            ranks[i] += is_first;
        }
    }
    for (unsigned i = 0; i < n->count; i++)
        *n->at[i] = ranks[i];
}

static void name_anew(world *w)
{
    names nonces = {.count = 0}, tokens = {.count = 0};
    add(&nonces, &w->row.nonce);
    add(&tokens, &w->row.token);
    add(&tokens, &w->row.owner.token);
    add(&tokens, &w->row.revoked_token);
    add(&tokens, &w->zxid);
    add(&tokens, &w->token_granted);
    add(&tokens, &w->token_held);
    for (unsigned i = 0; i < w->children; i++) {
        add(&nonces, &w->child[i].nonce);
        add(&tokens, &w->child[i].token);
    }
    for (unsigned i = 0; i < w->bounds->contenders; i++) {
        contender *m = &w->contender[i];
        add(&nonces, &m->machine.nonce);
        add(&tokens, &m->machine.token);
        add(&tokens, &m->machine.owner.token);
        add(&tokens, &m->revoked_token);
        add(&tokens, &m->push_token);
        for (unsigned k = 0; k < WORLD_MESSAGES; k++) {
            add(&nonces, &m->message[k].nonce);
            add(&tokens, &m->message[k].token);
            add(&tokens, &m->message[k].owner_token);
        }
    }
    rename_all(&nonces);
    rank_all(&tokens);
}

/* --- contenders ----------------------------------------------------------------------------------------- */

/* A copy without its times, whose gaps are zeroes too. */
static void forget_owner_times(simba_owner *owner)
{
    simba_owner clean;
    memset(&clean, 0, sizeof clean);
    strcpy(clean.id, owner->id);
    clean.token = owner->token;
    memcpy(owner, &clean, sizeof clean);
}

static bool is_leased(const simba__contention *machine)
{
    return machine->phase == SIMBA__HOLD || machine->phase == SIMBA__TIDY;
}

static void normalise_machine(const world *w, simba__contention *m, int64_t shift)
{
    m->seed = 0;
    m->session_until =
        (simba_local){WORLD_EPOCH_NS}; /* each step begins by setting it; not 0, which would mean no lease */
    forget_owner_times(&m->owner);
    set_back(&m->wake.ns, shift, WORLD_EPOCH_NS);
    set_back(&m->lease_from.ns, shift, oldest(w));
    set_back(&m->sent_at.ns, shift, oldest(w));
    if (!is_leased(m))
        m->lease_from.ns = 0;
    if (!m->in_flight)
        m->sent_at.ns = 0;
    if (is_leased(m) && m->timing->hold_limit_ns)
        set_back(&m->held_since.ns, shift, WORLD_EPOCH_NS - m->timing->hold_limit_ns);
    else
        m->held_since.ns = 0;
    m->kicked_at.ns = 0; /* it matters only to a store that says when it asked */
    m->failures = m->failures > FAILURES_MAX ? FAILURES_MAX : m->failures;
    m->generation = 1;
    m->last_outcome = 0; /* only a locker reads it */
}

static void normalise_message(const contender *m, message *what)
{
    if (what->kind == NO_MESSAGE)
        return;
    what->generation = m->is_outstanding && what->generation == m->machine.generation;
    /* A reply that nobody waits for says nothing to anybody. */
    if (what->kind == REPLY && !what->generation)
        *what = (message){0};
    if (what->kind == REPLY)
        what->session = 0;
}

static void normalise_contender(const world *w, contender *m)
{
    const int64_t shift = m->now.ns - WORLD_EPOCH_NS;
    m->now.ns = WORLD_EPOCH_NS;
    set_back(&m->timer.ns, shift, WORLD_EPOCH_NS);
    set_back(&m->deadline.ns, shift, WORLD_EPOCH_NS);
    if (!m->is_outstanding)
        m->deadline = SIMBA__NEVER;
    set_back(&m->session_until.ns, shift, WORLD_EPOCH_NS);
    set_back(&m->beat_at.ns, shift, m->beat == NO_BEAT ? WORLD_EPOCH_NS : oldest(w));
    if (m->beat == NO_BEAT)
        m->beat_session = 0;
    for (unsigned i = 0; i < WORLD_MESSAGES; i++)
        normalise_message(m, &m->message[i]);
    if (m->message[0].kind == NO_MESSAGE) {
        m->message[0] = m->message[1];
        m->message[1] = (message){0};
    }
    memset(&m->pending.told, 0, sizeof m->pending.told);
    normalise_machine(w, &m->machine, shift);
    if (!is_leased(&m->machine) && m->revoked_token != m->machine.token && !m->is_outstanding)
        m->revoked_token = 0;
}

void world_normalise(world *w)
{
    const int64_t shift = w->store_ns - WORLD_EPOCH_NS;
    w->store_ns = WORLD_EPOCH_NS;
    w->row.version = 0;
    forget_owner_times(&w->row.owner);
    set_back(&w->row.until_ns, shift, WORLD_EPOCH_NS);
    /* A lease that has ended makes no difference; of the others only the end counts, and their times for people follow from
     * it. */
    if (w->row.owner.token) {
        w->row.owner.ttl_at_ms = w->row.owner.transition_at_ms = w->row.until_ns / 1000000;
    }
    for (unsigned i = 0; i < WORLD_SESSIONS; i++)
        set_back(&w->session[i].expires_at, shift, WORLD_EPOCH_NS);
    for (unsigned i = 0; i < w->bounds->contenders; i++)
        normalise_contender(w, &w->contender[i]);
    name_anew(w);
}

/* Not 0. */
static uint64_t hash_of(const void *bytes, size_t size)
{
    uint64_t hash = 0x9e3779b97f4a7c15;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const unsigned char *)bytes + i, size - i < sizeof word ? size - i : sizeof word);
        hash = (hash ^ word) * 0xff51afd7ed558ccd;
        hash ^= hash >> 32;
    }
    hash = (hash ^ (hash >> 29)) * 0xc4ceb9fe1a85ec53;
    return hash ? hash : 1;
}

/* Of its bytes: worlds are made by memset and by copying, and all structs are assigned contender by contender or as a whole from
 * others that were, so gaps between contenders are zeroes. */
uint64_t world_hash(const world *w)
{
    const size_t from = offsetof(world, losses), to = world_size(w) / sizeof(uint64_t) * sizeof(uint64_t);
    return hash_of((const unsigned char *)w + from, to - from);
}
