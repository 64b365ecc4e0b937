/* The stream of watches: one request of HTTP that lasts, whose body goes on with a message for each watch that is set or cleared, while
 * the answer goes on with a line for each event.
 *
 * A watch begins with a revision, so it misses nothing that has happened since the answer that led to it, nor while the stream
 * is down: the next stream begins where the last one was. If etcd has compacted those revisions, the owner is told to look. etcd
 * ends the stream when its server has no leader (hasleader). An idle stream asks for its progress now and then, so that a silent server
 * is noticed. */
#include <stdio.h>
#include <string.h>

#include "stores/etcd/etcd.h"
#include "util/clock.h"

#define MS SIMBA__NS_PER_MS

enum { PAUSE_MS = 100, REFUSED_MS = 1000, LINE_MOST = 1024 * 1024 };

static etcd_store *of(simba__http_call *call)
{
    return (etcd_store *)(void *)((char *)call - offsetof(etcd_store, stream.call));
}

static bool has_id(const simba__node *node, const void *id)
{
    return SIMBA__OF_NODE(node, const etcd_watch, node)->id == *(const int64_t *)id;
}

static etcd_watch *find(const etcd_stream *stream, int64_t id)
{
    simba__node *node = simba__table_find(&stream->by_id, (uint64_t)id, has_id, &id);
    return node ? SIMBA__OF_NODE(node, etcd_watch, node) : NULL;
}

static void set_timer(etcd_store *store, int64_t ns)
{
    simba_host *host = store->host;
    host->timer_set(host, &store->stream.timer, (simba_local){host->now(host).ns + ns});
}

/* The stream ends, and another begins where it was. */
static void begin_anew(etcd_store *store, int64_t pause_ms)
{
    simba__http_cancel(&store->stream.call);
    store->stream.open = false;
    set_timer(store, pause_ms * MS);
}

/* The server, or this one of them, serves no watches: there is no leader, the token has expired, or it is no etcd. */
static void refused(etcd_store *store, int status, const etcd_fault *fault)
{
    if (!simba__etcd_refuses_token(store, status, fault, store->stream.token_no))
        simba__etcd_turn_from(store, &store->stream.http);
    begin_anew(store, PAUSE_MS);
}

/* --- messages ----------------------------------------------------------------------------------------------- */

static void say(etcd_store *store, simba__buffer *message)
{
    etcd_stream *stream = &store->stream;
    if (message->failed || simba__http_more(&stream->call, message->data, message->length) < 0)
        begin_anew(store, PAUSE_MS);
    simba__buffer_free(message);
}

static void say_create(etcd_store *store, const etcd_watch *watch)
{
    simba__buffer out = {0};
    simba__json_put(&out, "{'create_request':{");
    if (watch->folder)
        simba__etcd_put_folder(&out, watch->key);
    else
        simba__etcd_put_key(&out, watch->key);
    simba__json_put(&out, ",'watch_id':'%lld','start_revision':'%lld'", (long long)watch->id, (long long)watch->from);
    simba__json_put(&out, watch->puts ? "}}" : ",'filters':['NOPUT']}}");
    say(store, &out);
}

static void say_cancel(etcd_store *store, int64_t id)
{
    simba__buffer out = {0};
    simba__json_put(&out, "{'cancel_request':{'watch_id':'%lld'}}", (long long)id);
    say(store, &out);
}

/* --- lines -------------------------------------------------------------------------------------------------- */

/* etcd does not watch, or watches no more. From 3.5 on it does not say which watch it refuses: then `watch` is NULL. */
static void take_cancel(etcd_store *store, etcd_watch *watch, simba__json result)
{
    simba_host *host = store->host;
    int64_t compacted = 0;
    etcd_fault fault = {0};
    simba__json_int(simba__json_get(result, "compact_revision"), &compacted);
    simba__json_text(simba__json_get(result, "cancel_reason"), fault.text, sizeof fault.text);
    if (watch && compacted > 0) { /* what has happened since `from` is forgotten */
        simba__table_remove(&store->stream.by_id, &watch->node);
        watch->id = ++store->stream.last_id; /* etcd takes no number twice on a stream */
        watch->from = (uint64_t)compacted;
        simba__table_add(&store->stream.by_id, &watch->node, (uint64_t)watch->id);
        say_create(store, watch);
        watch->fired(watch, true);
        return;
    }
    if (simba__etcd_refuses_token(store, 0, &fault, store->stream.token_no)) {
        begin_anew(store, PAUSE_MS);
        return;
    }
    const char *key = watch ? watch->key : "a key";
    const char *why = fault.text[0] ? fault.text : "the server has canceled it";
    host->log(host, SIMBA_LOG_WARN, "etcd %s: cannot watch %s: %s", store->options.where, key, why);
    begin_anew(store, REFUSED_MS);
}

static void on_line(simba__http_call *call, const char *text, size_t length)
{
    etcd_store *store = of(call);
    simba__json line;
    simba__json event = {0};
    int64_t id = 0;
    const bool is_json = simba__json_read(text, length, &line);
    const simba__json result = simba__json_get(line, "result");
    if (!is_json || !result.at || !simba__json_int(simba__json_get(result, "watch_id"), &id)) {
        etcd_fault fault;
        simba__etcd_read_fault(line, &fault);
        refused(store, 200, &fault);
        return;
    }
    etcd_watch *watch = find(&store->stream, id);
    const bool canceled = simba__json_bool(simba__json_get(result, "canceled"));
    if (canceled && (watch || id < 0)) {
        take_cancel(store, watch, result);
        return;
    }
    if (!watch)
        return; /* it was cleared, or this is progress */
    int64_t last = 0;
    const simba__json events = simba__json_get(result, "events");
    while (simba__json_next(events, &event))
        simba__json_int(simba__json_get(simba__json_get(event, "kv"), "mod_revision"), &last);
    if (last <= 0)
        return;
    watch->from = (uint64_t)last + 1;
    watch->fired(watch, false);
}

static void on_done(simba__http_call *call, const simba__http_answer *answer, const simba_error *error)
{
    etcd_store *store = of(call);
    etcd_fault fault = {0};
    simba__json json = {0};
    (void)error;
    if (answer && simba__json_read(answer->body, answer->length, &json))
        simba__etcd_read_fault(json, &fault);
    if (answer)
        refused(store, answer->head.status, &fault);
    else
        begin_anew(store, PAUSE_MS);
}

/* --- watches ------------------------------------------------------------------------------------------------ */

void simba__etcd_stream_flush(etcd_store *store)
{
    etcd_stream *stream = &store->stream;
    const char *const headers[] = {"Content-Type",
                                   "application/json",
                                   "Grpc-Metadata-hasleader",
                                   "true",
                                   store->calls.token ? "Authorization" : NULL,
                                   store->calls.token,
                                   NULL};
    if (stream->open || !stream->watches.first || stream->timer.index != 0)
        return;
    if (!simba__etcd_is_logged_in(store)) {
        if (!store->calls.login) /* which would call this function when it is done */
            set_timer(store, REFUSED_MS * MS);
        return;
    }
    stream->call = (simba__http_call){.done = on_done,
                                      .line = on_line,
                                      .body_most = LINE_MOST,
                                      .streams = true,
                                      .silence_ns = 2 * simba__etcd_patience_ns(store)};
    stream->open = true;
    stream->token_no = store->calls.token_no;
    if (simba__http_send(&stream->http, &stream->call, "POST", "/v3/watch", headers, NULL, 0) < 0) {
        begin_anew(store, PAUSE_MS);
        return;
    }
    for (simba__list_item *item = stream->watches.first; item && stream->open; item = item->next)
        say_create(store, SIMBA__OF_ITEM(item, etcd_watch, item));
    if (stream->open)
        set_timer(store, simba__etcd_patience_ns(store));
}

bool simba__etcd_watch_set(etcd_store *store, etcd_watch *watch, const char *key, uint64_t from)
{
    etcd_stream *stream = &store->stream;
    simba__etcd_watch_clear(store, watch);
    if (!simba__table_reserve(&stream->by_id))
        return false;
    watch->key = key;
    watch->from = from;
    watch->id = ++stream->last_id;
    simba__list_append(&stream->watches, &watch->item);
    simba__table_add(&stream->by_id, &watch->node, (uint64_t)watch->id);
    if (stream->open)
        say_create(store, watch);
    else
        simba__etcd_stream_flush(store);
    return true;
}

void simba__etcd_watch_clear(etcd_store *store, etcd_watch *watch)
{
    etcd_stream *stream = &store->stream;
    if (!watch->item.list)
        return;
    simba__list_remove(&watch->item);
    simba__table_remove(&stream->by_id, &watch->node);
    if (stream->open && !store->session.closing)
        say_cancel(store, watch->id);
}

/* Open the stream again; or have etcd say something, unless calls go to another server by now: the stream follows them. */
static void on_timer(simba_timer *timer, simba_local now)
{
    etcd_store *store = (etcd_store *)(void *)((char *)timer - offsetof(etcd_store, stream.timer));
    etcd_stream *stream = &store->stream;
    simba__buffer out = {0};
    (void)now;
    if (!stream->open) {
        simba__etcd_stream_flush(store);
    } else if (!stream->watches.first) {
        simba__http_cancel(&stream->call);
        stream->open = false;
    } else if (simba__etcd_is_elsewhere(store, &stream->http)) {
        begin_anew(store, 0);
    } else {
        simba__json_put(&out, "{'progress_request':{}}");
        set_timer(store, simba__etcd_patience_ns(store));
        say(store, &out);
    }
}

int simba__etcd_stream_init(etcd_store *store)
{
    etcd_stream *stream = &store->stream;
    stream->timer.fire = on_timer;
    const int rc = simba__http_init(&stream->http, &store->calls.links, &simba__etcd_events, store,
                                    simba__etcd_patience_ns(store));
    return rc < 0 ? rc : store->host->timer_add(store->host, &stream->timer);
}

void simba__etcd_stream_close(etcd_store *store)
{
    store->host->timer_clear(store->host, &store->stream.timer);
    simba__http_close(&store->stream.http);
    store->stream.open = false;
}

void simba__etcd_stream_fini(etcd_store *store)
{
    if (store->stream.http.owner)
        simba__http_fini(&store->stream.http);
    simba__table_fini(&store->stream.by_id);
}
