/* What does `simba run` cost, and does it keep its word? The first is the wall time of a command that does nothing,
 * beside flock(1), which asks no store, and beside a program that is linked to the same libraries and does nothing. The
 * second is the lost-lock drill: the store freezes while a command runs that ignores SIGTERM. When the next command
 * starts, nothing of the first may be alive. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS_MAX 500
#define PATIENCE_MS 20000

static char self[512];
static char command[600]; /* the simba command in the same build */

/* --- processes ------------------------------------------------------------------------------------ */

static pid_t start(const char *const argv[])
{
    const pid_t pid = fork();
    if (pid < 0)
        bench_fail("fork", strerror(errno));
    if (pid == 0) {
        const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    return pid;
}

static int finish(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid)
        bench_fail("waitpid", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The wall time of one process. A failure ends the benchmark. */
static int64_t time_of(const char *const argv[])
{
    const int64_t start_ns = bench_now_ns();
    const int code = finish(start(argv));
    if (code != 0)
        bench_fail(argv[0], "did not exit with 0");
    return bench_now_ns() - start_ns;
}

/* --- wall time ------------------------------------------------------------------------------------ */

typedef struct series {
    const char *what;
    const char *const *argv;
    int64_t rounds_ns[ROUNDS_MAX];
} series;

static void measure_wall_time(int rounds)
{
    char url[700];
    char file[700];
    snprintf(url, sizeof url, "sqlite://%s/run.db", bench_temp_dir());
    snprintf(file, sizeof file, "%s/flock", bench_temp_dir());
    setenv("SIMBA_URL", url, 1);
    const char *const bare[] = {"true", NULL};
    const char *const linked[] = {command, "version", NULL};
    const char *const flock[] = {"flock", file, "true", NULL};
    const char *const run[] = {command, "run", "--no-wait", "m", "--", "true", NULL};
    static series all[4];
    all[0] = (series){.what = "true, by itself", .argv = bare};
    all[1] = (series){.what = "a program with the same libraries", .argv = linked};
    all[2] = (series){.what = "flock FILE true", .argv = flock};
    all[3] = (series){.what = "simba run --no-wait m -- true", .argv = run};
    time_of(run); /* this makes the store */
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < 4; i++)
            all[i].rounds_ns[round] = time_of(all[i].argv);
    }
    double median_ns[4];
    for (size_t i = 0; i < 4; i++) {
        bench_sort(all[i].rounds_ns, (size_t)rounds);
        const int64_t median = all[i].rounds_ns[rounds / 2];
        median_ns[i] = (double)median;
        bench_add(all[i].what, median_ns[i] / 1e6, 1, "ms", BENCH_NO_GOAL, 0);
    }
    bench_add("that is, beside flock", median_ns[3] / median_ns[2], 2, "times", BENCH_AT_MOST, 2.5);
}

/* --- the drill ------------------------------------------------------------------------------------ */

/* This program itself plays both, started again. */
static void play_stubborn(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    signal(SIGTERM, SIG_IGN);
    for (;;) {
        const int64_t now_ns = bench_now_ns();
        if (pwrite(fd, &now_ns, sizeof now_ns, 0) < 0)
            _exit(1);
        bench_sleep_ms(1);
    }
}

static void play_stamp(const char *path)
{
    const int64_t now_ns = bench_now_ns();
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    _exit(pwrite(fd, &now_ns, sizeof now_ns, 0) < 0);
}

static int64_t stamp_in(const char *path)
{
    int64_t ns = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, &ns, sizeof ns) : -1;
    if (fd >= 0)
        close(fd);
    return got == (ssize_t)sizeof ns ? ns : 0;
}

static void await_stamp(const char *path)
{
    const int64_t until_ns = bench_now_ns() + PATIENCE_MS * INT64_C(1000000);
    while (stamp_in(path) == 0) {
        if (bench_now_ns() >= until_ns)
            bench_fail(path, "the command did not begin");
        bench_sleep_ms(1);
    }
}

static void exec_sql(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        bench_fail(sql, sqlite3_errmsg(db));
}

/* One repetition. Returns how long before the start of the next command the first was last seen alive; below 0: it
 * still was. */
static int64_t drill_once(sqlite3 *db, const char *old_path, const char *new_path)
{
    const char *const first[] = {command, "run", "--grace", "200ms", "m", "--", self, "stubborn", old_path, NULL};
    const char *const second[] = {command, "run", "m", "--", self, "stamp", new_path, NULL};
    unlink(old_path);
    unlink(new_path);
    const pid_t holder = start(first);
    await_stamp(old_path);
    const pid_t waiter = start(second);
    exec_sql(db, "BEGIN IMMEDIATE");
    if (finish(holder) != 79)
        bench_fail("simba run", "did not say that leadership was lost");
    exec_sql(db, "COMMIT");
    if (finish(waiter) != 0)
        bench_fail("simba run", "the next one did not get its turn");
    return stamp_in(new_path) - stamp_in(old_path);
}

static int drill(int rounds)
{
    char path[700];
    char url[800];
    char old_path[700];
    char new_path[700];
    sqlite3 *db;
    int overlaps = 0;
    int64_t least_ns = INT64_MAX;
    snprintf(path, sizeof path, "%s/drill.db", bench_temp_dir());
    snprintf(url, sizeof url, "sqlite://%s?ttl=1s&transition=1s", path);
    snprintf(old_path, sizeof old_path, "%s/old", bench_temp_dir());
    snprintf(new_path, sizeof new_path, "%s/new", bench_temp_dir());
    setenv("SIMBA_URL", url, 1);
    const char *const make_store[] = {command, "run", "m", "--", "true", NULL};
    time_of(make_store);
    if (sqlite3_open(path, &db) != SQLITE_OK)
        bench_fail(path, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 10000);
    for (int round = 0; round < rounds; round++) {
        const int64_t gap_ns = drill_once(db, old_path, new_path);
        overlaps += gap_ns <= 0;
        least_ns = gap_ns < least_ns ? gap_ns : least_ns;
    }
    sqlite3_close(db);
    bench_add("store frozen under a running command", rounds, 0, "times", BENCH_NO_GOAL, 0);
    bench_add("old command alive at the start of the next", overlaps, 0, "times", BENCH_AT_MOST, 0);
    bench_add("least time from the last breath to that", (double)least_ns / 1e6, 1, "ms", BENCH_NO_GOAL, 0);
    return bench_print("Lost-lock drill, ttl 1 s, transition 1 s, grace 200 ms, SIGTERM ignored");
}

int main(int argc, char **argv)
{
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    if (argc == 3 && strcmp(argv[1], "stubborn") == 0)
        play_stubborn(argv[2]);
    if (argc == 3 && strcmp(argv[1], "stamp") == 0)
        play_stamp(argv[2]);
    /* build/PRESET/bench/bench_run, build/PRESET/simba */
    const char *slash = strrchr(self, '/');
    snprintf(command, sizeof command, "%.*s/../simba", (int)(slash != NULL ? slash - self : 0), self);
    if (access(command, X_OK) != 0)
        bench_fail(command, "is not there");
    if (argc == 3 && strcmp(argv[1], "--drill") == 0)
        return drill((int)strtol(argv[2], NULL, 10));
    measure_wall_time(bench_wants_quick(argc, argv) ? 40 : ROUNDS_MAX / 2);
    return bench_print("A command that does nothing, wall time, median");
}
