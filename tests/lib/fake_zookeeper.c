/* See fake_zookeeper.h. It serves one client at a time; one thread answers the requests in order. */
#include "lib/fake_zookeeper.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAME_MAX = 4096, PATH_MAX_HERE = 512 };

#define OTHER "_c_0-latch-0000000000" /* a contender that is before all others */

static const zk_speech_stat stat_of_all = {.czxid = 7, .ctime_ms = 1000, .mtime_ms = 1000, .owner = 1};

static void put_string(zk_speech *to, const char *string)
{
    zk_put_text(to, string, strlen(string));
}

static bool say(const fake_zookeeper *fake, const zk_speech *speech)
{
    return send(fake->client, speech->bytes, speech->length, MSG_NOSIGNAL) == (ssize_t)speech->length;
}

/* --- answers --------------------------------------------------------------------------------------------- */

static bool say_odd(const fake_zookeeper *fake, int32_t xid)
{
    const fake_odd *odd = &fake->odd;
    zk_speech speech = {.length = 0};
    if (odd->manner == FAKE_RAW)
        return send(fake->client, odd->body, odd->size, MSG_NOSIGNAL) == (ssize_t)odd->size;
    const bool is_event = odd->manner == FAKE_EVENT;
    zk_begin_reply(&speech,
                   is_event                      ? FAKE_EVENT_XID
                   : odd->manner == FAKE_UNASKED ? 12345
                                                 : xid,
                   is_event ? -1 : 9, 0);
    zk_put(&speech, odd->body, odd->size);
    zk_end(&speech);
    if (odd->length) { /* it claims to be so long */
        const size_t length = speech.length;
        speech.length = 0;
        zk_put_number(&speech, (uint32_t)odd->length, 4);
        speech.length = length;
    }
    return say(fake, &speech);
}

static void body_of(fake_zookeeper *fake, int request, const char *path, zk_speech *to)
{
    char child[PATH_MAX_HERE + 16];
    switch (request) {
    case FAKE_CREATE:
    case FAKE_SYNC:
        put_string(to, path);
        break;
    case FAKE_CREATE_CONTAINER:
        put_string(to, path);
        zk_put_stat(to, &stat_of_all);
        break;
    case FAKE_CREATE2:
        snprintf(child, sizeof child, "%s%010u", path, ++fake->made);
        put_string(to, child);
        zk_put_stat(to, &stat_of_all);
        break;
    case FAKE_EXISTS:
        zk_put_stat(to, &stat_of_all);
        break;
    case FAKE_GET:
        put_string(to, "somebody");
        zk_put_stat(to, &stat_of_all);
        break;
    case FAKE_CHILDREN:
        zk_put_number(to, fake->odd.request != FAKE_MULTI, 4);
        if (fake->odd.request != FAKE_MULTI)
            put_string(to, strcmp(path, "/simba") == 0 ? "m" : OTHER);
        break;
    default:
        break;
    }
}

static bool answer(fake_zookeeper *fake, int32_t xid, int request, const char *path)
{
    const fake_odd *odd = &fake->odd;
    fake->mute |= request == odd->request && odd->manner == FAKE_MUTE;
    if (fake->mute && request != FAKE_PING)
        return true;
    if (request == odd->request && odd->manner != FAKE_SILENCE) {
        do {
            if (!say_odd(fake, xid))
                return false;
        } while (odd->endless);
    }
    if (request == odd->request && odd->manner != FAKE_EVENT && odd->manner != FAKE_UNASKED)
        return true;
    zk_speech reply = {.length = 0};
    zk_begin_reply(&reply, xid, 9, request == FAKE_SET ? FAKE_BAD_VERSION : 0);
    body_of(fake, request, path, &reply);
    zk_end(&reply);
    return say(fake, &reply);
}

static int32_t granted_ms(const fake_odd *odd)
{
    return odd->timeout_ms == FAKE_NO_TIMEOUT ? 0 : odd->timeout_ms ? odd->timeout_ms : 10000;
}

static bool shake_hands(fake_zookeeper *fake)
{
    zk_speech reply = {.length = 0};
    zk_begin(&reply);
    zk_put_number(&reply, 0, 4);
    zk_put_number(&reply, (uint32_t)granted_ms(&fake->odd), 4);
    zk_put_number(&reply, 4711, 8);
    put_string(&reply, "0123456789abcdef");
    zk_put_number(&reply, fake->odd.read_only, 1);
    zk_end(&reply);
    if (!say(fake, &reply))
        return false;
    return fake->odd.request != FAKE_HANDSHAKE || fake->odd.manner == FAKE_REPLY || answer(fake, 0, FAKE_HANDSHAKE, "");
}

/* --- the server ------------------------------------------------------------------------------------------- */

static bool read_all(int fd, void *to, size_t size)
{
    return size == 0 || recv(fd, to, size, MSG_WAITALL) == (ssize_t)size;
}

static bool read_frame(int fd, char *to, size_t *ret_size)
{
    uint32_t size;
    if (!read_all(fd, &size, sizeof size) || ntohl(size) > FRAME_MAX)
        return false;
    *ret_size = ntohl(size);
    return read_all(fd, to, *ret_size);
}

static int32_t int_at(const char *frame, size_t offset)
{
    uint32_t big;
    memcpy(&big, frame + offset, sizeof big);
    return (int32_t)ntohl(big);
}

static bool serve_one(fake_zookeeper *fake)
{
    char frame[FRAME_MAX];
    char path[PATH_MAX_HERE] = "";
    size_t size;
    if (!read_frame(fake->client, frame, &size) || size < 8)
        return false;
    const int32_t xid = int_at(frame, 0);
    const int request = int_at(frame, 4);
    if (size >= 12 && request != FAKE_SET_WATCHES) {
        const int32_t length = int_at(frame, 8);
        if (length > 0 && length < PATH_MAX_HERE && 12 + (size_t)length <= size)
            memcpy(path, frame + 12, (size_t)length);
    }
    return answer(fake, xid, request, path);
}

static void *serve(void *arg)
{
    fake_zookeeper *fake = arg;
    char frame[FRAME_MAX];
    size_t size;
    for (;;) {
        fake->client = accept(fake->listener, NULL, NULL);
        if (fake->client < 0)
            return NULL;
        fake->mute = false;
        bool on = read_frame(fake->client, frame, &size);
        if (on && size >= 12) {
            uint64_t seen;
            memcpy(&seen, frame + 4, sizeof seen);
            fake->seen = (int64_t)be64toh(seen);
        }
        on = on && shake_hands(fake);
        while (on)
            on = serve_one(fake);
        close(fake->client);
    }
}

void fake_zookeeper_start(fake_zookeeper *fake, fake_odd odd)
{
    memset(fake, 0, sizeof *fake);
    fake->odd = odd;
    fake->listener = fake_listen(&fake->port);
    if (pthread_create(&fake->thread, NULL, serve, fake) != 0)
        abort();
}

/* The client is gone by now, or this cuts its connection. */
void fake_zookeeper_stop(fake_zookeeper *fake)
{
    fake_stop_listening(fake->listener, fake->thread);
}
