/* The SQLite store: the contract of simba/backend.h over a file that the processes of one host share.
 *
 * There is one connection, and one batch runs at a time: what the client submits while it runs goes into the next one. A batch is
 * one transaction, so the requests of one moment cost one commit. While another process is writing, the batch waits, and its
 * requests fail one by one when their time is over.
 *
 * The boot-time clock of the host judges leases, together with the boot id: nobody can set that clock, all processes
 * share it, and a lease of an earlier boot has ended. See db.c for durability, news.h for how waiters are woken. */
#include "backends/sqlite/sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/schemes.h"
#include "backends/sqlite/batch.h"
#include "backends/sqlite/held.h"
#include "backends/sqlite/news.h"
#include "backends/sqlite/notify.h"
#include "backends/sqlite/options.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

#define PROBE_PATIENCE_NS (4000 * SIMBA__NS_PER_MS)
#define WINDOW 1024    /* a batch has at most twice as many requests: other processes want to write too */
#define SHORT_BATCH 64 /* a thread of the application carries out no batch with more requests */
#define POLL_NS (1000 * SIMBA__NS_PER_MS) /* how often to look in case the bell was not rung */
#define POLL_WITHOUT_BELL_NS (250 * SIMBA__NS_PER_MS)
#define ATTEND_NS (100 * SIMBA__NS_PER_MS) /* how long a mutex has to be held before we hang a bell for revocations */
#define STEP_IN_NS (20 * SIMBA__NS_PER_MS) /* how long the next in line has to take a free mutex */
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

    simba__sqlite_news news;
    simba__sqlite_held held;
    simba_timer tick;
    simba_timer attend; /* when to hang a bell for revocations */
    simba_timer step_in;
    bool attends;    /* the timer `attend` is set, or the bell hangs */
    bool in_reserve; /* the timer step_in is set */
    simba_io bell;   /* a descriptor of -1: it does not hang */
    bool bell_failed;
    bool listening;
    bool hears_all; /* every mark concerns us, whatever its mutex */
} sqlite_store;

/* A look at a watched mutex: a READ of our own among the requests. */
struct simba__sqlite_probe {
    simba__sqlite_probe *next;
    simba__sqlite_watched *watched; /* NULL: nobody watches it any more */
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
    self->news.rescan |= failed; /* the next tick tries again */
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
    self->batch.watches = self->news.count > 0;
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
    simba__sqlite_patience_set(&self->batch.db.patience, until.ns < self->batch_until.ns ? until : self->batch_until);
    simba__sqlite_batch_run(&self->batch);
    return !(hurried && self->batch.error.code == SIMBA_ETIMEDOUT);
}

static bool hang_bell(sqlite_store *self);

/* The store is open, so the file exists, is ours and can be written. Report the rest. */
static void examine(sqlite_store *self, simba_request *request)
{
    const bool sync_full = self->batch.db.sync_full;
    const bool wakes = hang_bell(self);
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
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof findings / sizeof findings[0] && rc == 0; i++)
        rc = self->host->found(self->host, request, &findings[i]);
    memset(&request->reply, 0, sizeof request->reply);
    if (rc < 0)
        self->host->fail(self->host, request, rc, "sqlite: out of memory");
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
    request->next = NULL;
    request->backend_data = NULL; /* it is not in a batch yet */
    *self->submitted_end = request;
    self->submitted_end = &request->next;
}

/* A request of a transaction that has begun is answered with it. */
static void sqlite_expire(void *instance, simba_request *request)
{
    sqlite_store *self = instance;
    const bool locked = self->running && simba__sqlite_patience_waits(&self->batch.db.patience);
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

static void look(void *user, simba__sqlite_watched *watched);
static void line_up_again(sqlite_store *self, const simba__sqlite_batch_item *item);
static void wait_in_reserve(sqlite_store *self);

static void looked(sqlite_store *self, simba__sqlite_probe *probe)
{
    simba__sqlite_watched *watched = probe->watched;
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

typedef void (*each_fn)(simba__sqlite_news *news, const simba__sqlite_effect *effect, const simba_request *request);

static void tell_news(sqlite_store *self, each_fn each)
{
    for (size_t i = 0; i < self->batch.count; i++) {
        const simba__sqlite_batch_item *item = &self->batch.items[i];
        if (item->effect.code == 0 && item->ask.op != SIMBA_OP_LIST)
            each(&self->news, &item->effect, &item->ask);
    }
}

static void answer_batch(sqlite_store *self)
{
    tell_news(self, simba__sqlite_news_heard);
    for (size_t i = 0; i < self->batch.count; i++)
        if (self->batch.items[i].effect.code == 0 && self->batch.items[i].effect.marked)
            simba__sqlite_news_rang(&self->news, &self->batch.items[i].effect);
    tell_news(self, simba__sqlite_news_tell);
    for (size_t i = 0; i < self->batch.count; i++) {
        simba__sqlite_batch_item *item = &self->batch.items[i];
        if (item->effect.code == 0) {
            simba__sqlite_held_note(&self->held, &item->effect, &item->ask);
            line_up_again(self, item);
        }
        complete(self, item);
    }
    if (self->batch.in_reserve)
        wait_in_reserve(self);
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

static void look(void *user, simba__sqlite_watched *watched)
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
    simba__sqlite_news_scan(&self->news, self->batch.notify, look, self);
}

static void on_bell(simba_io *bell, unsigned events)
{
    (void)events;
    sqlite_store *self = (sqlite_store *)(void *)((char *)bell - offsetof(sqlite_store, bell));
    const unsigned rings = simba__sqlite_bell_drain(&self->batch.notify->bell);
    if (rings & SIMBA__SQLITE_RING_NEWS)
        scan(self);
    if (rings & SIMBA__SQLITE_RING_REVOKED)
        simba__sqlite_held_scan(&self->held, self->batch.notify);
    if (rings & SIMBA__SQLITE_RING_IN_RESERVE)
        wait_in_reserve(self);
}

/* Without a bell, the client does not listen either. */
static void take_down_bell(sqlite_store *self)
{
    self->host->io_remove(self->host, &self->bell);
    self->bell.fd = -1;
    simba__sqlite_notify_leave(self->batch.notify);
}

/* A bell is a comfort: without one, the client polls. So it warns once that it has none; and not at all if other
 * clients have taken all of them. */
static bool hang_bell(sqlite_store *self)
{
    if (self->bell.fd >= 0)
        return true;
    int rc = simba__sqlite_notify_attend(self->batch.notify, self->host->random(self->host));
    self->bell = (simba_io){.ready = on_bell, .fd = self->batch.notify->bell.fd, .interest = SIMBA_READABLE};
    if (rc == 0 && self->host->io_add(self->host, &self->bell) < 0) {
        rc = -ENOMEM;
        take_down_bell(self);
    }
    if (rc < 0 && rc != -EUSERS && !self->bell_failed) {
        self->bell_failed = true;
        self->host->log(self->host, SIMBA_LOG_WARN,
                        "sqlite: %s: cannot be used (%s): releases by other processes are polled for",
                        self->batch.notify->bells, strerror(-rc));
    }
    return rc == 0;
}

static uint32_t now_ms(const sqlite_store *self)
{
    return (uint32_t)(simba__sqlite_batch_host_ns(&self->batch) / SIMBA__NS_PER_MS);
}

/* Say in the notify file what we wait for in this line. */
static void say_place(sqlite_store *self, size_t line)
{
    if (!self->hears_all)
        simba__sqlite_notify_say_place(self->batch.notify, line, simba__sqlite_news_place(&self->news, line));
}

static void say_ears(const sqlite_store *self)
{
    simba__sqlite_notify_say_ears(self->batch.notify, SIMBA__SQLITE_HEARS_REVOCATIONS |
                                                          (self->hears_all ? SIMBA__SQLITE_HEARS_ALL_MARKS : 0));
}

/* Write all of that, because somebody may have truncated the file, or because we have not written it yet. A client that
 * begins to hear of all marks leaves its places in the lines: with a place before others it would be invited to mutexes
 * that it may not want any more. */
static void say_all(sqlite_store *self)
{
    const bool leaves = !self->hears_all && self->news.count > PLACES;
    self->hears_all |= leaves;
    say_ears(self);
    for (size_t slot = 0; slot < SIMBA__SQLITE_NOTIFY_SLOTS; slot++) {
        if (self->news.watched[slot] && leaves)
            simba__sqlite_notify_say_place(self->batch.notify, slot % SIMBA__SQLITE_LINES, 0);
        else if (self->news.watched[slot])
            say_place(self, slot % SIMBA__SQLITE_LINES);
    }
}

/* A grant uses up the turn in the line. If another contender of this client waits for the mutex, it lines up again
 * behind those of other processes. */
static void line_up_again(sqlite_store *self, const simba__sqlite_batch_item *item)
{
    simba__sqlite_watched *watched = simba__sqlite_news_find(&self->news, item->effect.hash, item->ask.mutex);
    if (!watched || item->ask.op != SIMBA_OP_ACQUIRE || item->ask.reply.outcome != SIMBA_MINE)
        return;
    watched->since_ms = now_ms(self);
    say_place(self, simba__sqlite_line_number(watched->hash));
}

static void begin_listening(sqlite_store *self)
{
    if (self->listening)
        return;
    self->listening = true;
    const bool hangs = hang_bell(self);
    simba__sqlite_notify_listen(self->batch.notify);
    say_all(self);
    self->host->timer_set(self->host, &self->tick, after(self, hangs ? POLL_NS : POLL_WITHOUT_BELL_NS));
}

static void end_listening(sqlite_store *self)
{
    simba__sqlite_notify_unlisten(self->batch.notify);
    self->listening = self->hears_all = false;
    say_ears(self);
}

/* The database and its notify file have been replaced. */
static void adopt_fresh(sqlite_store *self)
{
    const bool listening = self->listening;
    const bool had_bell = self->bell.fd >= 0;
    self->listening = false;
    take_down_bell(self);
    simba__sqlite_notify_close(self->batch.notify);
    self->batch.notify = self->batch.fresh;
    self->batch.fresh = NULL;
    simba__sqlite_news_forget(&self->news);
    simba__sqlite_held_ask_all(&self->held);
    if (listening)
        begin_listening(self);
    else if (had_bell)
        hang_bell(self);
}

/* A contender that holds a mutex only for a moment needs no bell. The scan finds what was revoked before the bell
 * hangs. */
static void attend_soon(sqlite_store *self)
{
    if (self->attends || simba__sqlite_held_is_empty(&self->held))
        return;
    self->attends = true;
    self->host->timer_set(self->host, &self->attend, after(self, ATTEND_NS));
}

static void on_attend(simba_timer *timer, simba_local now)
{
    (void)now;
    sqlite_store *self = (sqlite_store *)(void *)((char *)timer - offsetof(sqlite_store, attend));
    hang_bell(self);
    simba__sqlite_held_scan(&self->held, self->batch.notify);
}

static void wait_in_reserve(sqlite_store *self)
{
    if (self->in_reserve)
        return;
    self->in_reserve = true;
    self->host->timer_set(self->host, &self->step_in, after(self, STEP_IN_NS));
}

static void on_step_in(simba_timer *timer, simba_local now)
{
    (void)now;
    sqlite_store *self = (sqlite_store *)(void *)((char *)timer - offsetof(sqlite_store, step_in));
    self->in_reserve = false;
    simba__sqlite_news_step_in(&self->news, self->batch.notify);
}

/* The slow poll in case the bell was not rung, while something is watched. A while after the last unwatch it stops
 * listening: lockers that come and go should not cost a system call each. */
static void on_tick(simba_timer *timer, simba_local now)
{
    sqlite_store *self = (sqlite_store *)(void *)((char *)timer - offsetof(sqlite_store, tick));
    if (self->news.count == 0) {
        end_listening(self);
        return;
    }
    if (self->bell.fd >= 0 && !simba__sqlite_bell_is_current(&self->batch.notify->bell, self->batch.notify->bells))
        take_down_bell(self);
    const bool hangs = hang_bell(self);
    simba__sqlite_notify_listen(self->batch.notify);
    say_all(self);
    simba__sqlite_news_step_in(&self->news, self->batch.notify);
    scan(self);
    if (!simba__sqlite_notify_is_current(self->batch.notify)) {
        self->refresh_wanted = true;
        self->host->wake(self->host);
    }
    self->host->timer_set(self->host, timer, (simba_local){now.ns + (hangs ? POLL_NS : POLL_WITHOUT_BELL_NS)});
}

static int sqlite_watch(void *instance, simba_topic *topic)
{
    sqlite_store *self = instance;
    simba__sqlite_watched *watched = simba__sqlite_news_add(&self->news, topic, now_ms(self));
    if (!watched)
        return SIMBA_ENOMEM;
    topic->backend_data = watched;
    /* Listen before the look; otherwise a mark between the two would go unheard. */
    begin_listening(self);
    if (self->news.count == PLACES + 1)
        say_all(self);
    else
        say_place(self, simba__sqlite_line_number(watched->hash));
    look(self, watched);
    return 0;
}

static void sqlite_unwatch(void *instance, simba_topic *topic)
{
    sqlite_store *self = instance;
    simba__sqlite_watched *watched = topic->backend_data;
    if (watched->probe)
        watched->probe->watched = NULL;
    const size_t line = simba__sqlite_line_number(watched->hash);
    simba__sqlite_news_remove(&self->news, watched);
    say_place(self, line);
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
    self->bell.fd = -1;
    self->submitted_end = &self->submitted;
    self->job.run = run_batch;
    self->job.done = batch_done;
    self->tick.fire = on_tick;
    self->attend.fire = on_attend;
    self->step_in.fire = on_step_in;
    simba__sqlite_news_init(&self->news, host);
    simba__sqlite_held_init(&self->held, host);

    const char *path = NULL;
    bool sync_full = false;
    int rc = simba__sqlite_read_url(url, &path, &sync_full, err);
    if (rc == 0)
        rc = simba__sqlite_batch_init(&self->batch, host, path, sync_full, err);
    if (rc == 0 && (host->timer_add(host, &self->tick) < 0 || host->timer_add(host, &self->attend) < 0 ||
                    host->timer_add(host, &self->step_in) < 0))
        rc = simba__fail(err, SIMBA_ENOMEM, "sqlite: out of memory");
    return rc;
}

static void sqlite_close(void *instance)
{
    sqlite_store *self = instance;
    self->closing = true;
    simba__sqlite_patience_end(&self->batch.db.patience);
    fail_submitted(self, SIMBA_ECANCELED, "sqlite: the client closes");
    self->host->timer_clear(self->host, &self->tick);
    self->host->timer_clear(self->host, &self->attend);
    self->host->timer_clear(self->host, &self->step_in);
    take_down_bell(self);
    closed_if_idle(self);
}

static void sqlite_fini(void *instance)
{
    sqlite_store *self = instance;
    for (size_t slot = 0; slot < SIMBA__SQLITE_NOTIFY_SLOTS; slot++)
        while (self->news.watched[slot])
            simba__sqlite_news_remove(&self->news, self->news.watched[slot]);
    simba__sqlite_held_fini(&self->held);
    simba__sqlite_batch_fini(&self->batch);
}

static const char *const schemes[] = {SIMBA__SCHEMES_sqlite, NULL};
static const char *const keys[] = {"sync", NULL};

const simba_backend simba__backend_sqlite = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(sqlite_store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE | SIMBA_CAP_HOST_ONLY |
            SIMBA_CAP_NOTE,
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
