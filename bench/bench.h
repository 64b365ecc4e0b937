/* What the benchmarks share: a clock, a temporary directory, and one kind of table, so that their results can be read
 * side by side. A missed goal is a result; only a failure is an error. */
#ifndef SIMBA_BENCH_H
#define SIMBA_BENCH_H

#include <simba.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum bench_goal {
    BENCH_NO_GOAL,
    BENCH_AT_LEAST,
    BENCH_AT_MOST,
    BENCH_BELOW,
} bench_goal;

/* Read the arguments. The only one is --quick; exits on any other. */
bool bench_wants_quick(int argc, char **argv);

/* One row: what was measured, how much, with how many decimals, of which unit, and the goal if there is one. */
void bench_add(const char *what, double measured, int decimals, const char *unit, bench_goal goal, double limit);

/* Print all rows under a title. Returns 0, the exit code of a run that worked. */
int bench_print(const char *title);

/* CLOCK_BOOTTIME, which all processes of a host share. */
int64_t bench_now_ns(void);
void bench_sleep_ms(int64_t ms);

/* Sort, the smallest first. */
void bench_sort(int64_t *values, size_t count);

/* Zeroed memory that the processes share which are forked from now on. */
void *bench_shared(size_t size);

/* The processor time of this process so far. */
double bench_cpu_seconds(void);

simba_stats bench_stats(simba_client *client);
/* How often leadership was lost, for whatever reason. */
uint64_t bench_losses(const simba_stats *stats);

/* A fresh directory under $TMPDIR or /tmp, which the process that made it removes at its exit. */
const char *bench_temp_dir(void);

/* Say what broke and exit 1. */
void bench_fail(const char *what, const char *why) __attribute__((noreturn));
/* The same, unless `code` is 0 or more. */
void bench_check(int code, const char *what, const simba_error *error);

#endif
