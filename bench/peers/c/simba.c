/* simba's blocking locker; the address is a URL. A lease is half ttl, half transition; on ZooKeeper it is the session, whose
 * length the URL has. */
#include <simba.h>
#include <string.h>

#include "protocol.h"

static void check(int code, const char *what, const simba_error *error)
{
    if (code < 0)
        peer_fail(what, error && error->text[0] ? error->text : simba_error_text(code));
}

static bool leases_are_sessions;

static void *open_client(const char *address)
{
    simba_client *client = NULL;
    simba_error error;
    leases_are_sessions = strncmp(address, "zookeeper:", 10) == 0 || strncmp(address, "etcd:", 5) == 0;
    check(simba_client_open(address, NULL, &error, &client), "open", &error);
    return client;
}

static void close_client(void *client)
{
    simba_client_close(client);
}

static void *lock_new(void *client, const char *name, int64_t lease_ms)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    simba_error error;
    if (!leases_are_sessions) {
        options.timing.ttl_ms = lease_ms / 2;
        options.timing.transition_ms = lease_ms / 2;
    }
    check(simba_locker_new(client, name, &options, &error, &locker), "locker", &error);
    return locker;
}

static void lock_free(void *lock)
{
    simba_locker_free(lock);
}

static void acquire(void *lock)
{
    simba_error error;
    check(simba_locker_acquire(lock, -1, &error), "acquire", &error);
}

static void release(void *lock)
{
    simba_error error;
    check(simba_locker_release(lock, &error), "release", &error);
}

int main(int argc, char **argv)
{
    static const peer simba = {open_client, close_client, lock_new, lock_free, acquire, release};
    peer_serve(&simba, argc, argv);
}
