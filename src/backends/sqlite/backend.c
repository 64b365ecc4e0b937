/* The SQLite store: the contract of simba/backend.h over a file that the processes of one host share.
 *
 * There is one connection and one worker. Requests gather in a list; when the worker is idle it takes the whole list and
 * carries it out as one transaction, so all requests of one moment cost one commit. The boot-time clock of the host judges
 * leases, together with the boot id: nobody can set that clock, all processes share it, and a lease of an earlier boot has
 * ended. See db.c for durability, news.h for how waiters are woken. */
#include "backends/sqlite/sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/queue.h"
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
#define BRIEF_NS (10 * SIMBA__NS_PER_MS)  /* so long anybody may be kept who waits, by a batch that */
#define BRIEF_REQUESTS 64                 /* has no more than so many requests */
#define BATCH_REQUESTS 1024               /* of a batch at most: others want to write too, and the copies take memory */
#define POLL_NS (1000 * SIMBA__NS_PER_MS) /* behind the bell */
#define POLL_WITHOUT_BELL_NS (250 * SIMBA__NS_PER_MS)
#define ATTEND_NS (100 * SIMBA__NS_PER_MS) /* how long something has to be held before we attend to revocations */
#define STEP_IN_NS (20 * SIMBA__NS_PER_MS) /* how long whoever is next in line has to take what is free */
#define PLACES 64 /* so many mutexes are waited for one by one; of more, every change is heard */

enum { FAULTS_NAMED = 10 }; /* damaged rows of one list that the log names */

typedef struct store {
    simba_host *host;
    simba__queue pending;
    simba__probe *probes; /* that wait for the worker */
    bool refresh_wanted;  /* have the worker look at the file even if there is nothing to do */
    bool closing;

    simba_job job;
    bool running;   /* the batch is the worker's */
    bool contended; /* somebody had the file for longer than a brief job lasts */
    simba__batch batch;

    simba__news news;
    simba__held held;
    simba_timer tick;
    simba_timer attend; /* when to begin to */
    bool attends;       /* to revocations, or soon */
    simba_timer step_in;
    bool in_reserve; /* until that */
    simba_io bell;   /* its descriptor is -1: it does not hang */
    bool bell_failed;
    bool listening;
    bool hears_all; /* marks, of whichever mutex */
} store;

/* A look at a watched mutex: a READ of our own among the requests. */
struct simba__probe {
    simba__probe *next;
    simba__watched *watched; /* NULL: not watched any more */
    char mutex[];
};

static simba_local after(store *s, int64_t ns)
{
    return (simba_local){s->host->now(s->host).ns + ns};
}

static store *store_of_job(simba_job *job)
{
    return (store *)(void *)((char *)job - offsetof(store, job));
}

/* --- requests in, answers out ------------------------------------------------------------------------ */

static void append(store *s, simba_request *request)
{
    request->backend_data = NULL;
    simba__queue_append(&s->pending, request);
}

static void append_probe(store *s, simba__probe *probe)
{
    probe->next = s->probes;
    s->probes = probe;
}

static simba__probe *take_probe(store *s)
{
    simba__probe *probe = s->probes;
    if (probe)
        s->probes = probe->next;
    return probe;
}

static void free_probe(store *s, simba__probe *probe, bool failed)
{
    if (probe->watched)
        probe->watched->probe = NULL;
    s->news.rescan |= failed; /* the next tick tries again */
    simba__free(probe);
}

static void fail_pending(store *s, int code, const char *text)
{
    for (simba_request *r; (r = simba__queue_take(&s->pending)) != NULL;)
        s->host->fail(s->host, r, code, "%s", text);
    for (simba__probe *probe; (probe = take_probe(s)) != NULL;)
        free_probe(s, probe, true);
}

/* How many of the waiting requests go into the next batch. */
static size_t measure(const store *s, size_t *ret_bytes)
{
    size_t count = 0;
    for (const simba_request *r = s->pending.first; r && count < BATCH_REQUESTS; r = r->next, count++)
        *ret_bytes += (r->mutex ? strlen(r->mutex) + 1 : 0) + (r->id ? strlen(r->id) + 1 : 0) + r->note_size;
    for (const simba__probe *p = s->probes; p; p = p->next, count++)
        *ret_bytes += strlen(p->mutex) + 1;
    return count;
}

/* Returns their earliest deadline; INT64_MAX: there is none. */
static simba_local fill_batch(store *s)
{
    simba_local until = {INT64_MAX};
    s->batch.writes = false;
    while (s->pending.first && s->batch.count < BATCH_REQUESTS) {
        simba_request *r = simba__queue_take(&s->pending);
        simba__batch_item *item = simba__batch_add(&s->batch, r);
        item->request = r;
        r->backend_data = item;
        s->batch.writes |= r->op != SIMBA_OP_READ && r->op != SIMBA_OP_LIST && r->op != SIMBA_OP_READ_NOTE;
        if (r->deadline.ns < until.ns)
            until = r->deadline;
    }
    for (simba__probe *probe; (probe = take_probe(s)) != NULL;) {
        simba__batch_item *item =
            simba__batch_add(&s->batch, &(simba_request){.op = SIMBA_OP_READ, .mutex = probe->mutex});
        item->probe = probe;
        item->looks = true;
    }
    return until;
}

static bool is_brief(const store *s)
{
    bool brief = !s->contended && !s->refresh_wanted && s->batch.count <= BRIEF_REQUESTS;
    for (size_t i = 0; i < s->batch.count && brief; i++)
        brief = s->batch.items[i].ask.op != SIMBA_OP_LIST;
    return brief;
}

/* Hand the waiting requests to the worker, if it is idle. */
static void start(store *s)
{
    if (s->running || s->closing || (!s->pending.first && !s->probes && !s->refresh_wanted))
        return;
    size_t bytes = 0;
    const size_t count = measure(s, &bytes);
    if (!simba__batch_reserve(&s->batch, count, bytes)) {
        fail_pending(s, SIMBA_ENOMEM, "sqlite: out of memory");
        return;
    }
    const simba_local now = s->host->now(s->host);
    simba_local until = fill_batch(s);
    if (until.ns == INT64_MAX)
        until.ns = now.ns + PROBE_PATIENCE_NS;
    const bool brief = is_brief(s);
    s->job.length = brief ? SIMBA_JOB_BRIEF : SIMBA_JOB_LONG;
    if (brief && until.ns > now.ns + BRIEF_NS)
        until.ns = now.ns + BRIEF_NS; /* if that is too short, it is tried again, for longer and on a worker */
    simba__patience_set(&s->batch.db.patience, until);
    s->refresh_wanted = false;
    s->running = true;
    s->host->work(s->host, &s->job);
}

static void run_batch(simba_job *job)
{
    simba__batch_run(&store_of_job(job)->batch);
}

static bool hang_bell(store *s);

/* It is open, so the file is there, is ours and can be written: what remains to be told. */
static void examine(store *s, simba_request *request)
{
    const bool sync_full = s->batch.db.sync_full;
    const bool wakes = hang_bell(s);
    char schema[512];
    snprintf(schema, sizeof schema, "%s has the tables of this version.", s->batch.db.path);
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
        rc = s->host->found(s->host, request, &findings[i]);
    memset(&request->reply, 0, sizeof request->reply);
    if (rc < 0)
        s->host->fail(s->host, request, rc, "sqlite: out of memory");
    else
        s->host->complete(s->host, request);
}

static void sqlite_submit(void *self, simba_request *request)
{
    store *s = self;
    if (request->op == SIMBA_OP_EXAMINE) {
        examine(s, request);
        return;
    }
    if (request->listens)
        hang_bell(s); /* before it can be rung */
    append(s, request);
}

/* The worker has a copy. */
static void sqlite_cancel(void *self, simba_request *request)
{
    store *s = self;
    simba__batch_item *item = request->backend_data;
    if (item)
        item->request = NULL;
    else
        simba__queue_remove(&s->pending, request);
    const bool locked = s->running && simba__patience_waits(&s->batch.db.patience);
    s->host->fail(s->host, request, SIMBA_ETIMEDOUT, "sqlite: %s: %s", s->batch.db.path,
                  locked ? "locked by another process" : "no answer in time");
}

static void sqlite_flush(void *self)
{
    start(self);
}

static void sqlite_woken(void *self)
{
    start(self);
}

/* The log names rows that cannot be read, and the list shows the others. */
static void complete_list(store *s, const simba__batch_item *item)
{
    simba_request *request = item->request;
    int rc = 0;
    unsigned faults = 0;
    for (const simba__listing *found = item->found; found && rc == 0; found = found->next) {
        if (found->fault) {
            if (faults++ < FAULTS_NAMED)
                s->host->log(s->host, SIMBA_LOG_WARN, "%s; it is not listed", found->fault);
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
        rc = s->host->listed(s->host, request, &listing);
    }
    if (faults > FAULTS_NAMED)
        s->host->log(s->host, SIMBA_LOG_WARN, "sqlite: %s: %u more mutexes are damaged and not listed",
                     s->batch.db.path, faults - FAULTS_NAMED);
    memset(&request->reply, 0, sizeof request->reply);
    if (rc < 0)
        s->host->fail(s->host, request, rc, "sqlite: out of memory");
    else
        s->host->complete(s->host, request);
}

static void look(void *user, simba__watched *watched);
static void line_up_again(store *s, const simba__batch_item *item);
static void wait_in_reserve(store *s);
static bool hang_bell(store *s);
static void wish_for(store *s, const simba__batch_item *item);

static void looked(store *s, simba__probe *probe)
{
    simba__watched *watched = probe->watched;
    free_probe(s, probe, false);
    /* It changed again while we looked. */
    if (watched && watched->known != simba__notify_read(s->batch.notify, simba__notify_slot(watched->hash)))
        look(s, watched);
}

static void complete(store *s, simba__batch_item *item)
{
    const simba__effect *effect = &item->effect;
    simba_request *request = item->request;
    if (item->probe && effect->code < 0) {
        free_probe(s, item->probe, true);
    } else if (item->probe) {
        looked(s, item->probe);
    } else if (!request) {
        return; /* it was cancelled */
    } else if (effect->code < 0) {
        s->host->fail(s->host, request, effect->code, "%s", effect->fault ? effect->fault : "sqlite: out of memory");
    } else if (request->op == SIMBA_OP_LIST) {
        complete_list(s, item);
    } else {
        if (item->note)
            s->host->noted(s->host, request, &item->note->stored);
        request->reply = item->ask.reply;
        s->host->complete(s->host, request);
    }
}

typedef void (*each_fn)(simba__news *news, const simba__effect *effect, const simba_request *request);

static void tell_news(store *s, each_fn each)
{
    for (size_t i = 0; i < s->batch.count; i++) {
        const simba__batch_item *item = &s->batch.items[i];
        if (item->effect.code == 0 && item->ask.op != SIMBA_OP_LIST)
            each(&s->news, &item->effect, &item->ask);
    }
}

static void answer_batch(store *s)
{
    tell_news(s, simba__news_heard);
    for (size_t i = 0; i < s->batch.count; i++)
        if (s->batch.items[i].effect.code == 0 && s->batch.items[i].effect.marked)
            simba__news_rang(&s->news, &s->batch.items[i].effect);
    tell_news(s, simba__news_tell);
    for (size_t i = 0; i < s->batch.count; i++) {
        simba__batch_item *item = &s->batch.items[i];
        if (item->effect.code == 0) {
            simba__held_note(&s->held, s->batch.notify, &item->effect, &item->ask);
            line_up_again(s, item);
            wish_for(s, item);
        }
        complete(s, item);
    }
    if (s->batch.in_reserve)
        wait_in_reserve(s);
}

/* The worker ran out of patience for the sake of one request. The others have time left: put them back, in front of
 * later requests. */
static void fail_batch(store *s)
{
    const simba_local now = s->host->now(s->host);
    const bool again = s->batch.error.code == SIMBA_ETIMEDOUT;
    simba_request *later = simba__queue_take_all(&s->pending);
    for (size_t i = 0; i < s->batch.count; i++) {
        simba_request *r = s->batch.items[i].request;
        simba__probe *probe = s->batch.items[i].probe;
        if (probe && again)
            append_probe(s, probe);
        else if (probe)
            free_probe(s, probe, true);
        else if (r && again && now.ns < r->deadline.ns)
            append(s, r);
        else if (r)
            s->host->fail(s->host, r, s->batch.error.code, "%s", s->batch.error.text);
    }
    for (simba_request *next; later; later = next) {
        next = later->next;
        append(s, later);
    }
}

/* --- news from other processes ------------------------------------------------------------------------ */

static void look(void *user, simba__watched *watched)
{
    store *s = user;
    if (watched->probe)
        return;
    const char *mutex = watched->topic->mutex;
    simba__probe *probe = simba__malloc(sizeof *probe + strlen(mutex) + 1);
    if (!probe) {
        const simba_push push = {.kind = SIMBA_PUSH_CHANGED};
        s->host->push(s->host, watched->topic, &push);
        return;
    }
    strcpy(probe->mutex, mutex);
    probe->watched = watched;
    watched->probe = probe;
    append_probe(s, probe);
    /* Not started here: requests that follow from the push may go along at the end of the turn. */
    s->host->wake(s->host);
}

static void scan(store *s)
{
    simba__news_scan(&s->news, s->batch.notify, look, s);
}

static void on_bell(simba_io *bell, unsigned events)
{
    (void)events;
    store *s = (store *)(void *)((char *)bell - offsetof(store, bell));
    const unsigned rings = simba__bell_drain(&s->batch.notify->bell);
    if (rings & SIMBA__RING_NEWS)
        scan(s);
    if (rings & SIMBA__RING_REVOKED)
        simba__held_scan(&s->held, s->batch.notify);
    if (rings & SIMBA__RING_IN_RESERVE)
        wait_in_reserve(s);
    if (rings & SIMBA__RING_WANTED)
        simba__held_wanted(&s->held, s->batch.notify);
}

/* Whoever has no bell does not listen, either. */
static void take_down_bell(store *s)
{
    s->host->io_remove(s->host, &s->bell);
    s->bell.fd = -1;
    simba__notify_leave(s->batch.notify);
}

/* A bell is a comfort: without it there is the poll. So it is said once that there is none, and not at all if so many others have
 * one that there is none left. */
static bool hang_bell(store *s)
{
    if (s->bell.fd >= 0)
        return true;
    int rc = simba__notify_attend(s->batch.notify, s->host->random(s->host));
    s->bell = (simba_io){.ready = on_bell, .fd = s->batch.notify->bell.fd, .interest = SIMBA_READABLE};
    if (rc == 0 && s->host->io_add(s->host, &s->bell) < 0) {
        rc = -ENOMEM;
        take_down_bell(s);
    }
    if (rc < 0 && rc != -EUSERS && !s->bell_failed) {
        s->bell_failed = true;
        s->host->log(s->host, SIMBA_LOG_WARN,
                     "sqlite: %s: cannot be used (%s): releases by other processes are polled for",
                     s->batch.notify->bells, strerror(-rc));
    }
    return rc == 0;
}

static uint32_t now_ms(const store *s)
{
    return (uint32_t)(simba__batch_host_ns(&s->batch) / SIMBA__NS_PER_MS);
}

/* Say in the notify file what we wait for in this line. */
static void say_place(store *s, size_t line)
{
    if (!s->hears_all)
        simba__notify_say_place(s->batch.notify, line, simba__news_place(&s->news, line));
}

static void say_ears(const store *s)
{
    simba__notify_say_ears(s->batch.notify, SIMBA__HEARS_REVOCATIONS | (s->hears_all ? SIMBA__HEARS_ALL_MARKS : 0));
}

/* Say all of that, because somebody may have truncated the file, or because we have not said it before. A client that begins to
 * hear of all marks leaves its places in the lines: in front of others it would be invited to what it may not want any more. */
static void say_all(store *s)
{
    const bool leaves = !s->hears_all && s->news.count > PLACES;
    s->hears_all |= leaves;
    say_ears(s);
    for (size_t slot = 0; slot < SIMBA__NOTIFY_SLOTS; slot++) {
        if (s->news.watched[slot] && leaves)
            simba__notify_say_place(s->batch.notify, slot % SIMBA__LINES, 0);
        else if (s->news.watched[slot])
            say_place(s, slot % SIMBA__LINES);
    }
}

/* A grant is one turn in the line. Whoever else of this client waits for the mutex comes after those who wait elsewhere. */
static void line_up_again(store *s, const simba__batch_item *item)
{
    simba__watched *watched = simba__news_find(&s->news, item->effect.hash, item->ask.mutex);
    if (!watched || item->ask.op != SIMBA_OP_ACQUIRE || item->ask.reply.outcome != SIMBA_MINE)
        return;
    watched->since_ms = now_ms(s);
    say_place(s, simba__line_number(watched->hash));
}

/* --- wishes: telling a holder that listens ------------------------------------------------------------ */

typedef struct wish {
    const simba__notify *notify;
    size_t slot;
} wish;

static void forget_holder(void *user, unsigned bell)
{
    const wish *w = user;
    (void)bell;
    simba__notify_say_holder(w->notify, w->slot, -1);
}

/* Somebody here waits for the mutex. If its holder listens, tell it so. */
static void make_wish(store *s, uint64_t hash)
{
    wish w = {s->batch.notify, simba__notify_slot(hash)};
    const int holder = simba__notify_holder(w.notify, w.slot);
    if (holder < 0)
        return;
    simba__notify_say_wish(w.notify, w.slot, s->host->random(s->host));
    if (holder == w.notify->bell.number) {
        simba__held_wanted(&s->held, w.notify);
        return;
    }
    const int folder = simba__bell_folder(w.notify->bells);
    if (folder < 0)
        return;
    (void)simba__bell_ring(folder, (unsigned)holder, SIMBA__RING_WANTED, forget_holder, &w);
    close(folder);
}

/* A contender was refused and will wait, or we have looked at what somebody here waits for. */
static void wish_for(store *s, const simba__batch_item *item)
{
    const simba_request *ask = &item->ask;
    const bool refused = ask->op == SIMBA_OP_ACQUIRE && ask->queue && ask->reply.outcome == SIMBA_NOT_MINE;
    const bool looked = item->probe && item->probe->watched && item->probe->watched->waits;
    if ((refused || looked) && ask->reply.owner.id[0] != '\0')
        make_wish(s, item->effect.hash);
}

/* A wish may have been lost. */
static void wish_again(store *s)
{
    for (size_t slot = 0; slot < SIMBA__NOTIFY_SLOTS; slot++)
        for (const simba__watched *w = s->news.watched[slot]; w; w = w->next)
            if (w->waits)
                make_wish(s, w->hash);
}

static void begin_listening(store *s)
{
    if (s->listening)
        return;
    s->listening = true;
    const bool hangs = hang_bell(s);
    simba__notify_listen(s->batch.notify);
    say_all(s);
    s->host->timer_set(s->host, &s->tick, after(s, hangs ? POLL_NS : POLL_WITHOUT_BELL_NS));
}

static void end_listening(store *s)
{
    simba__notify_unlisten(s->batch.notify);
    s->listening = s->hears_all = false;
    say_ears(s);
}

/* The database and its notify file have been replaced. */
static void adopt_fresh(store *s)
{
    const bool listening = s->listening;
    const bool had_bell = s->bell.fd >= 0;
    s->listening = false;
    take_down_bell(s);
    simba__notify_close(s->batch.notify);
    s->batch.notify = s->batch.fresh;
    s->batch.fresh = NULL;
    simba__news_forget(&s->news);
    simba__held_ask_all(&s->held);
    if (listening)
        begin_listening(s);
    else if (had_bell)
        hang_bell(s);
}

/* Whoever holds a mutex for a moment only does not need a bell; what was revoked before it hangs is found by the scan. */
static void attend_soon(store *s)
{
    if (s->attends || simba__held_is_empty(&s->held))
        return;
    s->attends = true;
    s->host->timer_set(s->host, &s->attend, after(s, ATTEND_NS));
}

static void on_attend(simba_timer *timer, simba_local now)
{
    (void)now;
    store *s = (store *)(void *)((char *)timer - offsetof(store, attend));
    hang_bell(s);
    simba__held_scan(&s->held, s->batch.notify);
}

static void wait_in_reserve(store *s)
{
    if (s->in_reserve)
        return;
    s->in_reserve = true;
    s->host->timer_set(s->host, &s->step_in, after(s, STEP_IN_NS));
}

static void on_step_in(simba_timer *timer, simba_local now)
{
    (void)now;
    store *s = (store *)(void *)((char *)timer - offsetof(store, step_in));
    s->in_reserve = false;
    simba__news_step_in(&s->news, s->batch.notify);
}

/* The slow poll that backs up the bell, while something is watched. It also stops listening to the bell a while
 * after the last unwatch: lockers that come and go should not cost a system call each. */
static void on_tick(simba_timer *timer, simba_local now)
{
    store *s = (store *)(void *)((char *)timer - offsetof(store, tick));
    if (s->news.count == 0) {
        end_listening(s);
        return;
    }
    if (s->bell.fd >= 0 && !simba__bell_is_current(&s->batch.notify->bell, s->batch.notify->bells))
        take_down_bell(s);
    const bool hangs = hang_bell(s);
    simba__notify_listen(s->batch.notify);
    say_all(s);
    wish_again(s);
    simba__news_step_in(&s->news, s->batch.notify);
    scan(s);
    if (!simba__notify_is_current(s->batch.notify)) {
        s->refresh_wanted = true;
        s->host->wake(s->host);
    }
    s->host->timer_set(s->host, timer, (simba_local){now.ns + (hangs ? POLL_NS : POLL_WITHOUT_BELL_NS)});
}

static int sqlite_watch(void *self, simba_topic *topic)
{
    store *s = self;
    simba__watched *watched = simba__news_add(&s->news, topic, now_ms(s));
    if (!watched)
        return SIMBA_ENOMEM;
    topic->backend_data = watched;
    /* Before the look, or a mark between the two would go unheard. */
    begin_listening(s);
    if (s->news.count == PLACES + 1)
        say_all(s);
    else
        say_place(s, simba__line_number(watched->hash));
    watched->waits = !topic->every; /* the look makes a wish, if the owner is another one by now */
    look(s, watched);
    return 0;
}

static void sqlite_unwatch(void *self, simba_topic *topic)
{
    store *s = self;
    simba__watched *watched = topic->backend_data;
    if (watched->probe)
        watched->probe->watched = NULL;
    const size_t line = simba__line_number(watched->hash);
    simba__news_remove(&s->news, watched);
    say_place(s, line);
    topic->backend_data = NULL;
}

static void sqlite_every_changed(void *self, simba_topic *topic)
{
    const simba__watched *watched = topic->backend_data;
    say_place(self, simba__line_number(watched->hash));
}

/* --- beginning and end --------------------------------------------------------------------------------- */

static void closed_if_idle(store *s)
{
    if (s->closing && !s->running)
        s->host->closed(s->host);
}

static void batch_done(simba_job *job)
{
    store *s = store_of_job(job);
    s->running = false;
    const bool renewed = s->batch.fresh != NULL;
    if (s->batch.opened)
        s->host->log(s->host, SIMBA_LOG_WARN, "sqlite: %s was deleted, replaced or damaged; it was opened anew",
                     s->batch.db.path);
    if (renewed)
        adopt_fresh(s);
    s->contended = s->batch.error.code == SIMBA_ETIMEDOUT;
    if (s->batch.error.code < 0)
        fail_batch(s);
    else
        answer_batch(s);
    simba__batch_answered(&s->batch);
    if (!s->closing)
        attend_soon(s);
    if (renewed && !s->closing)
        scan(s);
    if (s->closing)
        fail_pending(s, SIMBA_ECANCELED, "sqlite: the client closes");
    else if (s->pending.first || s->probes)
        s->host->wake(s->host); /* at the end of the turn, with what these answers lead to */
    closed_if_idle(s);
}

static int sqlite_init(void *self, simba_host *host, const simba_url *url, simba_error *err)
{
    store *s = self;
    s->host = host;
    s->bell.fd = -1;
    simba__queue_init(&s->pending);
    s->job.run = run_batch;
    s->job.done = batch_done;
    s->tick.fire = on_tick;
    s->attend.fire = on_attend;
    s->step_in.fire = on_step_in;
    simba__news_init(&s->news, host);
    simba__held_init(&s->held, host);

    const char *path = NULL;
    bool sync_full = false;
    int rc = simba__sqlite_read_url(url, &path, &sync_full, err);
    if (rc == 0)
        rc = simba__batch_init(&s->batch, host, path, sync_full, err);
    if (rc == 0 && (host->timer_add(host, &s->tick) < 0 || host->timer_add(host, &s->attend) < 0 ||
                    host->timer_add(host, &s->step_in) < 0))
        rc = simba__fail(err, SIMBA_ENOMEM, "sqlite: out of memory");
    return rc;
}

static void sqlite_close(void *self)
{
    store *s = self;
    s->closing = true;
    simba__patience_end(&s->batch.db.patience);
    fail_pending(s, SIMBA_ECANCELED, "sqlite: the client closes");
    s->host->timer_clear(s->host, &s->tick);
    s->host->timer_clear(s->host, &s->attend);
    s->host->timer_clear(s->host, &s->step_in);
    take_down_bell(s);
    closed_if_idle(s);
}

static void sqlite_fini(void *self)
{
    store *s = self;
    for (size_t slot = 0; slot < SIMBA__NOTIFY_SLOTS; slot++)
        while (s->news.watched[slot])
            simba__news_remove(&s->news, s->news.watched[slot]);
    simba__held_fini(&s->held);
    simba__batch_fini(&s->batch);
}

static const char *const schemes[] = {SIMBA__SCHEMES_sqlite, NULL};
static const char *const keys[] = {"sync", NULL};

const simba_backend simba__backend_sqlite = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE | SIMBA_CAP_HOST_ONLY |
            SIMBA_CAP_NOTE | SIMBA_CAP_WANTED,
    .workers = 1,
    .init = sqlite_init,
    .submit = sqlite_submit,
    .cancel = sqlite_cancel,
    .flush = sqlite_flush,
    .watch = sqlite_watch,
    .unwatch = sqlite_unwatch,
    .every_changed = sqlite_every_changed,
    .woken = sqlite_woken,
    .close = sqlite_close,
    .fini = sqlite_fini,
};
