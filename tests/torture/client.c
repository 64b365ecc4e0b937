/* client URL MUTEX ID LIFE REGISTER HISTORY SEED [broken]: one contender of the torture tests, until SIGTERM.
 *
 * It acquires the mutex, and while it holds it, adds to the register: it reads, waits a moment, and writes what nobody else writes.
 * Two that hold at once so overwrite each other's additions. Before the read and before the write it asks the library
 * whether it still holds, as an application should. "broken" does not ask: it takes the mutex to be its own for as long as it
 * meant to keep it.
 *
 * Every line of the history is one write to a file opened with O_APPEND. Times are CLOCK_MONOTONIC in ns, the same for all
 * processes of the machine. LIFE tells the processes apart that had the same ID one after the other.
 *   acquired   after the library has said that the mutex is ours
 *   begin      of an addition; taken before the question whether we hold was asked, which was answered by yes
 *   end        of it: "ok", "refused" by the register, or "abandoned" because we do not hold any more
 *   ended      the mutex is not ours any more, and why: the name of a simba_reason
 *   failed     acquire returned an error */
#include <fcntl.h>
#include <inttypes.h>
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

#define ACQUIRE_MS 2000
#define BROKEN_HOLD_MS 8000

static struct {
    const char *id;
    unsigned life;
    bool is_broken;
    int history;
    int store; /* the register */
    uint64_t seed;
    uint64_t operations;
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
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
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

static void note(int64_t at, const char *event, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void note(int64_t at, const char *event, const char *format, ...)
{
    char line[256];
    int length = snprintf(line, sizeof line, "{\"at\":%" PRId64 ",\"who\":\"%s/%u\",\"event\":\"%s\"", at, self.id,
                          self.life, event);
    va_list args;
    va_start(args, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length, format, args);
    va_end(args);
    length += snprintf(line + length, sizeof line - (size_t)length, "}\n");
    if (write(self.history, line, (size_t)length) != length)
        abort();
}

static register_answer ask(register_verb verb, uint64_t token, uint64_t value)
{
    const register_question q = {.verb = (uint32_t)verb, .token = token, .value = value};
    register_answer a;
    if (send(self.store, &q, sizeof q, MSG_NOSIGNAL) != (ssize_t)sizeof q ||
        recv(self.store, &a, sizeof a, 0) != (ssize_t)sizeof a)
        exit(3); /* the register has gone: the test is over */
    return a;
}

static bool holds(const simba_locker *lock)
{
    return self.is_broken || simba_locker_held_for_ms(lock) > 0;
}

/* False when the mutex is not ours any more. */
static bool add(const simba_locker *lock, uint64_t token)
{
    const int64_t begun = now_ns();
    if (!holds(lock))
        return false;
    const uint64_t number = ++self.operations;
    const uint64_t value = (strtoull(self.id + 1, NULL, 10) << 48) + ((uint64_t)self.life << 32) + number;
    note(begun, "begin", ",\"op\":%" PRIu64 ",\"token\":%" PRIu64 ",\"value\":%" PRIu64, number, token, value);
    const register_answer before = ask(REGISTER_READ, token, 0);
    nap_us(draw(3000));
    const char *result = "refused";
    if (!before.is_refused) {
        if (!holds(lock))
            result = "abandoned";
        else if (!ask(REGISTER_WRITE, token, value).is_refused)
            result = "ok";
    }
    note(now_ns(), "end", ",\"op\":%" PRIu64 ",\"read\":%" PRIu64 ",\"result\":\"%s\"", number, before.value, result);
    return strcmp(result, "ok") == 0;
}

/* Mostly brief; one in four may be longer than a lease. */
static int64_t draw_hold_ms(void)
{
    return 100 + (int64_t)draw(draw(4) == 0 ? 6000 : 1000);
}

static void hold(simba_locker *lock)
{
    const uint64_t token = simba_locker_token(lock);
    const int64_t until = now_ns() + (self.is_broken ? BROKEN_HOLD_MS : draw_hold_ms()) * 1000000;
    note(now_ns(), "acquired", ",\"token\":%" PRIu64, token);
    while (!is_over && now_ns() < until && add(lock, token))
        nap_us(10000 + draw(60000));
    simba_locker_release(lock, NULL); /* what it says, the reason says, too */
    note(now_ns(), "ended", ",\"token\":%" PRIu64 ",\"reason\":\"%s\"", token,
         simba_reason_name(simba_locker_reason(lock)));
}

static void contend(simba_locker *lock)
{
    simba_error err = {0};
    const int code = simba_locker_acquire(lock, ACQUIRE_MS, &err);
    if (code == 0) {
        hold(lock);
        nap_us(draw(200000));
        return;
    }
    note(now_ns(), "failed", ",\"code\":\"%s\"", simba_error_name(code));
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

static int reach(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    if (argc < 8) {
        fputs("usage: client URL MUTEX ID LIFE REGISTER HISTORY SEED [broken]\n", stderr);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    self.id = argv[3];
    self.life = (unsigned)strtoul(argv[4], NULL, 10);
    self.store = reach(argv[5]);
    self.history = open(argv[6], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    self.seed = strtoull(argv[7], NULL, 10);
    self.is_broken = argc > 8 && strcmp(argv[8], "broken") == 0;

    simba_error err = {0};
    simba_client *client = NULL;
    simba_locker *lock = NULL;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_locker_options lock_options = SIMBA_LOCKER_OPTIONS_INIT;
    options.log = on_log;
    options.log_level = SIMBA_LOG_EVENT;
    lock_options.id = self.id;
    if (simba_client_open(argv[1], &options, &err, &client) != 0 ||
        simba_locker_new(client, argv[2], &lock_options, &err, &lock) != 0) {
        fprintf(stderr, "# %s\n", err.text);
        return 1;
    }
    while (!is_over)
        contend(lock);
    simba_locker_free(lock);
    simba_client_close(client);
    return 0;
}
