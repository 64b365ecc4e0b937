/* Redis servers, see server.h. */
#include "lib/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

bool server_start_redis(server *s, const char *const *more)
{
    const char *const ours[] = {"redis-server",
                                "--port",
                                s->port_text,
                                "--bind",
                                "127.0.0.1",
                                "::1",
                                "--dir",
                                s->folder,
                                "--save",
                                "",
                                "--appendonly",
                                "no",
                                "--repl-diskless-sync-delay",
                                "0",
                                "--unixsocketperm",
                                "777",
                                NULL};
    server_set_argv(s, ours, more);
    return server_start(s);
}

bool server_start_redis_tls(server *s, const char *folder, const char *password, const char *const *more)
{
    char ca[96], cert[96], key[96];
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    const char *all[SERVER_ARGS] = {
        "--port",         "0",     "--tls-port",         s->port_text, "--tls-cert-file",    cert,
        "--tls-key-file", key,     "--tls-ca-cert-file", ca,           "--tls-auth-clients", "no",
        "--requirepass",  password};
    size_t n = 0;
    while (all[n])
        n++;
    for (size_t i = 0; more && more[i] && n < SERVER_ARGS - 1; i++)
        all[n++] = more[i];
    return server_start_redis(s, all);
}

static bool start_plain(server *s)
{
    char path[96];
    snprintf(path, sizeof path, "%s/redis.sock", s->folder);
    return server_start_redis(s, (const char *const[]){"--unixsocket", path, NULL}) &&
           server_await_redis(s, "PING", "PONG"); /* the socket file comes after the port */
}

static bool start_tls(server *s)
{
    return server_make_certificates(s->folder) && server_start_redis_tls(s, s->folder, "secret", NULL);
}

/* --- several that belong together --------------------------------------------------------------------- */

const char *server_tell_redis(const server *s, const char *format, ...)
{
    static char answer[65536];
    char command[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(command, sizeof command, format, args);
    va_end(args);
    length += snprintf(command + length, sizeof command - (size_t)length, "\r\n");
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t got = 0;
    ssize_t n = -1;
    const struct timeval timeout = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, command, (size_t)length, MSG_NOSIGNAL) == length && shutdown(fd, SHUT_WR) == 0) /* it closes, too */
        while (got < sizeof answer - 1 && (n = recv(fd, answer + got, sizeof answer - 1 - got, 0)) > 0)
            got += (size_t)n;
    if (fd >= 0)
        close(fd);
    answer[n == 0 ? got : 0] = '\0';
    return answer;
}

bool server_await_redis(const server *s, const char *command, const char *part)
{
    for (int i = 0; i < 3000; i++) {
        if (strstr(server_tell_redis(s, "%s", command), part))
            return true;
        usleep(20000);
    }
    return false;
}

static void list_hosts(server *s, unsigned count)
{
    size_t length = 0;
    for (unsigned i = 0; i < count; i++)
        length += (size_t)snprintf(s->hosts + length, sizeof s->hosts - length, "%s127.0.0.1:%d", i ? "," : "",
                                   server_nth(s, i)->port);
}

static bool start_sentinel(server *s, const server *master)
{
    char path[96];
    snprintf(path, sizeof path, "%s/sentinel.conf", s->folder);
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    fprintf(file,
            "port %d\nbind 127.0.0.1\ndir %s\n"
            "sentinel monitor orders 127.0.0.1 %d 2\n"
            "sentinel down-after-milliseconds orders 1500\n"
            "sentinel failover-timeout orders 2000\n",
            s->port, s->folder, master->port);
    fclose(file);
    chmod(path, 0666); // NOLINT(cert-err33-c): it rewrites it, as nobody
    const char *const argv[] = {"redis-server", path, "--sentinel", NULL};
    memcpy(s->argv, argv, sizeof argv);
    /* If the machine or its disk stood still for two seconds, a sentinel does nothing for half a minute: shorten that. */
    return server_start(s) && server_await_redis(s, "SENTINEL DEBUG tilt-period 1000", "+OK");
}

bool server_start_redis_sentinel(server *s)
{
    for (unsigned i = 0; i < 4; i++)
        server_add(s);
    server *master = server_nth(s, 3);
    server *replica = server_nth(s, 4);
    list_hosts(s, 3);
    if (!server_start_redis(master, NULL) ||
        !server_start_redis(replica, (const char *const[]){"--replicaof", "127.0.0.1", master->port_text, NULL}) ||
        !server_await_redis(replica, "INFO replication", "master_link_status:up"))
        return false;
    for (unsigned i = 0; i < 3; i++)
        if (!start_sentinel(server_nth(s, i), master))
            return false;
    for (unsigned i = 0; i < 3; i++)
        if (!server_await_redis(server_nth(s, i), "INFO sentinel", "status=ok") ||
            !server_await_redis(server_nth(s, i), "INFO sentinel", "slaves=1,sentinels=3"))
            return false;
    return true;
}

bool server_start_redis_master(server *s)
{
    char bus[12];
    if (s->bus_port == 0) /* it has to be the same after a restart */
        s->bus_port = server_keep_port(s);
    snprintf(bus, sizeof bus, "%d", s->bus_port);
    const char *const more[] = {"--cluster-enabled",
                                "yes",
                                "--cluster-config-file",
                                "nodes.conf",
                                "--cluster-port",
                                bus,
                                "--cluster-node-timeout",
                                "1000",
                                "--appendonly",
                                "yes",
                                "--appendfsync",
                                "always",
                                NULL};
    return server_start_redis(s, more);
}

bool server_start_redis_cluster(server *s)
{
    for (unsigned i = 0; i < 2; i++)
        server_add(s);
    list_hosts(s, 3);
    for (unsigned i = 0; i < 3; i++) {
        server *master = server_nth(s, i);
        if (!server_start_redis_master(master))
            return false;
        server_tell_redis(master, "CLUSTER ADDSLOTSRANGE %u %u", i * 5461, i < 2 ? i * 5461 + 5460 : 16383);
        server_tell_redis(master, "CLUSTER SET-CONFIG-EPOCH %u", i + 1);
    }
    for (unsigned i = 1; i < 3; i++)
        server_tell_redis(s, "CLUSTER MEET 127.0.0.1 %d %d", server_nth(s, i)->port, server_nth(s, i)->bus_port);
    for (unsigned i = 0; i < 3; i++)
        if (!server_await_redis(server_nth(s, i), "CLUSTER INFO", "cluster_known_nodes:3") ||
            !server_await_redis(server_nth(s, i), "CLUSTER INFO", "cluster_state:ok"))
            return false;
    return true;
}

bool server_start_calm_redis_cluster(server *s)
{
    if (!server_start_redis_cluster(s))
        return false;
    for (unsigned i = 0; i < 3; i++)
        server_tell_redis(server_nth(s, i), "CONFIG SET cluster-node-timeout 30000");
    return true;
}

bool server_start_redis_replica(server *s, const server *master)
{
    char id[48] = "";
    char command[80];
    if (!server_start_redis_master(s))
        return false;
    sscanf(server_tell_redis(master, "CLUSTER MYID"), "$40\r\n%40s", id);
    server_tell_redis(s, "CLUSTER MEET 127.0.0.1 %d %d", master->port, master->bus_port);
    snprintf(command, sizeof command, "CLUSTER REPLICATE %s", id);
    return server_await_redis(s, "CLUSTER NODES", id) && server_await_redis(s, command, "+OK") &&
           server_await_redis(s, "INFO replication", "master_link_status:up") &&
           server_await_redis(s, "CLUSTER INFO", "cluster_state:ok") &&
           server_await_redis(master, "INFO replication", "connected_slaves:1");
}

const server_kind server_kind_redis = {"redis", "redis-server", start_plain};
const server_kind server_kind_redis_tls = {"redis-tls", "redis-server", start_tls};
const server_kind server_kind_redis_sentinel = {"redis-sentinel", "redis-server", server_start_redis_sentinel};
const server_kind server_kind_redis_cluster = {"redis-cluster", "redis-server", server_start_calm_redis_cluster};
