/* The watch of a client. It first lists: one Lease, or all of the namespace. What it lists is known from then on, and the watch goes on
 * from the version of the list, so nothing is missed in between. The server ends a watch after some minutes; the next one goes on from
 * the last version that was seen, which bookmarks bring up to date. When it is too old (410), or the stream has failed, it lists again.
 *
 * While one mutex is watched, the stream is of that Lease alone. With the second it changes to all of the namespace, and stays there. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/timing.h"
#include "stores/kubernetes/kubernetes.h"
#include "util/clock.h"

enum {
    SERVER_S = 290,      /* how long the server is to keep a watch */
    SILENCE_MS = 150000, /* bookmarks come each minute */
    BEHIND_MS = 5000,    /* an answer has told more than the stream, which has so long to catch up */
    FIRST_MS = 100,      /* pauses after failures, */
    LONGEST_MS = 10000,  /* to this */
};

static void list(kube_store *store);

static kube_store *of(kube_stream *stream)
{
    return SIMBA__OF_ITEM(stream, kube_store, stream);
}

/* The next mutex that is watched, after this one; NULL: no more. */
static kube_mutex *next_watched(const kube_store *store, kube_mutex *mutex)
{
    simba__node *node = mutex ? simba__table_next(&store->mutexes, &mutex->node) : simba__table_first(&store->mutexes);
    while (node && !SIMBA__OF_NODE(node, kube_mutex, node)->watch)
        node = simba__table_next(&store->mutexes, node);
    return node ? SIMBA__OF_NODE(node, kube_mutex, node) : NULL;
}

/* What happens from now on may be missed: the next thing to do is to list. */
static void stop_showing(kube_store *store)
{
    kube_stream *stream = &store->stream;
    stream->live = stream->doubted = false;
    stream->version = 0;
    stream->more[0] = '\0';
    for (kube_mutex *mutex = NULL; (mutex = next_watched(store, mutex));)
        mutex->state.live = mutex->listed = false;
}

static void begin_anew_later(kube_store *store)
{
    stop_showing(store);
    store->host->timer_set(store->host, &store->stream.pause,
                           simba__kube_again_at(store, store->stream.failures++, FIRST_MS, LONGEST_MS));
}

static void fail(kube_store *store, int status, simba__json body, const simba_error *error)
{
    const simba_error refusal = simba__kube_refusal(store, "the watch", status, body, error);
    if (store->stream.failures == 0)
        store->host->log(store->host, SIMBA_LOG_WARN, "%s; until it works again, waiters ask when a lease ends",
                         refusal.text);
    begin_anew_later(store);
}

/* --- events ------------------------------------------------------------------------------------------ */

static void take_object(kube_store *store, simba__json object, bool deleted)
{
    kube_lease lease;
    if (!simba__kube_parse_lease(object, &lease))
        return;
    kube_mutex *mutex = simba__kube_mutex(store, lease.mutex, false);
    if (lease.record.version > store->stream.version)
        store->stream.version = lease.record.version;
    if (!mutex || strcmp(mutex->name, lease.name) != 0)
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
    kube_store *store = of(stream);
    simba__json event;
    char type[16] = "";
    int64_t version = 0;
    if (!simba__json_read(text, length, &event))
        return;
    const simba__json object = simba__json_get(event, "object");
    simba__json_text(simba__json_get(event, "type"), type, sizeof type);
    if (strcmp(type, "ERROR") == 0) {
        stream->outdated = true; /* mostly 410, too old: the list says what is wrong otherwise */
        return;
    }
    stream->failures = 0;
    if (stream->doubted)
        store->host->timer_clear(store->host, &stream->pause);
    stream->doubted = false;
    if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0 || strcmp(type, "DELETED") == 0)
        take_object(store, object, type[0] == 'D');
    else if (strcmp(type, "BOOKMARK") == 0 &&
             simba__json_int(simba__json_get(simba__json_get(object, "metadata"), "resourceVersion"), &version) &&
             (uint64_t)version > stream->version)
        stream->version = (uint64_t)version;
}

static void watch_over(kube_call *call, int status, simba__json body, const simba_error *error);

static bool watch(kube_store *store)
{
    kube_stream *stream = &store->stream;
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
        begin_anew_later(store);
    return stream->live;
}

static void watch_over(kube_call *call, int status, simba__json body, const simba_error *error)
{
    kube_store *store = call->store;
    const kube_stream *stream = &store->stream;
    const bool was_short = store->host->now(store->host).ns - stream->began_at.ns < FIRST_MS * SIMBA__NS_PER_MS;
    if (error || (status != 200 && status != 410))
        fail(store, status, body, error);
    else if (status == 410 || stream->outdated || was_short)
        begin_anew_later(store);
    else
        watch(store);
}

static void list_over(kube_call *call, int status, simba__json body, const simba_error *error)
{
    kube_store *store = call->store;
    kube_stream *stream = &store->stream;
    simba_host *host = store->host;
    const simba__json metadata = simba__json_get(body, "metadata");
    int64_t version = 0;
    if (error || status != 200 || !simba__json_int(simba__json_get(metadata, "resourceVersion"), &version) ||
        version <= 0) {
        fail(store, status, body, error);
        return;
    }
    const simba__json items = simba__json_get(body, "items");
    for (simba__json item = {0}; simba__json_next(items, &item);)
        take_object(store, item, false);
    if (simba__json_text(simba__json_get(metadata, "continue"), stream->more, sizeof stream->more) && stream->more[0]) {
        list(store);
        return;
    }
    stream->version = (uint64_t)version;
    if (!watch(store))
        return;
    for (kube_mutex *mutex = NULL; (mutex = next_watched(store, mutex));) {
        const kube_lease none = {.record.version = stream->version};
        if (!mutex->listed)
            simba__kube_saw(mutex, &none); /* it does not exist */
        mutex->listed = false;
        mutex->state.live = true;
        host->push(host, mutex->watch, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
    }
}

static void list(kube_store *store)
{
    kube_stream *stream = &store->stream;
    char more[KUBE_TARGET_SIZE / 2 + 300], path[KUBE_TARGET_SIZE];
    if (stream->name[0])
        snprintf(more, sizeof more, "?fieldSelector=metadata.name%%3D%s", stream->name);
    else
        snprintf(more, sizeof more, "?limit=%d%s%s", KUBE_PAGE, stream->more[0] ? "&continue=" : "", stream->more);
    stream->list.over = list_over;
    stream->list.http.body_most = KUBE_LIST_MOST;
    if (simba__kube_send(store, &stream->http, &stream->list, "GET", simba__kube_path(store, NULL, more, path), NULL) <
        0)
        begin_anew_later(store);
}

/* A router may have forgotten the connection: a quiet one would not show that for long. */
void simba__kube_answered(kube_store *store, uint64_t version)
{
    kube_stream *stream = &store->stream;
    if (!stream->live || stream->doubted || version <= stream->version)
        return;
    stream->doubted = true;
    store->host->timer_set(store->host, &stream->pause,
                           simba__local_add(store->host->now(store->host), BEHIND_MS * SIMBA__NS_PER_MS));
}

static void pause_over(simba_timer *timer, simba_local now)
{
    kube_store *store = SIMBA__OF_ITEM(timer, kube_store, stream.pause);
    (void)now;
    stop_showing(store);
    simba__http_close(&store->stream.http); /* a link that failed would wait for its own next attempt */
    list(store);
}

/* --- its life ---------------------------------------------------------------------------------------- */

static void begin(kube_store *store, const char *name)
{
    simba__kube_stream_close(store);
    strcpy(store->stream.name, name);
    store->stream.failures = 0;
    list(store);
}

int simba__kube_watch(kube_store *store, simba_watch *watch)
{
    kube_stream *stream = &store->stream;
    kube_mutex *mutex = simba__kube_mutex(store, watch->mutex, true);
    if (!mutex)
        return SIMBA_ENOMEM;
    simba__list_remove(&mutex->idle);
    watch->backend_data = mutex;
    mutex->watch = watch;
    mutex->listed = false;
    if (++stream->mutexes == 1 || stream->name[0]) {
        begin(store, stream->mutexes == 1 ? mutex->name : "");
        return 0;
    }
    /* The stream shows what is written from now on, or is already past this Lease in its list: a read comes before that. */
    mutex->state.stale = mutex->listed = true;
    mutex->state.live = stream->live;
    if (stream->live)
        store->host->push(store->host, watch, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
    return 0;
}

void simba__kube_unwatch(kube_store *store, simba_watch *watch)
{
    kube_mutex *mutex = watch->backend_data;
    watch->backend_data = NULL;
    mutex->watch = NULL;
    mutex->state.live = false;
    if (--store->stream.mutexes == 0)
        simba__kube_stream_close(store);
}

int simba__kube_stream_init(kube_store *store)
{
    static const simba__http_events events = {0};
    kube_stream *stream = &store->stream;
    stream->pause.fire = pause_over;
    const int rc = simba__http_init(&stream->http, &store->links, &events, store, store->options.connect_timeout_ns);
    stream->http.link.at = store->options.at;
    return rc < 0 ? rc : store->host->timer_add(store->host, &stream->pause);
}

void simba__kube_stream_close(kube_store *store)
{
    stop_showing(store);
    store->host->timer_clear(store->host, &store->stream.pause);
    simba__http_close(&store->stream.http);
}
