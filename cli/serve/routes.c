/* Which answer goes to which question. */
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "clock.h"
#include "http.h"
#include "json.h"
#include "page.h"

#define LIST_PATH "/api/v1/mutexes"
#define JSON_TYPE "application/json"

enum { HISTORY_LIMIT = 5000, WATCHED_MS = 15000 };

/* --- answering -------------------------------------------------------------------------------------------- */

static const char *header(const visitor *v, const char *name)
{
    return lib.MHD_lookup_connection_value(v->connection, MHD_HEADER_KIND, name);
}

static const char *parameter(const visitor *v, const char *name)
{
    return lib.MHD_lookup_connection_value(v->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Nothing is loaded from elsewhere, shown inside of another page, guessed to be something else, or kept. */
static enum MHD_Result send_response(visitor *v, unsigned status, const char *type, struct MHD_Response *response)
{
    static const char *const headers[][2] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
         "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
    };
    if (response == NULL)
        return MHD_NO;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        lib.MHD_add_response_header(response, headers[i][0], headers[i][1]);
    lib.MHD_add_response_header(response, "Content-Type", type);
    if (status == MHD_HTTP_UNAUTHORIZED)
        lib.MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"simba\"");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        lib.MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        lib.MHD_add_response_header(response, "Retry-After", "2");
    const enum MHD_Result result = lib.MHD_queue_response(v->connection, status, response);
    lib.MHD_destroy_response(response);
    return result;
}

/* A text that is gathered and then sent. */
typedef struct draft {
    FILE *to;
    char *text;
    size_t length;
} draft;

static bool begin(draft *d)
{
    *d = (draft){0};
    d->to = open_memstream(&d->text, &d->length);
    return d->to != NULL;
}

static enum MHD_Result finish(visitor *v, draft *d, unsigned status, const char *type)
{
    if (fclose(d->to) != 0) {
        free(d->text);
        return MHD_NO;
    }
    return send_response(v, status, type,
                         lib.MHD_create_response_from_buffer(d->length, d->text, MHD_RESPMEM_MUST_FREE));
}

enum MHD_Result http_refuse(visitor *v, unsigned status, const char *text)
{
    draft d;
    if (!begin(&d))
        return MHD_NO;
    fputs("{\"error\":", d.to);
    json_string(d.to, text);
    fputs("}\n", d.to);
    return finish(v, &d, status, JSON_TYPE);
}

/* --- pieces ------------------------------------------------------------------------------------------------- */

typedef struct feeding {
    visitor *v;
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
        r->v->is_suspended = true;
        lib.MHD_suspend_connection(r->v->connection);
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

static enum MHD_Result send_feed(visitor *v, const char *type, feed *f)
{
    feeding *r = cli_alloc(sizeof *r);
    *r = (feeding){v, f};
    v->follows = f->kind == FEED_STREAM;
    struct MHD_Response *response =
        lib.MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, FEED_PIECE, read_feed, r, free_feed);
    if (response == NULL)
        free_feed(r);
    return send_response(v, MHD_HTTP_OK, type, response);
}

/* --- who may ------------------------------------------------------------------------------------------------- */

static bool has_certificate(const visitor *v)
{
    unsigned status = 1;
    if (v->of->options->client_ca == NULL)
        return false;
    const union MHD_ConnectionInfo *info =
        lib.MHD_get_connection_info(v->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info != NULL && lib.gnutls_certificate_verify_peers2((gnutls_session_t)info->tls_session, &status) == 0 &&
           status == 0;
}

static access_request who(const visitor *v)
{
    return (access_request){.host = header(v, "Host"),
                            .origin = header(v, "Origin"),
                            .fetch_site = header(v, "Sec-Fetch-Site"),
                            .authorization = header(v, "Authorization"),
                            .has_certificate = has_certificate(v)};
}

static enum MHD_Result turn_away(visitor *v, access_verdict verdict)
{
    if (verdict == ACCESS_NO_TOKEN)
        return http_refuse(v, MHD_HTTP_UNAUTHORIZED, "this wants the token of simba serve: Authorization: Bearer …");
    if (verdict == ACCESS_FOREIGN)
        return http_refuse(v, MHD_HTTP_FORBIDDEN, "this was sent by a page of another site");
    return http_refuse(v, MHD_HTTP_MISDIRECTED_REQUEST,
                       "this is known as localhost only; to use another name, give simba serve a token");
}

/* --- what there is --------------------------------------------------------------------------------------------- */

/* A number from 1 to `most`; `most` if there is none. 0: the text is not such a number. */
static uint64_t limit_of(const visitor *v, uint64_t most)
{
    const char *text = parameter(v, "limit");
    if (text == NULL)
        return most;
    const size_t length = strlen(text);
    if (length == 0 || length > 9 || strspn(text, "0123456789") != length)
        return 0;
    const uint64_t limit = strtoull(text, NULL, 10);
    return limit < most ? limit : most;
}

static enum MHD_Result list(visitor *v)
{
    const char *after = parameter(v, "after");
    const uint64_t limit = limit_of(v, LOOKER_ROWS_MAX);
    if (limit == 0)
        return http_refuse(v, MHD_HTTP_BAD_REQUEST, "limit wants a number from 1 on");
    if (after != NULL && strlen(after) > SIMBA_MUTEX_BYTES)
        return http_refuse(v, MHD_HTTP_BAD_REQUEST, "after is longer than a name of a mutex");
    return send_feed(v, JSON_TYPE, feed_rows(&v->of->about, after, limit));
}

static enum MHD_Result history(visitor *v)
{
    const uint64_t limit = limit_of(v, HISTORY_LIMIT);
    if (limit == 0)
        return http_refuse(v, MHD_HTTP_BAD_REQUEST, "limit wants a number from 1 on");
    return send_feed(v, JSON_TYPE, feed_history(&v->of->about, limit));
}

static enum MHD_Result events(visitor *v)
{
    const char *since = header(v, "Last-Event-ID");
    if (v->of->about.streams >= HTTP_STREAMS)
        return http_refuse(v, MHD_HTTP_SERVICE_UNAVAILABLE, "too many follow the events already");
    return send_feed(v, "text/event-stream", feed_stream(&v->of->about, since != NULL ? since : parameter(v, "since")));
}

static enum MHD_Result one(visitor *v, const char *mutex)
{
    draft d;
    const table_row *row = table_find(&v->of->table, mutex);
    if (row == NULL)
        return http_refuse(v, MHD_HTTP_NOT_FOUND, "the store has no such mutex");
    if (!begin(&d))
        return MHD_NO;
    answer_mutex(d.to, &v->of->about, row);
    return finish(v, &d, MHD_HTTP_OK, JSON_TYPE);
}

static enum MHD_Result metrics(visitor *v)
{
    draft d;
    if (!begin(&d))
        return MHD_NO;
    answer_metrics(d.to, &v->of->about);
    return finish(v, &d, MHD_HTTP_OK, "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

static enum MHD_Result send_text(visitor *v, unsigned status, char *text)
{
    return send_response(v, status, JSON_TYPE,
                         lib.MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result health(visitor *v)
{
    return send_text(v, MHD_HTTP_OK, "{\"alive\":true}\n");
}

/* Open to everybody, as probes are: no names, no addresses. */
static enum MHD_Result readiness(visitor *v)
{
    return v->of->table.answers ? send_text(v, MHD_HTTP_OK, "{\"ready\":true}\n")
                                : send_text(v, MHD_HTTP_SERVICE_UNAVAILABLE, "{\"ready\":false}\n");
}

static enum MHD_Result page(visitor *v, const page_file *file)
{
    return send_response(v, MHD_HTTP_OK, file->type,
                         lib.MHD_create_response_from_buffer((size_t)(file->end - file->start), (void *)file->start,
                                                             MHD_RESPMEM_PERSISTENT));
}

/* --- forced release ---------------------------------------------------------------------------------------------- */

static enum MHD_Result released(visitor *v)
{
    const release_order *order = &v->order;
    if (order->code == SIMBA_ENOTFOUND)
        return http_refuse(v, MHD_HTTP_NOT_FOUND, "nobody owns this mutex");
    if (order->code == SIMBA_ESTATE)
        return http_refuse(v, MHD_HTTP_CONFLICT, "the mutex is held under another token by now");
    if (order->code < 0)
        return http_refuse(v, order->code == SIMBA_EINVAL ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_BAD_GATEWAY,
                           order->error.text[0] != '\0' ? order->error.text : simba_error_text(order->code));
    cli_inform(SERVE_COMMAND, "%s was taken away from its owner, as asked for by HTTP.", order->mutex);
    const table_row *row = table_find(&v->of->table, order->mutex);
    return row != NULL ? one(v, order->mutex) : health(v);
}

static enum MHD_Result release(visitor *v)
{
    const char *mutex = parameter(v, "mutex");
    const char *token = parameter(v, "token");
    if (!v->of->options->allow_release)
        return http_refuse(v, MHD_HTTP_FORBIDDEN, "simba serve was started without --allow-release");
    const access_request request = who(v);
    const access_verdict verdict = access_to_change(&v->of->rules, &request);
    if (verdict != ACCESS_GRANTED)
        return turn_away(v, verdict);
    v->order = (release_order){.user = v};
    if (mutex == NULL || mutex[0] == '\0' || strlen(mutex) >= sizeof v->order.mutex)
        return http_refuse(v, MHD_HTTP_BAD_REQUEST, "mutex wants the name of one");
    if (token != NULL && (token[0] == '\0' || strlen(token) >= sizeof v->order.token))
        return http_refuse(v, MHD_HTTP_BAD_REQUEST, "token wants the number of a grant");
    snprintf(v->order.mutex, sizeof v->order.mutex, "%s", mutex);
    snprintf(v->order.token, sizeof v->order.token, "%s", token != NULL ? token : "");
    if (!looker_release(v->of->asking, &v->order))
        return http_refuse(v, MHD_HTTP_SERVICE_UNAVAILABLE, "another release is in progress");
    v->state = VISITOR_RELEASES;
    v->is_suspended = true;
    lib.MHD_suspend_connection(v->connection);
    return MHD_YES;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static enum MHD_Result answer_read(visitor *v, const char *path)
{
    const size_t prefix = strlen(LIST_PATH "/");
    v->of->watched_until_ms = clock_read_ms(CLOCK_MONOTONIC) + WATCHED_MS;
    if (strcmp(path, LIST_PATH) == 0)
        return list(v);
    if (strncmp(path, LIST_PATH "/", prefix) == 0)
        return one(v, path + prefix);
    if (strcmp(path, "/api/v1/history") == 0)
        return history(v);
    if (strcmp(path, "/api/v1/events") == 0)
        return events(v);
    if (strcmp(path, "/metrics") == 0)
        return metrics(v);
    return http_refuse(v, MHD_HTTP_NOT_FOUND, "there is no such page");
}

enum MHD_Result routes_answer(visitor *v, const char *path, const char *method)
{
    const bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    const page_file *file = page_find(path);
    if (v->state == VISITOR_RELEASED)
        return released(v);
    if (strcmp(path, "/api/v1/release") == 0 && strcmp(method, "POST") == 0)
        return release(v);
    if (!reads)
        return http_refuse(v, MHD_HTTP_METHOD_NOT_ALLOWED, "this can be read only");
    if (strcmp(path, "/healthz") == 0)
        return health(v);
    if (strcmp(path, "/readyz") == 0)
        return readiness(v);
    if (file != NULL)
        return page(v, file);
    const access_request request = who(v);
    const access_verdict verdict = access_to_read(&v->of->rules, &request);
    return verdict == ACCESS_GRANTED ? answer_read(v, path) : turn_away(v, verdict);
}
