/* The store looks at messages while they are still in the socket: bytes that the library never reads cannot do harm. See
 * frames.h. */
#include "backends/zookeeper/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- what all handles of the process share ---------------------------------------------------------- */

/* The library does not guard the data that its handles share, so this file does. call_mutex guards the counter from which it
 * draws the numbers of requests. address_mutex guards the one text into which it formats addresses of servers
 * (zoo_get_current_server returns that text, and zookeeper_interest writes it when a server has been silent for too
 * long), and the random numbers by which it chooses among servers.
 *
 * Only session.c takes address_mutex, around single calls of the library. Answers may come inside such a call and lead
 * to further calls: call_mutex is the inner one. Both are inside the client's lock, and no answer leads to the lock of
 * another client. zookeeper_close runs without them: it may wait for seconds, and of the shared data it needs only one
 * number, for its last request. */
static pthread_mutex_t call_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t address_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Another thread may hold them while this one forks; in the child nobody does. */
static void forked(void)
{
    pthread_mutex_init(&call_mutex, NULL);
    pthread_mutex_init(&address_mutex, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forked);
}

static void lock(pthread_mutex_t *mutex)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(mutex);
}

void simba__zk_addresses_lock(void)
{
    lock(&address_mutex);
}

void simba__zk_addresses_unlock(void)
{
    pthread_mutex_unlock(&address_mutex);
}

/* --- what goes out ---------------------------------------------------------------------------------- */

/* The library sends the length of a request and the request itself as two packets, and then those of the next request.
 * A server that wakes up for each of them is half as fast. So the socket is corked for good, and the calls that have
 * gathered are pushed out: setting TCP_NODELAY again does that in one system call, also under a cork. */
static void set_option(const zk_wire *wire, int level, int option, int value)
{
    setsockopt(wire->socket.fd, level, option, &value, sizeof value);
}

bool simba__zk_wire_begin(zk_wire *wire, zk_reply reply)
{
    if (!simba__zk_expect(&wire->expected, reply))
        return false;
    wire->gathered = true;
    if (!wire->corked && wire->socket.fd >= 0) {
        wire->corked = true;
        set_option(wire, IPPROTO_TCP, TCP_CORK, 1);
    }
    lock(&call_mutex);
    return true;
}

void simba__zk_wire_made(zk_wire *wire, int rc)
{
    pthread_mutex_unlock(&call_mutex);
    if (rc != ZOK)
        simba__zk_expect_not(&wire->expected);
}

void simba__zk_wire_push(zk_wire *wire)
{
    if (wire->gathered && wire->corked)
        set_option(wire, IPPROTO_TCP, TCP_NODELAY, 1);
    wire->gathered = false;
}

/* --- the socket ------------------------------------------------------------------------------------- */

void simba__zk_wire_drop(zk_wire *wire)
{
    if (wire->socket.fd < 0)
        return;
    if (wire->corked)
        set_option(wire, IPPROTO_TCP, TCP_CORK, 0); /* the library is about to say good-bye */
    wire->corked = false;
    wire->host->io_remove(wire->host, &wire->socket);
    close(wire->socket.fd);
    wire->socket.fd = -1;
}

/* The library closes sockets without saying so, and a later socket, or a file of the application's, may get the same
 * number. So the store watches the socket and sets its options by a descriptor of its own, until the connection is over. */
bool simba__zk_wire_listen(zk_wire *wire, int fd, int interest)
{
    simba_io *socket = &wire->socket;
    const unsigned wanted =
        (interest & ZOOKEEPER_READ ? SIMBA_READABLE : 0) | (interest & ZOOKEEPER_WRITE ? SIMBA_WRITABLE : 0);
    if (socket->fd >= 0)
        return socket->interest == wanted || wire->host->io_change(wire->host, socket, wanted) == 0;
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return false;
    wire->least = 1;
    *socket = (simba_io){.ready = socket->ready, .fd = own, .interest = wanted};
    if (wire->host->io_add(wire->host, socket) == 0)
        return true;
    socket->fd = -1;
    close(own);
    return false;
}

/* Unlike shutdown, this also drops bytes that were received and not read. The library notices when it reads. */
void simba__zk_dissolve(int fd)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    (void)connect(fd, &nowhere, sizeof nowhere);
}

/* --- what comes in ---------------------------------------------------------------------------------- */

/* Have the socket reported as soon as there are that many bytes to read, or its end. */
static void set_least(zk_wire *wire, int bytes)
{
    if (wire->least != bytes)
        set_option(wire, SOL_SOCKET, SO_RCVLOWAT, bytes);
    wire->least = bytes;
}

/* True if the library may read now. Judges the message that comes next, if there is one. */
static bool may_read(zk_wire *wire)
{
    static const zk_expected nothing = {0};
    unsigned char head[ZK_FRAME_HEAD];
    const ssize_t available = recv(wire->socket.fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (available <= 0) /* the library has to learn that the connection has ended */
        return available == 0 || (errno != EAGAIN && errno != EINTR);
    switch (simba__zk_frame_judge(wire->stale ? &nothing : &wire->expected, head, (size_t)available)) {
    case ZK_FRAME_GOOD:
        set_least(wire, 1);
        return true;
    case ZK_FRAME_SHORT:
        set_least(wire, (int)available + 1); /* the bytes stay in the socket: report it when there are more */
        return false;
    case ZK_FRAME_BAD:
        break;
    }
    wire->host->log(wire->host, SIMBA_LOG_WARN, "zookeeper %s: the server sends what no ZooKeeper would; breaking off",
                    wire->where);
    simba__zk_dissolve(wire->socket.fd);
    return true;
}

int simba__zk_wire_take(zk_wire *wire, zhandle_t *zh, int events)
{
    /* The answer to a handshake has a fixed size, for which the library has room. */
    const bool up = zoo_state(zh) == ZOO_CONNECTED_STATE;
    if (events & ZOOKEEPER_READ && up && !wire->inside && !may_read(wire))
        events &= ~ZOOKEEPER_READ;
    if (events == 0)
        return ZNOTHING;
    const int rc = zookeeper_process(zh, events);
    if (events & ZOOKEEPER_READ)
        wire->inside = up && rc == ZNOTHING; /* it has read a part of the message, and waits for the rest */
    return rc;
}
