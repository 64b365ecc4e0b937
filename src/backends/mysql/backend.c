/* The MySQL store: the contract of simba/backend.h over a table on a server.
 *
 * The client library blocks, so its calls are jobs for workers. There are a few lanes, each a connection with a batch of
 * requests. Requests gather; when a lane is idle it takes all of them, so what a busy client asks for in one go is one
 * transaction. One lane that waits for a locked row does not keep the others waiting. Requests that write are begun from
 * the first lane on, those that only read, and the looks at what is watched, from the last.
 *
 * A job may take longer than a request has time. Then the request is answered by a timer; and a while after the last one
 * has gone the connection is cut, which ends the job. */
#include "backends/mysql/mysql.h"

#include <string.h>

#include "backends/mysql/batch.h"
#include "backends/mysql/library.h"
#include "backends/mysql/options.h"
#include "backends/schemes.h"
#include "backends/sql/memory.h"
#include "backends/sql/polling.h"
#include "util/clock.h"
#include "util/error.h"

#define LOOK_PATIENCE_NS (4000 * SIMBA__NS_PER_MS)
/* A job that nobody waits for any more may be about to end. To cut its connection makes a slow server slower. */
#define GRACE_NS (250 * SIMBA__NS_PER_MS)

/* How many rows that a LIST leaves out are named. */
enum { FLAWS_TOLD = 10 };

typedef struct store store;

/* How long the store still waits for a job. */
typedef enum patience {
    WAITED_FOR, /* there are requests or looks that have time left */
    GRACE,      /* there are none: the connection is cut in a while */
    CUT,        /* it was */
} patience;

typedef struct lane {
    store *s;
    simba_job job;
    simba__my_batch batch;
    bool running; /* the batch is the worker's */
    bool reads;
    bool looks;        /* some of its items are looks */
    uint64_t began;    /* on the clock of the polling */
    simba_local since; /* the same moment on ours */
    patience patience;
    simba_local cut_at; /* in GRACE: when to cut the connection */
} lane;

typedef struct queue {
    simba_request *first, **end;
} queue;

struct store {
    simba_host *host;
    simba__my_options options;
    lane lanes[SIMBA__MY_CONNECTIONS_MAX];
    unsigned lane_count;
    queue writes, reads;
    bool read_last; /* what was begun last */
    bool looking;   /* a look is under way */
    bool closing;
    simba__sql_polling polling;
    simba__sql_memory memory;
    simba_timer deadline; /* at or before the earliest deadline of what is outstanding */
    simba_timer look;
};

/* --- queues --------------------------------------------------------------------------------------------- */

static void queue_init(queue *q)
{
    q->first = NULL;
    q->end = &q->first;
}

static void append(queue *q, simba_request *request)
{
    request->next = NULL;
    *q->end = request;
    q->end = &request->next;
}

static simba_request *take_all(queue *q)
{
    simba_request *first = q->first;
    queue_init(q);
    return first;
}

static void fail_all(store *s, queue *q, int code, const char *text)
{
    for (simba_request *r = take_all(q), *next; r; r = next) {
        next = r->next;
        s->host->fail(s->host, r, code, "%s", text);
    }
}

static unsigned number_of(const lane *l)
{
    return (unsigned)(l - l->s->lanes) + 1;
}

/* --- deadlines ------------------------------------------------------------------------------------------- */

static void fail_late_request(store *s, simba_request *request)
{
    s->host->fail(s->host, request, SIMBA_ETIMEDOUT, "mysql %s: no answer in time", s->options.where);
}

static int64_t fail_late_queue(store *s, queue *q, simba_local now)
{
    int64_t earliest_ns = INT64_MAX;
    for (simba_request *r = take_all(q), *next; r; r = next) {
        next = r->next;
        if (r->deadline.ns <= now.ns) {
            fail_late_request(s, r);
            continue;
        }
        append(q, r);
        if (r->deadline.ns < earliest_ns)
            earliest_ns = r->deadline.ns;
    }
    return earliest_ns;
}

/* Whoever wanted to renew may ask again by another connection: this one may be waiting for packets that got lost. A renewal
 * that is carried out late does no harm, also after another one or a release; an acquire might. */
static void give_up(lane *l, simba__sql_item *item)
{
    fail_late_request(l->s, item->request);
    item->request = NULL;
    item->is_given_up = item->ask.op == SIMBA_OP_RENEW;
    if (item->is_given_up)
        simba__sql_memory_finish(&l->s->memory, item->ask.mutex, number_of(l));
}

/* Nobody waits for this job: when to look at it again. INT64_MAX: not before it ends. */
static int64_t next_cut(lane *l, simba_local now)
{
    if (l->patience == CUT)
        return INT64_MAX;
    if (l->patience == GRACE && now.ns < l->cut_at.ns)
        return l->cut_at.ns;
    if (l->patience == GRACE && simba__my_conn_cut(&l->batch.session.conn, now)) {
        l->patience = CUT;
        return INT64_MAX;
    }
    l->patience = GRACE;
    l->cut_at.ns = now.ns + GRACE_NS;
    return l->cut_at.ns;
}

/* The worker still has the items: they only lose those who wait for them. */
static int64_t fail_late_items(lane *l, simba_local now)
{
    int64_t earliest_ns = INT64_MAX;
    for (size_t i = 0; i < l->batch.count; i++) {
        simba__sql_item *item = &l->batch.items[i];
        if (!item->request && !item->polled)
            continue;
        if (item->ask.deadline.ns > now.ns) {
            if (item->ask.deadline.ns < earliest_ns)
                earliest_ns = item->ask.deadline.ns;
            continue;
        }
        if (item->request)
            give_up(l, item);
        if (item->polled)
            item->polled->poll = NULL;
        item->polled = NULL;
    }
    return earliest_ns != INT64_MAX ? earliest_ns : next_cut(l, now);
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void on_deadline(simba_timer *timer, simba_local now)
{
    store *s = (store *)(void *)((char *)timer - offsetof(store, deadline));
    int64_t earliest_ns = min64(fail_late_queue(s, &s->writes, now), fail_late_queue(s, &s->reads, now));
    for (unsigned i = 0; i < s->lane_count; i++)
        if (s->lanes[i].running)
            earliest_ns = min64(earliest_ns, fail_late_items(&s->lanes[i], now));
    if (earliest_ns != INT64_MAX)
        s->host->timer_set(s->host, timer, (simba_local){earliest_ns});
}

/* The timer is never put off, only forward: most deadlines are met, and what is left is found when it fires. */
static void guard(store *s, simba_local deadline)
{
    if (s->deadline.index == 0 || deadline.ns < s->deadline.at.ns)
        s->host->timer_set(s->host, &s->deadline, deadline);
}

static void my_submit(void *self, simba_request *request)
{
    store *s = self;
    const bool reads = request->op == SIMBA_OP_READ || request->op == SIMBA_OP_LIST ||
                       request->op == SIMBA_OP_EXAMINE || request->op == SIMBA_OP_PREPARE;
    append(reads ? &s->reads : &s->writes, request);
    if (request->op == SIMBA_OP_RELEASE)
        simba__sql_memory_releasing(&s->memory, request->mutex, request->nonce);
    guard(s, request->deadline);
}

/* --- jobs ------------------------------------------------------------------------------------------------ */

static lane *idle_lane(store *s, bool reads)
{
    for (unsigned i = 0; i < s->lane_count; i++) {
        lane *l = &s->lanes[reads ? s->lane_count - 1 - i : i];
        if (!l->running)
            return l;
    }
    return NULL;
}

static void post(lane *l, bool reads)
{
    l->running = true;
    l->reads = reads;
    /* A look has more time than who waits in a call: on a connection that has gone silent it would keep that thread. */
    l->job.length = !l->batch.session.conn.mysql || l->looks ? SIMBA_JOB_PATIENT : SIMBA_JOB_LONG;
    l->s->read_last = reads;
    l->began = simba__sql_polling_begin(&l->s->polling);
    l->patience = WAITED_FOR;
    simba__my_conn_resume(&l->batch.session.conn);
    l->s->host->work(l->s->host, &l->job);
}

static size_t measure(const queue *q, size_t *bytes)
{
    size_t count = 0;
    for (const simba_request *r = q->first; r; r = r->next, count++)
        *bytes += (r->mutex ? strlen(r->mutex) + 1 : 0) + (r->id ? strlen(r->id) + 1 : 0);
    return count;
}

/* What another lane is at work on stays in the queue. */
static void add_requests(lane *l, queue *q, simba_local now)
{
    simba__sql_memory *memory = &l->s->memory;
    for (simba_request *r = take_all(q), *next; r; r = next) {
        next = r->next;
        if (q == &l->s->writes && !simba__sql_memory_begin(memory, r->mutex, number_of(l), now)) {
            append(q, r);
            continue;
        }
        simba__sql_item *item = simba__my_batch_add(&l->batch, r);
        item->request = r;
        if (r->op == SIMBA_OP_ACQUIRE) {
            item->floor = simba__sql_memory_floor(memory, r->mutex);
            item->guarded = simba__sql_memory_is_held(memory, r->mutex, r->nonce, now);
        }
    }
    l->since = now;
}

static void start_writes(store *s, lane *l, simba_local now)
{
    size_t bytes = 0;
    const size_t count = measure(&s->writes, &bytes);
    if (!simba__my_batch_reserve(&l->batch, count, bytes)) {
        fail_all(s, &s->writes, SIMBA_ENOMEM, "mysql: out of memory");
        return;
    }
    add_requests(l, &s->writes, now);
    if (l->batch.count > 0)
        post(l, false);
}

static void add_look(void *user, simba__sql_polled *polled)
{
    lane *l = user;
    const simba_request look = {
        .op = SIMBA_OP_READ,
        .mutex = polled->topic->mutex,
        .deadline = {l->s->host->now(l->s->host).ns + LOOK_PATIENCE_NS},
    };
    simba__sql_item *item = simba__my_batch_add(&l->batch, &look);
    item->polled = polled;
    polled->poll = item;
    l->looks = true;
}

static bool look_is_due(const store *s, simba_local now)
{
    return !s->looking && simba__sql_polling_due(&s->polling).ns <= now.ns;
}

static void start_reads(store *s, lane *l, simba_local now)
{
    const size_t looks = look_is_due(s, now) ? simba__sql_polling_count(&s->polling, now) : 0;
    size_t bytes = looks * (SIMBA_MUTEX_BYTES + 1);
    const size_t count = measure(&s->reads, &bytes) + looks;
    if (!simba__my_batch_reserve(&l->batch, count, bytes)) {
        fail_all(s, &s->reads, SIMBA_ENOMEM, "mysql: out of memory");
        return;
    }
    add_requests(l, &s->reads, now);
    l->looks = false;
    if (looks > 0) {
        simba__sql_polling_take(&s->polling, now, add_look, l);
        s->looking = l->looks;
        if (l->looks)
            guard(s, (simba_local){now.ns + LOOK_PATIENCE_NS});
    }
    if (l->batch.count > 0)
        post(l, true);
}

static void arm_look(store *s, simba_local now)
{
    const simba_local due = simba__sql_polling_due(&s->polling);
    if (s->looking || due.ns == INT64_MAX)
        return;
    /* Due, and not begun: there is no lane for it, or no memory. */
    const int64_t soonest_ns = now.ns + 5 * SIMBA__NS_PER_MS;
    s->host->timer_set(s->host, &s->look, (simba_local){due.ns < soonest_ns ? soonest_ns : due.ns});
}

static bool try_writes(store *s, simba_local now)
{
    lane *l = s->writes.first ? idle_lane(s, false) : NULL;
    if (l)
        start_writes(s, l, now);
    return l && l->running;
}

static bool try_reads(store *s, simba_local now)
{
    lane *l = s->reads.first || look_is_due(s, now) ? idle_lane(s, true) : NULL;
    if (l)
        start_reads(s, l, now);
    return l && l->running;
}

/* Begin what waits, as far as there are idle lanes; writing and reading in turns where there is one for both. */
static void start(store *s)
{
    if (s->closing)
        return;
    const simba_local now = s->host->now(s->host);
    while (s->read_last ? try_writes(s, now) || try_reads(s, now) : try_reads(s, now) || try_writes(s, now))
        ;
    if (s->polling.mutexes.count > 0)
        arm_look(s, now);
}

static void run_batch(lane *l)
{
    if (l->reads)
        simba__my_batch_read(&l->batch);
    else
        simba__my_batch_write(&l->batch);
}

static void run(simba_job *job)
{
    lane *l = (lane *)(void *)((char *)job - offsetof(lane, job));
    if (!l->s->options.tls) {
        run_batch(l);
        return;
    }
    simba__my_sigpipe guarded;
    simba__my_sigpipe_block(&guarded);
    run_batch(l);
    simba__my_sigpipe_restore(&guarded);
}

/* --- answers ----------------------------------------------------------------------------------------------- */

static bool has_answer(const simba__sql_item *item)
{
    return !item->error && !item->put_off && item->ask.reply.status == 0;
}

/* It is free, and one of ours still believes that it holds it: let that one ask. */
static void ask_holder(store *s, const simba__sql_item *item)
{
    const char *mutex = item->ask.mutex;
    const simba_push push = {.kind = SIMBA_PUSH_FREED,
                             .owner = {.token = simba__sql_memory_floor(&s->memory, mutex)},
                             .now_ms = item->ask.reply.now_ms};
    s->host->push_to(s->host, mutex, simba__sql_memory_holder(&s->memory, mutex), &push);
}

static void tell_news_of(lane *l, simba__sql_item *item, simba_local now)
{
    store *s = l->s;
    simba__sql_memory_saw(&s->memory, item->ask.mutex, item->version, now);
    if (item->request)
        simba__sql_memory_answered(&s->memory, &item->ask, l->since);
    simba__sql_polled *polled = simba__sql_polling_find(&s->polling, item->ask.mutex);
    simba_push push;
    if (polled && simba__sql_polled_read(&s->polling, polled, &item->ask.reply, item->version, l->began, now, &push))
        s->host->push(s->host, polled->topic, &push);
    if (item->kept_back)
        ask_holder(s, item);
}

static void tell_news(lane *l, simba_local now)
{
    for (size_t i = 0; i < l->batch.count; i++) {
        simba__sql_item *item = &l->batch.items[i];
        simba__sql_polled *looked = item->polled;
        if (looked) {
            looked->poll = NULL;
            simba__sql_polled_came_back(&l->s->polling, looked, now);
        }
        if (has_answer(item) && simba__my_item_is_about_row(item))
            tell_news_of(l, item, now);
    }
}

/* The first ones by name, the others by their number. */
static void log_flaw(store *s, const simba__my_found *found, size_t *count)
{
    if (++*count <= FLAWS_TOLD)
        s->host->log(s->host, SIMBA_LOG_WARN, "mysql %s: a row of %s is not listed: %s", s->options.where,
                     s->options.table, found->text);
}

/* What a LIST or an EXAMINE found, before it completes. */
static int tell_found(store *s, simba_request *request, const simba__sql_item *item)
{
    int rc = 0;
    size_t flaws = 0;
    for (const simba__my_found *found = item->found; found && rc == 0; found = found->next) {
        if (found->is_flawed) {
            log_flaw(s, found, &flaws);
            continue;
        }
        const simba_listing listing = {sizeof(simba_listing), found->text, &found->owner, found->now_ms, -1};
        const simba_finding finding = {sizeof(simba_finding), found->verdict, found->what, found->text, found->remedy};
        rc = request->op == SIMBA_OP_LIST ? s->host->listed(s->host, request, &listing)
                                          : s->host->found(s->host, request, &finding);
    }
    if (flaws > FLAWS_TOLD)
        s->host->log(s->host, SIMBA_LOG_WARN, "mysql %s: %zu more rows of %s are not listed", s->options.where,
                     flaws - FLAWS_TOLD, s->options.table);
    return rc;
}

static void answer(store *s, simba__sql_item *item)
{
    simba_request *request = item->request;
    if (!request)
        return;
    item->request = NULL;
    if (item->put_off && !s->closing) {
        my_submit(s, request);
    } else if (item->put_off) {
        s->host->fail(s->host, request, SIMBA_ECANCELED, "mysql: the client closes");
    } else if (item->error) {
        s->host->fail(s->host, request, item->error->code, "%s", item->error->text);
    } else if (item->ask.reply.status < 0 || tell_found(s, request, item) < 0) {
        s->host->fail(s->host, request, SIMBA_ENOMEM, "mysql: out of memory");
    } else {
        request->reply = item->ask.reply;
        s->host->complete(s->host, request);
    }
}

static void closed_if_idle(store *s)
{
    for (unsigned i = 0; i < s->lane_count; i++)
        if (s->lanes[i].running)
            return;
    if (s->closing)
        s->host->closed(s->host);
}

static void done(simba_job *job)
{
    lane *l = (lane *)(void *)((char *)job - offsetof(lane, job));
    store *s = l->s;
    const simba_local now = s->host->now(s->host);
    l->running = false;
    if (l->looks)
        s->looking = l->looks = false;
    tell_news(l, now);
    for (size_t i = 0; i < l->batch.count; i++) {
        if (!l->reads && !l->batch.items[i].is_given_up)
            simba__sql_memory_finish(&s->memory, l->batch.items[i].ask.mutex, number_of(l));
        answer(s, &l->batch.items[i]);
    }
    simba__my_batch_clear(&l->batch);
    if (s->closing)
        closed_if_idle(s);
    else if (s->writes.first || s->reads.first || s->polling.mutexes.count > 0)
        s->host->wake(s->host); /* at the end of the turn, with what these answers lead to */
}

/* --- the table ----------------------------------------------------------------------------------------------- */

static void my_flush(void *self)
{
    start(self);
}

static void my_woken(void *self)
{
    start(self);
}

static void on_look(simba_timer *timer, simba_local now)
{
    (void)now;
    store *s = (store *)(void *)((char *)timer - offsetof(store, look));
    s->host->wake(s->host);
}

static int my_watch(void *self, simba_topic *topic)
{
    store *s = self;
    simba__sql_polled *polled = simba__sql_polling_add(&s->polling, topic, s->host->now(s->host));
    if (!polled)
        return SIMBA_ENOMEM;
    topic->backend_data = polled;
    s->host->wake(s->host);
    return 0;
}

static void my_unwatch(void *self, simba_topic *topic)
{
    store *s = self;
    simba__sql_polled *polled = topic->backend_data;
    if (polled->poll)
        polled->poll->polled = NULL;
    simba__sql_polling_remove(&s->polling, polled);
    topic->backend_data = NULL;
}

static int my_init(void *self, simba_host *host, const simba_url *url, simba_error *err)
{
    store *s = self;
    s->host = host;
    s->deadline.fire = on_deadline;
    s->look.fire = on_look;
    queue_init(&s->writes);
    queue_init(&s->reads);
    simba__sql_polling_init(&s->polling, host->random(host));
    const int rc = simba__my_options_parse(url, &s->options, err);
    if (rc < 0)
        return rc;
    if (host->timer_add(host, &s->deadline) < 0 || host->timer_add(host, &s->look) < 0)
        return simba__fail(err, SIMBA_ENOMEM, "mysql: out of memory");
    if (!simba__my_library_start())
        return simba__fail(err, SIMBA_ESYSTEM, "mysql: the client library does not start");
    for (; s->lane_count < s->options.connections; s->lane_count++) {
        lane *l = &s->lanes[s->lane_count];
        l->s = s;
        l->job.run = run;
        l->job.done = done;
        simba__my_batch_init(&l->batch, host, &s->options);
    }
    host->workers = s->lane_count;
    return 0;
}

static void my_close(void *self)
{
    store *s = self;
    s->closing = true;
    fail_all(s, &s->writes, SIMBA_ECANCELED, "mysql: the client closes");
    fail_all(s, &s->reads, SIMBA_ECANCELED, "mysql: the client closes");
    s->host->timer_clear(s->host, &s->deadline);
    s->host->timer_clear(s->host, &s->look);
    for (unsigned i = 0; i < s->lane_count; i++)
        if (s->lanes[i].running)
            simba__my_conn_interrupt(&s->lanes[i].batch.session.conn);
    closed_if_idle(s);
}

static void my_fini(void *self)
{
    store *s = self;
    simba__my_sigpipe guarded;
    simba__my_sigpipe_block(&guarded); /* connections say good-bye */
    for (unsigned i = 0; i < s->lane_count; i++)
        simba__my_batch_fini(&s->lanes[i].batch);
    simba__my_sigpipe_restore(&guarded);
    simba__sql_polling_fini(&s->polling);
    simba__sql_memory_fini(&s->memory);
    simba__my_options_free(&s->options);
}

static const char *const schemes[] = {SIMBA__SCHEMES_mysql, NULL};

const simba_backend simba__backend_mysql = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = simba__my_keys,
    .instance_size = sizeof(store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE | SIMBA_CAP_PREPARE,
    .workers = 2,
    .init = my_init,
    .submit = my_submit,
    .flush = my_flush,
    .watch = my_watch,
    .unwatch = my_unwatch,
    .woken = my_woken,
    .close = my_close,
    .fini = my_fini,
};
