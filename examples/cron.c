/* A replacement for a line in crontab. Run it on every machine: the one that leads runs the command periodically, and
 * when that machine goes, another one does. Runs never overlap. If leadership ends while a command runs, the command
 * gets SIGTERM.
 *
 * usage: cron SECONDS COMMAND [URL] (simba schedule does the same, and kills a command that ignores SIGTERM) */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <simba.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { LOOK_MS = 50 };

extern char **environ; // NOLINT(readability-redundant-declaration): only _GNU_SOURCE declares it

/* Runs on a thread of the library. It may change the environment, because no other thread of this program looks at
 * it. */
static void run_command(simba_run *run, void *user)
{
    char *const arguments[] = {"sh", "-c", user, NULL};
    posix_spawnattr_t attributes;
    char token[24];
    pid_t child;
    int status;

    snprintf(token, sizeof token, "%" PRIu64, simba_run_token(run));
    setenv("SIMBA_TOKEN", token, 1); /* for the resource that the command writes to */
    /* Unblock SIGTERM for the command, which main has blocked; and make it a process group, so that all of it can be
     * told to end. */
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    const int error = posix_spawn(&child, "/bin/sh", NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
        fprintf(stderr, "cannot run the command: error %d\n", error);
        return;
    }
    /* simba_run_sleep wakes up early when the run must end. */
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (simba_run_sleep(run, LOOK_MS)) {
            kill(-child, SIGTERM);
            while (waitpid(child, &status, 0) < 0 && errno == EINTR)
                ;
            return;
        }
    }
}

int main(int argc, char **argv)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_scheduler *scheduler = NULL;
    simba_error error;
    sigset_t ends;
    int number;

    if (argc < 3) {
        fprintf(stderr, "usage: cron SECONDS COMMAND [URL]\n");
        return 64;
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    options.period_ms = (int64_t)(strtod(argv[1], NULL) * 1000);
    options.work = run_command;
    options.user = argv[2];
    if (simba_client_open(argc > 3 ? argv[3] : NULL, NULL, &error, &client) < 0 ||
        simba_scheduler_new(client, "cron", &options, &error, &scheduler) < 0) {
        fprintf(stderr, "cannot schedule: %s\n", error.text);
        simba_client_close(client);
        return 1;
    }
    simba_scheduler_start(scheduler);
    sigwait(&ends, &number);
    simba_scheduler_free(scheduler); /* ends a command that runs, waits for it, and only then gives the mutex back */
    simba_client_close(client);
    return 0;
}
