/* The protocol of a command connection, as traces: what happens, and what must be sent, ended and done about it. */
#include "unit/redis_session.h"

#include "util/random.h"

/* --- up and down ------------------------------------------------------------------------------------ */

/* What is submitted before the connection is ready is sent when it is. */
static void waits_until_it_is_ready(void **state)
{
    (void)state;
    begin(REDIS_SINGLE, 0);
    submit(SIMBA_OP_ACQUIRE, "a", 0);
    submit(SIMBA_OP_RELEASE, "b", 0);
    assert_string_equal(flush(0), "");
    TRACE("load, timer 3000", simba__redis_session_up(&s, at(0)));
    assert_string_equal(flush(0), "");
    assert_string_equal(loaded(1), "acquire a, release b, ready");
    assert_string_equal(answer(REDIS_SAID_GRANTED, 2), "done a");
    assert_string_equal(answer(REDIS_SAID_DONE, 2), "done b");
}

/* A server that does not take our scripts is of no use. */
static void scripts_are_needed(void **state)
{
    (void)state;
    begin(REDIS_SINGLE, 0);
    simba__redis_session_up(&s, at(0));
    says(0);
    assert_string_equal(answer(REDIS_SAID_ODDITY, 0), "drop: an odd answer to SCRIPT LOAD");
    assert_int_equal(s.dropped.code, SIMBA_ESTORE);
    assert_string_equal(refuse("NOPERM this user may not", 0),
                        "drop: this user may not use the commands, keys or channels that are needed (NOPERM)");
    assert_int_equal(s.dropped.code, SIMBA_EPERM);
}

/* With the connection everything fails that is sent, held or waits; whoever wants to learn something learns nothing. */
static void all_fails_with_the_connection(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 1);
    submit(SIMBA_OP_ACQUIRE, "held", 0);
    submit(SIMBA_OP_READ, "sent", 0);
    assert_string_equal(flush(0), "acquire held, read sent, wait");
    assert_string_equal(answer(REDIS_SAID_GRANTED, 1), "");
    assert_non_null(simba__redis_session_own(&s, REDIS_FOR_LEARNING, at(1)));
    submit(SIMBA_OP_RENEW, "waits", 1);
    assert_string_equal(go_down(),
                        "fail sent (EUNAVAILABLE), learn, fail waits (EUNAVAILABLE), fail held (EUNAVAILABLE)");
    assert_int_equal(lessons, 1);
}

/* While the connection pauses nothing waits for it. */
static void fails_what_waits_in_a_pause(void **state)
{
    (void)state;
    begin(REDIS_SINGLE, 0);
    const simba_error away = {.code = SIMBA_EUNAVAILABLE, .text = "redis there: away"};
    submit(SIMBA_OP_ACQUIRE, "a", 0);
    submit(SIMBA_OP_RENEW, "b", 0);
    TRACE("fail a (EUNAVAILABLE), fail b (EUNAVAILABLE)", simba__redis_session_refuse(&s, &away));
}

/* Others send commands of their own when that can be. */
static void others_have_commands_too(void **state)
{
    (void)state;
    begin(REDIS_SINGLE, 0);
    assert_null(simba__redis_session_own(&s, REDIS_FOR_LEARNING, at(0)));
    TRACE("load, timer 3000", simba__redis_session_up(&s, at(0)));
    assert_non_null(simba__redis_session_own(&s, REDIS_FOR_LEARNING, at(0)));
    assert_null(simba__redis_session_own(&s, REDIS_FOR_TELLING, at(0))); /* what is its script called? */
    assert_string_equal(loaded(0), "ready");
    assert_string_equal(answer(REDIS_SAID_ODDITY, 0), "learn");
    assert_non_null(simba__redis_session_own(&s, REDIS_FOR_TELLING, at(0)));
    assert_string_equal(refuse("ERR whatever", 0), "");
}

/* --- sending ---------------------------------------------------------------------------------------- */

/* All that was submitted goes out with the next flush, in its order: the client has put it in order, and bounds it. */
static void sends_all_in_order(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 0);
    submit(SIMBA_OP_RENEW, "a", 0);
    submit(SIMBA_OP_ACQUIRE, "b", 0);
    submit(SIMBA_OP_RENEW, "c", 0);
    assert_string_equal(flush(0), "renew a, acquire b, renew c");
    for (int i = 0; i < 1024; i++)
        submit(SIMBA_OP_READ, "m", 0);
    flush(0);
    assert_false(simba__redis_session_waits(&s));
    assert_int_equal(s.sent.count, 3 + 1024);
}

/* While much is under way, a few requests wait for others, so that they go out in one write; for an answer at the latest, and not at
 * all beside a renewal. */
static void gathers_while_much_is_under_way(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 0);
    for (int i = 0; i < 4; i++) {
        submit(SIMBA_OP_ACQUIRE, "a", 0);
        assert_string_equal(flush(0), "acquire a");
    }
    submit(SIMBA_OP_ACQUIRE, "b", 0); /* with four under way, four go together */
    submit(SIMBA_OP_RELEASE, "c", 0);
    submit(SIMBA_OP_ACQUIRE, "d", 0);
    assert_string_equal(flush(0), "");
    submit(SIMBA_OP_ACQUIRE, "e", 0);
    assert_string_equal(flush(0), "acquire b, release c, acquire d, acquire e");
    submit(SIMBA_OP_ACQUIRE, "f", 0);
    assert_string_equal(flush(0), "");
    for (int i = 0; i < 4; i++)
        assert_string_equal(answer(REDIS_SAID_DONE, 1), "done a");
    assert_string_equal(answer(REDIS_SAID_DONE, 1), "done b, wake");
    assert_string_equal(flush(1), "acquire f");
    submit(SIMBA_OP_ACQUIRE, "g", 1);
    assert_string_equal(flush(1), "");
    submit(SIMBA_OP_RENEW, "r", 1);
    assert_string_equal(flush(1), "acquire g, renew r");
    for (int i = 0; i < 60; i++)
        submit(SIMBA_OP_READ, "m", 1);
    flush(1);
    for (int i = 0; i < 15; i++)
        submit(SIMBA_OP_READ, "m", 1);
    assert_string_equal(flush(1), "");
    submit(SIMBA_OP_READ, "m", 1); /* sixteen are enough for a write */
    flush(1);
    assert_false(simba__redis_session_waits(&s));
}

/* --- answers ---------------------------------------------------------------------------------------- */

/* A server that has lost our scripts gets them again, and the request its answer; but not for ever. */
static void scripts_are_loaded_again_once(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 0);
    submit(SIMBA_OP_ACQUIRE, "a", 0);
    submit(SIMBA_OP_ACQUIRE, "b", 0);
    assert_string_equal(flush(0), "acquire a, acquire b");
    assert_string_equal(refuse("NOSCRIPT No matching script", 1), "load");
    assert_string_equal(refuse("NOSCRIPT No matching script", 1), "");
    assert_int_equal(s.state, REDIS_SESSION_LOADING);
    assert_string_equal(loaded(2), "acquire a, acquire b, ready");
    assert_string_equal(answer(REDIS_SAID_DONE, 3), "done a");
    assert_string_equal(refuse("NOSCRIPT No matching script", 3),
                        "fail b (EUNAVAILABLE), drop: NOSCRIPT No matching script");
}

/* An error fails its request alone, unless it says that the connection is of no use. */
static void errors_fail_their_request(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 0);
    submit(SIMBA_OP_ACQUIRE, "a", 0);
    submit(SIMBA_OP_ACQUIRE, "b", 0);
    submit(SIMBA_OP_ACQUIRE, "c", 0);
    flush(0);
    assert_string_equal(refuse("OOM command not allowed", 1), "fail a (EUNAVAILABLE)");
    assert_string_equal(refuse("MOVED 1 10.0.0.1:6379", 1), "fail b (ESTORE)");
    assert_string_equal(refuse("READONLY You can't write", 1), "fail c (EUNAVAILABLE), drop: READONLY You can't write");
}

/* Who answers what cannot be an answer may mix up the next ones, too. */
static void an_odd_answer_ends_the_connection(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 0);
    submit(SIMBA_OP_ACQUIRE, "a", 0);
    flush(0);
    assert_string_equal(answer(REDIS_SAID_ODDITY, 1),
                        "fail a (ECORRUPT), drop: connection given up over an odd answer");
    assert_string_equal(go_down(), "");
}

/* So may who answers unasked; an error may say why. */
static void an_answer_has_to_be_asked_for(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 0);
    assert_string_equal(answer(REDIS_SAID_DONE, 1), "drop: an answer that nobody asked for");
    assert_string_equal(refuse("ERR max number of clients reached", 1), "drop: ERR max number of clients reached");
}

/* --- clusters --------------------------------------------------------------------------------------- */

/* MOVED and ASK send a request to another server; ASK with a word ahead. */
static void goes_where_the_slot_is(void **state)
{
    (void)state;
    begin_ready(REDIS_CLUSTER, 0);
    redis_errand *moved = submit(SIMBA_OP_ACQUIRE, "a", 0);
    redis_errand *asked = submit(SIMBA_OP_ACQUIRE, "b", 0);
    flush(0);
    assert_string_equal(refuse("MOVED 1 10.0.0.1:6379", 1), "redirect a, wake");
    assert_string_equal(refuse("ASK 1 10.0.0.1:6379", 1), "redirect b, wake");
    simba__redis_session_submit(&s, moved); /* this one plays the other server, too */
    simba__redis_session_submit(&s, asked);
    assert_string_equal(flush(2), "acquire a, asking, acquire b");
    assert_string_equal(answer(REDIS_SAID_GRANTED, 3), "done a");
    assert_string_equal(answer(REDIS_SAID_ODDITY, 3), ""); /* to ASKING */
    assert_string_equal(answer(REDIS_SAID_GRANTED, 3), "done b");
}

/* Servers that send a request from one to the other do not keep it for ever; each may load the scripts once. */
static void is_not_sent_on_for_ever(void **state)
{
    (void)state;
    begin_ready(REDIS_CLUSTER, 0);
    redis_errand *errand = submit(SIMBA_OP_ACQUIRE, "a", 0);
    for (int hop = 0; hop < 7; hop++) {
        assert_string_equal(flush(hop), "acquire a");
        assert_string_equal(refuse("NOSCRIPT", hop), "load");
        assert_string_equal(loaded(hop), "acquire a, ready");
        assert_string_equal(refuse("MOVED 1 10.0.0.1:6379", hop), "redirect a, wake");
        simba__redis_session_submit(&s, errand);
    }
    assert_string_equal(flush(8), "acquire a");
    assert_string_equal(refuse("MOVED 1 10.0.0.1:6379", 8), "fail a (EUNAVAILABLE), suspect");
}

/* A cluster that is down may be about to fail over. */
static void a_cluster_that_is_down_is_suspect(void **state)
{
    (void)state;
    begin_ready(REDIS_CLUSTER, 0);
    submit(SIMBA_OP_ACQUIRE, "a", 0);
    flush(0);
    assert_string_equal(refuse("CLUSTERDOWN Hash slot not served", 1), "fail a (EUNAVAILABLE), suspect");
}

/* --- time ------------------------------------------------------------------------------------------- */

/* A request whose time is over stays until it is answered: the server may still be working on it, and its answer is not the
 * next one's. */
static void an_expired_request_stays(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 1);
    redis_errand *late = submit(SIMBA_OP_ACQUIRE, "late", 0);
    flush(0);
    TRACE("suspect", simba__redis_session_expire(&s, late, at(1000)));
    assert_int_equal(late->stage, REDIS_SENT);
    submit(SIMBA_OP_READ, "next", 1000);
    assert_string_equal(flush(1000), "read next");
    assert_string_equal(answer(REDIS_SAID_GRANTED, 1001), "done late"); /* no replica needs to confirm it any more */
    assert_string_equal(confirm(1, 1001), "");
    assert_string_equal(answer(REDIS_SAID_DONE, 1001), "done next");
}

/* It is not sent again: nobody needs it any more. */
static void an_expired_request_is_not_sent_on(void **state)
{
    static const char *const refusals[] = {"MOVED 1 10.0.0.1:6379", "ASK 1 10.0.0.1:6379",
                                           "NOSCRIPT No matching script"};
    (void)state;
    begin_ready(REDIS_CLUSTER, 0);
    for (int i = 0; i < 3; i++) {
        redis_errand *late = submit(SIMBA_OP_ACQUIRE, "late", 0);
        flush(0);
        says(simba__redis_session_expire(&s, late, at(1000)));
        assert_string_equal(refuse(refusals[i], 1001), "fail late (ETIMEDOUT)");
    }
}

/* What was not sent when its time was over is not sent any more. */
static void what_is_over_is_not_sent(void **state)
{
    (void)state;
    begin(REDIS_SINGLE, 0);
    redis_errand *late = submit(SIMBA_OP_ACQUIRE, "late", 0);
    TRACE("", simba__redis_session_expire(&s, late, at(1000)));
    assert_int_equal(late->stage, REDIS_IN_HAND);
    end_request(late);
    simba__redis_session_up(&s, at(1000));
    says(0);
    assert_string_equal(loaded(1001), "ready");
}

/* A renewal that nothing has come after ends the connection at once; anything that came says that it lives. */
static void a_renewal_without_an_answer_means_stuck(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 0);
    redis_errand *renewal = submit(SIMBA_OP_RENEW, "a", 10);
    submit(SIMBA_OP_READ, "b", 10);
    flush(10);
    TRACE("timer 500, suspect", simba__redis_session_expire(&s, renewal, at(500)));
    assert_int_equal(s.state, REDIS_SESSION_STUCK);
    submit(SIMBA_OP_RENEW, "c", 500);
    assert_string_equal(flush(500), "");
    TRACE("drop: no answer in time, so connecting anew", simba__redis_session_tick(&s, at(500)));
    assert_string_equal(go_down(), "fail a (EUNAVAILABLE), fail b (EUNAVAILABLE), fail c (EUNAVAILABLE)");
    teardown(state);

    begin_ready(REDIS_SINGLE, 0);
    submit(SIMBA_OP_READ, "b", 10);
    flush(10);
    renewal = submit(SIMBA_OP_RENEW, "a", 10);
    flush(10);
    assert_string_equal(answer(REDIS_SAID_DONE, 20), "done b");
    TRACE("suspect", simba__redis_session_expire(&s, renewal, at(500)));
    assert_int_equal(s.state, REDIS_SESSION_READY);
    assert_string_equal(answer(REDIS_SAID_DONE, 600), "done a");
}

/* A connection that owes an answer for the whole timeout is given up; one that owes nothing is let alone. */
static void silence_ends_the_connection(void **state)
{
    (void)state;
    begin_ready(REDIS_SINGLE, 0);
    TRACE("", simba__redis_session_tick(&s, at(3000)));
    submit(SIMBA_OP_READ, "a", 4000);
    submit(SIMBA_OP_READ, "b", 4000);
    assert_string_equal(flush(4000), "read a, read b, timer 7000");
    assert_string_equal(answer(REDIS_SAID_DONE, 4001), "done a");
    submit(SIMBA_OP_READ, "c", 4500);
    assert_string_equal(flush(4500), "read c");
    assert_string_equal(answer(REDIS_SAID_DONE, 4501), "done b");
    TRACE("timer 7500", simba__redis_session_tick(&s, at(7000)));
    TRACE("drop: no answer for 3000 ms", simba__redis_session_tick(&s, at(7500)));
}

/* --- anything after anything ------------------------------------------------------------------------ */

static item *pick(uint64_t *seed)
{
    item *i = &items[simba__random_next(seed) % (item_count > 0 ? item_count : 1)];
    return item_count > 0 && i->errand && i->errand->stage != REDIS_IN_HAND && !i->errand->expired ? i : NULL;
}

static void any_answer(uint64_t *seed, int64_t now)
{
    static const char *const errors[] = {"NOSCRIPT", "MOVED 1 a:1", "ASK 1 a:1", "OOM", "READONLY", "CLUSTERDOWN"};
    const redis_errand *first = simba__redis_session_first(&s);
    const uint64_t chance = simba__random_next(seed);
    redis_answer given = {.kind = (int)(chance % (REDIS_SAID_GRANTED + 1)),
                          .text = "0123456789012345678901234567890123456789"};
    if (!first)
        return;
    if (first->purpose == REDIS_FOR_LOADING)
        given.kind = REDIS_SAID_TEXT;
    if (first->purpose == REDIS_FOR_WAITING)
        given = (redis_answer){.kind = REDIS_SAID_NUMBER, .number = (int64_t)(chance / 8 % 3)};
    if (first->request && first->request->op != SIMBA_OP_RENEW && first->request->op != SIMBA_OP_ACQUIRE)
        given.kind = REDIS_SAID_DONE;
    if (first->request && chance % 16 == 7)
        given = (redis_answer){.kind = REDIS_SAID_ERROR, .text = errors[chance / 16 % 6]};
    const unsigned actions = simba__redis_session_answer(&s, &given, at(now));
    says(actions);
    if (actions & REDIS_DO_DROP)
        go_down();
}

/* The asserts of the machine hold whatever happens in whatever order, and every request ends exactly once. */
static void holds_in_any_order(void **state)
{
    (void)state;
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW, SIMBA_OP_RELEASE, SIMBA_OP_READ};
    uint64_t seed = 7;
    for (int round = 0; round < 40; round++) {
        begin(round % 2 ? REDIS_CLUSTER : REDIS_SINGLE, round % 3);
        for (int64_t now = 0; now < 4000 && item_count < REQUESTS; now++) {
            item *i;
            switch (simba__random_next(&seed) % 16) {
            case 0:
                if (s.state == REDIS_SESSION_DOWN)
                    says(simba__redis_session_up(&s, at(now)));
                break;
            case 1:
                if (simba__random_next(&seed) % 16 == 0)
                    go_down();
                break;
            case 2:
                if ((i = pick(&seed)) != NULL) {
                    redis_errand *errand = i->errand;
                    says(simba__redis_session_expire(&s, errand, at(now)));
                    if (errand->stage == REDIS_IN_HAND)
                        end_request(errand);
                }
                break;
            case 3:
                if (s.tick_at.ns != 0 && at(now).ns >= s.tick_at.ns && s.state != REDIS_SESSION_DOWN) {
                    const unsigned actions = simba__redis_session_tick(&s, at(now));
                    says(actions);
                    if (actions & REDIS_DO_DROP)
                        go_down();
                }
                break;
            case 4:
                flush(now);
                break;
            case 5:
            case 6:
                submit(ops[simba__random_next(&seed) % 4], "m", now);
                break;
            default:
                any_answer(&seed, now);
            }
        }
        go_down();
        for (size_t i = 0; i < item_count; i++) /* those that were redirected are still with us */
            assert_int_equal(items[i].ends, items[i].errand ? 0 : 1);
        teardown(state);
    }
    begin(REDIS_SINGLE, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(waits_until_it_is_ready, teardown),
        cmocka_unit_test_teardown(scripts_are_needed, teardown),
        cmocka_unit_test_teardown(all_fails_with_the_connection, teardown),
        cmocka_unit_test_teardown(fails_what_waits_in_a_pause, teardown),
        cmocka_unit_test_teardown(others_have_commands_too, teardown),
        cmocka_unit_test_teardown(sends_all_in_order, teardown),
        cmocka_unit_test_teardown(gathers_while_much_is_under_way, teardown),
        cmocka_unit_test_teardown(scripts_are_loaded_again_once, teardown),
        cmocka_unit_test_teardown(errors_fail_their_request, teardown),
        cmocka_unit_test_teardown(an_odd_answer_ends_the_connection, teardown),
        cmocka_unit_test_teardown(an_answer_has_to_be_asked_for, teardown),
        cmocka_unit_test_teardown(goes_where_the_slot_is, teardown),
        cmocka_unit_test_teardown(is_not_sent_on_for_ever, teardown),
        cmocka_unit_test_teardown(a_cluster_that_is_down_is_suspect, teardown),
        cmocka_unit_test_teardown(an_expired_request_stays, teardown),
        cmocka_unit_test_teardown(an_expired_request_is_not_sent_on, teardown),
        cmocka_unit_test_teardown(what_is_over_is_not_sent, teardown),
        cmocka_unit_test_teardown(a_renewal_without_an_answer_means_stuck, teardown),
        cmocka_unit_test_teardown(silence_ends_the_connection, teardown),
        cmocka_unit_test_teardown(holds_in_any_order, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
