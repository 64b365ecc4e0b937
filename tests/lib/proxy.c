/* See proxy.h. */
#include "lib/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/fake.h"

static void hang_up(proxy *p, int i)
{
    close(p->links[i][0]);
    close(p->links[i][1]);
    p->links[i][0] = p->links[i][1] = -1;
}

static void accept_one(proxy *p)
{
    const int on = 1;
    const struct sockaddr_in target = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)p->target), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    p->accepted++;
    int i = 0;
    while (i < PROXY_LINKS && p->links[i][0] >= 0)
        i++;
    const int server = p->mode == PROXY_CUT || i == PROXY_LINKS ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || connect(server, (const struct sockaddr *)&target, sizeof target) != 0) {
        if (server >= 0)
            close(server);
        close(client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    p->links[i][0] = client;
    p->links[i][1] = server;
}

/* The kernel drops everything that comes in for a socket whose filter lets nothing pass, before TCP sees it. Accepted
 * sockets have the filter of their listener. */
static void lose(int fd, bool loses)
{
    struct sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_fprog program = {.len = 1, .filter = nothing};
    if (fd >= 0 &&
        setsockopt(fd, SOL_SOCKET, loses ? SO_ATTACH_FILTER : SO_DETACH_FILTER, &program, sizeof program) != 0 && loses)
        abort();
}

/* Carry one piece from one side to the other. The pieces of a lock's protocol are small: the other side takes them at
 * once. */
static void carry(proxy *p, int i, int from)
{
    char piece[65536];
    const ssize_t length = recv(p->links[i][from], piece, sizeof piece, MSG_DONTWAIT);
    if (length < 0 && errno == EAGAIN)
        return; /* the event was about a connection that is gone, and another one has its number now */
    if (length <= 0 || send(p->links[i][!from], piece, (size_t)length, MSG_NOSIGNAL) != length)
        hang_up(p, i);
}

/* Does anything pass from this side? */
static int passes(const proxy *p, int from)
{
    return p->mode == PROXY_PASS || (p->mode == PROXY_DEAF && from == 0);
}

static void *run(void *arg)
{
    proxy *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->quit) {
        struct pollfd fds[2 + 2 * PROXY_LINKS];
        fds[0] = (struct pollfd){.fd = p->wakeup[0], .events = POLLIN};
        fds[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
        for (int i = 0; i < PROXY_LINKS; i++)
            for (int from = 0; from < 2; from++)
                fds[2 + 2 * i + from] =
                    (struct pollfd){.fd = passes(p, from) ? p->links[i][from] : -1, .events = POLLIN};
        pthread_mutex_unlock(&p->lock);
        poll(fds, sizeof fds / sizeof *fds, -1);
        pthread_mutex_lock(&p->lock);
        char bytes[64];
        if (fds[0].revents)
            (void)!read(p->wakeup[0], bytes, sizeof bytes);
        for (int i = 0; i < PROXY_LINKS; i++)
            for (int from = 0; from < 2; from++)
                if (fds[2 + 2 * i + from].revents && passes(p, from) && p->links[i][from] >= 0)
                    carry(p, i, from);
        if (fds[1].revents)
            accept_one(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void proxy_start(proxy *p, int target)
{
    memset(p, 0, sizeof *p);
    memset(p->links, -1, sizeof p->links);
    p->target = target;
    p->listener = fake_listen(&p->port);
    if (pipe2(p->wakeup, O_CLOEXEC) != 0)
        abort();
    pthread_mutex_init(&p->lock, NULL);
    if (pthread_create(&p->thread, NULL, run, p) != 0)
        abort();
}

void proxy_set(proxy *p, proxy_mode mode)
{
    pthread_mutex_lock(&p->lock);
    p->mode = mode;
    lose(p->listener, mode == PROXY_LOSS);
    for (int i = 0; i < PROXY_LINKS; i++)
        lose(p->links[i][0], mode == PROXY_LOSS);
    for (int i = 0; i < PROXY_LINKS && mode == PROXY_CUT; i++)
        if (p->links[i][0] >= 0)
            hang_up(p, i);
    pthread_mutex_unlock(&p->lock);
    (void)!write(p->wakeup[1], "", 1);
}

unsigned proxy_accepted(proxy *p)
{
    pthread_mutex_lock(&p->lock);
    const unsigned accepted = p->accepted;
    pthread_mutex_unlock(&p->lock);
    return accepted;
}

void proxy_stop(proxy *p)
{
    pthread_mutex_lock(&p->lock);
    p->quit = 1;
    pthread_mutex_unlock(&p->lock);
    (void)!write(p->wakeup[1], "", 1);
    pthread_join(p->thread, NULL);
    for (int i = 0; i < PROXY_LINKS; i++)
        if (p->links[i][0] >= 0)
            hang_up(p, i);
    close(p->listener);
    close(p->wakeup[0]);
    close(p->wakeup[1]);
    pthread_mutex_destroy(&p->lock);
}
