/* The network between one contender and its store: a TCP proxy that breaks it on demand. It has no thread: its owner
 * asks which descriptors it waits for, polls them with its own, and lets it work. */
#ifndef SIMBA_CLI_TORTURE_PROXY_H
#define SIMBA_CLI_TORTURE_PROXY_H

#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>

#define TORTURE_TARGETS_MAX 8
#define TORTURE_ADDRESSES_MAX 4
#define TORTURE_LINKS_MAX 32

typedef enum torture_network {
    TORTURE_PASS,
    TORTURE_CLOSED,  /* connections are closed, and new ones too */
    TORTURE_STALLED, /* connections stand, and new ones are accepted, but no byte passes */
    TORTURE_NO_ANSWERS,
    TORTURE_NO_REQUESTS,
    TORTURE_SLOW, /* each byte passes later */
} torture_network;

/* A server, as the URL names it and as it was found. */
typedef struct torture_target {
    char host[256];
    char port[8];
    struct sockaddr_storage addresses[TORTURE_ADDRESSES_MAX];
    socklen_t lengths[TORTURE_ADDRESSES_MAX];
    unsigned count;
} torture_target;

/* Look the host up. Returns 0 or a code of getaddrinfo. */
int torture_target_find(torture_target *target);

typedef struct torture_proxy torture_proxy;

/* One proxy for all targets, with a port for each. NULL with errno: the system refuses. */
torture_proxy *torture_proxy_new(const torture_target *targets, unsigned count);
void torture_proxy_free(torture_proxy *proxy);
/* The port that stands for a target. */
int torture_proxy_port(const torture_proxy *proxy, unsigned target);

/* From now on. The proxy passes on the bytes that it held back as soon as it may. */
void torture_proxy_set(torture_proxy *proxy, torture_network network, int64_t late_ns);

/* Fill in the descriptors that it waits for; returns how many, at most TORTURE_PROXY_FDS. *wake_ns becomes the time at which
 * it wants to work anyway, if that is sooner than what it is. */
#define TORTURE_PROXY_FDS (TORTURE_TARGETS_MAX + 2 * TORTURE_LINKS_MAX)
unsigned torture_proxy_wait_for(torture_proxy *proxy, struct pollfd *fds, int64_t now_ns, int64_t *wake_ns);
/* Work, with the same array as poll has left it. */
void torture_proxy_work(torture_proxy *proxy, const struct pollfd *fds, int64_t now_ns);

#endif
