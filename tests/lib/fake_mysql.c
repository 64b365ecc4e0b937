/* See fake_mysql.h. */
#include "lib/fake_mysql.h"

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/cm.h"

enum { PACKET_MAX = 1024 };

static const char scramble[21] = "abcdefghijklmnopqrst";

/* --- packets ------------------------------------------------------------------------------------------- */

static bool send_bytes(fake_mysql *fake, int client, const unsigned char *bytes, size_t size, int drip_ms)
{
    const size_t step = drip_ms > 0 ? 1 : size;
    for (size_t at = 0; at < size; at += step) {
        if (send(client, bytes + at, step, MSG_NOSIGNAL) < 0)
            return false;
        struct pollfd gone = {.fd = client, .events = POLLRDHUP};
        if (drip_ms > 0 && (atomic_load(&fake->stops) || (poll(&gone, 1, drip_ms) > 0 && gone.revents != 0)))
            return false;
    }
    return true;
}

static bool send_packet(fake_mysql *fake, int client, unsigned char number, const void *payload, size_t size,
                        int drip_ms)
{
    unsigned char packet[4 + PACKET_MAX] = {(unsigned char)size, (unsigned char)(size >> 8), 0, number};
    memcpy(packet + 4, payload, size);
    return send_bytes(fake, client, packet, size + 4, drip_ms);
}

/* Read whatever comes next, up to a packet; false: the client has gone. */
static bool hear(fake_mysql *fake, int client)
{
    unsigned char bytes[PACKET_MAX];
    while (!atomic_load(&fake->stops)) {
        struct pollfd some = {.fd = client, .events = POLLIN};
        if (poll(&some, 1, 20) == 0)
            continue;
        const ssize_t size = recv(client, bytes, sizeof bytes, 0);
        if (size > 0) {
            fake_hear(&fake->ear, bytes, (size_t)size);
            fake->last_size = (size_t)size;
        }
        return size > 0;
    }
    return false;
}

/* --- a conversation -------------------------------------------------------------------------------------- */

static bool greet(fake_mysql *fake, int client)
{
    mysql_speech hello;
    hello.length = 0;
    if (fake->hello)
        mysql_put(&hello, fake->hello, fake->hello_size);
    else
        mysql_say_hello(&hello, fake->plugin ? fake->plugin : "mysql_native_password", fake->offers_tls);
    return send_bytes(fake, client, hello.bytes, hello.length, fake->drip_ms) && !fake->hello;
}

static bool ask_for_plugin(fake_mysql *fake, int client)
{
    unsigned char out[PACKET_MAX] = {254};
    unsigned char *end = (unsigned char *)stpcpy((char *)out + 1, fake->switches) + 1;
    end = fake->question ? mempcpy(end, fake->question, strlen(fake->question) + 1) : mempcpy(end, scramble, 21);
    return send_packet(fake, client, 2, out, (size_t)(end - out), 0);
}

/* A packet that is longer than its length field can say goes on in the next one. */
static void flood(fake_mysql *fake, int client)
{
    enum { WHOLE = 0xFFFFFF };
    unsigned char *packet = calloc(1, 4 + WHOLE);
    assert_non_null(packet);
    for (unsigned char number = 1; number <= 64 && !atomic_load(&fake->stops); number++) {
        memcpy(packet, (unsigned char[]){0xFF, 0xFF, 0xFF, number}, 4);
        for (size_t at = 0, step = 65536; at < 4 + WHOLE; at += step) {
            const size_t rest = 4 + WHOLE - at;
            if (send(client, packet + at, rest < step ? rest : step, MSG_NOSIGNAL) < 0) {
                free(packet);
                return;
            }
            atomic_fetch_add(&fake->flooded, rest < step ? rest : step);
        }
    }
    free(packet);
}

/* Read `size` bytes; false: the client has gone. */
static bool hear_all(fake_mysql *fake, int client, unsigned char *bytes, size_t size)
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
        at += (size_t)got;
    }
    return true;
}

/* Answer one statement after the other. */
static void answer_all(fake_mysql *fake, int client)
{
    static const mysql_row row = {
        .owner = "you", .now_ms = 1700000000000, .until_ms = 1700000010000, .version = 7, .nonce = 9};
    static unsigned char asked[65536];
    static mysql_speech answer;
    unsigned char head[4];
    while (hear_all(fake, client, head, sizeof head)) {
        const size_t size = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16;
        answer.length = 0;
        if (size > sizeof asked || !hear_all(fake, client, asked, size))
            return;
        if (mysql_answer(&answer, asked, size, &row, fake->twist) &&
            !send_bytes(fake, client, answer.bytes, answer.length, 0))
            return;
    }
}

static void serve(fake_mysql *fake, int client)
{
    static const unsigned char ok[] = {0, 0, 0, 2, 0, 0, 0};
    if (!greet(fake, client) || !hear(fake, client))
        return;
    if (fake->twist) {
        if (send_packet(fake, client, 2, ok, sizeof ok, 0))
            answer_all(fake, client);
        return;
    }
    if (fake->floods) {
        if (send_packet(fake, client, 2, ok, sizeof ok, 0) && hear(fake, client))
            flood(fake, client);
        return;
    }
    if (fake->lets_in) {
        if (send_packet(fake, client, 2, ok, sizeof ok, 0) && hear(fake, client))
            send_packet(fake, client, 1, ok, sizeof ok, 1000);
        return;
    }
    if (!fake->switches || !ask_for_plugin(fake, client) || !hear(fake, client))
        return;
    if (fake->then && send_packet(fake, client, 4, fake->then, strlen(fake->then), 0))
        hear(fake, client);
}

static void *run(void *arg)
{
    fake_mysql *fake = arg;
    while (!atomic_load(&fake->stops)) {
        const int client = accept(fake->listener, NULL, NULL);
        if (client < 0)
            break;
        atomic_fetch_add(&fake->connections, 1);
        serve(fake, client);
        close(client);
    }
    return NULL;
}

/* --- for tests --------------------------------------------------------------------------------------------- */

void fake_mysql_start(fake_mysql *fake)
{
    pthread_mutex_init(&fake->ear.lock, NULL);
    fake->listener = fake_listen(&fake->port);
    assert_int_equal(pthread_create(&fake->thread, NULL, run, fake), 0);
}

void fake_mysql_stop(fake_mysql *fake)
{
    atomic_store(&fake->stops, true);
    fake_stop_listening(fake->listener, fake->thread);
}
