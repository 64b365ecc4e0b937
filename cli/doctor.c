/* `simba doctor`: is the store there, how fast is it, do clocks and settings fit together; and if not, what to do. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "child.h"
#include "cli.h"
#include "config.h"
#include "json.h"
#include "term.h"
#include "watchdog.h"

#define COMMAND "doctor"
#define MUTEX "simba-doctor"
#define ROUNDS 9
#define OFFSET_MS 2000 /* a clock that is further off deserves a word */

typedef enum verdict { FINE, WARNING, BROKEN } verdict;

typedef struct doctor {
    term t;
    bool json;
    int printed;
    verdict worst;
    int64_t round_trip_ns;
    int64_t store_now_ms; /* 0: not known */
    int64_t our_now_ms;
} doctor;

/* One finding, and what to do about it, if anything. */
static void __attribute__((format(printf, 5, 6)))
find(doctor *d, verdict v, const char *what, const char *remedy, const char *format, ...)
{
    static const char *const words[] = {"ok", "warning", "broken"};
    static const term_style styles[] = {TERM_GREEN, TERM_YELLOW, TERM_RED};
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    d->worst = v > d->worst ? v : d->worst;
    if (d->json) {
        printf("%s{\"check\":\"%s\",\"verdict\":\"%s\",\"text\":", d->printed++ > 0 ? ",\n " : "[", what, words[v]);
        json_string(stdout, text);
        fputs(",\"remedy\":", stdout);
        if (remedy != NULL)
            json_string(stdout, remedy);
        else
            fputs("null", stdout);
        fputc('}', stdout);
        return;
    }
    printf("%s%-8s%s %-13s %s\n", term_on(&d->t, styles[v]), words[v], term_off(&d->t), what, text);
    if (remedy != NULL)
        printf("%22s  %s\n", "", remedy);
}

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* --- the store --------------------------------------------------------------------------------------- */

static void look_at_row(const simba_listing *row, void *user)
{
    doctor *d = user;
    d->store_now_ms = row->now_ms;
}

static int by_value(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Half of a lock and an unlock is one answer of the store. */
static int measure(doctor *d, simba_client *client, simba_error *error)
{
    simba_locker *locker = NULL;
    int64_t rounds_ns[ROUNDS];
    int code = simba_locker_new(client, MUTEX, NULL, error, &locker);
    for (size_t i = 0; code == 0 && i < ROUNDS; i++) {
        const int64_t start_ns = watchdog_now_ns();
        code = simba_locker_acquire(locker, 5000, error);
        if (code == 0)
            code = simba_locker_release(locker, error);
        rounds_ns[i] = (watchdog_now_ns() - start_ns) / 2;
    }
    simba_locker_free(locker);
    if (code == 0) {
        qsort(rounds_ns, ROUNDS, sizeof rounds_ns[0], by_value);
        d->round_trip_ns = rounds_ns[ROUNDS / 2];
    }
    return code;
}

static int check_store(doctor *d, simba_client *client)
{
    simba_error error = {0, ""};
    const int code = measure(d, client, &error);
    if (code < 0) {
        find(d, BROKEN, "store", "Is it running, is the address right, and may this user write to it?", "%s.",
             error.text);
        return code;
    }
    find(d, FINE, "store", NULL, "A mutex could be taken and given back.");
    find(d, FINE, "latency", NULL, "One answer takes %.2f ms.", (double)d->round_trip_ns / 1e6);
    d->our_now_ms = wall_ms();
    simba_client_list(client, MUTEX, look_at_row, d, NULL);
    return 0;
}

/* --- clocks and settings ------------------------------------------------------------------------------ */

static void check_clock(doctor *d)
{
    if (d->store_now_ms == 0) {
        find(d, FINE, "clock", NULL, "The store does not tell its time; leases do not depend on it.");
        return;
    }
    const int64_t offset_ms = d->store_now_ms - d->our_now_ms;
    if (llabs(offset_ms) > OFFSET_MS)
        find(d, WARNING, "clock", "Leases do not depend on it, but logs of two machines will be hard to compare.",
             "The clocks of the store and of this machine differ by %" PRId64 " ms.", offset_ms);
    else
        find(d, FINE, "clock", NULL, "The store's clock is within %" PRId64 " ms of ours.", (int64_t)llabs(offset_ms));
}

static void check_settings(doctor *d, const cli_globals *globals)
{
    const char *url = globals->url != NULL ? globals->url : getenv("SIMBA_URL");
    const int64_t ttl_ms = cli_duration(globals->ttl_ms, url, "ttl", 10000);
    const int64_t transition_ms = cli_duration(globals->transition_ms, url, "transition", 6000);
    const int64_t needed_ms = d->round_trip_ns * 10 / 1000000 + 1;
    cli_globals copy = *globals;
    child_times times;
    if (transition_ms == 0)
        find(d, WARNING, "transition", "Set a transition of a second or more.",
             "There is none: one lost answer at the wrong moment costs the leadership.");
    else if (transition_ms < needed_ms)
        find(d, WARNING, "transition", "Make the transition longer.",
             "%" PRId64 " ms leave no room for several tries at this latency; %" PRId64 " ms would.", transition_ms,
             needed_ms);
    else
        find(d, FINE, "transition", NULL, "%" PRId64 " ms have room for several tries.", transition_ms);
    if (ttl_ms < needed_ms)
        find(d, WARNING, "ttl", "Make the ttl longer.", "%" PRId64 " ms is short for this latency.", ttl_ms);
    else
        find(d, FINE, "ttl", NULL, "%" PRId64 " ms; a dead leader is replaced after about %" PRId64 " ms.", ttl_ms,
             ttl_ms + transition_ms);
    if (child_times_choose(COMMAND, &copy, -1, &times) == CLI_GO)
        find(d, times.grace_ms < 100 ? WARNING : FINE, "grace",
             times.grace_ms < 100 ? "Make the transition longer if commands need time to tidy up." : NULL,
             "`simba run` gives commands %" PRId64 " ms from SIGTERM to SIGKILL.", times.grace_ms);
}

/* Where the URL comes from, which is what people wonder about first. */
static void check_source(doctor *d, const char *option, const cli_globals *globals, simba_client *client)
{
    const char *variable = getenv("SIMBA_URL");
    const char *source = option != NULL                            ? "--url"
                         : variable != NULL && variable[0] != '\0' ? "SIMBA_URL"
                         : globals->url != NULL                    ? "the configuration file"
                                                                   : "the default";
    find(d, FINE, "configuration", NULL, "%s, from %s.", simba_client_url(client), source);
}

int cmd_doctor(cli_globals *globals, int argc, char **argv)
{
    doctor d = {.json = false};
    const cli_option own[] = {{"json", 0, CLI_FLAG, NULL, "Print an array of objects", &d.json}};
    const cli_syntax syntax = {
        .command = COMMAND,
        .about = "Looks at the store and at the settings: where they come from, whether the store\n"
                 "can be reached and how fast it answers, its clock, and whether ttl, transition\n"
                 "and grace fit together. Says what to do where something does not. Takes and\n"
                 "gives back the mutex \"" MUTEX "\". Exits with 1 if something is broken.",
        .options = own,
        .option_count = sizeof own / sizeof own[0],
        .takes = CLI_TAKES_URL | CLI_TAKES_TIMING,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    const char *option = globals->url;
    simba_client *client = NULL;
    const int opened = cli_open(COMMAND, globals, &client);
    if (opened != CLI_GO)
        return opened;
    term_open(stdout, &d.t);
    check_source(&d, option, globals, client);
    const int reached = check_store(&d, client);
    if (reached == 0) {
        check_clock(&d);
        check_settings(&d, globals);
    }
    if (d.json)
        fputs("]\n", stdout);
    simba_client_close(client);
    if (reached == SIMBA_EUNAVAILABLE)
        return CLI_UNAVAILABLE;
    return d.worst == BROKEN ? CLI_FAILED : CLI_OK;
}
