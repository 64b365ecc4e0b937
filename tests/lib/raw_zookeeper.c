/* See raw_zookeeper.h. */
#include "lib/raw_zookeeper.h"

#if SIMBA_WITH_ZOOKEEPER
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static void ignore_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
}

static void ignore_log(const char *message)
{
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

enum { NO_ANSWER = 1 };

/* Let the library work until `rc` is an answer, for ten seconds at most. */
static int await(zhandle_t *zh, int made, const int *rc)
{
    if (made != ZOK)
        abort();
    for (int i = 0; i < 1000 && *rc == NO_ANSWER; i++)
        work(zh);
    return *rc;
}

static void deleted(int rc, const void *data)
{
    *(int *)(uintptr_t)data = rc;
}

int raw_zookeeper_delete(zhandle_t *zh, const char *path)
{
    int rc = NO_ANSWER;
    return await(zh, zoo_adelete(zh, path, -1, deleted, &rc), &rc);
}

static void created(int rc, const char *value, const void *data)
{
    *(int *)(uintptr_t)data = rc;
}

int raw_zookeeper_create(zhandle_t *zh, const char *path, const char *data, int mode)
{
    int rc = NO_ANSWER;
    return await(zh, zoo_acreate(zh, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, mode, created, &rc), &rc);
}

static void written(int rc, const struct Stat *stat, const void *data)
{
    *(int *)(uintptr_t)data = rc;
}

int raw_zookeeper_set(zhandle_t *zh, const char *path, const char *data)
{
    int rc = NO_ANSWER;
    return await(zh, zoo_aset(zh, path, data, (int)strlen(data), -1, written, &rc), &rc);
}

struct search {
    int rc;
    const char *part;
    size_t size;
    char *name;
};

static void listed(int rc, const struct String_vector *strings, const void *data)
{
    struct search *search = (struct search *)(uintptr_t)data;
    search->rc = rc == ZOK ? ZNONODE : rc;
    for (int32_t i = 0; rc == ZOK && i < strings->count; i++) {
        const char *name = strings->data[i];
        if (!strstr(name, search->part) || (search->rc == ZOK && strcmp(name, search->name) > 0))
            continue;
        snprintf(search->name, search->size, "%s", name);
        search->rc = ZOK;
    }
}

int raw_zookeeper_child(zhandle_t *zh, const char *path, const char *part, size_t size, char *ret_name)
{
    struct search search = {NO_ANSWER, part, size, ret_name};
    ret_name[0] = '\0';
    return await(zh, zoo_aget_children(zh, path, 0, listed, &search), &search.rc);
}
#endif
