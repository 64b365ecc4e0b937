/* Which answer goes to which question. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "feed.h"
#include "json.h"
#include "server.h"

#define LIST_PATH "/api/v1/mutexes"
#define JSON_TYPE "application/json"

enum { HISTORY_LIMIT = 5000, WATCHED_MS = 15000 };

static server *of(const http_connection *c)
{
    return (server *)(void *)c->of;
}

static const char *header(const http_connection *c, const char *name)
{
    return lib.MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

static const char *parameter(const http_connection *c, const char *name)
{
    return lib.MHD_lookup_connection_value(c->connection, MHD_GET_ARGUMENT_KIND, name);
}

static enum MHD_Result refuse(http_connection *c, unsigned status, const char *text)
{
    http_draft d;
    if (!http_begin(&d))
        return MHD_NO;
    json_writer j = {.to = d.to};
    json_open(&j, NULL, '{');
    json_text(&j, "error", text);
    json_close(&j, '}');
    fputc('\n', d.to);
    return http_finish(c, &d, status, JSON_TYPE);
}

/* --- pieces ------------------------------------------------------------------------------------------------- */

typedef struct feeding {
    http_connection *c;
    feed *f;
} feeding;

static ssize_t read_feed(void *user, uint64_t position, char *out, size_t size)
{
    const feeding *r = user;
    size_t length = 0;
    (void)position;
    switch (feed_read(r->f, out, size, &length)) {
    case FEED_HAS:
        return (ssize_t)length;
    case FEED_WAITS:
        http_suspend(r->c, r->c->state);
        return 0;
    case FEED_OVER:
        break;
    }
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static void free_feed(void *user)
{
    feeding *r = user;
    feed_free(r->f);
    free(r);
}

static enum MHD_Result send_feed(http_connection *c, const char *type, feed *f)
{
    feeding *r = cli_alloc(sizeof *r);
    *r = (feeding){c, f};
    c->follows = f->kind == FEED_STREAM;
    struct MHD_Response *response =
        lib.MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, FEED_PIECE, read_feed, r, free_feed);
    if (response == NULL)
        free_feed(r);
    return http_send(c, MHD_HTTP_OK, type, response);
}

/* --- who may ------------------------------------------------------------------------------------------------- */

static bool has_certificate(const http_connection *c)
{
    unsigned status = 1;
    if (of(c)->options->tls.client_ca == NULL)
        return false;
    const union MHD_ConnectionInfo *info =
        lib.MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info != NULL && lib.gnutls_certificate_verify_peers2((gnutls_session_t)info->tls_session, &status) == 0 &&
           status == 0;
}

static access_request who(const http_connection *c)
{
    return (access_request){.host = header(c, "Host"),
                            .origin = header(c, "Origin"),
                            .fetch_site = header(c, "Sec-Fetch-Site"),
                            .authorization = header(c, "Authorization"),
                            .has_certificate = has_certificate(c)};
}

static enum MHD_Result turn_away(http_connection *c, access_verdict verdict)
{
    if (verdict == ACCESS_NO_TOKEN)
        return refuse(c, MHD_HTTP_UNAUTHORIZED, "this wants the token of simba serve: Authorization: Bearer …");
    if (verdict == ACCESS_FOREIGN)
        return refuse(c, MHD_HTTP_FORBIDDEN, "this was sent by a page of another site");
    return refuse(c, MHD_HTTP_MISDIRECTED_REQUEST,
                  "this is known as localhost only; to use another name, give simba serve a token");
}

/* --- what there is --------------------------------------------------------------------------------------------- */

/* A number from 1 to `most`; `most` if there is none. 0: the text is not such a number. */
static uint64_t limit_of(const http_connection *c, uint64_t most)
{
    const char *text = parameter(c, "limit");
    if (text == NULL)
        return most;
    const size_t length = strlen(text);
    if (length == 0 || length > 9 || strspn(text, "0123456789") != length)
        return 0;
    const uint64_t limit = strtoull(text, NULL, 10);
    return limit < most ? limit : most;
}

static enum MHD_Result events(http_connection *c)
{
    const char *since = header(c, "Last-Event-ID");
    if (c->of->streams >= SERVE_STREAMS)
        return refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, "too many follow the events already");
    return send_feed(c, "text/event-stream", feed_stream(&of(c)->about, since != NULL ? since : parameter(c, "since")));
}

static enum MHD_Result one(http_connection *c, const char *mutex)
{
    http_draft d;
    const table_row *row = table_find(&of(c)->table, mutex);
    if (row == NULL)
        return refuse(c, MHD_HTTP_NOT_FOUND, "the store has no such mutex");
    if (!http_begin(&d))
        return MHD_NO;
    answer_mutex(d.to, &of(c)->about, row);
    return http_finish(c, &d, MHD_HTTP_OK, JSON_TYPE);
}

static enum MHD_Result metrics(http_connection *c)
{
    http_draft d;
    if (!http_begin(&d))
        return MHD_NO;
    of(c)->about.connections = c->of->connections;
    of(c)->about.streams = c->of->streams;
    answer_metrics(d.to, &of(c)->about);
    return http_finish(c, &d, MHD_HTTP_OK, "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

/* The assembler reads the file: no generator, and no array of ten thousand numbers for the compiler. */
#define EMBED(symbol, file)                                                                                            \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".global page_" #symbol "_start\n.hidden page_" #symbol "_start\npage_" #symbol "_start:\n"                \
            ".incbin \"" SIMBA_PAGE_FOLDER "/" file "\"\n"                                                             \
            ".global page_" #symbol "_end\n.hidden page_" #symbol "_end\npage_" #symbol "_end:\n.byte 0\n"             \
            ".popsection\n");                                                                                          \
    extern const unsigned char page_##symbol##_start[], page_##symbol##_end[]

EMBED(index, "index.html");
EMBED(style, "style.css");
EMBED(model, "model.js");
EMBED(timeline, "timeline.js");
EMBED(app, "app.js");

/* The files of cli/page, inside the program. */
static const struct page_file {
    const char *path;
    const char *type;
    const unsigned char *start, *end;
} files[] = {
    {"/", "text/html; charset=utf-8", page_index_start, page_index_end},
    {"/style.css", "text/css; charset=utf-8", page_style_start, page_style_end},
    {"/model.js", "text/javascript; charset=utf-8", page_model_start, page_model_end},
    {"/timeline.js", "text/javascript; charset=utf-8", page_timeline_start, page_timeline_end},
    {"/app.js", "text/javascript; charset=utf-8", page_app_start, page_app_end},
};

/* --- forced release ---------------------------------------------------------------------------------------------- */

static enum MHD_Result released(http_connection *c, const release_order *order)
{
    if (order->code == SIMBA_ENOTFOUND)
        return refuse(c, MHD_HTTP_NOT_FOUND, "nobody owns this mutex");
    if (order->code == SIMBA_ESTATE)
        return refuse(c, MHD_HTTP_CONFLICT, "the mutex is held under another token by now");
    if (order->code < 0)
        return refuse(c, order->code == SIMBA_EINVAL ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_BAD_GATEWAY,
                      order->error.text[0] != '\0' ? order->error.text : simba_error_text(order->code));
    cli_info(SERVE_COMMAND, "%s was taken away from its owner, as asked for by HTTP.", order->mutex);
    const table_row *row = table_find(&of(c)->table, order->mutex);
    return row != NULL ? one(c, order->mutex) : http_send_text(c, MHD_HTTP_OK, JSON_TYPE, "{\"alive\":true}\n");
}

static enum MHD_Result release(http_connection *c)
{
    const char *mutex = parameter(c, "mutex");
    const char *token = parameter(c, "token");
    if (!of(c)->options->allow_release)
        return refuse(c, MHD_HTTP_FORBIDDEN, "simba serve was started without --allow-release");
    const access_request request = who(c);
    const access_verdict verdict = access_to_change(&of(c)->rules, &request);
    if (verdict != ACCESS_GRANTED)
        return turn_away(c, verdict);
    if (mutex == NULL || mutex[0] == '\0' || strlen(mutex) > SIMBA_MUTEX_BYTES)
        return refuse(c, MHD_HTTP_BAD_REQUEST, "mutex wants the name of one");
    if (token != NULL && (token[0] == '\0' || strlen(token) >= RELEASE_TOKEN_SIZE))
        return refuse(c, MHD_HTTP_BAD_REQUEST, "token wants the number of a grant");
    release_order *order = calloc(1, sizeof *order);
    if (order == NULL)
        return MHD_NO;
    order->user = c;
    snprintf(order->mutex, sizeof order->mutex, "%s", mutex);
    snprintf(order->token, sizeof order->token, "%s", token != NULL ? token : "");
    if (!poller_release(of(c)->poller, order)) {
        free(order);
        return refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, "another release is in progress");
    }
    c->pending = order;
    http_suspend(c, HTTP_WAITS);
    return MHD_YES;
}

/* ------------------------------------------------------------------------------------------------------------------ */

enum MHD_Result routes_answer(http_connection *c, const char *path, const char *method)
{
    const bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    server *s = of(c);
    if (c->pending != NULL) {
        const enum MHD_Result result = released(c, c->pending);
        free(c->pending);
        c->pending = NULL;
        return result;
    }
    if (strcmp(path, "/api/v1/release") == 0 && strcmp(method, "POST") == 0)
        return release(c);
    if (!reads)
        return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "this can be read only");
    /* Open to everybody, as probes are: no names, no addresses. */
    if (strcmp(path, "/healthz") == 0)
        return http_send_text(c, MHD_HTTP_OK, JSON_TYPE, "{\"alive\":true}\n");
    if (strcmp(path, "/readyz") == 0)
        return http_send_text(c, s->table.answers ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, JSON_TYPE,
                              s->table.answers ? "{\"ready\":true}\n" : "{\"ready\":false}\n");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(files[i].path, path) == 0)
            return http_send(c, MHD_HTTP_OK, files[i].type,
                             lib.MHD_create_response_from_buffer((size_t)(files[i].end - files[i].start),
                                                                 (void *)files[i].start, MHD_RESPMEM_PERSISTENT));
    const access_request request = who(c);
    const access_verdict verdict = access_to_read(&s->rules, &request);
    if (verdict != ACCESS_GRANTED)
        return turn_away(c, verdict);
    s->watched_until_ms = clock_read_ms(CLOCK_MONOTONIC) + WATCHED_MS;
    const bool lists = strcmp(path, LIST_PATH) == 0;
    if (lists || strcmp(path, "/api/v1/history") == 0) {
        const char *after = lists ? parameter(c, "after") : NULL;
        const uint64_t limit = limit_of(c, lists ? POLLER_ROWS_MAX : HISTORY_LIMIT);
        if (limit == 0)
            return refuse(c, MHD_HTTP_BAD_REQUEST, "limit wants a number from 1 on");
        if (after != NULL && strlen(after) > SIMBA_MUTEX_BYTES)
            return refuse(c, MHD_HTTP_BAD_REQUEST, "after is longer than a name of a mutex");
        return send_feed(c, JSON_TYPE, lists ? feed_rows(&s->about, after, limit) : feed_history(&s->about, limit));
    }
    if (strncmp(path, LIST_PATH "/", strlen(LIST_PATH "/")) == 0)
        return one(c, path + strlen(LIST_PATH "/"));
    if (strcmp(path, "/api/v1/events") == 0)
        return events(c);
    if (strcmp(path, "/metrics") == 0)
        return metrics(c);
    return refuse(c, MHD_HTTP_NOT_FOUND, "there is no such page");
}
