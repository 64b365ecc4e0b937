/* The queue of waiters, as PostgreSQL's function keeps it (src/backends/postgresql/statements.c), and notifications. The queue
 * is not logged, so a crash empties it. */
#include <stdio.h>
#include <string.h>

#include "sim/sql_model.h"

enum { TOLD = 3 };

static int64_t queued_until(int64_t transition_at, int64_t now_ms)
{
    return now_ms + 75000 > transition_at + 30000 ? now_ms + 75000 : transition_at + 30000;
}

static void remove_at(sql_state *state, unsigned i)
{
    state->queue[i] = state->queue[--state->waiters];
}

static sql_waiter *find(sql_state *state, const char *mutex, uint64_t nonce)
{
    for (unsigned i = 0; i < state->waiters; i++)
        if (state->queue[i].nonce == nonce && strcmp(state->queue[i].mutex, mutex) == 0)
            return &state->queue[i];
    return NULL;
}

static bool comes_before(const sql_waiter *a, const sql_waiter *b)
{
    return a->since != b->since ? a->since < b->since : (int64_t)a->nonce <= (int64_t)b->nonce;
}

/* NULL: the queue is full. */
static const sql_waiter *put(sql_state *state, const simba__sql_row *row, uint64_t channel)
{
    const uint64_t nonce = row->item->ask.nonce;
    sql_waiter *own = find(state, row->mutex, nonce);
    if (!own && state->waiters == SQL_WAITERS)
        return NULL;
    if (!own) {
        own = &state->queue[state->waiters++];
        *own = (sql_waiter){.nonce = nonce, .since = row->now_ms};
        strcpy(own->mutex, row->mutex);
    }
    own->channel = channel;
    own->until = queued_until(row->row.owner.transition_at_ms, row->now_ms);
    own->invited = 0;
    return own;
}

/* Returns its place. */
static int64_t enter(sql_state *state, const simba__sql_row *row, uint64_t channel)
{
    int64_t place = 0;
    for (unsigned i = state->waiters; i-- > 0;)
        if (strcmp(state->queue[i].mutex, row->mutex) == 0 && state->queue[i].until < row->now_ms)
            remove_at(state, i);
    const sql_waiter *own = put(state, row, channel);
    for (unsigned i = 0; own && i < state->waiters; i++)
        place += strcmp(state->queue[i].mutex, row->mutex) == 0 && comes_before(&state->queue[i], own);
    return place;
}

/* True: it had been told, and did not come. */
static bool leave(sql_state *state, const simba__sql_row *row)
{
    sql_waiter *own = find(state, row->mutex, row->item->ask.nonce);
    const bool was_invited = own && own->invited > 0;
    if (own)
        remove_at(state, (unsigned)(own - state->queue));
    return was_invited;
}

void sql_notify(sim *s, uint64_t channel, const char *payload)
{
    sql_state *state = sql_state_of(s);
    sql_answer news = {0};
    strcpy(news.payload, payload);
    sim_tell(s, "notify %016llx: %s", (unsigned long long)channel, payload);
    for (unsigned i = 0; i < state->sessions && !state->is_pooled; i++) {
        const sql_session *session = &state->session[i];
        if (session->phase != SQL_FREE_SLOT && session->wire && session->channel == channel)
            wire_answer(s, session->wire, (const char *)&news, sizeof news);
    }
}

static bool is_told(const uint64_t told[TOLD], uint64_t channel)
{
    for (int i = 0; i < TOLD; i++)
        if (told[i] == channel)
            return true;
    return false;
}

/* The next in the queue, of a client that this release has not told yet; NULL: there is none. */
static sql_waiter *find_next(sql_state *state, const simba__sql_row *row, const uint64_t told[TOLD])
{
    sql_waiter *best = NULL;
    for (unsigned i = 0; i < state->waiters; i++) {
        sql_waiter *at = &state->queue[i];
        if (is_told(told, at->channel) || strcmp(at->mutex, row->mutex) != 0 || at->until < row->now_ms)
            continue;
        if (!best || at->invited < best->invited || (at->invited == best->invited && comes_before(at, best)))
            best = at;
    }
    return best;
}

static void tell(sim *s, const simba__sql_row *row)
{
    uint64_t told[TOLD] = {0};
    sql_waiter *at;
    for (int i = 0; i < TOLD && (at = find_next(sql_state_of(s), row, told)) != NULL; i++) {
        char payload[16];
        snprintf(payload, sizeof payload, "%d %s", i + 1, row->mutex);
        sql_notify(s, at->channel, payload);
        told[i] = at->channel;
        if (i == 0)
            at->invited = row->now_ms;
    }
}

void sql_queue_keep(sim *s, const char *mutex, uint64_t channel, int64_t transition_at, int64_t now_ms)
{
    sql_state *state = sql_state_of(s);
    for (unsigned i = 0; i < state->waiters; i++) {
        sql_waiter *at = &state->queue[i];
        const int64_t soon = now_ms + 37500 > transition_at ? now_ms + 37500 : transition_at;
        if (channel && at->channel == channel && strcmp(at->mutex, mutex) == 0 && at->until < soon)
            at->until = queued_until(transition_at, now_ms);
    }
}

void sql_queue_decided(sim *s, simba__sql_row *row, uint64_t channel)
{
    sql_state *state = sql_state_of(s);
    const simba__sql_item *item = row->item;
    const simba__row_now now = {row->now_ms * 1000000, row->now_ms * 1000};
    const bool queues = item->ask.op == SIMBA_OP_ACQUIRE && item->ask.queue && channel && !item->held_here;
    const bool is_done = row->deed == SIMBA__SQL_DONE, is_refused = row->deed == SIMBA__SQL_REFUSED;
    const bool releases = item->ask.op == SIMBA_OP_RELEASE;
    bool tells = is_done && (releases || item->ask.op == SIMBA_OP_FORCE_RELEASE);
    if (item->held_here)
        sql_queue_keep(s, row->mutex, channel, row->row.owner.transition_at_ms, row->now_ms);
    else if (queues && is_refused)
        row->place = enter(state, row, channel);
    else if ((queues && is_done) || (releases && is_refused))
        tells |= leave(state, row) && releases && simba__row_is_free(&row->row, now);
    if (tells)
        tell(s, row);
}
