/* Sockets in the simulated network. While the code of a simulated process runs, the functions of the C library that make
 * sockets and use them and tell the time are these: the process lives in virtual time and connects to model servers over
 * wires. Everybody else gets the system's.
 *
 * The network is 10.0.0.0/24, and server N has the address 10.0.0.N+1. Descriptors begin where real ones end. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/world.h"

/* The name that the linker knows it by. */
#define IN_PLACE_OF(name) __asm__(#name)

int fake_socket(int domain, int type, int protocol) IN_PLACE_OF(socket);
int fake_connect(int fd, const struct sockaddr *address, socklen_t length) IN_PLACE_OF(connect);
int fake_close(int fd) IN_PLACE_OF(close);
ssize_t fake_send(int fd, const void *data, size_t size, int flags) IN_PLACE_OF(send);
ssize_t fake_recv(int fd, void *data, size_t size, int flags) IN_PLACE_OF(recv);
int fake_getsockopt(int fd, int level, int option, void *value, socklen_t *length) IN_PLACE_OF(getsockopt);
int fake_setsockopt(int fd, int level, int option, const void *value, socklen_t length) IN_PLACE_OF(setsockopt);
int fake_getpeername(int fd, struct sockaddr *address, socklen_t *length) IN_PLACE_OF(getpeername);
int fake_clock_gettime(clockid_t clock, struct timespec *at) IN_PLACE_OF(clock_gettime);

enum { FIRST_FD = 1 << 20, FDS = 256 };

typedef struct sim_bytes {
    char *data;
    size_t length, capacity;
} sim_bytes;

typedef enum socket_state { SOCKET_NEW, SOCKET_CONNECTING, SOCKET_UP, SOCKET_OVER } socket_state;

typedef struct sim_socket {
    sim *s;
    unsigned process;
    unsigned wire; /* 0: none, or not any more */
    socket_state state;
    int error; /* of the attempt to connect */
    bool full; /* takes no more for a moment */
    simba_io *io;
    sim_bytes in; /* arrived, not read */
} sim_socket;

struct sim_sockets {
    sim_socket *fd[FDS];
};

sim_sockets *sockets_new(void)
{
    sim_sockets *sockets = calloc(1, sizeof *sockets);
    if (!sockets)
        abort();
    return sockets;
}

void sockets_free(sim_sockets *sockets)
{
    free(sockets);
}

static void append(sim_bytes *bytes, const char *data, size_t length)
{
    if (bytes->capacity - bytes->length < length) {
        bytes->capacity = 2 * bytes->capacity + length;
        if (!(bytes->data = realloc(bytes->data, bytes->capacity)))
            abort();
    }
    memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
}

/* --- descriptors ------------------------------------------------------------------------------------- */

/* NULL: it is none of ours. */
static sim_socket *socket_at(const sim *s, int fd)
{
    if (!s || fd < FIRST_FD || fd >= FIRST_FD + FDS)
        return NULL;
    return s->sockets->fd[fd - FIRST_FD];
}

static sim_socket *find(int fd)
{
    return fd < FIRST_FD ? NULL : socket_at(client_running(NULL), fd);
}

static int add_fd(sim_socket *sock)
{
    sim_sockets *sockets = sock->s->sockets;
    int i = 0;
    while (i < FDS && sockets->fd[i])
        i++;
    if (i == FDS)
        abort();
    sockets->fd[i] = sock;
    return FIRST_FD + i;
}

static bool is_muted(const sim_socket *sock)
{
    return client_is_muted(sock->s, sock->process);
}

static void hang_up(sim_socket *sock)
{
    if (sock->wire && !is_muted(sock))
        wire_close(sock->s, sock->wire);
    sock->wire = 0;
    sock->state = SOCKET_OVER;
}

static void remove_fd(sim_socket *sock, int fd)
{
    sock->s->sockets->fd[fd - FIRST_FD] = NULL;
    hang_up(sock);
    free(sock->in.data);
    free(sock);
}

/* A process that was killed has closed everything; whatever is left was forgotten by the store's code. */
void sockets_check_closed(const sim *s, unsigned process)
{
    for (int i = 0; i < FDS; i++)
        if (s->sockets->fd[i] && s->sockets->fd[i]->process == process) {
            fprintf(stderr, "simba-sim: a store has left a socket open\n");
            abort();
        }
}

/* --- readiness --------------------------------------------------------------------------------------- */

static unsigned events_of(const sim_socket *sock)
{
    const bool over = sock->state == SOCKET_OVER;
    const bool readable = sock->in.length > 0 || over;
    const bool writable = (sock->state == SOCKET_UP && !sock->full) || over;
    return (readable ? SIMBA_READABLE : 0) | (writable ? SIMBA_WRITABLE : 0);
}

static void report(const sim_socket *sock)
{
    const unsigned events = sock->io ? events_of(sock) & sock->io->interest : 0;
    if (events)
        sock->io->ready(sock->io, events);
}

static void report_soon(const sim_socket *sock, int fd, int64_t after_ns)
{
    sim_plan_event(sock->s, EV_READY, sock->process, sock->s->now + after_ns, sock->s->process[sock->process].boot,
                   (uint32_t)fd);
}

void sockets_ready(sim *s, const sim_event *event)
{
    sim_socket *sock = socket_at(s, (int)event->arg);
    if (!sock || sock->process != event->who || event->version != s->process[event->who].boot)
        return;
    sock->full = false;
    report(sock);
}

int sockets_attach(simba_io *io, unsigned interest)
{
    sim_socket *sock = find(io->fd);
    if (!sock)
        return SIMBA_ESYSTEM;
    io->interest = interest;
    sock->io = io;
    if (events_of(sock) & interest)
        report_soon(sock, io->fd, 0);
    return 0;
}

void sockets_detach(simba_io *io)
{
    sim_socket *sock = find(io->fd);
    if (sock && sock->io == io)
        sock->io = NULL;
}

/* --- what the wire tells ------------------------------------------------------------------------------ */

static void on_connected(void *user, bool refused)
{
    sim_socket *sock = user;
    sock->state = refused ? SOCKET_OVER : SOCKET_UP;
    sock->error = refused ? ECONNREFUSED : 0;
    if (refused)
        sock->wire = 0;
    report(sock);
}

static void on_bytes(void *user, const char *data, size_t length)
{
    sim_socket *sock = user;
    append(&sock->in, data, length);
    report(sock);
}

/* The kernel knows it first: what the process sends before it has been told is refused. */
static void on_lost(void *user)
{
    sim_socket *sock = user;
    sock->wire = 0;
    sock->state = SOCKET_OVER;
    if (sock->io && sim_chance(sock->s, 300))
        report_soon(sock, sock->io->fd, sim_pick(sock->s, 1000, 20 * SIM_MS));
    else
        report(sock);
}

static const sim_wire_events events = {.connected = on_connected, .bytes = on_bytes, .lost = on_lost};

/* --- what a process calls ----------------------------------------------------------------------------- */

static int fail_with(int error)
{
    errno = error;
    return -1;
}

int fake_socket(int domain, int type, int protocol)
{
    unsigned process;
    sim *s = client_running(&process);
    if (!s)
        return (int)syscall(SYS_socket, domain, type, protocol);
    sim_socket *sock = calloc(1, sizeof *sock);
    if (!sock)
        abort();
    sock->s = s;
    sock->process = process;
    return add_fd(sock);
}

int fake_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    sim_socket *sock = find(fd);
    if (!sock)
        return (int)syscall(SYS_connect, fd, address, length);
    const uint32_t ip = ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
    const unsigned server = (ip & 0xff) - 1;
    if (address->sa_family != AF_INET || ip >> 8 != 0x0a0000 || server >= SIM_HOSTS)
        return fail_with(ENETUNREACH);
    sock->state = SOCKET_CONNECTING;
    if (!is_muted(sock))
        sock->wire = wire_connect(sock->s, sock->process, server, &events, sock);
    return fail_with(EINPROGRESS);
}

int fake_close(int fd)
{
    sim_socket *sock = find(fd);
    if (!sock)
        return (int)syscall(SYS_close, fd);
    remove_fd(sock, fd);
    return 0;
}

/* In bad weather a buffer may be full, and takes only a part. */
static size_t taken(sim_socket *sock, int fd, size_t size)
{
    const sim_process *process = &sock->s->process[sock->process];
    if (size < 2 || sock->s->now >= process->delay_until || !sim_chance(sock->s, 100))
        return size;
    sock->full = true;
    report_soon(sock, fd, sim_pick(sock->s, SIM_MS, 20 * SIM_MS));
    return (size_t)sim_pick(sock->s, 1, (int64_t)size - 1);
}

ssize_t fake_send(int fd, const void *data, size_t size, int flags)
{
    sim_socket *sock = find(fd);
    if (!sock)
        return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
    if (is_muted(sock))
        return (ssize_t)size;
    if (sock->state != SOCKET_UP)
        return fail_with(sock->state == SOCKET_OVER ? EPIPE : EAGAIN);
    if (sock->full)
        return fail_with(EAGAIN);
    const size_t length = taken(sock, fd, size);
    wire_send(sock->s, sock->wire, data, length);
    return (ssize_t)length;
}

ssize_t fake_recv(int fd, void *data, size_t size, int flags)
{
    sim_socket *sock = find(fd);
    if (!sock)
        return syscall(SYS_recvfrom, fd, data, size, flags, NULL, NULL);
    sim_bytes *in = &sock->in;
    if (in->length == 0)
        return sock->state == SOCKET_OVER ? 0 : fail_with(EAGAIN);
    const size_t length = size < in->length ? size : in->length;
    memcpy(data, in->data, length);
    if (flags & MSG_PEEK)
        return (ssize_t)length;
    memmove(in->data, in->data + length, in->length - length);
    in->length -= length;
    return (ssize_t)length;
}

int fake_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    sim_socket *sock = find(fd);
    if (!sock)
        return (int)syscall(SYS_getsockopt, fd, level, option, value, length);
    const int answer = level == SOL_SOCKET && option == SO_ERROR ? sock->error : 0;
    memcpy(value, &answer, sizeof answer);
    return 0;
}

int fake_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    return find(fd) ? 0 : (int)syscall(SYS_setsockopt, fd, level, option, value, length);
}

int fake_getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    const sim_socket *sock = find(fd);
    if (!sock)
        return (int)syscall(SYS_getpeername, fd, address, length);
    return sock->state == SOCKET_UP ? 0 : fail_with(ENOTCONN);
}

/* --- time -------------------------------------------------------------------------------------------- */

int fake_clock_gettime(clockid_t clock, struct timespec *at)
{
    unsigned process;
    const sim *s = client_running(&process);
    if (!s)
        return (int)syscall(SYS_clock_gettime, clock, at);
    const int64_t now = process_now(s, &s->process[process]).ns;
    *at = (struct timespec){.tv_sec = now / SIM_S, .tv_nsec = now % SIM_S};
    return 0;
}
