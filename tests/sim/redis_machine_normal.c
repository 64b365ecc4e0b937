/* See redis_machine.h. Of tokens and incarnations it matters which is the greater one, and nothing else. */
#include <stdlib.h>
#include <string.h>

#include "sim/redis_machine.h"
#include "util/clock.h"

/* --- listeners, as plain data --------------------------------------------------------------------------------- */

static simba_local later(simba_local now, int16_t ms)
{
    return (simba_local){now.ns + ms * SIMBA__NS_PER_MS};
}

static int16_t ms_until(simba_local at, simba_local now)
{
    return (int16_t)((at.ns - now.ns) / SIMBA__NS_PER_MS);
}

void redis_machine_wake(const kept_listener *from, unsigned who, simba_local now, redis_listener *to)
{
    *to = (redis_listener){.hearing = (redis_hearing)from->hearing,
                           .unconfirmed = from->unconfirmed,
                           .queued = from->is_queued,
                           .idle_until = later(now, from->idle_ms)};
    if (from->waits && !simba__redis_listener_join(to, redis_machine_nonce(who, from->incarnation)))
        abort();
    if (from->will_look)
        to->look_at = later(now, from->look_ms);
}

void redis_machine_lay_down(redis_listener *from, simba_local now, kept_listener *to)
{
    memset(to, 0, sizeof *to);
    to->exists = true;
    to->hearing = (uint8_t)from->hearing;
    to->unconfirmed = (uint8_t)from->unconfirmed;
    to->is_queued = from->queued;
    to->will_look = from->look_at.ns != 0;
    to->look_ms = to->will_look ? ms_until(from->look_at, now) : 0;
    to->waits = from->waiters != NULL;
    to->idle_ms = to->waits ? 0 : ms_until(from->idle_until, now);
    if (to->waits && from->waiters->next)
        abort();
    to->incarnation = to->waits ? (int8_t)(from->waiters->nonce % 1000) : 0;
    simba__redis_listener_fini(from);
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

enum { NUMBERS = CLIENTS * CALLS + 2 * CONTENDERS + 16 };

typedef struct numbers {
    int16_t *tokens[NUMBERS];
    int8_t *incarnations[CONTENDERS][NUMBERS];
    unsigned token_count, incarnation_count[CONTENDERS];
} numbers;

static void add_token(numbers *n, int16_t *token)
{
    if (*token)
        n->tokens[n->token_count++] = token;
}

static void add_incarnation(numbers *n, unsigned who, int8_t *incarnation)
{
    n->incarnations[who][n->incarnation_count[who]++] = incarnation;
}

static void add_call(numbers *n, call *what)
{
    add_token(n, &what->token);
    add_incarnation(n, what->who, &what->incarnation);
}

static int compare_tokens(const void *a, const void *b)
{
    return **(int16_t *const *)a - **(int16_t *const *)b;
}

static int compare_incarnations(const void *a, const void *b)
{
    return **(int8_t *const *)a - **(int8_t *const *)b;
}

static void close_gaps(numbers *n)
{
    qsort(n->tokens, n->token_count, sizeof *n->tokens, compare_tokens);
    for (int i = 0, old = 0, new = 0; i < (int)n->token_count; i++) {
        new += *n->tokens[i] != old;
        old = *n->tokens[i];
        *n->tokens[i] = (int16_t) new;
    }
    for (unsigned who = 0; who < CONTENDERS; who++) {
        qsort(n->incarnations[who], n->incarnation_count[who], sizeof *n->incarnations[who], compare_incarnations);
        int8_t old = -1;
        int new = -1;
        for (unsigned i = 0; i < n->incarnation_count[who]; i++) {
            int8_t *incarnation = n->incarnations[who][i];
            new += *incarnation != old;
            old = *incarnation;
            *incarnation = (int8_t) new;
        }
    }
}

/* --- what does not matter any more ------------------------------------------------------------------------------- */

static int16_t not_before(int16_t ms, int16_t least)
{
    return ms < least ? least : ms;
}

static void normalise_store(stored *store)
{
    store->has_lock &= store->lock_ends_ms >= 0;
    if (store->has_lock)
        return;
    store->owner = store->id = 0; /* the grant counts together with a lock only */
    store->lock_ends_ms = 0;
    store->incarnation = -1;
}

static void normalise_contender(contender *k)
{
    if (k->phase != PHASE_HOLDS && k->phase != PHASE_LEAVES)
        k->token = 0;
    k->wake_ms = k->phase == PHASE_SEEKS && !k->is_asking ? not_before(k->wake_ms, 0) : 0;
    k->until_ms = k->phase == PHASE_HOLDS ? not_before(k->until_ms, 0) : 0;
    if (k->phase != PHASE_SEEKS)
        k->is_kicked = false;
    if (k->phase == PHASE_OUT)
        k->is_leaving = false;
}

static void normalise_call(call *what)
{
    what->asked_ms = what->kind == CALL_ACQUIRE ? not_before(what->asked_ms, -HELD_MS) : 0;
    what->ends_ms = not_before(what->ends_ms, -1);
}

void redis_machine_normalise(void *of)
{
    static _Thread_local numbers n;
    world *w = of;
    n.token_count = 0;
    memset(n.incarnation_count, 0, sizeof n.incarnation_count);
    normalise_store(&w->store);
    add_token(&n, &w->token);
    add_token(&n, &w->store.token);
    if (w->store.incarnation >= 0)
        add_incarnation(&n, w->store.id, &w->store.incarnation);
    if (w->has_late) {
        normalise_call(&w->late);
        add_call(&n, &w->late);
    }
    for (unsigned i = 0; i < redis_machine_contenders(w); i++) {
        contender *k = &w->contender[i];
        normalise_contender(k);
        add_token(&n, &k->token);
        add_incarnation(&n, i, &k->incarnation);
        if (k->listener.waits)
            add_incarnation(&n, i, &k->listener.incarnation);
        k->listener.look_ms = not_before(k->listener.look_ms, 0);
        k->listener.idle_ms = not_before(k->listener.idle_ms, 0);
    }
    for (unsigned i = 0; i < redis_machine_clients(w); i++) {
        client *c = &w->client[i];
        for (unsigned k = 0; k < c->calls; k++) {
            normalise_call(&c->call[k]);
            add_call(&n, &c->call[k]);
        }
    }
    close_gaps(&n);
}
