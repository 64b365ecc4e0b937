/* The SQLite store: the contract of simba/backend.h over a file that the processes of one host share.
 *
 * There is one connection, and one batch runs at a time: what the client submits while it runs goes into the next one. A batch is
 * one transaction, so the requests of one moment cost one commit. While another process is writing, the batch waits, and its
 * requests fail one by one when their time is over.
 *
 * The boot-time clock of the host judges leases, together with the boot id: nobody can set that clock, all processes
 * share it, and a lease of an earlier boot has ended. See db.c for durability, watches.h for how waiters are woken. */
#include "backends/sqlite/sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/sqlite/batch.h"
#include "backends/sqlite/grants.h"
#include "backends/sqlite/notify.h"
#include "backends/sqlite/options.h"
#include "backends/sqlite/watches.h"
#include "stores/schemes.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

#define PROBE_PATIENCE_NS (4000 * SIMBA__NS_PER_MS)
#define WINDOW 1024    /* a batch has at most twice as many requests: other processes want to write too */
#define SHORT_BATCH 64 /* a thread of the application carries out no batch with more requests */
#define POLL_NS (1000 * SIMBA__NS_PER_MS) /* how often to look in case the fifo was not signalled */
#define POLL_WITHOUT_FIFO_NS (250 * SIMBA__NS_PER_MS)
#define ATTEND_NS (100 * SIMBA__NS_PER_MS) /* how long a mutex has to be held before we hang a fifo for revocations */
#define RESERVE_NS (20 * SIMBA__NS_PER_MS) /* how long the next in line has to take a free mutex */
#define PLACES 64 /* a client waits in lines for up to this many mutexes; with more, it hears of every change */

enum { FAULTS_NAMED = 10 }; /* how many damaged rows of one list the log names */

typedef struct sqlite_store {
    simba_host *host;
    simba_request *submitted, **submitted_end; /* requests for the next batch, */
    simba__sqlite_probe *probes;               /* and looks */
    bool refresh_wanted;                       /* look at the file even if there is no request */
    bool closing;

    simba_job job;
    bool running; /* it runs, and owns `batch` */
    simba_local batch_until;
    simba__sqlite_batch batch;

    simba__sqlite_watches watches;
    simba__sqlite_grants grants;
    simba_timer tick;
    simba_timer attend; /* when to hang a fifo for revocations */
    simba_timer reserve_timer;
    bool attends;  /* the timer `attend` is set, or the fifo hangs */
    bool reserve;  /* the timer reserve_timer is set */
    simba_io fifo; /* a descriptor of -1: it does not hang */
    bool fifo_failed;
    bool listening;
    bool wants_all; /* every mark concerns us, whatever its mutex */
} sqlite_store;

/* A look at a watched mutex: a READ of our own among the requests. */
struct simba__sqlite_probe {
    simba__sqlite_probe *next;
    simba__sqlite_watch *watched; /* NULL: nobody watches it any more */
    char mutex[];
};

static simba_local after(sqlite_store *self, int64_t ns)
{
    return (simba_local){self->host->now(self->host).ns + ns};
}

static sqlite_store *store_of_job(simba_job *job)
{
    return (sqlite_store *)(void *)((char *)job - offsetof(sqlite_store, job));
}

/* --- requests in, answers out ------------------------------------------------------------------------ */

static bool has_work(const sqlite_store *self)
{
    return self->submitted || self->probes || self->refresh_wanted;
}

/* The next request in the order in which they came. NULL: there is none. */
static simba_request *take_request(sqlite_store *self)
{
    simba_request *request = self->submitted;
    if (request)
        self->submitted = request->next;
    if (!self->submitted)
        self->submitted_end = &self->submitted;
    return request;
}

static void forget_request(sqlite_store *self, const simba_request *request)
{
    simba_request **link = &self->submitted;
    while (*link != request)
        link = &(*link)->next;
    *link = request->next;
    if (!*link)
        self->submitted_end = link;
}

static void append_probe(sqlite_store *self, simba__sqlite_probe *probe)
{
    probe->next = self->probes;
    self->probes = probe;
}

static simba__sqlite_probe *take_probe(sqlite_store *self)
{
    simba__sqlite_probe *probe = self->probes;
    if (probe)
        self->probes = probe->next;
    return probe;
}

static void free_probe(sqlite_store *self, simba__sqlite_probe *probe, bool failed)
{
    if (probe->watched)
        probe->watched->probe = NULL;
    self->watches.rescan |= failed; /* the next tick tries again */
    simba__free(probe);
}

static void fail_submitted(sqlite_store *self, int code, const char *text)
{
    for (simba_request *r; (r = take_request(self)) != NULL;)
        self->host->fail(self->host, r, code, "%s", text);
    for (simba__sqlite_probe *probe; (probe = take_probe(self)) != NULL;)
        free_probe(self, probe, true);
}

static size_t count_submitted(const sqlite_store *self)
{
    size_t count = 0;
    for (const simba_request *r = self->submitted; r; r = r->next)
        count++;
    for (const simba__sqlite_probe *p = self->probes; p; p = p->next)
        count++;
    return count;
}

/* Returns when the last of its requests is over. Looks alone are repeated after a while. */
static simba_local fill_batch(sqlite_store *self)
{
    simba_local until = self->submitted ? (simba_local){0} : after(self, PROBE_PATIENCE_NS);
    self->batch.writes = self->batch.grants = false;
    for (simba_request *r; (r = take_request(self)) != NULL;) {
        simba__sqlite_batch_item *item = simba__sqlite_batch_add(&self->batch, r);
        item->request = r;
        r->backend_data = item;
        self->batch.writes |= r->op != SIMBA_OP_READ && r->op != SIMBA_OP_LIST && r->op != SIMBA_OP_READ_NOTE;
        self->batch.grants |= r->op != SIMBA_OP_RELEASE;
        if (r->deadline.ns > until.ns)
            until = r->deadline;
    }
    for (simba__sqlite_probe *probe; (probe = take_probe(self)) != NULL;) {
        simba__sqlite_batch_item *item =
            simba__sqlite_batch_add(&self->batch, &(simba_request){.op = SIMBA_OP_READ, .mutex = probe->mutex});
        item->probe = probe;
        self->batch.grants = true;
    }
    self->batch.watches = self->watches.count > 0;
    return until;
}

/* May a thread that waits for an outcome carry out the batch, although it cannot stop half-way? */
static bool is_short(const sqlite_store *self)
{
    bool is_short = self->batch.count > 0 && self->batch.count <= SHORT_BATCH;
    for (size_t i = 0; i < self->batch.count && is_short; i++)
        is_short = self->batch.items[i].ask.op != SIMBA_OP_LIST;
    return is_short;
}

/* Begin a batch with all that was submitted, if none runs. */
static void start(sqlite_store *self)
{
    if (self->running || self->closing || !has_work(self))
        return;
    if (!simba__sqlite_batch_reserve(&self->batch, count_submitted(self))) {
        fail_submitted(self, SIMBA_ENOMEM, "sqlite: out of memory");
        return;
    }
    self->batch_until = fill_batch(self);
    self->refresh_wanted = false;
    self->running = true;
    self->host->work(self->host, &self->job);
}

static bool run_batch(simba_job *job, simba_local until)
{
    sqlite_store *self = store_of_job(job);
    const bool hurried = until.ns != INT64_MAX;
    if (hurried && !is_short(self))
        return false;
    simba__sqlite_busy_set(&self->batch.db.busy, until.ns < self->batch_until.ns ? until : self->batch_until);
    simba__sqlite_batch_run(&self->batch);
    return !(hurried && self->batch.error.code == SIMBA_ETIMEDOUT);
}

static bool make_fifo(sqlite_store *self);

/* The store is open, so the file exists, is ours and can be written. Report the rest. */
static void examine(sqlite_store *self, simba_request *request)
{
    const bool sync_full = self->batch.db.sync_full;
    const bool wakes = make_fifo(self);
    const simba__sqlite_share *share = &self->batch.db.share;
    simba_error unshared = {0};
    const bool shared = simba__sqlite_share_verify(share, self->batch.db.path, &unshared) == 0;
    char schema[512];
    snprintf(schema, sizeof schema, "%s has the tables of this version.", self->batch.db.path);
    const simba_finding findings[] = {
        {sizeof(simba_finding), SIMBA_VERDICT_OK, "schema", schema, NULL},
        {sizeof(simba_finding), SIMBA_VERDICT_OK, "durability",
         sync_full ? "sync=full: what was granted survives a power failure."
                   : "sync=normal: a power failure may undo the latest grants, whose holders it ends as well.",
         NULL},
        {sizeof(simba_finding), wakes ? SIMBA_VERDICT_OK : SIMBA_VERDICT_WARNING, "wake-ups",
         wakes ? "Waiters learn of a release at once." : "Waiters poll for a release: they cannot be woken.",
         wakes ? NULL
               : "See that FIFOs can be made in the folder of the database, and for at most 1024 clients at a time."},
        {sizeof(simba_finding), shared ? SIMBA_VERDICT_OK : SIMBA_VERDICT_BROKEN, "users",
         shared ? "Mode and group of all files are as the URL says." : unshared.text,
         shared ? NULL : "Run `simba init` with the same URL, as the owner of these files or as root."},
    };
    const size_t count = sizeof findings / sizeof findings[0] - !share->given; /* the last is about the URL */
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = self->host->found(self->host, request, &findings[i]);
    memset(&request->reply, 0, sizeof request->reply);
    if (rc < 0)
        self->host->fail(self->host, request, rc, "sqlite: out of memory");
    else
        self->host->complete(self->host, request);
}

/* Opening has created everything. A database that is older than the URL may have another mode and group. */
static void prepare(sqlite_store *self, simba_request *request)
{
    simba_error error = {0};
    const int rc = simba__sqlite_share_apply(&self->batch.db.share, self->batch.db.path, &error);
    memset(&request->reply, 0, sizeof request->reply);
    if (rc < 0)
        self->host->fail(self->host, request, rc, "%s", error.text);
    else
        self->host->complete(self->host, request);
}

static void sqlite_submit(void *instance, simba_request *request)
{
    sqlite_store *self = instance;
    if (request->op == SIMBA_OP_EXAMINE) {
        examine(self, request);
        return;
    }
    if (request->op == SIMBA_OP_PREPARE) {
        prepare(self, request);
        return;
    }
    request->next = NULL;
    request->backend_data = NULL; /* it is not in a batch yet */
    *self->submitted_end = request;
    self->submitted_end = &request->next;
}

/* A request of a transaction that has begun is answered with it. */
static void sqlite_expire(void *instance, simba_request *request)
{
    sqlite_store *self = instance;
    const bool locked = self->running && simba__sqlite_busy_waits(&self->batch.db.busy);
    if (request->backend_data && !simba__sqlite_batch_expire(&self->batch, request))
        return;
    if (!request->backend_data)
        forget_request(self, request);
    self->host->fail(self->host, request, SIMBA_ETIMEDOUT, "sqlite: %s: %s", self->batch.db.path,
                     locked ? "locked by another process" : "no answer in time");
}

static void sqlite_flush(void *instance)
{
    start(instance);
}

static void sqlite_woken(void *instance)
{
    start(instance);
}

/* The log names the rows that cannot be read, and the list shows the others. */
static void complete_list(sqlite_store *self, const simba__sqlite_batch_item *item)
{
    simba_request *request = item->request;
    int rc = 0;
    unsigned faults = 0;
    for (const simba__sqlite_listing *found = item->found; found && rc == 0; found = found->next) {
        if (found->fault) {
            if (faults++ < FAULTS_NAMED)
                self->host->log(self->host, SIMBA_LOG_WARN, "%s; it is not listed", found->fault);
            continue;
        }
        const simba_listing listing = {.size = sizeof listing,
                                       .mutex = found->text,
                                       .owner = &found->owner,
                                       .now_ms = found->now_ms,
                                       .waiters = -1,
                                       .note = found->note.bytes,
                                       .note_length = found->note.size,
                                       .note_token = found->note.token,
                                       .note_written_at_ms = found->note.written_at_ms};
        rc = self->host->listed(self->host, request, &listing);
    }
    if (faults > FAULTS_NAMED)
        self->host->log(self->host, SIMBA_LOG_WARN, "sqlite: %s: %u more mutexes are damaged and not listed",
                        self->batch.db.path, faults - FAULTS_NAMED);
    memset(&request->reply, 0, sizeof request->reply);
    if (rc < 0)
        self->host->fail(self->host, request, rc, "sqlite: out of memory");
    else
        self->host->complete(self->host, request);
}

static void look(void *user, simba__sqlite_watch *watched);
static void requeue(sqlite_store *self, const simba__sqlite_batch_item *item);
static void become_reserve(sqlite_store *self);

static void looked(sqlite_store *self, simba__sqlite_probe *probe)
{
    simba__sqlite_watch *watched = probe->watched;
    free_probe(self, probe, false);
    /* The mutex has changed again while we looked. */
    if (watched &&
        watched->known != simba__sqlite_notify_read(self->batch.notify, simba__sqlite_notify_slot(watched->hash)))
        look(self, watched);
}

static void complete(sqlite_store *self, simba__sqlite_batch_item *item)
{
    const simba__sqlite_effect *effect = &item->effect;
    simba_request *request = item->request;
    if (item->probe && effect->code < 0) {
        free_probe(self, item->probe, true);
    } else if (item->probe) {
        looked(self, item->probe);
    } else if (!request) {
        return; /* it was taken out */
    } else if (effect->code < 0) {
        self->host->fail(self->host, request, effect->code, "%s",
                         effect->fault ? effect->fault : "sqlite: out of memory");
    } else if (request->op == SIMBA_OP_LIST) {
        complete_list(self, item);
    } else {
        if (item->note)
            self->host->noted(self->host, request, &item->note->stored);
        request->reply = item->ask.reply;
        self->host->complete(self->host, request);
    }
}

typedef void (*each_fn)(simba__sqlite_watches *watches, const simba__sqlite_effect *effect,
                        const simba_request *request);

static void tell_news(sqlite_store *self, each_fn each)
{
    for (size_t i = 0; i < self->batch.count; i++) {
        const simba__sqlite_batch_item *item = &self->batch.items[i];
        if (item->effect.code == 0 && item->ask.op != SIMBA_OP_LIST)
            each(&self->watches, &item->effect, &item->ask);
    }
}

static void answer_batch(sqlite_store *self)
{
    tell_news(self, simba__sqlite_watches_record);
    for (size_t i = 0; i < self->batch.count; i++)
        if (self->batch.items[i].effect.code == 0 && self->batch.items[i].effect.marked)
            simba__sqlite_watches_marked(&self->watches, &self->batch.items[i].effect);
    tell_news(self, simba__sqlite_watches_push);
    for (size_t i = 0; i < self->batch.count; i++) {
        simba__sqlite_batch_item *item = &self->batch.items[i];
        if (item->effect.code == 0) {
            simba__sqlite_grants_record(&self->grants, &item->effect, &item->ask);
            requeue(self, item);
        }
        complete(self, item);
    }
    if (self->batch.reserve)
        become_reserve(self);
}

/* Looks that ran out of time are repeated. */
static void fail_batch(sqlite_store *self)
{
    const simba_error *error = &self->batch.error;
    for (size_t i = 0; i < self->batch.count; i++) {
        const simba__sqlite_batch_item *item = &self->batch.items[i];
        if (item->probe && error->code == SIMBA_ETIMEDOUT)
            append_probe(self, item->probe);
        else if (item->probe)
            free_probe(self, item->probe, true);
        else if (item->request && self->closing && error->code == SIMBA_ETIMEDOUT)
            self->host->fail(self->host, item->request, SIMBA_ECANCELED, "sqlite: the client closes");
        else if (item->request)
            self->host->fail(self->host, item->request, error->code, "%s", error->text);
    }
}

/* --- news from other processes ------------------------------------------------------------------------ */

static void look(void *user, simba__sqlite_watch *watched)
{
    sqlite_store *self = user;
    if (watched->probe)
        return;
    const char *mutex = watched->topic->mutex;
    simba__sqlite_probe *probe = simba__malloc(sizeof *probe + strlen(mutex) + 1);
    if (!probe) {
        const simba_push push = {.kind = SIMBA_PUSH_CHANGED};
        self->host->push(self->host, watched->topic, &push);
        return;
    }
    strcpy(probe->mutex, mutex);
    probe->watched = watched;
    watched->probe = probe;
    append_probe(self, probe);
    /* Do not start a batch here: requests that follow from the push can go along at the end of the turn. */
    self->host->wake(self->host);
}

static void scan(sqlite_store *self)
{
    simba__sqlite_watches_scan(&self->watches, self->batch.notify, look, self);
}

static void on_fifo(simba_io *fifo, unsigned events)
{
    (void)events;
    sqlite_store *self = (sqlite_store *)(void *)((char *)fifo - offsetof(sqlite_store, fifo));
    const unsigned rings = simba__sqlite_fifo_drain(&self->batch.notify->fifo);
    if (rings & SIMBA__SQLITE_SIGNAL_CHANGES)
        scan(self);
    if (rings & SIMBA__SQLITE_SIGNAL_REVOKED)
        simba__sqlite_grants_scan(&self->grants, self->batch.notify);
    if (rings & SIMBA__SQLITE_SIGNAL_RESERVE)
        become_reserve(self);
}

/* Without a fifo, the client does not listen either. */
static void remove_fifo(sqlite_store *self)
{
    self->host->io_remove(self->host, &self->fifo);
    self->fifo.fd = -1;
    simba__sqlite_notify_leave(self->batch.notify);
}

/* A fifo is a comfort: without one, the client polls. So it warns once that it has none; and not at all if other
 * clients have taken all of them. */
static bool make_fifo(sqlite_store *self)
{
    if (self->fifo.fd >= 0)
        return true;
    int rc = simba__sqlite_notify_attend(self->batch.notify, self->host->random(self->host));
    self->fifo = (simba_io){.ready = on_fifo, .fd = self->batch.notify->fifo.fd, .interest = SIMBA_READABLE};
    if (rc == 0 && self->host->io_add(self->host, &self->fifo) < 0) {
        rc = -ENOMEM;
        remove_fifo(self);
    }
    if (rc < 0 && rc != -EUSERS && !self->fifo_failed) {
        self->fifo_failed = true;
        self->host->log(self->host, SIMBA_LOG_WARN,
                        "sqlite: %s: cannot be used (%s): releases by other processes are polled for",
                        self->batch.notify->fifos, strerror(-rc));
    }
    return rc == 0;
}

static uint32_t now_ms(const sqlite_store *self)
{
    return (uint32_t)(simba__sqlite_batch_host_ns(&self->batch) / SIMBA__NS_PER_MS);
}

/* Say in the notify file what we wait for in this line. */
static void write_entry(sqlite_store *self, size_t line)
{
    if (!self->wants_all)
        simba__sqlite_notify_write_entry(self->batch.notify, line, simba__sqlite_watches_entry(&self->watches, line));
}

static void subscribe(const sqlite_store *self)
{
    simba__sqlite_notify_subscribe(self->batch.notify, SIMBA__SQLITE_WANTS_REVOCATIONS |
                                                           (self->wants_all ? SIMBA__SQLITE_WANTS_ALL_MARKS : 0));
}

/* Write all of that, because somebody may have truncated the file, or because we have not written it yet. A client that
 * begins to hear of all marks leaves its places in the lines: with a place before others it would be invited to mutexes
 * that it may not want any more. */
static void write_all(sqlite_store *self)
{
    const bool leaves = !self->wants_all && self->watches.count > PLACES;
    self->wants_all |= leaves;
    subscribe(self);
    for (size_t slot = 0; slot < SIMBA__SQLITE_NOTIFY_SLOTS; slot++) {
        if (self->watches.by_slot[slot] && leaves)
            simba__sqlite_notify_write_entry(self->batch.notify, slot % SIMBA__SQLITE_QUEUES, 0);
        else if (self->watches.by_slot[slot])
            write_entry(self, slot % SIMBA__SQLITE_QUEUES);
    }
}

/* A grant uses up the turn in the line. If another contender of this client waits for the mutex, it lines up again
 * behind those of other processes. */
static void requeue(sqlite_store *self, const simba__sqlite_batch_item *item)
{
    simba__sqlite_watch *watched = simba__sqlite_watches_find(&self->watches, item->effect.hash, item->ask.mutex);
    if (!watched || item->ask.op != SIMBA_OP_ACQUIRE || item->ask.reply.outcome != SIMBA_MINE)
        return;
    watched->since_ms = now_ms(self);
    write_entry(self, simba__sqlite_queue_number(watched->hash));
}

static void begin_listening(sqlite_store *self)
{
    if (self->listening)
        return;
    self->listening = true;
    const bool hangs = make_fifo(self);
    simba__sqlite_notify_listen(self->batch.notify);
    write_all(self);
    self->host->timer_set(self->host, &self->tick, after(self, hangs ? POLL_NS : POLL_WITHOUT_FIFO_NS));
}

static void end_listening(sqlite_store *self)
{
    simba__sqlite_notify_unlisten(self->batch.notify);
    self->listening = self->wants_all = false;
    subscribe(self);
}

/* The database and its notify file have been replaced. */
static void adopt_fresh(sqlite_store *self)
{
    const bool listening = self->listening;
    const bool had_fifo = self->fifo.fd >= 0;
    self->listening = false;
    remove_fifo(self);
    simba__sqlite_notify_close(self->batch.notify);
    self->batch.notify = self->batch.fresh;
    self->batch.fresh = NULL;
    simba__sqlite_watches_forget(&self->watches);
    simba__sqlite_grants_ask_all(&self->grants);
    if (listening)
        begin_listening(self);
    else if (had_fifo)
        make_fifo(self);
}

/* A contender that holds a mutex only for a moment needs no fifo. The scan finds what was revoked before the fifo
 * hangs. */
static void attend_soon(sqlite_store *self)
{
    if (self->attends || simba__sqlite_grants_is_empty(&self->grants))
        return;
    self->attends = true;
    self->host->timer_set(self->host, &self->attend, after(self, ATTEND_NS));
}

static void on_attend(simba_timer *timer, simba_local now)
{
    (void)now;
    sqlite_store *self = (sqlite_store *)(void *)((char *)timer - offsetof(sqlite_store, attend));
    make_fifo(self);
    simba__sqlite_grants_scan(&self->grants, self->batch.notify);
}

static void become_reserve(sqlite_store *self)
{
    if (self->reserve)
        return;
    self->reserve = true;
    self->host->timer_set(self->host, &self->reserve_timer, after(self, RESERVE_NS));
}

static void on_reserve(simba_timer *timer, simba_local now)
{
    (void)now;
    sqlite_store *self = (sqlite_store *)(void *)((char *)timer - offsetof(sqlite_store, reserve_timer));
    self->reserve = false;
    simba__sqlite_watches_retry(&self->watches, self->batch.notify);
}

/* The slow poll in case the fifo was not signalled, while something is watched. A while after the last unwatch it stops
 * listening: lockers that come and go should not cost a system call each. */
static void on_tick(simba_timer *timer, simba_local now)
{
    sqlite_store *self = (sqlite_store *)(void *)((char *)timer - offsetof(sqlite_store, tick));
    if (self->watches.count == 0) {
        end_listening(self);
        return;
    }
    if (self->fifo.fd >= 0 && !simba__sqlite_fifo_is_current(&self->batch.notify->fifo, self->batch.notify->fifos))
        remove_fifo(self);
    const bool hangs = make_fifo(self);
    simba__sqlite_notify_listen(self->batch.notify);
    write_all(self);
    simba__sqlite_watches_retry(&self->watches, self->batch.notify);
    scan(self);
    if (!simba__sqlite_notify_is_current(self->batch.notify)) {
        self->refresh_wanted = true;
        self->host->wake(self->host);
    }
    self->host->timer_set(self->host, timer, (simba_local){now.ns + (hangs ? POLL_NS : POLL_WITHOUT_FIFO_NS)});
}

static int sqlite_watch(void *instance, simba_topic *topic)
{
    sqlite_store *self = instance;
    simba__sqlite_watch *watched = simba__sqlite_watches_add(&self->watches, topic, now_ms(self));
    if (!watched)
        return SIMBA_ENOMEM;
    topic->backend_data = watched;
    /* Listen before the look; otherwise a mark between the two would go unheard. */
    begin_listening(self);
    if (self->watches.count == PLACES + 1)
        write_all(self);
    else
        write_entry(self, simba__sqlite_queue_number(watched->hash));
    look(self, watched);
    return 0;
}

static void sqlite_unwatch(void *instance, simba_topic *topic)
{
    sqlite_store *self = instance;
    simba__sqlite_watch *watched = topic->backend_data;
    if (watched->probe)
        watched->probe->watched = NULL;
    const size_t line = simba__sqlite_queue_number(watched->hash);
    simba__sqlite_watches_remove(&self->watches, watched);
    write_entry(self, line);
    topic->backend_data = NULL;
}

/* --- beginning and end --------------------------------------------------------------------------------- */

static void closed_if_idle(sqlite_store *self)
{
    if (self->closing && !self->running)
        self->host->closed(self->host);
}

static void batch_done(simba_job *job)
{
    sqlite_store *self = store_of_job(job);
    self->running = false;
    const bool renewed = self->batch.fresh != NULL;
    if (self->batch.opened)
        self->host->log(self->host, SIMBA_LOG_WARN, "sqlite: %s was deleted, replaced or damaged; it was opened anew",
                        self->batch.db.path);
    if (renewed)
        adopt_fresh(self);
    if (self->batch.error.code < 0)
        fail_batch(self);
    else
        answer_batch(self);
    simba__sqlite_batch_answered(&self->batch);
    if (!self->closing)
        attend_soon(self);
    if (renewed && !self->closing)
        scan(self);
    if (self->closing)
        fail_submitted(self, SIMBA_ECANCELED, "sqlite: the client closes");
    else if (has_work(self))
        self->host->wake(self->host); /* with the requests that these answers lead to */
    closed_if_idle(self);
}

static int sqlite_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    sqlite_store *self = instance;
    self->host = host;
    self->fifo.fd = -1;
    self->submitted_end = &self->submitted;
    self->job.run = run_batch;
    self->job.done = batch_done;
    self->tick.fire = on_tick;
    self->attend.fire = on_attend;
    self->reserve_timer.fire = on_reserve;
    simba__sqlite_watches_init(&self->watches, host);
    simba__sqlite_grants_init(&self->grants, host);

    const char *path = NULL;
    bool sync_full = false;
    int rc = simba__sqlite_read_url(url, &path, &sync_full, err);
    if (rc == 0)
        rc = simba__sqlite_share_read(url, &self->batch.db.share, err);
    if (rc == 0)
        rc = simba__sqlite_batch_init(&self->batch, host, path, sync_full, err);
    if (rc == 0 && (host->timer_add(host, &self->tick) < 0 || host->timer_add(host, &self->attend) < 0 ||
                    host->timer_add(host, &self->reserve_timer) < 0))
        rc = simba__fail(err, SIMBA_ENOMEM, "sqlite: out of memory");
    return rc;
}

static void sqlite_close(void *instance)
{
    sqlite_store *self = instance;
    self->closing = true;
    simba__sqlite_busy_end(&self->batch.db.busy);
    fail_submitted(self, SIMBA_ECANCELED, "sqlite: the client closes");
    self->host->timer_clear(self->host, &self->tick);
    self->host->timer_clear(self->host, &self->attend);
    self->host->timer_clear(self->host, &self->reserve_timer);
    remove_fifo(self);
    closed_if_idle(self);
}

static void sqlite_fini(void *instance)
{
    sqlite_store *self = instance;
    for (size_t slot = 0; slot < SIMBA__SQLITE_NOTIFY_SLOTS; slot++)
        while (self->watches.by_slot[slot])
            simba__sqlite_watches_remove(&self->watches, self->watches.by_slot[slot]);
    simba__sqlite_grants_fini(&self->grants);
    simba__sqlite_batch_fini(&self->batch);
}

static const char *const schemes[] = {SIMBA__SCHEMES_sqlite, NULL};
static const char *const keys[] = {"sync", "mode", "group", NULL};

const simba_backend simba__backend_sqlite = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(sqlite_store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE | SIMBA_CAP_PREPARE |
            SIMBA_CAP_HOST_ONLY | SIMBA_CAP_NOTE,
    .window = WINDOW,
    .workers = 1,
    .init = sqlite_init,
    .submit = sqlite_submit,
    .expire = sqlite_expire,
    .flush = sqlite_flush,
    .watch = sqlite_watch,
    .unwatch = sqlite_unwatch,
    .woken = sqlite_woken,
    .close = sqlite_close,
    .fini = sqlite_fini,
};
