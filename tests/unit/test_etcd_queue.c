/* What a contender of a mutex on etcd does next: without any server. */
#include "lib/cm.h"

#include "stores/etcd/etcd.h"

static etcd_queue q;

static int setup(void **state)
{
    (void)state;
    q = (etcd_queue){0};
    return 0;
}

static etcd_move saw(uint64_t own, uint64_t before, uint64_t rest)
{
    const etcd_sight sight = {.own = own, .before = before, .rest = rest};
    return simba__etcd_queue_saw(&q, &sight);
}

static void assert_move(etcd_move move, etcd_step step, etcd_tell tell)
{
    assert_int_equal(move.step, step);
    assert_int_equal(move.tell, tell);
}

static void enter(bool queue)
{
    assert_move(simba__etcd_queue_acquire(&q, queue), ETCD_ENTER, ETCD_TELL_NOTHING);
}

static void lead(void)
{
    enter(true);
    assert_move(saw(10, 0, 0), ETCD_REST, ETCD_TELL_LEADS);
}

static void wait_behind(uint64_t before)
{
    enter(true);
    assert_move(saw(10, before, 0), ETCD_REST, ETCD_TELL_WAITS);
}

/* Nobody is before it. */
static void first(void **state)
{
    (void)state;
    lead();
    assert_move(simba__etcd_queue_release(&q), ETCD_LEAVE, ETCD_TELL_NOTHING);
    assert_move(simba__etcd_queue_left(&q, true), ETCD_REST, ETCD_TELL_FREED);
}

/* The contender before it has gone: it leads only after another look, which has to show its own key, too. */
static void in_order(void **state)
{
    (void)state;
    wait_behind(9);
    assert_move(simba__etcd_queue_news(&q), ETCD_LOOK, ETCD_TELL_NOTHING);
    assert_int_equal(q.below, 10);
    assert_move(saw(10, 8, 0), ETCD_REST, ETCD_TELL_WAITS); /* somebody in the middle had left */
    assert_move(simba__etcd_queue_news(&q), ETCD_LOOK, ETCD_TELL_NOTHING);
    assert_move(saw(10, 0, 0), ETCD_REST, ETCD_TELL_LEADS);
}

/* Its key went with the lease while it waited: it never leads by that key. */
static void gone_while_waiting(void **state)
{
    (void)state;
    wait_behind(9);
    simba__etcd_queue_news(&q);
    assert_move(saw(0, 0, 0), ETCD_ENTER, ETCD_TELL_NOTHING);
    assert_move(saw(12, 0, 0), ETCD_REST, ETCD_TELL_LEADS);
}

/* A page of keys of other mutexes hides who is before it. */
static void hidden(void **state)
{
    (void)state;
    enter(true);
    assert_move(saw(100, 0, 100), ETCD_LOOK, ETCD_TELL_NOTHING);
    assert_int_equal(q.below, 100);
    assert_move(saw(100, 0, 40), ETCD_LOOK, ETCD_TELL_NOTHING);
    assert_int_equal(q.below, 40);
    assert_move(saw(100, 3, 0), ETCD_REST, ETCD_TELL_WAITS);
}

/* Something happens during a look: its answer may be older than that. */
static void news_meanwhile(void **state)
{
    (void)state;
    wait_behind(9);
    simba__etcd_queue_news(&q);
    assert_move(simba__etcd_queue_news(&q), ETCD_REST, ETCD_TELL_NOTHING);
    assert_move(saw(10, 9, 0), ETCD_LOOK, ETCD_TELL_NOTHING);
    assert_move(simba__etcd_queue_news(&q), ETCD_REST, ETCD_TELL_NOTHING);
    assert_move(saw(10, 0, 0), ETCD_LOOK, ETCD_TELL_LEADS); /* it may have been its own key */
    assert_move(saw(0, 0, 0), ETCD_REST, ETCD_TELL_REVOKED);
}

/* Who does not want to wait leaves. */
static void no_wait(void **state)
{
    (void)state;
    enter(false);
    assert_move(saw(10, 9, 0), ETCD_LEAVE, ETCD_TELL_NOTHING);
    assert_move(simba__etcd_queue_left(&q, true), ETCD_REST, ETCD_TELL_OUT);
    assert_int_equal(q.place, ETCD_NONE);
}

/* The answer to entering was lost: entering again shows the key, if it was put. */
static void enter_lost(void **state)
{
    (void)state;
    enter(true);
    simba__etcd_queue_lose(&q, true);
    assert_int_equal(q.place, ETCD_UNSURE);
    assert_move(simba__etcd_queue_go(&q), ETCD_ENTER, ETCD_TELL_NOTHING);
    /* Also an attempt that was not sent does not settle it. */
    simba__etcd_queue_lose(&q, false);
    assert_int_equal(q.place, ETCD_UNSURE);
    /* Who gives up now looks for the key before it says that there is none. */
    assert_move(simba__etcd_queue_release(&q), ETCD_LOOK, ETCD_TELL_NOTHING);
    assert_move(saw(10, 0, 0), ETCD_LEAVE, ETCD_TELL_NOTHING);
    assert_move(simba__etcd_queue_left(&q, true), ETCD_REST, ETCD_TELL_OUT);
}

static void enter_not_sent(void **state)
{
    (void)state;
    enter(true);
    simba__etcd_queue_lose(&q, false);
    assert_int_equal(q.place, ETCD_NONE);
    assert_move(simba__etcd_queue_release(&q), ETCD_REST, ETCD_TELL_OUT);
}

/* The answer to leaving was lost: etcd may yet carry it out. So nobody leads by that key again. */
static void leave_lost(void **state)
{
    (void)state;
    lead();
    simba__etcd_queue_release(&q);
    simba__etcd_queue_lose(&q, true);
    assert_move(simba__etcd_queue_acquire(&q, true), ETCD_ENTER, ETCD_TELL_NOTHING);
    assert_move(saw(10, 0, 0), ETCD_LEAVE, ETCD_TELL_NOTHING);
    assert_move(simba__etcd_queue_left(&q, true), ETCD_ENTER, ETCD_TELL_NOTHING);
    assert_move(saw(12, 0, 0), ETCD_REST, ETCD_TELL_LEADS);
}

/* A holder's release whose answer was lost: whether or not etcd has carried it out, this release gives the mutex back. */
static void release_lost(void **state)
{
    (void)state;
    for (int is_there = 0; is_there < 2; is_there++) {
        lead();
        simba__etcd_queue_release(&q);
        simba__etcd_queue_lose(&q, true);
        assert_move(simba__etcd_queue_go(&q), ETCD_LOOK, ETCD_TELL_NOTHING);
        if (is_there) {
            assert_move(saw(10, 0, 0), ETCD_LEAVE, ETCD_TELL_NOTHING);
            assert_move(simba__etcd_queue_left(&q, true), ETCD_REST, ETCD_TELL_FREED);
        } else {
            assert_move(saw(0, 0, 0), ETCD_REST, ETCD_TELL_FREED);
        }
    }
    wait_behind(9); /* who only waited gives nothing back */
    simba__etcd_queue_release(&q);
    assert_move(simba__etcd_queue_left(&q, true), ETCD_REST, ETCD_TELL_OUT);
}

/* Who releases, and asks at once whether the mutex is free, is not told that it was not. */
static void try_while_leaving(void **state)
{
    (void)state;
    lead();
    simba__etcd_queue_release(&q);
    assert_move(simba__etcd_queue_acquire(&q, false), ETCD_REST, ETCD_TELL_NOTHING);
    assert_move(simba__etcd_queue_left(&q, true), ETCD_ENTER, ETCD_TELL_NOTHING);
    assert_move(saw(12, 0, 0), ETCD_REST, ETCD_TELL_LEADS);
}

/* The release comes while it enters. */
static void release_while_entering(void **state)
{
    (void)state;
    enter(true);
    assert_move(simba__etcd_queue_release(&q), ETCD_REST, ETCD_TELL_NOTHING);
    assert_move(saw(10, 0, 0), ETCD_LEAVE, ETCD_TELL_NOTHING);
    assert_move(simba__etcd_queue_left(&q, true), ETCD_REST, ETCD_TELL_OUT);
}

/* A holder looks only for its own key. */
static void about_holders(void **state)
{
    (void)state;
    lead();
    assert_move(simba__etcd_queue_renew(&q), ETCD_LOOK, ETCD_TELL_NOTHING);
    assert_int_equal(q.below, 0);
    assert_move(saw(10, 0, 0), ETCD_REST, ETCD_TELL_LEADS);
    simba__etcd_queue_news(&q);
    assert_move(saw(11, 0, 0), ETCD_REST, ETCD_TELL_REVOKED); /* not by this create_revision */
    assert_int_equal(q.place, ETCD_GONE);
    /* The next attempt begins anew. */
    enter(true);
    assert_move(saw(12, 0, 0), ETCD_REST, ETCD_TELL_LEADS);
}

/* Somebody removes the key each time. */
static void goes_each_time(void **state)
{
    (void)state;
    etcd_move move = simba__etcd_queue_acquire(&q, true);
    for (uint64_t own = 10; move.step == ETCD_ENTER && own < 100; own++) {
        assert_move(saw(own, 0, own), ETCD_LOOK, ETCD_TELL_NOTHING);
        move = saw(0, 0, 0);
    }
    assert_move(move, ETCD_REST, ETCD_TELL_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(first, setup),
        cmocka_unit_test_setup(in_order, setup),
        cmocka_unit_test_setup(gone_while_waiting, setup),
        cmocka_unit_test_setup(hidden, setup),
        cmocka_unit_test_setup(news_meanwhile, setup),
        cmocka_unit_test_setup(no_wait, setup),
        cmocka_unit_test_setup(enter_lost, setup),
        cmocka_unit_test_setup(enter_not_sent, setup),
        cmocka_unit_test_setup(leave_lost, setup),
        cmocka_unit_test_setup(release_lost, setup),
        cmocka_unit_test_setup(try_while_leaving, setup),
        cmocka_unit_test_setup(release_while_entering, setup),
        cmocka_unit_test_setup(about_holders, setup),
        cmocka_unit_test_setup(goes_each_time, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
