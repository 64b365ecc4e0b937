/* See raw_zookeeper.h. */
#include "lib/raw_zookeeper.h"

#if SIMBA_WITH_ZOOKEEPER
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static void ignore_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)type, (void)state, (void)path, (void)context;
}

static void ignore_log(const char *message)
{
    (void)message;
}

/* Let the library work for a moment. */
static void work(zhandle_t *zh)
{
    int fd = -1;
    int interest = 0;
    struct timeval wait;
    zookeeper_interest(zh, &fd, &interest, &wait);
    struct pollfd poll_fd = {.fd = fd, .events = (short)(interest & ZOOKEEPER_WRITE ? POLLIN | POLLOUT : POLLIN)};
    poll(&poll_fd, 1, 10);
    zookeeper_process(zh, (poll_fd.revents & POLLIN ? ZOOKEEPER_READ : 0) |
                              (poll_fd.revents & POLLOUT ? ZOOKEEPER_WRITE : 0));
}

zhandle_t *raw_zookeeper_open(int port, const clientid_t *id)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    zhandle_t *zh = zookeeper_init2(address, ignore_event, 4000, id, NULL, ZOO_NO_LOG_CLIENTENV, ignore_log);
    for (int i = 0; zh && zoo_state(zh) != ZOO_CONNECTED_STATE; i++) {
        if (i == 1000)
            abort();
        work(zh);
    }
    if (!zh)
        abort();
    return zh;
}

static void deleted(int rc, const void *data)
{
    *(int *)(uintptr_t)data = rc;
}

int raw_zookeeper_delete(zhandle_t *zh, const char *path)
{
    int rc = 1;
    if (zoo_adelete(zh, path, -1, deleted, &rc) != ZOK)
        abort();
    for (int i = 0; i < 1000 && rc == 1; i++)
        work(zh);
    return rc;
}
#endif
