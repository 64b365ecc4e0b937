/* See support.h. */
#include "support.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WATCHDOG_S = 40, NOTES_MAX = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static unsigned notes;
static unsigned tests;
static char url[64];
static struct player *players;

/* --- tests -------------------------------------------------------------------------------------- */

static void bark(int number)
{
    static const char text[] = "\nBail out! a call of the library does not return\n";
    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    _exit(70);
}

int test_setup(void **state)
{
    if (tests++ == 0) {
        pthread_condattr_t attr;
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&changed, &attr);
        pthread_condattr_destroy(&attr);
        signal(SIGALRM, bark);
    }
    snprintf(url, sizeof url, "memory://test-%u", tests);
    notes = 0;
    alarm(WATCHDOG_S);
    return 0;
}

int test_teardown(void **state)
{
    alarm(0);
    board_lock();
    const unsigned noted = notes;
    board_unlock();
    return noted == 0 ? 0 : -1;
}

void note_failure(const char *file, int line, const char *text)
{
    board_lock();
    if (notes++ < NOTES_MAX)
        fprintf(stderr, "%s:%d: not so: %s\n", file, line, text);
    board_unlock();
}

/* --- the board ---------------------------------------------------------------------------------- */

int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void board_lock(void)
{
    pthread_mutex_lock(&lock);
}

void board_unlock(void)
{
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

bool board_wait(int64_t deadline_ms)
{
    enum { MOMENT_MS = 5 };
    const int64_t now = now_ms();
    if (now >= deadline_ms)
        return false;
    const int64_t until = deadline_ms - now < MOMENT_MS ? deadline_ms : now + MOMENT_MS;
    const struct timespec at = {(time_t)(until / 1000), (long)(until % 1000 * 1000000)};
    pthread_cond_timedwait(&changed, &lock, &at);
    return true;
}

void latch_await(struct latch *latch)
{
    board_lock();
    latch->waiting++;
    board_unlock();
    EXPECT(WITHIN(TIMEOUT_MS, latch->open));
    board_lock();
    latch->waiting--;
    board_unlock();
}

void latch_open(struct latch *latch)
{
    board_lock();
    latch->open = true;
    board_unlock();
}

static void *run(void *arg)
{
    struct runner *runner = arg;
    runner->run(runner->arg);
    board_lock();
    runner->done = true;
    board_unlock();
    return NULL;
}

void runner_start(struct runner *runner, void (*function)(void *arg), void *arg)
{
    runner->run = function;
    runner->arg = arg;
    runner->done = false;
    assert_int_equal(0, pthread_create(&runner->thread, NULL, run, runner));
}

void runner_join(struct runner *runner)
{
    AWAIT(runner->done);
    pthread_join(runner->thread, NULL);
}

/* --- clients ------------------------------------------------------------------------------------ */

const char *store_url(void)
{
    return url;
}

simba_client *client_open(const simba_client_options *options)
{
    simba_client *client = NULL;
    simba_error err = {0};
    if (simba_client_open(url, options, &err, &client) != 0)
        fail_msg("cannot open %s: %s", url, err.text);
    return client;
}

simba_client *client_open_form(simba_dispatch form)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.dispatch = form;
    return client_open(&options);
}

void client_close(simba_client *client)
{
    assert_rc(0, simba_client_close(client));
}

void client_cleanup(simba_client **client)
{
    client_close(*client);
}

simba_stats client_stats(simba_client *client)
{
    simba_stats stats = SIMBA_STATS_INIT;
    EXPECT(simba_client_stats(client, &stats) == 0);
    return stats;
}

static void note_owned(const simba_listing *listing, void *user)
{
    *(bool *)user |= !simba_owner_is_none(listing->owner);
}

bool is_owned(simba_client *client, const char *mutex)
{
    bool owned = false;
    EXPECT(simba_client_list(client, mutex, note_owned, &owned, NULL) == 0);
    return owned;
}

simba_timing lease(int64_t ttl_ms, int64_t transition_ms)
{
    simba_timing timing = SIMBA_TIMING_INHERIT;
    timing.ttl_ms = ttl_ms;
    timing.transition_ms = transition_ms;
    return timing;
}

unsigned entries_of(const char *directory)
{
    unsigned count = 0;
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* --- executors ---------------------------------------------------------------------------------- */

struct job {
    struct job *next;
    void (*run)(void *arg);
    void *arg;
};

static void execute(void *user, void (*function)(void *arg), void *arg)
{
    struct executor *executor = user;
    struct job *job = calloc(1, sizeof *job);
    job->run = function;
    job->arg = arg;
    board_lock();
    *executor->last = job;
    executor->last = &job->next;
    executor->given++;
    struct latch *latch = executor->blocks;
    executor->blocks = NULL;
    board_unlock();
    if (latch)
        latch_await(latch);
}

simba_client *client_open_executor(struct executor *executor)
{
    memset(executor, 0, sizeof *executor);
    executor->last = &executor->first;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.dispatch = SIMBA_DISPATCH_EXECUTOR;
    options.executor = execute;
    options.executor_user = executor;
    return client_open(&options);
}

bool executor_run(struct executor *executor)
{
    board_lock();
    struct job *job = executor->first;
    if (job) {
        executor->first = job->next;
        if (!executor->first)
            executor->last = &executor->first;
        executor->taken++;
    }
    board_unlock();
    if (!job)
        return false;
    job->run(job->arg);
    free(job);
    return true;
}

static void work_off(void *arg)
{
    struct executor *executor = arg;
    for (bool over = false; !over;) {
        EXPECT(WITHIN(2 * TIMEOUT_MS, executor->first || executor->over));
        while (executor_run(executor)) {
        }
        board_lock();
        over = executor->over;
        board_unlock();
    }
}

void executor_start(struct executor *executor)
{
    for (size_t i = 0; i < COUNT_OF(executor->workers); i++)
        runner_start(&executor->workers[i], work_off, executor);
}

void executor_end(struct executor *executor)
{
    board_lock();
    executor->over = true;
    board_unlock();
    for (size_t i = 0; i < COUNT_OF(executor->workers); i++)
        runner_join(&executor->workers[i]);
}

/* --- stores ------------------------------------------------------------------------------------- */

simba_host *stub_host;

static int stub_init(void *self, simba_host *host, const simba_url *store, simba_error *err)
{
    stub_host = host;
    return 0;
}

static void stub_expire(void *self, simba_request *request)
{
    abort();
}

static void stub_nothing(void *self)
{
}

static int stub_watch(void *self, simba_watch *watch)
{
    return 0;
}

static void stub_unwatch(void *self, simba_watch *watch)
{
}

static void stub_close(void *self)
{
    stub_host->closed(stub_host);
}

int stub_register(simba_backend table)
{
    static const char *const keys[] = {NULL};
    table.size = sizeof table;
    table.version = SIMBA_BACKEND_VERSION;
    table.keys = keys;
    table.instance_size = table.instance_size ? table.instance_size : 1;
    table.init = stub_init;
    table.expire = table.expire ? table.expire : stub_expire;
    table.flush = stub_nothing;
    table.watch = table.watch ? table.watch : stub_watch;
    table.unwatch = table.unwatch ? table.unwatch : stub_unwatch;
    table.woken = table.woken ? table.woken : stub_nothing;
    table.close = table.close ? table.close : stub_close;
    table.fini = stub_nothing;
    return simba_backend_register(&table);
}

/* --- players ------------------------------------------------------------------------------------ */

static void begin(struct player *player)
{
    EXPECT(!player->in_callback);
    board_lock();
    player->in_callback = true;
    player->thread = pthread_self();
    board_unlock();
}

static void end(struct player *player)
{
    board_lock();
    player->in_callback = false;
    board_unlock();
}

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    struct player *player = user;
    begin(player);
    EXPECT(!player->leads);
    EXPECT(state->after.token > player->token);
    EXPECT(simba_state_acquired(state, simba_contender_id(contender)));
    const uint64_t token = simba_contender_token(contender);
    const int64_t held_for_ms = simba_contender_held_for_ms(contender);
    board_lock();
    player->leads = true;
    player->acquired++;
    player->acquired_state = *state;
    player->acquired_at = now_ms();
    player->token = token ? token : state->after.token;
    player->held_for_ms = held_for_ms;
    board_unlock();
    if (player->in_acquired)
        player->in_acquired(player);
    end(player);
}

static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    struct player *player = user;
    begin(player);
    EXPECT(player->leads);
    EXPECT(reason != SIMBA_REASON_NONE);
    EXPECT(simba_state_released(state, simba_contender_id(contender)));
    EXPECT(state->before.token == player->acquired_state.after.token);
    board_lock();
    player->leads = false;
    player->released++;
    player->reason = reason;
    player->released_at = now_ms();
    board_unlock();
    if (player->in_released)
        player->in_released(player);
    end(player);
}

static void on_changed(simba_contender *contender, const simba_state *state, void *user)
{
    struct player *player = user;
    begin(player);
    EXPECT(simba_state_changed(state));
    board_lock();
    player->changed++;
    board_unlock();
    if (player->in_changed)
        player->in_changed(player);
    end(player);
}

struct player *player_new(simba_client *client, const char *mutex, const char *id, const simba_timing *timing)
{
    struct player *player = calloc(1, sizeof *player);
    assert_non_null(player);
    player->next = players;
    players = player;

    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.id = id;
    if (timing)
        options.timing = *timing;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.on_changed = on_changed;
    options.user = player;
    simba_error err = {0};
    if (simba_contender_new(client, mutex, &options, &err, &player->contender) != 0)
        fail_msg("cannot make a contender: %s", err.text);
    return player;
}

struct player *player_start(simba_client *client, const char *mutex)
{
    struct player *player = player_new(client, mutex, NULL, NULL);
    assert_rc(0, simba_contender_start(player->contender));
    return player;
}

void player_free(struct player *player)
{
    simba_contender_free(player->contender);
    player->contender = NULL;
}
