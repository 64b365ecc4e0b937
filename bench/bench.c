/* See bench.h. */
#include "bench.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define ROWS_MAX 48
#define COLUMNS 4

typedef struct row {
    char cells[COLUMNS][64];
} row;

static row rows[ROWS_MAX] = {{{"what", "measured", "goal", "verdict"}}};
static size_t row_count = 1;
static char temp_dir[512];
static pid_t temp_dir_owner;

bool bench_wants_quick(int argc, char **argv)
{
    if (argc == 1)
        return false;
    if (argc == 2 && strcmp(argv[1], "--quick") == 0)
        return true;
    fprintf(stderr, "Usage: %s [--quick]\n", argv[0]);
    exit(64);
}

/* --- the table ---------------------------------------------------------------------------------- */

/* "1234567.8" as "1,234,567.8". */
static void format_number(double value, int decimals, char *ret_text, size_t size)
{
    char plain[40];
    const int length = snprintf(plain, sizeof plain, "%.*f", decimals, value);
    const int whole = length - (decimals > 0 ? decimals + 1 : 0);
    size_t at = 0;
    for (int i = 0; i < length && at + 2 < size; i++) {
        const bool after_digit = i > 0 && plain[i - 1] != '-';
        if (i < whole && after_digit && (whole - i) % 3 == 0)
            ret_text[at++] = ',';
        ret_text[at++] = plain[i];
    }
    ret_text[at] = '\0';
}

static bool is_met(double measured, bench_goal goal, double limit)
{
    switch (goal) {
    case BENCH_AT_LEAST:
        return measured >= limit;
    case BENCH_AT_MOST:
        return measured <= limit;
    case BENCH_BELOW:
        return measured < limit;
    case BENCH_NO_GOAL:
        break;
    }
    return true;
}

void bench_add(const char *what, double measured, int decimals, const char *unit, bench_goal goal, double limit)
{
    static const char *const signs[] = {"", ">=", "<=", "<"};
    char number[48];
    if (row_count == ROWS_MAX)
        bench_fail(what, "the table is full");
    row *r = &rows[row_count++];
    const char *space = unit[0] != '\0' ? " " : "";
    format_number(measured, decimals, number, sizeof number);
    snprintf(r->cells[0], sizeof r->cells[0], "%s", what);
    snprintf(r->cells[1], sizeof r->cells[1], "%s%s%s", number, space, unit);
    if (goal == BENCH_NO_GOAL)
        return;
    format_number(limit, limit == (double)(int64_t)limit ? 0 : 2, number, sizeof number);
    snprintf(r->cells[2], sizeof r->cells[2], "%s %s%s%s", signs[goal], number, space, unit);
    snprintf(r->cells[3], sizeof r->cells[3], "%s", is_met(measured, goal, limit) ? "met" : "missed");
}

int bench_print(const char *title)
{
    int widths[COLUMNS] = {0};
    for (size_t i = 0; i < row_count; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            const int length = (int)strlen(rows[i].cells[c]);
            widths[c] = length > widths[c] ? length : widths[c];
        }
    }
    printf("%s\n\n", title);
    for (size_t i = 0; i < row_count; i++) {
        const row *r = &rows[i];
        printf("  %-*s  %*s", widths[0], r->cells[0], widths[1], r->cells[1]);
        if (r->cells[2][0] != '\0')
            printf("  %*s  %s", widths[2], r->cells[2], r->cells[3]);
        printf("\n");
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

/* --- time --------------------------------------------------------------------------------------- */

int64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void bench_sleep_ms(int64_t ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static int by_value(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

void bench_sort(int64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
}

/* --- processes and clients ---------------------------------------------------------------------- */

void *bench_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_fail("shared memory", "refused");
    return memory;
}

double bench_cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

simba_stats bench_stats(simba_client *client)
{
    simba_stats stats = SIMBA_STATS_INIT;
    bench_check(simba_client_stats(client, &stats), "stats", NULL);
    return stats;
}

uint64_t bench_losses(const simba_stats *stats)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < sizeof stats->losses / sizeof stats->losses[0]; i++)
        lost += stats->losses[i];
    return lost;
}

/* --- files -------------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static void remove_temp_dir(void)
{
    if (getpid() == temp_dir_owner)
        nftw(temp_dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *bench_temp_dir(void)
{
    if (temp_dir_owner != 0)
        return temp_dir;
    const char *tmp = getenv("TMPDIR");
    snprintf(temp_dir, sizeof temp_dir, "%s/simba-bench-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(temp_dir) == NULL)
        bench_fail("temporary directory", temp_dir);
    temp_dir_owner = getpid();
    atexit(remove_temp_dir);
    return temp_dir;
}

/* --- errors ------------------------------------------------------------------------------------- */

void bench_fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

void bench_check(int code, const char *what, const simba_error *error)
{
    if (code >= 0)
        return;
    bench_fail(what, error != NULL && error->text[0] != '\0' ? error->text : simba_error_text(code));
}
