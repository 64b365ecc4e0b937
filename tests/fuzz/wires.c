/* See wires.h. */
#include "fuzz/wires.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

/* The name that the linker knows it by. */
#define IN_PLACE_OF(name) __asm__(#name)

int fuzz_connect(int fd, const struct sockaddr *address, socklen_t length) IN_PLACE_OF(connect);
ssize_t fuzz_send(int fd, const void *bytes, size_t length, int flags) IN_PLACE_OF(send);
int fuzz_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret_found)
    IN_PLACE_OF(getaddrinfo);

size_t fuzz_wire_count;
void (*fuzz_wire_stirred)(size_t wire, bool is_new);
bool fuzz_wire_takes_its_time, fuzz_wire_refuses;

static struct {
    int ours, theirs; /* -1: closed */
    ino_t socket;     /* theirs, by whichever descriptor */
} wires[FUZZ_WIRES];

static ino_t socket_of(int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 ? found.st_ino : 0;
}

/* Beyond what there is room for nothing can be connected. */
static int make_pair(int fd)
{
    int pair[2];
    const int flags = fcntl(fd, F_GETFL);
    if (fuzz_wire_refuses || fuzz_wire_count == FUZZ_WIRES) {
        errno = ECONNREFUSED;
        return -1;
    }
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    FUZZ_CHECK(dup3(pair[0], fd, O_CLOEXEC) == fd && fcntl(fd, F_SETFL, flags) == 0);
    FUZZ_CHECK(fcntl(pair[1], F_SETFL, O_NONBLOCK) == 0);
    close(pair[0]);
    wires[fuzz_wire_count].theirs = fd;
    wires[fuzz_wire_count].socket = socket_of(fd);
    wires[fuzz_wire_count++].ours = pair[1];
    return 0;
}

/* Nothing of what has been received is left, and nothing more comes, by this descriptor and by others of the same socket. */
static int dissolve(int fd)
{
    char rest[4096];
    const ino_t socket = socket_of(fd);
    for (size_t i = 0; i < fuzz_wire_count; i++)
        if (wires[i].socket == socket)
            fuzz_wire_close(i);
    while (recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0) {
    }
    shutdown(fd, SHUT_RDWR);
    return 0;
}

int fuzz_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    (void)length;
    if (address->sa_family == AF_UNSPEC)
        return dissolve(fd);
    if (make_pair(fd) < 0)
        return -1;
    if (fuzz_wire_stirred)
        fuzz_wire_stirred(fuzz_wire_count - 1, true);
    if (!fuzz_wire_takes_its_time)
        return 0;
    errno = EINPROGRESS;
    return -1;
}

ssize_t fuzz_send(int fd, const void *bytes, size_t length, int flags)
{
    const ssize_t sent = syscall(SYS_sendto, fd, bytes, length, flags | MSG_NOSIGNAL, NULL, 0);
    for (size_t i = fuzz_wire_count; sent > 0 && fuzz_wire_stirred && i-- > 0;)
        if (wires[i].theirs == fd) {
            fuzz_wire_stirred(i, false);
            break;
        }
    return sent;
}

/* The same, but that no name server is asked, and that nobody asks the kernel which interfaces this machine has. That takes a lock which all of its network namespaces
 * share, and a target resolves an address for every connection. */
int fuzz_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret_found)
{
    int (*const resolve)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT,
                                                                                                "getaddrinfo");
    struct addrinfo fewer = hints ? *hints : (struct addrinfo){0};
    FUZZ_CHECK(resolve);
    fewer.ai_flags = (fewer.ai_flags & ~AI_ADDRCONFIG) | AI_NUMERICHOST;
    return resolve(host, service, &fewer, ret_found);
}

static bool is_open(size_t wire)
{
    return wire < fuzz_wire_count && wires[wire].ours >= 0;
}

size_t fuzz_wire_take(size_t wire, unsigned char *ret_bytes, size_t size)
{
    const ssize_t taken = is_open(wire) ? read(wires[wire].ours, ret_bytes, size) : 0;
    return taken > 0 ? (size_t)taken : 0;
}

void fuzz_wire_send(size_t wire, const void *bytes, size_t length)
{
    if (is_open(wire))
        (void)syscall(SYS_sendto, wires[wire].ours, bytes, length, MSG_NOSIGNAL, NULL, 0);
}

void fuzz_wire_close(size_t wire)
{
    if (!is_open(wire))
        return;
    close(wires[wire].ours);
    wires[wire].ours = -1;
}

void fuzz_wires_end(void)
{
    for (size_t i = 0; i < fuzz_wire_count; i++)
        fuzz_wire_close(i);
    fuzz_wire_count = 0;
    fuzz_wire_stirred = NULL;
    fuzz_wire_takes_its_time = fuzz_wire_refuses = false;
}
