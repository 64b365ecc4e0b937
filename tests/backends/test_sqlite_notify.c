/* The SQLite store and its waiters: who is told what about a mutex, and who is left in peace. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "backends/sqlite/wakeups.h"
#include "backends/sqlite/watches.h"
#include "backends/test_sqlite.h"

/* A release in another process reaches a waiter here. */
static void release_in_another_process(void **state)
{
    fixture *f = *state;
    int held[2];
    int watched[2];
    char byte = 0;
    assert_int_equal(pipe(held), 0);
    assert_int_equal(pipe(watched), 0);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the parent fail and never write */
        simba_error err;
        if (testhost_open(&f->b, &simba__backend_sqlite, f->url, &err) < 0)
            _exit(1);
        testhost_request r = testhost_request_of(&f->b, SIMBA_OP_ACQUIRE, "orders", "b", 2, 0);
        testhost_ask(&f->b, &r);
        (void)!write(held[1], &byte, 1);
        (void)!read(watched[0], &byte, 1);
        r = testhost_request_of(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0);
        testhost_ask(&f->b, &r);
        testhost_close(&f->b);
        _exit(0);
    }
    assert_int_equal(read(held[0], &byte, 1), 1);
    open_store(f, &f->a);
    simba_topic topic = {.mutex = "orders"};
    assert_owned_by(acquire(&f->a, "orders", "a", 1), "b");
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    testhost_settle(&f->a);
    assert_told(&f->a, 0, SIMBA_PUSH_ACQUIRED, "b");
    assert_int_equal(write(watched[1], &byte, 1), 1);
    assert_true(testhost_await_pushes(&f->a, 2));
    assert_told(&f->a, 1, SIMBA_PUSH_RELEASED, NULL);
    assert_mine(acquire(&f->a, "orders", "a", 1));
    testhost_unwatch(&f->a, &topic);
    testhost_close(&f->a);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* It is released between the answer that somebody has it and the watch. */
static void released_before_the_watch(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    open_store(f, &f->b);
    simba_topic topic = {.mutex = "orders"};
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_owned_by(acquire(&f->a, "orders", "a", 1), "b");
    ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0);
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    testhost_run_jobs(&f->a);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    close_both(f, &topic);
}

/* A name other than `mutex` that has the same slot. */
static const char *neighbour_of(const char *mutex)
{
    static char name[32];
    const size_t slot = simba__sqlite_notify_slot(simba__sqlite_notify_hash(mutex));
    int i = 0;
    do
        snprintf(name, sizeof name, "other-%d", i++);
    while (simba__sqlite_notify_slot(simba__sqlite_notify_hash(name)) != slot);
    return name;
}

/* The same, for a mutex that shares its slot with another that is watched and talked about all the while. */
static void released_before_the_watch_in_a_busy_slot(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    simba_topic noise = {.mutex = neighbour_of("orders")};
    open_store(f, &f->a);
    open_store(f, &f->b);
    assert_int_equal(testhost_watch(&f->a, &noise), 0);
    testhost_run_jobs(&f->a);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_owned_by(acquire(&f->a, "orders", "a", 1), "b");
    ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0);
    acquire(&f->b, noise.mutex, "b", 2);
    testhost_settle(&f->a); /* a looks into the slot, and at the other mutex */
    f->a.push_count = 0;
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    testhost_run_jobs(&f->a);
    assert_int_equal(f->a.push_count, 1);
    assert_ptr_equal(f->a.pushes[0].topic, &topic);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);

    /* And news about the one is not news about the other. */
    ask(&f->b, SIMBA_OP_RELEASE, noise.mutex, "b", 2, 0);
    assert_true(testhost_await_pushes(&f->a, 2));
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 2);
    assert_ptr_equal(f->a.pushes[1].topic, &noise);
    testhost_unwatch(&f->a, &noise);
    close_both(f, &topic);
}

/* What is known of a mutex says nothing about another in the same slot. */
static void neighbour_is_not_known(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    open_store(f, &f->a);
    open_store(f, &f->b);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_mine(acquire(&f->a, neighbour_of("orders"), "a", 1));
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_ACQUIRED, "b");
    close_both(f, &topic);
}

/* Another process marks the slot, and then we do, for a neighbour, before we have looked: its mark is not forgotten. */
static void own_mark_on_top_of_another(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    simba_topic elsewhere = {.mutex = "elsewhere"};
    b_holds_a_waits(f, &topic);
    assert_int_equal(testhost_watch(&f->b, &elsewhere), 0); /* so that ours is marked, too */
    ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0);
    assert_mine(acquire(&f->a, neighbour_of("orders"), "a", 1));
    assert_int_equal(f->a.push_count, 0);
    assert_true(testhost_await_pushes(&f->a, 1));
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    testhost_unwatch(&f->b, &elsewhere);
    close_both(f, &topic);
}

/* A look goes by the slot as it is now: after one, a client knows all that has happened. */
static void one_look_is_enough(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    const unsigned jobs = f->a.jobs_run;
    ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0);
    assert_true(testhost_await_pushes(&f->a, 1));
    testhost_settle(&f->a);
    assert_in_range(f->a.jobs_run - jobs, 1, 2);
    close_both(f, &topic);
}

/* Of two requests of one transaction the first is refused, and the second releases: the watch that the first leads to
 * tells of it. */
static void released_after_the_refusal(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    open_store(f, &f->a);
    assert_mine(acquire(&f->a, "orders", "me", 1));
    testhost_request refused = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "you", 2, 0);
    testhost_request release = testhost_request_of(&f->a, SIMBA_OP_RELEASE, "orders", "me", 1, 0);
    testhost_submit(&f->a, &refused);
    testhost_submit(&f->a, &release);
    testhost_flush(&f->a);
    testhost_run_jobs(&f->a);
    assert_owned_by(refused.request.reply, "me");
    assert_mine(release.request.reply);
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    testhost_run_jobs(&f->a);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    testhost_unwatch(&f->a, &topic);
    testhost_close(&f->a);
}

/* Whoever watches a mutex that it never asked about is told the owner, once. */
static void watch_without_asking(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    open_store(f, &f->b);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    simba_topic topic = {.mutex = "orders"};
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_ACQUIRED, "b");
    close_both(f, &topic);
}

/* Renewals, however many, are no news and no work for those who wait. */
static void renewals_disturb_nobody(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    const uint64_t token = ask(&f->b, SIMBA_OP_READ, "orders", NULL, 0, 0).owner.token;
    const unsigned jobs = f->a.jobs_run;
    for (int i = 0; i < 20; i++) {
        assert_mine(ask(&f->b, SIMBA_OP_RENEW, "orders", "b", 2, token));
        testhost_advance(&f->a, 1000);
        testhost_settle(&f->a);
    }
    assert_int_equal(f->a.push_count, 0);
    assert_int_equal(f->a.jobs_run, jobs);
    close_both(f, &topic);
}

/* A grant is told with its owner and token; one that is given back and taken in one go, as what came of it. */
static void told_the_state_at_the_end(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    testhost_request release = testhost_request_of(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0);
    testhost_request again = testhost_request_of(&f->b, SIMBA_OP_ACQUIRE, "orders", "c", 3, 0);
    testhost_submit(&f->b, &release);
    testhost_submit(&f->b, &again);
    testhost_flush(&f->b);
    testhost_run_jobs(&f->b);
    assert_true(testhost_await_pushes(&f->a, 1));
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_ACQUIRED, "c");
    assert_int_equal(f->a.pushes[0].push.owner.token, again.request.reply.owner.token);
    close_both(f, &topic);
}

/* What this client does itself is pushed to its own waiters with the answer; the fifo adds nothing to it. */
static void own_changes(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    open_store(f, &f->a);
    open_store(f, &f->b);
    simba_topic elsewhere = {.mutex = "orders", .observed = true};
    assert_int_equal(testhost_watch(&f->b, &elsewhere), 0); /* so that the fifo is signalled */
    assert_mine(acquire(&f->a, "orders", "a", 1));
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    testhost_settle(&f->a);
    f->a.push_count = 0;
    testhost_request release = testhost_request_of(&f->a, SIMBA_OP_RELEASE, "orders", "a", 1, 0);
    testhost_request other = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "c", 3, 0);
    testhost_ask(&f->a, &release);
    testhost_ask(&f->a, &other);
    assert_int_equal(f->a.push_count, 2);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    assert_told(&f->a, 1, SIMBA_PUSH_ACQUIRED, "c");
    const unsigned jobs = f->a.jobs_run;
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 2);
    assert_int_equal(f->a.jobs_run, jobs);
    testhost_unwatch(&f->b, &elsewhere);
    close_both(f, &topic);
}

/* What others did is told to all who watch, also if an answer to one of us was the first to say it. */
static void learnt_from_an_answer(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0);
    const simba_reply c = acquire(&f->b, "orders", "c", 3);
    assert_owned_by(acquire(&f->a, "orders", "a", 1), "c"); /* before the fifo was heard */
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_ACQUIRED, "c");
    assert_int_equal(f->a.pushes[0].push.owner.token, c.owner.token);
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 1);
    close_both(f, &topic);
}

/* The holder watches too, and so hears that it was revoked. */
static void revocation_reaches_the_holder(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    open_store(f, &f->a);
    open_store(f, &f->b);
    const simba_reply won = acquire(&f->a, "orders", "a", 1);
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    assert_mine(ask(&f->b, SIMBA_OP_FORCE_RELEASE, "orders", NULL, 0, 0));
    assert_true(testhost_await_pushes(&f->a, 1));
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    assert_int_equal(ask(&f->a, SIMBA_OP_RENEW, "orders", "a", 1, won.owner.token).outcome, SIMBA_REVOKED);
    close_both(f, &topic);
}

/* The holder is told although it watches nothing: another process, or this one, forces its mutex away; also in the moment
 * before it attends to the fifo. */
static void revocation_is_told_without_a_watch(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    open_store(f, &f->b);
    testhost *const by[] = {&f->b, &f->b, &f->a};
    for (size_t i = 0; i < 3; i++) {
        const simba_reply won = acquire(&f->a, "orders", "a", 11);
        assert_mine(acquire(&f->a, "invoices", "a", 12));
        assert_mine(ask(by[i], SIMBA_OP_FORCE_RELEASE, "orders", NULL, 0, 0));
        if (i == 0)
            testhost_advance(&f->a, 100); /* from now on it does */
        assert_true(testhost_await_pushes(&f->a, 1));
        assert_told(&f->a, 0, SIMBA_PUSH_CHANGED, NULL);
        assert_int_equal(f->a.pushes[0].nonce, 11);
        assert_int_equal(ask(&f->a, SIMBA_OP_RENEW, "orders", "a", 11, won.owner.token).outcome, SIMBA_REVOKED);
        testhost_settle(&f->a);
        assert_int_equal(f->a.push_count, 1);
        f->a.push_count = 0;
    }
    /* Nor does anybody remember what was given back. */
    assert_mine(acquire(&f->a, "orders", "a", 11));
    assert_mine(ask(&f->a, SIMBA_OP_RELEASE, "orders", "a", 11, 0));
    assert_mine(acquire(&f->b, "orders", "b", 21));
    assert_mine(ask(&f->b, SIMBA_OP_FORCE_RELEASE, "orders", NULL, 0, 0));
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 0);
    testhost_close(&f->a);
    testhost_close(&f->b);
}

/* Somebody else takes it at once, before the holder that lost it has looked: it is told all the same. */
static void revoked_and_taken(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    open_store(f, &f->b);
    simba_topic elsewhere = {.mutex = "elsewhere"};
    assert_int_equal(testhost_watch(&f->a, &elsewhere), 0); /* somebody listens, so the next grant is marked, too */
    testhost_settle(&f->a);
    f->a.push_count = 0;
    assert_mine(acquire(&f->a, "orders", "a", 11));
    assert_mine(ask(&f->b, SIMBA_OP_FORCE_RELEASE, "orders", NULL, 0, 0));
    assert_mine(acquire(&f->b, "orders", "b", 21));
    assert_true(testhost_await_pushes(&f->a, 1));
    assert_told(&f->a, 0, SIMBA_PUSH_CHANGED, NULL);
    assert_int_equal(f->a.pushes[0].nonce, 11);
    testhost_unwatch(&f->a, &elsewhere);
    testhost_close(&f->a);
    testhost_close(&f->b);
}

/* Where the fifo is not heard the slots are looked at now and then. */
static void poll_behind_the_bell(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0);
    assert_int_equal(f->a.push_count, 0);
    testhost_advance(&f->a, 1001); /* the loop does not run */
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    close_both(f, &topic);
}

static uint64_t mark(simba__sqlite_notify *notify, uint64_t hash, bool released)
{
    const simba__sqlite_notify_marking marking = simba__sqlite_notify_begin(notify);
    const uint64_t replaced = simba__sqlite_notify_mark(&marking, simba__sqlite_notify_slot(hash),
                                                        simba__sqlite_notify_value(hash, released, 12345));
    simba__sqlite_notify_end(&marking, 54321);
    return replaced;
}

static void ring(const simba__sqlite_notify *notify, uint64_t hash)
{
    static simba__sqlite_wakeups wakeups;
    simba__sqlite_wakeups_begin(&wakeups, notify, 0);
    (void)simba__sqlite_wakeups_changed(&wakeups, hash, true);
    simba__sqlite_wakeups_end(&wakeups);
}

/* A late mark of an old release is believed for a moment, and put right by the row. */
static void late_mark(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    simba_error err;
    simba__sqlite_notify *notify = NULL;
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &notify), 0);
    const uint64_t hash = simba__sqlite_notify_hash("orders");
    mark(notify, hash, true);
    ring(notify, hash);
    simba__sqlite_notify_close(notify);
    assert_true(testhost_await_pushes(&f->a, 2));
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    assert_told(&f->a, 1, SIMBA_PUSH_ACQUIRED, "b");
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 2);
    close_both(f, &topic);
}

/* Unwatched while a look at it is under way. */
static void unwatched_meanwhile(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    simba_topic topic = {.mutex = "orders"};
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    assert_non_null(f->a.first_job);
    testhost_unwatch(&f->a, &topic);
    testhost_run_jobs(&f->a);
    assert_int_equal(f->a.push_count, 0);
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    testhost_close(&f->a);
}

/* The notify file is deleted: after a while all use a new one, and nothing that was released goes unnoticed. */
static void notify_file_deleted(void **state)
{
    fixture *f = *state;
    char path[128];
    simba_topic topic = {.mutex = "orders", .observed = true};
    b_holds_a_waits(f, &topic);
    snprintf(path, sizeof path, "%s-notify", f->path);
    assert_int_equal(unlink(path), 0);
    f->b.now_shift_ns += 2000 * SIMBA__NS_PER_MS;
    assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0));
    assert_int_equal(access(path, F_OK), 0);
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 0);
    testhost_advance(&f->a, 1001);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_true(testhost_await_pushes(&f->a, 2)); /* by the fifo of the new one */
    close_both(f, &topic);
}

static void truncate_notify(const fixture *f, off_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s-notify", f->path);
    assert_int_equal(truncate(path, size), 0);
}

/* Somebody truncates the notify file, and with it what it says of those who wait: nobody dies of it, and within a second
 * everybody has said so again. */
static void notify_file_truncated(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders", .observed = true};
    b_holds_a_waits(f, &topic);
    truncate_notify(f, 0);
    assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0));
    testhost_advance(&f->a, 1001);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    truncate_notify(f, 1);
    testhost_advance(&f->a, 1001);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_true(testhost_await_pushes(&f->a, 2));
    close_both(f, &topic);
}

/* It is truncated right after a mark, before the waiter has looked at a slot that was never used: found within a second. */
static void truncated_after_a_mark(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    truncate_notify(f, 0);
    testhost_settle(&f->a);
    testhost_advance(&f->a, 1001);
    f->a.push_count = 0;
    assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0));
    truncate_notify(f, 0);
    testhost_advance(&f->a, 2002);
    assert_true(f->a.push_count >= 1);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    close_both(f, &topic);
}

/* The database is deleted and made anew by another process: a waiter that asks for nothing comes along. */
static void database_deleted_under_a_waiter(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    assert_int_equal(unlink(f->path), 0);
    assert_mine(acquire(&f->b, "orders", "c", 3));
    testhost_advance(&f->a, 1001);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_ACQUIRED, "c");
    assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "c", 3, 0));
    assert_true(testhost_await_pushes(&f->a, 2));
    assert_told(&f->a, 1, SIMBA_PUSH_RELEASED, NULL);
    assert_mine(acquire(&f->a, "orders", "a", 1));
    close_both(f, &topic);
}

/* The same, and nothing is known of the mutex in the new one: so it is free, and that is told. */
static void database_deleted_frees(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    assert_int_equal(unlink(f->path), 0);
    assert_mine(acquire(&f->b, "invoices", "b", 2));
    testhost_advance(&f->a, 1001);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    close_both(f, &topic);
}

/* A look that failed is taken again. */
static void failed_look(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0);
    ask(&f->b, SIMBA_OP_ACQUIRE, "orders", "c", 3, 0);
    raw_once(f, "UPDATE simba_mutex SET owner_id = hex(zeroblob(100))"); /* longer than any can be */
    const unsigned jobs = f->a.jobs_run;
    testhost_settle(&f->a);
    assert_int_equal(f->a.jobs_run, jobs + 1);
    assert_int_equal(f->a.push_count, 0);
    raw_once(f, "UPDATE simba_mutex SET owner_id = 'c'");
    testhost_advance(&f->a, 1001);
    assert_int_equal(f->a.push_count, 1);
    assert_told(&f->a, 0, SIMBA_PUSH_ACQUIRED, "c");
    close_both(f, &topic);
}

/* Nobody is heard who does not listen, who listens to himself, or who died listening. */
static void bell_without_listeners(void **state)
{
    fixture *f = *state;
    simba_error err;
    simba__sqlite_notify *one = NULL;
    simba__sqlite_notify *two = NULL;
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &one), 0);
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &two), 0);
    assert_false(simba__sqlite_notify_is_heard(one));
    simba__sqlite_notify_listen(one);
    assert_false(simba__sqlite_notify_is_heard(one));
    assert_true(simba__sqlite_notify_is_heard(two));
    simba__sqlite_notify_leave(one);
    const pid_t child = fork();
    if (child == 0) {
        simba__sqlite_notify *three = NULL;
        if (simba__sqlite_notify_open(f->path, &err, &three) < 0)
            _exit(1);
        simba__sqlite_notify_listen(three);
        _exit(simba__sqlite_notify_is_heard(one) ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(simba__sqlite_notify_is_heard(two));
    simba__sqlite_notify_close(one);
    simba__sqlite_notify_close(two);
}

/* Where nobody else listens nothing is marked; one who begins to listen after it finds it all the same. */
static void no_marks_for_nobody(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    simba_error err;
    simba__sqlite_notify *notify = NULL;
    open_store(f, &f->a);
    open_store(f, &f->b);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &notify), 0);
    assert_int_equal(simba__sqlite_notify_read(notify, simba__sqlite_notify_slot(simba__sqlite_notify_hash("orders"))),
                     0);
    assert_int_equal(testhost_watch(&f->a, &topic), 0);
    testhost_settle(&f->a);
    assert_told(&f->a, 0, SIMBA_PUSH_ACQUIRED, "b");
    assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0));
    assert_int_not_equal(
        simba__sqlite_notify_read(notify, simba__sqlite_notify_slot(simba__sqlite_notify_hash("orders"))), 0);
    assert_true(testhost_await_pushes(&f->a, 2));
    simba__sqlite_notify_close(notify);
    close_both(f, &topic);
}

/* Who has a fifo and waits for nothing sleeps through everything but revocations. */
static void what_is_heard(void **state)
{
    fixture *f = *state;
    static simba__sqlite_wakeups wakeups;
    simba_error err;
    simba__sqlite_notify *holder = NULL;
    simba__sqlite_notify *waiter = NULL;
    simba__sqlite_notify *writer = NULL;
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &holder), 0);
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &waiter), 0);
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &writer), 0);
    assert_int_equal(simba__sqlite_notify_attend(holder, 1), 0);
    assert_int_equal(simba__sqlite_notify_attend(waiter, 1), 0);
    assert_int_not_equal(holder->fifo.number, waiter->fifo.number);
    simba__sqlite_notify_write_entry(waiter, simba__sqlite_queue_number(5), simba__sqlite_queue_entry(5, false, 0));
    ring(writer, 5);
    assert_int_equal(simba__sqlite_fifo_drain(&holder->fifo), 0);
    assert_int_equal(simba__sqlite_fifo_drain(&waiter->fifo), SIMBA__SQLITE_SIGNAL_CHANGES);
    ring(writer, 6);
    assert_int_equal(simba__sqlite_fifo_drain(&waiter->fifo), 0);

    simba__sqlite_wakeups_begin(&wakeups, writer, 0);
    simba__sqlite_wakeups_revoked(&wakeups);
    simba__sqlite_wakeups_end(&wakeups);
    assert_int_equal(simba__sqlite_fifo_drain(&holder->fifo), SIMBA__SQLITE_SIGNAL_REVOKED);
    assert_int_equal(simba__sqlite_fifo_drain(&waiter->fifo), SIMBA__SQLITE_SIGNAL_REVOKED);
    simba__sqlite_notify_close(holder);
    simba__sqlite_notify_close(waiter);
    simba__sqlite_notify_close(writer);
}

/* A mark knows what it replaced, also from another process's hand; without the lock it does not claim to. */
static void marks_know_what_they_replace(void **state)
{
    fixture *f = *state;
    simba_error err;
    simba__sqlite_notify *one = NULL;
    simba__sqlite_notify *two = NULL;
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &one), 0);
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &two), 0);
    assert_int_equal(mark(one, 5, false), 0);
    assert_int_equal(mark(two, 5, true), simba__sqlite_notify_value(5, false, 12345));
    simba__sqlite_notify_cells cells;
    simba__sqlite_notify_read_all(one, &cells);
    assert_int_equal(cells.slots[5], simba__sqlite_notify_value(5, true, 12345));
    assert_int_equal(cells.disorder, 0);

    const simba__sqlite_notify_marking frozen = simba__sqlite_notify_begin(one);
    assert_true(frozen.locked);
    assert_int_equal(mark(two, 5, false), SIMBA__SQLITE_NOTIFY_UNSURE);
    simba__sqlite_notify_read_all(one, &cells);
    assert_int_equal(cells.slots[5], simba__sqlite_notify_value(5, false, 12345));
    assert_int_equal(cells.disorder, 54321);
    simba__sqlite_notify_end(&frozen, 1);
    simba__sqlite_notify_close(one);
    assert_int_equal(mark(two, 5, true),
                     simba__sqlite_notify_value(5, false, 12345)); /* the lock went with its holder */
    simba__sqlite_notify_close(two);
}

/* A process is frozen in the middle of marking: others are not held up, and a waiter hears of the release. */
static void marker_is_frozen(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    simba_error err;
    simba__sqlite_notify *notify = NULL;
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &notify), 0);
    const simba__sqlite_notify_marking frozen = simba__sqlite_notify_begin(notify);
    assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0));
    assert_true(testhost_await_pushes(&f->a, 1));
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    simba__sqlite_notify_end(&frozen, 1);
    simba__sqlite_notify_close(notify);
    close_both(f, &topic);
}

/* A mark of ours that does not know what it replaced says nothing about what a watcher has seen. */
static void unsure_mark_makes_nothing_known(void **state)
{
    fixture *f = *state;
    static simba__sqlite_watches watches;
    simba_topic topic = {.mutex = "orders"};
    simba__sqlite_watches_init(&watches, &f->a.host);
    simba__sqlite_watch *watched = simba__sqlite_watches_add(&watches, &topic, 0);
    const simba__sqlite_effect effect = {.hash = watched->hash, .replaced = SIMBA__SQLITE_NOTIFY_UNSURE, .marked = 2};
    simba__sqlite_watches_marked(&watches, &effect);
    assert_int_equal(watched->known, SIMBA__SQLITE_NOTIFY_UNSEEN);
    simba__sqlite_watches_remove(&watches, watched);
}

/* A mark was lost between two others, and whoever made it said so: all that is watched is looked at. */
static void about_disorder(void **state)
{
    fixture *f = *state;
    simba_topic topic = {.mutex = "orders"};
    b_holds_a_waits(f, &topic);
    raw_once(f, "UPDATE simba_mutex SET owner_id = '', version = version + 1"); /* without a mark */
    simba_error err;
    simba__sqlite_notify *notify = NULL;
    assert_int_equal(simba__sqlite_notify_open(f->path, &err, &notify), 0);
    ring(notify, simba__sqlite_notify_hash("orders"));
    testhost_settle(&f->a);
    assert_int_equal(f->a.push_count, 0);
    const simba__sqlite_notify_marking unlocked = {.notify = notify};
    simba__sqlite_notify_end(&unlocked, 77);
    ring(notify, simba__sqlite_notify_hash("orders"));
    assert_true(testhost_await_pushes(&f->a, 1));
    assert_told(&f->a, 0, SIMBA_PUSH_RELEASED, NULL);
    simba__sqlite_notify_close(notify);
    close_both(f, &topic);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(release_in_another_process),
        TEST(released_before_the_watch),
        TEST(released_before_the_watch_in_a_busy_slot),
        TEST(neighbour_is_not_known),
        TEST(own_mark_on_top_of_another),
        TEST(one_look_is_enough),
        TEST(released_after_the_refusal),
        TEST(watch_without_asking),
        TEST(renewals_disturb_nobody),
        TEST(told_the_state_at_the_end),
        TEST(own_changes),
        TEST(learnt_from_an_answer),
        TEST(revocation_reaches_the_holder),
        TEST(poll_behind_the_bell),
        TEST(late_mark),
        TEST(unwatched_meanwhile),
        TEST(notify_file_deleted),
        TEST(notify_file_truncated),
        TEST(truncated_after_a_mark),
        TEST(revocation_is_told_without_a_watch),
        TEST(revoked_and_taken),
        TEST(database_deleted_under_a_waiter),
        TEST(database_deleted_frees),
        TEST(failed_look),
        TEST(bell_without_listeners),
        TEST(no_marks_for_nobody),
        TEST(what_is_heard),
        TEST(marks_know_what_they_replace),
        TEST(marker_is_frozen),
        TEST(unsure_mark_makes_nothing_known),
        TEST(about_disorder),
    };
    return cmocka_run_group_tests_name("sqlite notify", tests, NULL, NULL);
}
