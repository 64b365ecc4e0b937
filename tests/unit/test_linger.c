/* Which locker of a client has the grant that they share, and when it goes back. */
#include "core/linger.h"

#include <string.h>

#include "lib/cm.h"
#include "util/clock.h"

#define MS SIMBA__NS_PER_MS

typedef struct fixture {
    simba__linger machine;
    simba__lingerer lockers[12];
    simba_local now;
    simba__linger_actions did; /* in the last step */
} fixture;

static fixture make_ordered(bool told, bool ordered)
{
    fixture f = {.now = {1000 * MS}};
    simba__linger_init(&f.machine, told, ordered);
    for (size_t i = 0; i < sizeof f.lockers / sizeof *f.lockers; i++)
        f.lockers[i].linger_ns = 100 * MS;
    return f;
}

static fixture make(bool told)
{
    return make_ordered(told, true);
}

static void step(fixture *f, simba__linger_kind kind)
{
    const simba__linger_event event = {.kind = kind, .now = f->now};
    simba__linger_step(&f->machine, &event, &f->did);
}

static void want(fixture *f, int who)
{
    const simba__linger_event event = {.kind = SIMBA__LINGER_WANT, .now = f->now, .who = &f->lockers[who]};
    simba__linger_step(&f->machine, &event, &f->did);
}

static void leave(fixture *f, int who)
{
    const simba__linger_event event = {.kind = SIMBA__LINGER_LEAVE, .now = f->now, .who = &f->lockers[who]};
    simba__linger_step(&f->machine, &event, &f->did);
}

/* Who got it in the last step; -1: nobody. */
static int got(const fixture *f)
{
    return f->did.gets ? (int)(f->did.gets - f->lockers) : -1;
}

static void have(fixture *f, int who)
{
    want(f, who);
    assert_true(f->did.seek);
    step(f, SIMBA__LINGER_GRANTED);
    assert_int_equal(got(f), who);
}

static void taken_again_without_the_store(void **state)
{
    (void)state;
    fixture f = make(true);
    have(&f, 0);
    for (int i = 0; i < 9; i++) {
        leave(&f, 0);
        assert_false(f.did.give_back);
        assert_int_equal(f.did.timer.ns, f.now.ns + 100 * MS);
        f.now.ns += 99 * MS;
        want(&f, 0);
        assert_int_equal(got(&f), 0);
        assert_false(f.did.seek);
        assert_int_equal(f.did.timer.ns, INT64_MAX);
    }
}

/* Nobody has said that others wait. But that may have been lost. */
static void given_back_now_and_then(void **state)
{
    (void)state;
    static const int64_t lingers[] = {100 * MS, 3000 * MS};
    for (int i = 0; i < 2; i++) {
        fixture f = make(true);
        f.lockers[0].linger_ns = lingers[i];
        have(&f, 0);
        leave(&f, 0);
        const simba_local first = f.now;
        for (want(&f, 0); !f.did.give_back; want(&f, 0)) {
            leave(&f, 0);
            f.now.ns += 50 * MS;
        }
        assert_int_equal(f.now.ns - first.ns, i == 0 ? SIMBA__LINGER_LONGEST_NS : lingers[i]);
    }
}

static void given_back_when_the_linger_is_over(void **state)
{
    (void)state;
    fixture f = make(true);
    have(&f, 0);
    leave(&f, 0);
    f.now.ns += 100 * MS - 1;
    step(&f, SIMBA__LINGER_TIMER);
    assert_false(f.did.give_back);
    f.now.ns += 1;
    step(&f, SIMBA__LINGER_TIMER);
    assert_true(f.did.give_back);
    want(&f, 1); /* waits for the end, and then asks the store */
    assert_int_equal(got(&f), -1);
    assert_false(f.did.seek);
    step(&f, SIMBA__LINGER_STOPPED);
    assert_true(f.did.seek);
}

/* The timer of a process that did not run is late. */
static void not_taken_after_the_linger(void **state)
{
    (void)state;
    fixture f = make(true);
    have(&f, 0);
    leave(&f, 0);
    f.now.ns += 100 * MS;
    want(&f, 1);
    assert_int_equal(got(&f), -1);
    assert_true(f.did.give_back);
}

/* Where the store does not say that others wait, they wait no longer than the linger. */
static void an_untold_client_gives_back_in_time(void **state)
{
    (void)state;
    fixture f = make(false);
    have(&f, 0);
    f.now.ns += 500 * MS; /* held for long, and not released yet */
    leave(&f, 0);
    for (int i = 0; i < 4; i++) {
        f.now.ns += 20 * MS;
        want(&f, 0);
        assert_int_equal(got(&f), 0);
        leave(&f, 0);
        assert_false(f.did.give_back);
    }
    want(&f, 1);
    want(&f, 2);
    f.now.ns += 20 * MS;
    leave(&f, 1);
    assert_true(f.did.give_back); /* although somebody here waits */
    step(&f, SIMBA__LINGER_STOPPED);
    assert_true(f.did.seek);
    step(&f, SIMBA__LINGER_GRANTED);
    assert_int_equal(got(&f), 2);
    leave(&f, 2);
    assert_false(f.did.give_back); /* the next grant has a linger of its own */
}

static void lockers_come_in_order_of_arrival(void **state)
{
    (void)state;
    fixture f = make(true);
    want(&f, 3);
    assert_true(f.did.seek);
    want(&f, 1);
    assert_false(f.did.seek);
    want(&f, 2);
    step(&f, SIMBA__LINGER_GRANTED);
    assert_int_equal(got(&f), 3);
    want(&f, 0);
    leave(&f, 2); /* it gives up */
    leave(&f, 3);
    assert_int_equal(got(&f), 1);
    want(&f, 3); /* comes last */
    leave(&f, 1);
    assert_int_equal(got(&f), 0);
    leave(&f, 0);
    assert_int_equal(got(&f), 3);
}

static void idle_goes_to_others_at_once(void **state)
{
    (void)state;
    fixture f = make(true);
    have(&f, 0);
    leave(&f, 0);
    step(&f, SIMBA__LINGER_OTHERS);
    assert_true(f.did.give_back);
    step(&f, SIMBA__LINGER_STOPPED);
    assert_false(f.did.seek);
    have(&f, 0); /* nobody else waits for this one */
    leave(&f, 0);
    assert_false(f.did.give_back);
}

static void used_goes_to_others_at_its_release(void **state)
{
    (void)state;
    fixture f = make(true);
    have(&f, 0);
    step(&f, SIMBA__LINGER_OTHERS);
    assert_false(f.did.give_back);
    leave(&f, 0);
    assert_true(f.did.give_back);
}

/* Those here go on for a few turns, and no longer: counted from when the others began, or from our grant. */
static void others_are_let_in_after_some_turns(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        fixture f = make(true);
        want(&f, 0);
        if (before)
            step(&f, SIMBA__LINGER_OTHERS);
        f.now.ns += 1000 * MS;
        step(&f, SIMBA__LINGER_GRANTED);
        if (!before)
            step(&f, SIMBA__LINGER_OTHERS);
        int turns = 0;
        for (want(&f, 1);; turns++) {
            leave(&f, turns % 2);
            if (f.did.give_back)
                break;
            assert_int_equal(got(&f), (turns + 1) % 2);
            step(&f, SIMBA__LINGER_OTHERS); /* told again, which does not begin anew */
            want(&f, turns % 2);
        }
        assert_int_equal(turns, SIMBA__LINGER_TURNS);
    }
}

static void others_are_let_in_after_some_time(void **state)
{
    (void)state;
    fixture f = make(true);
    have(&f, 0);
    step(&f, SIMBA__LINGER_OTHERS);
    want(&f, 1);
    want(&f, 2);
    f.now.ns += SIMBA__LINGER_NS - 1;
    leave(&f, 0);
    assert_int_equal(got(&f), 1);
    f.now.ns += 1;
    leave(&f, 1);
    assert_true(f.did.give_back);
    step(&f, SIMBA__LINGER_STOPPED);
    assert_true(f.did.seek); /* and then it is our turn again */
}

/* The client gives back what it has, because others want it, and gets it again `away_ns` later. */
static void let_others_in(fixture *f, int64_t away_ns)
{
    have(f, 0);
    leave(f, 0);
    step(f, SIMBA__LINGER_OTHERS);
    assert_true(f->did.give_back);
    f->now.ns += away_ns;
    step(f, SIMBA__LINGER_STOPPED);
    have(f, 0);
}

/* How often locker 0 gets a grant again that nobody is known to want; -1: as often as it likes. */
static int turns_unasked(fixture *f)
{
    for (int turns = 0; turns < 10000; turns++) {
        leave(f, 0);
        if (f->did.give_back)
            return turns;
        want(f, 0);
        assert_int_equal(got(f), 0);
    }
    return -1;
}

/* Otherwise it would make thousands of turns until it hears of them. */
static void others_that_came_are_expected_again(void **state)
{
    (void)state;
    fixture f = make(true);
    let_others_in(&f, 0);
    assert_int_equal(turns_unasked(&f), SIMBA__LINGER_TURNS);
    step(&f, SIMBA__LINGER_STOPPED);
    have(&f, 0);
    want(&f, 1); /* it does not matter who takes it */
    for (int turns = 0; turns < SIMBA__LINGER_TURNS; turns++) {
        leave(&f, turns % 2);
        assert_int_equal(got(&f), (turns + 1) % 2);
        want(&f, turns % 2);
    }
    leave(&f, 0);
    assert_true(f.did.give_back);
}

static void others_that_do_not_come_are_expected_less(void **state)
{
    (void)state;
    fixture f = make(true);
    let_others_in(&f, 0);
    for (int doublings = 0; doublings < SIMBA__LINGER_DOUBLINGS; doublings++) {
        assert_int_equal(turns_unasked(&f), SIMBA__LINGER_TURNS << doublings);
        f.now.ns += 3000 * MS; /* meanwhile it could not hear of anybody, so this does not count */
        step(&f, SIMBA__LINGER_STOPPED);
        have(&f, 0);
        f.now.ns += SIMBA__LINGER_DOUBLES_NS;
    }
    assert_int_equal(turns_unasked(&f), -1);
}

/* The news that others wait is under way when the grant is given back. */
static void others_that_are_heard_of_late_are_expected_too(void **state)
{
    (void)state;
    fixture f = make(true);
    have(&f, 0);
    leave(&f, 0);
    f.now.ns += 100 * MS;
    step(&f, SIMBA__LINGER_TIMER);
    assert_true(f.did.give_back);
    f.now.ns += 1000 * MS;
    step(&f, SIMBA__LINGER_OTHERS);
    step(&f, SIMBA__LINGER_STOPPED);
    have(&f, 0);
    assert_int_equal(turns_unasked(&f), SIMBA__LINGER_TURNS);
}

/* Lockers 0 and 1 want it, and others do. Giving it back to a store takes this long. */
static void give_back_to_others(fixture *f, bool ordered, int64_t took_ns)
{
    *f = make_ordered(true, ordered);
    have(f, 0);
    want(f, 1);
    step(f, SIMBA__LINGER_OTHERS);
    f->now.ns += SIMBA__LINGER_NS;
    leave(f, 0);
    assert_true(f->did.give_back);
    f->now.ns += took_ns;
    step(f, SIMBA__LINGER_STOPPED);
}

static void others_may_ask_first_where_there_is_no_order(void **state)
{
    (void)state;
    static const struct {
        int64_t took_ns, yields_ns;
    } cases[] = {{MS, 4 * MS}, {2 * MS, SIMBA__LINGER_NS}, {1000 * MS, SIMBA__LINGER_NS}};
    fixture f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        give_back_to_others(&f, false, cases[i].took_ns);
        assert_false(f.did.seek);
        assert_int_equal(f.did.timer.ns, f.now.ns + cases[i].yields_ns);
        want(&f, 2);
        assert_false(f.did.seek);
        f.now.ns += cases[i].yields_ns - 1;
        step(&f, SIMBA__LINGER_TIMER);
        assert_false(f.did.seek);
        f.now.ns += 1;
        step(&f, SIMBA__LINGER_TIMER);
        assert_true(f.did.seek);
        step(&f, SIMBA__LINGER_GRANTED);
        assert_int_equal(got(&f), 1);
    }
    give_back_to_others(&f, false, 0);
    assert_true(f.did.seek);
    give_back_to_others(&f, true, MS);
    assert_true(f.did.seek);
}

static void who_yields_may_give_up_or_end(void **state)
{
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        fixture f;
        give_back_to_others(&f, false, MS);
        if (ends)
            step(&f, SIMBA__LINGER_END);
        else
            leave(&f, 1);
        assert_false(f.did.give_back);
        assert_int_equal(f.did.timer.ns, INT64_MAX);
        want(&f, 0);
        assert_int_equal(f.did.seek, !ends);
    }
}

static void a_loss_is_told_to_its_user(void **state)
{
    (void)state;
    fixture f = make(true);
    have(&f, 0);
    want(&f, 1);
    step(&f, SIMBA__LINGER_LOST);
    assert_ptr_equal(f.did.loses, &f.lockers[0]);
    assert_false(f.did.give_back);
    leave(&f, 0); /* has nothing any more */
    assert_int_equal(got(&f), -1);
    step(&f, SIMBA__LINGER_STOPPED);
    assert_true(f.did.seek);
    step(&f, SIMBA__LINGER_GRANTED);
    assert_int_equal(got(&f), 1);
}

static void a_kept_grant_that_is_lost_is_not_taken(void **state)
{
    (void)state;
    fixture f = make(true);
    have(&f, 0);
    leave(&f, 0);
    step(&f, SIMBA__LINGER_LOST);
    assert_null(f.did.loses);
    want(&f, 0);
    assert_int_equal(got(&f), -1);
    step(&f, SIMBA__LINGER_STOPPED);
    assert_true(f.did.seek);
}

/* S8: otherwise the late write would change the note of the next one. */
static void an_unsettled_note_ends_the_grant(void **state)
{
    (void)state;
    fixture f = make(true);
    have(&f, 0);
    want(&f, 1);
    const simba__linger_event event = {
        .kind = SIMBA__LINGER_LEAVE, .now = f.now, .who = &f.lockers[0], .unsettled = true};
    simba__linger_step(&f.machine, &event, &f.did);
    assert_true(f.did.give_back);
    assert_int_equal(got(&f), -1);
}

static void nobody_wants_it_any_more(void **state)
{
    (void)state;
    fixture f = make(true);
    want(&f, 0);
    want(&f, 1);
    leave(&f, 0);
    assert_false(f.did.give_back);
    leave(&f, 1);
    assert_true(f.did.give_back);
    want(&f, 2);
    assert_false(f.did.seek);
    step(&f, SIMBA__LINGER_STOPPED);
    assert_true(f.did.seek);
}

static void an_attempt_that_failed_is_made_again(void **state)
{
    (void)state;
    fixture f = make(true);
    want(&f, 0);
    step(&f, SIMBA__LINGER_STOPPED);
    assert_true(f.did.seek);
    leave(&f, 0);
    step(&f, SIMBA__LINGER_STOPPED);
    assert_false(f.did.seek);
}

static void the_end_of_the_client_gives_back(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        fixture f = make(true);
        have(&f, 0);
        if (kept)
            leave(&f, 0);
        else
            want(&f, 1);
        step(&f, SIMBA__LINGER_END);
        assert_true(f.did.give_back);
        assert_ptr_equal(f.did.loses, kept ? NULL : &f.lockers[0]);
        step(&f, SIMBA__LINGER_STOPPED);
        assert_false(f.did.seek);
        want(&f, 2);
        assert_false(f.did.seek);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_again_without_the_store),
        cmocka_unit_test(given_back_now_and_then),
        cmocka_unit_test(given_back_when_the_linger_is_over),
        cmocka_unit_test(not_taken_after_the_linger),
        cmocka_unit_test(an_untold_client_gives_back_in_time),
        cmocka_unit_test(lockers_come_in_order_of_arrival),
        cmocka_unit_test(idle_goes_to_others_at_once),
        cmocka_unit_test(used_goes_to_others_at_its_release),
        cmocka_unit_test(others_are_let_in_after_some_turns),
        cmocka_unit_test(others_are_let_in_after_some_time),
        cmocka_unit_test(others_that_came_are_expected_again),
        cmocka_unit_test(others_that_do_not_come_are_expected_less),
        cmocka_unit_test(others_that_are_heard_of_late_are_expected_too),
        cmocka_unit_test(others_may_ask_first_where_there_is_no_order),
        cmocka_unit_test(who_yields_may_give_up_or_end),
        cmocka_unit_test(a_loss_is_told_to_its_user),
        cmocka_unit_test(a_kept_grant_that_is_lost_is_not_taken),
        cmocka_unit_test(an_unsettled_note_ends_the_grant),
        cmocka_unit_test(nobody_wants_it_any_more),
        cmocka_unit_test(an_attempt_that_failed_is_made_again),
        cmocka_unit_test(the_end_of_the_client_gives_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
