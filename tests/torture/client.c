/* client URL MUTEX ID LIFE FOLDER EPOCH SEED [broken]: one contender of the torture tests, until SIGTERM.
 *
 * It acquires the mutex, and while it holds it, adds to the register: it reads, waits a moment, and writes what nobody else writes.
 * Two that hold at once so overwrite each other's additions. Before the read and before the write it asks the library
 * whether it still holds, as an application should. "broken" does not ask: it takes the mutex to be its own for as long as it
 * meant to keep it.
 *
 * ID is c and a number, and LIFE counts the processes that had this ID before. FOLDER has the socket of the register and the two files
 * that this program adds lines to. Times are CLOCK_MONOTONIC, which all processes of a machine share, in ns since EPOCH.
 *   leases.jsonl      what this client believed about its lease: for `simba torture --judge`, see tools/torture/history.h
 *   additions.jsonl   what it did to the register: for tests/torture/porcupine
 *     begin           of an addition, after the first question, whether it holds, was answered by yes
 *     end             of it: "ok", "refused" by the register, or "abandoned" because the mutex is not ours any more */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "register.h"
#include "simba.h"
#include "torture/history.h"

#define ACQUIRE_MS 2000
#define BROKEN_HOLD_MS 8000
#define TICK_MS 20
#define MS INT64_C(1000000)
#define LATE_NS (100 * MS)           /* a tick that is later than this was held up by the machine */
#define UNTIL_MAX_NS (86400000 * MS) /* leases are not believed to be longer than a day */

static struct {
    const char *id;
    int number; /* the one in the id, less one */
    unsigned life;
    bool is_broken;
    int64_t epoch_ns;
    int leases; /* files */
    int additions;
    int store; /* the register */
    uint64_t seed;
    uint64_t operations;
    simba_client *client;
    simba_locker *lock;
} self;

static volatile sig_atomic_t is_over;

static void on_term(int number)
{
    (void)number;
    is_over = 1;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - self.epoch_ns;
}

/* splitmix64, from 0 to below - 1 */
static uint64_t draw(uint64_t below)
{
    uint64_t z = self.seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static void nap_us(uint64_t us)
{
    const struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

/* --- the two files ------------------------------------------------------------------------------ */

/* One write per line, so that lines of several processes do not mix. */
static void append(int file, const char *line, size_t length)
{
    if (write(file, line, length) != (ssize_t)length)
        abort();
}

static void tell(torture_event event)
{
    char line[TORTURE_LINE_MAX];
    event.contender = self.number;
    event.life = self.life;
    append(self.leases, line, torture_event_write(&event, line));
}

static void note(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const char *event, const char *format, ...)
{
    char line[256];
    int length = snprintf(line, sizeof line, "{\"at\":%" PRId64 ",\"who\":\"%s/%u\",\"event\":\"%s\"", now_ns(),
                          self.id, self.life, event);
    va_list args;
    va_start(args, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length, format, args);
    va_end(args);
    length += snprintf(line + length, sizeof line - (size_t)length, "}\n");
    append(self.additions, line, (size_t)length);
}

/* A thread that notes when the machine did not let this process run, and when the store failed requests: what else goes wrong then
 * has a cause. */
static void *watch(void *unused)
{
    int64_t ticked_ns = now_ns();
    uint64_t errors = 0;
    while (!is_over) {
        simba_stats stats = SIMBA_STATS_INIT;
        nap_us(TICK_MS * 1000);
        const int64_t at_ns = now_ns();
        if (at_ns - ticked_ns > LATE_NS)
            tell((torture_event){.kind = TORTURE_LATE, .at_ns = ticked_ns, .to_ns = at_ns});
        if (simba_client_stats(self.client, &stats) == 0 && stats.errors > errors) {
            tell((torture_event){.kind = TORTURE_FAILED, .at_ns = ticked_ns, .to_ns = at_ns});
            errors = stats.errors;
        }
        ticked_ns = at_ns;
    }
    return unused;
}

/* --- the register ------------------------------------------------------------------------------- */

static register_answer ask(register_verb verb, uint64_t token, uint64_t value)
{
    const register_question q = {.verb = (uint32_t)verb, .token = token, .value = value};
    register_answer a;
    if (send(self.store, &q, sizeof q, MSG_NOSIGNAL) != (ssize_t)sizeof q ||
        recv(self.store, &a, sizeof a, 0) != (ssize_t)sizeof a)
        exit(3); /* the register has gone: the test is over */
    return a;
}

/* What an application asks before it acts. The clock is read before the lease, so that the end that is noted is never later than the
 * truth, and again after it, so that nothing is claimed of the time before. */
static bool holds(uint64_t token)
{
    torture_event event = {.kind = TORTURE_HOLDS, .token = token, .at_ns = now_ns()};
    const int64_t held_ms = self.is_broken ? 1 : simba_locker_held_for_ms(self.lock);
    event.seen_ns = now_ns();
    event.to_ns = event.at_ns;
    event.until_ns = event.at_ns + (held_ms < UNTIL_MAX_NS / MS ? held_ms * MS : UNTIL_MAX_NS);
    if (held_ms > 0)
        tell(event);
    return held_ms > 0;
}

/* False when the mutex is not ours any more. */
static bool add(uint64_t token)
{
    if (!holds(token))
        return false;
    const uint64_t number = ++self.operations;
    const uint64_t value = ((uint64_t)(self.number + 1) << 48) + ((uint64_t)self.life << 32) + number;
    note("begin", ",\"op\":%" PRIu64 ",\"token\":%" PRIu64 ",\"value\":%" PRIu64, number, token, value);
    const register_answer before = ask(REGISTER_READ, token, 0);
    nap_us(draw(30000));
    const char *result = "refused";
    if (!before.is_refused) {
        if (!holds(token))
            result = "abandoned";
        else if (!ask(REGISTER_WRITE, token, value).is_refused)
            result = "ok";
    }
    note("end", ",\"op\":%" PRIu64 ",\"read\":%" PRIu64 ",\"result\":\"%s\"", number, before.value, result);
    return strcmp(result, "ok") == 0;
}

/* Mostly brief; one in four may be longer than a lease. */
static int64_t draw_hold_ms(void)
{
    return 100 + (int64_t)draw(draw(4) == 0 ? 6000 : 1000);
}

static void hold(void)
{
    const uint64_t token = simba_locker_token(self.lock);
    const int64_t until = now_ns() + (self.is_broken ? BROKEN_HOLD_MS : draw_hold_ms()) * MS;
    torture_event event = {.kind = TORTURE_RELEASED, .token = token};
    while (!is_over && now_ns() < until && add(token))
        nap_us(10000 + draw(60000));
    const simba_reason lost = simba_locker_reason(self.lock);
    const simba_reason why = lost == SIMBA_REASON_NONE ? SIMBA_REASON_STOPPED : lost;
    snprintf(event.what, sizeof event.what, "%s", simba_reason_name(why));
    event.at_ns = now_ns();
    tell(event);                           /* before anybody else can have it */
    simba_locker_release(self.lock, NULL); /* a store that cannot be told is to be expected */
}

static void contend(void)
{
    simba_error err = {0};
    const int code = simba_locker_acquire(self.lock, ACQUIRE_MS, &err);
    if (code == 0) {
        hold();
        nap_us(draw(200000));
        return;
    }
    if (code != SIMBA_ETIMEDOUT)
        fprintf(stderr, "# %" PRId64 " acquire: %s\n", now_ns(), err.text);
    if (code != SIMBA_ETIMEDOUT && code != SIMBA_EUNAVAILABLE)
        nap_us(100000);
}

/* Standard error is the log of this process: what the library has to say, and its events for simba-timeline(1). */
static void on_log(void *user, simba_log_level level, const char *text)
{
    (void)user;
    if (level == SIMBA_LOG_EVENT)
        fprintf(stderr, "%s\n", text);
    else
        fprintf(stderr, "# %" PRId64 " %s\n", now_ns(), text);
}

static int reach_register(const char *folder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/register", folder);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror(address.sun_path);
        exit(1);
    }
    return fd;
}

static int open_file(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

static void open_store(const char *url, const char *mutex)
{
    simba_error err = {0};
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_locker_options lock_options = SIMBA_LOCKER_OPTIONS_INIT;
    options.log = on_log;
    options.log_level = SIMBA_LOG_EVENT;
    lock_options.id = self.id;
    if (simba_client_open(url, &options, &err, &self.client) != 0 ||
        simba_locker_new(self.client, mutex, &lock_options, &err, &self.lock) != 0) {
        fprintf(stderr, "# %s\n", err.text);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    pthread_t watcher;
    if (argc < 8 || argv[3][0] != 'c') {
        fputs("usage: client URL MUTEX ID LIFE FOLDER EPOCH SEED [broken]\n", stderr);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    self.id = argv[3];
    self.number = (int)strtol(self.id + 1, NULL, 10) - 1;
    self.life = (unsigned)strtoul(argv[4], NULL, 10);
    self.store = reach_register(argv[5]);
    self.leases = open_file(argv[5], "leases.jsonl");
    self.additions = open_file(argv[5], "additions.jsonl");
    self.epoch_ns = strtoll(argv[6], NULL, 10);
    self.seed = strtoull(argv[7], NULL, 10);
    self.is_broken = argc > 8 && strcmp(argv[8], "broken") == 0;
    open_store(argv[1], argv[2]);
    if (pthread_create(&watcher, NULL, watch, NULL) != 0)
        return 1;

    tell((torture_event){.kind = TORTURE_CONTENDS, .at_ns = now_ns()});
    while (!is_over)
        contend();
    pthread_join(watcher, NULL);
    simba_locker_free(self.lock);
    simba_client_close(self.client);
    tell((torture_event){.kind = TORTURE_STOPPED, .at_ns = now_ns()});
    return 0;
}
