/* How much of a lease a command may use, and how much to set aside for stopping it. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "child/child.h"
#include "clock.h"
#include "health.h"

#define LEAD_MIN_MS 2
#define LEAD_MAX_MS 250
#define LOOK_MS 10

static bool is_session_known(simba_client *client)
{
    simba_settings settings = SIMBA_SETTINGS_INIT;
    return simba_client_settings(client, &settings) < 0 || settings.session_ms == 0 || settings.session_granted;
}

static void ignore_change(simba_observer *observer, const simba_state *state, void *user)
{
    (void)observer, (void)state, (void)user;
}

void child_times_await(simba_client *client, const char *mutex, const cli_signals *signals, int64_t limit_ms,
                       simba_observer **ret_asking)
{
    simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    simba_observer *asking = NULL;
    struct pollfd fds[] = {{.fd = signals->fd, .events = POLLIN}, {.fd = simba_client_fd(client), .events = POLLIN}};
    options.on_changed = ignore_change;
    *ret_asking = NULL;
    if (is_session_known(client) || simba_observer_new(client, mutex, &options, NULL, &asking) < 0)
        return; /* the code that contends reports the mistake */
    simba_observer_start(asking);
    const int64_t start_ns = clock_boot_ns();
    while (!is_session_known(client)) {
        const int64_t waited_ms = (clock_boot_ns() - start_ns) / 1000000;
        const int ready = limit_ms >= 0 && waited_ms >= limit_ms ? -1 : poll(fds, 2, LOOK_MS);
        if (ready < 0 || fds[0].revents != 0) {
            *ret_asking = asking;
            return;
        }
        if (fds[1].revents != 0)
            simba_client_dispatch(client);
        health_run(); /* LOOK_MS is often enough */
        if (waited_ms >= WAITING_FIRST_MS)
            cli_show_warnings(true);
    }
    simba_observer_free(asking);
}

int child_times_choose(const char *command, simba_client *client, int64_t grace_ms, child_times *ret_times)
{
    simba_settings settings = SIMBA_SETTINGS_INIT;
    char lease[128];
    const int code = simba_client_settings(client, &settings);
    if (code < 0)
        return cli_failure(command, &(simba_error){code, ""});
    const int64_t lease_ms =
        settings.session_ms > 0 ? settings.session_ms : settings.timing.ttl_ms + settings.timing.transition_ms;
    const int64_t lead_ms = max64(LEAD_MIN_MS, min64(lease_ms / 20, LEAD_MAX_MS));
    const int64_t longest_ms = settings.longest_margin_ms - lead_ms;
    if (settings.session_ms > 0)
        snprintf(lease, sizeof lease, "a session of %" PRId64 " ms", settings.session_ms);
    else
        snprintf(lease, sizeof lease, "a ttl of %" PRId64 " ms and a transition of %" PRId64 " ms",
                 settings.timing.ttl_ms, settings.timing.transition_ms);
    if (longest_ms < 0)
        return cli_usage_error(command, "there is no time to stop a command in within %s; make the lease longer",
                               lease);
    if (grace_ms > longest_ms)
        return cli_usage_error(command, "a --grace of %" PRId64 " ms does not fit: with %s at most %" PRId64 " ms do",
                               grace_ms, lease, longest_ms);
    *ret_times = (child_times){
        .grace_ms = grace_ms < 0 ? longest_ms / 2 : grace_ms,
        .lead_ms = lead_ms,
        .lease_ms = lease_ms,
    };
    return CLI_GO;
}

int64_t child_margin_ms(const child_times *times)
{
    return times->grace_ms + times->lead_ms;
}
