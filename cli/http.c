/* See http.h. */
#include "http.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"

enum { BODY_MAX = 4096 };

http_library lib;

int http_load(const char *command)
{
#ifdef SIMBA_CLI_HTTP_LINKED
#define HTTP_FIND(name) lib.name = &name;
    HTTP_FUNCTIONS(HTTP_FIND)
    (void)command;
    return CLI_GO;
#else
    void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    bool all = handle != NULL;
#define HTTP_FIND(name) all = all && (*(void **)&lib.name = dlsym(handle, #name)) != NULL;
    HTTP_FUNCTIONS(HTTP_FIND)
    if (all)
        return CLI_GO;
    return cli_fail(command, CLI_CONFIG,
                    "libmicrohttpd is not installed (%s); on Debian it is the package libmicrohttpd12.", dlerror());
#endif
}

/* --- connections ----------------------------------------------------------------------------------------- */

static void enter(http_connection *c, http_state state)
{
    http_server *s = c->of;
    s->streams -= c->state == HTTP_FOLLOWS;
    s->streams += state == HTTP_FOLLOWS;
    c->state = state;
    c->since_ms = clock_read_ms(CLOCK_MONOTONIC);
    TAILQ_REMOVE(&s->all, c, in_all);
    TAILQ_INSERT_TAIL(&s->all, c, in_all);
}

/* The library closes a connection whose other end seems to be gone. */
static void cut_off(http_connection *c)
{
    c->state = HTTP_CUT_OFF;
    shutdown(c->fd, SHUT_RDWR);
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    http_server *s = user;
    if (what != MHD_CONNECTION_NOTIFY_STARTED) {
        http_connection *c = *context;
        if (c == NULL)
            return;
        enter(c, HTTP_ASKS);
        s->connections--;
        TAILQ_REMOVE(&s->all, c, in_all);
        free(c->pending);
        free(c);
        return;
    }
    http_connection *c = calloc(1, sizeof *c);
    const int fd = lib.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    *context = c;
    if (c == NULL) {
        shutdown(fd, SHUT_RDWR);
        return;
    }
    *c = (http_connection){.of = s, .connection = connection, .fd = fd, .since_ms = clock_read_ms(CLOCK_MONOTONIC)};
    if (++s->connections > s->limits.scarce) {
        http_connection *oldest;
        TAILQ_FOREACH (oldest, &s->all, in_all) {
            if (oldest->state == HTTP_ASKS) {
                cut_off(oldest);
                break;
            }
        }
    }
    TAILQ_INSERT_TAIL(&s->all, c, in_all);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    (void)user, (void)connection, (void)code;
    if (*request != NULL)
        enter(*request, HTTP_ASKS); /* the next one */
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *body, size_t *body_length, void **request)
{
    http_server *s = user;
    http_connection *c = *request;
    (void)version, (void)body;
    if (c == NULL) {
        *request = c = lib.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
        if (c == NULL)
            return MHD_NO;
        c->uploaded = 0;
        enter(c, HTTP_ANSWERED);
        return MHD_YES;
    }
    if (*body_length > 0) { /* no request that is answered has a body */
        c->uploaded += *body_length;
        *body_length = 0;
        return c->uploaded <= BODY_MAX ? MHD_YES : MHD_NO;
    }
    const enum MHD_Result result = s->answer(c, path, method);
    if (c->follows && result == MHD_YES)
        enter(c, HTTP_FOLLOWS);
    c->follows = false;
    return result;
}

void http_suspend(http_connection *c, http_state state)
{
    c->state = state;
    c->is_suspended = true;
    lib.MHD_suspend_connection(c->connection);
}

void http_resume(http_connection *c)
{
    if (!c->is_suspended)
        return;
    c->is_suspended = false;
    if (c->state == HTTP_WAITS) {
        c->state = HTTP_ANSWERED;
        c->since_ms = clock_read_ms(CLOCK_MONOTONIC);
    }
    lib.MHD_resume_connection(c->connection);
}

/* --- answers --------------------------------------------------------------------------------------------- */

enum MHD_Result http_send(http_connection *c, unsigned status, const char *type, struct MHD_Response *response)
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
    if (!c->of->limits.keeps_alive)
        lib.MHD_add_response_header(response, "Connection", "close");
    if (status == MHD_HTTP_UNAUTHORIZED)
        lib.MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"simba\"");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        lib.MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        lib.MHD_add_response_header(response, "Retry-After", "2");
    const enum MHD_Result result = lib.MHD_queue_response(c->connection, status, response);
    lib.MHD_destroy_response(response);
    return result;
}

enum MHD_Result http_send_text(http_connection *c, unsigned status, const char *type, const char *text)
{
    return http_send(c, status, type,
                     lib.MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT));
}

bool http_begin(http_draft *d)
{
    *d = (http_draft){0};
    d->to = open_memstream(&d->text, &d->length);
    return d->to != NULL;
}

enum MHD_Result http_finish(http_connection *c, http_draft *d, unsigned status, const char *type)
{
    if (fclose(d->to) != 0) {
        free(d->text);
        return MHD_NO;
    }
    return http_send(c, status, type, lib.MHD_create_response_from_buffer(d->length, d->text, MHD_RESPMEM_MUST_FREE));
}

/* --- the server ------------------------------------------------------------------------------------------ */

static void ignore_log(void *user, const char *format, va_list args)
{
    (void)user, (void)format, (void)args;
}

int http_start(const char *command, http_server *s, int fd, const http_tls *tls)
{
    static const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem with_tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls != NULL ? (void *)tls->cert : NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls != NULL ? (void *)tls->key : NULL},
        {tls != NULL && tls->client_ca != NULL ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
         tls != NULL ? (void *)tls->client_ca : NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    const unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (tls != NULL ? MHD_USE_TLS : 0);
    TAILQ_INIT(&s->all);
    s->listens = fd;
    s->daemon = lib.MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, ignore_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, s->limits.connections, MHD_OPTION_CONNECTION_TIMEOUT, s->limits.stalled_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, s->limits.memory, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_ARRAY, tls != NULL ? with_tls : none, MHD_OPTION_END);
    if (s->daemon != NULL)
        return CLI_GO;
    return cli_fail(command, CLI_CONFIG,
                    tls != NULL ? "the server cannot be started; are --tls-cert and --tls-key a pair?"
                                : "the server cannot be started: %s.",
                    strerror(errno));
}

void http_stop(http_server *s)
{
    http_connection *c;
    if (s->daemon == NULL)
        return;
    TAILQ_FOREACH (c, &s->all, in_all)
        http_resume(c);
    lib.MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
}

void http_leave_to_parent(http_server *s)
{
    http_connection *c;
    if (s->daemon == NULL)
        return;
    TAILQ_FOREACH (c, &s->all, in_all)
        close(c->fd);
    close(http_fd(s));
    close(s->listens);
    s->daemon = NULL;
}

int http_fd(const http_server *s)
{
    return s->daemon != NULL ? lib.MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd : -1;
}

int http_pause_ms(const http_server *s)
{
    const int look_ms = (int)s->limits.request_ms / 8; /* for connections whose time is over */
    MHD_UNSIGNED_LONG_LONG ms = 0;
    if (s->daemon == NULL || s->connections == 0)
        return -1;
    return lib.MHD_get_timeout(s->daemon, &ms) == MHD_YES && ms < (unsigned)look_ms ? (int)ms : look_ms;
}

void http_run(http_server *s)
{
    http_connection *c;
    if (s->daemon == NULL)
        return;
    const int64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    TAILQ_FOREACH (c, &s->all, in_all) {
        const int64_t age_ms = now_ms - c->since_ms;
        if ((c->state == HTTP_ASKS && age_ms > s->limits.request_ms) ||
            (c->state == HTTP_ANSWERED && age_ms > s->limits.answer_ms))
            cut_off(c);
    }
    lib.MHD_run(s->daemon);
}
