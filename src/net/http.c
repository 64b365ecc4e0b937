/* See http.h. The first call of the list is the one on the wire, if it was sent; its answer is what the parser reads. Whoever is called
 * from here may send, cancel and close: link->life tells whether the connection is still the same afterwards. */
#include "net/http.h"

#include <stdio.h>
#include <string.h>

#include "util/clock.h"
#include "util/digits.h"
#include "util/mem.h"

enum { KEPT = 65536 }; /* of a large body's buffer */

static simba__http *of(simba__link *link)
{
    return SIMBA__OF_ITEM(link, simba__http, link);
}

static simba__http_call *first_of(const simba__list *calls)
{
    return calls->first ? SIMBA__OF_ITEM(calls->first, simba__http_call, item) : NULL;
}

/* The call whose answer is awaited. */
static simba__http_call *on_wire(const simba__http *http)
{
    simba__http_call *call = first_of(&http->calls);
    return call && call->sent ? call : NULL;
}

/* The connection knows nothing of the call any more. A request may have had a password in it. */
static void let_go(simba__http_call *call)
{
    simba__list_remove(&call->item);
    call->http = NULL;
    if (call->request.data)
        explicit_bzero(call->request.data, call->request.length);
    simba__buffer_free(&call->request);
}

/* --- requests ----------------------------------------------------------------------------------------- */

static void put(simba__buffer *out, const char *text)
{
    simba__buffer_put(out, text, strlen(text));
}

static void put_host(simba__buffer *out, const simba__link *link)
{
    const char *host = link->at.port == 0 ? "localhost" : link->tls_name ? link->tls_name : link->at.host;
    const bool is_ipv6 = strchr(host, ':');
    char port[SIMBA__DIGITS_SIZE];
    simba__digits(port, (uint64_t)link->at.port, 1);
    put(out, is_ipv6 ? "Host: [" : "Host: ");
    put(out, host);
    put(out, is_ipv6 ? "]" : "");
    put(out, link->at.port == 0 ? "" : ":");
    put(out, link->at.port == 0 ? "" : port);
    put(out, "\r\n");
}

/* Look after the silence of the server from now on, if the call on the wire has a limit for it. */
static void watch_silence(simba__http *http, const simba__http_call *call)
{
    simba_host *host = http->link.host;
    if (call->silence_ns > 0)
        host->timer_set(host, &http->link.timer, (simba_local){http->heard.ns + call->silence_ns});
    else
        host->timer_clear(host, &http->link.timer);
}

/* Send the first call, if it is not on its way yet. Without a connection, ask for one. */
static void send_next(simba__http *http)
{
    simba__link *link = &http->link;
    simba__http_call *call = first_of(&http->calls);
    if (!call || call->sent)
        return;
    if (link->state == SIMBA__LINK_CLOSED)
        simba__link_open(link);
    if (link->state != SIMBA__LINK_UP)
        return;
    simba__buffer *request = &call->request;
    simba__buffer_put(&link->out, request->data, call->request_line);
    put_host(&link->out, link);
    simba__buffer_put(&link->out, request->data + call->request_line, request->length - call->request_line);
    explicit_bzero(request->data, request->length);
    simba__buffer_free(request);
    call->sent = true;
    http->heard = link->host->now(link->host);
    simba__http_parser_reset(&http->parser);
    http->body.length = 0;
    watch_silence(http, call);
    simba__link_flush(link);
}

/* Printable ASCII from this character on: a control character would begin something else. */
static bool is_fit(const char *text, unsigned char least)
{
    for (; *text; text++)
        if ((unsigned char)*text < least || (unsigned char)*text > '~')
            return false;
    return true;
}

int simba__http_send(simba__http *http, simba__http_call *call, const char *method, const char *target,
                     const char *const *headers, const void *body, size_t length)
{
    simba__buffer *out = &call->request;
    char digits[SIMBA__DIGITS_SIZE];
    if (!is_fit(target, '!'))
        return SIMBA_EINVAL;
    *out = (simba__buffer){0};
    put(out, method);
    put(out, " ");
    put(out, target);
    put(out, " HTTP/1.1\r\n");
    call->request_line = out->length;
    for (; headers && headers[0]; headers += 2) {
        if (!is_fit(headers[1], ' ')) {
            simba__buffer_free(out);
            return SIMBA_EINVAL;
        }
        put(out, headers[0]);
        put(out, ": ");
        put(out, headers[1]);
        put(out, "\r\n");
    }
    if (call->streams) {
        /* A server may answer before it has read the whole body, and forget the rest; not if the connection ends with it. */
        put(out, "Connection: close\r\nTransfer-Encoding: chunked\r\n");
    } else if (length > 0 || strcmp(method, "GET") != 0) {
        simba__digits(digits, length, 1);
        put(out, "Content-Length: ");
        put(out, digits);
        put(out, "\r\n");
    }
    put(out, "\r\n");
    simba__buffer_put(out, body, length);
    if (out->failed) {
        simba__buffer_free(out);
        return SIMBA_ENOMEM;
    }
    call->sent = false;
    call->http = http;
    simba__list_append(&http->calls, &call->item);
    http->quiet = true;
    send_next(http);
    http->quiet = false;
    return 0;
}

int simba__http_more(simba__http_call *call, const void *data, size_t length)
{
    simba__http *http = call->http;
    if (call->sent && http->link.state != SIMBA__LINK_UP)
        return 0; /* it has failed, which is told soon: its bytes must not begin the next connection */
    simba__buffer *out = call->sent ? &http->link.out : &call->request;
    const size_t before = out->length;
    char size[24];
    snprintf(size, sizeof size, "%zx\r\n", length);
    put(out, size);
    simba__buffer_put(out, data, length);
    put(out, "\r\n");
    if (out->failed) {
        out->failed = false; /* what was put before is whole */
        out->length = before;
        return SIMBA_ENOMEM;
    }
    if (call->sent) {
        http->quiet = true;
        simba__link_flush(&http->link);
        http->quiet = false;
    }
    return 0;
}

void simba__http_cancel(simba__http_call *call)
{
    simba__http *http = call->http;
    if (!http)
        return;
    const bool on_way = call == on_wire(http);
    let_go(call);
    if (!on_way)
        return;
    simba__link_close(&http->link);
    http->reached = http->broken = false;
    http->quiet = true;
    send_next(http);
    http->quiet = false;
}

void simba__http_leave(simba__http *http)
{
    if (http->link.state != SIMBA__LINK_UP || on_wire(http))
        return;
    simba__link_close(&http->link);
    http->reached = false;
    http->quiet = true;
    send_next(http);
    http->quiet = false;
}

/* --- answers ------------------------------------------------------------------------------------------ */

/* This server is not to be believed, or not there: begin anew. What has come of the answer is no whole one. */
static void give_up(simba__http *http, int code, const char *why)
{
    simba__http_parser_reset(&http->parser);
    simba__link_fail(&http->link, code, "%s %s: %s", http->link.all->kind, http->link.at.where, why);
}

/* The answer to the call on the wire is complete. */
static void take_end(simba__http *http)
{
    simba__link *link = &http->link;
    simba__http_call *call = on_wire(http);
    simba__buffer_put(&http->body, "", 1);
    if (http->body.failed) {
        http->body.failed = false;
        give_up(http, SIMBA_ENOMEM, "out of memory");
        return;
    }
    const simba__http_answer answer = {http->parser.head, http->body.data, --http->body.length};
    if (answer.head.status < 500)
        link->failures = link->hurries = 0;
    let_go(call);
    if (link->state == SIMBA__LINK_UP)
        link->host->timer_clear(link->host, &link->timer);
    if (link->state == SIMBA__LINK_UP && answer.head.closes) {
        simba__link_close(link);
        http->reached = false;
    }
    call->done(call, &answer, NULL);
    if (http->body.capacity > KEPT)
        simba__buffer_free(&http->body);
    send_next(http);
}

/* Hand on the lines that are complete, and move the rest to the front. */
static void take_lines(simba__http *http, simba__http_call *call)
{
    simba__buffer *body = &http->body;
    const unsigned life = http->link.life;
    size_t from = 0;
    for (char *end; (end = memchr(body->data + from, '\n', body->length - from));) {
        const size_t length = (size_t)(end - body->data) - from;
        const char *line = body->data + from;
        from += length + 1;
        if (length > 0)
            call->line(call, line, length);
        if (http->link.life != life)
            return;
    }
    body->length -= from;
    memmove(body->data, body->data + from, body->length);
}

static void take_body(simba__http *http, const char *data, size_t length)
{
    simba__http_call *call = on_wire(http);
    simba__buffer *body = &http->body;
    simba__buffer_put(body, data, length);
    if (body->failed) {
        body->failed = false;
        give_up(http, SIMBA_ENOMEM, "out of memory");
        return;
    }
    const unsigned life = http->link.life;
    if (http->takes_lines)
        take_lines(http, call);
    if (http->link.life == life && body->length > call->body_most)
        give_up(http, SIMBA_EUNAVAILABLE, "an answer is larger than any that was asked for");
}

static void on_bytes(simba__link *link, const char *data, size_t length)
{
    simba__http *http = of(link);
    const unsigned life = link->life;
    http->heard = link->host->now(link->host);
    while (link->life == life) {
        simba__http_call *call = on_wire(http);
        size_t used, body;
        if (!call && length > 0)
            give_up(http, SIMBA_EUNAVAILABLE, "the server sends what nobody has asked for");
        if (!call)
            return;
        const simba__http_event event = simba__http_parse(&http->parser, data, length, &used, &body);
        data += used;
        length -= used;
        if (event == SIMBA__HTTP_MORE)
            return;
        if (event == SIMBA__HTTP_HEAD) {
            http->takes_lines = call->line && http->parser.head.status == 200;
        } else if (event == SIMBA__HTTP_BODY) {
            take_body(http, data - body, body);
        } else if (event == SIMBA__HTTP_END) {
            if (http->takes_lines && http->body.length > 0) /* the last one had no end */
                take_body(http, "\n", 1);
            if (length > 0)
                http->parser.head.closes = true; /* more than the answer: nobody could tell apart what follows */
            if (link->life == life)
                take_end(http);
        } else {
            char why[160];
            snprintf(why, sizeof why, "an answer is not HTTP/1.1: %s", http->parser.why);
            give_up(http, SIMBA_EUNAVAILABLE, why);
        }
    }
}

/* --- its life ----------------------------------------------------------------------------------------- */

/* Tell of the connection that broke, or could not be made. Calls that were not sent wait for the next connection if this one had been
 * there. A body may last until the connection ends; whatever ended it, the reader of the body has to see whether it is whole. */
static void tell_broken(simba__http *http)
{
    const simba_error error = http->link.error;
    const bool reached = http->reached;
    simba__http_call *call = on_wire(http);
    http->reached = http->broken = false;
    if (call && simba__http_parse_eof(&http->parser) == SIMBA__HTTP_END)
        take_end(http);
    while ((call = first_of(&http->calls)) && (call->sent || !reached))
        simba__list_append(&http->failed, &call->item);
    while ((call = first_of(&http->failed))) {
        let_go(call);
        call->done(call, NULL, &error);
    }
    if (http->events->down)
        http->events->down(http);
}

static void on_find(simba__link *link)
{
    simba__http *http = of(link);
    if (http->broken)
        tell_broken(http);
    if (http->events->find)
        http->events->find(http);
    else
        simba__link_found(link);
}

static void on_up(simba__link *link)
{
    simba__http *http = of(link);
    const unsigned life = link->life;
    http->reached = true;
    if (http->events->up)
        http->events->up(http);
    if (link->life == life)
        send_next(http);
}

static void on_down(simba__link *link)
{
    simba__http *http = of(link);
    if (http->quiet)
        http->broken = true;
    else
        tell_broken(http);
}

static void on_tick(simba__link *link, simba_local now)
{
    simba__http *http = of(link);
    const simba__http_call *call = on_wire(http);
    if (!call || call->silence_ns == 0)
        return;
    if (now.ns - http->heard.ns < call->silence_ns) {
        watch_silence(http, call);
        return;
    }
    simba__http_parser_reset(&http->parser);
    simba__link_fail(link, SIMBA_EUNAVAILABLE, "%s %s: the server has been silent for %lld ms", link->all->kind,
                     link->at.where, (long long)((now.ns - http->heard.ns) / SIMBA__NS_PER_MS));
}

static const simba__link_events link_events = {
    .find = on_find, .up = on_up, .bytes = on_bytes, .down = on_down, .tick = on_tick};

int simba__http_init(simba__http *http, simba__links *all, const simba__http_events *events, void *owner,
                     int64_t connect_timeout_ns)
{
    http->events = events;
    http->owner = owner;
    return simba__link_init(&http->link, all, &link_events, connect_timeout_ns);
}

void simba__http_close(simba__http *http)
{
    simba__http_call *call;
    simba__link_close(&http->link);
    http->reached = http->broken = false;
    while ((call = first_of(&http->calls)) || (call = first_of(&http->failed)))
        let_go(call);
}

void simba__http_fini(simba__http *http)
{
    simba__link_fini(&http->link);
    simba__buffer_free(&http->body);
}
