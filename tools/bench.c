/* `simba bench`: how fast the user's own store is, by a lock and an unlock on one thread. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "clock.h"
#include "interrupt.h"
#include "json.h"

#define COMMAND "bench"
#define ROUNDS_MAX 200000
#define OUR_MUTEX "simba-bench"

static int measure(simba_locker *locker, int64_t until_ns, int64_t *rounds_ns, size_t *ret_count, simba_error *error)
{
    size_t count = 0;
    int code = 0;
    while (code == 0 && count < ROUNDS_MAX) {
        const int64_t start_ns = clock_boot_ns();
        if ((start_ns >= until_ns || interrupt_number() != 0) && count > 0)
            break;
        code = simba_locker_acquire(locker, 5000, error);
        if (code == 0)
            code = simba_locker_release(locker, error);
        rounds_ns[count++] = clock_boot_ns() - start_ns;
    }
    *ret_count = count;
    return code;
}

static void print_result(const char *url, int64_t *rounds_ns, size_t count, int64_t took_ns, bool json)
{
    qsort(rounds_ns, count, sizeof rounds_ns[0], by_value);
    const double rate = (double)count * 1e9 / (double)took_ns;
    const size_t half = count / 2;
    const size_t nearly_all = count * 99 / 100;
    const double median_ms = (double)rounds_ns[half] / 1e6;
    const double late_ms = (double)rounds_ns[nearly_all] / 1e6;
    const double worst_ms = (double)rounds_ns[count - 1] / 1e6;
    if (json) {
        json_writer j = {.to = stdout};
        json_open(&j, NULL, '{');
        json_number(&j, "pairs", (int64_t)count);
        json_real(&j, "pairs_per_s", rate, 1);
        json_real(&j, "median_ms", median_ms, 3);
        json_real(&j, "p99_ms", late_ms, 3);
        json_real(&j, "max_ms", worst_ms, 3);
        json_close(&j, '}');
        putchar('\n');
    } else
        printf("%s\n  lock + unlock   %.0f a second\n  median          %.2f ms\n  99 of 100       %.2f ms\n"
               "  longest         %.2f ms\n",
               url, rate, median_ms, late_ms, worst_ms);
}

static void ignore_row(const simba_listing *row, void *user)
{
    (void)row;
    (void)user;
}

/* A store that is out of reach fails this at once, where a lock waits for it to come back. */
static int reach(simba_client *client, const char *mutex, simba_error *error)
{
    const int code = simba_client_list(client, mutex, ignore_row, NULL, error);
    return code == SIMBA_ENOTSUP ? 0 : code;
}

int cmd_bench(cli_globals *globals, int argc, char **argv)
{
    int64_t for_ms = 3000;
    bool json = false;
    const cli_option own[] = {
        {"for", 0, CLI_DURATION, "D", "How long to measure; default 3s", &for_ms},
        {"json", 0, CLI_FLAG, NULL, "Print an object", &json},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "[MUTEX]",
        .about = "Locks and unlocks a mutex as fast as the store allows, on one thread, and prints\n"
                 "how fast that was. The default is \"" OUR_MUTEX "\", which it removes from the store\n"
                 "at its end, also when it is interrupted.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_ALL,
        .max_operands = 1,
    };
    simba_client *client = NULL;
    const int begun = cli_begin(&syntax, globals, &argc, argv, &client);
    if (begun != CLI_GO)
        return begun;

    simba_error error = {SIMBA_ENOMEM, ""};
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    size_t count = 0;
    const char *mutex = argc > 0 ? argv[0] : OUR_MUTEX;
    int64_t *rounds_ns = malloc(ROUNDS_MAX * sizeof *rounds_ns);
    options.id = globals->id;
    interrupt_catch();
    if (rounds_ns != NULL)
        error.code = simba_locker_new(client, mutex, &options, &error, &locker);
    if (error.code == 0)
        error.code = reach(client, mutex, &error);
    const int64_t start_ns = clock_boot_ns();
    if (error.code == 0)
        error.code = measure(locker, start_ns + for_ms * 1000000, rounds_ns, &count, &error);
    if (error.code == 0)
        print_result(simba_client_url(client), rounds_ns, count, clock_boot_ns() - start_ns, json);
    free(rounds_ns);
    const int code = interrupt_code(error.code == 0 ? CLI_OK : cli_failure(COMMAND, &error));
    if (error.code != 0)
        cli_leave(code);
    simba_locker_free(locker);
    if (argc == 0 && error.code == 0)
        simba_client_forget(client, OUR_MUTEX,
                            NULL); /* it stays if another bench has it, or the store cannot remove it */
    return cli_close(client, code);
}
