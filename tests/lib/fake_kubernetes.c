/* See fake_kubernetes.h. A thread a connection; what is asked for is decided under one lock by fake_kubernetes_objects.c. */
#include "lib/fake_kubernetes.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 16384, BODY_MAX = 3 << 20, BOOKMARK_MS = 60000, LAST_BOOKMARK_MS = 2000 };

typedef struct fake_kube_connection connection;
struct fake_kube_connection {
    fake_kubernetes *fake;
    connection *next;
    int fd, news; /* news: an eventfd that is written when there may be something to tell */
    SSL *tls;
    char in[HEAD_MAX + 1]; /* what came and has not been read */
    size_t in_size;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- bytes --------------------------------------------------------------------------------------------------- */

static bool write_all(connection *c, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = c->tls ? SSL_write(c->tls, bytes, (int)(size < 16384 ? size : 16384))
                                    : send(c->fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static ssize_t read_some(connection *c, char *bytes, size_t size)
{
    return c->tls ? SSL_read(c->tls, bytes, (int)size) : recv(c->fd, bytes, size, 0);
}

/* The text is freed. */
static bool write_text(connection *c, char *text)
{
    const bool sent = write_all(c, text, strlen(text));
    free(text);
    return sent;
}

/* --- requests ------------------------------------------------------------------------------------------------ */

/* Read one request; its body is the caller's. False: the connection is over. */
static bool read_request(connection *c, fake_kube_request *request, char **ret_body)
{
    char head[HEAD_MAX + 1], *end;
    while (!(end = memmem(c->in, c->in_size, "\r\n\r\n", 4))) {
        const ssize_t got = c->in_size < HEAD_MAX ? read_some(c, c->in + c->in_size, HEAD_MAX - c->in_size) : 0;
        if (got <= 0)
            return false;
        c->in_size += (size_t)got;
    }
    const size_t head_size = (size_t)(end - c->in) + 2;
    memcpy(head, c->in, head_size);
    head[head_size] = '\0';
    c->in_size -= head_size + 2;
    memmove(c->in, end + 4, c->in_size);
    if (!fake_kube_parse(head, request))
        return write_all(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request", 61) && false;
    if (request->size > BODY_MAX ||
        (strcasestr(head, "\r\nExpect: 100-continue") && !write_all(c, "HTTP/1.1 100 Continue\r\n\r\n", 25)))
        return false;
    char *body = malloc(request->size + 1);
    if (!body)
        abort();
    size_t at = request->size < c->in_size ? request->size : c->in_size;
    memcpy(body, c->in, at);
    c->in_size -= at;
    memmove(c->in, c->in + at, c->in_size);
    while (at < request->size) {
        const ssize_t got = read_some(c, body + at, request->size - at);
        if (got <= 0) {
            free(body);
            return false;
        }
        at += (size_t)got;
    }
    body[at] = '\0';
    request->body = *ret_body = body;
    return true;
}

/* --- watches ------------------------------------------------------------------------------------------------------ */

/* Wait until there may be news, for this long at most. False: the client has gone. */
static bool await_news(const connection *c, int64_t ms)
{
    struct pollfd fds[2] = {{.fd = c->news, .events = POLLIN}, {.fd = c->fd, .events = POLLIN | POLLRDHUP}};
    uint64_t count;
    if (poll(fds, 2, ms < 0 ? 0 : (int)ms) > 0 && fds[0].revents)
        (void)!read(c->news, &count, sizeof count);
    return fds[1].revents == 0;
}

/* Tell what happens until the time is over; then the connection is free for another request. */
static bool serve_watch(connection *c, fake_kube_watch *watch, bool gone)
{
    const int64_t begin = now_ms();
    int64_t bookmark = begin;
    bool on = write_text(c, strdup(fake_kube_watch_head));
    if (gone)
        watch->version = 1;
    while (on) {
        pthread_mutex_lock(&c->fake->lock);
        char *text = c->fake->freezes ? NULL : fake_kube_events(&c->fake->objects, watch);
        on = !c->fake->stops;
        pthread_mutex_unlock(&c->fake->lock);
        const int64_t now = now_ms(), end = begin + watch->timeout_ms;
        const int64_t next =
            bookmark + BOOKMARK_MS < end - LAST_BOOKMARK_MS ? bookmark + BOOKMARK_MS : end - LAST_BOOKMARK_MS;
        if (!text && now >= end)
            return on && write_text(c, fake_kube_chunk(NULL));
        if (!text && watch->bookmarks && now >= next && bookmark < next) {
            text = fake_kube_bookmark(watch);
            bookmark = now;
        }
        on = on && (text ? write_text(c, fake_kube_chunk(text))
                         : await_news(c, (watch->bookmarks && bookmark < next ? next : end) - now));
        free(text);
    }
    return false;
}

/* --- a connection ------------------------------------------------------------------------------------------------ */

static void notify(fake_kubernetes *fake)
{
    for (const connection *c = fake->connections; c; c = c->next)
        eventfd_write(c->news, 1);
}

static fake_kube_fault fault_for(fake_kubernetes *fake, const char *method)
{
    if (fake->faults_left == 0 || strcmp(method, fake->faulty_method) != 0)
        return FAKE_KUBE_WELL;
    fake->faults_left--;
    return fake->fault;
}

static fake_kube_answer answer_of(fake_kubernetes *fake, const fake_kube_request *request, fake_kube_fault fault,
                                  fake_kube_watch *watch)
{
    switch (fault) {
    case FAKE_KUBE_TOO_MANY:
        return fake_kube_failure(429, "TooManyRequests", "too many requests, please try again later");
    case FAKE_KUBE_BROKEN:
        return fake_kube_failure(500, "InternalError", "an error on the server");
    case FAKE_KUBE_UNAUTHORIZED:
        return fake_kube_failure(401, "Unauthorized", "Unauthorized");
    case FAKE_KUBE_GONE:
        if (strstr(request->query, "watch="))
            break;
        return fake_kube_failure(410, "Expired", "The provided continue parameter is too old");
    case FAKE_KUBE_UNSURE: {
        const fake_kube_answer done = fake_kube_handle(&fake->objects, request, false, watch);
        json_decref(done.body);
        return fake_kube_failure(504, "Timeout", "Timeout: request did not complete within the allotted timeout");
    }
    default:
        break;
    }
    return fake_kube_handle(&fake->objects, request, fault == FAKE_KUBE_STALE, watch);
}

/* False: the connection is over. */
static bool serve_one(connection *c)
{
    fake_kubernetes *fake = c->fake;
    fake_kube_request request;
    fake_kube_watch watch = {.version = 0};
    char *body = NULL, value[8];
    if (!read_request(c, &request, &body))
        return false;
    const bool watches = fake_kube_parameter(request.query, "watch", sizeof value, value);
    if (!c->tls && !*request.token) /* `kubectl proxy` puts in its own */
        snprintf(request.token, sizeof request.token, FAKE_KUBERNETES_TOKEN);
    pthread_mutex_lock(&fake->lock);
    const int length = snprintf(fake->asked + fake->asked_size, sizeof fake->asked - fake->asked_size, "%s %s%s%s\n",
                                request.method, request.path, *request.query ? "?" : "", request.query);
    if ((size_t)length < sizeof fake->asked - fake->asked_size)
        fake->asked_size += (size_t)length;
    fake->asked[fake->asked_size] = '\0';
    const fake_kube_fault fault = fault_for(fake, watches ? "WATCH" : request.method);
    const bool silent = fault == FAKE_KUBE_SILENT || fake->freezes;
    const fake_kube_answer answer = silent ? (fake_kube_answer){0, NULL} : answer_of(fake, &request, fault, &watch);
    const bool told = answer.code != 0 && fault != FAKE_KUBE_LOST;
    char *text = told ? fake_kube_answer_text(answer) : NULL;
    if (!told)
        json_decref(answer.body);
    notify(fake);
    pthread_mutex_unlock(&fake->lock);
    free(body);
    if (silent) {
        while (await_news(c, 60000)) {
        }
        return false;
    }
    if (fault == FAKE_KUBE_LOST)
        return false;
    return text ? write_text(c, text) : serve_watch(c, &watch, fault == FAKE_KUBE_GONE);
}

/* A client that speaks TLS begins with a record of the type 22. */
static bool greet(connection *c)
{
    char first = 0;
    if (recv(c->fd, &first, 1, MSG_PEEK) != 1 || first != 22)
        return first != 0;
    c->tls = c->fake->tls ? SSL_new(c->fake->tls) : NULL;
    return c->tls && SSL_set_fd(c->tls, c->fd) == 1 && SSL_accept(c->tls) == 1;
}

static void *serve(void *arg)
{
    connection *c = arg;
    fake_kubernetes *fake = c->fake;
    sigset_t pipes;
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipes, NULL); /* OpenSSL writes to connections that the client has closed */
    if (greet(c))
        while (serve_one(c)) {
        }
    if (c->tls)
        SSL_shutdown(c->tls);
    SSL_free(c->tls);
    pthread_mutex_lock(&fake->lock);
    connection **at = &fake->connections;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    close(c->fd);
    close(c->news);
    free(c);
    pthread_mutex_unlock(&fake->lock);
    return NULL;
}

static void *run(void *arg)
{
    fake_kubernetes *fake = arg;
    const int yes = 1;
    int fd;
    while ((fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        pthread_t thread;
        connection *c = calloc(1, sizeof *c);
        if (!c)
            abort();
        *c = (connection){.fake = fake, .fd = fd, .news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        pthread_mutex_lock(&fake->lock);
        c->next = fake->connections;
        fake->connections = c;
        pthread_mutex_unlock(&fake->lock);
        if (pthread_create(&thread, NULL, serve, c) != 0)
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

/* --- for tests ------------------------------------------------------------------------------------------------------ */

static SSL_CTX *context_of(const char *folder)
{
    char cert[128], key[128];
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    if (!context || SSL_CTX_use_certificate_file(context, cert, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        abort();
    return context;
}

void fake_kubernetes_start(fake_kubernetes *fake, int port, const char *folder)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof address;
    const int yes = 1;
    *fake = (fake_kubernetes){.tls = folder ? context_of(folder) : NULL};
    fake_kube_objects_init(&fake->objects);
    pthread_mutex_init(&fake->lock, NULL);
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (setsockopt(fake->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fake->listener, (struct sockaddr *)&address, size) != 0 || listen(fake->listener, 64) != 0 ||
        getsockname(fake->listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&fake->thread, NULL, run, fake) != 0)
        abort();
    fake->port = ntohs(address.sin_port);
}

void fake_kubernetes_cut(fake_kubernetes *fake)
{
    pthread_mutex_lock(&fake->lock);
    for (const connection *c = fake->connections; c; c = c->next)
        shutdown(c->fd, SHUT_RDWR);
    notify(fake);
    pthread_mutex_unlock(&fake->lock);
}

void fake_kubernetes_stop(fake_kubernetes *fake)
{
    bool busy = true;
    shutdown(fake->listener, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->listener);
    pthread_mutex_lock(&fake->lock);
    fake->stops = true;
    pthread_mutex_unlock(&fake->lock);
    fake_kubernetes_cut(fake);
    while (busy) {
        pthread_mutex_lock(&fake->lock);
        busy = fake->connections != NULL;
        pthread_mutex_unlock(&fake->lock);
        usleep(busy ? 1000 : 0);
    }
    SSL_CTX_free(fake->tls);
    fake_kube_objects_fini(&fake->objects);
}

void fake_kubernetes_fail(fake_kubernetes *fake, fake_kube_fault fault, const char *method, unsigned times)
{
    pthread_mutex_lock(&fake->lock);
    fake->fault = fault;
    fake->faults_left = times;
    snprintf(fake->faulty_method, sizeof fake->faulty_method, "%s", method);
    pthread_mutex_unlock(&fake->lock);
}

void fake_kubernetes_lag(fake_kubernetes *fake, bool lags)
{
    pthread_mutex_lock(&fake->lock);
    fake->objects.lags = lags;
    if (!lags)
        fake->objects.shown = fake->objects.version;
    notify(fake);
    pthread_mutex_unlock(&fake->lock);
}

void fake_kubernetes_compact(fake_kubernetes *fake)
{
    pthread_mutex_lock(&fake->lock);
    fake->objects.oldest = fake->objects.version;
    pthread_mutex_unlock(&fake->lock);
}

void fake_kubernetes_freeze(fake_kubernetes *fake, bool freezes)
{
    pthread_mutex_lock(&fake->lock);
    fake->freezes = freezes;
    notify(fake);
    pthread_mutex_unlock(&fake->lock);
}

bool fake_kubernetes_has_failed(fake_kubernetes *fake)
{
    pthread_mutex_lock(&fake->lock);
    const bool has = fake->faults_left == 0;
    pthread_mutex_unlock(&fake->lock);
    return has;
}

void fake_kubernetes_forbid(fake_kubernetes *fake, const char *verbs)
{
    pthread_mutex_lock(&fake->lock);
    snprintf(fake->objects.forbidden, sizeof fake->objects.forbidden, "%s", verbs);
    pthread_mutex_unlock(&fake->lock);
}

unsigned fake_kubernetes_asked(fake_kubernetes *fake, const char *text)
{
    unsigned count = 0;
    pthread_mutex_lock(&fake->lock);
    for (const char *line = fake->asked; *line; line += strcspn(line, "\n") + 1)
        count += strncmp(line, text, strlen(text)) == 0;
    pthread_mutex_unlock(&fake->lock);
    return count;
}
