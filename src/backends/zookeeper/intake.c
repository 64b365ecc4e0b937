/* Has the library take messages off the socket, each only after its first bytes were found good (see frames.h). They are
 * looked at where they are, in the socket: what is never read cannot do harm. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "backends/zookeeper/zookeeper.h"

/* Unlike shutdown, this also drops what has been received and not been read. The library finds out when it reads. */
void simba__zk_dissolve(int fd)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    (void)connect(fd, &nowhere, sizeof nowhere);
}

/* May the library read now? Judges the message that comes next, if there is one. */
static bool may_read(zk_store *self, int fd)
{
    zk_session *session = &self->session;
    static const zk_expected nothing = {0};
    unsigned char head[ZK_FRAME_HEAD];
    const ssize_t available = recv(fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (available <= 0) /* the library has to learn of an end */
        return available == 0 || (errno != EAGAIN && errno != EINTR);
    switch (simba__zk_frame_judge(session->purge ? &nothing : &session->expected, head, (size_t)available)) {
    case ZK_FRAME_GOOD:
        return true;
    case ZK_FRAME_SHORT:
        return false; /* when more of it comes, that is reported */
    case ZK_FRAME_BAD:
        break;
    }
    self->host->log(self->host, SIMBA_LOG_WARN, "zookeeper %s: the server sends what no ZooKeeper would; breaking off",
                    self->options.where);
    simba__zk_dissolve(fd);
    return true;
}

int simba__zk_take_in(zk_store *self, int fd, int events)
{
    zk_session *session = &self->session;
    /* The answer to a handshake has a fixed size, for which the library has room. */
    const bool up = zoo_state(session->zh) == ZOO_CONNECTED_STATE;
    if (events & ZOOKEEPER_READ && up && !session->inside && !may_read(self, fd))
        events &= ~ZOOKEEPER_READ;
    if (events == 0)
        return ZNOTHING;
    const int rc = zookeeper_process(session->zh, events);
    if (events & ZOOKEEPER_READ)
        session->inside = up && rc == ZNOTHING; /* it has taken a part of the message, and waits for the rest */
    return rc;
}
