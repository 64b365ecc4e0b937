/* crowd COUNT: a process that holds COUNT mutexes of the store $SIMBA_URL, for tests with many of them. Says "held" when it
 * holds all, and ends with its standard input. */
#include <simba.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int held;

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    (void)contender;
    (void)state;
    const int *count = user;
    if (atomic_fetch_add(&held, 1) + 1 == *count) {
        puts("held");
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 0;
    simba_client *client = NULL;
    simba_error error = {0, ""};
    char byte;
    if (simba_client_open(NULL, NULL, &error, &client) < 0) {
        fprintf(stderr, "crowd: %s\n", error.text);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
        simba_contender *contender = NULL;
        char name[32];
        char id[32];
        snprintf(name, sizeof name, "crowd-%06d", i);
        snprintf(id, sizeof id, "worker-%02d", i % 24);
        options.id = id;
        options.on_acquired = on_acquired;
        options.user = &count;
        if (simba_contender_new(client, name, &options, &error, &contender) < 0 || simba_contender_start(contender) < 0)
            return 1;
    }
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    _exit(0); /* its leases end by themselves */
}
