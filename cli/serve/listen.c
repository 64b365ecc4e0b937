/* See listen.h. */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"

enum { BACKLOG = 1024 }; /* one that overflows costs honest clients a second */

/* "host:port" or "[address]:port". */
static bool split(const char *text, char *ret_host, size_t size, const char **ret_port)
{
    const char *colon = strrchr(text, ':');
    const bool has_brackets = text[0] == '[';
    if (colon == NULL || colon == text || colon[1] == '\0' || (has_brackets && colon[-1] != ']'))
        return false;
    const size_t length = (size_t)(colon - text) - (has_brackets ? 2 : 0);
    if (length == 0 || length >= size || (!has_brackets && memchr(text, ':', length) != NULL))
        return false;
    memcpy(ret_host, text + has_brackets, length);
    ret_host[length] = '\0';
    *ret_port = colon + 1;
    return true;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static void describe(listener *l, bool has_tls)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[64] = "?";
    char port[8] = "?";
    if (getsockname(l->fd, (struct sockaddr *)&address, &length) == 0)
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    const bool is_v6 = strchr(host, ':') != NULL;
    snprintf(l->url, sizeof l->url, "http%s://%s%s%s:%s/", has_tls ? "s" : "", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
             port);
}

static int bind_to(const struct addrinfo *address)
{
    const int on = 1;
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int serve_listen(const serve_options *options, listener *ret_listener)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[256];
    const char *port = NULL;
    if (!split(options->listen, host, sizeof host, &port))
        return cli_usage_error(SERVE_COMMAND,
                               "--listen wants ADDRESS:PORT, such as 127.0.0.1:7460 or [::1]:7460, not \"%s\"",
                               options->listen);
    const int code = getaddrinfo(host, port, &hints, &found);
    if (code != 0) {
        cli_say(SERVE_COMMAND, "--listen %s: %s.", options->listen, gai_strerror(code));
        return CLI_CONFIG;
    }
    ret_listener->is_loopback = is_loopback(found->ai_addr);
    ret_listener->fd = bind_to(found);
    const int error = errno;
    freeaddrinfo(found);
    if (ret_listener->fd < 0) {
        cli_say(SERVE_COMMAND, "%s cannot be listened at: %s.", options->listen, strerror(error));
        return CLI_CONFIG;
    }
    describe(ret_listener, options->cert != NULL);
    return CLI_GO;
}
