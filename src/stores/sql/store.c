/* The contract of simba/backend.h: queues of requests, their deadlines, and which connection they go to. See sql.h. */
#include <string.h>

#include "stores/sql/sql.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/mem.h"
#include "util/saturate.h"

/* How long a request stands aside whose row is locked: as long as it has waited by now. simba's own statements have a row locked for
 * a millisecond, other people's perhaps for minutes. At first holders come sooner than acquires. */
#define ASIDE_FIRST_NS SIMBA__NS_PER_MS
#define ASIDE_HOLDER_NS (4 * SIMBA__NS_PER_MS)
#define ASIDE_LONGEST_NS (64 * SIMBA__NS_PER_MS)
#define ASIDE_HOLDER_HURRIES_NS (250 * SIMBA__NS_PER_MS)
/* If nothing has come for so long when a renewal expires, the connection is taken for dead. */
#define SILENT_NS (100 * SIMBA__NS_PER_MS)

/* --- lists ------------------------------------------------------------------------------------------------ */

static void list_init(simba__sql_list *list)
{
    *list = (simba__sql_list){.end = &list->first};
}

void simba__sql_list_append(simba__sql_list *list, simba_request *request)
{
    request->backend_data = NULL;
    request->next = NULL;
    *list->end = request;
    list->end = &request->next;
}

simba_request *simba__sql_list_take(simba__sql_list *list)
{
    simba_request *first = list->first;
    list_init(list);
    return first;
}

/* False: it is not in this list. */
static bool remove_from(simba__sql_list *list, const simba_request *request)
{
    simba_request **link = &list->first;
    while (*link && *link != request)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = request->next;
    if (!*link)
        list->end = link;
    return true;
}

static void fail_list(simba__sql_store *store, simba__sql_list *list, const simba__sql_failure *why)
{
    for (simba_request *r = simba__sql_list_take(list), *next; r; r = next) {
        next = r->next;
        simba__sql_tell(store, r, why);
    }
}

/* --- what becomes of requests ------------------------------------------------------------------------------- */

static simba__sql_list *queue_of(simba__sql_store *store, const simba_request *request)
{
    switch (request->op) {
    case SIMBA_OP_RENEW:
        return &store->renewals;
    case SIMBA_OP_ACQUIRE:
    case SIMBA_OP_RELEASE:
    case SIMBA_OP_FORCE_RELEASE:
    case SIMBA_OP_WRITE_NOTE:
    case SIMBA_OP_FORGET:
        return &store->writes;
    case SIMBA_OP_PREPARE:
        return &store->prepares;
    default:
        return &store->reads;
    }
}

void simba__sql_submit(void *instance, simba_request *request)
{
    simba__sql_store *store = instance;
    request->reply = (simba_reply){0};
    simba__sql_list_append(queue_of(store, request), request);
    if (request->op == SIMBA_OP_RELEASE)
        simba__sql_grants_releasing(&store->grants, request->mutex, request->nonce);
}

void simba__sql_tell(simba__sql_store *store, simba_request *request, const simba__sql_failure *why)
{
    store->host->fail(store->host, request, why->error.code, "%s", why->error.text);
}

static simba__sql_failure closing(const simba__sql_store *store)
{
    simba__sql_failure why;
    (void)simba__sql_fail(&why, SIMBA__SQL_TELL, SIMBA_ECANCELED, "%s: the client closes", store->place.store);
    return why;
}

void simba__sql_repeat(simba__sql_store *store, simba_request *request)
{
    const simba__sql_failure why = closing(store);
    if (store->life == SIMBA__SQL_OPEN)
        simba__sql_list_append(queue_of(store, request), request);
    else
        simba__sql_tell(store, request, &why);
}

void simba__sql_stand_aside(simba__sql_store *store, simba_request *request)
{
    const simba_local now = store->host->now(store->host);
    int64_t *since_ns = &request->reply.now_ms;
    const simba__sql_failure why = closing(store);
    if (store->life != SIMBA__SQL_OPEN) {
        simba__sql_tell(store, request, &why);
        return;
    }
    if (*since_ns == 0)
        *since_ns = now.ns;
    const int64_t waited_ns = now.ns - *since_ns;
    const bool hurries = request->op != SIMBA_OP_ACQUIRE && waited_ns < ASIDE_HOLDER_HURRIES_NS;
    const int64_t most_ns = hurries ? ASIDE_HOLDER_NS : ASIDE_LONGEST_NS;
    const int64_t pause_ns = simba__min64(simba__max64(waited_ns, ASIDE_FIRST_NS), most_ns);
    request->reply.place = now.ns + pause_ns;
    if (!store->aside.first || request->reply.place < store->again.at.ns)
        store->host->timer_set(store->host, &store->again, (simba_local){request->reply.place});
    simba__sql_list_append(&store->aside, request);
}

/* Take up those whose pause is over. */
static void on_again(simba_timer *timer, simba_local now)
{
    simba__sql_store *store = SIMBA__OF_NODE(timer, simba__sql_store, again);
    int64_t next_ns = INT64_MAX;
    for (simba_request *r = simba__sql_list_take(&store->aside), *next; r; r = next) {
        next = r->next;
        const bool is_due = r->reply.place <= now.ns;
        simba__sql_list_append(is_due ? queue_of(store, r) : &store->aside, r);
        next_ns = is_due ? next_ns : simba__min64(next_ns, r->reply.place);
    }
    if (next_ns != INT64_MAX)
        store->host->timer_set(store->host, &store->again, (simba_local){next_ns});
    simba__sql_go_on(store);
}

/* --- deadlines ----------------------------------------------------------------------------------------------- */

static void drop_if_silent(simba__sql_connection *connection, simba_local now)
{
    if (connection->state == SIMBA__SQL_ASKED && now.ns - connection->asked_at.ns >= SILENT_NS)
        simba__sql_connection_drop(connection);
}

/* The connection may have died. The next try of a renewal goes by another one. */
void simba__sql_expire(void *instance, simba_request *request)
{
    simba__sql_store *store = instance;
    const simba_local now = store->host->now(store->host);
    const bool is_renewal = request->op == SIMBA_OP_RENEW;
    simba__sql_item *item = request->backend_data;
    if (item) {
        item->is_expired = true;
        simba__sql_connection_expired(&store->writer);
    } else if (remove_from(&store->asked, request)) {
        simba__sql_list_append(&store->expired, request);
        simba__sql_connection_expired(store->reads_by);
    } else if (request == store->preparing) {
        simba__sql_connection_expired(&store->writer);
    } else {
        const bool waited = remove_from(queue_of(store, request), request) || remove_from(&store->aside, request);
        SIMBA__ASSERT(waited);
        store->host->fail(store->host, request, SIMBA_ETIMEDOUT, "%s %s: no answer in time", store->place.store,
                          store->place.where);
    }
    if (is_renewal)
        drop_if_silent(&store->writer, now);
}

static void on_timeout(simba_timer *timer, simba_local now)
{
    simba__sql_store *store = SIMBA__OF_NODE(timer, simba__sql_store, timeout);
    simba__sql_connection *const connections[] = {&store->writer, &store->reader};
    int64_t next_ns = INT64_MAX;
    for (size_t i = 0; i < 2; i++) {
        simba__sql_connection *connection = connections[i];
        const bool is_busy = connection->state == SIMBA__SQL_ASKED || connection->state == SIMBA__SQL_LOOKING;
        if (!is_busy || connection->wanted > 0)
            continue;
        if (connection->overdue.ns <= now.ns)
            simba__sql_connection_drop(connection);
        else
            next_ns = simba__min64(next_ns, connection->overdue.ns);
    }
    if (next_ns != INT64_MAX)
        simba__sql_arm_timeout(store, (simba_local){next_ns});
}

/* The timer is never put off, only brought forward: when it fires, the store finds what is left to do. */
void simba__sql_arm_timeout(simba__sql_store *store, simba_local at)
{
    if (store->timeout.index == 0 || at.ns < store->timeout.at.ns)
        store->host->timer_set(store->host, &store->timeout, at);
}

/* --- connections ------------------------------------------------------------------------------------------------- */

void simba__sql_fail_writes(simba__sql_store *store, const simba__sql_failure *why)
{
    fail_list(store, &store->renewals, why);
    fail_list(store, &store->writes, why);
    fail_list(store, &store->prepares, why);
}

/* The table cannot be used: the next request looks anew. */
static bool is_unusable(simba__sql_connection *connection, simba__sql_failure *ret_why)
{
    if (connection->unusable.error.code == 0)
        return false;
    *ret_why = connection->unusable;
    simba__sql_connection_close(connection);
    return true;
}

static void prepared(simba__sql_connection *connection, const simba__sql_failure *why)
{
    simba__sql_store *store = connection->store;
    simba_request *request = store->preparing;
    store->preparing = NULL;
    simba__sql_connection_close(connection); /* the next connection has the rights of this user as they are by then */
    if (request && why)
        simba__sql_tell(store, request, why);
    else if (request)
        store->host->complete(store->host, request);
}

static void prepare(simba__sql_store *store)
{
    simba_request *request = store->prepares.first;
    (void)remove_from(&store->prepares, request);
    store->preparing = request;
    simba__sql_connection_look(&store->writer, SIMBA__SQL_TO_PREPARE, 1, prepared);
}

static void use_writer(simba__sql_store *store)
{
    simba__sql_connection *writer = &store->writer;
    simba__sql_failure why;
    const bool has_writes = store->renewals.first || store->writes.first;
    const bool is_asked = has_writes || store->prepares.first;
    const bool is_wanted = is_asked || simba__sql_waiting_wants_writer(store);
    if (writer->state == SIMBA__SQL_SHUT && is_wanted && !simba__sql_connection_open(writer, is_asked))
        simba__sql_fail_writes(store, &writer->why);
    if (writer->state != SIMBA__SQL_READY)
        return;
    if (store->prepares.first) {
        prepare(store);
    } else if (has_writes && is_unusable(writer, &why)) {
        fail_list(store, &store->renewals, &why);
        fail_list(store, &store->writes, &why);
    } else if (has_writes) {
        simba__sql_batch_begin(store);
    } else if (simba__sql_waiting_wants_writer(store)) {
        simba__sql_waiting_test(store);
    } else if (simba__sql_waiting_needs_quiet(store) && !store->reads_by) {
        (void)simba__sql_reads_begin(store, writer); /* the reader must be left alone */
    }
}

static void use_reader(simba__sql_store *store, simba_local now)
{
    simba__sql_connection *reader = &store->reader;
    const bool has_reads = simba__sql_reads_wait(store, now);
    const bool listens = simba__sql_waiting_wants_reader(store);
    if (reader->state == SIMBA__SQL_SHUT && (has_reads || listens) && !simba__sql_connection_open(reader, has_reads))
        simba__sql_reads_fail(store, &reader->why);
    if (reader->state != SIMBA__SQL_READY)
        return;
    if (listens)
        simba__sql_waiting_listen(store);
    else if (has_reads && !simba__sql_waiting_needs_quiet(store) && !store->reads_by)
        (void)simba__sql_reads_begin(store, reader);
}

static void arm_poll(simba__sql_store *store, simba_local now)
{
    const simba_local due = simba__sql_polling_due(&store->polling);
    if (store->polled.first || due.ns == INT64_MAX)
        return;
    /* Due, and not begun: there is no connection for it, or no memory. */
    const int64_t soonest_ns = now.ns + 5 * SIMBA__NS_PER_MS;
    store->host->timer_set(store->host, &store->poll, (simba_local){simba__max64(due.ns, soonest_ns)});
}

void simba__sql_go_on(simba__sql_store *store)
{
    if (store->life != SIMBA__SQL_OPEN)
        return;
    const simba_local now = store->host->now(store->host);
    use_writer(store);
    use_reader(store, now);
    if (store->polling.mutexes.count > 0)
        arm_poll(store, now);
}

static void close_if_over(simba__sql_store *store)
{
    if (store->life != SIMBA__SQL_CLOSING || store->writer.state != SIMBA__SQL_SHUT ||
        store->reader.state != SIMBA__SQL_SHUT)
        return;
    store->life = SIMBA__SQL_CLOSED;
    store->host->closed(store->host);
}

/* The requests that the answers lead to are handed over first, so that they share a batch: hence `wake`. */
void simba__sql_settled(simba__sql_connection *connection)
{
    simba__sql_store *store = connection->store;
    if (store->life != SIMBA__SQL_OPEN) {
        close_if_over(store);
        return;
    }
    if (connection->state == SIMBA__SQL_SHUT && connection->failures > 0) {
        if (connection == &store->writer)
            simba__sql_fail_writes(store, &connection->why);
        else
            simba__sql_reads_fail(store, &connection->why);
    }
    const bool is_idle = !store->renewals.first && !store->writes.first && !store->prepares.first &&
                         !store->reads.first && store->polling.mutexes.count == 0;
    if (!is_idle)
        store->host->wake(store->host);
}

/* --- the table ------------------------------------------------------------------------------------------------ */

void simba__sql_flush(void *instance)
{
    simba__sql_go_on(instance);
}

static void on_poll(simba_timer *timer, simba_local now)
{
    (void)now;
    simba__sql_go_on(SIMBA__OF_NODE(timer, simba__sql_store, poll));
}

int simba__sql_watch(void *instance, simba_watch *watch)
{
    simba__sql_store *store = instance;
    simba__sql_polled *polled = simba__sql_polling_add(&store->polling, watch, store->host->now(store->host));
    if (!polled)
        return SIMBA_ENOMEM;
    watch->backend_data = polled;
    store->host->wake(store->host);
    return 0;
}

void simba__sql_unwatch(void *instance, simba_watch *watch)
{
    simba__sql_store *store = instance;
    simba__sql_polling_remove(&store->polling, watch->backend_data);
    watch->backend_data = NULL;
}

static void connection_init(simba__sql_connection *connection, simba__sql_store *store, void *conn)
{
    connection->store = store;
    connection->conn = conn;
}

int simba__sql_init(simba__sql_store *store, simba_host *host, const simba__sql_dialect *dialect,
                    simba__sql_place place, void *writer, void *reader, simba_error *err)
{
    simba__sql_list *const lists[] = {&store->renewals, &store->writes, &store->reads,  &store->prepares,
                                      &store->aside,    &store->asked,  &store->expired};
    store->host = host;
    store->dialect = dialect;
    store->place = place;
    store->again.fire = on_again;
    store->poll.fire = on_poll;
    store->timeout.fire = on_timeout;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        list_init(lists[i]);
    connection_init(&store->writer, store, writer);
    connection_init(&store->reader, store, reader);
    simba__sql_polling_init(&store->polling, host->random(host));
    if (host->timer_add(host, &store->again) < 0 || host->timer_add(host, &store->poll) < 0 ||
        host->timer_add(host, &store->timeout) < 0 || simba__sql_waiting_init(store) < 0)
        return simba__fail(err, SIMBA_ENOMEM, "%s: out of memory", place.store);
    return 0;
}

void simba__sql_close(void *instance)
{
    simba__sql_store *store = instance;
    const simba__sql_failure why = closing(store);
    simba_timer *const timers[] = {&store->again, &store->poll, &store->timeout, &store->waiting.timer};
    store->life = SIMBA__SQL_CLOSING;
    for (size_t i = 0; i < sizeof timers / sizeof *timers; i++)
        store->host->timer_clear(store->host, timers[i]);
    simba__sql_fail_writes(store, &why);
    fail_list(store, &store->aside, &why);
    fail_list(store, &store->asked, &why);
    fail_list(store, &store->expired, &why);
    simba__sql_reads_fail(store, &why);
    if (store->preparing)
        simba__sql_tell(store, store->preparing, &why);
    simba__sql_batch_end(store, &why);
    simba__sql_connection_close(&store->writer);
    simba__sql_connection_close(&store->reader);
    close_if_over(store);
}

void simba__sql_fini(simba__sql_store *store)
{
    simba__sql_batch_fini(&store->batch);
    simba__sql_polling_fini(&store->polling);
    simba__sql_grants_fini(&store->grants);
    simba__free(store->names);
}
