/* flock(2) on a file in a folder; the address is the folder. Every lock has a descriptor of its own. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "protocol.h"

static void *open_folder(const char *address)
{
    return strdup(address);
}

static void *lock_new(void *client, const char *name, int64_t lease_ms)
{
    char path[1024];
    (void)lease_ms; /* the lock ends with its process */
    snprintf(path, sizeof path, "%s/%s", (const char *)client, name);
    int *fd = peer_alloc(sizeof *fd);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0)
        peer_fail("open", path);
    return fd;
}

static void lock_free(void *lock)
{
    close(*(int *)lock);
    free(lock);
}

static void acquire(void *lock)
{
    if (flock(*(int *)lock, LOCK_EX) != 0)
        peer_fail("flock", "cannot lock");
}

static void release(void *lock)
{
    if (flock(*(int *)lock, LOCK_UN) != 0)
        peer_fail("flock", "cannot unlock");
}

int main(int argc, char **argv)
{
    static const peer flock_peer = {open_folder, free, lock_new, lock_free, acquire, release};
    peer_serve(&flock_peer, argc, argv);
}
