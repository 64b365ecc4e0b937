/* See endpoint.h. */
#include "net/endpoint.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "util/error.h"
#include "util/mem.h"

/* A part of a text. Authorities are taken apart without copying. */
typedef struct span {
    const char *from, *end;
} span;

static size_t length_of(span s)
{
    return (size_t)(s.end - s.from);
}

static bool has(span s, char c)
{
    return memchr(s.from, c, length_of(s)) != NULL;
}

bool simba__endpoint_is_same(const simba__endpoint *left, const simba__endpoint *right)
{
    return left->port == right->port && strcmp(left->host, right->host) == 0;
}

bool simba__endpoint_set(simba__endpoint *endpoint, const char *host, size_t length, int64_t port)
{
    if (length == 0 || length >= sizeof endpoint->host || memchr(host, '\0', length) || port < 1 || port > 65535)
        return false;
    memcpy(endpoint->host, host, length);
    endpoint->host[length] = '\0';
    endpoint->port = (int)port;
    snprintf(endpoint->where, sizeof endpoint->where, strchr(endpoint->host, ':') ? "[%.100s]:%d" : "%.100s:%d",
             endpoint->host, endpoint->port);
    return true;
}

int simba__endpoint_set_socket(simba__endpoint *endpoint, const char *store, const char *path, simba_error *err)
{
    const size_t room = sizeof((struct sockaddr_un *)NULL)->sun_path;
    if (path[0] != '/' || path[1] == '\0')
        return simba__fail(err, SIMBA_EURL, "%s: a unix socket is named by its absolute path", store);
    if (strlen(path) >= room)
        return simba__fail(err, SIMBA_EURL, "%s: the path of a unix socket has at most %zu bytes", store, room - 1);
    snprintf(endpoint->host, sizeof endpoint->host, "%s", path);
    snprintf(endpoint->where, sizeof endpoint->where, "%s", path);
    endpoint->port = 0;
    return 0;
}

/* Split HOST[:PORT]; `ret_port->from` is NULL if there is no port. False: colons or brackets are out of place. */
static bool split(span text, span *ret_host, span *ret_port)
{
    *ret_host = text;
    *ret_port = (span){NULL, NULL};
    const char *after_host = memchr(text.from, ':', length_of(text));
    if (text.from < text.end && *text.from == '[') {
        const char *bracket = memchr(text.from, ']', length_of(text));
        if (!bracket)
            return false;
        *ret_host = (span){text.from + 1, bracket};
        after_host = bracket + 1 < text.end ? bracket + 1 : NULL;
        if (after_host && *after_host != ':')
            return false;
    } else if (after_host) {
        ret_host->end = after_host;
    }
    if (after_host)
        *ret_port = (span){after_host + 1, text.end};
    return !(after_host && has(*ret_port, ':')) && !has(*ret_host, '[') && !has(*ret_host, ']');
}

static int parse_one(simba__endpoint *endpoint, const char *store, span text, int port, simba_error *err)
{
    span host;
    span digits;
    const int shown = (int)(length_of(text) < 60 ? length_of(text) : 60);
    if (!split(text, &host, &digits))
        return simba__fail(
            err, SIMBA_EURL,
            "%s: \"%.*s\" in the URL is not HOST or HOST:PORT; an IPv6 address stands in brackets, as in "
            "[::1]",
            store, shown, text.from);
    if (digits.from)
        port = 0;
    for (const char *c = digits.from; c < digits.end && port <= 65535; c++)
        port = *c >= '0' && *c <= '9' ? port * 10 + *c - '0' : 65536;
    if (port == 0 || port > 65535)
        return simba__fail(err, SIMBA_EURL, "%s: the port of \"%.*s\" in the URL is not a number from 1 to 65535",
                           store, shown, text.from);
    if (length_of(host) == 0)
        return simba__fail(err, SIMBA_EURL, "%s: a host is missing in the URL", store);
    if (!simba__endpoint_set(endpoint, host.from, length_of(host), port))
        return simba__fail(err, SIMBA_EURL, "%s: the host \"%.*s…\" in the URL is longer than a name can be", store,
                           shown, text.from);
    return 0;
}

int simba__endpoints_parse(const char *store, const char *authority, int port, simba_error *err,
                           simba__endpoint **ret_endpoints, size_t *ret_count)
{
    char local[32];
    if (authority[0] == '\0' || authority[0] == ':') { /* ":PORT" alone means this host, as it does in most tools */
        snprintf(local, sizeof local, "127.0.0.1%.20s", authority);
        authority = local;
    }
    size_t count = 1;
    for (const char *c = authority; *c; c++)
        count += *c == ',';
    simba__endpoint *endpoints = simba__calloc(count, sizeof *endpoints);
    if (!endpoints)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        const span one = {authority, authority + strcspn(authority, ",")};
        const int rc = parse_one(&endpoints[i], store, one, port, err);
        if (rc < 0) {
            simba__free(endpoints);
            return rc;
        }
        authority = one.end + 1;
    }
    *ret_endpoints = endpoints;
    *ret_count = count;
    return 0;
}
