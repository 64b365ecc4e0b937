/* See http.h. */
#include "http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "cli.h"
#include "clock.h"

/* --- visitors ------------------------------------------------------------------------------------------ */

static void enter(visitor *v, visitor_state state)
{
    server *s = v->of;
    s->about.streams -= v->state == VISITOR_FOLLOWS;
    s->about.streams += state == VISITOR_FOLLOWS;
    v->state = state;
    v->since_ms = clock_read_ms(CLOCK_MONOTONIC);
    TAILQ_REMOVE(&s->visitors, v, in_all);
    TAILQ_INSERT_TAIL(&s->visitors, v, in_all);
}

/* The library closes a connection whose other end seems to be gone. */
static void cut_off(visitor *v)
{
    v->state = VISITOR_CUT_OFF;
    shutdown(v->fd, SHUT_RDWR);
}

static void make_room(server *s)
{
    visitor *v;
    if (s->about.connections <= HTTP_SCARCE)
        return;
    TAILQ_FOREACH (v, &s->visitors, in_all) {
        if (v->state == VISITOR_ASKS) {
            cut_off(v);
            return;
        }
    }
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    server *s = user;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        visitor *v = cli_alloc(sizeof *v);
        v->of = s;
        v->connection = connection;
        v->fd = lib.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        v->since_ms = clock_read_ms(CLOCK_MONOTONIC);
        *context = v;
        s->about.connections++;
        make_room(s);
        TAILQ_INSERT_TAIL(&s->visitors, v, in_all);
        return;
    }
    visitor *v = *context;
    enter(v, VISITOR_ASKS);
    s->about.connections--;
    TAILQ_REMOVE(&s->visitors, v, in_all);
    free(v);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    (void)user;
    (void)connection;
    (void)code;
    visitor *v = *request;
    if (v != NULL)
        enter(v, VISITOR_ASKS); /* the next one */
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *body, size_t *body_length, void **request)
{
    (void)user;
    (void)version;
    (void)body;
    if (*request == NULL) {
        visitor *v = lib.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
        *request = v;
        v->uploaded = 0;
        enter(v, VISITOR_ANSWERED);
        return MHD_YES;
    }
    visitor *v = *request;
    if (*body_length > 0) { /* nothing that we understand has a body */
        v->uploaded += *body_length;
        *body_length = 0;
        return v->uploaded <= HTTP_BODY_MAX ? MHD_YES : MHD_NO;
    }
    const enum MHD_Result result = routes_answer(v, path, method);
    if (v->follows && result == MHD_YES)
        enter(v, VISITOR_FOLLOWS);
    v->follows = false;
    return result;
}

void http_sweep(server *s, int64_t now_ms)
{
    visitor *v;
    TAILQ_FOREACH (v, &s->visitors, in_all) {
        const int64_t age_ms = now_ms - v->since_ms;
        if ((v->state == VISITOR_ASKS && age_ms > HTTP_REQUEST_MS) ||
            (v->state == VISITOR_ANSWERED && age_ms > HTTP_ANSWER_MS))
            cut_off(v);
    }
}

static void resume(visitor *v)
{
    if (!v->is_suspended)
        return;
    v->is_suspended = false;
    lib.MHD_resume_connection(v->connection);
}

void http_wake(server *s)
{
    visitor *v;
    const release_order *done = looker_released(s->asking);
    if (done != NULL) {
        v = done->user;
        enter(v, VISITOR_RELEASED);
        resume(v);
    }
    TAILQ_FOREACH (v, &s->visitors, in_all) {
        if (v->state == VISITOR_FOLLOWS)
            resume(v);
    }
}

/* --- the daemon ------------------------------------------------------------------------------------------ */

static void ignore_log(void *user, const char *format, va_list args)
{
    (void)user;
    (void)format;
    (void)args;
}

int http_start(server *s, int fd)
{
    const serve_options *o = s->options;
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)o->cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)o->key},
        {o->client_ca != NULL ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, (void *)o->client_ca},
        {MHD_OPTION_END, 0, NULL},
    };
    static const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    const unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (o->cert != NULL ? MHD_USE_TLS : 0);
    TAILQ_INIT(&s->visitors);
    s->daemon = lib.MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, ignore_log, NULL,
                                     MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                                     (unsigned)HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
                                     (unsigned)HTTP_STALLED_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_MEMORY,
                                     MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
                                     on_completed, s, MHD_OPTION_ARRAY, o->cert != NULL ? tls : none, MHD_OPTION_END);
    if (s->daemon != NULL)
        return CLI_GO;
    cli_say(SERVE_COMMAND,
            o->cert != NULL ? "the server cannot be started; are --tls-cert and --tls-key a pair?"
                            : "the server cannot be started: %s.",
            strerror(errno));
    return CLI_CONFIG;
}

void http_stop(server *s)
{
    visitor *v;
    if (s->daemon == NULL)
        return;
    TAILQ_FOREACH (v, &s->visitors, in_all) {
        resume(v);
    }
    lib.MHD_stop_daemon(s->daemon);
}

int http_fd(const server *s)
{
    return lib.MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

void http_run(server *s)
{
    lib.MHD_run(s->daemon);
}

int http_pause_ms(const server *s)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    return lib.MHD_get_timeout(s->daemon, &ms) == MHD_YES && ms < 1000 ? (int)ms : 1000;
}
