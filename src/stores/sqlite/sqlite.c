/* The SQLite store: the contract of simba/backend.h over a file that the processes of one host share.
 *
 * What is stored (db.c has the tables):
 *   simba_lock     a row for each mutex: who owns it, until when, under which token; and the waiter that was called last
 *   simba_waiter   a row for each contender that waits, each observer, and each owner whose grant was forced away
 *   simba_note     the note of a mutex; the row '' keeps the greatest token of those that were forgotten
 *
 * Requests (decide.c has them):
 *   ACQUIRE   free, and not reserved for another: write the grant, drop our row, call the observers
 *             refused, and the contender waits: write a row 'w' in the same transaction; the place is that of the row
 *   RENEW     write the new end. Forced away: drop the row 'r'
 *   RELEASE   call the observers and the first waiter that lives, and reserve the mutex for it for 100 ms
 *             by one that only waited: drop its row; if it had been called, call the next
 *   FORCE     as RELEASE; and write a row 'r' for the owner
 *   notes     as core/row.c says, and call the observers
 *
 * Who wakes whom: the row is the message. To call somebody is to write the time into its row; after the commit its client gets a
 * datagram, which only says "look" (wake.c). A client that looks reads those of its rows that were called since it looked last,
 * and pushes RELEASED to the waiter, CHANGED to the owner or the observer. Enter the queue, take, release and be called are each
 * one transaction that excludes all others. So either a refusal comes first, and the release finds the row; or the release comes
 * first, and the acquire finds a free mutex. What a lost datagram or a killed process leaves undone is found by a look a
 * second: a waiter asks when its mutex is free and reserved for nobody any more.
 *
 * A client has one connection, and one batch runs at a time: what is submitted while it runs goes into the next one. While
 * another process is writing the batch waits, and its requests fail one by one when their time is over.
 *
 * The boot-time clock of the host judges leases, together with the boot id: nobody can set that clock, all processes
 * share it, and a lease of an earlier boot has ended. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stores/schemes.h"
#include "stores/sqlite/store.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

#define OPEN_TIMEOUT_NS (5000 * SIMBA__NS_PER_MS)
#define LOOK_TIMEOUT_NS (4000 * SIMBA__NS_PER_MS)
#define CLOSE_TIMEOUT_NS (100 * SIMBA__NS_PER_MS)
#define LOOK_NS (1000 * SIMBA__NS_PER_MS) /* how often to look if there is nothing to be heard */
#define LOOK_UNHEARD_NS (250 * SIMBA__NS_PER_MS)
#define WINDOW 1024    /* a batch has at most three times as many requests: other processes want to write too */
#define SHORT_BATCH 64 /* a thread of the application carries out no batch with more requests */

enum { FAULTS_NAMED = 10 }; /* how many damaged rows of one list the log names */

typedef struct sqlite_store {
    simba_host *host;
    simba_request *submitted, **submitted_end; /* requests for the next batch, */
    simba__sqlite_watch *changed;              /* rows 'o' to write or to remove, */
    simba__sqlite_look look;                   /* and what it looks for */
    bool closing;

    simba_job job;
    bool running;  /* it runs, and owns `batch` */
    bool is_short; /* a thread that waits for an outcome may carry it out, although it cannot stop half-way */
    simba_local batch_until;
    simba__sqlite_batch batch;

    simba__table watches; /* by nonce */
    simba_io socket;      /* a descriptor of -1: there is none */
    bool tried;           /* to make it; try again at the next look */
    bool warned;
    simba_timer timer;
    bool looks; /* the timer is set */
} sqlite_store;

static sqlite_store *store_of_job(simba_job *job)
{
    return (sqlite_store *)(void *)((char *)job - offsetof(sqlite_store, job));
}

/* --- the socket ----------------------------------------------------------------------------------------- */

static void on_datagram(simba_io *io, unsigned events)
{
    (void)events;
    sqlite_store *self = (sqlite_store *)(void *)((char *)io - offsetof(sqlite_store, socket));
    simba__sqlite_wake_drain(&self->batch.wake); /* before the look, which finds all that these were sent for */
    if (!self->look)
        self->look = SIMBA__SQLITE_LOOK_CALLED;
    self->host->wake(self->host);
}

static void close_socket(sqlite_store *self)
{
    self->host->io_remove(self->host, &self->socket);
    self->socket.fd = -1;
    self->tried = false;
    simba__sqlite_wake_close(&self->batch.wake, self->host->random(self->host), false);
}

/* Only while no batch runs. A socket is a comfort: a client that has none looks four times a second, and warns once. */
static void make_socket(sqlite_store *self)
{
    simba__sqlite_wake *wake = &self->batch.wake;
    if (!self->batch.db.handle)
        return;
    const char *database = simba__sqlite_db_real_path(&self->batch.db);
    int number = simba__sqlite_wake_open(wake, database, self->host->random(self->host));
    self->socket.fd = wake->fd;
    if (number == 0 && self->host->io_add(self->host, &self->socket) < 0) {
        number = ENOMEM;
        close_socket(self);
    }
    self->tried = true;
    self->batch.sweep = number == 0;
    if (number != 0 && !self->warned) {
        self->warned = true;
        self->host->log(self->host, SIMBA_LOG_WARN,
                        "sqlite: %s: cannot be used (%s): releases by other processes are polled for", wake->folder,
                        strerror(number));
    }
}

/* The next batch writes or removes its row. */
static void change(sqlite_store *self, simba__sqlite_watch *watch)
{
    if (watch->listed)
        return;
    watch->listed = true;
    watch->next = self->changed;
    self->changed = watch;
}

/* Nothing of what this client has written into simba_waiter may be left: its name was removed, or its database is another. */
static void enter_anew(sqlite_store *self)
{
    const simba_push ask = {.kind = SIMBA_PUSH_SESSION_BACK};
    for (simba__node *node = simba__table_first(&self->watches); node; node = simba__table_next(&self->watches, node))
        change(self, SIMBA__OF_NODE(node, simba__sqlite_watch, node));
    self->host->push(self->host, NULL, &ask);
    self->host->wake(self->host);
}

static void look_again(sqlite_store *self)
{
    const int64_t pause_ns = self->socket.fd >= 0 ? LOOK_NS : LOOK_UNHEARD_NS;
    self->looks = true;
    self->host->timer_set(self->host, &self->timer, (simba_local){self->host->now(self->host).ns + pause_ns});
}

static void on_timer(simba_timer *timer, simba_local now)
{
    (void)now;
    sqlite_store *self = (sqlite_store *)(void *)((char *)timer - offsetof(sqlite_store, timer));
    self->looks = false;
    if (self->running) {
        look_again(self);
        return;
    }
    const bool had = self->socket.fd >= 0;
    if (!had || !simba__sqlite_wake_is_current(&self->batch.wake)) {
        close_socket(self);
        make_socket(self);
        if (had || self->socket.fd >= 0)
            enter_anew(self);
    }
    self->look = SIMBA__SQLITE_LOOK_OVERDUE;
    self->host->wake(self->host);
}

/* --- requests in ---------------------------------------------------------------------------------------- */

static void fail_submitted(sqlite_store *self, int code, const char *text)
{
    for (simba_request *r = self->submitted, *next; r; r = next) {
        next = r->next;
        self->host->fail(self->host, r, code, "%s", text);
    }
    self->submitted = NULL;
    self->submitted_end = &self->submitted;
}

/* Begin a batch with all that there is to do, if none runs. */
static void start(void *instance)
{
    sqlite_store *self = instance;
    simba__sqlite_batch *batch = &self->batch;
    if (self->running || self->closing || (!self->submitted && !self->changed && !self->look))
        return;
    size_t count = 0;
    for (const simba_request *r = self->submitted; r; r = r->next)
        count++;
    batch->items = count > 0 ? simba__calloc(count, sizeof *batch->items) : NULL;
    if (count > 0 && !batch->items) {
        fail_submitted(self, SIMBA_ENOMEM, "sqlite: out of memory");
        return;
    }
    batch->look = self->look;
    batch->watches = self->changed;
    batch->todo[SIMBA__SQLITE_READS] = self->look != SIMBA__SQLITE_NO_LOOK;
    batch->todo[SIMBA__SQLITE_WRITES] = self->changed != NULL;
    for (simba__sqlite_watch *w = self->changed; w; w = w->next)
        w->enters = w->shown != NULL;
    self->look = SIMBA__SQLITE_NO_LOOK;
    self->changed = NULL;
    /* It lasts until the last of its requests is over. A look alone is repeated after a while. */
    self->batch_until = (simba_local){count > 0 ? 0 : self->host->now(self->host).ns + LOOK_TIMEOUT_NS};
    self->is_short = count > 0 && count <= SHORT_BATCH;
    for (simba_request *r = self->submitted; r; r = r->next) {
        simba__sqlite_item *item = &batch->items[batch->count++];
        *item = (simba__sqlite_item){.request = r, .ask = *r, .part = simba__sqlite_part_of(r->op)};
        atomic_init(&item->state, SIMBA__SQLITE_WAITS);
        batch->todo[item->part] = true;
        self->is_short &= r->op != SIMBA_OP_LIST && r->op != SIMBA_OP_PREPARE;
        r->backend_data = item;
        if (r->deadline.ns > self->batch_until.ns)
            self->batch_until = r->deadline;
    }
    self->submitted = NULL;
    self->submitted_end = &self->submitted;
    const bool only_reads = !batch->todo[SIMBA__SQLITE_SET_UP] && !batch->todo[SIMBA__SQLITE_WRITES];
    if (!only_reads && !self->tried)
        make_socket(self);
    self->running = true;
    self->host->work(self->host, &self->job);
}

static bool run(simba_job *job, simba_local until)
{
    sqlite_store *self = store_of_job(job);
    const bool hurried = until.ns != INT64_MAX;
    if (hurried && !self->is_short)
        return false;
    simba__sqlite_busy_set(&self->batch.db.busy, until.ns < self->batch_until.ns ? until : self->batch_until);
    simba__sqlite_batch_run(&self->batch);
    return !(hurried && self->batch.error.code == SIMBA_ETIMEDOUT);
}

static void sqlite_submit(void *instance, simba_request *request)
{
    sqlite_store *self = instance;
    request->next = NULL;
    request->backend_data = NULL; /* it is not in a batch yet */
    *self->submitted_end = request;
    self->submitted_end = &request->next;
}

/* A request that the job has begun with is answered by it. */
static void sqlite_expire(void *instance, simba_request *request)
{
    sqlite_store *self = instance;
    simba__sqlite_item *item = request->backend_data;
    const bool locked = self->running && atomic_load(&self->batch.db.busy.waits);
    int state = SIMBA__SQLITE_WAITS;
    if (item && !atomic_compare_exchange_strong(&item->state, &state, SIMBA__SQLITE_GIVEN_UP))
        return;
    if (!item) {
        simba_request **link = &self->submitted;
        while (*link != request)
            link = &(*link)->next;
        *link = request->next;
        if (!*link)
            self->submitted_end = link;
    }
    self->host->fail(self->host, request, SIMBA_ETIMEDOUT, "sqlite: %s: %s", self->batch.db.path,
                     locked ? "locked by another process" : "no answer in time");
}

/* --- answers out ---------------------------------------------------------------------------------------- */

/* The store is open, so the file exists, is ours and can be written. Report the rest. */
static int tell_findings(sqlite_store *self, simba_request *request)
{
    const simba__sqlite_db *db = &self->batch.db;
    const bool wakes = self->socket.fd >= 0;
    simba_error old = {0};
    simba_error unshared = {0};
    const bool current = simba__sqlite_db_check_version(db, &old) == 0;
    const bool shared = simba__sqlite_share_apply(&db->share, simba__sqlite_db_real_path(db), true, &unshared) == 0;
    char schema[512];
    snprintf(schema, sizeof schema, "%s has the tables of this version.", db->path);
    const simba_finding findings[] = {
        {sizeof(simba_finding), current ? SIMBA_VERDICT_OK : SIMBA_VERDICT_BROKEN, "schema",
         current ? schema : old.text, current ? NULL : "End all programs that use it, then run `simba init`."},
        {sizeof(simba_finding), SIMBA_VERDICT_OK, "durability",
         db->sync_full ? "sync=full: what was granted survives a power failure."
                       : "sync=normal: a power failure may undo the latest grants, whose holders it ends as well.",
         NULL},
        {sizeof(simba_finding), wakes ? SIMBA_VERDICT_OK : SIMBA_VERDICT_WARNING, "wake-ups",
         wakes ? "Waiters learn of a release at once." : "Waiters poll for a release: they cannot be woken.",
         wakes ? NULL : "See that sockets can be made in the folder of the database."},
        {sizeof(simba_finding), shared ? SIMBA_VERDICT_OK : SIMBA_VERDICT_BROKEN, "users",
         shared ? "Mode and group of all files are as the URL says." : unshared.text,
         shared ? NULL : "Run `simba init` with the same URL, as the owner of these files or as root."},
    };
    const size_t count = sizeof findings / sizeof findings[0] - !db->share.given; /* the last is about the URL */
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = self->host->found(self->host, request, &findings[i]);
    return rc;
}

/* The log names the rows that cannot be read, and the list shows the others. */
static int tell_list(sqlite_store *self, const simba__sqlite_item *item)
{
    int rc = 0;
    unsigned faults = 0;
    for (const simba__sqlite_listing *row = item->listed; row && rc == 0; row = row->next) {
        if (row->fault) {
            if (faults++ < FAULTS_NAMED)
                self->host->log(self->host, SIMBA_LOG_WARN, "%s; it is not listed", row->fault);
            continue;
        }
        const simba_listing listing = {.size = sizeof listing,
                                       .mutex = row->mutex,
                                       .owner = &row->owner,
                                       .now_ms = row->now_ms,
                                       .waiters = row->waiters,
                                       .next = row->first,
                                       .note = row->note.bytes,
                                       .note_length = row->note.size,
                                       .note_token = row->note.token,
                                       .note_written_at_ms = row->note.written_at_ms};
        rc = self->host->listed(self->host, item->request, &listing);
    }
    if (faults > FAULTS_NAMED)
        self->host->log(self->host, SIMBA_LOG_WARN, "sqlite: %s: %u more mutexes are damaged and not listed",
                        self->batch.db.path, faults - FAULTS_NAMED);
    return rc;
}

static void answer(sqlite_store *self, const simba__sqlite_item *item)
{
    simba_request *request = item->request;
    const simba_error *error = &self->batch.error;
    const bool is_done = !self->batch.todo[item->part];
    int rc = 0;
    if (atomic_load(&item->state) == SIMBA__SQLITE_GIVEN_UP)
        return;
    if (!is_done && self->closing && error->code == SIMBA_ETIMEDOUT) {
        self->host->fail(self->host, request, SIMBA_ECANCELED, "sqlite: the client closes");
        return;
    }
    if (!is_done || item->code < 0) {
        const char *fault = item->fault ? item->fault : "sqlite: out of memory";
        self->host->fail(self->host, request, is_done ? item->code : error->code, "%s", is_done ? fault : error->text);
        return;
    }
    if (request->op == SIMBA_OP_LIST)
        rc = tell_list(self, item);
    else if (request->op == SIMBA_OP_EXAMINE)
        rc = tell_findings(self, request);
    else if (request->op == SIMBA_OP_READ_NOTE && item->listed)
        rc = self->host->noted(self->host, request, &item->listed->note);
    request->reply = item->ask.reply;
    if (rc < 0)
        self->host->fail(self->host, request, rc, "sqlite: out of memory");
    else
        self->host->complete(self->host, request);
}

static bool has_nonce(const simba__node *node, const void *nonce)
{
    return SIMBA__OF_NODE(node, const simba__sqlite_watch, node)->nonce == *(const uint64_t *)nonce;
}

/* What a look has found. */
static void tell_news(sqlite_store *self)
{
    const simba_push changed = {.kind = SIMBA_PUSH_CHANGED};
    const simba_push released = {.kind = SIMBA_PUSH_RELEASED};
    for (const simba__sqlite_news *news = self->batch.news; news; news = news->next) {
        if (news->what != 'o') {
            self->host->push_to(self->host, news->mutex, news->nonce, news->what == 'w' ? &released : &changed);
            continue;
        }
        simba__node *node = simba__table_find(&self->watches, news->nonce, has_nonce, &news->nonce);
        if (node)
            self->host->push(self->host, SIMBA__OF_NODE(node, simba__sqlite_watch, node)->shown, &changed);
    }
}

/* Push CHANGED for what is watched from now on. What could not be written is tried again at the next look. */
static void settle_watches(sqlite_store *self)
{
    const simba_push changed = {.kind = SIMBA_PUSH_CHANGED};
    const bool written = !self->batch.todo[SIMBA__SQLITE_WRITES];
    for (simba__sqlite_watch *w = self->batch.watches, *next; w; w = next) {
        next = w->next;
        w->listed = false;
        if (!written || (w->enters && !w->shown))
            change(self, w);
        else if (w->enters)
            self->host->push(self->host, w->shown, &changed);
        else
            simba__free(w);
    }
}

static void done(simba_job *job)
{
    sqlite_store *self = store_of_job(job);
    simba__sqlite_batch *batch = &self->batch;
    const bool reopened = batch->db.reopened;
    const bool failed = batch->error.code < 0;
    if (reopened)
        self->host->log(self->host, SIMBA_LOG_WARN, "sqlite: %s was deleted, replaced or damaged; it was opened anew",
                        batch->db.path);
    tell_news(self);
    for (size_t i = 0; i < batch->count; i++)
        answer(self, &batch->items[i]);
    settle_watches(self);
    const bool looks = batch->has_rows || (failed && (batch->look || self->changed));
    simba__sqlite_batch_clear(batch);
    self->running = false;
    if (self->closing) {
        fail_submitted(self, SIMBA_ECANCELED, "sqlite: the client closes");
        self->host->closed(self->host);
        return;
    }
    if (reopened) {
        close_socket(self);
        enter_anew(self);
    }
    if (looks && !self->looks)
        look_again(self);
    if (self->submitted || (!failed && (self->changed || self->look)))
        self->host->wake(self->host); /* with the requests that these answers lead to */
}

/* --- watching ------------------------------------------------------------------------------------------- */

static int sqlite_watch(void *instance, simba_watch *shown)
{
    sqlite_store *self = instance;
    const size_t size = strlen(shown->mutex) + 1;
    simba__sqlite_watch *watch = simba__table_reserve(&self->watches) ? simba__malloc(sizeof *watch + size) : NULL;
    if (!watch)
        return SIMBA_ENOMEM;
    *watch = (simba__sqlite_watch){.shown = shown, .nonce = self->host->random(self->host)};
    memcpy(watch->mutex, shown->mutex, size);
    shown->backend_data = watch;
    simba__table_add(&self->watches, &watch->node, watch->nonce);
    change(self, watch);
    self->host->wake(self->host);
    return 0;
}

/* A row may be there in any case, of an earlier socket. */
static void sqlite_unwatch(void *instance, simba_watch *shown)
{
    sqlite_store *self = instance;
    simba__sqlite_watch *watch = shown->backend_data;
    shown->backend_data = NULL;
    watch->shown = NULL;
    simba__table_remove(&self->watches, &watch->node);
    change(self, watch);
    self->host->wake(self->host);
}

/* --- beginning and end ---------------------------------------------------------------------------------- */

static int sqlite_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    sqlite_store *self = instance;
    simba__sqlite_batch *batch = &self->batch;
    self->host = batch->host = host;
    self->submitted_end = &self->submitted;
    self->job.run = run;
    self->job.done = done;
    self->timer.fire = on_timer;
    self->socket = (simba_io){.ready = on_datagram, .fd = -1, .interest = SIMBA_READABLE};
    batch->host_offset_ns = simba__clock_host_offset_ns();
    simba__sqlite_wake_init(&batch->wake, host->random(host));

    simba__sqlite_options options;
    int rc = simba__sqlite_read_url(url, &options, err);
    if (rc == 0)
        rc = simba__sqlite_db_init(&batch->db, host, &options, err);
    if (rc == 0) {
        simba__sqlite_busy_set(&batch->db.busy, (simba_local){host->now(host).ns + OPEN_TIMEOUT_NS});
        rc = simba__sqlite_db_refresh(&batch->db, err);
        batch->db.reopened = false;
    }
    if (rc == 0 && host->timer_add(host, &self->timer) < 0)
        rc = simba__fail(err, SIMBA_ENOMEM, "sqlite: out of memory");
    return rc;
}

static void sqlite_close(void *instance)
{
    sqlite_store *self = instance;
    self->closing = true;
    atomic_store(&self->batch.db.busy.over, true);
    fail_submitted(self, SIMBA_ECANCELED, "sqlite: the client closes");
    self->host->timer_clear(self->host, &self->timer);
    self->host->io_remove(self->host, &self->socket);
    if (!self->running)
        self->host->closed(self->host);
}

/* Rows that cannot be removed now are removed by others: then the name stays, which says whose they are. */
static void sqlite_fini(void *instance)
{
    sqlite_store *self = instance;
    simba__sqlite_batch *batch = &self->batch;
    bool keep = false;
    if (batch->has_rows) {
        atomic_store(&batch->db.busy.over, false);
        simba__sqlite_busy_set(&batch->db.busy, (simba_local){self->host->now(self->host).ns + CLOSE_TIMEOUT_NS});
        keep = !simba__sqlite_db_is_sound(&batch->db) ||
               simba__sqlite_run(&batch->db, NULL, BURY, SIMBA__SQLITE_TEXT(batch->wake.name)) < 0;
    }
    simba__sqlite_wake_close(&batch->wake, 0, keep);
    simba__sqlite_db_fini(&batch->db);
    for (simba__sqlite_watch *w = self->changed, *next; w; w = next) {
        next = w->next;
        if (!w->shown) /* otherwise it is in the table */
            simba__free(w);
    }
    for (simba__node *node = simba__table_first(&self->watches), *next; node; node = next) {
        next = simba__table_next(&self->watches, node);
        simba__free(SIMBA__OF_NODE(node, simba__sqlite_watch, node));
    }
    simba__table_fini(&self->watches);
    simba__free(batch->notify);
}

static const char *const schemes[] = {SIMBA__SCHEMES_sqlite, NULL};
static const char *const keys[] = {"sync", "mode", "group", NULL};

const simba_backend simba__backend_sqlite = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(sqlite_store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_QUEUE | SIMBA_CAP_CALLS | SIMBA_CAP_LIST |
            SIMBA_CAP_EXAMINE | SIMBA_CAP_PREPARE | SIMBA_CAP_HOST_ONLY | SIMBA_CAP_NOTE,
    .window = WINDOW,
    .workers = 1,
    .init = sqlite_init,
    .submit = sqlite_submit,
    .expire = sqlite_expire,
    .flush = start,
    .watch = sqlite_watch,
    .unwatch = sqlite_unwatch,
    .woken = start,
    .close = sqlite_close,
    .fini = sqlite_fini,
};
