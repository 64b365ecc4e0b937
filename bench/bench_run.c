/* What does `simba run` cost? The wall time of a command that does nothing, beside flock(1), which asks no store. The two take turns. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { ROUNDS = 250, QUICK_ROUNDS = 20 };

/* The wall time of one process. A failure ends the benchmark. */
static int64_t time_of(const char *const argv[])
{
    int status = 0;
    const int64_t start_ns = bench_now_ns();
    const pid_t pid = fork();
    if (pid == 0) {
        const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        bench_fail("process", strerror(errno));
    if (status != 0)
        bench_fail(argv[0], "did not exit with 0");
    return bench_now_ns() - start_ns;
}

int main(int argc, char **argv)
{
    static int64_t run_ns[ROUNDS];
    static int64_t flock_ns[ROUNDS];
    char self[512];
    char command[600];
    char url[700];
    char file[700];
    const int rounds = bench_wants_quick(argc, argv) ? QUICK_ROUNDS : ROUNDS;
    /* build/PRESET/bench/bench_run, build/PRESET/simba */
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(self, '/');
    snprintf(command, sizeof command, "%.*s/../simba", (int)(slash != NULL ? slash - self : 0), self);
    if (access(command, X_OK) != 0)
        bench_fail(command, "is not there");
    snprintf(url, sizeof url, "sqlite://%s/run.db", bench_temp_dir());
    snprintf(file, sizeof file, "%s/flock", bench_temp_dir());
    setenv("SIMBA_URL", url, 1);

    const char *const run[] = {command, "run", "m", "--", "true", NULL};
    const char *const flock[] = {"flock", file, "true", NULL};
    time_of(run); /* this makes the store */
    for (int round = 0; round < rounds; round++) {
        run_ns[round] = time_of(run);
        flock_ns[round] = time_of(flock);
    }
    const double run_ms = bench_median(run_ns, (size_t)rounds) / 1e6;
    const double flock_ms = bench_median(flock_ns, (size_t)rounds) / 1e6;
    bench_row("simba run m -- true", run_ms, "ms");
    bench_row("flock FILE true", flock_ms, "ms");
    bench_row("that is, beside flock", run_ms / flock_ms, "times");
    return 0;
}
