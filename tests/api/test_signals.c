/* Signals of the program: what may be asked inside of a handler, a thread that takes signals, and calls that cannot be made from
 * inside of the library. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* --- in a handler ----------------------------------------------------------------------------------- */

static simba_locker *asked;
static simba_contender *asked_too;
static atomic_uint answers, positive;

static void ask(int number)
{
    const int64_t held_ms = simba_locker_held_for_ms(asked);
    const uint64_t token = simba_locker_token(asked);
    (void)simba_contender_is_owner(asked_too);
    (void)simba_contender_in_ttl(asked_too);
    (void)simba_contender_held_for_ms(asked_too);
    (void)simba_contender_token(asked_too);
    atomic_fetch_add(&answers, 1);
    if (held_ms > 0 && token > 0)
        atomic_fetch_add(&positive, 1);
}

struct pestered {
    pthread_t thread;
    atomic_bool over;
};

static void pester(void *arg)
{
    struct pestered *who = arg;
    while (!atomic_load(&who->over)) {
        pthread_kill(who->thread, SIGUSR1);
        usleep(20);
    }
}

/* Whatever the thread is doing in the library when the signal comes, the lock-free functions answer. */
static void lock_free_functions_answer_in_a_handler(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct runner runner = {0};
    struct pestered who = {.thread = pthread_self()};
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
    assert_rc(0, simba_locker_new(client, "m", NULL, NULL, &asked));
    assert_rc(0, simba_contender_new(client, "n", NULL, NULL, &asked_too));
    assert_rc(0, simba_contender_start(asked_too));
    sigaction(SIGUSR1, &action, NULL);
    runner_start(&runner, pester, &who);
    const int64_t until_ms = now_ms() + TIMEOUT_MS;
    while ((atomic_load(&answers) < 500 || atomic_load(&positive) == 0) && now_ms() < until_ms) {
        assert_rc(0, simba_locker_acquire(asked, TIMEOUT_MS, NULL));
        assert_true(client_stats(client).held >= 1);
        assert_rc(0, simba_locker_release(asked, NULL));
    }
    atomic_store(&who.over, true);
    runner_join(&runner);
    signal(SIGUSR1, SIG_DFL);
    assert_true(atomic_load(&answers) >= 500);
    assert_true(atomic_load(&positive) > 0);
    simba_locker_free(asked);
    simba_contender_free(asked_too);
}

/* --- in a thread that waits for signals ------------------------------------------------------------- */

static void stop_on_signal(void *arg)
{
    sigset_t set;
    int number = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    EXPECT(sigwait(&set, &number) == 0 && number == SIGUSR2);
    struct player *player = arg;
    EXPECT(simba_contender_stop(player->contender) == 0);
}

/* A signal for the process goes to the thread that waits for it, since those of the library take none; and there everything
 * may be called. */
static void a_thread_that_waits_for_signals_may_do_anything(void **state)
{
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    SCOPED simba_client *client = client_open(NULL);
    struct player *player = player_start(client, "m");
    struct runner runner = {0};
    AWAIT(player->leads);
    runner_start(&runner, stop_on_signal, player);
    kill(getpid(), SIGUSR2);
    runner_join(&runner);
    assert_int_equal(player->reason, SIMBA_REASON_STOPPED);
    assert_false(is_owned(client, "m"));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    player_free(player);
}

/* --- from inside of the library --------------------------------------------------------------------- */

static void call_from_log(void *user, simba_log_level level, const char *text)
{
    simba_stats stats = SIMBA_STATS_INIT;
    simba_client *const *client = user;
    if (*client)
        simba_client_stats(*client, &stats);
}

static void call_simba_in_a_critical_section(void)
{
    static simba_client *client;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_locker *locker = NULL;
    options.log = call_from_log;
    options.log_user = &client;
    options.log_level = SIMBA_LOG_DEBUG;
    if (simba_client_open("memory://nested", &options, NULL, &client) == 0 &&
        simba_locker_new(client, "m", NULL, NULL, &locker) == 0)
        simba_locker_acquire(locker, 0, NULL);
}

/* A call that would wait for itself ends the process, and says why. It would be stuck otherwise, and renew nothing. */
static void a_call_from_inside_is_refused(void **state)
{
    int ends[2];
    char text[512] = "";
    int status = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(ends[1], STDERR_FILENO);
        alarm(10);
        call_simba_in_a_critical_section();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "called by a log function"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_from_inside_is_refused), /* first: it forks */
        TEST(lock_free_functions_answer_in_a_handler),
        TEST(a_thread_that_waits_for_signals_may_do_anything),
    };
    return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
