/* A server that speaks just enough of Redis's protocol to be talked to, and then says what the test wants. It runs on a
 * thread of its own. */
#ifndef TESTS_BACKENDS_FAKE_REDIS_H
#define TESTS_BACKENDS_FAKE_REDIS_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/fake.h"

enum { FAKE_CONNECTIONS = 16, FAKE_SEEN = 1 << 18 };

typedef struct fake_redis {
    const char *first;              /* said whatever comes; NULL: what follows */
    const char *answer;             /* to every EVALSHA; NULL: nothing */
    const char *flood;              /* again and again after the answer, until nobody reads any more */
    _Atomic(const char *) sentinel; /* to every SENTINEL */
    int fd;
    int port;
    pthread_t thread;
    pthread_mutex_t lock; /* of the following */
    int fds[FAKE_CONNECTIONS];
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

/* What is said to a command that begins with this word; NULL: nothing. */
static inline const char *fake_reply(const fake_redis *fake, size_t word)
{
    switch (word) {
    case 0:
        return fake->answer;
    case 1:
        return atomic_load(&fake->sentinel);
    default:
        return "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n";
    }
}

/* Answer the commands among what came since the last time. */
static inline bool fake_answer(const fake_redis *fake, int fd, fake_connection *c)
{
    static const char *const words[] = {"\r\nEVALSHA\r\n", "\r\nSENTINEL\r\n", "\r\nSUBSCRIBE\r\n"};
    for (;;) {
        const char *first = NULL;
        size_t word = 0;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            const char *at = strstr(c->seen + c->scanned, words[i]);
            if (at && (!first || at < first)) {
                first = at;
                word = i;
            }
        }
        if (!first)
            return true;
        c->scanned = (size_t)(first - c->seen) + 8;
        const char *reply = fake_reply(fake, word);
        if (reply && !fake_say(fd, reply))
            return false;
        while (word == 0 && fake->flood)
            if (!fake_say(fd, fake->flood))
                return false;
    }
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

static inline void fake_set_fd(fake_redis *fake, size_t i, int fd)
{
    pthread_mutex_lock(&fake->lock);
    if (fd < 0)
        close(fake->fds[i]);
    fake->fds[i] = fd;
    pthread_mutex_unlock(&fake->lock);
}

static inline void fake_accept(fake_redis *fake, fake_connection *connections, int fd)
{
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
        if (fake->fds[i] < 0) {
            connections[i].length = connections[i].scanned = 0;
            fake_set_fd(fake, i, fd);
            return;
        }
    close(fd);
}

static inline void *fake_run(void *arg)
{
    fake_redis *fake = arg;
    fake_connection *connections = calloc(FAKE_CONNECTIONS, sizeof *connections);
    if (!connections)
        abort();
    for (;;) {
        struct pollfd polled[FAKE_CONNECTIONS + 1];
        for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
            polled[i] = (struct pollfd){.fd = fake->fds[i], .events = POLLIN};
        polled[FAKE_CONNECTIONS] = (struct pollfd){.fd = fake->fd, .events = POLLIN};
        poll(polled, FAKE_CONNECTIONS + 1, -1);
        for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
            if (polled[i].fd >= 0 && polled[i].revents && !fake_serve(fake, polled[i].fd, &connections[i]))
                fake_set_fd(fake, i, -1);
        if (!polled[FAKE_CONNECTIONS].revents)
            continue;
        const int fd = accept(fake->fd, NULL, NULL);
        if (fd < 0)
            break;
        fake_accept(fake, connections, fd);
    }
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
        if (fake->fds[i] >= 0)
            fake_set_fd(fake, i, -1);
    free(connections);
    return NULL;
}

/* End all connections. New ones are taken. */
static inline void fake_hang_up(fake_redis *fake)
{
    pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
        if (fake->fds[i] >= 0)
            shutdown(fake->fds[i], SHUT_RDWR);
    pthread_mutex_unlock(&fake->lock);
}

static inline void fake_start(fake_redis *fake)
{
    pthread_mutex_init(&fake->lock, NULL);
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
        fake->fds[i] = -1;
    fake->fd = fake_listen(&fake->port);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

static inline void fake_stop(fake_redis *fake)
{
    fake_stop_listening(fake->fd, fake->thread);
}

#endif
