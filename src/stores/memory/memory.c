/* memory://name: a store inside the process, for threads that share a name, for tests, and as the shortest example of a
 * back end. It answers at once, on the caller's thread. Its rows live as long as a client has the store open. */
#include <fnmatch.h>
#include <pthread.h>
#include <simba/backend.h>
#include <string.h>

#include "core/row.h"
#include "stores/schemes.h"
#include "util/assert.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/table.h"

struct watch;

/* A simba__row whose owner id takes no more memory than it needs: a process may hold a million mutexes. */
struct kept {
    char *owner_id; /* of the latest owner, so that it can take the mutex again without memory; NULL: there was none */
    bool owned;     /* that one still has it */
    int64_t acquired_at_ms, ttl_at_ms, transition_at_ms;
    uint64_t owner_token;
    uint64_t nonce, token, revoked_token, version;
    int64_t until_ns;
    uint64_t note_token, note_number;
    int64_t note_written_at_ms;
};

struct row {
    simba__node node;
    struct watch *watches;
    struct kept kept;
    size_t note_size;
    unsigned char *note; /* NULL: none */
    char mutex[];
};

struct store {
    struct store *next;
    pthread_mutex_t lock;
    unsigned clients;     /* guarded by stores_lock */
    uint64_t token_floor; /* the greatest token of the rows that were dropped */
    simba__table rows;    /* by mutex */
    char name[];
};

struct event {
    struct event *next;
    simba_push push;
};

/* One client's interest in one mutex, and the events that the client has not taken yet. */
struct watch {
    struct watch *next; /* of the same row */
    struct instance *instance;
    simba_watch *shown;
    struct row *row;
    struct event *last; /* the last of its events, in a ring: the first follows the last. NULL: there is none */
    struct watch *inbox_next;
    bool in_inbox;
    bool missed; /* there was no memory for an event */
};

struct instance {
    simba_host *host;
    struct store *store;
    struct watch *inbox; /* watches that have events; guarded by the store's lock */
};

static struct row *row_of(simba__node *node)
{
    return SIMBA__OF_NODE(node, struct row, node);
}

static void free_row(struct row *row)
{
    simba__free(row->kept.owner_id);
    simba__free(row->note);
    simba__free(row);
}

static pthread_mutex_t stores_lock = PTHREAD_MUTEX_INITIALIZER;
static struct store *stores;

/* --- stores by name ------------------------------------------------------------------------------- */

/* In a child of fork() there are no stores yet: those in its memory are copies of the parent's, full of the parent's
 * clients, and threads that do not exist here may hold their locks. */
static void forked(void)
{
    stores = NULL;
    pthread_mutex_init(&stores_lock, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forked);
}

static struct store *open_store(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&stores_lock);
    struct store *store = stores;
    while (store && strcmp(store->name, name) != 0)
        store = store->next;
    if (!store) {
        store = simba__calloc(1, sizeof *store + strlen(name) + 1);
        if (store) {
            strcpy(store->name, name);
            pthread_mutex_init(&store->lock, NULL);
            store->next = stores;
            stores = store;
        }
    }
    if (store)
        store->clients++;
    pthread_mutex_unlock(&stores_lock);
    return store;
}

static void close_store(struct store *store)
{
    pthread_mutex_lock(&stores_lock);
    const bool last = --store->clients == 0;
    if (last) {
        struct store **link = &stores;
        while (*link != store)
            link = &(*link)->next;
        *link = store->next;
    }
    pthread_mutex_unlock(&stores_lock);
    if (!last)
        return;
    for (simba__node *node = simba__table_first(&store->rows), *next; node; node = next) {
        next = simba__table_next(&store->rows, node);
        free_row(row_of(node));
    }
    simba__table_fini(&store->rows);
    pthread_mutex_destroy(&store->lock);
    simba__free(store);
}

/* --- rows ----------------------------------------------------------------------------------------- */

static bool is_named(const simba__node *node, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(node, const struct row, node)->mutex, mutex) == 0;
}

static struct row *make_row(struct store *store, const char *mutex)
{
    simba__node *found = simba__table_find(&store->rows, simba__hash(mutex), is_named, mutex);
    if (found)
        return row_of(found);
    if (!simba__table_reserve(&store->rows))
        return NULL;
    struct row *row = simba__calloc(1, sizeof *row + strlen(mutex) + 1);
    if (!row)
        return NULL;
    strcpy(row->mutex, mutex);
    row->kept.token = store->token_floor;
    simba__table_add(&store->rows, &row->node, simba__hash(mutex));
    return row;
}

static void load(const struct kept *kept, simba__row *ret_data)
{
    *ret_data = (simba__row){
        .owner = {.acquired_at_ms = kept->acquired_at_ms,
                  .ttl_at_ms = kept->ttl_at_ms,
                  .transition_at_ms = kept->transition_at_ms,
                  .token = kept->owner_token},
        .nonce = kept->nonce,
        .token = kept->token,
        .revoked_token = kept->revoked_token,
        .version = kept->version,
        .until_ns = kept->until_ns,
        .note_token = kept->note_token,
        .note_number = kept->note_number,
        .note_written_at_ms = kept->note_written_at_ms,
    };
    if (kept->owned)
        strcpy(ret_data->owner.id, kept->owner_id);
}

/* SIMBA_ENOMEM: nothing has changed. */
static int keep(struct kept *kept, const simba__row *data)
{
    const bool owned = data->owner.id[0] != '\0';
    char *id = kept->owner_id;
    if (owned && (!id || strcmp(id, data->owner.id) != 0)) {
        id = simba__strdup(data->owner.id);
        if (!id)
            return SIMBA_ENOMEM;
        simba__free(kept->owner_id);
    }
    *kept = (struct kept){
        .owner_id = id,
        .owned = owned,
        .acquired_at_ms = data->owner.acquired_at_ms,
        .ttl_at_ms = data->owner.ttl_at_ms,
        .transition_at_ms = data->owner.transition_at_ms,
        .owner_token = data->owner.token,
        .nonce = data->nonce,
        .token = data->token,
        .revoked_token = data->revoked_token,
        .version = data->version,
        .until_ns = data->until_ns,
        .note_token = data->note_token,
        .note_number = data->note_number,
        .note_written_at_ms = data->note_written_at_ms,
    };
    return 0;
}

/* Nobody owns the mutex or watches it, and it has no note: then only its token must outlive the row. The row stays if
 * the latest holder has yet to learn that it was revoked. */
static void drop_if_idle(struct store *store, struct row *row)
{
    const bool revoked = row->kept.token != 0 && row->kept.token == row->kept.revoked_token;
    if (row->watches || row->kept.owned || row->note || revoked)
        return;
    simba__table_remove(&store->rows, &row->node);
    if (row->kept.token > store->token_floor)
        store->token_floor = row->kept.token;
    free_row(row);
}

/* --- news ----------------------------------------------------------------------------------------- */

/* Under the store's lock. The thread of the other client passes the event on to it. */
static void post(struct watch *watch, const simba_push *push)
{
    struct event *event = simba__malloc(sizeof *event);
    if (event) {
        event->push = *push;
        event->next = watch->last ? watch->last->next : event;
        if (watch->last)
            watch->last->next = event;
        watch->last = event;
    } else {
        watch->missed = true;
    }
    if (!watch->in_inbox) {
        watch->in_inbox = true;
        watch->inbox_next = watch->instance->inbox;
        watch->instance->inbox = watch;
        watch->instance->host->wake(watch->instance->host);
    }
}

/* Under the store's lock. Returns the watch of `self`, if this thread can tell it directly. */
static simba_watch *spread(struct instance *self, struct row *row, const simba_push *push)
{
    simba_watch *direct = NULL;
    for (struct watch *watch = row->watches; watch; watch = watch->next) {
        if (watch->instance == self && !watch->in_inbox)
            direct = watch->shown; /* no earlier event is on its way to it */
        else
            post(watch, push);
    }
    return direct;
}

/* Take its events, the earliest first. */
static struct event *take_events(struct watch *watch)
{
    struct event *last = watch->last;
    struct event *first = last ? last->next : NULL;
    if (last)
        last->next = NULL;
    watch->last = NULL;
    return first;
}

static void memory_woken(void *instance)
{
    struct instance *self = instance;
    for (;;) {
        pthread_mutex_lock(&self->store->lock);
        struct watch *watch = self->inbox;
        struct event *events = NULL;
        bool missed = false;
        if (watch) {
            self->inbox = watch->inbox_next;
            watch->in_inbox = false;
            events = take_events(watch);
            missed = watch->missed;
            watch->missed = false;
        }
        pthread_mutex_unlock(&self->store->lock);
        if (!watch)
            return;
        while (events) {
            struct event *next = events->next;
            self->host->push(self->host, watch->shown, &events->push);
            simba__free(events);
            events = next;
        }
        if (missed)
            self->host->push(self->host, watch->shown, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
    }
}

static int memory_watch(void *instance, simba_watch *shown)
{
    struct instance *self = instance;
    struct watch *watch = simba__calloc(1, sizeof *watch);
    if (!watch)
        return SIMBA_ENOMEM;
    watch->instance = self;
    watch->shown = shown;
    pthread_mutex_lock(&self->store->lock);
    watch->row = make_row(self->store, shown->mutex);
    if (watch->row) {
        watch->next = watch->row->watches;
        watch->row->watches = watch;
        shown->backend_data = watch;
    }
    pthread_mutex_unlock(&self->store->lock);
    if (!watch->row) {
        simba__free(watch);
        return SIMBA_ENOMEM;
    }
    /* This may be a second attempt, after one that ran out of memory. */
    self->host->push(self->host, shown, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
    return 0;
}

static void memory_unwatch(void *instance, simba_watch *shown)
{
    struct instance *self = instance;
    struct watch *watch = shown->backend_data;
    pthread_mutex_lock(&self->store->lock);
    struct watch **link = &watch->row->watches;
    while (*link != watch)
        link = &(*link)->next;
    *link = watch->next;
    if (watch->in_inbox) {
        for (link = &self->inbox; *link != watch; link = &(*link)->inbox_next)
            ;
        *link = watch->inbox_next;
    }
    drop_if_idle(self->store, watch->row);
    pthread_mutex_unlock(&self->store->lock);
    for (struct event *event = take_events(watch), *next; event; event = next) {
        next = event->next;
        simba__free(event);
    }
    simba__free(watch);
    shown->backend_data = NULL;
}

/* --- requests ------------------------------------------------------------------------------------- */

static simba__row_now store_now(simba_host *host)
{
    return (simba__row_now){host->now(host).ns, host->epoch_us(host)};
}

static int list(struct instance *self, simba_request *request)
{
    memset(&request->reply, 0, sizeof request->reply);
    const simba__row_now now = store_now(self->host);
    const simba__table *rows = &self->store->rows;
    for (simba__node *node = simba__table_first(rows); node; node = simba__table_next(rows, node)) {
        const struct row *row = row_of(node);
        if (row->kept.version == 0 || (request->mutex && fnmatch(request->mutex, row->mutex, 0) != 0))
            continue;
        simba__row data;
        simba_owner owner;
        int64_t now_ms;
        load(&row->kept, &data);
        simba__row_show(&data, now, &owner, &now_ms);
        const simba_listing listing = {.size = sizeof listing,
                                       .mutex = row->mutex,
                                       .owner = &owner,
                                       .now_ms = now_ms,
                                       .waiters = -1,
                                       .note = row->note,
                                       .note_length = row->note_size,
                                       .note_token = row->kept.note_token,
                                       .note_written_at_ms = row->kept.note_written_at_ms};
        const int rc = self->host->listed(self->host, request, &listing);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void set_note(struct row *row, unsigned char *note, size_t size)
{
    simba__free(row->note);
    row->note = note;
    row->note_size = size;
}

/* Watchers want to hear when the owner or the note changes, and not of renewals. False: neither has changed. */
static bool is_news(uint64_t token_before, bool owned_before, bool had_note, const simba_owner *owner,
                    const simba_request *request, simba_push *ret_push)
{
    const bool another = token_before != owner->token || owned_before != (owner->id[0] != '\0');
    const bool noted = request->op == SIMBA_OP_WRITE_NOTE || (request->op == SIMBA_OP_FORGET && had_note);
    if (!noted && !another)
        return false;
    ret_push->kind = noted ? SIMBA_PUSH_NOTED : owner->id[0] ? SIMBA_PUSH_ACQUIRED : SIMBA_PUSH_RELEASED;
    if (ret_push->kind == SIMBA_PUSH_ACQUIRED)
        ret_push->owner = *owner;
    ret_push->now_ms = request->reply.now_ms;
    return true;
}

/* Under the store's lock. SIMBA_ENOMEM; or 0, and the push for our own waiters. */
static int apply(struct instance *self, simba_request *request, simba_watch **ret_direct, simba_push *ret_push)
{
    struct row *row = make_row(self->store, request->mutex);
    unsigned char *note = request->note_size ? simba__malloc(request->note_size) : NULL;
    if (!row || (request->note_size && !note)) {
        simba__free(note);
        return SIMBA_ENOMEM;
    }
    if (note)
        memcpy(note, request->note, request->note_size);
    simba__row data;
    load(&row->kept, &data);
    const uint64_t token_before = data.owner.token;
    const bool owned_before = data.owner.id[0] != '\0';
    const bool had_note = row->note != NULL;
    const bool changed = simba__row_apply(&data, store_now(self->host), request);
    int rc = request->reply.status;
    if (changed && keep(&row->kept, &data) < 0) {
        simba__free(note);
        return SIMBA_ENOMEM;
    }
    if (changed && request->op == SIMBA_OP_WRITE_NOTE) {
        set_note(row, note, request->note_size);
        note = NULL;
    } else if (changed && request->op == SIMBA_OP_FORGET) {
        /* Nobody owns the mutex. Its watchers stay, and the row stays for them, as good as new. */
        set_note(row, NULL, 0);
        simba__free(row->kept.owner_id);
        row->kept = (struct kept){.token = row->kept.token};
        load(&row->kept, &data);
    } else if (request->op == SIMBA_OP_READ_NOTE && row->note) {
        rc = self->host->noted(
            self->host, request,
            &(simba_stored_note){row->note, row->note_size, row->kept.note_token, row->kept.note_written_at_ms});
    }
    if (changed && is_news(token_before, owned_before, had_note, &data.owner, request, ret_push))
        *ret_direct = spread(self, row, ret_push);
    simba__free(note);
    drop_if_idle(self->store, row);
    return rc;
}

static void memory_submit(void *instance, simba_request *request)
{
    struct instance *self = instance;
    simba_watch *direct = NULL;
    simba_push push; /* its owner is set only if it tells of one */
    pthread_mutex_lock(&self->store->lock);
    const int rc = request->op == SIMBA_OP_LIST ? list(self, request) : apply(self, request, &direct, &push);
    pthread_mutex_unlock(&self->store->lock);
    if (rc < 0) {
        self->host->fail(self->host, request, rc,
                         rc == SIMBA_ENOMEM ? "memory: out of memory" : "memory: no token left");
        return;
    }
    self->host->complete(self->host, request);
    if (direct)
        self->host->push(self->host, direct, &push);
}

/* The store answers every request when it is submitted. */
static void memory_expire(void *instance, simba_request *request)
{
    (void)instance;
    SIMBA__ASSERT(!request);
}

static void memory_flush(void *instance)
{
    (void)instance; /* the store answered everything when it was submitted */
}

/* --- lifetime ------------------------------------------------------------------------------------- */

static int memory_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    struct instance *self = instance;
    const char *path = simba_url_path(url);
    if (simba_url_authority(url)[0] == '\0' || (path[0] != '\0' && strcmp(path, "/") != 0))
        return simba__fail(err, SIMBA_EURL, "a memory URL is memory://name, with a name and no path");
    self->host = host;
    self->store = open_store(simba_url_authority(url));
    return self->store ? 0 : simba__fail(err, SIMBA_ENOMEM, "out of memory");
}

static void memory_close(void *instance)
{
    struct instance *self = instance;
    self->host->closed(self->host);
}

static void memory_fini(void *instance)
{
    struct instance *self = instance;
    if (self->store)
        close_store(self->store);
}

static const char *const schemes[] = {SIMBA__SCHEMES_memory, NULL};
static const char *const keys[] = {NULL};

extern const simba_backend simba__backend_memory;
const simba_backend simba__backend_memory = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(struct instance),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_PUSH_EVERY | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_WATCH_FREE | SIMBA_CAP_LIST |
            SIMBA_CAP_PROCESS_ONLY | SIMBA_CAP_NOTE,
    .init = memory_init,
    .submit = memory_submit,
    .expire = memory_expire,
    .flush = memory_flush,
    .watch = memory_watch,
    .unwatch = memory_unwatch,
    .woken = memory_woken,
    .close = memory_close,
    .fini = memory_fini,
};
