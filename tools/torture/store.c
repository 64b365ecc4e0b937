/* The store before and after `simba torture`, and before `simba demo`: is it there, what does it promise, and is it left as it was? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "torture/torture.h"

#define LEASE_MS 1000      /* ttl and transition, unless the options or the URL say otherwise */
#define SLACK_MS 2000      /* for round trips, for a poll where the store does not push, and for a busy host */
#define TIMEOUT_MS 3000    /* for the first grant: a short lease leaves a request little time to connect */
#define FORGET_PAUSE_MS 50 /* between two tries to remove a mutex whose lease has not ended */

/* Opens the store with the options of the user, but with a copy of the URL, because cli_open may overwrite the text that it
 * gets. */
static int open_store(const cli_globals *globals, const torture_options *options, simba_client **ret_client)
{
    cli_globals own = *globals;
    char *url = strdup(options->url);
    if (url == NULL)
        return cli_fail(options->command, CLI_SYSTEM, "out of memory.");
    own.url = url;
    own.quiet = true;
    own.event_log = NULL;
    own.ttl_ms = options->timing.ttl_ms;
    own.transition_ms = options->timing.transition_ms;
    const int code = cli_open(options->command, &own, ret_client);
    free(url);
    return code;
}

/* Where transitions or sessions are shorter than this, nothing is promised about outages over a network. */
#define TRANSITION_MIN_MS 1000
#define SESSION_MIN_MS 3000

/* How long trouble must last at least to cost somebody the leadership: half of what docs/safety.md promises, because an outage ends
 * later for a contender than for the network. 0: no promise, any trouble is a cause. */
static int64_t outage_ms(const simba_settings *settings)
{
    const simba_timing *timing = &settings->timing;
    if (settings->session_ms > 0)
        return settings->session_ms >= SESSION_MIN_MS ? settings->session_ms / 5 : 0;
    if (settings->reach == SIMBA_REACH_NETWORK && timing->transition_ms < TRANSITION_MIN_MS)
        return 0;
    return timing->transition_ms > timing->stop_margin_ms ? (timing->transition_ms - timing->stop_margin_ms) / 2 : 0;
}

/* A lease store promises by ttl and transition, one whose leases are sessions by how long a session lasts. */
static void find_promises(const simba_settings *settings, torture_options *options)
{
    const simba_timing *timing = &settings->timing;
    torture_setup *setup = &options->setup;
    int64_t lease_ms = timing->ttl_ms + timing->transition_ms;
    int64_t takeover_ms = lease_ms + timing->jitter_max_ms;
    options->sessions = settings->session_ms > 0;
    if (options->sessions) {
        lease_ms = settings->session_ms;
        takeover_ms = lease_ms + lease_ms / 2; /* servers count in ticks of their own */
    }
    setup->lease_ns = lease_ms * MS;
    setup->outage_ns = outage_ms(settings) * MS;
    setup->takeover_ns = (takeover_ms + timing->initial_delay_ms + SLACK_MS) * MS;
    setup->handover_ns = (timing->initial_delay_ms + SLACK_MS) * MS;
}

int torture_store_try(const cli_globals *globals, torture_options *options)
{
    simba_client *client = NULL;
    simba_settings settings = SIMBA_SETTINGS_INIT;
    char id[SIMBA_ID_MAX + 1];
    if (options->mutexes[0][0] == '\0') { /* names that nobody else uses */
        if (simba_id_uuid(id) < 0)
            return cli_fail(options->command, CLI_SYSTEM, "the system has no randomness to give.");
        for (unsigned i = 0; i < options->setup.mutexes; i++)
            snprintf(options->mutexes[i], sizeof options->mutexes[i], "%s-%.12s-%u", options->command, id, i);
    }
    /* Only a store that keeps leases by their time has a ttl that could be set: where leases are sessions, it is an error. */
    options->timing.ttl_ms = globals->ttl_ms;
    options->timing.transition_ms = globals->transition_ms;
    int code = open_store(globals, options, &client);
    if (code != CLI_GO)
        return code;
    if (simba_client_settings(client, &settings) == 0 && settings.session_ms == 0) {
        options->timing.ttl_ms = cli_duration(globals->ttl_ms, options->url, "ttl", LEASE_MS);
        options->timing.transition_ms = cli_duration(globals->transition_ms, options->url, "transition", LEASE_MS);
    }
    simba_client_close(client);

    code = open_store(globals, options, &client);
    if (code != CLI_GO)
        return code;
    for (unsigned i = 0; i < options->setup.mutexes && code == CLI_GO; i++) {
        simba_locker *locker = NULL;
        simba_error error = {0, ""};
        error.code = simba_locker_new(client, options->mutexes[i], NULL, &error, &locker);
        if (error.code == 0)
            error.code = simba_locker_acquire(locker, TIMEOUT_MS, &error);
        simba_locker_free(locker); /* gives it back */
        if (error.code != 0)
            code = cli_failure(options->command, &error);
    }
    if (code == CLI_GO && simba_client_settings(client, &settings) == 0) {
        find_promises(&settings, options);
        if (settings.reach == SIMBA_REACH_PROCESS)
            code = cli_fail(options->command, CLI_CONFIG, "%s is seen by one process only, and this takes several.",
                            simba_client_url(client));
    }
    simba_client_close(client);
    return code;
}

/* --- afterwards --------------------------------------------------------------------------------------- */

void torture_store_forget(const cli_globals *globals, const torture_options *options)
{
    const struct timespec pause = {0, FORGET_PAUSE_MS * MS};
    simba_client *client = NULL;
    simba_error error = {0, ""};
    if (open_store(globals, options, &client) != CLI_GO)
        return; /* the reason was printed */
    const int64_t until_ns = clock_boot_ns() + options->setup.takeover_ns;
    int code = 0;
    for (unsigned i = 0; i < options->setup.mutexes && code == 0; i++) {
        /* A contender that was killed at the end holds its mutex until its lease is over. */
        while ((code = simba_client_forget(client, options->mutexes[i], &error)) == SIMBA_ESTATE &&
               clock_boot_ns() < until_ns)
            nanosleep(&pause, NULL);
        if (code == SIMBA_ENOTFOUND)
            code = 0;
        if (code < 0) /* the others have the same trouble */
            cli_warn(options->command, "the mutex %s stays in the store: %s.", options->mutexes[i], error.text);
    }
    simba_client_close(client);
}
