/* The scheduler: when runs start, that they are told to end and waited for, and that they only ever run as leader. */
#include <stdlib.h>

#include "support.h"

enum { RUNS_MAX = 64 };

/* A scheduler that keeps a record. Lives as long as the program, as players do. */
struct shift {
    simba_scheduler *scheduler;
    struct shift *next;
    struct latch latch;
    void (*in_run)(struct shift *shift, simba_run *run); /* may be NULL */
    int64_t work_ms;                                     /* how long a run takes, if not told to end */
    int64_t first_work_ms;                               /* the first one; 0: as the others */

    /* On the board. */
    bool inside;
    bool told; /* in_run was told to end */
    unsigned runs, ended;
    int64_t starts[RUNS_MAX], ends[RUNS_MAX];
    uint64_t tokens[RUNS_MAX];
};

static struct shift *shifts;

static void work(simba_run *run, void *user)
{
    struct shift *shift = user;
    EXPECT(!shift->inside);
    const uint64_t token = simba_run_token(run);
    board_lock();
    const unsigned i = shift->runs++;
    shift->inside = true;
    if (i < RUNS_MAX) {
        shift->starts[i] = now_ms();
        shift->tokens[i] = token;
    }
    board_unlock();
    const int64_t ms = i == 0 && shift->first_work_ms ? shift->first_work_ms : shift->work_ms;
    if (ms > 0)
        simba_run_sleep(run, ms);
    if (shift->in_run)
        shift->in_run(shift, run);
    board_lock();
    shift->inside = false;
    shift->ended++;
    if (i < RUNS_MAX)
        shift->ends[i] = now_ms();
    board_unlock();
}

static simba_scheduler_options options_of(simba_schedule schedule, int64_t initial_delay_ms, int64_t period_ms)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    options.schedule = schedule;
    options.initial_delay_ms = initial_delay_ms;
    options.period_ms = period_ms;
    return options;
}

static struct shift *shift_new(simba_client *client, const char *mutex, simba_scheduler_options options)
{
    struct shift *shift = calloc(1, sizeof *shift);
    assert_non_null(shift);
    shift->next = shifts;
    shifts = shift;
    options.work = work;
    options.user = shift;
    simba_error err = {0};
    if (simba_scheduler_new(client, mutex, &options, &err, &shift->scheduler) != 0)
        fail_msg("cannot make a scheduler: %s", err.text);
    return shift;
}

/* Every run at once and for ever: the period is so short that there is always one due. */
static struct shift *shift_busy(simba_client *client, const char *mutex)
{
    return shift_new(client, mutex, options_of(SIMBA_SCHEDULE_FIXED_DELAY, 0, 1));
}

static void shift_free(struct shift *shift)
{
    simba_scheduler_free(shift->scheduler);
    shift->scheduler = NULL;
}

/* Sleep until told, then dawdle: the run goes on after it was told to end. */
static void until_told(struct shift *shift, simba_run *run)
{
    EXPECT(simba_run_sleep(run, INT64_MAX));
    EXPECT(simba_run_stopping(run));
    board_lock();
    shift->told = true;
    board_unlock();
    latch_await(&shift->latch);
}

/* --- when runs start ------------------------------------------------------------------------------ */

/* A run that takes longer than the period: the starts that fall into it are skipped, not made up for. */
static void fixed_rate_skips(void **state)
{
    enum { PERIOD_MS = 20, RUNS = 6 };
    SCOPED simba_client *client = client_open(NULL);
    struct shift *shift = shift_new(client, "m", options_of(SIMBA_SCHEDULE_FIXED_RATE, 0, PERIOD_MS));
    shift->first_work_ms = 3 * PERIOD_MS + PERIOD_MS / 2;
    const int64_t before = now_ms();
    assert_rc(0, simba_scheduler_start(shift->scheduler));
    AWAIT(shift->ended >= RUNS);
    assert_rc(0, simba_scheduler_stop(shift->scheduler));
    for (int i = 1; i < RUNS; i++)
        assert_true(shift->starts[i] >= before + (i + 3) * PERIOD_MS - 1);
    shift_free(shift);
}

/* --- as leader only ------------------------------------------------------------------------------- */

static void look_around(struct shift *shift, simba_run *run)
{
    EXPECT(!simba_run_stopping(run));
    EXPECT(simba_run_held_for_ms(run) > 0);
    EXPECT(simba_run_held_for_ms(run) <= 8000);
    EXPECT(simba_run_token(run) > 0);
    EXPECT(simba_scheduler_is_leader(shift->scheduler));
    EXPECT(!simba_run_sleep(run, 0));
    EXPECT(!simba_run_sleep(run, -1));
    EXPECT(!simba_run_sleep(run, INT64_MIN));
    const int64_t before = now_ms();
    EXPECT(!simba_run_sleep(run, 15));
    EXPECT(now_ms() - before >= 14);
}

/* What a run can ask. */
static void what_a_run_says(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_scheduler_options options = options_of(SIMBA_SCHEDULE_FIXED_RATE, 0, 100000);
    options.timing = lease(5000, 3000);
    struct shift *shift = shift_new(client, "m", options);
    shift->in_run = look_around;
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_scheduler_status(shift->scheduler));
    assert_rc(0, simba_scheduler_start(shift->scheduler));
    assert_rc(SIMBA_ESTATE, simba_scheduler_start(shift->scheduler));
    AWAIT(shift->ended == 1);
    assert_int_equal(SIMBA_STATUS_RUNNING, simba_scheduler_status(shift->scheduler));
    assert_rc(0, simba_scheduler_stop(shift->scheduler));
    assert_rc(0, simba_scheduler_stop(shift->scheduler));
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_scheduler_status(shift->scheduler));
    shift_free(shift);
}

/* The same with nobody else there: it gains the mutex again by itself, after the run. */
static void lost_and_regained(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct shift *shift = shift_busy(client, "m");
    shift->in_run = until_told;
    assert_rc(0, simba_scheduler_start(shift->scheduler));
    AWAIT(shift->inside);
    assert_rc(0, simba_client_force_release(client, "m", NULL));
    AWAIT(shift->latch.waiting == 1);
    assert_false(is_owned(client, "m"));
    assert_int_equal(1, client_stats(client).grants);
    shift->in_run = NULL;
    latch_open(&shift->latch);
    AWAIT(shift->runs >= 2);
    assert_true(shift->tokens[1] > shift->tokens[0]);
    shift_free(shift);
}

/* --- stopping ------------------------------------------------------------------------------------- */

static void free_inside(struct shift *shift, simba_run *run)
{
    shift_free(shift);
    EXPECT(simba_run_stopping(run));
    EXPECT(simba_run_sleep(run, 100000));
}

/* free inside the work: the run ends in peace, then everything is gone. */
static void free_inside_the_work(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    struct shift *shift = shift_busy(client, "m");
    shift->in_run = free_inside;
    assert_rc(0, simba_scheduler_start(shift->scheduler));
    AWAIT(shift->ended == 1);
    AWAIT(client_stats(client).contenders == 0);
    assert_false(is_owned(client, "m"));
    assert_int_equal(1, shift->runs);
}

/* close tells a run and awaits it, and afterwards the scheduler answers that its client is closed. */
static void close_during_a_run(void **state)
{
    simba_client *client = client_open(NULL);
    SCOPED simba_client *other = client_open(NULL);
    struct shift *shift = shift_busy(client, "m");
    latch_open(&shift->latch);
    shift->in_run = until_told;
    assert_rc(0, simba_scheduler_start(shift->scheduler));
    AWAIT(shift->inside);
    client_close(client);
    assert_true(shift->told);
    assert_int_equal(1, shift->ended);
    assert_false(is_owned(other, "m"));
    assert_rc(SIMBA_ECLOSED, simba_scheduler_start(shift->scheduler));
    assert_rc(SIMBA_ECLOSED, simba_scheduler_stop(shift->scheduler));
    assert_false(simba_scheduler_is_leader(shift->scheduler));
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_scheduler_status(shift->scheduler));
    shift_free(shift);
}

/* On the application's own loop, the thread that dispatches can also be the one that stops. */
static void on_the_dispatching_thread(void **state)
{
    SCOPED simba_client *client = client_open_form(SIMBA_DISPATCH_FD);
    struct shift *shift = shift_busy(client, "m");
    assert_rc(0, simba_scheduler_start(shift->scheduler));
    const int64_t deadline = now_ms() + TIMEOUT_MS;
    while (shift->runs < 3) {
        assert_true(simba_client_dispatch(client) >= 0);
        assert_true(now_ms() < deadline);
    }
    assert_rc(0, simba_scheduler_stop(shift->scheduler));
    assert_false(is_owned(client, "m"));
    shift_free(shift);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fixed_rate_skips),     TEST(what_a_run_says),    TEST(lost_and_regained),
        TEST(free_inside_the_work), TEST(close_during_a_run), TEST(on_the_dispatching_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
