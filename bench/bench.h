/* What the programs of bench/ share. Each prints rows, one a line, of which the columns are separated by tabs: what was measured,
 * how much, and its unit. bench/floors runs them and judges. */
#ifndef SIMBA_BENCH_H
#define SIMBA_BENCH_H

#include <simba.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read the arguments. The only one is --quick; exits on any other. */
bool bench_wants_quick(int argc, char **argv);

void bench_row(const char *what, double measured, const char *unit);

/* Say what broke and exit 1. */
void bench_fail(const char *what, const char *why) __attribute__((noreturn));
/* The same, unless `code` is 0 or more. */
void bench_check(int code, const char *what, const simba_error *error);

/* CLOCK_BOOTTIME, which all processes of a host share. */
int64_t bench_now_ns(void);
void bench_sleep_ms(int64_t ms);
/* The one in the middle; sorts them. */
double bench_median(int64_t *values, size_t count);

/* A fresh directory under $TMPDIR or /tmp, which the process that made it removes at its exit. */
const char *bench_temp_dir(void);
/* Zeroed memory that the processes share which are forked from now on. */
void *bench_shared(size_t size);

/* --- lock and unlock ---------------------------------------------------------------------------- */

/* A way to lock and unlock once, which exits if it fails. */
typedef struct bench_side {
    void (*pair)(void *user);
    void *user;
} bench_side;

/* Run all sides in turns, round by round, and set how many pairs each does in a second. The round that nine tenths were slower than
 * counts: another program on the machine slows a round down, but never speeds one up. */
void bench_take_turns(const bench_side *sides, size_t count, bool quick, double *ret_per_second);

/* A locker in a client of its own; its pair is the side of the library. */
typedef struct bench_locker {
    simba_client *client;
    simba_locker *locker;
} bench_locker;

bench_locker bench_locker_open(const char *url, const char *mutex);
void bench_locker_close(bench_locker *locker);
void bench_locker_pair(void *locker);

/* --- many contenders ---------------------------------------------------------------------------- */

/* One client with a contender for each of many mutexes. */
typedef struct bench_crowd {
    simba_client *client;
    simba_contender **all;
    size_t size;
} bench_crowd;

/* Start contenders for the mutexes "of-0", "of-1", … */
bench_crowd bench_crowd_start(const char *url, const char *of, size_t size, int64_t ttl_ms, int64_t transition_ms);
/* Wait until all are held; false: not within a minute. */
bool bench_crowd_await_held(const bench_crowd *crowd);
simba_stats bench_crowd_stats(const bench_crowd *crowd);
void bench_crowd_end(bench_crowd *crowd);

#endif
