/* See fake_postgresql.h. */
#include "lib/fake_postgresql.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/cm.h"

enum { MESSAGE_MAX = 16384 };

/* --- messages ------------------------------------------------------------------------------------------- */

bool fake_pg_gone(fake_postgresql *fake, int client, int ms)
{
    for (int i = 0; i <= ms && !atomic_load(&fake->stops); i += 20) {
        struct pollfd gone = {.fd = client, .events = POLLRDHUP};
        if (poll(&gone, 1, ms < 20 ? ms : 20) > 0)
            return true;
    }
    return atomic_load(&fake->stops);
}

bool fake_pg_send(fake_postgresql *fake, int client, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        struct pollfd room = {.fd = client, .events = POLLOUT};
        if (atomic_load(&fake->stops))
            return false;
        if (poll(&room, 1, 20) == 0)
            continue;
        const ssize_t sent = send(client, (const char *)bytes + at, size - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            return false;
        at += (size_t)sent;
        atomic_fetch_add(&fake->sent, (size_t)sent);
    }
    return true;
}

bool fake_pg_say(fake_postgresql *fake, int client, const pg_speech *speech)
{
    return fake_pg_send(fake, client, speech->bytes, speech->length);
}

/* --- a conversation -------------------------------------------------------------------------------------- */

typedef struct visit {
    fake_postgresql *fake;
    int client;
} visit;

/* Read exactly `size` bytes; false: the client has gone. */
static bool hear(fake_postgresql *fake, int client, char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        struct pollfd some = {.fd = client, .events = POLLIN};
        if (atomic_load(&fake->stops))
            return false;
        if (poll(&some, 1, 20) == 0)
            continue;
        const ssize_t got = recv(client, bytes + at, size - at, 0);
        if (got <= 0)
            return false;
        fake_hear(&fake->ear, bytes + at, (size_t)got);
        at += (size_t)got;
    }
    return true;
}

/* Read one message, without its type and length, as text. Returns its length; -1: the client has gone. */
static ssize_t hear_message(fake_postgresql *fake, int client, char *ret_type, char *text)
{
    uint32_t length;
    if ((ret_type && !hear(fake, client, ret_type, 1)) || !hear(fake, client, (char *)&length, 4))
        return -1;
    length = ntohl(length) - 4;
    if (length >= MESSAGE_MAX || !hear(fake, client, text, length))
        return -1;
    text[length] = '\0';
    return (ssize_t)length;
}

static fake_pg_statement kind_of(const char *text, size_t size)
{
    if (memmem(text, size, "to_regclass", strlen("to_regclass")))
        return FAKE_PG_LOOK;
    return memmem(text, size, "skip locked", strlen("skip locked")) ? FAKE_PG_LOCK : FAKE_PG_OTHER;
}

/* Converse until the client hangs up. */
static void converse(fake_postgresql *fake, int client)
{
    char type, text[MESSAGE_MAX];
    ssize_t size;
    while ((size = hear_message(fake, client, &type, text)) >= 0)
        if (type == 'Q' && !fake->answer(fake, client, kind_of(text, (size_t)size), text))
            return;
}

static void *serve(void *arg)
{
    const visit v = *(visit *)arg;
    const int yes = 1;
    char text[MESSAGE_MAX];
    free(arg);
    setsockopt(v.client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    pg_speech welcome = {.length = 0};
    pg_say_welcome(&welcome, 0);
    if (hear_message(v.fake, v.client, NULL, text) >= 0 &&
        (v.fake->greet ? v.fake->greet(v.fake, v.client) : fake_pg_say(v.fake, v.client, &welcome)))
        converse(v.fake, v.client);
    close(v.client);
    atomic_fetch_sub(&v.fake->open, 1);
    return NULL;
}

static void *run(void *arg)
{
    fake_postgresql *fake = arg;
    int client;
    while (!atomic_load(&fake->stops) && (client = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        pthread_t thread;
        visit *v = malloc(sizeof *v);
        assert_non_null(v);
        *v = (visit){fake, client};
        atomic_fetch_add(&fake->connections, 1);
        atomic_fetch_add(&fake->open, 1);
        assert_int_equal(pthread_create(&thread, NULL, serve, v), 0);
        pthread_detach(thread);
    }
    return NULL;
}

/* --- for tests --------------------------------------------------------------------------------------------- */

void fake_postgresql_start(fake_postgresql *fake)
{
    pthread_mutex_init(&fake->ear.lock, NULL);
    fake->listener = fake_listen(&fake->port);
    assert_int_equal(pthread_create(&fake->thread, NULL, run, fake), 0);
}

void fake_postgresql_stop(fake_postgresql *fake)
{
    atomic_store(&fake->stops, true);
    fake_stop_listening(fake->listener, fake->thread);
    while (atomic_load(&fake->open) > 0)
        usleep(1000);
}
