/* The runtime under a store of the test's own, which answers when and where it is told to: who runs what on which thread, and
 * who is woken by what. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/referee.h"
#include "runtime/client.h"
#include "util/clock.h"

#define LONG_MS ref_scaled_ms(10000) /* for what must happen */
#define SOON_MS ref_scaled_ms(500)   /* for what must not wait for anything */

/* --- the store -------------------------------------------------------------------------------------------- */

typedef enum means {
    BY_JOB,  /* that somebody has to run */
    BY_IO,   /* that somebody has to read */
    BY_WAKE, /* when another thread has called wake */
} means;

static struct {
    simba_host *host;
    means means;
    simba_request *request; /* to be answered */
    simba_request *next;    /* came while the job ran, and is to be the next one */
    simba_job job;
    simba_io io;
    int ends[2];
    bool slow;             /* the job takes until… */
    atomic_bool released;  /* …this */
    atomic_bool running;   /* and runs */
    pthread_t answered_on; /* the thread that did */
    atomic_uint submitted;
    atomic_uint reads;       /* of what came by the descriptor */
    atomic_int reads_before; /* the deadline; -1: it has not come yet */
    uint64_t nonce;          /* of the latest ACQUIRE */
} stage;

static void answer(void)
{
    simba_request *request = stage.request;
    stage.request = NULL;
    stage.answered_on = pthread_self();
    if (!request)
        return;
    memset(&request->reply, 0, sizeof request->reply);
    request->reply.outcome = SIMBA_MINE;
    request->reply.now_ms = 1000;
    if (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW) {
        snprintf(request->reply.owner.id, sizeof request->reply.owner.id, "%s", request->id);
        request->reply.owner.token = 1;
        request->reply.owner.ttl_at_ms = request->reply.owner.transition_at_ms = INT64_MAX;
    }
    stage.host->complete(stage.host, request);
}

static void run_job(simba_job *job)
{
    (void)job;
    atomic_store(&stage.running, true);
    stage.answered_on = pthread_self();
    while (stage.slow && !atomic_load(&stage.released))
        usleep(1000);
    atomic_store(&stage.running, false);
}

static void job_done(simba_job *job)
{
    const pthread_t ran_on = stage.answered_on;
    answer();
    stage.answered_on = ran_on;
    (void)job;
    if (stage.next)
        stage.host->wake(stage.host);
}

static void on_io(simba_io *io, unsigned events)
{
    char bytes[64];
    (void)events;
    while (read(io->fd, bytes, sizeof bytes) > 0) {
        atomic_fetch_add(&stage.reads, 1);
        answer();
    }
}

static int stage_init(void *self, simba_host *host, const simba_url *url, simba_error *err)
{
    (void)self, (void)url, (void)err;
    stage.host = host;
    stage.request = NULL;
    stage.slow = false;
    stage.job = (simba_job){.run = run_job, .done = job_done};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, stage.ends) != 0)
        return SIMBA_ESYSTEM;
    stage.io = (simba_io){.ready = on_io, .fd = stage.ends[0], .interest = SIMBA_READABLE, .answers = true};
    return stage.means == BY_IO ? host->io_add(host, &stage.io) : 0;
}

static void stage_submit(void *self, simba_request *request)
{
    (void)self;
    const bool is_next = stage.means == BY_JOB && stage.request;
    *(is_next ? &stage.next : &stage.request) = request;
    if (request->op == SIMBA_OP_ACQUIRE)
        stage.nonce = request->nonce;
    if (stage.means == BY_JOB && !is_next)
        stage.host->work(stage.host, &stage.job);
    if (stage.means == BY_JOB && request->op == SIMBA_OP_RELEASE)
        stage.slow = false;
    atomic_fetch_add(&stage.submitted, 1);
}

static void stage_cancel(void *self, simba_request *request)
{
    (void)self;
    assert_ptr_equal(request, stage.request);
    stage.request = NULL;
    (stage.host->fail)(stage.host, request, SIMBA_ETIMEDOUT, "stage: no answer in time");
}

static void stage_woken(void *self)
{
    (void)self;
    if (stage.means == BY_WAKE)
        answer();
    if (stage.next && !stage.request) {
        stage.request = stage.next;
        stage.next = NULL;
        stage.host->work(stage.host, &stage.job);
    }
}

static int stage_watch(void *self, simba_topic *topic)
{
    (void)self, (void)topic;
    return 0;
}

static void stage_unwatch(void *self, simba_topic *topic)
{
    (void)self, (void)topic;
}

static void stage_close(void *self)
{
    (void)self;
    stage.host->io_remove(stage.host, &stage.io);
    if (stage.request)
        (stage.host->fail)(stage.host, stage.request, SIMBA_ECANCELED, "stage: closes");
    stage.host->closed(stage.host);
}

static void stage_nothing(void *self)
{
    (void)self;
}

static void stage_fini(void *self)
{
    (void)self;
    close(stage.ends[0]);
    close(stage.ends[1]);
}

static int64_t stage_session_ms(void *self)
{
    (void)self;
    return 10000;
}

static const char *const lease_schemes[] = {"stage", NULL};
static const char *const session_schemes[] = {"sessions", NULL};
#define TABLE                                                                                                          \
    .size = sizeof(simba_backend), .version = SIMBA_BACKEND_VERSION, .instance_size = 1, .workers = 1,                 \
    .init = stage_init, .submit = stage_submit, .cancel = stage_cancel, .flush = stage_nothing, .watch = stage_watch,  \
    .unwatch = stage_unwatch, .woken = stage_woken, .close = stage_close, .fini = stage_fini
static const simba_backend leases = {TABLE, .schemes = lease_schemes, .caps = SIMBA_CAP_LIST};
static const simba_backend sessions = {TABLE, .schemes = session_schemes, .caps = SIMBA_CAP_SESSION | SIMBA_CAP_PUSH,
                                       .session_ms = stage_session_ms};

/* --- the application --------------------------------------------------------------------------------------- */

static simba_client *client;

static void open_with(const char *url, simba_dispatch form, means how)
{
    simba_error err = {0};
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.dispatch = form;
    ref_watchdog(60);
    stage.means = how;
    atomic_store(&stage.submitted, 0);
    atomic_store(&stage.released, false);
    if (simba_client_open(url, &options, &err, &client) < 0)
        fail_msg("%s", err.text);
}

static void open_stage(const char *url, means how)
{
    open_with(url, SIMBA_DISPATCH_POOL, how);
}

static void close_stage(void)
{
    assert_int_equal(simba_client_close(client), 0);
    assert_int_equal(ref_complaints(), 0);
    ref_watchdog(0);
}

/* A call without a limit, on a thread of its own. */
typedef struct caller {
    pthread_t thread;
    simba_locker *locker; /* NULL: force_release */
    int rc;
    atomic_bool back;
} caller;

static void *call(void *arg)
{
    caller *c = arg;
    c->rc = c->locker ? simba_locker_acquire(c->locker, -1, NULL) : simba_client_force_release(client, "orders", NULL);
    atomic_store(&c->back, true);
    return NULL;
}

static void begin_call(caller *c, simba_locker *locker)
{
    const unsigned before = atomic_load(&stage.submitted);
    *c = (caller){.locker = locker};
    assert_int_equal(pthread_create(&c->thread, NULL, call, c), 0);
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&stage.submitted) > before));
}

static void assert_back_soon(caller *c)
{
    assert_true(REF_WITHIN(SOON_MS, atomic_load(&c->back)));
    pthread_join(c->thread, NULL);
}

static bool is_led(void)
{
    simba__enter(&client->turn);
    const bool led = client->turn.led_for != NULL;
    simba__leave(&client->turn);
    return led;
}

static bool is_closing(void)
{
    simba__enter(&client->turn);
    const bool closing = client->closing;
    simba__leave(&client->turn);
    return closing;
}

static bool is_answered(void)
{
    simba__enter(&client->turn);
    const bool answered = stage.request == NULL;
    simba__leave(&client->turn);
    return answered;
}

static simba_locker *locker_of(const char *mutex)
{
    simba_locker *locker = NULL;
    assert_int_equal(simba_locker_new(client, mutex, NULL, NULL, &locker), 0);
    return locker;
}

/* --- jobs -------------------------------------------------------------------------------------------------- */

/* Who waits without a limit runs a long job itself, but not a patient one. Who can be called off runs only a brief one. */
static void jobs_are_run_by_whom_they_may_keep(void **state)
{
    (void)state;
    static const simba_job_length lengths[] = {SIMBA_JOB_BRIEF, SIMBA_JOB_LONG, SIMBA_JOB_PATIENT};
    open_stage("stage://x", BY_JOB);
    simba_locker *locker = locker_of("orders");
    for (size_t i = 0; i < 3; i++) {
        stage.job.length = lengths[i];
        assert_int_equal(simba_client_force_release(client, "orders", NULL), 0);
        assert_int_equal(pthread_equal(stage.answered_on, pthread_self()) != 0, lengths[i] < SIMBA_JOB_PATIENT);
        assert_int_equal(simba_locker_acquire(locker, LONG_MS, NULL), 0);
        assert_int_equal(pthread_equal(stage.answered_on, pthread_self()) != 0, lengths[i] == SIMBA_JOB_BRIEF);
        assert_int_equal(simba_locker_release(locker, NULL), 0);
        assert_int_equal(pthread_equal(stage.answered_on, pthread_self()) != 0, lengths[i] < SIMBA_JOB_PATIENT);
    }
    simba_locker_free(locker);
    close_stage();
}

/* A job that does not come back keeps nobody who has a limit, or is cancelled. */
static void a_limit_holds_beside_a_job(void **state)
{
    (void)state;
    caller c;
    open_stage("stage://x", BY_JOB);
    stage.job.length = SIMBA_JOB_LONG;
    stage.slow = true;
    simba_locker *locker = locker_of("orders");
    begin_call(&c, locker);
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&stage.running)));
    assert_int_equal(simba_locker_cancel(locker), 0);
    assert_back_soon(&c);
    assert_int_equal(c.rc, SIMBA_ECANCELED);
    assert_true(atomic_load(&stage.running));
    atomic_store(&stage.released, true);
    simba_locker_free(locker);
    close_stage();
}

static bool somebody_follows(void)
{
    simba__enter(&client->turn);
    const bool follows = client->turn.followers.count > 0;
    simba__leave(&client->turn);
    return follows;
}

/* Who has run its own job runs the next one too before it leaves, if another thread waits for that and it is brief. */
static void who_leaves_helps_who_waits(void **state)
{
    (void)state;
    static const simba_job_length lengths[] = {SIMBA_JOB_BRIEF, SIMBA_JOB_LONG};
    open_stage("stage://x", BY_JOB);
    simba_locker *lockers[] = {locker_of("orders"), locker_of("invoices")};
    for (size_t i = 0; i < 2; i++) {
        caller first;
        caller second;
        stage.job.length = SIMBA_JOB_BRIEF;
        stage.slow = true;
        atomic_store(&stage.released, false);
        begin_call(&first, lockers[0]);
        assert_true(REF_WITHIN(LONG_MS, atomic_load(&stage.running)));
        begin_call(&second, lockers[1]);
        assert_true(REF_WITHIN(LONG_MS, somebody_follows()));
        stage.job.length = lengths[i];
        atomic_store(&stage.released, true);
        assert_true(REF_WITHIN(LONG_MS, atomic_load(&first.back) && atomic_load(&second.back)));
        assert_int_equal(pthread_equal(stage.answered_on, first.thread) != 0, lengths[i] == SIMBA_JOB_BRIEF);
        pthread_join(first.thread, NULL);
        pthread_join(second.thread, NULL);
        assert_int_equal(simba_locker_release(lockers[0], NULL), 0);
        assert_int_equal(simba_locker_release(lockers[1], NULL), 0);
    }
    simba_locker_free(lockers[0]);
    simba_locker_free(lockers[1]);
    close_stage();
}

/* Two calls: the job of the first is under way, and the second waits for the next one. `quick_returns`: of the first, as far as the
 * second knows; `moment_ns`: after which the second looks after itself, roughly. */
static void begin_two(caller callers[2], simba_locker *lockers[2], unsigned quick_returns, int64_t moment_ns)
{
    stage.slow = true;
    atomic_store(&stage.released, false);
    begin_call(&callers[0], lockers[0]);
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&stage.running)));
    simba__enter(&client->turn);
    client->turn.quick_returns = quick_returns;
    client->turn.job_ns = moment_ns / 2;
    simba__leave(&client->turn);
    begin_call(&callers[1], lockers[1]);
    assert_true(REF_WITHIN(LONG_MS, somebody_follows()));
}

/* Both come back, before the deadline of a request begins another turn. */
static void end_two(caller callers[2], simba_locker *lockers[2])
{
    for (int i = 0; i < 2; i++) {
        assert_true(REF_WITHIN(ref_scaled_ms(1500), atomic_load(&callers[i].back)));
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].rc, 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(simba_locker_release(lockers[i], NULL), 0);
}

/* Who comes back at once, as a rule, leaves what others wait for until then. Any other turn hands it to the store. */
static void who_comes_back_puts_off(void **state)
{
    (void)state;
    caller callers[2];
    open_stage("stage://x", BY_JOB);
    simba_locker *lockers[] = {locker_of("orders"), locker_of("invoices")};
    stage.job.length = SIMBA_JOB_BRIEF;
    begin_two(callers, lockers, 3, INT64_C(60000000000));
    atomic_store(&stage.released, true);
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&callers[0].back)));
    simba__enter(&client->turn);
    simba__leave(&client->turn);
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&callers[1].back)));
    assert_false(pthread_equal(stage.answered_on, callers[0].thread)); /* it did not stay for that */
    end_two(callers, lockers);
    simba_locker_free(lockers[0]);
    simba_locker_free(lockers[1]);
    close_stage();
}

/* Should that thread stay away, the one that waits looks after its request itself. Nobody is put off who would not. */
static void who_is_put_off_looks_after_itself(void **state)
{
    (void)state;
    enum { ROUNDS = 10 };
    caller callers[2];
    open_stage("stage://x", BY_JOB);
    simba_locker *lockers[] = {locker_of("orders"), locker_of("invoices")};
    stage.job.length = SIMBA_JOB_BRIEF;
    for (int i = 0; i < ROUNDS; i++) {
        begin_two(callers, lockers, 3, 0);
        atomic_store(&stage.released, true);
        end_two(callers, lockers);
        begin_two(callers, lockers, 0, 0);
        pthread_mutex_lock(&client->turn.lock);
        client->turn.quick_returns = 3;
        pthread_mutex_unlock(&client->turn.lock);
        atomic_store(&stage.released, true);
        end_two(callers, lockers);
    }
    simba_locker_free(lockers[0]);
    simba_locker_free(lockers[1]);
    close_stage();
}

/* A thread is known to come back at once when it has done so three times in a row, while others waited. */
static void quick_returns_are_counted(void **state)
{
    (void)state;
    open_stage("stage://x", BY_JOB);
    simba__turn *turn = &client->turn;
    for (unsigned i = 1; i <= 3; i++) {
        simba__enter(turn);
        turn->left = pthread_self();
        turn->left_at =
            (simba_local){simba__clock_boot().ns + INT64_C(1000000000)}; /* whatever the machine does, it is quick */
        simba__leave(turn);
        simba__enter(turn);
        assert_int_equal(turn->quick_returns, i);
        simba__leave(turn);
        simba__enter(turn);
        assert_int_equal(turn->quick_returns, i); /* nobody waited when it left */
        simba__leave(turn);
    }
    simba__enter(turn);
    turn->left_at = (simba_local){simba__clock_boot().ns - INT64_C(1000000000)};
    simba__leave(turn);
    simba__enter(turn);
    assert_int_equal(turn->quick_returns, 0);
    turn->quick_returns = 3;
    turn->left = (pthread_t)0;
    turn->left_at = (simba_local){1};
    simba__leave(turn);
    simba__enter(turn);
    assert_int_equal(turn->quick_returns, 3); /* that was another thread */
    simba__leave(turn);
    close_stage();
}

/* --- the reactor -------------------------------------------------------------------------------------------- */

/* Who waits for an answer reads it itself, unless the keeper happens to have come to wait after it. */
static void an_answer_is_read_by_who_waits(void **state)
{
    (void)state;
    enum { ROUNDS = 20 };
    caller c;
    int by_itself = 0;
    open_stage("stage://x", BY_IO);
    for (int i = 0; i < ROUNDS; i++) {
        begin_call(&c, NULL);
        assert_true(REF_WITHIN(LONG_MS, is_led()));
        usleep(2000); /* it is about to wait */
        assert_int_equal(write(stage.ends[1], "x", 1), 1);
        assert_back_soon(&c);
        by_itself += pthread_equal(stage.answered_on, c.thread) != 0;
    }
    assert_true(by_itself > ROUNDS / 2);
    close_stage();
}

/* Who waits there is told of what comes about elsewhere: by another thread's turn, and by a wake. */
static void who_leads_is_rung(void **state)
{
    (void)state;
    caller c;
    open_stage("stage://x", BY_IO);
    begin_call(&c, NULL);
    assert_true(REF_WITHIN(LONG_MS, is_led()));
    simba__enter(&client->turn);
    answer();
    simba__leave(&client->turn);
    assert_back_soon(&c);
    stage.means = BY_WAKE;
    begin_call(&c, NULL);
    assert_true(REF_WITHIN(LONG_MS, is_led()));
    stage.host->wake(stage.host);
    assert_back_soon(&c);
    close_stage();
}

/* And so is somebody if nobody waits there but the keeper. */
static void a_wake_is_heard(void **state)
{
    (void)state;
    caller c;
    open_stage("stage://x", BY_WAKE);
    for (int i = 0; i < 3; i++) {
        begin_call(&c, NULL);
        stage.host->wake(stage.host);
        assert_back_soon(&c);
    }
    close_stage();
}

static int64_t cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static void on_timer(simba_timer *timer, simba_local now)
{
    (void)timer, (void)now;
    answer();
}

static bool keeper_is_aside(void)
{
    simba__enter(&client->turn);
    const bool aside = client->turn.aside;
    simba__leave(&client->turn);
    return aside;
}

/* The bell has woken both the keeper and the one that leads, and that one was quicker: it has hushed the bell, and leads again.
 * When the keeper gets its turn, it takes the bell for one that still rings. Then it has to: otherwise nobody rings for the one
 * that leads any more. */
static void a_bell_that_was_heeded_already(void **state)
{
    (void)state;
    simba__condition never = {{0}};
    open_stage("stage://x", BY_IO);
    simba__waitset *threads = &client->turn.reactor.threads;
    struct pollfd bell = {.fd = threads->bell, .events = POLLIN};
    bool arranged = false;
    /* The keeper has to hear the bell before it is hushed. Nobody sees whether it did: so it gets more and more time. */
    for (unsigned ms = 1; !arranged && ms < LONG_MS; ms *= 2) {
        simba__enter(&client->turn);
        simba__waitset_ring(threads);
        usleep(ms * 1000);
        simba__waitset_hush(threads);
        client->turn.led_for = &never;
        simba__leave(&client->turn);
        arranged = REF_WITHIN(100 + ms, keeper_is_aside());
        simba__enter(&client->turn);
        client->turn.led_for = arranged ? &never : NULL;
        simba__turn_signal(&client->turn, &client->turn.hushed);
        simba__leave(&client->turn);
    }
    assert_true(arranged);
    simba__enter(&client->turn);
    simba__turn_signal(&client->turn, &never);
    assert_int_equal(poll(&bell, 1, 0), 1);
    client->turn.led_for = NULL;
    simba__turn_signal(&client->turn, &client->turn.hushed);
    simba__leave(&client->turn);
    close_stage();
}

/* The one that leads is held up while the bell rings for it. The keeper does not spin meanwhile, and keeps the deadlines. */
static void a_bell_that_is_not_heeded(void **state)
{
    (void)state;
    simba_timer timer = {.fire = on_timer};
    simba__condition never = {{0}};
    open_stage("stage://x", BY_IO);
    simba__enter(&client->turn);
    assert_int_equal(stage.host->timer_add(stage.host, &timer), 0);
    client->turn.led_for = &never;
    simba__turn_signal(&client->turn, &never);
    simba__leave(&client->turn);
    assert_true(REF_WITHIN(LONG_MS, keeper_is_aside()));
    const int64_t before_ms = cpu_ms();
    usleep(200000);
    assert_true(cpu_ms() - before_ms < 100);
    caller c; /* follows, since there is one that leads */
    begin_call(&c, NULL);
    simba__enter(&client->turn);
    stage.host->timer_set(stage.host, &timer, client->turn.now);
    simba__leave(&client->turn);
    assert_back_soon(&c);
    simba__enter(&client->turn);
    client->turn.led_for = NULL;
    simba__turn_signal(&client->turn, &client->turn.hushed);
    simba__leave(&client->turn);
    close_stage();
}

static bool is_due(int patience_ms)
{
    struct pollfd fd = {.fd = simba_client_fd(client), .events = POLLIN};
    return poll(&fd, 1, patience_ms) == 1;
}

/* The application's loop is called by a wake, by an answer, by a deadline, and by the result of a job. Once it has been there,
 * there is nothing left to do. */
static void a_loop_is_called_by_everything(void **state)
{
    (void)state;
    for (means how = BY_JOB; how <= BY_WAKE; how++) {
        simba_contender *contender = NULL;
        open_with("stage://x", SIMBA_DISPATCH_FD, how);
        assert_false(is_due(0));
        assert_int_equal(simba_contender_new(client, "orders", NULL, NULL, &contender), 0);
        assert_int_equal(simba_contender_start(contender), 0);
        if (how == BY_IO)
            assert_int_equal(write(stage.ends[1], "x", 1), 1);
        if (how == BY_WAKE)
            stage.host->wake(stage.host);
        assert_true(is_due(LONG_MS));
        assert_true(simba_client_dispatch(client) >= 0);
        assert_true(simba_contender_held_for_ms(contender) > 0);
        assert_false(is_due(0));
        simba_timer timer = {.fire = on_timer};
        simba__enter(&client->turn);
        assert_int_equal(stage.host->timer_add(stage.host, &timer), 0);
        stage.host->timer_set(stage.host, &timer, client->turn.now);
        simba__leave(&client->turn);
        assert_true(is_due(LONG_MS));
        assert_int_equal(simba_client_dispatch(client), 0);
        assert_int_equal(timer.index, 0);
        assert_false(is_due(0));
        stage.host->wake(stage.host); /* of which no callback comes */
        assert_true(is_due(LONG_MS));
        assert_int_equal(simba_client_dispatch(client), 0);
        assert_false(is_due(0));
        stage.means = BY_JOB; /* for the release */
        simba_contender_free(contender);
        close_stage();
    }
}

/* The bell that rings for a thread that is held up does not call the loop. */
static void a_loop_is_not_called_for_others(void **state)
{
    (void)state;
    caller c;
    open_with("stage://x", SIMBA_DISPATCH_FD, BY_IO);
    begin_call(&c, NULL);
    assert_true(REF_WITHIN(LONG_MS, is_led()));
    simba__enter(&client->turn);
    answer();
    simba__turn_signal(&client->turn, &client->turn.changed);
    assert_false(is_due(0));
    simba__leave(&client->turn);
    assert_back_soon(&c);
    assert_false(is_due(0));
    close_stage();
}

static void *close_client(void *back)
{
    assert_int_equal(simba_client_close(client), 0);
    atomic_store((atomic_bool *)back, true);
    return NULL;
}

static void on_deadline(simba_timer *timer, simba_local now)
{
    (void)timer, (void)now;
    atomic_store(&stage.reads_before, (int)atomic_load(&stage.reads));
}

/* A thread is told of an answer, and held up before it can read it. Somebody else reads it before a deadline has passed. */
static void an_answer_is_looked_for_before_a_deadline(void **state)
{
    (void)state;
    simba_timer timer = {.fire = on_deadline};
    open_stage("stage://x", BY_IO);
    atomic_store(&stage.reads, 0);
    atomic_store(&stage.reads_before, -1);
    simba__enter(&client->turn);
    assert_int_equal(stage.host->timer_add(stage.host, &timer), 0);
    simba__waitset_ring(&client->turn.reactor.threads);
    usleep(20000); /* the keeper has come, and waits for its turn */
    assert_int_equal(write(stage.ends[1], "x", 1), 1);
    assert_int_equal(simba__reactor_wait(&client->turn.reactor, &client->turn.reactor.threads, 0).count,
                     1); /* and nothing becomes of that */
    stage.host->timer_set(stage.host, &timer, client->turn.now);
    simba__leave(&client->turn);
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&stage.reads_before) >= 0));
    assert_int_equal(atomic_load(&stage.reads_before), 1);
    close_stage();
}

/* The store does not answer. Whoever waits for it is told when the time is over, and what it waited for; the answer that comes
 * then is nobody's. */
static void a_request_ends_at_its_deadline(void **state)
{
    (void)state;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_error err = {0};
    ref_watchdog(60);
    stage.means = BY_IO;
    options.op_timeout_ms = 50;
    assert_int_equal(simba_client_open("stage://x", &options, &err, &client), 0);
    const int64_t before_ns = simba__clock_boot().ns;
    assert_int_equal(simba_client_force_release(client, "orders", &err), SIMBA_ETIMEDOUT);
    assert_true(simba__clock_boot().ns - before_ns >= 50 * SIMBA__NS_PER_MS);
    assert_string_equal(err.text, "force release orders: stage: no answer in time");
    atomic_store(&stage.reads, 0);
    assert_int_equal(write(stage.ends[1], "x", 1), 1);
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&stage.reads) == 1));
    close_stage();
}

/* Closing waits for the one that leads to be out of there, though its call may have been answered already. */
static void closing_waits_for_who_leads(void **state)
{
    (void)state;
    pthread_t closer;
    atomic_bool back = false;
    simba__condition never = {{0}};
    open_stage("stage://x", BY_IO);
    simba__enter(&client->turn);
    client->turn.led_for = &never;
    simba__leave(&client->turn);
    assert_int_equal(pthread_create(&closer, NULL, close_client, &back), 0);
    assert_true(REF_WITHIN(LONG_MS, is_closing()));
    assert_false(REF_WITHIN(50, atomic_load(&back)));
    simba__enter(&client->turn);
    client->turn.led_for = NULL;
    simba__turn_signal(&client->turn, &client->turn.changed);
    simba__leave(&client->turn);
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&back)));
    pthread_join(closer, NULL);
    ref_watchdog(0);
}

/* --- calls that others begin ------------------------------------------------------------------------------- */

/* A call on a thread of its own, which comes while another thread is in a turn. */
typedef struct poster {
    pthread_t thread;
    simba_locker *locker;
    int64_t limit_ms; /* of acquire */
    bool releases;
    int rc;
    atomic_bool back;
} poster;

static void *acquire_or_release(void *arg)
{
    poster *p = arg;
    p->rc = p->releases ? simba_locker_release(p->locker, NULL) : simba_locker_acquire(p->locker, p->limit_ms, NULL);
    atomic_store(&p->back, true);
    return NULL;
}

/* The caller is in a turn. */
static void begin_post(poster *p)
{
    atomic_store(&p->back, false);
    assert_int_equal(pthread_create(&p->thread, NULL, acquire_or_release, p), 0);
    assert_true(REF_WITHIN(LONG_MS, simba__inbox_has_posts(&client->turn.inbox)));
}

static int rc_of(poster *p)
{
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&p->back)));
    pthread_join(p->thread, NULL);
    return p->rc;
}

/* Answers until nobody waits for anything. */
static bool has_ended(void)
{
    simba__enter(&client->turn);
    answer();
    const bool ended = client->running == 0;
    simba__leave(&client->turn);
    return ended;
}

/* A thread that comes while another one is in a turn does not wait for its end: the other one begins its call. */
static void who_is_in_a_turn_begins_the_calls_of_others(void **state)
{
    (void)state;
    open_stage("stage://x", BY_IO);
    poster p = {.locker = locker_of("orders"), .limit_ms = -1};
    for (unsigned i = 0; i < 2; i++) {
        p.releases = i == 1;
        simba__enter(&client->turn);
        begin_post(&p);
        assert_int_equal(atomic_load(&stage.submitted), i);
        simba__turn_settle(&client->turn);
        assert_int_equal(atomic_load(&stage.submitted), i + 1);
        answer();
        simba__leave(&client->turn);
        assert_int_equal(rc_of(&p), 0);
    }
    p.releases = true; /* which is not the simple case: it has to look itself */
    simba__enter(&client->turn);
    begin_post(&p);
    simba__leave(&client->turn);
    assert_int_equal(rc_of(&p), SIMBA_ESTATE);
    simba_locker_free(p.locker);
    close_stage();
}

/* A thread that posts a call when the other one has no more to do, and still holds the lock. */
static void a_call_of_the_last_moment_is_begun(void **state)
{
    (void)state;
    static const simba_dispatch forms[] = {SIMBA_DISPATCH_POOL, SIMBA_DISPATCH_FD};
    for (size_t i = 0; i < 2; i++) {
        open_with("stage://x", forms[i], BY_IO);
        poster p = {.locker = locker_of("orders"), .limit_ms = -1};
        simba__enter(&client->turn);
        simba__turn_settle(&client->turn);
        begin_post(&p);
        simba__turn_end(&client->turn);
        assert_true(REF_WITHIN(LONG_MS, atomic_load(&stage.submitted) == 1));
        assert_int_equal(write(stage.ends[1], "x", 1),
                         1); /* the loop stands still: so the thread has to read it itself */
        assert_int_equal(rc_of(&p), 0);
        stage.means = BY_JOB; /* for the release */
        simba_locker_free(p.locker);
        close_stage();
    }
}

/* Whoever enters a turn finds that the calls which were posted before have begun. */
static void a_call_that_was_posted_can_be_cancelled(void **state)
{
    (void)state;
    open_stage("stage://x", BY_IO);
    poster p = {.locker = locker_of("orders"), .limit_ms = -1};
    simba__enter(&client->turn);
    begin_post(&p);
    simba__leave(&client->turn);
    assert_int_equal(simba_locker_cancel(p.locker), 0);
    assert_int_equal(rc_of(&p), SIMBA_ECANCELED);
    assert_true(REF_WITHIN(LONG_MS, has_ended()));
    simba_locker_free(p.locker);
    close_stage();
}

static bool somebody_waits_for_the_lock(void)
{
    return atomic_load(&client->turn.gate.urgent) > 0;
}

/* The time of a call that was posted is over: before it has begun, or when it has just succeeded. */
static void a_call_that_was_posted_has_its_limit(void **state)
{
    (void)state;
    simba__condition never = {{0}};
    open_stage("stage://x", BY_IO);
    poster p = {.locker = locker_of("orders"), .limit_ms = 20};
    simba__enter(&client->turn);
    begin_post(&p);
    assert_true(REF_WITHIN(LONG_MS, somebody_waits_for_the_lock()));
    simba__leave(&client->turn);
    const int rc = rc_of(&p);
    assert_true(rc == SIMBA_ETIMEDOUT || rc == SIMBA_EUNAVAILABLE); /* the store had little time to answer, or none */
    assert_true(REF_WITHIN(LONG_MS, has_ended()));

    simba__enter(&client->turn);
    client->turn.led_for = &never;
    begin_post(&p);
    simba__turn_settle(&client->turn);
    answer();
    simba__turn_settle(&client->turn);
    assert_true(REF_WITHIN(LONG_MS, somebody_waits_for_the_lock()));
    client->turn.led_for = NULL;
    simba__leave(&client->turn);
    assert_int_equal(rc_of(&p), 0);
    stage.means = BY_JOB; /* for the release */
    simba_locker_free(p.locker);
    close_stage();
}

/* --- sessions ------------------------------------------------------------------------------------------------ */

/* A session ends here before it can have ended there: counted from the sign of life, and less by the drift of clocks. */
static void a_session_ends_here_first(void **state)
{
    (void)state;
    open_stage("sessions://x", BY_JOB);
    simba__enter(&client->turn);
    const simba_local from = {client->turn.now.ns - 3000 * SIMBA__NS_PER_MS};
    stage.host->session(stage.host, from, 10000);
    const int64_t left_ns = atomic_load(&client->session_until_ns) - from.ns;
    assert_true(left_ns <= 9900 * SIMBA__NS_PER_MS); /* one percent */
    assert_true(left_ns > 9000 * SIMBA__NS_PER_MS);
    stage.host->push(stage.host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_LOST});
    assert_int_equal(atomic_load(&client->session_until_ns), 0);
    simba__leave(&client->turn);
    close_stage();
}

/* A push for one incarnation reaches that one, and no other. */
static void a_push_is_for_one_nonce(void **state)
{
    (void)state;
    open_stage("sessions://x", BY_JOB);
    simba_locker *locker = locker_of("orders");
    simba__enter(&client->turn);
    stage.host->session(stage.host, client->turn.now, 10000);
    simba__leave(&client->turn);
    assert_int_equal(simba_locker_acquire(locker, LONG_MS, NULL), 0);
    const simba_push changed = {.kind = SIMBA_PUSH_CHANGED};
    const unsigned before = atomic_load(&stage.submitted);
    simba__enter(&client->turn);
    stage.host->push_to(stage.host, "orders", stage.nonce + 1, &changed);
    simba__leave(&client->turn);
    assert_int_equal(atomic_load(&stage.submitted), before);
    simba__enter(&client->turn);
    stage.host->push_to(stage.host, "orders", stage.nonce, &changed);
    simba__leave(&client->turn);
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&stage.submitted) > before)); /* it looks what has become of it */
    assert_true(REF_WITHIN(LONG_MS, is_answered()));
    assert_int_equal(simba_locker_release(locker, NULL), 0);
    simba_locker_free(locker);
    close_stage();
}

/* --- threads ------------------------------------------------------------------------------------------------- */

static atomic_uint signals;
static pthread_t signalled;

static void on_signal(int number)
{
    (void)number;
    signalled = pthread_self();
    atomic_fetch_add(&signals, 1);
}

/* Signals are for the application's threads. */
static void our_threads_take_no_signals(void **state)
{
    (void)state;
    open_stage("stage://x", BY_JOB);
    sigset_t usr1;
    sigset_t before;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    signal(SIGUSR1, on_signal);
    pthread_sigmask(SIG_BLOCK, &usr1, &before);
    kill(getpid(), SIGUSR1);
    usleep(20000);
    assert_int_equal(atomic_load(&signals), 0); /* nobody but us could have taken it */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(atomic_load(&signals), 1);
    assert_true(pthread_equal(signalled, pthread_self()));
    signal(SIGUSR1, SIG_DFL);
    close_stage();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_run_by_whom_they_may_keep),
        cmocka_unit_test(a_limit_holds_beside_a_job),
        cmocka_unit_test(who_leaves_helps_who_waits),
        cmocka_unit_test(who_comes_back_puts_off),
        cmocka_unit_test(who_is_put_off_looks_after_itself),
        cmocka_unit_test(quick_returns_are_counted),
        cmocka_unit_test(an_answer_is_read_by_who_waits),
        cmocka_unit_test(who_leads_is_rung),
        cmocka_unit_test(a_wake_is_heard),
        cmocka_unit_test(a_bell_that_is_not_heeded),
        cmocka_unit_test(a_loop_is_called_by_everything),
        cmocka_unit_test(a_loop_is_not_called_for_others),
        cmocka_unit_test(a_bell_that_was_heeded_already),
        cmocka_unit_test(an_answer_is_looked_for_before_a_deadline),
        cmocka_unit_test(a_request_ends_at_its_deadline),
        cmocka_unit_test(closing_waits_for_who_leads),
        cmocka_unit_test(who_is_in_a_turn_begins_the_calls_of_others),
        cmocka_unit_test(a_call_of_the_last_moment_is_begun),
        cmocka_unit_test(a_call_that_was_posted_can_be_cancelled),
        cmocka_unit_test(a_call_that_was_posted_has_its_limit),
        cmocka_unit_test(a_session_ends_here_first),
        cmocka_unit_test(a_push_is_for_one_nonce),
        cmocka_unit_test(our_threads_take_no_signals),
    };
    if (simba_backend_register(&leases) != 0 || simba_backend_register(&sessions) != 0)
        return 70;
    return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
