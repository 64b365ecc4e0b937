/* net NODES SEED [FLOATING]: a network for the torture tests, in one process.
 *
 * Each node is a network namespace with a loopback and one TUN device, address 10.99.0.N. This program is the wire between the
 * devices: it reads every IP packet that a node sends and writes it to the node it is for, unless a rule says that the packet is
 * lost or late. So partitions in one direction, loss and delay need neither bridge, firewall nor traffic shaper, only /dev/net/tun.
 * The namespaces are those of this process and go with it.
 *
 * FLOATING is how many nodes, from the first on, share the address 10.99.0.200; packets to it go to one of them, as "float" says.
 *
 * Standard output: a line "node N PATH" per node, where PATH is for nsenter --net=PATH, then "ready". Then commands, one per
 * line, each answered by "ok" or "error":
 *   rule FROM TO LOSS DELAY JITTER   packets from FROM to TO: LOSS of 1000 are lost, the others DELAY to DELAY+JITTER ms late
 *   heal                             no rules
 *   float N                          who has the floating address
 *   count                            answers "count PACKETS LOST"
 * Ends at the end of its input. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NODES_MAX 32
#define PACKET_MAX 2048
#define LATE_MAX 8192
#define FLOATING_HOST 200

typedef struct rule {
    unsigned lost_permille;
    unsigned delay_ms;
    unsigned jitter_ms;
} rule;

/* A packet that has not arrived yet. */
typedef struct late {
    int64_t due_us;
    uint64_t number; /* of two that are due at once, the earlier one goes first */
    unsigned to;
    size_t length;
    uint8_t *bytes;
} late;

typedef struct net {
    unsigned nodes;
    int space[NODES_MAX + 1]; /* the namespace of each node, from 1 */
    int device[NODES_MAX + 1];
    rule rules[NODES_MAX + 1][NODES_MAX + 1];
    unsigned floating_at;
    late heap[LATE_MAX];
    size_t late_count;
    uint64_t packets;
    uint64_t lost;
    uint64_t seed;
} net;

static void die(const char *what)
{
    fprintf(stderr, "net: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* splitmix64 */
static uint64_t draw(net *n)
{
    uint64_t z = n->seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* --- namespaces --------------------------------------------------------------------------------- */

static void set_address(int socket_fd, const char *device, unsigned host, const char *mask)
{
    struct ifreq request = {0};
    struct sockaddr_in *address = (struct sockaddr_in *)&request.ifr_addr;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(0x0a630000 + host);
    if (ioctl(socket_fd, SIOCSIFADDR, &request) != 0)
        die("address");
    inet_pton(AF_INET, mask, &address->sin_addr);
    if (ioctl(socket_fd, SIOCSIFNETMASK, &request) != 0)
        die("netmask");
}

static void bring_up(int socket_fd, const char *device)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
    if (ioctl(socket_fd, SIOCGIFFLAGS, &request) != 0)
        die(device);
    request.ifr_flags |= IFF_UP;
    if (ioctl(socket_fd, SIOCSIFFLAGS, &request) != 0)
        die(device);
}

/* This thread is in the new node's namespace afterwards. */
static void make_node(net *n, unsigned node, bool has_floating)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    if (unshare(CLONE_NEWNET) != 0)
        die("a network namespace");
    n->space[node] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    n->device[node] = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof request.ifr_name, "node%u", node);
    if (n->space[node] < 0 || n->device[node] < 0 || ioctl(n->device[node], TUNSETIFF, &request) != 0)
        die("/dev/net/tun");
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        die("socket");
    set_address(s, request.ifr_name, node, "255.255.255.0");
    bring_up(s, request.ifr_name);
    bring_up(s, "lo");
    if (has_floating)
        set_address(s, "lo:1", FLOATING_HOST, "255.255.255.255");
    close(s);
    printf("node %u /proc/%d/fd/%d\n", node, (int)getpid(), n->space[node]);
}

/* --- packets ------------------------------------------------------------------------------------ */

static bool is_before(const late *a, const late *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->number < b->number;
}

static void swap(late *a, late *b)
{
    const late other = *a;
    *a = *b;
    *b = other;
}

static void push(net *n, late packet)
{
    size_t at = n->late_count++;
    n->heap[at] = packet;
    for (; at > 0 && is_before(&n->heap[at], &n->heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&n->heap[at], &n->heap[(at - 1) / 2]);
}

static late pop(net *n)
{
    const late first = n->heap[0];
    n->heap[0] = n->heap[--n->late_count];
    for (size_t at = 0, child; (child = 2 * at + 1) < n->late_count; at = child) {
        if (child + 1 < n->late_count && is_before(&n->heap[child + 1], &n->heap[child]))
            child++;
        if (!is_before(&n->heap[child], &n->heap[at]))
            break;
        swap(&n->heap[child], &n->heap[at]);
    }
    return first;
}

/* A device whose queue is full loses the packet, as a wire may. */
static void deliver(net *n, unsigned to, const uint8_t *bytes, size_t length)
{
    if (write(n->device[to], bytes, length) != (ssize_t)length)
        n->lost++;
}

static unsigned addressee(const net *n, const uint8_t *bytes, size_t length)
{
    if (length < 20 || bytes[0] >> 4 != 4 || bytes[16] != 10 || bytes[17] != 99 || bytes[18] != 0)
        return 0; /* IPv6 neighbours, multicast and the like */
    const unsigned host = bytes[19] == FLOATING_HOST ? n->floating_at : bytes[19];
    return host <= n->nodes ? host : 0;
}

static void forward(net *n, unsigned from, const uint8_t *bytes, size_t length)
{
    const unsigned to = addressee(n, bytes, length);
    if (to == 0)
        return;
    const rule *r = &n->rules[from][to];
    n->packets++;
    if (r->lost_permille > 0 && draw(n) % 1000 < r->lost_permille) {
        n->lost++;
        return;
    }
    if (r->delay_ms + r->jitter_ms == 0) {
        deliver(n, to, bytes, length);
        return;
    }
    uint8_t *copy = n->late_count < LATE_MAX ? malloc(length) : NULL;
    if (!copy) {
        n->lost++;
        return;
    }
    memcpy(copy, bytes, length);
    const uint64_t extra_us = draw(n) % (r->jitter_ms * UINT64_C(1000) + 1);
    push(n, (late){.due_us = now_us() + r->delay_ms * INT64_C(1000) + (int64_t)extra_us,
                   .number = n->packets,
                   .to = to,
                   .length = length,
                   .bytes = copy});
}

static void take(net *n, unsigned from)
{
    uint8_t bytes[PACKET_MAX];
    for (int i = 0; i < 64; i++) {
        const ssize_t length = read(n->device[from], bytes, sizeof bytes);
        if (length <= 0)
            return;
        forward(n, from, bytes, (size_t)length);
    }
}

static void deliver_due(net *n)
{
    while (n->late_count > 0 && n->heap[0].due_us <= now_us()) {
        const late packet = pop(n);
        deliver(n, packet.to, packet.bytes, packet.length);
        free(packet.bytes);
    }
}

/* --- commands ----------------------------------------------------------------------------------- */

static void obey(net *n, const char *line)
{
    unsigned from, to;
    rule r;
    if (sscanf(line, "rule %u %u %u %u %u", &from, &to, &r.lost_permille, &r.delay_ms, &r.jitter_ms) == 5 &&
        from >= 1 && from <= n->nodes && to >= 1 && to <= n->nodes) {
        n->rules[from][to] = r;
        puts("ok");
    } else if (strcmp(line, "heal") == 0) {
        memset(n->rules, 0, sizeof n->rules);
        puts("ok");
    } else if (sscanf(line, "float %u", &to) == 1 && to <= n->nodes) {
        n->floating_at = to;
        puts("ok");
    } else if (strcmp(line, "count") == 0) {
        printf("count %llu %llu\n", (unsigned long long)n->packets, (unsigned long long)n->lost);
    } else {
        puts("error");
    }
}

/* False at the end of the input. */
static bool read_commands(net *n)
{
    static char buffer[4096];
    static size_t length;
    const ssize_t got = read(STDIN_FILENO, buffer + length, sizeof buffer - 1 - length);
    if (got <= 0)
        return false;
    length += (size_t)got;
    buffer[length] = '\0';
    char *line = buffer;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        obey(n, line);
    }
    length -= (size_t)(line - buffer);
    memmove(buffer, line, length);
    return length < sizeof buffer - 1;
}

static int wait_ms(const net *n)
{
    if (n->late_count == 0)
        return -1;
    const int64_t left_us = n->heap[0].due_us - now_us();
    return left_us <= 0 ? 0 : (int)((left_us + 999) / 1000);
}

static void run(net *n)
{
    struct pollfd fds[NODES_MAX + 1] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    for (unsigned i = 1; i <= n->nodes; i++)
        fds[i] = (struct pollfd){.fd = n->device[i], .events = POLLIN};
    for (;;) {
        if (poll(fds, n->nodes + 1, wait_ms(n)) < 0 && errno != EINTR)
            die("poll");
        deliver_due(n);
        for (unsigned i = 1; i <= n->nodes; i++)
            if (fds[i].revents)
                take(n, i);
        if (fds[0].revents && !read_commands(n))
            return;
    }
}

int main(int argc, char **argv)
{
    static net n;
    const unsigned long nodes = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
    const unsigned long floating = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    if (nodes < 1 || nodes > NODES_MAX || floating > nodes) {
        fputs("usage: net NODES SEED [FLOATING]\n", stderr);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    n.nodes = (unsigned)nodes;
    n.seed = strtoull(argv[2], NULL, 10);
    n.floating_at = floating > 0 ? 1 : 0;
    for (unsigned i = 1; i <= n.nodes; i++)
        make_node(&n, i, i <= floating);
    puts("ready");
    run(&n);
    return 0;
}
