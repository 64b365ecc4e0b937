/* See http.h. */
#include "health/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* --- the request ---------------------------------------------------------------------------------- */

/* The head ends with an empty line; some clients end lines with a line feed alone. */
static bool has_end(const char *bytes, size_t length)
{
    return memmem(bytes, length, "\r\n\r\n", 4) != NULL || memmem(bytes, length, "\n\n", 2) != NULL;
}

static bool is(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static http_page page_of(const char *target, size_t length)
{
    const char *query = memchr(target, '?', length);
    const size_t path = query != NULL ? (size_t)(query - target) : length;
    if (is(target, path, "/"))
        return HTTP_STATUS;
    if (is(target, path, "/metrics"))
        return HTTP_METRICS;
    if (is(target, path, "/healthz"))
        return HTTP_HEALTH;
    return HTTP_NOT_FOUND;
}

/* "METHOD TARGET HTTP/1.x" */
static http_request parse_line(const char *line, size_t length)
{
    const http_request bad = {HTTP_BAD, false};
    const char *end = line + length;
    const char *target = memchr(line, ' ', length);
    if (target == NULL || target == line)
        return bad;
    const char *version = memchr(target + 1, ' ', (size_t)(end - target - 1));
    if (version == NULL || target[1] != '/' || end - version != 9 || memcmp(version, " HTTP/1.", 8) != 0)
        return bad;
    const bool get = is(line, (size_t)(target - line), "GET");
    const bool head = is(line, (size_t)(target - line), "HEAD");
    const http_page page = get || head ? page_of(target + 1, (size_t)(version - target - 1)) : HTTP_NOT_ALLOWED;
    return (http_request){page, head};
}

http_request http_parse(const char *bytes, size_t length)
{
    if (!has_end(bytes, length))
        return (http_request){length < HTTP_REQUEST_MAX ? HTTP_INCOMPLETE : HTTP_TOO_LARGE, false};
    const char *end = memchr(bytes, '\n', length);
    size_t line = (size_t)(end - bytes);
    if (line > 0 && bytes[line - 1] == '\r')
        line--;
    return parse_line(bytes, line);
}

/* --- the answer ----------------------------------------------------------------------------------- */

static void print_status(FILE *out, const health_view *view)
{
    const bool leader = health_is_leader(view);
    const bool holds = view->lease.token != 0;
    const char *owner = simba_owner_is_none(&view->owner) ? NULL : view->owner.id;
    fputc('{', out);
    json_text(out, "mutex", view->mutex);
    fputc(',', out);
    json_text(out, "id", view->id);
    fprintf(out, ",\"leads\":%s,", leader ? "true" : "false");
    json_token(out, holds ? &view->lease.token : NULL);
    fprintf(out, ",\"held_for_ms\":%" PRId64 ",\"left_ms\":%" PRId64 ",\"overdue\":%s,",
            holds && view->leads ? view->lease.held_for_ms : 0, view->lease.left_ms,
            view->lease.overdue ? "true" : "false");
    json_text(out, "owner", holds && view->id != NULL ? view->id : owner);
    fputs("}\n", out);
}

static void print_metrics(FILE *out, const health_view *view)
{
    simba_stats stats = SIMBA_STATS_INIT;
    const simba_stats *const all[] = {&stats};
    if (view->client != NULL)
        simba_client_stats(view->client, &stats);
    const char *const *names = view->mutex != NULL ? &view->mutex : NULL;
    const int length = simba_stats_write(all, names, 1, SIMBA_STATS_MUTEX | SIMBA_STATS_MORE, NULL, 0);
    char *text = length > 0 ? malloc((size_t)length + 1) : NULL;
    if (text != NULL &&
        simba_stats_write(all, names, 1, SIMBA_STATS_MUTEX | SIMBA_STATS_MORE, text, (size_t)length + 1) == length)
        fputs(text, out);
    free(text);
    fprintf(out,
            "# TYPE simba_store_refuses gauge\n"
            "# HELP simba_store_refuses Whether the store refuses this client, which waiting does not mend.\n"
            "simba_store_refuses %d\n# EOF\n",
            view->refused);
}

static const char *print_body(FILE *out, http_page page, const health_view *view)
{
    switch (page) {
    case HTTP_STATUS:
        print_status(out, view);
        return health_is_leader(view) ? "200 OK" : "503 Service Unavailable";
    case HTTP_METRICS:
        print_metrics(out, view);
        return "200 OK";
    case HTTP_HEALTH:
        if (view->refused)
            fprintf(out, "The store refuses: %s.\n", view->refusal.text);
        else
            fputs("ok\n", out);
        return view->refused ? "503 Service Unavailable" : "200 OK";
    case HTTP_NOT_FOUND:
        fputs("There are /, /metrics and /healthz.\n", out);
        return "404 Not Found";
    case HTTP_NOT_ALLOWED:
        fputs("Only GET and HEAD are answered.\n", out);
        return "405 Method Not Allowed\r\nAllow: GET, HEAD";
    case HTTP_TOO_LARGE:
        return "431 Request Header Fields Too Large";
    case HTTP_INCOMPLETE:
    case HTTP_BAD:
        break;
    }
    return "400 Bad Request";
}

static const char *type_of(http_page page)
{
    return page == HTTP_STATUS    ? "application/json"
           : page == HTTP_METRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                  : "text/plain; charset=utf-8";
}

char *http_answer(const http_request *request, const health_view *view, size_t *ret_length)
{
    char *body = NULL;
    char *answer = NULL;
    size_t body_length = 0;
    FILE *out = open_memstream(&body, &body_length);
    if (out == NULL)
        return NULL;
    const char *status = print_body(out, request->page, view);
    const bool good = fclose(out) == 0;
    FILE *whole = good ? open_memstream(&answer, ret_length) : NULL;
    if (whole != NULL) {
        fprintf(whole,
                "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
                "Connection: close\r\n\r\n",
                status, type_of(request->page), body_length);
        if (!request->head_only)
            fwrite(body, 1, body_length, whole);
        if (fclose(whole) != 0) {
            free(answer);
            answer = NULL;
        }
    }
    free(body);
    return answer;
}
