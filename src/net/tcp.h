/* Settings of TCP sockets that client libraries open and do not set themselves. */
#ifndef SIMBA_NET_TCP_H
#define SIMBA_NET_TCP_H

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* After packets were lost, the kernel repeats the last one in pauses that double. For a connection with so little traffic
 * it may do so in equal ones, for a while: 200 ms if the server is near. Fails without TCP, which does not matter. */
static inline void simba__tcp_repeat_evenly(int fd)
{
    const int yes = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &yes, sizeof yes);
}

#endif
