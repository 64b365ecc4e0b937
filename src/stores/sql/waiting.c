/* Who waits, and who is notified: PostgreSQL.
 *
 * A waiter is a row of `simba_mutex_waiters`, written in the transaction that refused its acquire, under the lock of the mutex's row.
 * The transaction of a release reads the waiters under the same lock, so no release misses one. It notifies one waiter of each of up to
 * three clients, by (invited, since, nonce): the first is invited ("1 NAME"), the others look a little later ("2 NAME", "3 NAME"). A
 * waiter that was invited and leaves while the mutex is free passes the invitation on. A note is told to all clients ("4 NAME").
 * A row lives until the lease that its waiter knows of has ended, and a while more: a waiter asks again then.
 *
 * A pooler may accept LISTEN and never deliver anything. So when the reader listens, the writer notifies the own channel ("0"). While
 * that is open the reader is asked nothing, since a pooler may bring the notification with an answer by chance. If it comes, the store
 * relies on notifications and hardly polls. If it does not, the store says so once, polls, and tests again after a minute, doubling to an
 * hour. Each connection that is opened anew is a reason to test again. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stores/sql/sql.h"
#include "util/clock.h"
#include "util/mem.h"
#include "util/saturate.h"

#define TEST_NS (2000 * SIMBA__NS_PER_MS)
#define FIRST_PAUSE_NS (50 * SIMBA__NS_PER_MS)
#define DEAF_NS (60000 * SIMBA__NS_PER_MS)
enum { DOUBLINGS = 6, INVITED_MAX = 3, LIVES_MS = 75000, LIVES_AFTER_LEASE_MS = 30000 };

/* --- waiters ---------------------------------------------------------------------------------------------- */

static bool may_wait(const simba__sql_store *store)
{
    return store->dialect->has_waiters && store->waiting.deaf_tests == 0;
}

bool simba__sql_waits(const simba__sql_store *store, const simba_request *request)
{
    if (!store->dialect->has_waiters || request->op == SIMBA_OP_RENEW)
        return false;
    return request->op != SIMBA_OP_ACQUIRE || (request->queue && may_wait(store));
}

/* One more. NULL: out of memory. */
static simba__sql_waiter *add_waiter(simba__sql_batch *batch)
{
    if (batch->waiter_count == batch->waiter_capacity) {
        const size_t capacity = batch->waiter_capacity ? 2 * batch->waiter_capacity : 16;
        simba__sql_waiter *waiters = simba__realloc(batch->waiters, capacity * sizeof *waiters);
        batch->lacks_memory |= !waiters;
        if (!waiters)
            return NULL;
        batch->waiters = waiters;
        batch->waiter_capacity = capacity;
    }
    simba__sql_waiter *waiter = &batch->waiters[batch->waiter_count++];
    *waiter = (simba__sql_waiter){0};
    return waiter;
}

/* Rows of holders, which older programs leave among the waiters, have this `since`. */
static bool is_of_holder(uint64_t since)
{
    return since == INT64_MAX;
}

void simba__sql_waiting_learn(simba__sql_batch *batch, const simba__sql_cell *cells, unsigned count)
{
    enum { MUTEX, NONCE, CHANNEL, SINCE, UNTIL, INVITED, COLUMNS };
    const simba__sql_row *row =
        count == COLUMNS && cells[MUTEX].text ? simba__sql_batch_find(batch, cells[MUTEX].text) : NULL;
    uint64_t nonce, since, until, invited;
    if (!row || row->presence != SIMBA__SQL_LOCKED || !simba__sql_number(&cells[NONCE], &nonce) ||
        !simba__sql_number(&cells[SINCE], &since) || !simba__sql_number(&cells[UNTIL], &until) ||
        !simba__sql_number(&cells[INVITED], &invited) || is_of_holder(since) || !cells[CHANNEL].text)
        return;
    simba__sql_waiter *waiter = add_waiter(batch);
    if (!waiter)
        return;
    waiter->row = (size_t)(row - batch->rows);
    waiter->nonce = nonce;
    waiter->since = (int64_t)since;
    waiter->until = (int64_t)until;
    waiter->invited = (int64_t)invited;
    snprintf(waiter->channel, sizeof waiter->channel, "%s", cells[CHANNEL].text);
}

static simba__sql_waiter *find_waiter(const simba__sql_batch *batch, size_t row, uint64_t nonce)
{
    for (size_t i = 0; i < batch->waiter_count; i++)
        if (batch->waiters[i].row == row && batch->waiters[i].nonce == nonce && !batch->waiters[i].is_gone)
            return &batch->waiters[i];
    return NULL;
}

static bool is_before(const simba__sql_waiter *one, const simba__sql_waiter *two, bool by_invited)
{
    if (by_invited && one->invited != two->invited)
        return one->invited < two->invited;
    if (one->since != two->since)
        return one->since < two->since;
    return (int64_t)one->nonce <= (int64_t)two->nonce;
}

/* The contender waits now, or still, and hears its place. Rows that are over go. */
static void enter(simba__sql_store *store, const simba__sql_row *row, simba_request *request)
{
    simba__sql_batch *batch = &store->batch;
    const size_t index = (size_t)(row - batch->rows);
    simba__sql_waiter *own = find_waiter(batch, index, request->nonce);
    if (!own && (own = add_waiter(batch))) {
        own->row = index;
        own->nonce = request->nonce;
        own->since = row->now_ms;
    }
    if (!own)
        return;
    strcpy(own->channel, store->waiting.channel);
    own->until = simba__max64(row->now_ms + LIVES_MS, row->row.owner.transition_at_ms + LIVES_AFTER_LEASE_MS);
    own->invited = 0;
    own->is_changed = true;
    request->reply.place = 0;
    for (size_t i = 0; i < batch->waiter_count; i++) {
        simba__sql_waiter *other = &batch->waiters[i];
        if (other->row != index)
            continue;
        other->is_gone |= other->until < row->now_ms;
        request->reply.place += !other->is_gone && is_before(other, own, false);
    }
}

void simba__sql_waiting_decided(simba__sql_store *store, simba__sql_row *row, simba_request *request)
{
    if (!simba__sql_waits(store, request))
        return;
    const bool is_mine = request->reply.outcome == SIMBA_MINE;
    const bool acquires = request->op == SIMBA_OP_ACQUIRE;
    if (acquires && !is_mine && row->presence == SIMBA__SQL_LOCKED)
        enter(store, row, request);
    if (!(acquires && is_mine) && !(request->op == SIMBA_OP_RELEASE && !is_mine))
        return;
    simba__sql_waiter *own = find_waiter(&store->batch, (size_t)(row - store->batch.rows), request->nonce);
    if (!own)
        return;
    own->is_gone = true;
    row->is_freed |= !acquires && own->invited > 0 && simba__sql_row_is_free(row);
}

/* --- notifications ------------------------------------------------------------------------------------------ */

static void notify(simba__sql_batch *batch, const char *channel, char kind, const char *mutex)
{
    if (batch->notice_count == batch->notice_capacity) {
        const size_t capacity = batch->notice_capacity ? 2 * batch->notice_capacity : 16;
        simba__sql_notice *notices = simba__realloc(batch->notices, capacity * sizeof *notices);
        batch->lacks_memory |= !notices;
        if (!notices)
            return;
        batch->notices = notices;
        batch->notice_capacity = capacity;
    }
    simba__sql_notice *notice = &batch->notices[batch->notice_count++];
    *notice = (simba__sql_notice){.kind = kind, .mutex = mutex};
    strcpy(notice->channel, channel);
}

static bool was_notified(const simba__sql_batch *batch, size_t first, const char *channel)
{
    for (size_t i = first; i < batch->notice_count; i++)
        if (strcmp(batch->notices[i].channel, channel) == 0)
            return true;
    return false;
}

/* One of each client: should the first client be dead, all of its waiters are. If the one who was invited is dead, the next release
 * begins with another. */
static void invite(simba__sql_batch *batch, size_t index)
{
    const simba__sql_row *row = &batch->rows[index];
    const size_t first = batch->notice_count;
    for (int n = 0; n < INVITED_MAX; n++) {
        simba__sql_waiter *next = NULL;
        for (size_t i = 0; i < batch->waiter_count; i++) {
            simba__sql_waiter *waiter = &batch->waiters[i];
            if (waiter->row == index && !waiter->is_gone && waiter->until >= row->now_ms &&
                !was_notified(batch, first, waiter->channel) && (!next || is_before(waiter, next, true)))
                next = waiter;
        }
        if (!next)
            return;
        notify(batch, next->channel, (char)('1' + n), row->mutex);
        if (n == 0) {
            next->invited = row->now_ms;
            next->is_changed = true;
        }
    }
}

void simba__sql_waiting_settle(simba__sql_store *store, const simba__sql_row *row)
{
    simba__sql_batch *batch = &store->batch;
    const size_t index = (size_t)(row - batch->rows);
    if (!store->dialect->has_waiters)
        return;
    if (row->is_freed && simba__sql_row_is_free(row))
        invite(batch, index);
    const size_t first = batch->notice_count;
    for (size_t i = 0; i < batch->waiter_count && row->is_noted; i++) {
        const simba__sql_waiter *waiter = &batch->waiters[i];
        if (waiter->row == index && !waiter->is_gone && waiter->until >= row->now_ms &&
            strcmp(waiter->channel, store->waiting.channel) != 0 && !was_notified(batch, first, waiter->channel))
            notify(batch, waiter->channel, '4', row->mutex);
    }
}

/* --- can it hear? --------------------------------------------------------------------------------------------- */

static simba_local now_of(const simba__sql_store *store)
{
    return store->host->now(store->host);
}

static void set_hearing(simba__sql_store *store, simba__sql_hearing hearing)
{
    const simba__sql_pace pace = hearing == SIMBA__SQL_HEARS ? SIMBA__SQL_RARELY : SIMBA__SQL_OFTEN;
    store->waiting.hearing = hearing;
    store->host->timer_clear(store->host, &store->waiting.timer);
    if (pace != store->polling.pace)
        simba__sql_polling_set_pace(&store->polling, pace, now_of(store));
    if (store->life == SIMBA__SQL_OPEN)
        store->host->wake(store->host);
}

static void set_timer(simba__sql_store *store, int64_t after_ns)
{
    store->host->timer_set(store->host, &store->waiting.timer, (simba_local){now_of(store).ns + after_ns});
}

static int64_t doubled(int64_t ns, unsigned times)
{
    return ns << (times < DOUBLINGS ? times : DOUBLINGS);
}

static void become_deaf(simba__sql_store *store)
{
    simba__sql_waiting *waiting = &store->waiting;
    if (waiting->deaf_tests == 0)
        store->host->log(
            store->host, SIMBA_LOG_WARN,
            "%s %s: notifications do not arrive, probably because a pooler in transaction mode is in between; "
            "waiters poll instead",
            store->place.store, store->place.where);
    waiting->must_enter = true; /* contenders that are refused meanwhile do not enter the queue */
    set_hearing(store, SIMBA__SQL_DEAF);
    set_timer(store, doubled(DEAF_NS, waiting->deaf_tests++));
}

/* The test did not come; or it is time for the next one. A connection that has heard before, or whose server the writer may have
 * left, is opened anew. */
static void on_timer(simba_timer *timer, simba_local now)
{
    simba__sql_waiting *waiting = SIMBA__OF_NODE(timer, simba__sql_waiting, timer);
    simba__sql_store *store = SIMBA__OF_NODE(waiting, simba__sql_store, waiting);
    (void)now;
    if (waiting->hearing == SIMBA__SQL_DEAF) {
        set_hearing(store, SIMBA__SQL_OFF);
    } else if (waiting->has_heard || waiting->may_be_elsewhere) {
        simba__sql_connection_drop(&store->reader); /* if it still has an older read */
        simba__sql_connection_close(&store->reader);
        simba__sql_waiting_lost(store, &store->reader);
    } else {
        become_deaf(store);
    }
}

int simba__sql_waiting_init(simba__sql_store *store)
{
    simba__sql_waiting *waiting = &store->waiting;
    snprintf(waiting->channel, sizeof waiting->channel, "simba_%016" PRIx64, store->host->random(store->host));
    waiting->timer.fire = on_timer;
    return store->host->timer_add(store->host, &waiting->timer);
}

bool simba__sql_waiting_wants_reader(const simba__sql_store *store)
{
    const simba__sql_waiting *waiting = &store->waiting;
    return store->dialect->has_waiters && waiting->hearing == SIMBA__SQL_OFF && store->polling.mutexes.count > 0 &&
           !store->reads_by && now_of(store).ns >= waiting->not_before.ns;
}

bool simba__sql_waiting_wants_writer(const simba__sql_store *store)
{
    return store->waiting.hearing == SIMBA__SQL_LISTENS;
}

bool simba__sql_waiting_needs_quiet(const simba__sql_store *store)
{
    return store->waiting.hearing == SIMBA__SQL_LISTENS || store->waiting.hearing == SIMBA__SQL_TESTS;
}

static void listening(simba__sql_connection *connection, const simba__sql_failure *why)
{
    simba__sql_store *store = connection->store;
    if (why) {
        simba__sql_waiting_lost(store, connection);
        return;
    }
    store->waiting.has_heard = store->waiting.may_be_elsewhere = false;
    set_hearing(store, SIMBA__SQL_LISTENS);
}

void simba__sql_waiting_listen(simba__sql_store *store)
{
    store->waiting.ask = (simba__sql_ask){.kind = SIMBA__SQL_LISTEN, .text = store->waiting.channel};
    simba__sql_connection_ask(&store->reader, &store->waiting.ask, 0, NULL, listening);
}

/* The notification goes out when the transaction is committed, for which a busy server, or its standby, may take long. If that has failed,
 * it does not come. */
static void tested(simba__sql_connection *connection, const simba__sql_failure *why)
{
    (void)why;
    if (connection->store->waiting.hearing == SIMBA__SQL_TESTS)
        set_timer(connection->store, TEST_NS);
}

void simba__sql_waiting_test(simba__sql_store *store)
{
    set_hearing(store, SIMBA__SQL_TESTS);
    store->waiting.test = (simba__sql_ask){.kind = SIMBA__SQL_NOTIFY, .text = store->waiting.channel};
    simba__sql_connection_ask(&store->writer, &store->waiting.test, 0, NULL, tested);
}

void simba__sql_waiting_opened(simba__sql_store *store, const simba__sql_connection *connection)
{
    simba__sql_waiting *waiting = &store->waiting;
    if (connection != &store->writer || waiting->hearing == SIMBA__SQL_OFF || waiting->hearing == SIMBA__SQL_DEAF)
        return;
    waiting->may_be_elsewhere = true;
    set_hearing(store, SIMBA__SQL_LISTENS);
}

/* The server may have lost its queue. */
void simba__sql_waiting_lost(simba__sql_store *store, const simba__sql_connection *connection)
{
    simba__sql_waiting *waiting = &store->waiting;
    waiting->must_enter = true;
    if (connection != &store->reader || waiting->hearing == SIMBA__SQL_DEAF || !store->dialect->has_waiters)
        return;
    waiting->not_before.ns = now_of(store).ns + doubled(FIRST_PAUSE_NS, waiting->failures++);
    set_hearing(store, SIMBA__SQL_OFF);
}

/* --- what it hears --------------------------------------------------------------------------------------------- */

static void pass_test(simba__sql_store *store)
{
    const simba_push back = {.kind = SIMBA_PUSH_SESSION_BACK};
    simba__sql_waiting *waiting = &store->waiting;
    const bool must_enter = waiting->must_enter;
    waiting->failures = waiting->deaf_tests = 0;
    waiting->has_heard = true;
    waiting->must_enter = false;
    set_hearing(store, SIMBA__SQL_HEARS);
    if (must_enter)
        store->host->push(store->host, NULL, &back);
}

void simba__sql_waiting_heard(simba__sql_store *store, const char *payload)
{
    const simba__sql_hearing hearing = store->waiting.hearing;
    const char kind = payload[0];
    simba__sql_polled *polled =
        kind != '\0' && payload[1] == ' ' ? simba__sql_polling_find(&store->polling, payload + 2) : NULL;
    if (strcmp(payload, "0") == 0) {
        if (hearing == SIMBA__SQL_TESTS)
            pass_test(store);
    } else if (polled && kind == '1') {
        store->host->push(store->host, polled->watch, &(simba_push){.kind = SIMBA_PUSH_RELEASED});
    } else if (polled && (kind == '2' || kind == '3')) {
        simba__sql_polled_hasten(&store->polling, polled, (unsigned)(kind - '1'), now_of(store));
        store->host->wake(store->host);
    } else if (polled && kind == '4') {
        store->host->push(store->host, polled->watch, &(simba_push){.kind = SIMBA_PUSH_NOTED});
    }
}
