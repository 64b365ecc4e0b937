/* Cases about work of the leader: it runs on the leader, one run at a time, on schedule, and ends with leadership. */
#include "probe.h"

enum { STAMPS = 64 };

/* A scheduler that keeps a record of its runs. All but the options is under the lock of the kit. */
typedef struct worker worker;
struct worker {
    tck *kit;
    tck_arena *arena;
    tck_client *client;
    simba_scheduler_options options;
    void (*during)(worker *self, simba_run *run); /* inside the work, without the lock; may be NULL */
    simba_scheduler *handle;
    const simba_run *run; /* the run that goes on now; NULL: none */
    unsigned begun, ended;
    bool told; /* for `during`: the run was asked to end */
    int64_t begun_ns[STAMPS], ended_ns[STAMPS];
};

static bool run_holds(const void *who)
{
    const worker *self = who;
    return self->run && simba_run_held_for_ms(self->run) > 0;
}

static void work(simba_run *run, void *user)
{
    worker *self = user;
    tck_lock(self->kit);
    self->run = run;
    tck_arena_enter(self->arena, self, run_holds, simba_run_token(run), true);
    const unsigned number = self->begun++;
    if (number < STAMPS)
        self->begun_ns[number] = tck_now_ns();
    tck_unlock(self->kit);
    if (self->during)
        self->during(self, run);
    tck_lock(self->kit);
    if (number < STAMPS)
        self->ended_ns[number] = tck_now_ns();
    self->ended++;
    tck_arena_leave(self->arena, self);
    self->run = NULL;
    tck_unlock(self->kit);
}

static void destroy(void *arg)
{
    worker *self = arg;
    simba_scheduler_free(self->handle);
}

static worker *new_worker(tck_arena *arena, tck_client *client)
{
    worker *self = tck_alloc(arena->kit, sizeof *self);
    self->kit = arena->kit;
    self->arena = arena;
    self->client = client;
    self->options = (simba_scheduler_options)SIMBA_SCHEDULER_OPTIONS_INIT;
    self->options.timing = tck_timing_option(arena->kit, tck_timing(arena->kit));
    self->options.period_ms = 10;
    self->options.work = work;
    self->options.user = self;
    tck_defer(arena->kit, NULL, destroy, self);
    return self;
}

static void start(worker *self)
{
    simba_error err = {0};
    int rc = 0;
    if (!self->handle)
        rc = simba_scheduler_new(self->client->handle, self->arena->mutex, &self->options, &err, &self->handle);
    if (rc == 0)
        rc = simba_scheduler_start(self->handle);
    if (rc < 0)
        tck_give_up(self->kit, "cannot start a scheduler: %s %s", tck_code(rc), err.text);
}

/* Work runs on the leader only, ends with its stop, and goes on elsewhere. The arena sees that runs exclude others. */
static void leader_only(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    tck_arena *arena = tck_arena_new(t, NULL);
    worker *first = new_worker(arena, clients[0]);
    worker *second = new_worker(arena, clients[1]);
    start(first);
    TCK_AWAIT(t, first->ended >= 1);
    start(second);
    TCK_AWAIT(t, first->ended >= 5);
    TCK_REQUIRE(t, simba_scheduler_is_leader(first->handle) && !simba_scheduler_is_leader(second->handle));
    TCK_REQUIRE_NOW(t, second->begun == 0);

    TCK_REQUIRE_RC(t, 0, simba_scheduler_stop(first->handle));
    TCK_REQUIRE(t, !simba_scheduler_is_leader(first->handle));
    TCK_REQUIRE(t, simba_scheduler_status(first->handle) == SIMBA_STATUS_INITIAL);
    tck_lock(t);
    const unsigned runs = first->begun;
    tck_unlock(t);
    TCK_AWAIT(t, second->ended >= 5);
    TCK_REQUIRE_NOW(t, first->begun == runs && first->ended == runs);

    /* Started again, it waits for its turn and then works again. */
    start(first);
    TCK_REQUIRE_RC(t, 0, simba_scheduler_stop(second->handle));
    TCK_AWAIT(t, first->ended > runs);
}

/* Run until asked to end, then take longer than a lease to do so. */
static void end_slowly(worker *self, simba_run *run)
{
    const bool told = simba_run_sleep(run, self->kit->timeout_ms);
    tck_lock(self->kit);
    self->told = told && simba_run_stopping(run);
    tck_notify(self->kit);
    tck_unlock(self->kit);
    if (!tck_outlive(self->client, 2))
        tck_fail(self->kit, __FILE__, __LINE__, "no renewals while a run tidies up");
}

/* stop asks a run to end and waits for it, and nobody else leads before the run is over. */
static void run_awaited(tck *t)
{
    tck_client *client = tck_client_faulty(t, 0);
    tck_client *other = tck_client_new(t);
    tck_arena *arena = tck_arena_new(t, NULL);
    worker *first = new_worker(arena, client);
    tck_probe *next = tck_probe_new(arena, other);
    first->options.timing = tck_timing_option(t, tck_timing_steady(t));
    next->timing = tck_timing_steady(t);
    first->during = end_slowly;
    start(first);
    TCK_AWAIT(t, first->begun == 1);
    tck_probe_start(next);
    TCK_REQUIRE_RC(t, 0, simba_scheduler_stop(first->handle));
    TCK_REQUIRE_NOW(t, first->told && first->begun == 1 && first->ended == 1);
    TCK_AWAIT(t, next->acquired == 1);
    TCK_REQUIRE(t, tck_probe_last(next, TCK_ACQUIRED).at_ns >= first->ended_ns[0]);
}

static void end_promptly(worker *self, simba_run *run)
{
    const bool told = simba_run_sleep(run, self->kit->timeout_ms);
    tck_lock(self->kit);
    self->told = told && simba_run_stopping(run) && simba_run_held_for_ms(run) <= self->options.timing.stop_margin_ms;
    tck_unlock(self->kit);
}

/* A run whose leader was cut off is asked to end before anybody else leads. */
static void run_told_of_loss(tck *t)
{
    tck_client *client = tck_client_nervous(t);
    tck_client *other = tck_client_new(t);
    tck_arena *arena = tck_arena_new(t, NULL);
    worker *first = new_worker(arena, client);
    tck_probe *next = tck_probe_new(arena, other);
    first->during = end_promptly;
    start(first);
    TCK_AWAIT(t, first->begun == 1);
    tck_probe_start(next);
    tck_fault_cut(client->fault, TCK_CUT_SILENT);
    TCK_AWAIT(t, next->acquired == 1);
    TCK_REQUIRE_NOW(t, first->told && first->begun == 1 && first->ended == 1);
}

static void stop_self(worker *self, simba_run *run)
{
    TCK_REQUIRE_RC(self->kit, 0, simba_scheduler_stop(self->handle));
    TCK_REQUIRE(self->kit, simba_run_stopping(run));
}

/* stop inside the work returns at once, and there is no further run. */
static void stop_in_work(tck *t)
{
    tck_client *client = tck_client_new(t);
    tck_client *other = tck_client_new(t);
    worker *self = new_worker(tck_arena_new(t, NULL), client);
    tck_probe *next = tck_probe_new(self->arena, other);
    self->during = stop_self;
    start(self);
    TCK_AWAIT(t, self->ended == 1 && simba_scheduler_status(self->handle) == SIMBA_STATUS_INITIAL);
    tck_probe_start(next);
    TCK_AWAIT(t, next->acquired == 1);
    TCK_REQUIRE_NOW(t, self->begun == 1);
}

/* Rest a little, so that a run has a length. */
static void rest(worker *self, simba_run *run)
{
    simba_run_sleep(run, self->options.period_ms / 2);
}

/* Neither schedule runs early, whether it counts from start to start or from end to start, nor before the initial
 * delay. */
static void on_schedule(tck *t)
{
    enum { RUNS = 5, PERIOD = 20, DELAY = 30 };
    tck_client *client = tck_client_new(t);
    worker *rate = new_worker(tck_arena_new(t, "rate"), client);
    worker *delay = new_worker(tck_arena_new(t, "delay"), client);
    rate->options.schedule = SIMBA_SCHEDULE_FIXED_RATE;
    delay->options.schedule = SIMBA_SCHEDULE_FIXED_DELAY;
    rate->options.period_ms = delay->options.period_ms = PERIOD;
    rate->options.initial_delay_ms = delay->options.initial_delay_ms = DELAY;
    rate->during = delay->during = rest;
    const int64_t before = tck_now_ns();
    start(rate);
    start(delay);
    TCK_AWAIT(t, rate->ended >= RUNS && delay->ended >= RUNS);
    tck_lock(t);
    const worker rated = *rate, delayed = *delay;
    tck_unlock(t);
    for (int i = 0; i < RUNS; i++) {
        TCK_REQUIRE(t, rated.begun_ns[i] >= before + (DELAY + i * PERIOD) * TCK_NS_PER_MS);
        TCK_REQUIRE(t, delayed.begun_ns[i] >= before + (DELAY + i * PERIOD) * TCK_NS_PER_MS);
        TCK_REQUIRE(t, i == 0 || delayed.begun_ns[i] >= delayed.ended_ns[i - 1] + PERIOD * TCK_NS_PER_MS);
    }
}

const tck_case tck_cases_scheduler[] = {
    {"scheduler-leader-only", 0, 0, leader_only},
    {"scheduler-run-awaited", 0, 0, run_awaited},
    {"scheduler-run-told-of-loss", 0, SIMBA_CAP_SESSION, run_told_of_loss},
    {"scheduler-stop-in-work", 0, 0, stop_in_work},
    {"scheduler-on-schedule", 0, 0, on_schedule},
    {0},
};
