/* A server that speaks just enough of Redis's protocol to be talked to, and then says what the test wants. It runs on a
 * thread of its own. */
#ifndef TESTS_BACKENDS_FAKE_REDIS_H
#define TESTS_BACKENDS_FAKE_REDIS_H

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/cm.h"

enum { FAKE_CONNECTIONS = 16, FAKE_SEEN = 1 << 18 };

typedef struct fake_redis {
    const char *first;  /* said to everything that is no script of ours; NULL: nothing */
    const char *answer; /* said to every EVALSHA; NULL: nothing */
    const char *flood;  /* said again and again after the answer, until nobody reads any more */
    int fd;
    int port;
    pthread_t thread;
} fake_redis;

typedef struct fake_connection {
    size_t scanned; /* bytes of `seen` that were looked at */
    size_t length;
    char seen[FAKE_SEEN];
} fake_connection;

static inline bool fake_say(int fd, const char *text)
{
    const size_t length = strlen(text);
    return send(fd, text, length, MSG_NOSIGNAL) == (ssize_t)length;
}

/* Answer each whole word of `command` among what came since the last time. */
static inline bool fake_answer(const fake_redis *fake, int fd, fake_connection *c)
{
    static const char sha[] = "$40\r\n0123456789012345678901234567890123456789\r\n";
    const char *at = c->seen + c->scanned;
    for (;;) {
        const char *load = strstr(at, "\r\nSCRIPT\r\n");
        const char *call = strstr(at, "\r\nEVALSHA\r\n");
        if (!load && !call)
            break;
        const bool is_load = load && (!call || load < call);
        at = (is_load ? load : call) + 8;
        if (is_load ? !fake_say(fd, sha) : fake->answer && !fake_say(fd, fake->answer))
            return false;
        while (!is_load && fake->flood)
            if (!fake_say(fd, fake->flood))
                return false;
    }
    c->scanned = (size_t)(at - c->seen);
    return true;
}

/* False: it has gone. */
static inline bool fake_serve(const fake_redis *fake, int fd, fake_connection *c)
{
    if (c->length == FAKE_SEEN - 1)
        return false;
    const ssize_t length = read(fd, c->seen + c->length, FAKE_SEEN - 1 - c->length);
    if (length <= 0)
        return false;
    c->length += (size_t)length;
    c->seen[c->length] = '\0';
    return fake->first ? fake_say(fd, fake->first) : fake_answer(fake, fd, c);
}

static inline void *fake_run(void *arg)
{
    fake_redis *fake = arg;
    static fake_connection connections[FAKE_CONNECTIONS];
    struct pollfd polled[FAKE_CONNECTIONS + 1] = {{.fd = fake->fd, .events = POLLIN}};
    for (size_t i = 1; i <= FAKE_CONNECTIONS; i++)
        polled[i].fd = -1;
    while (poll(polled, FAKE_CONNECTIONS + 1, -1) > 0) {
        for (size_t i = 1; i <= FAKE_CONNECTIONS; i++)
            if (polled[i].fd >= 0 && polled[i].revents && !fake_serve(fake, polled[i].fd, &connections[i - 1])) {
                close(polled[i].fd);
                polled[i].fd = -1;
            }
        if (!polled[0].revents)
            continue;
        const int fd = accept(fake->fd, NULL, NULL);
        if (fd < 0)
            break;
        size_t i = 1;
        while (i <= FAKE_CONNECTIONS && polled[i].fd >= 0)
            i++;
        if (i > FAKE_CONNECTIONS) {
            close(fd);
            continue;
        }
        polled[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        connections[i - 1].length = connections[i - 1].scanned = 0;
    }
    for (size_t i = 1; i <= FAKE_CONNECTIONS; i++)
        if (polled[i].fd >= 0)
            close(polled[i].fd);
    return NULL;
}

static inline void fake_start(fake_redis *fake)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    fake->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fake->fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fake->fd, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(listen(fake->fd, 8), 0);
    fake->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

static inline void fake_stop(fake_redis *fake)
{
    shutdown(fake->fd, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->fd);
}

#endif
