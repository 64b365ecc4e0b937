/* register PATH [unfenced]: the resource that the clients of the torture tests write to, as a resource behind a mutex should be:
 * it remembers the highest token that it has seen, in reads and writes, and refuses everything that comes with a lower one.
 * "unfenced" refuses nothing: then only the mutex is between two writers.
 *
 * It says "ready" when it listens, ends at the end of its input, and then says how often it was read, written, and refused. */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "register.h"

#define FDS_MAX 256

typedef struct cell {
    bool is_fenced;
    uint64_t value;
    uint64_t highest;
    unsigned long reads, writes, refused;
} cell;

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || chmod(path, 0777) != 0 ||
        listen(fd, 64) != 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

static register_answer answer(cell *c, const register_question *q)
{
    if (c->is_fenced && q->token < c->highest) {
        c->refused++;
        return (register_answer){.value = c->value, .is_refused = 1};
    }
    c->highest = q->token > c->highest ? q->token : c->highest;
    if (q->verb == REGISTER_WRITE) {
        c->value = q->value;
        c->writes++;
    } else {
        c->reads++;
    }
    return (register_answer){.value = c->value};
}

/* False when the client has gone. */
static bool serve(cell *c, int fd)
{
    register_question q;
    const ssize_t got = recv(fd, &q, sizeof q, 0);
    if (got != (ssize_t)sizeof q)
        return false;
    const register_answer a = answer(c, &q);
    return send(fd, &a, sizeof a, MSG_NOSIGNAL) == (ssize_t)sizeof a;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: register PATH [unfenced]\n", stderr);
        return 2;
    }
    cell c = {.is_fenced = !(argc > 2 && strcmp(argv[2], "unfenced") == 0)};
    struct pollfd fds[FDS_MAX] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = listen_at(argv[1]), .events = POLLIN}};
    nfds_t count = 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    puts("ready");
    fflush(stdout);
    while (poll(fds, count, -1) >= 0 && !fds[0].revents) {
        for (nfds_t i = 2; i < count; i++) {
            if (!fds[i].revents || serve(&c, fds[i].fd))
                continue;
            close(fds[i].fd);
            fds[i--] = fds[--count];
        }
        if (fds[1].revents && count < FDS_MAX)
            fds[count++] = (struct pollfd){.fd = accept4(fds[1].fd, NULL, NULL, SOCK_CLOEXEC), .events = POLLIN};
    }
    printf("reads %lu writes %lu refused %lu\n", c.reads, c.writes, c.refused);
    return 0;
}
