/* `simba doctor`: is the store there, how fast is it, do clocks and settings fit together; and if not, what to do. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "child/child.h"
#include "cli.h"
#include "clock.h"
#include "json.h"
#include "secret.h"
#include "term.h"
#include "util/escape.h"

#define COMMAND "doctor"
#define MUTEX "simba-doctor"
#define ROUNDS 9
#define OFFSET_MS 2000 /* a clock that is further off deserves a word */

typedef struct doctor {
    term t;
    bool json;
    json_writer out; /* with `json` */
    simba_verdict worst;
    int64_t round_trip_ns;
    int64_t store_now_ms; /* 0: not known */
    int64_t our_now_ms;
    simba_locker *locker;
} doctor;

static void print_finding(const simba_finding *finding, void *user)
{
    static const char *const words[] = {"ok", "warning", "broken"};
    static const term_style styles[] = {TERM_GREEN, TERM_YELLOW, TERM_RED};
    doctor *d = user;
    const simba_verdict v = finding->verdict;
    const char *what = finding->what;
    const char *remedy = finding->remedy;
    d->worst = v > d->worst ? v : d->worst;
    if (d->json) {
        json_line_break(&d->out);
        json_open(&d->out, NULL, '{');
        json_text(&d->out, "check", what);
        json_text(&d->out, "verdict", words[v]);
        json_text(&d->out, "text", finding->text);
        json_text(&d->out, "remedy", remedy);
        json_close(&d->out, '}');
        return;
    }
    printf("%s%-8s%s %-13s %s\n", term_on(&d->t, styles[v]), words[v], term_off(&d->t), what, finding->text);
    if (remedy != NULL)
        printf("%22s  %s\n", "", remedy);
}

/* One finding, and what to do about it, if anything. */
static void __attribute__((format(printf, 5, 6)))
find(doctor *d, simba_verdict v, const char *what, const char *remedy, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    simba__escape_format(text, sizeof text, format, args);
    va_end(args);
    print_finding(&(simba_finding){sizeof(simba_finding), v, what, text, remedy}, d);
}

/* --- the store --------------------------------------------------------------------------------------- */

static void look_at_row(const simba_listing *row, void *user)
{
    doctor *d = user;
    d->store_now_ms = row->now_ms;
}

/* Half of a lock and an unlock is one answer of the store. */
static int measure(doctor *d, simba_client *client, simba_error *error)
{
    int64_t rounds_ns[ROUNDS];
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    int code = simba_locker_new(client, MUTEX, &options, error, &d->locker);
    for (size_t i = 0; code == 0 && i < ROUNDS; i++) {
        const int64_t start_ns = clock_boot_ns();
        code = simba_locker_acquire(d->locker, 5000, error);
        if (code == 0)
            code = simba_locker_release(d->locker, error);
        rounds_ns[i] = (clock_boot_ns() - start_ns) / 2;
    }
    if (code == 0) {
        qsort(rounds_ns, ROUNDS, sizeof rounds_ns[0], by_value);
        d->round_trip_ns = rounds_ns[ROUNDS / 2];
    }
    return code;
}

static int store_is_broken(doctor *d, const simba_error *error)
{
    find(d, SIMBA_VERDICT_BROKEN, "store", cli_advice(error), "%s.",
         error->text[0] != '\0' ? error->text : simba_error_text(error->code));
    return error->code;
}

static int check_store(doctor *d, simba_client *client)
{
    simba_error error = {0, ""};
    const int code = simba_client_examine(client, print_finding, d, &error);
    if (code == SIMBA_ENOTSUP)
        find(d, SIMBA_VERDICT_OK, "schema", NULL, "There is nothing to set up in this store.");
    else if (code < 0)
        return store_is_broken(d, &error);
    if (measure(d, client, &error) < 0)
        return store_is_broken(d, &error);
    find(d, SIMBA_VERDICT_OK, "store", NULL, "A mutex could be taken and given back.");
    find(d, SIMBA_VERDICT_OK, "latency", NULL, "One answer takes %.2f ms.", (double)d->round_trip_ns / 1e6);
    d->our_now_ms = clock_read_ms(CLOCK_REALTIME);
    simba_client_list(client, MUTEX, look_at_row, d, NULL);
    simba_client_forget(client, MUTEX, NULL); /* fails if another doctor is at work, and that one will do it */
    return 0;
}

/* --- clocks and settings ------------------------------------------------------------------------------ */

/* A warning for people who are about to add a second machine. */
static void check_reach(doctor *d, simba_client *client, simba_reach reach)
{
    char users[CLI_USERS_MAX];
    switch (reach) {
    case SIMBA_REACH_PROCESS:
        find(d, SIMBA_VERDICT_WARNING, "reach", "For several processes use sqlite://, for several hosts a server.",
             "This store covers one process only: no other one sees its mutexes.");
        break;
    case SIMBA_REACH_HOST:
        if (cli_users(simba_client_url(client), users, sizeof users))
            find(d, SIMBA_VERDICT_OK, "reach", NULL, "This store covers %s; several hosts need a server.", users);
        else
            find(d, SIMBA_VERDICT_OK, "reach", NULL,
                 "This store covers %s; several users need ?mode=0660 in its URL, several hosts a server.", users);
        break;
    case SIMBA_REACH_NETWORK:
        find(d, SIMBA_VERDICT_OK, "reach", NULL, "This store covers all hosts that use the same server.");
        break;
    }
}

static void check_lease(doctor *d, int64_t ttl_ms, int64_t transition_ms, int64_t needed_ms)
{
    if (transition_ms == 0)
        find(d, SIMBA_VERDICT_WARNING, "transition", "Set a transition of a second or more.",
             "There is none: one lost answer at the wrong moment costs the leadership.");
    else if (transition_ms < needed_ms)
        find(d, SIMBA_VERDICT_WARNING, "transition", "Make the transition longer.",
             "%" PRId64 " ms leave no room for several tries on this store; %" PRId64 " ms would.", transition_ms,
             needed_ms);
    else
        find(d, SIMBA_VERDICT_OK, "transition", NULL, "%" PRId64 " ms have room for several tries.", transition_ms);
    if (ttl_ms < needed_ms)
        find(d, SIMBA_VERDICT_WARNING, "ttl", "Make the ttl longer.",
             "%" PRId64 " ms is short for this store; %" PRId64 " ms would do.", ttl_ms, needed_ms);
    else
        find(d, SIMBA_VERDICT_OK, "ttl", NULL, "%" PRId64 " ms; a dead leader is replaced after about %" PRId64 " ms.",
             ttl_ms, ttl_ms + transition_ms);
}

static void check_settings(doctor *d, simba_client *client)
{
    simba_settings settings = SIMBA_SETTINGS_INIT;
    const int64_t offset_ms = d->store_now_ms - d->our_now_ms;
    if (d->store_now_ms == 0)
        find(d, SIMBA_VERDICT_OK, "clock", NULL, "The store does not tell its time; leases do not depend on it.");
    else if (llabs(offset_ms) > OFFSET_MS)
        find(d, SIMBA_VERDICT_WARNING, "clock",
             "Leases do not depend on it, but logs of two machines will be hard to compare.",
             "The clocks of the store and of this machine differ by %" PRId64 " ms.", offset_ms);
    else
        find(d, SIMBA_VERDICT_OK, "clock", NULL, "The store's clock is within %" PRId64 " ms of this host's.",
             (int64_t)llabs(offset_ms));
    if (simba_client_settings(client, &settings) < 0)
        return;
    check_reach(d, client, settings.reach);
    /* The shortest ttl and transition that survive an ordinary day. Several tries must fit in; and apart from how long an
     * answer takes usually, now and then a process is not run for a while, or a packet is lost, which is sent again after
     * up to a second. */
    const int64_t session_ms = settings.session_ms;
    const int64_t needed_ms =
        max64(d->round_trip_ns * 10 / 1000000 + 1, settings.reach == SIMBA_REACH_NETWORK ? 1000 : 500);
    if (session_ms == 0)
        check_lease(d, settings.timing.ttl_ms, settings.timing.transition_ms, needed_ms);
    else if (session_ms < 2 * needed_ms)
        find(d, SIMBA_VERDICT_WARNING, "session", "Make the session-timeout longer.",
             "%" PRId64 " ms is short for this store; %" PRId64 " ms would do.", session_ms, 2 * needed_ms);
    else
        find(d, SIMBA_VERDICT_OK, "session", NULL, "%" PRId64 " ms%s; a dead leader is replaced after about as long.",
             session_ms, settings.session_granted ? ", as the server grants them" : ", if the server grants that");
    child_times times;
    if (child_times_choose(COMMAND, client, -1, &times) != CLI_GO)
        return;
    const bool is_short = times.grace_ms < 100;
    find(d, is_short ? SIMBA_VERDICT_WARNING : SIMBA_VERDICT_OK, "grace",
         !is_short         ? NULL
         : session_ms == 0 ? "Make the transition longer if commands need time to tidy up."
                           : "Make the session-timeout longer if commands need time to tidy up.",
         "`simba run` gives commands %" PRId64 " ms from SIGTERM to SIGKILL.", times.grace_ms);
}

/* Where the URL comes from: people wonder about that first. */
static void check_source(doctor *d, const char *option, const cli_globals *globals, simba_client *client)
{
    const char *variable = getenv("SIMBA_URL");
    const bool has_variable = variable != NULL && variable[0] != '\0';
    const char *source = option != NULL                 ? "--url"
                         : has_variable                 ? "SIMBA_URL"
                         : globals->config_used != NULL ? "the configuration file"
                                                        : "the default";
    const char *written = globals->url != NULL ? globals->url : has_variable ? variable : "the embedded store";
    char *shown = strdup(written);
    if (shown != NULL)
        secret_hide(shown);
    find(d, SIMBA_VERDICT_OK, "configuration", NULL, "%s, from %s%s%s.",
         client != NULL  ? simba_client_url(client)
         : shown != NULL ? shown
                         : "the store",
         source, globals->config_used != NULL ? " " : "", globals->config_used != NULL ? globals->config_used : "");
    free(shown);
}

int cmd_doctor(cli_globals *globals, int argc, char **argv)
{
    doctor d = {.out = {.to = stdout}};
    const cli_option own[] = {{"json", 0, CLI_FLAG, NULL, "Print an array of objects", &d.json}};
    const cli_syntax syntax = {
        .command = COMMAND,
        .about = "Examines the store and the settings: where they come from, whether the store can\n"
                 "be reached and how fast it answers, how it is set up, its clock, and whether\n"
                 "ttl, transition and grace fit together. Says what to do about each problem. Takes,\n"
                 "gives back and forgets the mutex \"" MUTEX "\". Exits with 1 if something is broken.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_URL | CLI_TAKES_TIMING,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    globals->quiet = true;
    const char *option = globals->url;
    simba_client *client = NULL;
    simba_error error;
    const int opened = cli_try_open(COMMAND, globals, &error, &client);
    if (opened != CLI_GO)
        return opened;
    term_open(stdout, &d.t);
    if (d.json)
        json_open(&d.out, NULL, '[');
    check_source(&d, option, globals, client);
    const int reached = client != NULL ? check_store(&d, client) : store_is_broken(&d, &error);
    if (reached == 0)
        check_settings(&d, client);
    if (d.json)
        fputs("]\n", stdout);
    const int code = cli_leave(reached < 0                       ? cli_exit_code(reached)
                               : d.worst == SIMBA_VERDICT_BROKEN ? CLI_FAILED
                                                                 : CLI_OK);
    simba_locker_free(d.locker);
    return cli_close(client, code);
}
