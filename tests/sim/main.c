/* simba-sim: simulated runs by the million. For a seed that breaks a promise it prints the command that replays it,
 * the smallest scenario that still breaks it, and a timeline. */
#include <getopt.h>
#include <inttypes.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/explore.h"
#include "sim/report.h"
#include "sim/scenarios.h"
#include "sim/sim.h"

#define JOBS_MAX 256

/* The museum: see tests/sim/exhibits. simba-sim has the code that ships, and no switches in it; simba-museum has them. */
#ifdef SIM_EXHIBITS
int sim_exhibit; /* on show, from 1 on; 0: none */
static const struct {
    const char *name, *what;
    char *const *find;
} exhibits[] = {
#include "exhibits.inc"
};
#endif

#define ALL_STORES ((1U << SIM_STORES) - 1)
#define MODELS ((1U << SIM_STORE_REDIS) - 1)

static const char usage[] =
    "usage: simba-sim [OPTION...]\n"
    "Runs the protocol of simba in simulated processes, against models of the stores, under "
    "faults that are drawn from a\n"
    "seed, and checks every promise after every step. One seed is one run per store.\n"
    "\n"
    "  --seeds N        how many seeds (1000)\n"
    "  --first N        the first of them (1)\n"
    "  --seed N         just this one, and tell all about it\n"
    "  --store KIND     push, poll or session, which are models, or those three (models); redis,\n"
    "                   zookeeper, sql, postgresql, etcd or kubernetes: the code of the store itself;\n"
    "                   or all.\n"
    "                   redis-single, redis-sentinel and redis-cluster: those seeds of redis that have\n"
    "                   such servers\n"
    "  --jobs N         how many threads (1)\n"
    "  --broken WHAT    break an assumption, drift or lost-writes, and expect to find out\n"
    "  --trace          print the event log of --seed, in the format of `simba timeline`\n"
    "  --servers        the same with what the model servers do, as comments\n"
    "  --svg FILE       draw --seed, or the first seed that breaks a promise (simba-sim-SEED-STORE.svg)\n"
    "  --explore        not seeds: every interleaving of a few contenders of one mutex, within bounds, on\n"
    "                   the models of stores\n"
    "  --bounds LIST    for --explore, such as losses=2,kills=0: contenders, tick (in ms), ttl, transition, margin\n"
    "                   and limit (in ticks), losses, kills, starts, stops, forces, pauses, delays, drift (0\n"
    "                   or 1)\n"
    "  --promise S1     for --explore: look for breaks of this promise alone\n"
    "  --exhibit NAME   run one of the famous faults of docs/museum.md: a promise must break; list: their names\n"
    "  --scenario NAME  draw fail-over or outage, the pictures of docs/safety.md, on standard output\n"
    "  --help           this text\n"
    "\n"
    "Exit status: 0 all promises were kept (with --broken: one was broken, and the tokens "
    "told), 1 not, 64 wrong usage.\n";

typedef struct options {
    uint64_t first;
    uint64_t seeds;
    unsigned stores;     /* bits */
    unsigned topologies; /* of Redis, bits; 0: all */
    unsigned jobs;
    sim_broken broken;
    bool single;
    bool explore;
    const char *bounds;
    bool trace;
    bool servers;
    const char *svg;
    const char *exhibit;
    const char *promise;
} options;

/* The data that the threads share. */
typedef struct campaign {
    const options *o;
    _Atomic uint64_t next;
    pthread_mutex_t lock;
    uint64_t runs, events, broken, exposed;
    bool blind; /* tokens should have told two holders apart, and did not */
    double contender_hours;
    bool told;
} campaign;

static bool is_hit(const options *o, const sim_verdict *verdict)
{
    return o->broken == SIM_SOUND ? verdict->promise != NULL : verdict->two;
}

static void look_at_seed(campaign *c, sim *s, uint64_t seed)
{
    for (int store = 0; store < SIM_STORES; store++) {
        if (!(c->o->stores & 1U << store) || !sim_has_store((sim_store_kind)store))
            continue;
        sim_plan plan;
        sim_verdict verdict;
        sim_plan_draw(&plan, seed, (sim_store_kind)store, c->o->broken);
        if (c->o->topologies && !(c->o->topologies & 1U << plan.topology))
            continue;
        sim_run(s, &plan, NULL, &verdict);
        const bool hit = is_hit(c->o, &verdict);
        pthread_mutex_lock(&c->lock);
        c->runs++;
        c->events += verdict.events;
        c->contender_hours += (double)verdict.contender_ns / 3.6e12;
        c->broken += hit;
        c->exposed += hit && verdict.exposed;
        c->blind |= hit && !verdict.exposed && sim_has_tokens((sim_store_kind)store, c->o->broken);
        const bool tell = hit && !c->told;
        c->told |= hit;
        pthread_mutex_unlock(&c->lock);
        if (tell)
            sim_report(s, &plan, &verdict, c->o->svg, stdout);
    }
}

static void *work(void *arg)
{
    campaign *c = arg;
    sim *s = sim_new();
    for (;;) {
        const uint64_t n = atomic_fetch_add(&c->next, 1);
        if (n >= c->o->seeds || (c->told && c->o->broken == SIM_SOUND))
            break;
        look_at_seed(c, s, c->o->first + n);
    }
    sim_free(s);
    return NULL;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int run(const options *o)
{
    campaign c = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread[JOBS_MAX];
    const double begin = seconds();
    for (unsigned i = 0; i < o->jobs; i++)
        if (pthread_create(&thread[i], NULL, work, &c) != 0)
            abort();
    for (unsigned i = 0; i < o->jobs; i++)
        pthread_join(thread[i], NULL);
    const double took = seconds() - begin;
    printf("%" PRIu64 " runs, %" PRIu64
           " events, %.0f contender-hours in %.1f s on %u thread%s: %.0f contender-hours per "
           "minute\n",
           c.runs, c.events, c.contender_hours, took, o->jobs, o->jobs == 1 ? "" : "s", c.contender_hours / took * 60);
    if (o->broken == SIM_SOUND) {
        printf(c.broken ? "a promise was broken\n" : "all promises were kept\n");
        return c.broken != 0;
    }
    printf("two held at once in %" PRIu64 " of the runs, and fencing tokens told them apart in %" PRIu64 " of those\n",
           c.broken, c.exposed);
    return c.broken == 0 || c.blind;
}

static int run_single(const options *o)
{
    sim *s = sim_new();
    int rc = 0;
    for (int store = 0; store < SIM_STORES; store++) {
        sim_plan plan;
        sim_verdict verdict;
        if (!(o->stores & 1U << store) || !sim_has_store((sim_store_kind)store))
            continue;
        sim_plan_draw(&plan, o->first, (sim_store_kind)store, o->broken);
        plan.tell_servers = o->servers;
        sim_run(s, &plan, o->trace ? stdout : NULL, &verdict);
        rc |= is_hit(o, &verdict);
        if (!o->trace)
            sim_report(s, &plan, &verdict, o->svg, stdout);
    }
    sim_free(s);
    return rc;
}

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "simba-sim: %s \"%s\"; see simba-sim --help\n", what, value);
    return 64;
}

static int run_explore(const options *o)
{
    static const explore_store stores[] = {
        [SIM_STORE_PUSH] = EXPLORE_PUSH, [SIM_STORE_POLL] = EXPLORE_POLL, [SIM_STORE_SESSION] = EXPLORE_SESSION};
    bool is_fine = true;
    for (unsigned i = 0; i < sizeof stores / sizeof *stores; i++) {
        explore_bounds bounds;
        if (!(o->stores & 1U << i))
            continue;
        explore_default(stores[i], &bounds);
        bounds.jobs = o->jobs;
        bounds.only = o->promise;
        if (o->bounds && !explore_parse(o->bounds, &bounds))
            return wrong("not understood:", o->bounds);
        is_fine &= explore_and_tell(&bounds, o->svg, stdout);
    }
    return !is_fine;
}

static bool number(const char *text, uint64_t low, uint64_t high, uint64_t *ret_number)
{
    char *end;
    *ret_number = strtoull(text, &end, 10);
    return end != text && *end == '\0' && *ret_number >= low && *ret_number <= high;
}

static bool store_bits(const char *text, unsigned *ret_bits, unsigned *ret_topologies)
{
    *ret_topologies = 0;
    for (unsigned i = 0; i < SIM_TOPOLOGIES; i++)
        if (strcmp(text, sim_topology_name((sim_topology)i)) == 0) {
            *ret_topologies = 1U << i;
            *ret_bits = 1U << SIM_STORE_REDIS;
            return true;
        }
    *ret_bits = strcmp(text, "all") == 0 ? ALL_STORES : strcmp(text, "models") == 0 ? MODELS : 0;
    for (unsigned i = 0; i < SIM_STORES; i++)
        *ret_bits |= strcmp(text, sim_store_name((sim_store_kind)i)) == 0 ? 1U << i : 0;
    return *ret_bits != 0;
}

static int parse(int argc, char **argv, options *o)
{
    static const struct option longs[] = {
        {"seeds", required_argument, NULL, 'n'},   {"first", required_argument, NULL, 'f'},
        {"seed", required_argument, NULL, 's'},    {"store", required_argument, NULL, 'k'},
        {"jobs", required_argument, NULL, 'j'},    {"broken", required_argument, NULL, 'b'},
        {"trace", no_argument, NULL, 't'},         {"servers", no_argument, NULL, 'v'},
        {"svg", required_argument, NULL, 'g'},     {"scenario", required_argument, NULL, 'y'},
        {"exhibit", required_argument, NULL, 'e'}, {"promise", required_argument, NULL, 'p'},
        {"explore", no_argument, NULL, 'x'},       {"bounds", required_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    uint64_t jobs = 1;
    for (int option; (option = getopt_long(argc, argv, "", longs, NULL)) >= 0;) {
        bool good = true;
        switch (option) {
        case 'n':
            good = number(optarg, 1, UINT64_MAX / 4, &o->seeds);
            break;
        case 's':
            o->single = true;
            good = number(optarg, 0, UINT64_MAX / 4, &o->first);
            break;
        case 'f':
            good = number(optarg, 0, UINT64_MAX / 4, &o->first);
            break;
        case 'k':
            good = store_bits(optarg, &o->stores, &o->topologies);
            break;
        case 'j':
            good = number(optarg, 1, JOBS_MAX, &jobs);
            break;
        case 'b':
            o->broken = strcmp(optarg, "drift") == 0 ? SIM_BROKEN_DRIFT : SIM_BROKEN_LOST_WRITES;
            good = o->broken == SIM_BROKEN_DRIFT || strcmp(optarg, "lost-writes") == 0;
            break;
        case 't':
            o->trace = true;
            break;
        case 'v':
            o->trace = o->servers = true;
            break;
        case 'g':
            o->svg = optarg;
            break;
        case 'p':
            o->promise = optarg;
            break;
        case 'e':
            o->exhibit = optarg;
            break;
        case 'x':
            o->explore = true;
            break;
        case 'l':
            o->bounds = optarg;
            break;
        case 'y':
            return sim_draw_scenario(optarg, stdout) ? 0 : wrong("there is no scenario", optarg);
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            return 64;
        }
        if (!good)
            return wrong("not understood:", optarg);
    }
    o->jobs = (unsigned)jobs;
    if (optind < argc)
        return wrong("one argument too many:", argv[optind]);
    return -1;
}

static int look(const options *o)
{
    return o->explore ? run_explore(o) : o->single ? run_single(o) : run(o);
}

#ifdef SIM_EXHIBITS
/* Look where the exhibit says. 0: the promise is broken. */
static int run_exhibit(options *o, char **argv)
{
    size_t at = 0;
    const size_t count = sizeof exhibits / sizeof *exhibits;
    while (at < count && strcmp(exhibits[at].name, o->exhibit) != 0)
        at++;
    for (size_t i = 0; i < count && strcmp(o->exhibit, "list") == 0; i++)
        printf("%-22s %s\n", exhibits[i].name, exhibits[i].what);
    if (at == count)
        return strcmp(o->exhibit, "list") == 0 ? 0 : wrong("there is no exhibit", o->exhibit);
    char *line[16] = {argv[0]};
    int words = 1;
    printf("%s\nwithout the fault: simba-sim", exhibits[at].what);
    for (char *const *word = exhibits[at].find; *word; word++) {
        printf(" %s", *word);
        line[words++] = *word;
    }
    printf("\n");
    sim_exhibit = (int)at + 1;
    optind = 1;
    const int rc = parse(words, line, o);
    return rc >= 0 ? rc : look(o) == 0;
}
#else
static int run_exhibit(const options *o, char **argv)
{
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "simba-museum");
    path[length > 0 ? length : 0] = '\0';
    char *name = strrchr(path, '/');
    if (name)
        execv(strcpy(name + 1, "simba-museum") - (name + 1 - path), argv);
    return wrong("there is no simba-museum beside this program for", o->exhibit);
}
#endif

int main(int argc, char **argv)
{
    options o = {.first = 1, .seeds = 1000, .stores = ALL_STORES};
    setlocale(LC_CTYPE, "");
    const int rc = parse(argc, argv, &o);
    if (rc >= 0)
        return rc;
    return o.exhibit ? run_exhibit(&o, argv) : look(&o);
}
