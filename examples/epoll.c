/* Leader election in a program that has a loop of its own. The loop drives the client: it waits for simba_client_fd() beside
 * everything else, and simba_client_dispatch() does what is due, renewals and callbacks alike. The library starts no thread. */
#include <inttypes.h>
#include <simba.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { TICKS = 5 };

static void on_acquired(simba_contender *self, const simba_state *state, void *user)
{
    (void)user;
    printf("%s leads, fencing token %" PRIu64 "\n", simba_contender_id(self), state->after.token);
}

/* If the loop stood still for longer than a lease lasts, this is the first that the program hears of it: somebody else may
 * lead by now. simba_contender_held_for_ms() has said 0 since the lease ended. */
static void on_released(simba_contender *self, const simba_state *state, simba_reason reason, void *user)
{
    (void)state;
    (void)user;
    printf("%s leads no longer: %s\n", simba_contender_id(self), simba_reason_name(reason));
}

/* What the program is there for. It must not take long: nothing is renewed meanwhile. */
static void work(const simba_contender *contender)
{
    if (simba_contender_held_for_ms(contender) > 0)
        printf("a little work, as the leader\n");
}

static bool add(int loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0;
}

static int run(simba_client *client, const simba_contender *contender)
{
    const struct itimerspec tenths = {{0, 100000000}, {0, 100000000}};
    const int loop = epoll_create1(EPOLL_CLOEXEC);
    const int ticks = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    const int simba = simba_client_fd(client);
    bool good = loop >= 0 && ticks >= 0 && timerfd_settime(ticks, 0, &tenths, NULL) == 0 && add(loop, ticks) &&
                add(loop, simba);
    for (int left = TICKS; good && left > 0;) {
        struct epoll_event event;
        uint64_t count;
        if (epoll_wait(loop, &event, 1, -1) < 1)
            continue;
        if (event.data.fd == simba) {
            good = simba_client_dispatch(client) >= 0;
        } else if (read(ticks, &count, sizeof count) > 0) {
            work(contender);
            left--;
        }
    }
    close(ticks);
    close(loop);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_contender_options contending = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_contender *contender = NULL;
    simba_error error;

    options.dispatch = SIMBA_DISPATCH_FD;
    contending.on_acquired = on_acquired;
    contending.on_released = on_released;
    if (simba_client_open(argc > 1 ? argv[1] : "memory://example", &options, &error, &client) < 0 ||
        simba_contender_new(client, "orders", &contending, &error, &contender) < 0) {
        fprintf(stderr, "cannot contend: %s\n", error.text);
        simba_client_close(client);
        return 1;
    }
    simba_contender_start(contender);
    const int failed = run(client, contender);
    simba_contender_stop(contender); /* needs no loop: it drives the client itself, and tells on_released */
    simba_contender_free(contender);
    simba_client_close(client);
    return failed;
}
