/* See store.h. */
#include "backends/sql/store.h"

#include <string.h>

#include "util/assert.h"
#include "util/clock.h"

#define POLL_PATIENCE_NS (4000 * SIMBA__NS_PER_MS)

/* How many rows that a LIST leaves out are named. */
enum { FLAWS_TOLD = 10 };

#define BUSY_FIRST_NS SIMBA__NS_PER_MS
#define BUSY_LONGEST_NS (64 * SIMBA__NS_PER_MS)

static void fail_one(simba__sql_store *self, simba_request *request, int code, const char *text)
{
    self->host->fail(self->host, request, code, "%s: %s", self->place.store, text);
}

static void list_init(simba__sql_list *list)
{
    *list = (simba__sql_list){.end = &list->first};
}

static void append(simba__sql_list *list, simba_request *request)
{
    request->backend_data = NULL;
    request->next = NULL;
    *list->end = request;
    list->end = &request->next;
}

/* The first of them, linked through `next`. */
static simba_request *take_all(simba__sql_list *list)
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

static void fail_all(simba__sql_store *self, simba__sql_list *list, int code, const char *text)
{
    for (simba_request *r = take_all(list), *next; r; r = next) {
        next = r->next;
        fail_one(self, r, code, text);
    }
}

static unsigned number_of(const simba__sql_lane *lane)
{
    return (unsigned)(lane - lane->self->lanes) + 1;
}

/* --- patience -------------------------------------------------------------------------------------------- */

static void forget_poll(simba__sql_item *item)
{
    item->polled->poll = NULL;
    item->polled = NULL;
}

/* When to look at this lane again; INT64_MAX: not before a request of it expires, or its batch ends. */
static int64_t look_at_lane(simba__sql_lane *lane, simba_local now)
{
    int64_t next_ns = INT64_MAX;
    bool has_requests = false;
    for (size_t i = 0; i < lane->batch.count; i++) {
        simba__sql_item *item = &lane->batch.items[i];
        has_requests |= item->request && !item->is_expired && !lane->gives_way;
        if (!item->polled)
            continue;
        if (item->ask.deadline.ns > now.ns && !lane->gives_way) {
            next_ns = item->ask.deadline.ns; /* all polls of a batch have the same */
            continue;
        }
        forget_poll(item);
    }
    return has_requests || next_ns != INT64_MAX ? next_ns : simba__sql_lane_expire(lane, now).ns;
}

static void on_patience(simba_timer *timer, simba_local now)
{
    simba__sql_store *self = SIMBA__OF_NODE(timer, simba__sql_store, patience);
    int64_t next_ns = INT64_MAX;
    for (unsigned i = 0; i < self->lane_count; i++) {
        simba__sql_lane *lane = &self->lanes[i];
        const int64_t lane_ns = simba__sql_lane_is_idle(lane) ? INT64_MAX : look_at_lane(lane, now);
        next_ns = lane_ns < next_ns ? lane_ns : next_ns;
    }
    if (next_ns != INT64_MAX)
        self->host->timer_set(self->host, timer, (simba_local){next_ns});
}

/* The timer is never put off, only brought forward: when it fires, the store finds what is left to do. */
static void arm_patience(simba__sql_store *self, simba_local at)
{
    if (self->patience.index == 0 || at.ns < self->patience.at.ns)
        self->host->timer_set(self->host, &self->patience, at);
}

/* --- requests -------------------------------------------------------------------------------------------- */

static simba__sql_list *list_of(simba__sql_store *self, const simba_request *request)
{
    const bool reads = request->op == SIMBA_OP_READ || request->op == SIMBA_OP_LIST ||
                       request->op == SIMBA_OP_EXAMINE || request->op == SIMBA_OP_PREPARE ||
                       request->op == SIMBA_OP_READ_NOTE;
    return reads ? &self->reads : &self->writes;
}

void simba__sql_submit(void *instance, simba_request *request)
{
    simba__sql_store *self = instance;
    request->reply = (simba_reply){0};
    append(list_of(self, request), request);
    if (request->op == SIMBA_OP_RELEASE)
        simba__sql_recall_releasing(&self->recall, request->mutex, request->nonce);
}

static simba__sql_lane *lane_of(simba__sql_store *self, const simba__sql_item *item)
{
    unsigned i = 0;
    while (i < self->lane_count &&
           (item < self->lanes[i].batch.items || item >= self->lanes[i].batch.items + self->lanes[i].batch.count))
        i++;
    SIMBA__ASSERT(i < self->lane_count);
    return &self->lanes[i];
}

/* The batch keeps the item. The next try of a renewal may go by another connection, because this one may be waiting for packets
 * that got lost. A renewal that is carried out late does no harm, also after another one or a release; an acquire might. */
static void expire_item(simba__sql_store *self, simba__sql_item *item)
{
    item->is_expired = true;
    if (item->ask.op == SIMBA_OP_RENEW && !item->lets_others) {
        item->lets_others = true;
        simba__sql_recall_finish(&self->recall, item->ask.mutex, number_of(lane_of(self, item)));
    }
    arm_patience(self, self->host->now(self->host)); /* it may have been the last one of its lane */
}

static void take_up_busy(simba__sql_store *self)
{
    for (simba_request *r = take_all(&self->busy), *next; r; r = next) {
        next = r->next;
        append(&self->writes, r);
    }
    self->host->wake(self->host);
}

static void on_again(simba_timer *timer, simba_local now)
{
    (void)now;
    take_up_busy(SIMBA__OF_NODE(timer, simba__sql_store, again));
}

static simba__sql_lane *idle_lane(simba__sql_store *self, bool reads)
{
    for (unsigned i = 0; i < self->lane_count; i++) {
        simba__sql_lane *lane = &self->lanes[reads ? self->lane_count - 1 - i : i];
        if (simba__sql_lane_is_idle(lane))
            return lane;
    }
    return NULL;
}

/* Reads wait for no lock, and these read little. */
static bool is_brief(const simba__sql_lane *lane)
{
    for (size_t i = 0; i < lane->batch.count; i++)
        if (lane->batch.items[i].ask.op != SIMBA_OP_READ && lane->batch.items[i].ask.op != SIMBA_OP_READ_NOTE)
            return false;
    return lane->reads;
}

/* A renewal has spent all of its time waiting for another request about its mutex, or for a lane. The connection of that
 * request, or of something that is read by a lane and should have come long ago, has gone silent: it must not keep the next
 * try waiting as well. */
static void make_way(simba__sql_store *self, const char *mutex)
{
    simba__sql_recall_overtake(&self->recall, mutex);
    if (idle_lane(self, false))
        return;
    for (unsigned i = 0; i < self->lane_count; i++)
        self->lanes[i].gives_way |= is_brief(&self->lanes[i]);
    arm_patience(self, self->host->now(self->host));
}

void simba__sql_expire(void *instance, simba_request *request)
{
    simba__sql_store *self = instance;
    if (request->backend_data) {
        expire_item(self, request->backend_data);
        return;
    }
    const bool waited = remove_from(list_of(self, request), request) || remove_from(&self->busy, request);
    SIMBA__ASSERT(waited);
    if (request->op == SIMBA_OP_RENEW)
        make_way(self, request->mutex);
    self->host->fail(self->host, request, SIMBA_ETIMEDOUT, "%s %s: no answer in time", self->place.store,
                     self->place.where);
}

/* --- batches --------------------------------------------------------------------------------------------- */

static size_t count_of(const simba__sql_list *list)
{
    size_t count = 0;
    for (const simba_request *r = list->first; r; r = r->next)
        count++;
    return count;
}

static bool is_about_notes(const simba_request *request)
{
    return request->op == SIMBA_OP_WRITE_NOTE || request->op == SIMBA_OP_FORGET;
}

/* The kind of batch that a request in `writes` belongs to. */
static simba__sql_kind kind_of(const simba__sql_store *self, const simba_request *request)
{
    return simba__sql_recall_is_locked(&self->recall, request->mutex) ? SIMBA__SQL_KIND_LOCKED
           : is_about_notes(request)                                  ? SIMBA__SQL_KIND_NOTES
                                                                      : SIMBA__SQL_KIND_WRITES;
}

/* May the request share a batch with these? Those about a row that is locked share it with nobody, and other code decides on
 * the steps of those about notes. */
static bool fits(const simba__sql_batch *batch, simba__sql_kind kind, const simba_request *request)
{
    const simba_request *first = batch->count > 0 ? &batch->items[0].ask : NULL;
    if (kind != SIMBA__SQL_KIND_LOCKED || !first)
        return true;
    return strcmp(request->mutex, first->mutex) == 0 && is_about_notes(request) == is_about_notes(first);
}

/* May a renewal go by this lane although another one works on its mutex? Only if it has waited for that one in vain. If somebody
 * else keeps the row locked, it would have to wait by any lane, and keep this one from the others. */
static bool overtakes(const simba__sql_recall *recall, const simba_request *request)
{
    return request->op == SIMBA_OP_RENEW && simba__sql_recall_is_overtaken(recall, request->mutex) &&
           !simba__sql_recall_is_locked(recall, request->mutex);
}

/* Requests of another kind stay in the list, and so do requests about a mutex that another lane works on. */
static void add_requests(simba__sql_lane *lane, simba__sql_kind kind, simba__sql_list *list, simba_local now)
{
    simba__sql_recall *recall = &lane->self->recall;
    const bool reads = kind == SIMBA__SQL_KIND_READS;
    for (simba_request *r = take_all(list), *next; r; r = next) {
        next = r->next;
        const bool is_taken = reads || (kind_of(lane->self, r) == kind && fits(&lane->batch, kind, r));
        const bool begins = is_taken && (reads || simba__sql_recall_begin(recall, r->mutex, number_of(lane), now));
        if (!is_taken || (!begins && !overtakes(recall, r))) {
            append(list, r);
            continue;
        }
        simba__sql_item *item = simba__sql_batch_add(&lane->batch, r);
        item->lets_others = !begins;
        r->backend_data = item;
        if (r->op == SIMBA_OP_ACQUIRE) {
            item->floor = simba__sql_recall_floor(recall, r->mutex);
            item->held_here = simba__sql_recall_is_held(recall, r->mutex, r->nonce, now);
        }
    }
    lane->since = now;
}

static void add_poll(void *user, simba__sql_polled *polled)
{
    simba__sql_lane *lane = user;
    simba__sql_item *item =
        simba__sql_batch_add_poll(&lane->batch, polled->topic->mutex, (simba_local){lane->since.ns + POLL_PATIENCE_NS});
    item->polled = polled;
    polled->poll = item;
}

static bool poll_is_due(const simba__sql_store *self, simba_local now)
{
    return !self->polls && simba__sql_polling_due(&self->polling).ns <= now.ns;
}

/* Begin a batch of waiting requests, if there is a lane for it. */
static bool start_batch(simba__sql_store *self, simba__sql_kind kind, simba_local now)
{
    const bool reads = kind == SIMBA__SQL_KIND_READS;
    simba__sql_list *list = reads ? &self->reads : &self->writes;
    const size_t polls = reads && poll_is_due(self, now) ? simba__sql_polling_count(&self->polling, now) : 0;
    simba__sql_lane *lane = list->first || polls > 0 ? idle_lane(self, reads) : NULL;
    if (!lane)
        return false;
    if (!simba__sql_batch_reserve(&lane->batch, count_of(list) + polls, polls * (SIMBA_MUTEX_BYTES + 1))) {
        fail_all(self, list, SIMBA_ENOMEM, "out of memory");
        return false;
    }
    add_requests(lane, kind, list, now);
    lane->polls = polls > 0;
    if (lane->polls) {
        simba__sql_polling_take(&self->polling, now, add_poll, lane);
        self->polls = true;
        arm_patience(self, (simba_local){now.ns + POLL_PATIENCE_NS});
    }
    if (lane->batch.count == 0)
        return false;
    lane->reads = reads;
    lane->gives_way = false;
    lane->batch.has_notes = !reads && is_about_notes(&lane->batch.items[0].ask);
    self->latest = kind;
    lane->began = simba__sql_polling_begin(&self->polling);
    simba__sql_lane_begin(lane);
    return !simba__sql_lane_is_idle(lane);
}

static void arm_poll(simba__sql_store *self, simba_local now)
{
    const simba_local due = simba__sql_polling_due(&self->polling);
    if (self->polls || due.ns == INT64_MAX)
        return;
    /* Due, and not begun: there is no lane for it, or no memory. */
    const int64_t soonest_ns = now.ns + 5 * SIMBA__NS_PER_MS;
    self->host->timer_set(self->host, &self->poll, (simba_local){due.ns < soonest_ns ? soonest_ns : due.ns});
}

static bool has_renewal(const simba__sql_list *list)
{
    for (const simba_request *r = list->first; r; r = r->next)
        if (r->op == SIMBA_OP_RENEW)
            return true;
    return false;
}

/* Renewals go first: by the only connection, over a slow network, a batch of reads may take as long as a renewal has. */
static bool start_any(simba__sql_store *self, simba_local now)
{
    if (idle_lane(self, false) && has_renewal(&self->writes) && start_batch(self, SIMBA__SQL_KIND_WRITES, now))
        return true;
    for (unsigned i = 1; i <= SIMBA__SQL_KINDS; i++)
        if (start_batch(self, (simba__sql_kind)((self->latest + i) % SIMBA__SQL_KINDS), now))
            return true;
    return false;
}

/* Begin batches of waiting requests, as far as there are idle lanes; but for renewals the kinds take turns. */
void simba__sql_flush(void *instance)
{
    simba__sql_store *self = instance;
    if (self->life != SIMBA__SQL_OPEN)
        return;
    const simba_local now = self->host->now(self->host);
    while (start_any(self, now))
        ;
    if (self->polling.mutexes.count > 0)
        arm_poll(self, now);
}

/* --- answers ----------------------------------------------------------------------------------------------- */

static bool has_answer(const simba__sql_item *item)
{
    return !item->error && !item->put_off && item->ask.reply.status == 0;
}

/* It is free, and one of ours still believes that it holds it: let that one ask. */
static void ask_holder(simba__sql_store *self, const simba__sql_item *item)
{
    const char *mutex = item->ask.mutex;
    const simba_push push = {.kind = SIMBA_PUSH_FREED,
                             .owner = {.token = simba__sql_recall_floor(&self->recall, mutex)},
                             .now_ms = item->ask.reply.now_ms};
    self->host->push_to(self->host, mutex, simba__sql_recall_holder(&self->recall, mutex), &push);
}

static void push_noted(const simba__sql_store *self, const simba__sql_polled *polled)
{
    const simba_push push = {.kind = SIMBA_PUSH_NOTED};
    self->host->push(self->host, polled->topic, &push);
}

static void tell_news_of(simba__sql_lane *lane, simba__sql_item *item, simba_local now)
{
    simba__sql_store *self = lane->self;
    simba__sql_recall_saw(&self->recall, item->ask.mutex, item->version, now);
    if (item->request && !item->is_expired && !is_about_notes(&item->ask))
        simba__sql_recall_answered(&self->recall, &item->ask, lane->since);
    simba__sql_polled *polled = simba__sql_polling_find(&self->polling, item->ask.mutex);
    simba_push push;
    if (polled &&
        simba__sql_polled_read(&self->polling, polled, &item->ask.reply, item->version, lane->began, now, &push))
        self->host->push(self->host, polled->topic, &push);
    if (polled && simba__sql_polled_read_note(polled, item->mark))
        push_noted(self, polled);
    if (item->kept_back)
        ask_holder(self, item);
}

static void tell_news(simba__sql_lane *lane, simba_local now)
{
    for (size_t i = 0; i < lane->batch.count; i++) {
        simba__sql_item *item = &lane->batch.items[i];
        if (item->polled) {
            item->polled->poll = NULL;
            simba__sql_polled_came_back(&lane->self->polling, item->polled, has_answer(item), lane->began, now);
            if (item->put_off)
                simba__sql_polled_put_off(&lane->self->polling, item->polled, now);
        }
        if (has_answer(item) && simba__sql_item_has_row(item))
            tell_news_of(lane, item, now);
        if (!lane->reads && (has_answer(item) || item->is_locked))
            simba__sql_recall_found_locked(&lane->self->recall, item->ask.mutex, item->is_locked);
        if (item->is_locked)
            lane->self->latest = SIMBA__SQL_KIND_LOCKED;
    }
}

/* The first ones by name, the others by their number. */
static void log_flaw(simba__sql_store *self, const simba__sql_found *found, size_t *count)
{
    if (++*count <= FLAWS_TOLD)
        self->host->log(self->host, SIMBA_LOG_WARN, "%s %s: a row of %s is not listed: %s", self->place.store,
                        self->place.where, self->place.table, found->text);
}

static int tell_one(simba__sql_store *self, simba_request *request, const simba__sql_found *found)
{
    const simba_listing listing = {.size = sizeof listing,
                                   .mutex = found->text,
                                   .owner = &found->owner,
                                   .now_ms = found->now_ms,
                                   .waiters = -1,
                                   .note = found->note.bytes,
                                   .note_length = found->note.size,
                                   .note_token = found->note.token,
                                   .note_written_at_ms = found->note.written_at_ms};
    const simba_finding finding = {sizeof(simba_finding), found->verdict, found->what, found->text, found->remedy};
    if (request->op == SIMBA_OP_READ_NOTE)
        return self->host->noted(self->host, request, &found->note);
    return request->op == SIMBA_OP_LIST ? self->host->listed(self->host, request, &listing)
                                        : self->host->found(self->host, request, &finding);
}

/* Pass on the results of a LIST, an EXAMINE or a READ_NOTE, before it completes. */
static int tell_found(simba__sql_store *self, simba_request *request, const simba__sql_item *item)
{
    int rc = 0;
    size_t flaws = 0;
    for (const simba__sql_found *found = item->found; found && rc == 0; found = found->next) {
        if (found->is_flawed) {
            log_flaw(self, found, &flaws);
            continue;
        }
        rc = tell_one(self, request, found);
    }
    if (flaws > FLAWS_TOLD)
        self->host->log(self->host, SIMBA_LOG_WARN, "%s %s: %zu more rows of %s are not listed", self->place.store,
                        self->place.where, flaws - FLAWS_TOLD, self->place.table);
    return rc;
}

/* Our own statements have a row locked for a millisecond, other people's perhaps for minutes. So a request whose row is busy is sent
 * again after as long as it has waited by now. Until a request is complete its reply is the store's, which keeps there when the
 * row was first busy. */
static void ask_again(simba__sql_store *self, simba_request *request)
{
    simba_host *host = self->host;
    const simba_local now = host->now(host);
    int64_t *since_ns = &request->reply.now_ms;
    if (*since_ns == 0)
        *since_ns = now.ns;
    const int64_t waited_ns = now.ns - *since_ns;
    const int64_t pause_ns = waited_ns < BUSY_FIRST_NS     ? BUSY_FIRST_NS
                             : waited_ns > BUSY_LONGEST_NS ? BUSY_LONGEST_NS
                                                           : waited_ns;
    const simba_local at = {now.ns + pause_ns};
    if (!self->busy.first || at.ns < self->again.at.ns)
        host->timer_set(host, &self->again, at);
    append(&self->busy, request);
}

/* Another batch is to carry out the request. Nobody would notice if it had expired by now. */
static void put_off(simba__sql_store *self, const simba__sql_item *item)
{
    if (self->life != SIMBA__SQL_OPEN)
        fail_one(self, item->request, SIMBA_ECANCELED, "the client closes");
    else if (item->is_expired)
        fail_one(self, item->request, SIMBA_ETIMEDOUT, "no answer in time");
    else if (item->is_busy)
        ask_again(self, item->request);
    else
        simba__sql_submit(self, item->request);
}

static void answer(const simba__sql_lane *lane, const simba__sql_item *item)
{
    simba__sql_store *self = lane->self;
    simba_request *request = item->request;
    if (!request)
        return;
    if (item->put_off || (item->error && lane->gives_way)) {
        put_off(self, item);
    } else if (item->error) {
        self->host->fail(self->host, request, item->error->code, "%s", item->error->text);
    } else if (item->ask.reply.status == SIMBA_ECORRUPT) {
        fail_one(self, request, SIMBA_ECORRUPT, "the note of this mutex is longer than a note can be");
    } else if (item->ask.reply.status < 0 || tell_found(self, request, item) < 0) {
        fail_one(self, request, SIMBA_ENOMEM, "out of memory");
    } else {
        request->reply = item->ask.reply;
        self->host->complete(self->host, request);
    }
}

static void closed_if_idle(simba__sql_store *self)
{
    for (unsigned i = 0; i < self->lane_count; i++)
        if (!simba__sql_lane_is_idle(&self->lanes[i]))
            return;
    if (self->life != SIMBA__SQL_CLOSING)
        return;
    self->life = SIMBA__SQL_CLOSED;
    self->host->closed(self->host);
}

static void ended(simba__sql_lane *lane)
{
    simba__sql_store *self = lane->self;
    const simba_local now = self->host->now(self->host);
    if (lane->polls)
        self->polls = lane->polls = false;
    tell_news(lane, now);
    for (size_t i = 0; i < lane->batch.count; i++) {
        if (!lane->reads && !lane->batch.items[i].lets_others)
            simba__sql_recall_finish(&self->recall, lane->batch.items[i].ask.mutex, number_of(lane));
        answer(lane, &lane->batch.items[i]);
    }
    simba__sql_batch_clear(&lane->batch);
    if (self->life != SIMBA__SQL_OPEN)
        closed_if_idle(self);
    else if (self->writes.first || self->reads.first || self->polling.mutexes.count > 0)
        self->host->wake(self->host); /* later, with what these answers lead to */
}

/* --- the table ----------------------------------------------------------------------------------------------- */

static void on_poll(simba_timer *timer, simba_local now)
{
    (void)now;
    simba__sql_store *self = SIMBA__OF_NODE(timer, simba__sql_store, poll);
    self->host->wake(self->host);
}

int simba__sql_watch(void *instance, simba_topic *topic)
{
    simba__sql_store *self = instance;
    simba__sql_polled *polled = simba__sql_polling_add(&self->polling, topic, self->host->now(self->host));
    if (!polled)
        return SIMBA_ENOMEM;
    topic->backend_data = polled;
    self->host->wake(self->host);
    return 0;
}

void simba__sql_unwatch(void *instance, simba_topic *topic)
{
    simba__sql_store *self = instance;
    simba__sql_polled *polled = topic->backend_data;
    if (polled->poll)
        polled->poll->polled = NULL;
    simba__sql_polling_remove(&self->polling, polled);
    topic->backend_data = NULL;
}

void simba__sql_notified(simba__sql_store *self, const char *mutex)
{
    const simba__sql_polled *polled = simba__sql_polling_find(&self->polling, mutex);
    const simba_push push = {.kind = SIMBA_PUSH_RELEASED};
    if (polled)
        self->host->push(self->host, polled->topic, &push);
}

void simba__sql_enter_all(simba__sql_store *self)
{
    const simba_push push = {.kind = SIMBA_PUSH_SESSION_BACK};
    self->host->push(self->host, NULL, &push);
}

void simba__sql_noted(simba__sql_store *self, const char *mutex)
{
    const simba__sql_polled *polled = simba__sql_polling_find(&self->polling, mutex);
    if (polled)
        push_noted(self, polled);
}

void simba__sql_stand_by(simba__sql_store *self, const char *mutex, unsigned place)
{
    simba__sql_polled *polled = simba__sql_polling_find(&self->polling, mutex);
    if (!polled)
        return;
    simba__sql_polled_hasten(&self->polling, polled, place, self->host->now(self->host));
    self->host->wake(self->host);
}

void simba__sql_set_pace(simba__sql_store *self, simba__sql_pace pace)
{
    if (pace == self->polling.pace)
        return;
    simba__sql_polling_set_pace(&self->polling, pace, self->host->now(self->host));
    self->host->wake(self->host);
}

/* --- beginning and end ------------------------------------------------------------------------------------- */

int simba__sql_init(simba__sql_store *self, simba_host *host, const simba__sql_dialect *dialect, simba__sql_place place,
                    void *const *conns, unsigned count, simba_error *err)
{
    SIMBA__ASSERT(count > 0 && count <= SIMBA__SQL_LANES_MAX);
    self->host = host;
    self->place = place;
    self->patience.fire = on_patience;
    self->poll.fire = on_poll;
    list_init(&self->writes);
    list_init(&self->reads);
    list_init(&self->busy);
    self->again.fire = on_again;
    simba__sql_polling_init(&self->polling, host->random(host));
    if (host->timer_add(host, &self->patience) < 0 || host->timer_add(host, &self->poll) < 0 ||
        host->timer_add(host, &self->again) < 0)
        return simba__fail(err, SIMBA_ENOMEM, "%s: out of memory", place.store);
    while (self->lane_count < count) {
        const unsigned i = self->lane_count++;
        self->lanes[i].self = self;
        self->lanes[i].ended = ended;
        if (simba__sql_lane_init(&self->lanes[i], host, dialect, conns[i], place) < 0)
            return simba__fail(err, SIMBA_ENOMEM, "%s: out of memory", place.store);
    }
    if (dialect->carry_out)
        host->workers = count;
    return 0;
}

void simba__sql_close(void *instance)
{
    simba__sql_store *self = instance;
    self->life = SIMBA__SQL_CLOSING;
    fail_all(self, &self->writes, SIMBA_ECANCELED, "the client closes");
    fail_all(self, &self->reads, SIMBA_ECANCELED, "the client closes");
    fail_all(self, &self->busy, SIMBA_ECANCELED, "the client closes");
    self->host->timer_clear(self->host, &self->patience);
    self->host->timer_clear(self->host, &self->poll);
    self->host->timer_clear(self->host, &self->again);
    for (unsigned i = 0; i < self->lane_count; i++)
        simba__sql_lane_interrupt(&self->lanes[i]);
    closed_if_idle(self);
}

void simba__sql_fini(simba__sql_store *self)
{
    for (unsigned i = 0; i < self->lane_count; i++)
        simba__sql_batch_fini(&self->lanes[i].batch);
    simba__sql_polling_fini(&self->polling);
    simba__sql_recall_fini(&self->recall);
}
