/* See puppet.h. */
#include "lib/puppet.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <simba.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 1000000, GAP_MS = 50, LINE = 320 };

/* --- the score --------------------------------------------------------------------------------------- */

score *score_map(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(score)) == 0)
        memory = mmap(NULL, sizeof(score), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

void score_unmap(score *s)
{
    munmap(s, sizeof *s);
}

int64_t score_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- talking ----------------------------------------------------------------------------------------- */

/* Print one line in one call, so that the lines of threads do not mix. */
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char text[LINE];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text - 1, format, args);
    va_end(args);
    const size_t end = length < (int)sizeof text - 2 ? (size_t)length : sizeof text - 2;
    text[end] = '\n';
    (void)!write(STDOUT_FILENO, text, end + 1);
}

/* Read the next order for the puppet; false: no more orders will come. */
static bool hear(char line[LINE])
{
    if (!fgets(line, LINE, stdin))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* --- a contender ------------------------------------------------------------------------------------- */

static struct {
    simba_client *client;
    simba_contender *contender;
    const char *mutex;
    score *score;
    unsigned slot;
    pthread_t poller;
    pthread_mutex_t lock;
    bool leads; /* it may claim; under the lock */
    atomic_bool over;
} me = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    pthread_mutex_lock(&me.lock);
    me.leads = true;
    pthread_mutex_unlock(&me.lock);
    say("acquired %" PRIu64 " %" PRId64 " %" PRId64, state->after.token, score_now_ns(),
        simba_contender_held_for_ms(contender));
}

static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    pthread_mutex_lock(&me.lock);
    me.leads = false;
    atomic_store(&me.score->slots[me.slot].valid_until_ns, 0);
    pthread_mutex_unlock(&me.lock);
    say("released %s %" PRId64, simba_reason_name(reason), score_now_ns());
}

static void on_changed(simba_contender *contender, const simba_state *state, void *user)
{
    say("changed %s %" PRIu64, state->after.id[0] ? state->after.id : "-", state->after.token);
}

/* A lease that was looked up after `before` counts from `before`: a claim is never longer than the lease. This process
 * may be frozen at any point in here. So both claims have to hold after the look at the other one's claim. */
static void claim(int64_t before, int64_t held_ms)
{
    const int64_t until_ns = before + held_ms * 1000000;
    atomic_store(&me.score->slots[me.slot].token, simba_contender_token(me.contender));
    atomic_store(&me.score->slots[me.slot].valid_until_ns, until_ns);
    for (unsigned i = 0; i < SCORE_SLOTS; i++) {
        const int64_t other_ns = i != me.slot ? atomic_load(&me.score->slots[i].valid_until_ns) : 0;
        const int64_t now_ns = score_now_ns();
        if (until_ns > now_ns && other_ns > now_ns)
            atomic_fetch_add(&me.score->conflicts, 1);
    }
}

/* Look at our leases all the time. */
static void *look(void *arg)
{
    int64_t last = score_now_ns();
    while (!atomic_load(&me.over)) {
        pthread_mutex_lock(&me.lock);
        const int64_t before = score_now_ns();
        const int64_t held_ms = simba_contender_held_for_ms(me.contender);
        const int64_t after = score_now_ns();
        if (held_ms > 0 && me.leads)
            claim(before, held_ms);
        pthread_mutex_unlock(&me.lock);
        if (before - last > GAP_MS * INT64_C(1000000))
            say("thawed %" PRId64 " %" PRIu64 " %" PRId64, held_ms, simba_contender_token(me.contender),
                (before - last) / 1000000);
        /* The process was frozen within the look. Nobody can say on which side of it the answer came, so look again. */
        last = after - before > GAP_MS * INT64_C(1000000) ? before : after;
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
    }
    return arg;
}

static simba_stats stats(void)
{
    simba_stats now = SIMBA_STATS_INIT;
    simba_client_stats(me.client, &now);
    return now;
}

static void await_renewal(void)
{
    const uint64_t before = stats().renewals;
    const int64_t deadline = score_now_ns() + INT64_C(20000000000);
    while (stats().renewals == before && score_now_ns() < deadline)
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
    if (stats().renewals != before)
        say("renewed %" PRIu64, simba_contender_token(me.contender));
}

static void try_locker(void)
{
    simba_locker *locker = NULL;
    simba_error err = {0};
    int rc = simba_locker_new(me.client, me.mutex, NULL, &err, &locker);
    if (rc == 0)
        rc = simba_locker_acquire(locker, 0, &err);
    say("tried %s %s", simba_error_name(rc), rc == 0 ? "" : err.text);
    simba_locker_free(locker);
}

/* No file may grow, and none may be written where it has no data yet: as near to a full disk as a test gets. */
static void limit_files(bool limited)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limited ? 1 : limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    say(limited ? "limited" : "unlimited");
}

static void obey(const char *line)
{
    if (strcmp(line, "start") == 0)
        say("started %s", simba_error_name(simba_contender_start(me.contender)));
    else if (strcmp(line, "stop") == 0)
        say("stopped %s", simba_error_name(simba_contender_stop(me.contender)));
    else if (strcmp(line, "renewal") == 0)
        await_renewal();
    else if (strcmp(line, "try") == 0)
        try_locker();
    else if (strcmp(line, "errors") == 0)
        say("errors %" PRIu64, stats().errors);
    else if (strcmp(line, "limit") == 0 || strcmp(line, "unlimit") == 0)
        limit_files(line[0] == 'l');
    else
        say("what? %s", line);
}

/* URL MUTEX ID TTL TRANSITION SCORE SLOT */
static int play_contender(char **args)
{
    simba_client_options client = SIMBA_CLIENT_OPTIONS_INIT;
    client.timing.ttl_ms = strtoll(args[3], NULL, 10);
    client.timing.transition_ms = strtoll(args[4], NULL, 10);
    simba_contender_options contender = SIMBA_CONTENDER_OPTIONS_INIT;
    contender.id = strcmp(args[2], "-") == 0 ? NULL : args[2];
    contender.on_acquired = on_acquired;
    contender.on_released = on_released;
    contender.on_changed = on_changed;
    simba_error err = {0};
    me.mutex = args[1];
    me.score = score_map(args[5]);
    me.slot = (unsigned)strtoul(args[6], NULL, 10);
    if (!me.score || simba_client_open(args[0], &client, &err, &me.client) != 0 ||
        simba_contender_new(me.client, me.mutex, &contender, &err, &me.contender) != 0) {
        say("failed %s", err.text);
        return 1;
    }
    if (pthread_create(&me.poller, NULL, look, NULL) != 0)
        return 1;
    say("ready");
    char line[LINE];
    while (hear(line) && strcmp(line, "quit") != 0)
        obey(line);
    simba_contender_stop(me.contender);
    atomic_store(&me.over, true);
    pthread_join(me.poller, NULL);
    simba_contender_free(me.contender);
    simba_client_close(me.client);
    score_unmap(me.score);
    return 0;
}

/* --- the others -------------------------------------------------------------------------------------- */

/* DATABASE */
static int play_writer(char **args)
{
    static const char begin[] = "BEGIN IMMEDIATE; UPDATE simba_lock SET version = version + 1";
    sqlite3 *database = NULL;
    char line[LINE];
    bool good = sqlite3_open_v2(args[0], &database, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK;
    sqlite3_busy_timeout(database, 10000);
    say("ready");
    while (good && hear(line) && strcmp(line, "quit") != 0) {
        const bool lock = strcmp(line, "lock") == 0;
        good = sqlite3_exec(database, lock ? begin : "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK;
        say("%s", !good ? "failed" : lock ? "locked" : "unlocked");
    }
    sqlite3_close(database);
    return good ? 0 : 1;
}

/* Shift the boot-time clock by a day, as on another machine, as far as a process can tell. */
static bool shift_clock(void)
{
    static const char offset[] = "boottime 86400 0\n";
    if (unshare(CLONE_NEWTIME) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0)
        return false;
    const int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    const bool good = fd >= 0 && write(fd, offset, sizeof offset - 1) == (ssize_t)(sizeof offset - 1);
    if (fd >= 0)
        close(fd);
    return good;
}

/* Only children are in the new namespace. */
static int play_shifted(int argc, char **args)
{
    if (!shift_clock()) {
        char line[LINE];
        say("ready unshifted");
        while (hear(line) && strcmp(line, "quit") != 0)
            ;
        say("bye");
        return 0;
    }
    char self[512] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0)
        return 1;
    const pid_t child = fork();
    if (child == 0) {
        char *argv[16] = {self, (char *)"--puppet"};
        for (int i = 0; i < argc && i < 13; i++)
            argv[i + 2] = args[i];
        execv(self, argv);
        _exit(127);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* --- choosing ---------------------------------------------------------------------------------------- */

bool puppet_main(int argc, char **argv, int *ret_status)
{
    if (argc < 3 || strcmp(argv[1], "--puppet") != 0)
        return false;
    const char *role = argv[2];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* so that no test leaves one behind */
    if (strcmp(role, "shifted") == 0) {
        *ret_status = play_shifted(argc - 3, argv + 3);
        return true;
    }
    if (strcmp(role, "contender") == 0 && argc == 10)
        *ret_status = play_contender(argv + 3);
    else if (strcmp(role, "writer") == 0 && argc == 4)
        *ret_status = play_writer(argv + 3);
    else
        *ret_status = 2;
    if (*ret_status == 0)
        say("bye");
    return true;
}
