/* See address.h. */
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 1024 }; /* one that overflows costs honest clients a second */

static bool parse_port(const char *text, in_port_t *ret_port)
{
    char *end;
    const unsigned long port = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || port > 65535)
        return false;
    *ret_port = htons((in_port_t)port);
    return true;
}

bool address_parse_socket(const char *text, address *ret_address)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const size_t length = strlen(text);
    if (length < 2 || length >= sizeof to.sun_path || (text[0] != '@' && strchr(text, '/') == NULL))
        return false;
    memcpy(to.sun_path, text, length);
    if (text[0] == '@')
        to.sun_path[0] = '\0'; /* the name is as long as the address says, and is no string */
    *ret_address = (address){.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (text[0] != '@'))};
    memcpy(&ret_address->socket, &to, sizeof to);
    return true;
}

static bool parse_ip(const char *text, address *ret_address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    char host[64] = "127.0.0.1";
    const char *colon = strrchr(text, ':');
    in_port_t port;
    if (!parse_port(colon != NULL ? colon + 1 : text, &port))
        return false;
    if (colon != NULL && colon > text &&
        snprintf(host, sizeof host, "%.*s", (int)(colon - text), text) >= (int)sizeof host)
        return false;
    if (strcmp(host, "localhost") == 0)
        strcpy(host, "127.0.0.1");
    *ret_address = (address){.length = sizeof v4};
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        v4.sin_port = port;
        memcpy(&ret_address->socket, &v4, sizeof v4);
        return true;
    }
    const size_t length = strlen(host);
    if (length < 3 || host[0] != '[' || host[length - 1] != ']')
        return false;
    host[length - 1] = '\0';
    v6.sin6_port = port;
    ret_address->length = sizeof v6;
    const bool good = inet_pton(AF_INET6, host + 1, &v6.sin6_addr) == 1;
    memcpy(&ret_address->socket, &v6, sizeof v6);
    return good;
}

bool address_parse(const char *text, address *ret_address)
{
    return address_parse_socket(text, ret_address) || parse_ip(text, ret_address);
}

const char *address_path(const address *at)
{
    const struct sockaddr_un *path = (const struct sockaddr_un *)(const void *)&at->socket;
    return at->socket.ss_family == AF_UNIX && path->sun_path[0] != '\0' ? path->sun_path : NULL;
}

static const struct sockaddr_in *v4_of(const address *at)
{
    return (const struct sockaddr_in *)(const void *)&at->socket;
}

static const struct sockaddr_in6 *v6_of(const address *at)
{
    return (const struct sockaddr_in6 *)(const void *)&at->socket;
}

int address_port(const address *at)
{
    switch (at->socket.ss_family) {
    case AF_INET:
        return ntohs(v4_of(at)->sin_port);
    case AF_INET6:
        return ntohs(v6_of(at)->sin6_port);
    default:
        return -1;
    }
}

bool address_is_local(const address *at)
{
    switch (at->socket.ss_family) {
    case AF_INET:
        return ntohl(v4_of(at)->sin_addr.s_addr) >> 24 == 127;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&v6_of(at)->sin6_addr);
    default:
        return true;
    }
}

/* A killed process leaves its socket file behind. Nobody listens there, and it is in the way. */
static void remove_stale(const address *at)
{
    const char *path = address_path(at);
    struct stat found;
    if (path == NULL || lstat(path, &found) < 0 || !S_ISSOCK(found.st_mode))
        return;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&at->socket, at->length) < 0 && errno == ECONNREFUSED)
        unlink(path);
    close(fd);
}

int address_listen(const address *at)
{
    const int yes = 1;
    remove_stale(at);
    const int fd = socket(at->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (at->socket.ss_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (const struct sockaddr *)&at->socket, at->length) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int error = errno;
    close(fd);
    return -error;
}
