/* Sockets in the simulated network. While the code of a simulated process runs, the functions of the C library that make
 * sockets and use them, tell the time and draw random numbers are these: whatever the process links, its own code or a
 * library, lives in virtual time and connects to model servers over wires. Everybody else gets the system's.
 *
 * The network is 10.0.0.0/24, and server N has the address 10.0.0.N+1. Descriptors begin where real ones end. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "sim/world.h"
#include "util/random.h"

/* The name that the linker knows it by. */
#define IN_PLACE_OF(name) __asm__(#name)

int fake_socket(int domain, int type, int protocol) IN_PLACE_OF(socket);
int fake_connect(int fd, const struct sockaddr *address, socklen_t length) IN_PLACE_OF(connect);
int fake_close(int fd) IN_PLACE_OF(close);
int fake_shutdown(int fd, int how) IN_PLACE_OF(shutdown);
ssize_t fake_send(int fd, const void *data, size_t size, int flags) IN_PLACE_OF(send);
ssize_t fake_recv(int fd, void *data, size_t size, int flags) IN_PLACE_OF(recv);
int fake_poll(struct pollfd *fds, nfds_t count, int timeout) IN_PLACE_OF(poll);
int fake_getsockopt(int fd, int level, int option, void *value, socklen_t *length) IN_PLACE_OF(getsockopt);
int fake_setsockopt(int fd, int level, int option, const void *value, socklen_t length) IN_PLACE_OF(setsockopt);
int fake_getpeername(int fd, struct sockaddr *address, socklen_t *length) IN_PLACE_OF(getpeername);
int fake_fcntl(int fd, int command, ...) IN_PLACE_OF(fcntl);
int fake_fcntl64(int fd, int command, ...) IN_PLACE_OF(fcntl64);
int fake_open(const char *path, int flags, ...) IN_PLACE_OF(open);
int fake_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret_found)
    IN_PLACE_OF(getaddrinfo);
void fake_freeaddrinfo(struct addrinfo *found) IN_PLACE_OF(freeaddrinfo);
int fake_clock_gettime(clockid_t clock, struct timespec *at) IN_PLACE_OF(clock_gettime);
int fake_gettimeofday(struct timeval *at, void *zone) IN_PLACE_OF(gettimeofday);
long fake_random(void) IN_PLACE_OF(random);
double fake_drand48(void) IN_PLACE_OF(drand48);
void fake_srandom(unsigned seed) IN_PLACE_OF(srandom);
void fake_srand48(long seed) IN_PLACE_OF(srand48);

#define CORK_NS (200 * SIM_MS) /* the kernel keeps what is corked for no longer */

enum { FIRST_FD = 1 << 20, FDS = 256 };

typedef struct sim_bytes {
    char *data;
    size_t length, capacity;
} sim_bytes;

typedef enum socket_state { SOCKET_NEW, SOCKET_CONNECTING, SOCKET_UP, SOCKET_OVER } socket_state;

typedef struct sim_socket {
    sim *s;
    unsigned process;
    unsigned refs; /* descriptors */
    unsigned wire; /* 0: none, or not any more */
    socket_state state;
    int error; /* of the attempt to connect */
    bool full; /* takes no more for a moment */
    bool corked;
    int64_t kept_since;   /* the first of `out` */
    int64_t look_at_cork; /* when it is looked whether that is too long */
    simba_io *io;
    sim_bytes in;  /* arrived, not read */
    sim_bytes out; /* written under a cork, not sent */
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
    sock->refs++;
    return FIRST_FD + i;
}

static bool is_muted(const sim_socket *sock)
{
    return client_is_muted(sock->s, sock->process);
}

static void send_corked(sim_socket *sock)
{
    if (sock->out.length > 0 && sock->wire && !is_muted(sock))
        wire_send(sock->s, sock->wire, sock->out.data, sock->out.length);
    sock->out.length = 0;
}

static void hang_up(sim_socket *sock)
{
    send_corked(sock);
    if (sock->wire && !is_muted(sock))
        wire_close(sock->s, sock->wire);
    sock->wire = 0;
    sock->state = SOCKET_OVER;
}

static void remove_fd(sim_socket *sock, int fd)
{
    sock->s->sockets->fd[fd - FIRST_FD] = NULL;
    if (--sock->refs > 0)
        return;
    hang_up(sock);
    free(sock->in.data);
    free(sock->out.data);
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

static void look_at_cork(sim_socket *sock, int fd)
{
    const int64_t now = sock->s->now, until = sock->kept_since + CORK_NS;
    if (now >= until)
        send_corked(sock);
    if (sock->out.length == 0)
        return;
    sock->look_at_cork = until;
    report_soon(sock, fd, until - now);
}

void sockets_ready(sim *s, const sim_event *event)
{
    sim_socket *sock = socket_at(s, (int)event->arg);
    if (!sock || sock->process != event->who || event->version != s->process[event->who].boot)
        return;
    sock->full = false;
    if (s->now >= sock->look_at_cork)
        look_at_cork(sock, (int)event->arg);
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
    if (address->sa_family == AF_UNSPEC) { /* dissolves the connection, and what is under way in it */
        sock->out.length = 0;
        hang_up(sock);
        sock->in.length = 0;
        report_soon(sock, fd, 0);
        return 0;
    }
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

int fake_shutdown(int fd, int how)
{
    sim_socket *sock = find(fd);
    if (!sock)
        return (int)syscall(SYS_shutdown, fd, how);
    hang_up(sock);
    report_soon(sock, fd, 0);
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
    if (!sock->corked) {
        wire_send(sock->s, sock->wire, data, length);
        return (ssize_t)length;
    }
    if (sock->out.length == 0)
        sock->kept_since = sock->s->now;
    append(&sock->out, data, length);
    if (sock->s->now >= sock->look_at_cork)
        look_at_cork(sock, fd);
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

int fake_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    sim_socket *sock = count == 1 ? find(fds->fd) : NULL;
    if (!sock)
        return (int)syscall(SYS_poll, fds, count, timeout);
    const unsigned ready = is_muted(sock) ? SIMBA_WRITABLE : events_of(sock);
    const int all = (ready & SIMBA_READABLE ? POLLIN : 0) | (ready & SIMBA_WRITABLE ? POLLOUT : 0);
    fds->revents = (short)(fds->events & all);
    return fds->revents != 0; /* time does not pass in here */
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
    sim_socket *sock = find(fd);
    int on = 0;
    if (!sock)
        return (int)syscall(SYS_setsockopt, fd, level, option, value, length);
    if (level != IPPROTO_TCP || length != sizeof on)
        return 0;
    memcpy(&on, value, sizeof on);
    if (option == TCP_CORK)
        sock->corked = on;
    if (option == TCP_CORK ? !on : option == TCP_NODELAY && on)
        send_corked(sock);
    return 0;
}

int fake_getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    const sim_socket *sock = find(fd);
    if (!sock)
        return (int)syscall(SYS_getpeername, fd, address, length);
    return sock->state == SOCKET_UP ? 0 : fail_with(ENOTCONN);
}

static int control(int fd, int command, long argument)
{
    sim_socket *sock = find(fd);
    if (!sock)
        return (int)syscall(SYS_fcntl, fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? add_fd(sock) : 0;
}

/* It has two names. */
int fake_fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    const long argument = va_arg(args, long);
    va_end(args);
    return control(fd, command, argument);
}

int fake_fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    const long argument = va_arg(args, long);
    va_end(args);
    return control(fd, command, argument);
}

/* A client library seeds its random numbers from a file. A simulated process has no files: its chance is the run's. */
int fake_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const long mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    return client_running(NULL) ? fail_with(ENOENT) : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* --- names ------------------------------------------------------------------------------------------- */

/* There are none: every host is an address. */
int fake_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret_found)
{
    struct found {
        struct addrinfo info;
        struct sockaddr_in address;
    } *found = calloc(1, sizeof *found);
    if (!found)
        abort();
    found->address.sin_family = AF_INET;
    found->address.sin_port = htons((uint16_t)(service ? strtol(service, NULL, 10) : 0));
    if (!name || inet_pton(AF_INET, name, &found->address.sin_addr) != 1) {
        free(found);
        return EAI_NONAME;
    }
    found->info = (struct addrinfo){.ai_family = AF_INET,
                                    .ai_socktype = hints ? hints->ai_socktype : SOCK_STREAM,
                                    .ai_addrlen = sizeof found->address,
                                    .ai_addr = (struct sockaddr *)(void *)&found->address};
    *ret_found = &found->info;
    return 0;
}

void fake_freeaddrinfo(struct addrinfo *found)
{
    free(found);
}

/* --- time and chance --------------------------------------------------------------------------------- */

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

int fake_gettimeofday(struct timeval *at, void *zone)
{
    struct timespec now;
    (void)zone;
    fake_clock_gettime(CLOCK_REALTIME, &now);
    *at = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

static uint64_t draw(void)
{
    static _Thread_local uint64_t own = 1;
    sim *s = client_running(NULL);
    return simba__random_next(s ? &s->random : &own);
}

long fake_random(void)
{
    return (long)(draw() >> 33);
}

double fake_drand48(void)
{
    return (double)(draw() >> 11) / (double)(UINT64_C(1) << 53);
}

void fake_srandom(unsigned seed)
{
    (void)seed; /* a run is drawn from its own seed */
}

void fake_srand48(long seed)
{
    (void)seed;
}
