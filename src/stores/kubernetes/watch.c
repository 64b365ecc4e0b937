/* Watches. A stream first lists: one Lease, or all of the namespace. What it lists is known from then on, and the watch goes on from the
 * version of the list, so nothing is missed in between. The server ends a watch after some minutes; the next one goes on from the last
 * version that was seen, which bookmarks bring up to date. When it is too old (410), or the stream has failed, it lists again.
 *
 * One or two mutexes have a stream each. With the third, all of them change to one of the namespace, and stay there: a connection each
 * would be too many. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/timing.h"
#include "stores/kubernetes/kubernetes.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

enum {
    SINGLE = KUBE_STREAMS - 1, /* streams of one mutex; the last is of the namespace */
    SERVER_S = 290,            /* how long the server is to keep a watch */
    SILENCE_MS = 150000,       /* bookmarks come each minute */
    BEHIND_MS = 5000,          /* an answer has told more than the stream, which has so long to catch up */
    FIRST_MS = 100,            /* pauses after failures, */
    LONGEST_MS = 10000,        /* to this */
};

static void list(kube_stream *stream);

/* Call `each` for every mutex of the stream. It may not end watches. */
static void for_each(kube_stream *stream, void (*each)(kube_mutex *mutex, kube_stream *stream))
{
    const simba__table *mutexes = &stream->store->mutexes;
    for (simba__node *node = simba__table_first(mutexes); node; node = simba__table_next(mutexes, node)) {
        kube_mutex *mutex = SIMBA__OF_NODE(node, kube_mutex, node);
        if (mutex->watch && mutex->stream == stream)
            each(mutex, stream);
    }
}

static void set_dead(kube_mutex *mutex, kube_stream *stream)
{
    (void)stream;
    mutex->state.live = mutex->listed = false;
}

/* What the list did not show does not exist. */
static void set_live(kube_mutex *mutex, kube_stream *stream)
{
    simba_host *host = stream->store->host;
    if (!mutex->listed) {
        const kube_lease none = {.record.version = stream->listed};
        simba__kube_saw(mutex, &none);
    }
    mutex->listed = false;
    mutex->state.live = true;
    if (mutex->watch)
        host->push(host, mutex->watch, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
}

static void stop_showing(kube_stream *stream)
{
    stream->live = stream->doubted = false;
    stream->version = 0;
    stream->more[0] = '\0';
    for_each(stream, set_dead);
}

static void pause_it(kube_stream *stream)
{
    simba_host *host = stream->store->host;
    uint64_t seed = host->random(host);
    int64_t ms = FIRST_MS << (stream->failures < 10 ? stream->failures : 10);
    ms = ms < LONGEST_MS ? ms : LONGEST_MS;
    stream->failures++;
    stop_showing(stream);
    host->timer_set(host, &stream->pause,
                    simba__local_add(host->now(host), simba__random_range(&seed, ms / 2, ms + 1) * SIMBA__NS_PER_MS));
}

/* It failed. Begin anew after a while. */
static void fail(kube_stream *stream, int status, simba__json body, const simba_error *error)
{
    kube_store *store = stream->store;
    simba_error refusal;
    if (!error)
        simba__kube_refusal(store, "the watch", status, body, &refusal);
    if (status == 401)
        simba__kube_renew_token(store);
    if (stream->failures == 0)
        store->host->log(store->host, SIMBA_LOG_WARN, "%s; until it works again, waiters ask when a lease ends",
                         error ? error->text : refusal.text);
    pause_it(stream);
}

/* --- events ------------------------------------------------------------------------------------------ */

static void take_object(kube_stream *stream, simba__json object, bool deleted)
{
    kube_lease lease;
    if (!simba__kube_parse_lease(object, &lease))
        return;
    kube_mutex *mutex = simba__kube_mutex(stream->store, lease.mutex, false);
    if (lease.record.version > stream->version)
        stream->version = lease.record.version;
    if (!mutex || (mutex->stream != stream && stream->name[0]) || strcmp(mutex->name, lease.name) != 0)
        return;
    mutex->listed = true;
    if (deleted) { /* whatever it was */
        lease.flaw = NULL;
        lease.record = (versioned_record){.version = lease.record.version};
    }
    simba__kube_saw(mutex, &lease);
}

static void watch_line(simba__http_call *call, const char *text, size_t length)
{
    kube_stream *stream = SIMBA__OF_ITEM(call, kube_stream, watch.http);
    simba__json event;
    char type[16] = "";
    int64_t code = 0, version = 0;
    if (!simba__json_read(text, length, &event))
        return;
    const simba__json object = simba__json_get(event, "object");
    simba__json_text(simba__json_get(event, "type"), type, sizeof type);
    stream->failures = 0;
    if (stream->doubted)
        stream->store->host->timer_clear(stream->store->host, &stream->pause);
    stream->doubted = false;
    if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0 || strcmp(type, "DELETED") == 0) {
        take_object(stream, object, type[0] == 'D');
    } else if (strcmp(type, "BOOKMARK") == 0) {
        if (simba__json_int(simba__json_get(simba__json_get(object, "metadata"), "resourceVersion"), &version) &&
            (uint64_t)version > stream->version)
            stream->version = (uint64_t)version;
    } else if (strcmp(type, "ERROR") == 0) {
        simba__json_int(simba__json_get(object, "code"), &code);
        stream->outdated = true; /* mostly 410, too old: the list says what is wrong otherwise */
    }
}

static void watch_over(kube_call *call, int status, simba__json body, const simba_error *error);

static bool watch(kube_stream *stream)
{
    kube_store *store = stream->store;
    char more[480], path[KUBE_TARGET_SIZE];
    snprintf(more, sizeof more, "?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%" PRIu64 "%s%s",
             SERVER_S, stream->version, stream->name[0] ? "&fieldSelector=metadata.name%3D" : "", stream->name);
    stream->watch.over = watch_over;
    stream->watch.http.line = watch_line;
    stream->watch.http.silence_ns = SILENCE_MS * SIMBA__NS_PER_MS;
    stream->began_at = store->host->now(store->host);
    stream->outdated = false;
    stream->live = simba__kube_send(store, &stream->http, &stream->watch, "GET",
                                    simba__kube_path(store, NULL, more, path), NULL) == 0;
    if (!stream->live)
        pause_it(stream);
    return stream->live;
}

static void watch_over(kube_call *call, int status, simba__json body, const simba_error *error)
{
    kube_stream *stream = SIMBA__OF_ITEM(call, kube_stream, watch);
    simba_host *host = stream->store->host;
    const bool was_short = host->now(host).ns - stream->began_at.ns < FIRST_MS * SIMBA__NS_PER_MS;
    if (error || (status != 200 && status != 410)) {
        fail(stream, status, body, error);
        return;
    }
    if (status == 410 || stream->outdated)
        stop_showing(stream);
    if (was_short)
        pause_it(stream);
    else if (stream->version == 0)
        list(stream);
    else
        watch(stream);
}

static void list_over(kube_call *call, int status, simba__json body, const simba_error *error)
{
    kube_stream *stream = SIMBA__OF_ITEM(call, kube_stream, list);
    const simba__json metadata = simba__json_get(body, "metadata");
    int64_t version = 0;
    if (error || status != 200 || !simba__json_int(simba__json_get(metadata, "resourceVersion"), &version) ||
        version <= 0) {
        fail(stream, status, body, error);
        return;
    }
    const simba__json items = simba__json_get(body, "items");
    for (simba__json item = {0}; simba__json_next(items, &item);)
        take_object(stream, item, false);
    stream->listed = (uint64_t)version;
    if (simba__json_text(simba__json_get(metadata, "continue"), stream->more, sizeof stream->more) && stream->more[0]) {
        list(stream);
        return;
    }
    stream->version = stream->listed;
    if (watch(stream))
        for_each(stream, set_live);
}

static void list(kube_stream *stream)
{
    kube_store *store = stream->store;
    char more[KUBE_TARGET_SIZE / 2 + 300], path[KUBE_TARGET_SIZE];
    if (stream->name[0])
        snprintf(more, sizeof more, "?fieldSelector=metadata.name%%3D%s", stream->name);
    else
        snprintf(more, sizeof more, "?limit=%d%s%s", KUBE_PAGE, stream->more[0] ? "&continue=" : "", stream->more);
    stream->list.over = list_over;
    stream->list.http.body_most = KUBE_LIST_MOST;
    if (simba__kube_send(store, &stream->http, &stream->list, "GET", simba__kube_path(store, NULL, more, path), NULL) <
        0)
        pause_it(stream);
}

/* A router may have forgotten the connection: a quiet one would not show that for long. */
void simba__kube_answered(kube_stream *stream, uint64_t version)
{
    simba_host *host = stream->store->host;
    if (!stream->live || stream->doubted || version <= stream->version)
        return;
    stream->doubted = true;
    host->timer_set(host, &stream->pause, simba__local_add(host->now(host), BEHIND_MS * SIMBA__NS_PER_MS));
}

static void pause_over(simba_timer *timer, simba_local now)
{
    kube_stream *stream = SIMBA__OF_ITEM(timer, kube_stream, pause);
    (void)now;
    stop_showing(stream);
    simba__http_close(&stream->http); /* a link that failed would wait for its own next attempt */
    list(stream);
}

/* --- who has which stream ---------------------------------------------------------------------------- */

static void end(kube_stream *stream)
{
    if (!stream->used)
        return;
    stream->used = stream->live = stream->doubted = false;
    stream->store->host->timer_clear(stream->store->host, &stream->pause);
    simba__http_close(&stream->http);
}

static void begin(kube_stream *stream, const char *name)
{
    stream->used = true;
    strcpy(stream->name, name);
    stream->version = 0;
    stream->more[0] = '\0';
    stream->failures = 0;
    list(stream);
}

static void move_to_namespace(kube_store *store)
{
    kube_stream *all = &store->streams[SINGLE];
    for (simba__node *node = simba__table_first(&store->mutexes); node;
         node = simba__table_next(&store->mutexes, node)) {
        kube_mutex *mutex = SIMBA__OF_NODE(node, kube_mutex, node);
        if (mutex->watch) {
            mutex->stream = all;
            mutex->state.live = mutex->listed = false;
        }
    }
    for (size_t i = 0; i < SINGLE; i++)
        end(&store->streams[i]);
    begin(all, "");
}

int simba__kube_watch(kube_store *store, simba_watch *watch)
{
    kube_mutex *mutex = simba__kube_mutex(store, watch->mutex, true);
    if (!mutex)
        return SIMBA_ENOMEM;
    simba__list_remove(&mutex->idle);
    watch->backend_data = mutex;
    mutex->watch = watch;
    mutex->listed = false;
    store->watched++;
    kube_stream *all = &store->streams[SINGLE];
    if (!all->used && store->watched > SINGLE) {
        move_to_namespace(store);
    } else if (all->used) {
        /* The stream shows what is written from now on, or is already past this Lease in its list: a read comes before that. */
        mutex->stream = all;
        mutex->state.stale = mutex->listed = true;
        mutex->state.live = all->live;
        if (all->live)
            store->host->push(store->host, watch, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
    } else {
        mutex->stream = store->streams[0].used ? &store->streams[1] : &store->streams[0];
        begin(mutex->stream, mutex->name);
    }
    return 0;
}

void simba__kube_unwatch(kube_store *store, simba_watch *watch)
{
    kube_mutex *mutex = watch->backend_data;
    kube_stream *stream = mutex->stream;
    watch->backend_data = NULL;
    mutex->watch = NULL;
    mutex->stream = NULL;
    mutex->state.live = false;
    store->watched--;
    if (store->watched == 0 || stream != &store->streams[SINGLE])
        end(stream);
}

int simba__kube_watches_init(kube_store *store)
{
    static const simba__http_events events = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < KUBE_STREAMS; i++) {
        kube_stream *stream = &store->streams[i];
        stream->store = store;
        stream->pause.fire = pause_over;
        rc = simba__http_init(&stream->http, &store->links, &events, stream, store->options.connect_timeout_ns);
        stream->http.link.at = store->options.at;
        stream->http.link.tls_name = store->options.tls_name;
        if (rc == 0)
            rc = store->host->timer_add(store->host, &stream->pause);
    }
    return rc;
}

void simba__kube_watches_close(kube_store *store)
{
    for (size_t i = 0; i < KUBE_STREAMS; i++) {
        end(&store->streams[i]);
        simba__http_close(&store->streams[i].http);
    }
}

void simba__kube_watches_fini(kube_store *store)
{
    for (size_t i = 0; i < KUBE_STREAMS; i++)
        if (store->streams[i].http.link.host)
            simba__http_fini(&store->streams[i].http);
}
