/* Periodic work that runs in one process only: on the leader, and on the next leader when that one goes. */
#include <inttypes.h>
#include <simba.h>
#include <stdio.h>
#include <unistd.h>

/* Runs never overlap. A long run asks now and then whether it must end because leadership ends. */
static void clean_up(simba_run *run, void *user)
{
    (void)user;
    for (int step = 1; step <= 3 && !simba_run_stopping(run); step++) {
        printf("step %d of 3, under token %" PRIu64 "\n", step, simba_run_token(run));
        simba_run_sleep(run, 50); /* wakes up early if the run must end */
    }
}

int main(int argc, char **argv)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_scheduler *scheduler = NULL;
    simba_error error;

    options.schedule = SIMBA_SCHEDULE_FIXED_DELAY;
    options.period_ms = 300;
    options.work = clean_up;
    if (simba_client_open(argc > 1 ? argv[1] : "memory://example", NULL, &error, &client) < 0 ||
        simba_scheduler_new(client, "clean-up", &options, &error, &scheduler) < 0) {
        fprintf(stderr, "cannot schedule: %s\n", error.text);
        simba_client_close(client);
        return 1;
    }
    simba_scheduler_start(scheduler);
    sleep(1);
    /* Tells a run in progress to end, waits for it, and only then gives the mutex back. */
    const int stopped = simba_scheduler_stop(scheduler);
    if (stopped < 0)
        fprintf(stderr, "the store could not be told: %s\n", simba_error_text(stopped));
    simba_scheduler_free(scheduler);
    simba_client_close(client);
    return stopped < 0;
}
