/* A service with a loop of its own: epoll waits for SIGTERM, for the service's own work, and for simba. The loop drives the client:
 * simba_client_dispatch() does what is due, renewals and callbacks alike, and the library starts no thread. On SIGTERM the service
 * tidies up, gives the mutex back, and ends with status 0.   usage: service [URL] */
#include <inttypes.h>
#include <signal.h>
#include <simba.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

typedef struct service {
    simba_client *client;
    simba_contender *contender;
    int loop, signals, ticks;
} service;

static void on_acquired(simba_contender *self, const simba_state *state, void *user)
{
    (void)user;
    printf("%s leads, fencing token %" PRIu64 "\n", simba_contender_id(self), state->after.token);
}

/* If the loop stood still for longer than a lease lasts, the service first hears of it here: another may lead by
 * now. simba_contender_held_for_ms() has said 0 since the lease ended. */
static void on_released(simba_contender *self, const simba_state *state, simba_reason reason, void *user)
{
    (void)state;
    (void)user;
    printf("%s leads no longer: %s\n", simba_contender_id(self), simba_reason_name(reason));
}

/* The work of the service. It must not take long: nothing is renewed meanwhile. */
static void work(const service *self)
{
    uint64_t count;
    if (read(self->ticks, &count, sizeof count) > 0 && simba_contender_held_for_ms(self->contender) > 0)
        printf("a little work, as the leader\n");
    fflush(stdout);
}

static bool add(int loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return fd >= 0 && epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool prepare(service *self)
{
    const struct itimerspec tenths = {{0, 100000000}, {0, 100000000}};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* the loop reads them from a descriptor instead */
    self->loop = epoll_create1(EPOLL_CLOEXEC);
    self->signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    self->ticks = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return self->loop >= 0 && timerfd_settime(self->ticks, 0, &tenths, NULL) == 0 && add(self->loop, self->signals) &&
           add(self->loop, self->ticks) && add(self->loop, simba_client_fd(self->client));
}

/* Until a signal asks it to end. */
static bool serve(const service *self)
{
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(self->loop, &event, 1, -1) < 1)
            continue;
        if (event.data.fd == self->signals)
            return true;
        if (event.data.fd == self->ticks)
            work(self);
        else if (simba_client_dispatch(self->client) < 0) /* on_acquired and on_released run in here */
            return false;
    }
}

int main(int argc, char **argv)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_contender_options contending = SIMBA_CONTENDER_OPTIONS_INIT;
    service self = {.loop = -1, .signals = -1, .ticks = -1};
    simba_error error;

    options.dispatch = SIMBA_DISPATCH_FD;
    contending.on_acquired = on_acquired;
    contending.on_released = on_released;
    if (simba_client_open(argc > 1 ? argv[1] : "memory://example", &options, &error, &self.client) < 0 ||
        simba_contender_new(self.client, "orders", &contending, &error, &self.contender) < 0) {
        fprintf(stderr, "cannot contend: %s\n", error.text);
        simba_client_close(self.client);
        return 1;
    }
    bool good = prepare(&self) && simba_contender_start(self.contender) == 0 && serve(&self);
    simba_contender_stop(self.contender); /* needs no loop: it drives the client itself, and tells on_released */
    simba_contender_free(self.contender);
    simba_client_close(self.client);
    close(self.signals);
    close(self.ticks);
    close(self.loop);
    return good ? 0 : 1;
}
