/* ZooKeeper servers, see server.h. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/server.h"

bool server_has_zookeeper(void)
{
    return server_has("java") && access("/usr/share/java/zookeeper.jar", R_OK) == 0;
}

size_t server_ask_zookeeper(const server *s, const char *word, char *out, size_t size)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval timeout = {.tv_sec = 2};
    size_t length = 0;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, word, strlen(word), MSG_NOSIGNAL) == (ssize_t)strlen(word))
        for (ssize_t got = 1; got > 0 && length<size - 1; length += got> 0 ? (size_t)got : 0)
            got = recv(fd, out + length, size - 1 - length, 0);
    close(fd);
    out[length] = '\0';
    return length;
}

double server_zookeeper_counter(const server *s, const char *name)
{
    static char text[65536];
    server_ask_zookeeper(s, "mntr", text, sizeof text);
    const char *line = strstr(text, name);
    return line ? strtod(line + strlen(name), NULL) : -1;
}

/* The port takes connections before it serves. */
static bool serves(const server *s)
{
    char text[2048];
    return server_ask_zookeeper(s, "srvr", text, sizeof text) > 0 && strstr(text, "Mode: ");
}

static bool write_file(const char *folder, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool write_file(const char *folder, const char *name, const char *format, ...)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    va_list args;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    return fclose(file) == 0 && chmod(path, 0644) == 0;
}

#define JARS "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
#define NETTY(part) ":/usr/share/java/netty-" part ".jar"

static bool start_java(server *s, int port, const char *more)
{
    static const char *const java[] = {"java",
                                       "-Xmx128m",
                                       "-Xshare:auto",
                                       "-XX:+UseSerialGC",
                                       "-XX:TieredStopAtLevel=1",
                                       "-Djava.net.preferIPv4Stack=true",
                                       "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                                       "-Dzookeeper.jmx.log4j.disable=true",
                                       "-cp",
                                       JARS NETTY("buffer") NETTY("codec") NETTY("common") NETTY("handler")
                                           NETTY("resolver") NETTY("transport") NETTY("transport-native-epoll")
                                               NETTY("transport-native-unix-common"),
                                       "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                                       NULL};
    snprintf(s->config, sizeof s->config, "%s/zoo.cfg", s->folder);
    if (!write_file(s->folder, "zoo.cfg",
                    "tickTime=500\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
                    "4lw.commands.whitelist=*\nminSessionTimeout=1000\nmaxClientCnxns=0\n%s",
                    s->folder, port, more))
        return false;
    server_set_argv(s, java, (const char *const[]){s->config, NULL});
    return server_start(s);
}

bool server_start_zookeeper(server *s)
{
    return start_java(s, s->port, "") && server_await(s, serves);
}

static int plain_port; /* by which a server with TLS tells that it serves */

static bool serves_plainly(const server *s)
{
    server plain = *s;
    plain.port = plain_port;
    return serves(&plain);
}

bool server_start_zookeeper_tls(server *s)
{
    char path[128];
    char command[256];
    char more[1024];
    snprintf(path, sizeof path, "%s/both.pem", s->folder);
    snprintf(command, sizeof command, "cd %s && cat key.pem cert.pem >both.pem && chmod 644 both.pem", s->folder);
    if (access(path, F_OK) != 0 &&
        (!server_make_certificates(s->folder) || system(command) != 0)) // NOLINT(cert-env33-c): made of what is ours
        return false;
    snprintf(more, sizeof more,
             "secureClientPort=%d\nsecureClientPortAddress=127.0.0.1\n"
             "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
             "ssl.keyStore.location=%s/both.pem\nssl.keyStore.type=PEM\n"
             "ssl.trustStore.location=%s/ca.pem\nssl.trustStore.type=PEM\nssl.hostnameVerification=false\n",
             s->port, s->folder, s->folder);
    plain_port = server_keep_port(s);
    return start_java(s, plain_port, more) && server_await(s, serves_plainly);
}

/* Start one server, whose configuration lists all of them. */
static bool start_member(server *s, unsigned nth, const int followed[SERVER_ENSEMBLE],
                         const int elected[SERVER_ENSEMBLE])
{
    server *member = server_nth(s, nth);
    char text[512] = "initLimit=20\nsyncLimit=60\nmaxSessionTimeout=120000\n";
    for (unsigned i = 0; i < SERVER_ENSEMBLE; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "server.%u=127.0.0.1:%d:%d\n", i + 1, followed[i],
                 elected[i]);
    return write_file(member->folder, "myid", "%u\n", nth + 1) && start_java(member, member->port, text);
}

bool server_start_ensemble(server *s, proxy *networks)
{
    int followed[SERVER_ENSEMBLE]; /* the port of the leader, if it is this one */
    int by_first[SERVER_ENSEMBLE];
    int elected[SERVER_ENSEMBLE];
    server_add(s);
    server_add(s);
    for (unsigned i = 0; i < SERVER_ENSEMBLE; i++) {
        followed[i] = by_first[i] = server_keep_port(s);
        elected[i] = server_keep_port(s);
        if (i == 0 || !networks)
            continue;
        proxy_start(&networks[i - 1], followed[i]);
        by_first[i] = networks[i - 1].port;
    }
    snprintf(s->hosts, sizeof s->hosts, "127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", s->port, server_nth(s, 1)->port,
             server_nth(s, 2)->port);
    /* Start the first one when the others have a leader: a network without anybody behind it would keep it waiting. */
    for (unsigned i = 1; i < SERVER_ENSEMBLE; i++)
        if (!start_member(s, i, followed, elected))
            return false;
    for (unsigned i = 1; i < SERVER_ENSEMBLE; i++)
        if (!server_await(server_nth(s, i), serves))
            return false;
    return start_member(s, 0, by_first, elected) && server_await(s, serves);
}

bool server_start_ensemble_led(server *s, proxy *networks)
{
    int followed[SERVER_ENSEMBLE];
    int by_others[SERVER_ENSEMBLE - 1][SERVER_ENSEMBLE];
    int elected[SERVER_ENSEMBLE];
    server_add(s);
    server_add(s);
    for (unsigned i = 0; i < SERVER_ENSEMBLE; i++) {
        followed[i] = server_keep_port(s);
        elected[i] = server_keep_port(s);
    }
    for (unsigned i = 0; i < SERVER_ENSEMBLE - 1; i++) {
        memcpy(by_others[i], followed, sizeof followed);
        proxy_start(&networks[i], followed[SERVER_ENSEMBLE - 1]);
        by_others[i][SERVER_ENSEMBLE - 1] = networks[i].port;
    }
    /* The last one has the greatest number, and leads when two are there. Until it does, a network would keep the
     * others waiting: so the second has none at first. */
    if (!start_member(s, 1, followed, elected) || !start_member(s, 2, followed, elected) ||
        !server_await(server_nth(s, 1), serves) || !server_await(server_nth(s, 2), serves) ||
        !start_member(s, 0, by_others[0], elected) || !server_await(s, serves))
        return false;
    server_signal(server_nth(s, 1), SIGKILL);
    return start_member(s, 1, by_others[1], elected) && server_await(server_nth(s, 1), serves);
}

void server_stop_networks(proxy *networks)
{
    for (unsigned i = 0; i < SERVER_ENSEMBLE - 1; i++)
        if (networks[i].port)
            proxy_stop(&networks[i]);
}

bool server_restart_zookeeper(server *s)
{
    return server_start(s) && server_await(s, serves);
}

const server_kind server_kind_zookeeper = {"zookeeper", "java", server_start_zookeeper};
const server_kind server_kind_zookeeper_tls = {"zookeeper-tls", "java", server_start_zookeeper_tls};
