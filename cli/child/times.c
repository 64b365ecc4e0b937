/* How much of a lease a command may use, and what has to be set aside for stopping it. */
#include <inttypes.h>
#include <stdio.h>

#include "child/child.h"

#define LEAD_MIN_MS 2
#define LEAD_MAX_MS 250

static int64_t lead_for(int64_t lease_ms)
{
    const int64_t lead_ms = lease_ms / 20;
    return lead_ms < LEAD_MIN_MS ? LEAD_MIN_MS : lead_ms > LEAD_MAX_MS ? LEAD_MAX_MS : lead_ms;
}

/* "a ttl of 1000 ms and a transition of 1000 ms" */
static void describe_lease(const simba_settings *settings, char *text, size_t size)
{
    if (settings->session_ms > 0)
        snprintf(text, size, "a session of %" PRId64 " ms", settings->session_ms);
    else
        snprintf(text, size, "a ttl of %" PRId64 " ms and a transition of %" PRId64 " ms", settings->timing.ttl_ms,
                 settings->timing.transition_ms);
}

int child_times_choose(const char *command, simba_client *client, int64_t grace_ms, child_times *ret_times)
{
    simba_settings settings;
    char lease[128];
    const int code = simba_client_settings(client, &settings);
    if (code < 0)
        return cli_failure(command, &(simba_error){code, ""});
    const int64_t lease_ms =
        settings.session_ms > 0 ? settings.session_ms : settings.timing.ttl_ms + settings.timing.transition_ms;
    const int64_t lead_ms = lead_for(lease_ms);
    const int64_t longest_ms = settings.longest_margin_ms - lead_ms;
    describe_lease(&settings, lease, sizeof lease);
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
        /* Renewing begins when twice the longest margin is left, or a third of a session is over. */
        .worry_ms = settings.longest_margin_ms * 3 / 2,
    };
    return CLI_GO;
}

int64_t child_margin_ms(const child_times *times)
{
    return times->grace_ms + times->lead_ms;
}
