/* `simba contend`, not for people: one contender of `simba demo`. Prints what happens to it, one line per event
 * (demo.h lists the words), and gives the mutex back on SIGTERM. */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "demo/demo.h"

#define LEASE_LOOK_MS 20 /* how often to look whether the lease was renewed */
#define LEASE_STEP_NS INT64_C(5000000)

/* One write per line, which a pipe keeps whole whichever thread writes. */
static void tell(int64_t at_ns, demo_event_kind kind, uint64_t token, const char *detail)
{
    char line[256];
    const int length =
        snprintf(line, sizeof line, "%" PRId64 " %s %" PRIu64 " %s\n", at_ns, demo_event_word(kind), token, detail);
    if (length > 0 && write(STDOUT_FILENO, line, (size_t)length) < 0)
        _exit(CLI_FAILED); /* nobody listens any more */
}

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    (void)contender;
    (void)user;
    tell(demo_now_ns(), DEMO_ACQUIRED, state->after.token, "-");
}

/* The parent measures the hand-over from here: the mutex is given back only after this has returned. */
static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    (void)contender;
    (void)user;
    char word[32];
    snprintf(word, sizeof word, "%s", simba_reason_name(reason));
    for (char *c = word; *c != '\0'; c++)
        *c = *c == ' ' ? '-' : *c;
    tell(demo_now_ns(), DEMO_RELEASED, state->before.token, word);
}

static void on_changed(simba_contender *contender, const simba_state *state, void *user)
{
    (void)contender;
    (void)user;
    const bool nobody = simba_owner_is_none(&state->after);
    tell(demo_now_ns(), DEMO_CHANGED, state->after.token, nobody ? "-" : state->after.id);
}

/* Print the end of the lease whenever it has moved. Read the clock before the lease, so that the printed time is
 * never later than the true one. */
static void tell_lease(const simba_contender *contender, int64_t *told_ns)
{
    const int64_t now_ns = demo_now_ns();
    const uint64_t token = simba_contender_token(contender);
    const int64_t held_ms = simba_contender_held_for_ms(contender);
    const int64_t until_ns = now_ns + held_ms * 1000000;
    if (token == 0 || held_ms <= 0 || until_ns < *told_ns + LEASE_STEP_NS)
        return;
    char detail[32];
    snprintf(detail, sizeof detail, "%" PRId64, until_ns);
    tell(now_ns, DEMO_LEASE, token, detail);
    *told_ns = until_ns;
}

static int contend(simba_contender *contender, const sigset_t *until)
{
    const struct timespec look = {0, LEASE_LOOK_MS * 1000000L};
    int64_t told_ns = 0;
    tell(demo_now_ns(), DEMO_READY, 0, "-");
    int code = simba_contender_start(contender);
    if (code < 0)
        return code;
    while (sigtimedwait(until, NULL, &look) < 0)
        tell_lease(contender, &told_ns);
    code = simba_contender_stop(contender);
    tell(demo_now_ns(), DEMO_STOPPED, 0, "-");
    return code;
}

int cmd_contend(cli_globals *globals, int argc, char **argv)
{
    const cli_syntax syntax = {
        .command = "contend",
        .operands = "MUTEX",
        .about = "Used by `simba demo`: contends until SIGTERM and prints events for a program to read.",
        .takes = CLI_TAKES_ALL,
        .min_operands = 1,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;

    /* Before the library makes threads, so that only sigtimedwait gets the signal. */
    sigset_t until;
    sigemptyset(&until);
    sigaddset(&until, SIGTERM);
    sigprocmask(SIG_BLOCK, &until, NULL);

    simba_client *client = NULL;
    const int opened = cli_open("contend", globals, &client);
    if (opened != CLI_GO)
        return opened;

    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *contender = NULL;
    simba_error error = {0, ""};
    options.id = globals->id;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.on_changed = on_changed;
    error.code = simba_contender_new(client, argv[0], &options, &error, &contender);
    if (error.code == 0)
        error.code = contend(contender, &until);
    simba_contender_free(contender);
    simba_client_close(client);
    return error.code == 0 ? CLI_OK : cli_failure("contend", &error);
}
