/* The client: opening by URL and by environment, closing in the middle of everything, what it tells about itself. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static void close_inside(struct player *player)
{
    EXPECT(simba_client_close(player->user) == SIMBA_ESTATE);
}

/* --- opening -------------------------------------------------------------------------------------- */

/* The URL is shown as it was given, but for a password. */
static void shown_url(void **state)
{
    static const struct {
        const char *given, *shown;
    } urls[] = {
        {"memory://shown", "memory://shown"},
        {"memory://shown?ttl=5s&transition=1s", "memory://shown?ttl=5s&transition=1s"},
        {"memory://me:secret@shown", "memory://me:***@shown"},
        {"memory://me:se%63ret@shown?ttl=5s", "memory://me:***@shown?ttl=5s"},
        {"memory://me:@shown", "memory://me:***@shown"},
        {"memory://me@shown", "memory://me@shown"},
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        simba_client *client;
        assert_rc(0, simba_client_open(urls[i].given, NULL, NULL, &client));
        assert_string_equal(urls[i].shown, simba_client_url(client));
        client_close(client);
    }
}

/* A password is in no error either. */
static void no_password_in_errors(void **state)
{
    static const char *const urls[] = {"nosuch://me:secret@x",    "memory://me:secret@x?bogus=1",
                                       "memory://me:secret@",     "memory://me:secret@x?ttl=5",
                                       "memory://me:secret@x%zz", "memory://me:secret%@x"};
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        simba_client *client;
        simba_error err = {0};
        assert_true(simba_client_open(urls[i], NULL, &err, &client) < 0);
        assert_null(strstr(err.text, "secret"));
    }
}

/* Without a URL the environment is asked; an explicit one wins over it; a bad one is an error. */
static void url_from_the_environment(void **state)
{
    simba_client *client;
    assert_int_equal(0, setenv("SIMBA_URL", "memory://environment", 1));
    assert_rc(0, simba_client_open(NULL, NULL, NULL, &client));
    assert_string_equal("memory://environment", simba_client_url(client));
    client_close(client);
    assert_rc(0, simba_client_open("memory://explicit", NULL, NULL, &client));
    assert_string_equal("memory://explicit", simba_client_url(client));
    client_close(client);
    simba_error err = {0};
    assert_int_equal(0, setenv("SIMBA_URL", "nosuch://x", 1));
    assert_rc(SIMBA_EURL, simba_client_open(NULL, NULL, &err, &client));
    assert_non_null(strstr(err.text, "nosuch"));
    assert_int_equal(0, setenv("SIMBA_URL", "", 1));
    assert_rc(SIMBA_EURL, simba_client_open(NULL, NULL, &err, &client));
    assert_int_equal(0, unsetenv("SIMBA_URL"));
}

/* Open the default store in a process of its own, as nobody in particular, with this environment. What it got is
 * answered as an exit status: 0 for the expected URL, or for any if that is NULL. */
static int open_default(const char *xdg_state_home, const char *home, const char *expected)
{
    const pid_t child = fork();
    if (child != 0) {
        int status;
        assert_int_equal(child, waitpid(child, &status, 0));
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
    }
    unsetenv("SIMBA_URL");
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    if (xdg_state_home)
        setenv("XDG_STATE_HOME", xdg_state_home, 1);
    if (home)
        setenv("HOME", home, 1);
    if (geteuid() == 0 && setuid(65534) != 0)
        _exit(90);
    simba_client *client;
    simba_error err = {0};
    const int rc = simba_client_open(NULL, NULL, &err, &client);
    if (rc < 0)
        _exit(-rc);
    const int differs = expected ? strcmp(expected, simba_client_url(client)) : 0;
    if (differs)
        fprintf(stderr, "%s, not %s\n", simba_client_url(client), expected);
    _exit(simba_client_close(client) != 0 || differs ? 91 : 0);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    return remove(path);
}

/* The embedded store of this user: under XDG_STATE_HOME, or HOME; never a relative path; whatever characters. */
static void default_store(void **state)
{
    char home[] = "/tmp/simba-home-XXXXXX";
    assert_non_null(mkdtemp(home));
    assert_int_equal(0, chmod(home, 0777));
    char odd[64];
    char expected[256];
    snprintf(odd, sizeof odd, "%s/100%% odd?#&=", home);
#ifdef SIMBA_WITH_SQLITE
    const int ok = 0;
#else
    const int ok = -SIMBA_ENOTBUILT;
#endif
    snprintf(expected, sizeof expected, "sqlite://%s/simba/simba.db", home);
    assert_int_equal(ok, open_default(home, "/nonexistent", expected));
    snprintf(expected, sizeof expected, "sqlite://%s/.local/state/simba/simba.db", home);
    assert_int_equal(ok, open_default(NULL, home, expected));
    assert_int_equal(ok, open_default("relative", home, expected));
    assert_int_equal(ok, open_default("", home, expected));
    assert_int_equal(ok, open_default(odd, home, NULL));
    assert_int_equal(-SIMBA_EURL, open_default(NULL, NULL, NULL));
    assert_int_equal(-SIMBA_EURL, open_default("relative", "also/relative", NULL));
#ifdef SIMBA_WITH_SQLITE
    char file[256];
    snprintf(file, sizeof file, "%s/simba/simba.db", odd);
    assert_int_equal(0, access(file, F_OK));
#endif
    /* A home that this user may not write to is a matter of rights. */
    assert_int_equal(0, nftw(home, remove_entry, 8, FTW_DEPTH | FTW_PHYS));
    assert_int_equal(0, mkdir(home, 0555));
    assert_int_equal(-SIMBA_EPERM, open_default(NULL, home, NULL));
    assert_int_equal(0, rmdir(home));
}

/* --- closing -------------------------------------------------------------------------------------- */

static void work_closes(simba_run *run, void *user)
{
    struct player *player = user;
    close_inside(player);
    board_lock();
    player->changed++;
    board_unlock();
}

static void observer_closes(simba_observer *observer, const simba_state *state, void *user)
{
    work_closes(NULL, user);
}

/* close inside a callback, of whatever kind, is refused, and nothing happened. */
static void close_inside_a_callback(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct player *player = player_new(client, "m", NULL, NULL);
    player->user = client;
    player->in_acquired = player->in_released = player->in_changed = close_inside;
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->acquired == 1);
    assert_rc(0, simba_client_force_release(client, "m", NULL));
    AWAIT(player->acquired == 2);
    assert_true(simba_contender_is_owner(player->contender));

    struct player *scratch = player_new(client, "scratch", NULL, NULL);
    scratch->user = client;
    simba_scheduler_options scheduling = SIMBA_SCHEDULER_OPTIONS_INIT;
    scheduling.work = work_closes;
    scheduling.user = scratch;
    scheduling.period_ms = 100000;
    simba_scheduler *scheduler;
    assert_rc(0, simba_scheduler_new(client, "n", &scheduling, NULL, &scheduler));
    assert_rc(0, simba_scheduler_start(scheduler));
    AWAIT(scratch->changed == 1);
    simba_observer_options observing = SIMBA_OBSERVER_OPTIONS_INIT;
    observing.on_changed = observer_closes;
    observing.user = scratch;
    simba_observer *observer;
    assert_rc(0, simba_observer_new(client, "n", &observing, NULL, &observer));
    assert_rc(0, simba_observer_start(observer));
    AWAIT(scratch->changed == 2);
    simba_scheduler_free(scheduler);
    simba_observer_free(observer);
    player_free(scratch);
    player_free(player);
}

static void close_other_client(struct player *player)
{
    EXPECT(simba_client_close(player->user) == 0);
}

/* Another client may be closed inside a callback. */
static void close_another_client_inside_a_callback(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_client *victim = client_open(NULL);
    struct player *held = player_start(victim, "held");
    AWAIT(held->leads);
    struct player *player = player_new(client, "m", NULL, NULL);
    player->user = victim;
    player->in_acquired = close_other_client;
    assert_rc(0, simba_contender_start(player->contender));
    AWAIT(player->acquired == 1 && !player->in_callback);
    assert_int_equal(1, held->released);
    player_free(held);
    player_free(player);
}

/* --- closing in the middle of everything ------------------------------------------------------------ */

enum { ACTORS = 5, MUTEXES = 3 };

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

struct actor {
    struct player *player;
    simba_locker *locker;
    simba_locker *neighbours; /* to cancel */
    simba_scheduler *scheduler;
    simba_observer *observer;
    struct runner runner;
    unsigned seed;
    unsigned actions;
};

static void short_work(simba_run *run, void *user)
{
    simba_run_sleep(run, 1);
}

static void short_look(simba_observer *observer, const simba_state *state, void *user)
{
    simba_owner owner;
    const int rc = simba_observer_owner(observer, &owner);
    EXPECT(rc == 0);
}

static void stop_self_sometimes(struct player *player)
{
    if (player->acquired % 3 == 0)
        EXPECT(simba_contender_stop(player->contender) == 0);
}

static void actor_make(struct actor *actor, simba_client *client, unsigned seed)
{
    static const char *const names[MUTEXES] = {"a", "b", "c"};
    memset(actor, 0, sizeof *actor);
    actor->seed = seed;
    actor->player = player_new(client, names[next_random(&actor->seed) % MUTEXES], NULL, NULL);
    actor->player->in_acquired = stop_self_sometimes;
    assert_rc(0, simba_locker_new(client, names[next_random(&actor->seed) % MUTEXES], NULL, NULL, &actor->locker));
    simba_scheduler_options scheduling = SIMBA_SCHEDULER_OPTIONS_INIT;
    scheduling.work = short_work;
    scheduling.period_ms = 1;
    assert_rc(0, simba_scheduler_new(client, names[next_random(&actor->seed) % MUTEXES], &scheduling, NULL,
                                     &actor->scheduler));
    simba_observer_options observing = SIMBA_OBSERVER_OPTIONS_INIT;
    observing.on_changed = short_look;
    assert_rc(
        0, simba_observer_new(client, names[next_random(&actor->seed) % MUTEXES], &observing, NULL, &actor->observer));
}

static int take_action(struct actor *actor)
{
    switch (next_random(&actor->seed) % 10) {
    case 0:
    case 1:
        return simba_contender_start(actor->player->contender);
    case 2:
        return simba_contender_stop(actor->player->contender);
    case 3:
        return simba_locker_acquire(actor->locker, next_random(&actor->seed) % 6, NULL);
    case 4:
        return simba_locker_release(actor->locker, NULL);
    case 5:
        return simba_locker_cancel(actor->neighbours);
    case 6:
        return simba_scheduler_start(actor->scheduler);
    case 7:
        return simba_scheduler_stop(actor->scheduler);
    case 8:
        return simba_observer_start(actor->observer);
    default:
        return simba_observer_stop(actor->observer);
    }
}

/* Until the client is closed, whatever that does to what is under way. */
static void act(void *arg)
{
    struct actor *actor = arg;
    for (int rc = 0; rc != SIMBA_ECLOSED;) {
        rc = take_action(actor);
        EXPECT(rc == 0 || rc == SIMBA_ESTATE || rc == SIMBA_ETIMEDOUT || rc == SIMBA_ECANCELED || rc == SIMBA_ELOST ||
               rc == SIMBA_ECLOSED);
        board_lock();
        actor->actions++;
        board_unlock();
    }
}

static unsigned actions_of(const struct actor *actors)
{
    unsigned actions = 0;
    for (int i = 0; i < ACTORS; i++)
        actions += actors[i].actions;
    return actions;
}

static void close_in_the_middle(simba_dispatch form, unsigned seed)
{
    SCOPED simba_client *witness = client_open(NULL);
    struct executor executor;
    simba_client *client = form == SIMBA_DISPATCH_EXECUTOR ? client_open_executor(&executor) : client_open_form(form);
    struct actor actors[ACTORS];
    if (form == SIMBA_DISPATCH_EXECUTOR)
        executor_start(&executor);
    for (int i = 0; i < ACTORS; i++)
        actor_make(&actors[i], client, next_random(&seed));
    for (int i = 0; i < ACTORS; i++) {
        actors[i].neighbours = actors[(i + 1) % ACTORS].locker;
        runner_start(&actors[i].runner, act, &actors[i]);
    }
    const unsigned enough = next_random(&seed) % 300;
    AWAIT((form != SIMBA_DISPATCH_FD || (board_unlock(), simba_client_dispatch(client), board_lock(), true)) &&
          actions_of(actors) >= enough);
    client_close(client);
    for (int i = 0; i < ACTORS; i++) {
        runner_join(&actors[i].runner);
        assert_false(actors[i].player->in_callback);
        assert_int_equal(actors[i].player->acquired, actors[i].player->released);
    }
    assert_false(is_owned(witness, "?"));
    for (int i = 0; i < ACTORS; i++) {
        player_free(actors[i].player);
        simba_locker_free(actors[i].locker);
        simba_scheduler_free(actors[i].scheduler);
        simba_observer_free(actors[i].observer);
    }
    if (form == SIMBA_DISPATCH_EXECUTOR)
        executor_end(&executor);
}

/* Threads start, stop, lock, wait and cancel while the client is closed under them: everybody returns, nothing is left
 * owned, and everything can still be freed. The seeds are fixed. */
static void close_in_the_middle_of_everything(void **state)
{
    for (unsigned seed = 1; seed <= 8; seed++)
        close_in_the_middle(SIMBA_DISPATCH_POOL, seed);
}

/* The same on the application's own loop. */
static void close_in_the_middle_of_dispatching(void **state)
{
    for (unsigned seed = 101; seed <= 106; seed++)
        close_in_the_middle(SIMBA_DISPATCH_FD, seed);
}

/* The same with the application's executor. */
static void close_in_the_middle_of_executing(void **state)
{
    for (unsigned seed = 201; seed <= 206; seed++)
        close_in_the_middle(SIMBA_DISPATCH_EXECUTOR, seed);
}

/* --- leaks ---------------------------------------------------------------------------------------- */

/* Two hundred clients later there are as many descriptors and threads as before. */
static void nothing_leaks(void **state)
{
    client_close(client_open(NULL)); /* what is made once is made now */
    const unsigned descriptors = entries_of("/proc/self/fd");
    const unsigned threads = entries_of("/proc/self/task");
    for (int i = 0; i < 200; i++) {
        static simba_client *none;
        simba_client *client = client_open_form(i % 2 ? SIMBA_DISPATCH_POOL : SIMBA_DISPATCH_FD);
        assert_true(simba_client_open("memory://", NULL, NULL, &none) < 0); /* fails after some of it was made */
        if (i % 10 == 0) {
            struct player *player = player_start(client, "m");
            client_close(client);
            player_free(player);
        } else {
            client_close(client);
        }
    }
    assert_int_equal(descriptors, entries_of("/proc/self/fd"));
    AWAIT(entries_of("/proc/self/task") == threads); /* a joined thread may be a moment in going */
}

/* --- list and force_release ------------------------------------------------------------------------- */

struct rows {
    unsigned count;
    simba_client *client;
};

static void use_client_in_row(const simba_listing *listing, void *user)
{
    struct rows *rows = user;
    simba_stats stats = SIMBA_STATS_INIT;
    EXPECT(simba_client_stats(rows->client, &stats) == 0);
    EXPECT(simba_client_force_release(rows->client, listing->mutex, NULL) == 0);
    rows->count++;
}

/* Inside `row` the client may be used: the store has answered before. */
static void using_the_client_in_a_row(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *locker = NULL;
    assert_rc(0, simba_locker_new(client, "m", NULL, NULL, &locker));
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    struct rows rows = {.client = client};
    assert_rc(0, simba_client_list(client, NULL, use_client_in_row, &rows, NULL));
    assert_int_equal(1, rows.count);
    assert_rc(SIMBA_ELOST, simba_locker_release(locker, NULL));
}

/* --- stats and log ---------------------------------------------------------------------------------- */

struct lines {
    unsigned count, revoked;
    simba_log_level most;
    unsigned events; /* bits: which lines of the event log there were; 16: one that is not about the mutex */
};

static void note_line(void *user, simba_log_level level, const char *text)
{
    struct lines *lines = user;
    board_lock();
    lines->count++;
    if (level == SIMBA_LOG_EVENT) {
        lines->events |= strstr(text, " start") != NULL ? 1U : 0;
        lines->events |= strstr(text, " lease ") != NULL ? 2U : 0;
        lines->events |= strstr(text, " lost revoked") != NULL ? 4U : 0;
        lines->events |= strstr(text, " callback acquired") != NULL ? 8U : 0;
        lines->events |= strstr(text, " the-mutex/") == NULL ? 16U : 0;
    } else {
        lines->revoked += strstr(text, "the-mutex") && strstr(text, "revoked");
    }
    if (level > lines->most)
        lines->most = level;
    board_unlock();
}

/* The hook hears what a person should know, from the level on that was asked for. */
static void log_hook(void **state)
{
    for (int level = SIMBA_LOG_ERROR; level <= SIMBA_LOG_EVENT; level++) {
        struct lines lines = {0};
        simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
        options.log = note_line;
        options.log_user = &lines;
        options.log_level = (simba_log_level)level;
        simba_client *client = client_open(&options);
        struct player *player = player_start(client, "the-mutex");
        AWAIT(player->leads);
        assert_rc(0, simba_client_force_release(client, "the-mutex", NULL));
        AWAIT(player->acquired == 2);
        player_free(player);
        client_close(client);
        assert_int_equal(level >= SIMBA_LOG_WARN, lines.revoked);
        assert_true((int)lines.most <= level);
        assert_int_equal(lines.events, level == SIMBA_LOG_EVENT ? 15 : 0);
    }
}

/* What the options, the URL and the defaults come to, and the longest stop margin that is taken. */
static void settings_are_told(void **state)
{
    static const struct {
        const char *url;
        int64_t ttl_ms, transition_ms;
    } cases[] = {{"memory://told", 10000, 6000},
                 {"memory://told?ttl=1s&transition=1s", 1000, 1000},
                 {"memory://told?ttl=1s&transition=0ms", 1000, 0},
                 {"memory://told?ttl=10ms&transition=7s&stop-margin=100ms", 10, 7000}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        simba_client *client = NULL;
        simba_settings settings = SIMBA_SETTINGS_INIT;
        simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
        simba_locker *locker = NULL;
        assert_rc(0, simba_client_open(cases[i].url, NULL, NULL, &client));
        assert_rc(0, simba_client_settings(client, &settings));
        assert_int_equal(settings.timing.ttl_ms, cases[i].ttl_ms);
        assert_int_equal(settings.reach, SIMBA_REACH_PROCESS);
        assert_int_equal(settings.timing.transition_ms, cases[i].transition_ms);
        assert_int_equal(settings.session_ms, 0);
        options.timing.stop_margin_ms = settings.longest_margin_ms;
        assert_rc(0, simba_locker_new(client, "m", &options, NULL, &locker));
        simba_locker_free(locker);
        options.timing.stop_margin_ms++;
        assert_rc(SIMBA_EINVAL, simba_locker_new(client, "m", &options, NULL, &locker));
        client_close(client);
    }
    assert_rc(SIMBA_EINVAL, simba_client_settings(NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shown_url),
        TEST(no_password_in_errors),
        TEST(url_from_the_environment),
        TEST(default_store),
        TEST(close_inside_a_callback),
        TEST(close_another_client_inside_a_callback),
        TEST(close_in_the_middle_of_everything),
        TEST(close_in_the_middle_of_dispatching),
        TEST(close_in_the_middle_of_executing),
        TEST(nothing_leaks),
        TEST(using_the_client_in_a_row),
        TEST(log_hook),
        TEST(settings_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
