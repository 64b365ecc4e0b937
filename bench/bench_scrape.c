/* What does it cost a process that holds 100,000 mutexes to be scraped, and do its renewals notice? The store is
 * $SIMBA_URL, by default the one in memory. That one answers at once, so only the library's own work can be disturbed.
 *
 * Rounds without and with scraping take turns, so that a neighbour on the machine disturbs both alike. In a round with
 * scraping there are a hundred scrapes a second, a thousand times as many as usual. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

enum {
    HELD = 100000,
    ROUNDS = 2, /* of each kind */
    TTL_MS = 10000,
    ROUND_MS = TTL_MS, /* so that each round renews every lease once */
    PAUSE_MS = 10,
    SCRAPES_MAX = 2 * ROUNDS * ROUND_MS / PAUSE_MS,
};

static simba_client *client;
static int64_t took_ns[SCRAPES_MAX];
static size_t scrapes;

/* What the renewals in the rounds of one kind were like. */
typedef struct tally {
    uint64_t count, failed, sum_ns, lost;
    uint64_t buckets[SIMBA_HISTOGRAM_BUCKETS];
} tally;

/* What an HTTP handler does. */
static void scrape(void)
{
    static char text[1 << 16];
    const int64_t begun_ns = bench_now_ns();
    const simba_stats stats = bench_stats(client);
    const simba_stats *const all[] = {&stats};
    const int length = simba_stats_write(all, NULL, 1, 0, text, sizeof text);
    if (length <= 0 || (size_t)length >= sizeof text)
        bench_fail("scrape", "the text does not fit");
    if (scrapes < SCRAPES_MAX)
        took_ns[scrapes++] = bench_now_ns() - begun_ns;
}

static void run_round(bool is_scraped, int64_t ms, tally *t)
{
    const simba_stats before = bench_stats(client);
    const int64_t end_ns = bench_now_ns() + ms * 1000000;
    while (bench_now_ns() < end_ns) {
        if (is_scraped)
            scrape();
        bench_sleep_ms(PAUSE_MS);
    }
    const simba_stats after = bench_stats(client);
    t->count += after.renewals - before.renewals;
    t->failed += after.renewals_failed - before.renewals_failed;
    t->sum_ns += after.renew.sum_ns - before.renew.sum_ns;
    t->lost += bench_losses(&after) - bench_losses(&before);
    for (unsigned i = 0; i < SIMBA_HISTOGRAM_BUCKETS; i++)
        t->buckets[i] += after.renew.buckets[i] - before.renew.buckets[i];
}

/* The time within which 99 % of the renewals were answered. */
static double slow_ms(const tally *t)
{
    uint64_t seen = 0;
    unsigned bucket = 0;
    for (; bucket + 1 < SIMBA_HISTOGRAM_BUCKETS; bucket++) {
        seen += t->buckets[bucket];
        if (seen * 100 >= t->count * 99)
            break;
    }
    return (double)simba_histogram_bound_ns(bucket) / 1e6;
}

static void hold(int count)
{
    for (int i = 0; i < count; i++) {
        simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
        simba_contender *contender = NULL;
        simba_error error = {0, ""};
        char name[32];
        snprintf(name, sizeof name, "scraped-%06d", i);
        options.timing.ttl_ms = TTL_MS;
        options.timing.transition_ms = 20000;
        bench_check(simba_contender_new(client, name, &options, &error, &contender), "contender", &error);
        bench_check(simba_contender_start(contender), "start", NULL);
    }
    while (bench_stats(client).held < (uint64_t)count)
        bench_sleep_ms(20);
}

static void add_kind(const char *kind, const tally *t, double seconds)
{
    char what[80];
    snprintf(what, sizeof what, "renewals a second, %s", kind);
    bench_add(what, (double)t->count / seconds, 0, "", BENCH_NO_GOAL, 0);
    snprintf(what, sizeof what, "renewals that failed, %s", kind);
    bench_add(what, (double)t->failed, 0, "", BENCH_AT_MOST, 0);
    snprintf(what, sizeof what, "leaderships lost, %s", kind);
    bench_add(what, (double)t->lost, 0, "", BENCH_AT_MOST, 0);
    snprintf(what, sizeof what, "answer to a renewal, mean, %s", kind);
    bench_add(what, t->count > 0 ? (double)t->sum_ns / (double)t->count / 1e3 : 0, 1, "µs", BENCH_NO_GOAL, 0);
    snprintf(what, sizeof what, "99 %% are answered within, %s", kind);
    bench_add(what, slow_ms(t), 2, "ms", BENCH_NO_GOAL, 0);
}

int main(int argc, char **argv)
{
    const bool quick = bench_wants_quick(argc, argv);
    const int count = quick ? HELD / 10 : HELD;
    const int rounds = quick ? 1 : ROUNDS;
    const char *url = getenv("SIMBA_URL");
    tally quiet = {0};
    tally scraped = {0};
    simba_error error = {0, ""};
    bench_check(simba_client_open(url != NULL ? url : "memory://scrape", NULL, &error, &client), "open", &error);
    hold(count);
    for (int i = 0; i < rounds; i++) {
        run_round(false, ROUND_MS, &quiet);
        run_round(true, ROUND_MS, &scraped);
    }
    bench_sort(took_ns, scrapes);
    const size_t middle = scrapes / 2;
    const size_t late = scrapes * 99 / 100;
    bench_add("one scrape, median", (double)took_ns[middle] / 1e6, 3, "ms", BENCH_BELOW, 50);
    bench_add("one scrape, 99 %", (double)took_ns[late] / 1e6, 3, "ms", BENCH_BELOW, 50);
    bench_add("one scrape, longest", (double)took_ns[scrapes - 1] / 1e6, 3, "ms", BENCH_NO_GOAL, 0);
    const double seconds = rounds * ROUND_MS / 1000.0;
    add_kind("quiet", &quiet, seconds);
    add_kind("scraped", &scraped, seconds);
    char title[100];
    snprintf(title, sizeof title, "Scraping with %d mutexes held, %zu scrapes", count, scrapes);
    return bench_print(title);
}
