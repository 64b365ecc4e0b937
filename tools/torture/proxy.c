/* See proxy.h. */
#include "torture/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_MAX 16384
#define HELD_MAX (1024 * 1024) /* bytes under way in one direction: more stay in the sender's socket */

/* Bytes that are under way. */
typedef struct piece {
    struct piece *next;
    int64_t due_ns;
    size_t length;
    size_t sent;
    char bytes[];
} piece;

typedef struct direction {
    piece *first;
    piece *last;
    size_t held;
    bool ended; /* the sender has closed */
} direction;

/* A connection. Side 0 is the contender, side 1 the store; direction i carries the bytes that side i sends. */
typedef struct proxied {
    int fds[2]; /* -1: there is no such link */
    bool connecting;
    unsigned target;
    direction directions[2];
} proxied;

typedef struct listener {
    int fd;
    int port;
    const torture_target *target;
    unsigned address; /* the one to try next */
} listener;

struct torture_proxy {
    listener listeners[TORTURE_TARGETS_MAX];
    unsigned listener_count;
    proxied links[TORTURE_LINKS_MAX];
    torture_network network;
    int64_t late_ns;
};

int torture_target_find(torture_target *target)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    const int code = getaddrinfo(target->host, target->port, &hints, &found);
    if (code != 0)
        return code;
    target->count = 0;
    for (const struct addrinfo *a = found; a != NULL && target->count < TORTURE_ADDRESSES_MAX; a = a->ai_next) {
        memcpy(&target->addresses[target->count], a->ai_addr, a->ai_addrlen);
        target->lengths[target->count++] = a->ai_addrlen;
    }
    freeaddrinfo(found);
    return 0;
}

/* --- links ---------------------------------------------------------------------------------------- */

static void hang_up(proxied *link)
{
    for (int side = 0; side < 2; side++) {
        close(link->fds[side]);
        link->fds[side] = -1;
        for (piece *p = link->directions[side].first, *next; p != NULL; p = next) {
            next = p->next;
            free(p);
        }
        link->directions[side] = (direction){0};
    }
}

static bool passes(const torture_proxy *proxy, int from)
{
    return proxy->network == TORTURE_PASS || proxy->network == TORTURE_SLOW ||
           (proxy->network == TORTURE_NO_ANSWERS && from == 0) || (proxy->network == TORTURE_NO_REQUESTS && from == 1);
}

/* Begin to connect. Returns the socket, or -1. */
static int call_server(const listener *at)
{
    const int on = 1;
    const struct sockaddr *address = (const struct sockaddr *)&at->target->addresses[at->address];
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, address, at->target->lengths[at->address]) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

static void accept_link(torture_proxy *proxy, unsigned target)
{
    const int on = 1;
    listener *at = &proxy->listeners[target];
    proxied *link = NULL;
    const int client = accept4(at->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0)
        return;
    for (unsigned i = 0; i < TORTURE_LINKS_MAX && link == NULL && proxy->network != TORTURE_CLOSED; i++)
        if (proxy->links[i].fds[0] < 0)
            link = &proxy->links[i];
    const int server = link != NULL ? call_server(at) : -1;
    if (server < 0) {
        if (link != NULL)
            at->address = (at->address + 1) % at->target->count;
        close(client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *link = (proxied){.fds = {client, server}, .connecting = true, .target = target};
}

/* Read from one side. False: the link is broken. */
static bool take_in(const torture_proxy *proxy, proxied *link, int from, int64_t now_ns)
{
    direction *d = &link->directions[from];
    piece *p = malloc(sizeof *p + PIECE_MAX);
    if (p == NULL)
        return false;
    const ssize_t length = recv(link->fds[from], p->bytes, PIECE_MAX, 0);
    if (length <= 0) {
        const bool later = length < 0 && (errno == EAGAIN || errno == EINTR);
        free(p);
        d->ended = length == 0;
        return later || length == 0;
    }
    p->next = NULL;
    p->length = (size_t)length;
    p->sent = 0;
    p->due_ns = now_ns + (proxy->network == TORTURE_SLOW ? proxy->late_ns : 0);
    if (d->first == NULL)
        d->first = p;
    else
        d->last->next = p;
    d->last = p;
    d->held += p->length;
    return true;
}

/* Pass on the bytes that are due. False: the link is broken. */
static bool pass_on(proxied *link, int from, int64_t now_ns)
{
    direction *d = &link->directions[from];
    while (d->first != NULL && d->first->due_ns <= now_ns) {
        piece *p = d->first;
        const ssize_t length = send(link->fds[!from], p->bytes + p->sent, p->length - p->sent, MSG_NOSIGNAL);
        if (length < 0)
            return errno == EAGAIN || errno == EINTR;
        p->sent += (size_t)length;
        d->held -= (size_t)length;
        if (p->sent < p->length)
            return true;
        d->first = p->next;
        free(p);
    }
    return d->first != NULL || !d->ended;
}

/* --- waiting and working --------------------------------------------------------------------------- */

static bool may_read(const torture_proxy *proxy, const proxied *link, int from)
{
    return passes(proxy, from) && !link->directions[from].ended && link->directions[from].held < HELD_MAX;
}

unsigned torture_proxy_wait_for(torture_proxy *proxy, struct pollfd *fds, int64_t now_ns, int64_t *wake_ns)
{
    unsigned count = 0;
    for (unsigned i = 0; i < proxy->listener_count; i++)
        fds[count++] = (struct pollfd){.fd = proxy->listeners[i].fd, .events = POLLIN};
    for (unsigned i = 0; i < TORTURE_LINKS_MAX; i++) {
        const proxied *link = &proxy->links[i];
        for (int side = 0; side < 2; side++) {
            const piece *own = link->directions[side].first;
            const piece *other = link->directions[!side].first;
            short events = 0;
            if (link->fds[0] >= 0 && link->connecting)
                events = side == 1 ? POLLOUT : 0;
            else if (link->fds[0] >= 0)
                events = (short)((may_read(proxy, link, side) ? POLLIN : 0) |
                                 (passes(proxy, !side) && other != NULL && other->due_ns <= now_ns ? POLLOUT : 0));
            /* Leave a descriptor out if no event of it is wanted: poll reports a closed socket even to a caller that asks
             * for no event. */
            fds[count++] = (struct pollfd){.fd = events != 0 ? link->fds[side] : -1, .events = events};
            if (passes(proxy, side) && own != NULL && own->due_ns > now_ns && own->due_ns < *wake_ns)
                *wake_ns = own->due_ns;
        }
    }
    return count;
}

/* False: the link is broken, or has ended. */
static bool work_link(torture_proxy *proxy, proxied *link, const struct pollfd *fds, int64_t now_ns)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (link->connecting && fds[1].revents == 0)
        return true;
    if (link->connecting) {
        /* The connection to the server has come about or failed. */
        link->connecting = false;
        if (getsockopt(link->fds[1], SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0)
            return true;
        listener *at = &proxy->listeners[link->target];
        at->address = (at->address + 1) % at->target->count;
        return false;
    }
    for (int from = 0; from < 2; from++) {
        if (!passes(proxy, from))
            continue;
        if ((fds[from].revents & ~POLLOUT) != 0 && may_read(proxy, link, from) && !take_in(proxy, link, from, now_ns))
            return false;
        if (!pass_on(link, from, now_ns))
            return false;
    }
    return true;
}

void torture_proxy_work(torture_proxy *proxy, const struct pollfd *fds, int64_t now_ns)
{
    const struct pollfd *at = fds + proxy->listener_count;
    for (unsigned i = 0; i < TORTURE_LINKS_MAX; i++, at += 2) {
        proxied *link = &proxy->links[i];
        if (link->fds[0] >= 0 && !work_link(proxy, link, at, now_ns))
            hang_up(link);
    }
    /* After the links: a new one has a descriptor that may have been another's. */
    for (unsigned i = 0; i < proxy->listener_count; i++)
        if (fds[i].revents != 0)
            accept_link(proxy, i);
}

void torture_proxy_set(torture_proxy *proxy, torture_network network, int64_t late_ns)
{
    proxy->network = network;
    proxy->late_ns = late_ns;
    for (unsigned i = 0; i < TORTURE_LINKS_MAX && network == TORTURE_CLOSED; i++)
        if (proxy->links[i].fds[0] >= 0)
            hang_up(&proxy->links[i]);
}

/* --- beginning and end ------------------------------------------------------------------------------ */

torture_proxy *torture_proxy_new(const torture_target *targets, unsigned count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    torture_proxy *proxy = calloc(1, sizeof *proxy);
    if (proxy == NULL)
        return NULL;
    for (unsigned i = 0; i < TORTURE_LINKS_MAX; i++)
        proxy->links[i].fds[0] = proxy->links[i].fds[1] = -1;
    for (unsigned i = 0; i < count; i++) {
        listener *at = &proxy->listeners[proxy->listener_count++];
        socklen_t size = sizeof address;
        address.sin_port = 0;
        *at = (listener){.target = &targets[i]};
        at->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (at->fd < 0 || bind(at->fd, (struct sockaddr *)&address, size) != 0 ||
            listen(at->fd, TORTURE_LINKS_MAX) != 0 || getsockname(at->fd, (struct sockaddr *)&address, &size) != 0) {
            const int error = errno;
            torture_proxy_free(proxy);
            errno = error;
            return NULL;
        }
        at->port = ntohs(address.sin_port);
    }
    return proxy;
}

void torture_proxy_free(torture_proxy *proxy)
{
    if (proxy == NULL)
        return;
    for (unsigned i = 0; i < TORTURE_LINKS_MAX; i++)
        if (proxy->links[i].fds[0] >= 0)
            hang_up(&proxy->links[i]);
    for (unsigned i = 0; i < proxy->listener_count; i++)
        if (proxy->listeners[i].fd >= 0)
            close(proxy->listeners[i].fd);
    free(proxy);
}

int torture_proxy_port(const torture_proxy *proxy, unsigned target)
{
    return proxy->listeners[target].port;
}
