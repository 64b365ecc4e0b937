/* See link.h. Attempts to connect come at growing intervals, and not in step with everybody else.
 *
 * When the owner is told something, it may give the connection up, and even begin another. So each connection has a number,
 * its life: code that has called the owner checks that the life is still the same before it goes on. */
#include "net/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/assert.h"
#include "util/clock.h"
#include "util/descriptors.h"
#include "util/error.h"

enum { BACKOFF_FIRST_MS = 20, BACKOFF_DOUBLINGS = 5 };
enum { TALKS = SIMBA_READABLE }; /* what a connected socket is always asked for */

/* --- failing and trying again --------------------------------------------------------------------- */

static void drop_socket(simba__link *link)
{
    if (link->socket.fd < 0)
        return;
    link->host->io_remove(link->host, &link->socket);
    close(link->socket.fd);
    link->socket.fd = -1;
}

static void let_go(simba__link *link)
{
    link->life++;
    if (link->lookup)
        simba__lookup_give_up(link->lookup);
    link->lookup = NULL;
    if (link->addresses)
        freeaddrinfo(link->addresses);
    link->addresses = link->next_address = NULL;
    drop_socket(link);
    simba__tls_free(link->tls);
    link->tls = NULL;
    link->wire.length = link->out.length = 0;
    link->wire.failed = link->out.failed = false;
    link->refused = 0;
    link->heard = link->asks_plainly = false;
}

void simba__link_fail(simba__link *link, int code, const char *format, ...)
{
    simba_error error = {.code = code};
    va_list args;
    if (link->state != SIMBA__LINK_CONNECTING && link->state != SIMBA__LINK_UP)
        return;
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    link->error = error;
    link->failures++;
    link->state = SIMBA__LINK_WAITING;
    let_go(link);

    simba_host *host = link->host;
    int64_t pause_ns = BACKOFF_FIRST_MS * SIMBA__NS_PER_MS;
    for (unsigned i = 1; i < link->failures && i <= BACKOFF_DOUBLINGS; i++)
        pause_ns *= 2;
    pause_ns = pause_ns * 3 / 4 + (int64_t)(host->random(host) % (uint64_t)(pause_ns / 2));
    host->timer_set(host, &link->timer, (simba_local){host->now(host).ns + pause_ns});
    link->events->down(link);
}

static void fail_to_connect(simba__link *link, const char *why)
{
    simba__link_fail(link, SIMBA_EUNAVAILABLE, "%s %s: cannot connect: %s", link->all->kind, link->at.where, why);
}

static bool is_transient(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static void fail_lost(simba__link *link, const char *why)
{
    simba__link_fail(link, SIMBA_EUNAVAILABLE, "%s %s: connection lost: %s", link->all->kind, link->at.where, why);
}

/* --- reading -------------------------------------------------------------------------------------- */

static void come_up(simba__link *link);

/* Through TLS: first the handshake, then the plain bytes of the records. */
static void take_records(simba__link *link)
{
    char plain[16384];
    const char *why = NULL;
    const unsigned life = link->life;
    if (link->state == SIMBA__LINK_CONNECTING) {
        const int rc = simba__tls_handshake(link->tls, &why);
        if (rc < 0)
            simba__link_fail(link, rc, "%s %s: cannot connect by TLS: %s", link->all->kind, link->at.where, why);
        else if (rc > 0)
            come_up(link);
        else
            simba__link_flush(link);
    }
    while (link->life == life && link->state == SIMBA__LINK_UP) {
        const int length = simba__tls_read(link->tls, plain, sizeof plain);
        if (length == 0)
            break;
        if (length < 0)
            fail_lost(link, "TLS has ended");
        else
            link->events->bytes(link, plain, (size_t)length);
    }
}

static void take_bytes(simba__link *link, const char *data, size_t length)
{
    const bool is_first = !link->heard;
    const bool is_tls = data[0] >= 20 && data[0] <= 24; /* the types of TLS's records: no line of text begins so */
    link->heard = true;
    if (is_first && !is_tls && (link->asks_plainly || link->tls)) { /* waiting does not mend that */
        simba__link_fail(
            link, SIMBA_ESTORE,
            "%s %s: the server does not speak TLS at this port; give it TLS, or take that out of the URL if "
            "nobody can listen on the way",
            link->all->kind, link->at.where);
    } else if (link->asks_plainly) {
        fail_to_connect(link, "no answer by TLS"); /* in time: an alert is one */
    } else if (!link->tls) {
        link->events->bytes(link, data, length);
    } else if (simba__tls_feed(link->tls, data, length)) {
        take_records(link);
    } else {
        simba__link_fail(link, SIMBA_ENOMEM, "%s %s: out of memory", link->all->kind, link->at.where);
    }
}

/* Read what there is, but with a limit, in case the server sends faster than we read: the rest is reported again. */
static void read_socket(simba__link *link)
{
    enum { MOST = 64 };
    char bytes[16384];
    const unsigned life = link->life;
    ssize_t length = sizeof bytes;
    for (int i = 0; i < MOST && link->life == life && length == sizeof bytes; i++) {
        length = recv(link->socket.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (length > 0)
            take_bytes(link, bytes, (size_t)length);
        else if (length == 0)
            fail_lost(link, "the server closed it");
        else if (!is_transient(errno))
            fail_lost(link, strerror(errno));
    }
}

/* --- writing -------------------------------------------------------------------------------------- */

/* Write as much as the socket takes, nearly always all. The rest goes out when the socket is writable. */
static void send_wire(simba__link *link)
{
    simba__buffer *wire = &link->wire;
    const ssize_t sent = send(link->socket.fd, wire->data, wire->length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && !is_transient(errno)) {
        fail_lost(link, strerror(errno));
        return;
    }
    if (sent > 0) {
        wire->length -= (size_t)sent;
        memmove(wire->data, wire->data + sent, wire->length);
    }
    const unsigned interest = TALKS | (wire->length > 0 ? SIMBA_WRITABLE : 0);
    if (interest != link->socket.interest && link->host->io_change(link->host, &link->socket, interest) < 0)
        fail_lost(link, "out of memory");
}

/* Put the next bytes for the socket into link->wire. False: out of memory, or TLS failed. */
static bool fill_wire(simba__link *link)
{
    if (link->tls) {
        if (link->state == SIMBA__LINK_UP && link->out.length > 0 &&
            !simba__tls_write(link->tls, link->out.data, link->out.length))
            return false;
        if (link->state == SIMBA__LINK_UP)
            link->out.length = 0;
        simba__tls_take(link->tls, &link->wire);
    } else if (link->state == SIMBA__LINK_UP) {
        const simba__buffer empty = link->wire;
        link->wire = link->out;
        link->out = empty;
    }
    return !link->wire.failed;
}

void simba__link_flush(simba__link *link)
{
    const bool is_blocked = link->socket.interest & SIMBA_WRITABLE;
    if (is_blocked || (link->state != SIMBA__LINK_UP && !link->tls))
        return;
    if (link->out.failed || !fill_wire(link))
        simba__link_fail(link, SIMBA_ENOMEM, "%s %s: out of memory", link->all->kind, link->at.where);
    else if (link->wire.length > 0)
        send_wire(link);
}

static void on_talk(simba_io *socket, unsigned events)
{
    simba__link *link = (simba__link *)(void *)((char *)socket - offsetof(simba__link, socket));
    const unsigned life = link->life;
    if (events & SIMBA_WRITABLE)
        send_wire(link);
    if (link->life == life && events & SIMBA_READABLE)
        read_socket(link);
    if (link->life == life)
        simba__link_flush(link);
}

/* --- connecting ----------------------------------------------------------------------------------- */

static void come_up(simba__link *link)
{
    link->state = SIMBA__LINK_UP;
    link->host->timer_clear(link->host, &link->timer);
    link->events->up(link);
    simba__link_flush(link);
}

static void begin_to_talk(simba__link *link)
{
    link->socket.ready = on_talk;
    if (link->asks_plainly) { /* the answer need not be right: whatever is not TLS tells */
        const size_t length = strlen(link->all->hello);
        if (send(link->socket.fd, link->all->hello, length, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)length ||
            link->host->io_change(link->host, &link->socket, TALKS) < 0)
            fail_to_connect(link, "no answer");
        return;
    }
    if (link->all->tls)
        link->tls = simba__tls_new(link->all->tls, link->tls_name ? link->tls_name : link->at.host);
    if ((link->all->tls && !link->tls) || link->host->io_change(link->host, &link->socket, TALKS) < 0)
        fail_to_connect(link, "out of memory");
    else if (link->tls)
        take_records(link);
    else
        come_up(link);
}

static void try_next_address(simba__link *link, int error);

static void on_connected(simba_io *socket, unsigned events)
{
    simba__link *link = (simba__link *)(void *)((char *)socket - offsetof(simba__link, socket));
    struct sockaddr_storage peer;
    socklen_t peer_length = sizeof peer;
    int error = 0;
    socklen_t length = sizeof error;
    (void)events;
    if (getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (!error && getpeername(socket->fd, (struct sockaddr *)&peer, &peer_length) < 0 && errno == ENOTCONN)
        return; /* this was about an earlier socket */
    if (error)
        try_next_address(link, error);
    else
        begin_to_talk(link);
}

/* 0, or the system's error: then there is no socket. */
static int connect_to(simba__link *link, const struct sockaddr *address, socklen_t length)
{
    drop_socket(link);
    if (!simba__descriptors_hold())
        return errno;
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    link->socket = (simba_io){.ready = on_connected, .fd = fd, .interest = SIMBA_WRITABLE};
    int error = 0;
    if (connect(fd, address, length) < 0 && errno != EINPROGRESS)
        error = errno;
    else if (link->host->io_add(link->host, &link->socket) < 0)
        error = ENOMEM;
    if (error)
        drop_socket(link);
    return error;
}

/* A name may have several addresses, and the first one may not answer. */
static void try_next_address(simba__link *link, int error)
{
    while (link->next_address) {
        const struct addrinfo *address = link->next_address;
        link->next_address = address->ai_next;
        error = connect_to(link, address->ai_addr, address->ai_addrlen);
        if (error == 0)
            return;
    }
    fail_to_connect(link, strerror(error));
}

static void on_looked_up(simba__lookup *lookup)
{
    simba__link *link = lookup->owner;
    link->all->lookups--;
    if (link->lookup == lookup) {
        link->lookup = NULL;
        link->addresses = link->next_address = lookup->found;
        lookup->found = NULL;
        if (link->addresses)
            try_next_address(link, 0);
        else
            fail_to_connect(link, lookup->why);
    }
    link->all->looked_up(link->all);
}

static int begin(simba__link *link)
{
    simba__address address;
    struct sockaddr_un file = {.sun_family = AF_UNIX};
    if (link->at.port == 0 && strlen(link->at.host) >= sizeof file.sun_path)
        return ENAMETOOLONG;
    if (link->at.port == 0) {
        strcpy(file.sun_path, link->at.host);
        return connect_to(link, (const struct sockaddr *)(const void *)&file, sizeof file);
    }
    if (simba__address_parse(link->at.host, link->at.port, &address))
        return connect_to(link, (const struct sockaddr *)&address.at, address.length);
    link->lookup = simba__lookup_start(link->host, link->at.host, link->at.port, on_looked_up, link);
    if (!link->lookup)
        return ENOMEM;
    link->all->lookups++;
    return 0;
}

void simba__link_open(simba__link *link)
{
    if (link->state == SIMBA__LINK_CONNECTING || link->state == SIMBA__LINK_UP)
        return;
    link->state = SIMBA__LINK_CONNECTING;
    link->host->timer_clear(link->host, &link->timer);
    link->events->find(link);
}

/* In an outage the first packet of a connection gets lost, and the kernel repeats it only after a second. A new
 * attempt does not wait for that. The first few attempts get little time; then one gets all of it, or simba would
 * never reach a server that is far away. */
void simba__link_hurry(simba__link *link)
{
    enum { FIRST_MS = 100, MORE_MS = 50, MOST = 4 };
    const int64_t delay_ns = (FIRST_MS + MORE_MS * (int64_t)link->hurries) * SIMBA__NS_PER_MS;
    const simba_local now = link->host->now(link->host);
    if (link->state != SIMBA__LINK_WAITING && link->state != SIMBA__LINK_CONNECTING)
        return;
    if (link->hurries >= MOST || now.ns - link->begun_at.ns < delay_ns)
        return;
    link->hurries++;
    let_go(link);
    link->state = SIMBA__LINK_WAITING;
    simba__link_open(link);
}

bool simba__link_seeks(const simba__link *link)
{
    return link->state == SIMBA__LINK_CONNECTING && !link->lookup && link->socket.fd < 0 && !link->refused;
}

/* The call that asks for a connection does not report its failure: the timer does. */
void simba__link_found(simba__link *link)
{
    if (!simba__link_seeks(link))
        return;
    const simba_local now = link->host->now(link->host);
    link->begun_at = now;
    link->refused = begin(link);
    link->host->timer_set(link->host, &link->timer,
                          (simba_local){now.ns + (link->refused ? 0 : link->connect_timeout_ns)});
}

/* --- lifetime ------------------------------------------------------------------------------------- */

/* The server took the connection, and has not said a word of TLS until the time was over. It may be frozen; or it does not
 * speak TLS, and waits for the end of what it takes for a command. A word without TLS tells. It has nothing secret in it. */
static void doubt_tls(simba__link *link, simba_local now)
{
    enum { TIMEOUT_MS = 300 };
    let_go(link);
    link->asks_plainly = true;
    link->refused = begin(link);
    link->host->timer_set(link->host, &link->timer,
                          (simba_local){now.ns + (link->refused ? 0 : TIMEOUT_MS * SIMBA__NS_PER_MS)});
}

static void on_timer(simba_timer *timer, simba_local now)
{
    simba__link *link = (simba__link *)(void *)((char *)timer - offsetof(simba__link, timer));
    switch (link->state) {
    case SIMBA__LINK_CONNECTING:
        if (link->tls && !link->heard && link->all->hello)
            doubt_tls(link, now);
        else
            fail_to_connect(link, link->refused ? strerror(link->refused) : "no answer");
        break;
    case SIMBA__LINK_UP:
        link->events->tick(link, now);
        break;
    case SIMBA__LINK_WAITING:
        simba__link_open(link);
        break;
    case SIMBA__LINK_CLOSED:
        break;
    }
}

int simba__link_init(simba__link *link, simba__links *all, const simba__link_events *events, int64_t connect_timeout_ns)
{
    link->host = all->host;
    link->all = all;
    link->events = events;
    link->connect_timeout_ns = connect_timeout_ns;
    link->socket.fd = -1;
    link->timer.fire = on_timer;
    return link->host->timer_add(link->host, &link->timer);
}

void simba__link_close(simba__link *link)
{
    link->state = SIMBA__LINK_CLOSED;
    link->host->timer_clear(link->host, &link->timer);
    let_go(link);
}

void simba__link_fini(simba__link *link)
{
    SIMBA__ASSERT(!link->lookup && link->socket.fd < 0);
    simba__buffer_free(&link->out);
    simba__buffer_free(&link->wire);
}
