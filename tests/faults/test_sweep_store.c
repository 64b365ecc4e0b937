/* What happens when the store fails, at every place where it can: two clients hand a mutex back and forth, and each
 * time another request fails, another reply gets lost, or another push does not arrive, until nothing is left to break.
 * One such fault may cost time, and no more: both sides get their turn, nobody is told twice, nothing hangs or leaks.
 *
 * Rounds spend their time waiting, so many are played side by side. */
#include <pthread.h>
#include <simba.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../tck/fault_wrapper.h"
#include "lib/cm.h"
#include "lib/failing_alloc.h"
#include "lib/lossy.h"
#include "lib/referee.h"

#define LONG_MS (ref_scaled_ms(15000)) /* for what must happen */
#define MUTEX "sweep"

enum { WATCHDOG_S = 110, SWEEPERS = 8 };

typedef enum fault_kind { FAIL_REQUEST, LOSE_REPLY, DROP_PUSH } fault_kind;

typedef struct sweep {
    const char *store; /* "memory" or "sqlite" */
    fault_kind kind;
    int victim; /* which client; of pushes: -1, both */
    atomic_uint next, end;
    atomic_uint rounds, fired;
} sweep;

typedef struct play {
    const sweep *sweep;
    unsigned nth;
    simba_client *clients[2];
    tck_fault *faults[2];
    lossy_filter filter;
    atomic_uint pushes;
    ref_arena arena;
    simba_locker *lockers[2];
    simba_scheduler *schedulers[2];
    simba_observer *observer;
    struct worker {
        struct play *play;
        unsigned runs;
    } workers[2];
    bool working; /* with the referee's lock, as is all below */
    uint64_t worked_under;
    simba_owner seen;
} play;

static char folder[REF_FOLDER_MAX];

#define AWAIT(condition)                                                                                               \
    do {                                                                                                               \
        if (!REF_WITHIN(LONG_MS, condition))                                                                           \
            REF_COMPLAIN("waited in vain for: %s", #condition);                                                        \
    } while (0)

#define EXPECT_RC(expected, call)                                                                                      \
    do {                                                                                                               \
        const int rc_ = (call);                                                                                        \
        if (rc_ != (expected))                                                                                         \
            REF_COMPLAIN("%s is %s", #call, simba_error_name(rc_));                                                    \
    } while (0)

/* --- setting the stage ------------------------------------------------------------------------------- */

static bool on_push(void *user, const simba_push *push)
{
    play *p = user;
    (void)push;
    return atomic_fetch_add(&p->pushes, 1) + 1 != p->nth;
}

static void open_client(play *p, int i, const char *inner)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.timing.ttl_ms = ref_scaled_ms(40);
    options.timing.transition_ms = ref_scaled_ms(360);
    char url[200];
    snprintf(url, sizeof url, "lossy-%s", inner);
    simba_error err = {0};
    if (p->sweep->kind != DROP_PUSH) {
        EXPECT_RC(0, tck_fault_new(inner, NULL, NULL, &err, &p->faults[i]));
        snprintf(url, sizeof url, "%s", tck_fault_url(p->faults[i]));
    }
    if (simba_client_open(url, &options, &err, &p->clients[i]) != 0)
        REF_COMPLAIN("cannot open %s: %s", url, err.text);
}

static void open_clients(play *p)
{
    char inner[160];
    if (strcmp(p->sweep->store, "sqlite") == 0)
        snprintf(inner, sizeof inner, "sqlite://%s/%d-%d-%u.db", folder, p->sweep->kind, p->sweep->victim, p->nth);
    else
        snprintf(inner, sizeof inner, "memory://sweep-%u", p->nth);
    p->filter = (lossy_filter){.push = on_push, .user = p};
    lossy_use(&p->filter);
    for (int i = 0; i < 2; i++)
        open_client(p, i, inner);
    if (p->sweep->kind == FAIL_REQUEST)
        tck_fault_fail_nth(p->faults[p->sweep->victim], TCK_ANY_OP, p->nth);
    else if (p->sweep->kind == LOSE_REPLY)
        tck_fault_lose_reply_nth(p->faults[p->sweep->victim], TCK_ANY_OP, p->nth);
}

static void work(simba_run *run, void *user)
{
    struct worker *worker = user;
    play *p = worker->play;
    const uint64_t token = simba_run_token(run);
    ref_lock();
    if (p->working)
        REF_COMPLAIN("two work at once");
    if (token != 0 && token < p->worked_under)
        REF_COMPLAIN("work under an old token");
    if (token != 0)
        p->worked_under = token;
    p->working = true;
    ref_unlock();
    ref_lock();
    p->working = false;
    worker->runs++;
    ref_unlock();
}

static void observed(simba_observer *observer, const simba_state *state, void *user)
{
    play *p = user;
    (void)observer;
    ref_lock();
    p->seen = state->after;
    ref_unlock();
}

static void make_handles(play *p)
{
    simba_error err = {0};
    for (unsigned i = 0; i < 2; i++) {
        const simba_contender_options contender = ref_options(&p->arena, i);
        EXPECT_RC(0, simba_contender_new(p->clients[i], MUTEX, &contender, &err, &p->arena.contenders[i].handle));
        EXPECT_RC(0, simba_locker_new(p->clients[i], MUTEX "-locker", NULL, &err, &p->lockers[i]));
        simba_scheduler_options scheduler = SIMBA_SCHEDULER_OPTIONS_INIT;
        p->workers[i].play = p;
        scheduler.period_ms = 1;
        scheduler.work = work;
        scheduler.user = &p->workers[i];
        EXPECT_RC(0, simba_scheduler_new(p->clients[i], MUTEX "-scheduler", &scheduler, &err, &p->schedulers[i]));
    }
    simba_observer_options observer = SIMBA_OBSERVER_OPTIONS_INIT;
    observer.on_changed = observed;
    observer.user = p;
    observer.poll_ms = 10;
    EXPECT_RC(0, simba_observer_new(p->clients[1], MUTEX, &observer, &err, &p->observer));
}

/* --- the acts ---------------------------------------------------------------------------------------- */

static uint64_t renewals(simba_client *client)
{
    simba_stats stats = SIMBA_STATS_INIT;
    EXPECT_RC(0, simba_client_stats(client, &stats));
    return stats.renewals;
}

/* The one that leads is renewed, stops, and the other one must come to lead. */
static void hand_over(play *p)
{
    ref_contender *all = p->arena.contenders;
    AWAIT(p->arena.inside);
    ref_lock();
    const int from = p->arena.inside == &all[1];
    const int to = !from;
    const unsigned before = all[to].acquired;
    ref_unlock();
    const uint64_t renewed = renewals(p->clients[from]);
    AWAIT(renewals(p->clients[from]) > renewed || !all[from].leads);
    EXPECT_RC(0, ref_stop(&all[from]));
    AWAIT(all[to].acquired > before || all[to].leads);
    EXPECT_RC(0, ref_start(&all[from]));
}

/* A lock that is held is refused, and passes on. */
static void lock_and_unlock(play *p)
{
    simba_error err = {0};
    for (int i = 0; i < 2; i++) {
        EXPECT_RC(0, simba_locker_acquire(p->lockers[i], LONG_MS, &err));
        const int rc = simba_locker_acquire(p->lockers[!i], 0, &err);
        if (rc == 0 && simba_locker_held_for_ms(p->lockers[i]) > 0)
            REF_COMPLAIN("two hold one lock");
        REF_EXPECT(rc == SIMBA_ETIMEDOUT || rc == SIMBA_EUNAVAILABLE);
        REF_EXPECT(err.code == rc && err.text[0] != '\0');
        EXPECT_RC(0, simba_locker_release(p->lockers[i], &err));
    }
}

/* Work goes on at the other side when one stops. */
static void schedule(play *p)
{
    for (int i = 0; i < 2; i++)
        EXPECT_RC(0, simba_scheduler_start(p->schedulers[i]));
    AWAIT(p->workers[0].runs >= 1 || p->workers[1].runs >= 1);
    const int first = simba_scheduler_is_leader(p->schedulers[1]);
    EXPECT_RC(0, simba_scheduler_stop(p->schedulers[first]));
    AWAIT(p->workers[!first].runs >= 1);
    EXPECT_RC(0, simba_scheduler_stop(p->schedulers[!first]));
}

static void take_down(play *p)
{
    for (int i = 0; i < 2; i++)
        EXPECT_RC(0, ref_stop(&p->arena.contenders[i]));
    AWAIT(simba_owner_is_none(&p->seen));
    for (int i = 0; i < 2; i++) {
        ref_free(&p->arena.contenders[i]);
        simba_locker_free(p->lockers[i]);
        simba_scheduler_free(p->schedulers[i]);
    }
    simba_observer_free(p->observer);
    for (int i = 0; i < 2; i++)
        EXPECT_RC(0, simba_client_close(p->clients[i]));
    ref_arena_check_end(&p->arena);
}

static bool has_fired(const play *p)
{
    if (p->sweep->kind == DROP_PUSH)
        return atomic_load(&p->pushes) >= p->nth;
    return tck_fault_count(p->faults[p->sweep->victim], TCK_ANY_OP, TCK_SUBMITTED) >= p->nth;
}

/* The scenario; whether there was something to break. */
static bool perform(play *p)
{
    open_clients(p);
    make_handles(p);
    EXPECT_RC(0, simba_observer_start(p->observer));
    for (int i = 0; i < 2; i++)
        EXPECT_RC(0, ref_start(&p->arena.contenders[i]));
    for (int i = 0; i < 6; i++)
        hand_over(p);
    AWAIT(p->arena.contenders[0].acquired >= 3 && p->arena.contenders[1].acquired >= 3);
    lock_and_unlock(p);
    schedule(p);
    take_down(p);
    const bool fired = has_fired(p);
    for (int i = 0; i < 2; i++)
        tck_fault_free(p->faults[i]);
    return fired;
}

/* --- rounds ------------------------------------------------------------------------------------------ */

/* One round; nth 0: nothing breaks. Whether there was something to break. */
static bool play_once(const sweep *s, unsigned nth)
{
    static const char *const names[] = {"request fails", "reply is lost", "push is lost"};
    ref_scene("%s, client %d, the %uth %s", s->store, s->victim, nth, names[s->kind]);
    play *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->sweep = s;
    p->nth = nth;
    ref_arena_init(&p->arena);
    const bool fired = perform(p);
    free(p);
    return fired;
}

static void *run_sweeper(void *arg)
{
    sweep *s = arg;
    const unsigned complaints = ref_complaints();
    for (unsigned nth = atomic_fetch_add(&s->next, 1); nth < atomic_load(&s->end) && ref_complaints() == complaints;
         nth = atomic_fetch_add(&s->next, 1)) {
        atomic_fetch_add(&s->rounds, 1);
        if (play_once(s, nth))
            atomic_fetch_add(&s->fired, 1);
        else
            atomic_store(&s->end, 0);
    }
    return NULL;
}

static void run_sweep(const char *store, fault_kind kind, int victim)
{
    sweep s = {.store = store, .kind = kind, .victim = victim, .next = 1, .end = 10000};
    const unsigned complaints = ref_complaints();
    ref_scene("%s, client %d, kind %d", store, victim, (int)kind);
    ref_watchdog(WATCHDOG_S);
    play_once(&s, 0); /* what is made once in a program is made now */
    const unsigned files = ref_entries("/proc/self/fd");
    const unsigned threads = ref_entries("/proc/self/task");
    const long live = failing_live(FAILING_SIMBA);
    pthread_t sweepers[SWEEPERS];
    for (int i = 0; i < SWEEPERS; i++)
        assert_int_equal(0, pthread_create(&sweepers[i], NULL, run_sweeper, &s));
    for (int i = 0; i < SWEEPERS; i++)
        pthread_join(sweepers[i], NULL);
    ref_watchdog(0);
    if (ref_complaints() != complaints)
        fail_msg("something went wrong; see above");
    assert_int_equal(live, failing_live(FAILING_SIMBA));
    assert_int_equal(files, ref_entries("/proc/self/fd"));
    assert_int_equal(threads, ref_entries("/proc/self/task"));
    assert_true(atomic_load(&s.fired) > 0);
    print_message("# %s: %u rounds, %u faults\n", store, atomic_load(&s.rounds), atomic_load(&s.fired));
}

/* --- tests ------------------------------------------------------------------------------------------- */

/* Every request of either client fails once, not carried out. */
static void requests_fail(void **state)
{
    (void)state;
    run_sweep("memory", FAIL_REQUEST, 0);
    run_sweep("memory", FAIL_REQUEST, 1);
}

/* Every request of either client is carried out, and its reply lost. */
static void replies_get_lost(void **state)
{
    (void)state;
    run_sweep("memory", LOSE_REPLY, 0);
    run_sweep("memory", LOSE_REPLY, 1);
}

/* Every push does not arrive once. */
static void pushes_get_lost(void **state)
{
    (void)state;
    run_sweep("memory", DROP_PUSH, -1);
}

/* The same over a store that answers from another thread. */
static void sqlite_requests_fail(void **state)
{
    (void)state;
    run_sweep("sqlite", FAIL_REQUEST, 0);
}

static void sqlite_replies_get_lost(void **state)
{
    (void)state;
    run_sweep("sqlite", LOSE_REPLY, 1);
}

static void sqlite_pushes_get_lost(void **state)
{
    (void)state;
    run_sweep("sqlite", DROP_PUSH, -1);
}

int main(void)
{
    failing_install(); /* to count what is alive */
    lossy_register("memory");
    lossy_register("sqlite");
    ref_make_folder(folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_fail),           cmocka_unit_test(replies_get_lost),
        cmocka_unit_test(pushes_get_lost),         cmocka_unit_test(sqlite_requests_fail),
        cmocka_unit_test(sqlite_replies_get_lost), cmocka_unit_test(sqlite_pushes_get_lost),
    };
    const int failed = cmocka_run_group_tests_name("sweep_store", tests, NULL, NULL);
    ref_delete_folder(folder);
    return failed;
}
