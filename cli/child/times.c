/* How much of a lease a command may use, and what has to be set aside for stopping it. */
#include <inttypes.h>
#include <stdlib.h>

#include "child/child.h"
#include "config.h"

#define TTL_DEFAULT_MS 10000
#define TRANSITION_DEFAULT_MS 6000
#define SESSION_DEFAULT_MS 10000
#define LEAD_MIN_MS 2
#define LEAD_MAX_MS 250

static int64_t lead_for(int64_t lease_ms)
{
    const int64_t lead_ms = lease_ms / 20;
    return lead_ms < LEAD_MIN_MS ? LEAD_MIN_MS : lead_ms > LEAD_MAX_MS ? LEAD_MAX_MS : lead_ms;
}

/* The library lets half of the window between the first renewal and the end of the lease be taken for stopping, and
 * says so if that is exceeded; here the same, to be able to say what would fit. */
static int64_t longest_grace(int64_t ttl_ms, int64_t transition_ms)
{
    const int64_t usual = ttl_ms / 20 < 500 ? ttl_ms / 20 : 500;
    const int64_t early = ttl_ms / 3 - transition_ms;
    const int64_t window = transition_ms - transition_ms / 100 + (early > usual ? early : usual);
    return (window - 2) / 2 - lead_for(ttl_ms + transition_ms);
}

/* The same where the lease is a session. */
static int64_t longest_grace_in_session(int64_t session_ms)
{
    return session_ms / 3 - lead_for(session_ms);
}

static int choose_in_session(const char *command, int64_t session_ms, int64_t grace_ms, child_times *ret_times)
{
    const int64_t longest = longest_grace_in_session(session_ms);
    if (longest < 0)
        return cli_usage_error(
            command, "a session-timeout of %" PRId64 " ms leaves no time to stop a command in; make it longer",
            session_ms);
    if (grace_ms > longest)
        return cli_usage_error(command,
                               "a --grace of %" PRId64 " ms does not fit: with a session-timeout of %" PRId64
                               " ms at most %" PRId64 " ms do",
                               grace_ms, session_ms, longest);
    *ret_times = (child_times){.grace_ms = grace_ms < 0 ? longest / 2 : grace_ms, .lead_ms = lead_for(session_ms)};
    return CLI_GO;
}

int child_times_choose(const char *command, cli_globals *globals, int64_t grace_ms, child_times *ret_times)
{
    const int configured = config_apply(command, globals);
    if (configured != CLI_GO)
        return configured;
    const char *url = globals->url != NULL ? globals->url : getenv("SIMBA_URL");
    if (cli_has_sessions(url))
        return choose_in_session(command, cli_duration(SIMBA_INHERIT, url, "session-timeout", SESSION_DEFAULT_MS),
                                 grace_ms, ret_times);
    const int64_t ttl_ms = cli_duration(globals->ttl_ms, url, "ttl", TTL_DEFAULT_MS);
    const int64_t transition_ms = cli_duration(globals->transition_ms, url, "transition", TRANSITION_DEFAULT_MS);
    const int64_t longest = longest_grace(ttl_ms, transition_ms);
    if (longest < 0)
        return cli_usage_error(command,
                               "a ttl of %" PRId64 " ms and a transition of %" PRId64
                               " ms leave no time to stop a command in; make them longer",
                               ttl_ms, transition_ms);
    if (grace_ms > longest)
        return cli_usage_error(command,
                               "a --grace of %" PRId64 " ms does not fit: with a ttl of %" PRId64
                               " ms and a transition of %" PRId64 " ms at most %" PRId64 " ms do",
                               grace_ms, ttl_ms, transition_ms, longest);
    ret_times->grace_ms = grace_ms < 0 ? longest / 2 : grace_ms;
    ret_times->lead_ms = lead_for(ttl_ms + transition_ms);
    ret_times->max_hold_ms = 0;
    return CLI_GO;
}

int64_t child_margin_ms(const child_times *times)
{
    return times->grace_ms + times->lead_ms;
}
