/* After fork() the handles of the parent answer the child that they are not its own, at once, whatever the parent's
 * threads were doing; the parent notices nothing; and the child can open a client of its own. */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* What a sanitizer cannot do in the child of a parent with threads: AddressSanitizer's allocator may be locked for ever
 * if they were busy, and ThreadSanitizer takes the child's new threads for the parent's. Plain builds do all of it. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
enum { MAY_ALLOCATE = false };
#else
enum { MAY_ALLOCATE = true };
#endif
#ifdef __SANITIZE_THREAD__
enum { MAY_START_THREADS = false };
#else
enum { MAY_START_THREADS = true };
#endif

/* --- children ------------------------------------------------------------------------------------- */

struct child {
    pid_t pid;
    int pipe; /* a byte when all was well; at its end when the child is */
};

/* In the child: say what is not so, and end. */
#define CHILD_EXPECT(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            dprintf(STDERR_FILENO, "%s:%d: in the child, not so: %s\n", __FILE__, __LINE__, #condition);               \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Until all other threads sleep, so that none of them has a lock of the allocator: a child that is to allocate needs that
 * where a sanitizer's stays locked in it. */
static void await_sleep(void)
{
    for (bool busy = true; busy;) {
        DIR *tasks = opendir("/proc/self/task");
        EXPECT(tasks);
        busy = false;
        for (const struct dirent *task = readdir(tasks); task; task = readdir(tasks)) {
            char path[300];
            char state = 'S';
            snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
            FILE *file = task->d_name[0] != '.' && atoi(task->d_name) != gettid() ? fopen(path, "re") : NULL;
            if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
                state = '?';
            if (file)
                fclose(file);
            busy |= state != 'S';
        }
        closedir(tasks);
    }
}

static struct child child_start(void (*run)(void *arg), void *arg)
{
    int ends[2];
    EXPECT(pipe(ends) == 0);
    struct child child = {.pid = fork(), .pipe = ends[0]};
    if (child.pid == 0) {
        alarm(20);
        close(ends[0]);
        run(arg);
        /* Without an exit: a leak check there would report what belongs to the threads that did not come along. */
        EXPECT(write(ends[1], "!", 1) == 1);
        kill(getpid(), SIGKILL);
    }
    close(ends[1]);
    return child;
}

/* True: it ended as it should, and in time. */
static bool child_end(struct child child)
{
    struct pollfd end = {.fd = child.pipe, .events = POLLIN};
    int status = -1;
    const bool in_time = poll(&end, 1, TIMEOUT_MS) == 1;
    if (!in_time)
        kill(child.pid, SIGKILL);
    waitpid(child.pid, &status, 0);
    char well = '\0';
    const bool is_well = read(child.pipe, &well, 1) == 1;
    close(child.pipe);
    return in_time && is_well && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* --- what the parent has -------------------------------------------------------------------------- */

struct family {
    simba_client *client;
    simba_client *loop; /* with a descriptor */
    simba_contender *idle;
    struct player *held;
    simba_locker *locked;
    simba_locker *unlocked;
    simba_scheduler *scheduler;
    simba_observer *observer;
};

static void no_work(simba_run *run, void *user)
{
}

static void no_news(simba_observer *observer, const simba_state *state, void *user)
{
}

static void family_make(struct family *family)
{
    family->client = client_open(NULL);
    family->loop = client_open_form(SIMBA_DISPATCH_FD);
    assert_rc(0, simba_contender_new(family->client, "idle", NULL, NULL, &family->idle));
    const simba_timing timing = lease(200, 2000);
    family->held = player_new(family->client, "held", NULL, &timing);
    assert_rc(0, simba_contender_start(family->held->contender));
    AWAIT(family->held->leads);
    assert_rc(0, simba_locker_new(family->client, "locked", NULL, NULL, &family->locked));
    assert_rc(0, simba_locker_acquire(family->locked, 0, NULL));
    assert_rc(0, simba_locker_new(family->client, "unlocked", NULL, NULL, &family->unlocked));
    simba_scheduler_options scheduling = SIMBA_SCHEDULER_OPTIONS_INIT;
    scheduling.work = no_work;
    scheduling.period_ms = 100000;
    assert_rc(0, simba_scheduler_new(family->client, "scheduled", &scheduling, NULL, &family->scheduler));
    assert_rc(0, simba_scheduler_start(family->scheduler));
    simba_observer_options observing = SIMBA_OBSERVER_OPTIONS_INIT;
    observing.on_changed = no_news;
    assert_rc(0, simba_observer_new(family->client, "held", &observing, NULL, &family->observer));
    assert_rc(0, simba_observer_start(family->observer));
}

static void family_free(struct family *family)
{
    simba_contender_free(family->idle);
    player_free(family->held);
    simba_locker_free(family->locked);
    simba_locker_free(family->unlocked);
    simba_scheduler_free(family->scheduler);
    simba_observer_free(family->observer);
    client_close(family->client);
    client_close(family->loop);
}

static void no_row(const simba_listing *listing, void *user)
{
}

static void expect_client_forked(simba_client *client)
{
    simba_stats stats = SIMBA_STATS_INIT;
    simba_error err = {0};
    CHILD_EXPECT(simba_client_fd(client) == SIMBA_EFORKED);
    CHILD_EXPECT(simba_client_dispatch(client) == SIMBA_EFORKED);
    CHILD_EXPECT(simba_client_stats(client, &stats) == SIMBA_EFORKED);
    CHILD_EXPECT(simba_client_list(client, NULL, no_row, NULL, &err) == SIMBA_EFORKED);
    CHILD_EXPECT(err.code == SIMBA_EFORKED && strlen(err.text) > 0);
    CHILD_EXPECT(simba_client_force_release(client, "held", &err) == SIMBA_EFORKED);
    const simba_grant grant = {.id = "x", .token = 1};
    simba_settings settings = SIMBA_SETTINGS_INIT;
    CHILD_EXPECT(simba_client_give_back(client, "held", &grant, &err) == SIMBA_EFORKED);
    CHILD_EXPECT(simba_client_settings(client, &settings) == SIMBA_EFORKED);
    CHILD_EXPECT(simba_client_url(client) != NULL);
}

static void expect_nothing_new(simba_client *client)
{
    simba_error err = {0};
    simba_contender *contender = NULL;
    simba_locker *locker = NULL;
    simba_scheduler *scheduler = NULL;
    simba_observer *observer = NULL;
    simba_scheduler_options scheduling = SIMBA_SCHEDULER_OPTIONS_INIT;
    scheduling.work = no_work;
    scheduling.period_ms = 1;
    simba_observer_options observing = SIMBA_OBSERVER_OPTIONS_INIT;
    observing.on_changed = no_news;
    CHILD_EXPECT(simba_contender_new(client, "m", NULL, &err, &contender) == SIMBA_EFORKED && !contender);
    CHILD_EXPECT(simba_locker_new(client, "m", NULL, &err, &locker) == SIMBA_EFORKED && !locker);
    CHILD_EXPECT(simba_scheduler_new(client, "m", &scheduling, &err, &scheduler) == SIMBA_EFORKED && !scheduler);
    CHILD_EXPECT(simba_observer_new(client, "m", &observing, &err, &observer) == SIMBA_EFORKED && !observer);
    CHILD_EXPECT(err.code == SIMBA_EFORKED);
}

static void expect_handles_forked(const struct family *family)
{
    simba_owner owner;
    simba_error err = {0};
    simba_contender *const contenders[] = {family->idle, family->held->contender};
    for (size_t i = 0; i < COUNT_OF(contenders); i++) {
        CHILD_EXPECT(simba_contender_start(contenders[i]) == SIMBA_EFORKED);
        CHILD_EXPECT(simba_contender_stop(contenders[i]) == SIMBA_EFORKED);
        CHILD_EXPECT(simba_contender_owner(contenders[i], &owner) == SIMBA_EFORKED);
        CHILD_EXPECT(simba_contender_held_for_ms(contenders[i]) == 0);
        CHILD_EXPECT(simba_contender_token(contenders[i]) == 0);
        CHILD_EXPECT(!simba_contender_is_owner(contenders[i]));
        CHILD_EXPECT(!simba_contender_in_ttl(contenders[i]));
        CHILD_EXPECT(simba_contender_status(contenders[i]) == SIMBA_STATUS_INITIAL);
        CHILD_EXPECT(strlen(simba_contender_id(contenders[i])) > 0);
        CHILD_EXPECT(strlen(simba_contender_mutex(contenders[i])) > 0);
    }
    simba_locker *const lockers[] = {family->locked, family->unlocked};
    for (size_t i = 0; i < COUNT_OF(lockers); i++) {
        CHILD_EXPECT(simba_locker_acquire(lockers[i], -1, &err) == SIMBA_EFORKED);
        CHILD_EXPECT(err.code == SIMBA_EFORKED);
        CHILD_EXPECT(simba_locker_release(lockers[i], &err) == SIMBA_EFORKED);
        CHILD_EXPECT(simba_locker_once_end(lockers[i], 0, &err) == SIMBA_EFORKED);
        CHILD_EXPECT(simba_locker_cancel(lockers[i]) == SIMBA_EFORKED);
        CHILD_EXPECT(simba_locker_held_for_ms(lockers[i]) == 0);
        CHILD_EXPECT(simba_locker_token(lockers[i]) == 0);
        simba_grant grant;
        CHILD_EXPECT(simba_locker_grant(lockers[i], &grant) == SIMBA_EFORKED);
        CHILD_EXPECT(simba_locker_owner(lockers[i], &owner) == SIMBA_EFORKED);
        CHILD_EXPECT(simba_locker_owner_left_ms(lockers[i]) == 0);
        CHILD_EXPECT(simba_locker_reason(lockers[i]) == SIMBA_REASON_NONE);
        CHILD_EXPECT(simba_locker_lease(lockers[i], &(simba_lease)SIMBA_LEASE_INIT) == SIMBA_EFORKED);
    }
    CHILD_EXPECT(simba_scheduler_start(family->scheduler) == SIMBA_EFORKED);
    CHILD_EXPECT(simba_scheduler_stop(family->scheduler) == SIMBA_EFORKED);
    CHILD_EXPECT(simba_scheduler_status(family->scheduler) == SIMBA_STATUS_INITIAL);
    CHILD_EXPECT(!simba_scheduler_is_leader(family->scheduler));
    CHILD_EXPECT(simba_observer_start(family->observer) == SIMBA_EFORKED);
    CHILD_EXPECT(simba_observer_stop(family->observer) == SIMBA_EFORKED);
    CHILD_EXPECT(simba_observer_owner(family->observer, &owner) == SIMBA_EFORKED);
}

static void expect_free_is_harmless(const struct family *family)
{
    simba_contender_free(family->idle);
    simba_contender_free(family->held->contender);
    simba_locker_free(family->locked);
    simba_locker_free(family->unlocked);
    simba_scheduler_free(family->scheduler);
    simba_observer_free(family->observer);
    CHILD_EXPECT(simba_client_close(family->client) == SIMBA_EFORKED);
    CHILD_EXPECT(simba_client_close(family->loop) == SIMBA_EFORKED);
}

/* A client of its own on the store, with a locker and a contender that get what they ask for. */
static void expect_own_client(const char *url)
{
    simba_client *client;
    simba_locker *locker;
    simba_contender *contender;
    CHILD_EXPECT(simba_client_open(url, NULL, NULL, &client) == 0);
    CHILD_EXPECT(simba_locker_new(client, "own", NULL, NULL, &locker) == 0);
    CHILD_EXPECT(simba_locker_acquire(locker, 5000, NULL) == 0);
    CHILD_EXPECT(simba_locker_token(locker) > 0);
    CHILD_EXPECT(simba_locker_release(locker, NULL) == 0);
    CHILD_EXPECT(simba_contender_new(client, "own", NULL, NULL, &contender) == 0);
    CHILD_EXPECT(simba_contender_start(contender) == 0);
    CHILD_EXPECT(simba_contender_is_owner(contender));
    simba_contender_free(contender);
    simba_locker_free(locker);
    /* The parent owns this one in a store of the same name, but in another process. */
    CHILD_EXPECT(simba_locker_new(client, "held", NULL, NULL, &locker) == 0);
    CHILD_EXPECT(simba_locker_acquire(locker, 0, NULL) == 0);
    simba_locker_free(locker);
    CHILD_EXPECT(simba_client_close(client) == 0);
}

/* --- tests ---------------------------------------------------------------------------------------- */

static void look_at_handles(void *arg)
{
    const struct family *family = arg;
    expect_client_forked(family->client);
    expect_client_forked(family->loop);
    expect_nothing_new(family->client);
    expect_handles_forked(family);
    expect_free_is_harmless(family);
    expect_client_forked(family->client);
    expect_handles_forked(family);
}

/* In the child every handle answers EFORKED, 0 or false, and freeing does nothing; the parent holds what it held, and
 * renews it. */
static void handles_in_the_child(void **state)
{
    struct family family;
    family_make(&family);
    const uint64_t token = simba_contender_token(family.held->contender);
    assert_true(child_end(child_start(look_at_handles, &family)));
    const uint64_t renewals = client_stats(family.client).renewals;
    AWAIT(client_stats(family.client).renewals >= renewals + 2);
    assert_int_equal(token, simba_contender_token(family.held->contender));
    assert_int_equal(0, family.held->released);
    assert_rc(0, simba_locker_release(family.locked, NULL));
    assert_rc(0, simba_contender_start(family.idle));
    AWAIT(simba_contender_is_owner(family.idle));
    family_free(&family);
}

static void open_own(void *arg)
{
    if (!MAY_START_THREADS)
        return;
    expect_own_client("memory://of-the-child");
    expect_own_client(store_url()); /* a store in this process: the parent's is another */
}

static void fork_again(void *arg)
{
    const struct family *family = arg;
    simba_client *client;
    CHILD_EXPECT(simba_client_open("memory://of-the-child", NULL, NULL, &client) == 0);
    struct family own = *family;
    own.client = own.loop = client;
    struct child grandchild = child_start(look_at_handles, &own);
    CHILD_EXPECT(child_end(grandchild));
    CHILD_EXPECT(simba_client_close(client) == 0);
}

/* The child can open clients of its own, and so can its children. */
static void own_client_in_the_child(void **state)
{
    if (!MAY_START_THREADS)
        skip();
    struct family family;
    family_make(&family);
    await_sleep();
    assert_true(child_end(child_start(open_own, &family)));
    await_sleep();
    assert_true(child_end(child_start(fork_again, &family)));
    assert_true(simba_contender_is_owner(family.held->contender));
    family_free(&family);
}

static void fork_in_callback(struct player *player)
{
    await_sleep();
    const struct child child = child_start(player->user, player->other->user);
    EXPECT(child_end(child));
}

/* fork inside a callback is no different. */
static void fork_inside_a_callback(void **state)
{
    struct family family;
    family_make(&family);
    void (*const actions[])(void *) = {look_at_handles, open_own};
    for (size_t i = 0; i < COUNT_OF(actions); i++) {
        struct player *data = player_new(family.client, "data", NULL, NULL);
        struct player *player = player_new(family.client, "forks", NULL, NULL);
        data->user = &family;
        player->other = data;
        memcpy(&player->user, &actions[i], sizeof player->user);
        player->in_acquired = fork_in_callback;
        assert_rc(0, simba_contender_start(player->contender));
        AWAIT(player->acquired == 1 && !player->in_callback);
        player_free(player);
        player_free(data);
    }
    family_free(&family);
}

struct busy {
    simba_client *client;
    bool over;
    struct runner runner;
};

static void keep_busy(void *arg)
{
    struct busy *busy = arg;
    SIMBA_LOCKER_SCOPED simba_locker *locker = NULL;
    EXPECT(simba_locker_new(busy->client, "busy", NULL, NULL, &locker) == 0);
    for (bool over = false; !over;) {
        simba_client *other;
        if (simba_locker_acquire(locker, 1, NULL) == 0)
            EXPECT(simba_locker_release(locker, NULL) == 0);
        if (MAY_START_THREADS) { /* it also takes the descriptors of one thread's client for those of another's */
            EXPECT(simba_client_open(store_url(), NULL, NULL, &other) == 0);
            EXPECT(simba_client_close(other) == 0);
        }
        board_lock();
        over = busy->over;
        board_unlock();
    }
}

static void look_and_open(void *arg)
{
    const struct family *family = arg;
    expect_client_forked(family->client);
    expect_client_forked(family->loop);
    expect_handles_forked(family);
    expect_free_is_harmless(family);
    if (MAY_ALLOCATE) {
        expect_nothing_new(family->client);
        open_own(NULL);
    }
}

/* fork while other threads are in the middle of something: no lock that they held is waited for in the child. */
static void fork_while_threads_are_busy(void **state)
{
    enum { THREADS = 3, FORKS = 25 };
    struct family family;
    family_make(&family);
    struct busy busy[THREADS];
    for (int i = 0; i < THREADS; i++) {
        busy[i] = (struct busy){.client = family.client};
        runner_start(&busy[i].runner, keep_busy, &busy[i]);
    }
    bool good = true;
    for (int i = 0; i < FORKS && good; i++)
        good = child_end(child_start(look_and_open, &family));
    board_lock();
    for (int i = 0; i < THREADS; i++)
        busy[i].over = true;
    board_unlock();
    for (int i = 0; i < THREADS; i++)
        runner_join(&busy[i].runner);
    assert_true(good);
    assert_true(simba_contender_is_owner(family.held->contender));
    family_free(&family);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(handles_in_the_child),
        TEST(own_client_in_the_child),
        TEST(fork_inside_a_callback),
        TEST(fork_while_threads_are_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
