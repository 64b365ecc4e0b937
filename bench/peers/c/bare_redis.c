/* The bare client: hiredis, SET NX PX to lock, a script that compares and deletes to unlock, and a question every
 * millisecond while somebody else has it. One blocking connection for each lock: less would not be safe. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "protocol.h"

#define UNLOCK "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

typedef struct bare_lock {
    redisContext *raw;
    char key[140];
    char mine[33];
    char lease_ms[24];
    char sha[41]; /* of UNLOCK */
} bare_lock;

typedef struct address {
    char host[64];
    int port;
} address;

static void *open_client(const char *text)
{
    address *a = peer_alloc(sizeof *a);
    if (sscanf(text, "%63[^:]:%d", a->host, &a->port) != 2)
        peer_fail(text, "is not HOST:PORT");
    return a;
}

static void *lock_new(void *client, const char *name, int64_t lease_ms)
{
    const address *a = client;
    bare_lock *lock = peer_alloc(sizeof *lock);
    unsigned char random[16];
    lock->raw = redisConnect(a->host, a->port);
    if (!lock->raw || lock->raw->err)
        peer_fail("connect", lock->raw ? lock->raw->errstr : "out of memory");
    if (getrandom(random, sizeof random, 0) != sizeof random)
        peer_fail("random", "none");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(lock->mine + 2 * i, 3, "%02x", random[i]);
    snprintf(lock->key, sizeof lock->key, "bare:%s", name);
    snprintf(lock->lease_ms, sizeof lock->lease_ms, "%lld", (long long)lease_ms);
    redisReply *reply = redisCommand(lock->raw, "SCRIPT LOAD %s", UNLOCK);
    if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != 40)
        peer_fail("SCRIPT LOAD", lock->raw->errstr);
    memcpy(lock->sha, reply->str, 40);
    freeReplyObject(reply);
    return lock;
}

static void lock_free(void *lock)
{
    redisFree(((bare_lock *)lock)->raw);
    free(lock);
}

static void acquire(void *user)
{
    bare_lock *lock = user;
    const struct timespec pause = {.tv_nsec = 1000000};
    for (;;) {
        redisReply *reply = redisCommand(lock->raw, "SET %s %s NX PX %s", lock->key, lock->mine, lock->lease_ms);
        if (!reply)
            peer_fail("SET", lock->raw->errstr);
        const int type = reply->type;
        freeReplyObject(reply);
        if (type == REDIS_REPLY_STATUS)
            return;
        nanosleep(&pause, NULL);
    }
}

static void release(void *user)
{
    bare_lock *lock = user;
    redisReply *reply = redisCommand(lock->raw, "EVALSHA %s 1 %s %s", lock->sha, lock->key, lock->mine);
    if (!reply || reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
        peer_fail("EVALSHA", reply && reply->str ? reply->str : lock->raw->errstr);
    freeReplyObject(reply);
}

int main(int argc, char **argv)
{
    static const peer bare = {open_client, free, lock_new, lock_free, acquire, release};
    peer_serve(&bare, argc, argv);
}
