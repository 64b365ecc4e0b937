/* A network that swallows every packet, for the whole of this process: the kernel drops what arrives on its TCP
 * connections and listening sockets before TCP sees it. So connections get into TCP's back-off, and the kernel repeats
 * the first packet of a new one after a second, as in a real outage. It needs no privileges. Both ends have to be in
 * this process: put a proxy (tests/lib/proxy.h) in front of the server.
 *
 * A program that includes this replaces connect(2), listen(2) and accept4(2), to know the sockets. Include it once. */
#ifndef TESTS_LIB_SILENCE_H
#define TESTS_LIB_SILENCE_H

#include <linux/filter.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t silence_lock = PTHREAD_MUTEX_INITIALIZER;
static bool silence_on;
static bool silence_known[1024]; /* descriptors that were sockets at some time */

static void silence_apply(int fd, bool on)
{
    struct sock_filter drop[] = {{BPF_RET | BPF_K, 0, 0, 0}};
    const struct sock_fprog program = {1, drop};
    const int none = 0;
    /* It may have been closed meanwhile, or be no socket any more: that does no harm. */
    if (on)
        setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    else
        setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none);
}

static void silence_know(int fd)
{
    if (fd < 0 || fd >= 1024)
        return;
    pthread_mutex_lock(&silence_lock);
    silence_known[fd] = true;
    silence_apply(fd, silence_on);
    pthread_mutex_unlock(&silence_lock);
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    silence_know(fd);
    return (int)syscall(SYS_connect, fd, addr, len);
}

int listen(int fd, int n)
{
    silence_know(fd);
    return (int)syscall(SYS_listen, fd, n);
}

int accept4(int fd, struct sockaddr *restrict addr, socklen_t *restrict addr_len, int flags)
{
    const int accepted = (int)syscall(SYS_accept4, fd, addr, addr_len, flags);
    silence_know(accepted);
    return accepted;
}

static inline void silence_set(bool on)
{
    pthread_mutex_lock(&silence_lock);
    silence_on = on;
    for (int fd = 0; fd < 1024; fd++)
        if (silence_known[fd])
            silence_apply(fd, on);
    pthread_mutex_unlock(&silence_lock);
}

#endif
