/* etcd servers, see server.h. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/server.h"

/* Its own answer: the port takes connections before the server serves. */
static bool serves(const server *s)
{
    static const char request[] = "GET /health HTTP/1.0\r\n\r\n";
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)s->bus_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval timeout = {.tv_sec = 2};
    char answer[2048];
    size_t length = 0;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == (ssize_t)sizeof request - 1)
        for (ssize_t got = 1; got > 0 && length<sizeof answer - 1; length += got> 0 ? (size_t)got : 0)
            got = recv(fd, answer + length, sizeof answer - 1 - length, 0);
    close(fd);
    answer[length] = '\0';
    return strstr(answer, "\"health\":\"true\"") || strstr(answer, "\"health\": \"true\"");
}

/* The texts of a command line: those of one server at a time are made, and server_start copies none. */
typedef struct texts {
    char all[16][256];
    size_t count;
} texts;

static const char *text(texts *t, const char *format, const char *folder, int port)
{
    char *out = t->all[t->count++];
    snprintf(out, sizeof t->all[0], format, folder, port);
    return out;
}

static void put(server *s, size_t *n, const char *name, const char *value)
{
    s->argv[(*n)++] = name;
    s->argv[(*n)++] = value;
}

static bool start_member(server *s, texts *t, const char *name, const char *cluster, int peer_port, bool tls,
                         const char *more)
{
    const char *scheme = tls ? "https%s://localhost:%d" : "http%s://127.0.0.1:%d";
    size_t n = 0;
    if (s->bus_port == 0)
        s->bus_port = server_keep_port(s);
    *t = (texts){0};
    s->argv[n++] = "etcd";
    put(s, &n, "--name", name);
    put(s, &n, "--log-level", "error");
    put(s, &n, "--data-dir", text(t, "%s/data", s->folder, 0));
    put(s, &n, "--listen-client-urls", text(t, tls ? "https%s://127.0.0.1:%d" : "http%s://127.0.0.1:%d", "", s->port));
    put(s, &n, "--advertise-client-urls", text(t, scheme, "", s->port));
    put(s, &n, "--listen-metrics-urls", text(t, "http%s://127.0.0.1:%d", "", s->bus_port));
    put(s, &n, "--listen-peer-urls", text(t, "http%s://127.0.0.1:%d", "", peer_port));
    if (cluster) {
        put(s, &n, "--initial-advertise-peer-urls", text(t, "http%s://127.0.0.1:%d", "", peer_port));
        put(s, &n, "--initial-cluster", cluster);
        put(s, &n, "--heartbeat-interval", "50");
        put(s, &n, "--election-timeout", "500");
    }
    if (tls) {
        put(s, &n, "--cert-file", text(t, "%s/cert.pem", s->folder, 0));
        put(s, &n, "--key-file", text(t, "%s/key.pem", s->folder, 0));
        put(s, &n, "--trusted-ca-file", text(t, "%s/ca.pem", s->folder, 0));
        s->argv[n++] = "--client-cert-auth";
    }
    s->argv[n++] = more;
    s->argv[n] = NULL;
    return server_start(s);
}

bool server_start_etcd(server *s)
{
    static texts t;
    return start_member(s, &t, "one", NULL, server_keep_port(s), false, NULL) && server_await(s, serves);
}

bool server_start_etcd_without_gateway(server *s)
{
    static texts t;
    const char *off = "--enable-grpc-gateway=false";
    return start_member(s, &t, "one", NULL, server_keep_port(s), false, off) && server_await(s, serves);
}

bool server_restart_etcd(server *s)
{
    return server_start(s) && server_await(s, serves);
}

bool server_start_etcd_tls(server *s)
{
    static texts t;
    return server_make_certificates(s->folder) && start_member(s, &t, "one", NULL, server_keep_port(s), true, NULL) &&
           server_await(s, serves);
}

bool server_start_etcd_cluster(server *s)
{
    static texts t[SERVER_ENSEMBLE];
    static const char *const names[SERVER_ENSEMBLE] = {"one", "two", "three"};
    static char cluster[256];
    int peers[SERVER_ENSEMBLE];
    server_add(s);
    server_add(s);
    for (unsigned i = 0; i < SERVER_ENSEMBLE; i++)
        peers[i] = server_keep_port(s);
    snprintf(cluster, sizeof cluster, "one=http://127.0.0.1:%d,two=http://127.0.0.1:%d,three=http://127.0.0.1:%d",
             peers[0], peers[1], peers[2]);
    snprintf(s->hosts, sizeof s->hosts, "127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", s->port, server_nth(s, 1)->port,
             server_nth(s, 2)->port);
    /* A member takes connections only when most of them are there: so start all, then wait. */
    for (unsigned i = 0; i < SERVER_ENSEMBLE; i++)
        if (!start_member(server_nth(s, i), &t[i], names[i], cluster, peers[i], false, NULL))
            return false;
    for (unsigned i = 0; i < SERVER_ENSEMBLE; i++)
        if (!server_await(server_nth(s, i), serves))
            return false;
    return true;
}

const server_kind server_kind_etcd = {"etcd", "etcd", server_start_etcd};
const server_kind server_kind_etcd_tls = {"etcd-tls", "etcd", server_start_etcd_tls};
const server_kind server_kind_etcd_cluster = {"etcd-cluster", "etcd", server_start_etcd_cluster};
