/* Who waits for a mutex or watches it, as traces: what happens, and what must be done about it. Times are in ms. */
#include "backends/redis/waiters.h"

#include <stdio.h>
#include <string.h>

#include "lib/cm.h"
#include "util/random.h"

#define TRACE(expected, actions) assert_string_equal(says(actions), expected)

static const char *says(unsigned actions)
{
    static const struct {
        unsigned action;
        const char *word;
    } words[] = {{REDIS_SUBSCRIBE, "subscribe"},       {REDIS_SUBSCRIBE_NEWS, "subscribe-news"},
                 {REDIS_SUBSCRIBE_ID, "subscribe-id"}, {REDIS_UNSUBSCRIBE, "unsubscribe"},
                 {REDIS_UNSUBSCRIBE_ID, "leave-id"},   {REDIS_QUEUE_UP, "queue-up"},
                 {REDIS_TELL_CHANGED, "changed"},      {REDIS_TELL_RELEASED, "released"},
                 {REDIS_TELL_ID, "changed-id"},        {REDIS_TELL_NOTED, "noted"},
                 {REDIS_CONFIRM, "confirm"},           {REDIS_UNSUBSCRIBE_NEWS, "unsubscribe-news"}};
    static char text[128];
    text[0] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (actions & words[i].action)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? " " : "", words[i].word);
    return text;
}

static simba_local at(int64_t ms)
{
    return (simba_local){ms * 1000000};
}

static redis_waiters fresh(void)
{
    redis_waiters w;
    simba__redis_waiters_init(&w, at(0));
    return w;
}

/* Watched, and heard of. */
static redis_waiters watched(void)
{
    redis_waiters w = fresh();
    TRACE("", simba__redis_waiters_watch(&w, true));
    TRACE("subscribe confirm", simba__redis_waiters_up(&w));
    TRACE("queue-up changed", simba__redis_waiters_confirmed(&w));
    return w;
}

/* --- the subscription ------------------------------------------------------------------------------- */

/* Nothing is subscribed for nobody, nor twice; an echo that nobody waits for means nothing. */
static void subscribes_once_for_somebody(void **state)
{
    (void)state;
    redis_waiters w = fresh();
    TRACE("", simba__redis_waiters_up(&w));
    TRACE("", simba__redis_waiters_confirmed(&w));
    TRACE("", simba__redis_waiters_watch(&w, true));
    TRACE("subscribe confirm", simba__redis_waiters_up(&w));
    TRACE("", simba__redis_waiters_up(&w));
}

/* Observers want all news; who only waits does not. */
static void only_observers_want_news(void **state)
{
    (void)state;
    redis_waiters w = fresh();
    TRACE("", simba__redis_waiters_watch(&w, false));
    TRACE("subscribe confirm", simba__redis_waiters_up(&w));
    TRACE("", simba__redis_waiters_unwatch(&w, at(0)));
    TRACE("subscribe-news",
          simba__redis_waiters_watch(&w, true)); /* the echo under way comes too early: another follows */
    TRACE("queue-up changed confirm", simba__redis_waiters_confirmed(&w));
    TRACE("", simba__redis_waiters_unwatch(&w, at(0)));
    TRACE("", simba__redis_waiters_watch(&w, true));
    TRACE("", simba__redis_waiters_unwatch(&w, at(0)));
    TRACE("unsubscribe-news", simba__redis_waiters_watch(&w, false));
    assert_false(w.observed);
}

/* What happened while the connection was down is made up for when the next one is confirmed. */
static void comes_back_after_a_loss(void **state)
{
    (void)state;
    redis_waiters w = watched();
    TRACE("", simba__redis_waiters_down(&w));
    TRACE("subscribe confirm", simba__redis_waiters_up(&w));
    TRACE("queue-up changed", simba__redis_waiters_confirmed(&w));
}

static void moves_with_its_mutex(void **state)
{
    (void)state;
    redis_waiters w = watched();
    TRACE("unsubscribe", simba__redis_waiters_moved(&w));
    TRACE("", simba__redis_waiters_moved(&w));
    TRACE("", simba__redis_waiters_confirmed(&w)); /* of the server before */
    TRACE("subscribe confirm", simba__redis_waiters_up(&w));
}

/* Many that begin to wait share an echo, and whoever came after the echo was asked for waits for the next. Each is put back
 * into the queue once: with all of them at every echo they would cost their square. */
static void many_share_an_echo(void **state)
{
    (void)state;
    redis_waiters w = watched();
    TRACE("subscribe-id confirm", simba__redis_waiters_waits(&w, "a", 1));
    TRACE("subscribe-id", simba__redis_waiters_waits(&w, "b", 2));
    TRACE("subscribe-id", simba__redis_waiters_waits(&w, "c", 3));
    TRACE("queue-up changed confirm", simba__redis_waiters_confirmed(&w));
    redis_waiter *waiter = simba__redis_waiters_queue_up(w.first);
    assert_string_equal(waiter->id, "a");
    assert_null(simba__redis_waiters_queue_up(waiter->next));
    TRACE("queue-up changed", simba__redis_waiters_confirmed(&w));
    waiter = simba__redis_waiters_queue_up(w.first);
    assert_string_equal(waiter->id, "c");
    waiter = simba__redis_waiters_queue_up(waiter->next);
    assert_string_equal(waiter->id, "b");
    assert_null(simba__redis_waiters_queue_up(waiter->next));
    TRACE("", simba__redis_waiters_confirmed(&w));
    TRACE("", simba__redis_waiters_down(&w));
    TRACE("subscribe confirm", simba__redis_waiters_up(&w));
    TRACE("queue-up changed", simba__redis_waiters_confirmed(&w));
    unsigned count = 0;
    for (waiter = w.first; (waiter = simba__redis_waiters_queue_up(waiter)) != NULL; waiter = waiter->next)
        count++;
    assert_int_equal(count, 3);
    simba__redis_waiters_fini(&w);
}

/* --- who is told ------------------------------------------------------------------------------------ */

/* What is heard while nobody watches is told to the next who does, once, and only if it was not made up for anyhow. */
static void tells_what_was_missed(void **state)
{
    (void)state;
    redis_waiters w = watched();
    TRACE("changed", simba__redis_waiters_news(&w));
    TRACE("", simba__redis_waiters_unwatch(&w, at(500)));
    assert_int_equal(w.idle_until.ns, at(1500).ns);
    TRACE("", simba__redis_waiters_watch(&w, true)); /* nothing was */
    assert_int_equal(w.interest, REDIS_WATCHED);

    simba__redis_waiters_unwatch(&w, at(600));
    TRACE("", simba__redis_waiters_news(&w));
    TRACE("", simba__redis_waiters_watch(&w, true));
    assert_int_equal(w.interest, REDIS_DUE);
    simba__redis_waiters_unwatch(&w, at(700)); /* before it was told: the next one is */
    simba__redis_waiters_watch(&w, true);
    assert_int_equal(w.interest, REDIS_DUE);
    TRACE("changed", simba__redis_waiters_woken(&w));
    assert_int_equal(w.interest, REDIS_WATCHED);

    simba__redis_waiters_unwatch(&w, at(800));
    simba__redis_waiters_news(&w);
    simba__redis_waiters_down(&w);
    TRACE("", simba__redis_waiters_watch(&w, true));
    assert_int_equal(w.interest, REDIS_WATCHED);
}

/* A message that was under way when the subscription ended. */
static void ignores_what_comes_too_late(void **state)
{
    (void)state;
    redis_waiters w = watched();
    simba__redis_waiters_unwatch(&w, at(0));
    simba__redis_waiters_down(&w);
    TRACE("", simba__redis_waiters_news(&w));
    assert_int_equal(w.interest, REDIS_IDLE);
}

/* --- invitations ------------------------------------------------------------------------------------ */

static void an_invitation_is_for_one_that_waits_here(void **state)
{
    (void)state;
    redis_waiters w = watched();
    TRACE("subscribe-id confirm", simba__redis_waiters_waits(&w, "a", 1));
    TRACE("subscribe-id", simba__redis_waiters_waits(&w, "b", 2));
    TRACE("released", simba__redis_waiters_invitation(&w, "b"));
    assert_string_equal(simba__redis_waiters_invited(&w), "b");
    TRACE("", simba__redis_waiters_waits(&w, "a", 1)); /* a had asked before it came, and asks again */
    assert_string_equal(simba__redis_waiters_invited(&w), "b");
    simba__redis_waiters_named(&w);
    TRACE("", simba__redis_waiters_waits(&w, "b", 2)); /* it asked and has to wait again */
    assert_string_equal(simba__redis_waiters_invited(&w), "");

    simba__redis_waiters_invitation(&w, "b");
    TRACE("", simba__redis_waiters_left(&w, "b", 2, true));
    assert_string_equal(simba__redis_waiters_invited(&w), "");
    simba__redis_waiters_invitation(&w, "stranger");
    assert_string_equal(simba__redis_waiters_invited(&w), "");
    simba__redis_waiters_fini(&w);
}

/* Only the invited one gets in. So if its invitation comes before the answer that makes it wait, that one has to ask. */
static void an_invitation_may_come_before_its_waiter(void **state)
{
    (void)state;
    redis_waiters w = watched();
    simba__redis_waiters_waits(&w, "a", 1);
    simba__redis_waiters_invitation(&w, "b");
    TRACE("subscribe-id changed-id", simba__redis_waiters_waits(&w, "b", 2));
    assert_string_equal(simba__redis_waiters_invited(&w), "b");
    TRACE("", simba__redis_waiters_left(&w, "a", 1, false)); /* of no consequence for b */
    assert_string_equal(simba__redis_waiters_invited(&w), "b");
    simba__redis_waiters_fini(&w);
}

/* --- contenders that come and go -------------------------------------------------------------------- */

/* The channel of one that has left is kept, so that waiting again costs nothing; but only so many. */
static void keeps_some_channels(void **state)
{
    (void)state;
    enum { KEPT = 64 };
    char id[16];
    redis_waiters w = watched();
    for (unsigned i = 0; i <= KEPT; i++) {
        snprintf(id, sizeof id, "c%u", i);
        TRACE(i == 0 ? "subscribe-id confirm" : "subscribe-id", simba__redis_waiters_waits(&w, id, i));
    }
    for (unsigned i = 0; i <= KEPT; i++) {
        snprintf(id, sizeof id, "c%u", i);
        TRACE(i < KEPT ? "" : "leave-id", simba__redis_waiters_left(&w, id, i, false));
    }
    assert_int_equal(w.here, 0);
    assert_int_equal(w.gone, KEPT);
    TRACE("", simba__redis_waiters_waits(&w, "c0", 100));
    TRACE("subscribe-id", simba__redis_waiters_waits(&w, "c64", 101));
    simba__redis_waiters_fini(&w);
}

/* Two may have one id. The channel is left when neither waits and none is kept: whoever waits again believes the latter. */
static void keeps_a_channel_that_another_needs(void **state)
{
    (void)state;
    enum { KEPT = 64 };
    char id[16];
    redis_waiters w = watched();
    simba__redis_waiters_waits(&w, "twin", 1);
    simba__redis_waiters_waits(&w, "twin", 2);
    simba__redis_waiters_left(&w, "twin", 1, false);
    for (unsigned i = 1; i < KEPT; i++) {
        snprintf(id, sizeof id, "c%u", i);
        simba__redis_waiters_waits(&w, id, i);
        simba__redis_waiters_left(&w, id, i, false);
    }
    assert_int_equal(w.gone, KEPT);
    TRACE("", simba__redis_waiters_left(&w, "twin", 2, false));
    TRACE("", simba__redis_waiters_waits(&w, "twin", 3)); /* and hears */
    simba__redis_waiters_fini(&w);
}

/* --- looking ---------------------------------------------------------------------------------------- */

/* A foreign owner may tell nobody of its release. The farther behind, the later; not if the lease ends before anyway. */
static void looks_at_a_foreign_grant(void **state)
{
    (void)state;
    redis_waiters w = fresh();
    simba__redis_waiters_foreign(&w, at(0), 10000, 1);
    assert_false(w.will_look); /* nobody watches */
    w = watched();
    simba__redis_waiters_foreign(&w, at(0), 250, 0);
    assert_false(w.will_look);
    simba__redis_waiters_foreign(&w, at(0), 10000, 3);
    assert_int_equal(w.look_at.ns, at(750).ns);
    simba__redis_waiters_foreign(&w, at(100), 10000, 1);
    assert_int_equal(w.look_at.ns, at(350).ns);
    simba__redis_waiters_foreign(&w, at(200), 10000, 3); /* later than what is set */
    assert_int_equal(w.look_at.ns, at(350).ns);
    TRACE("changed", simba__redis_waiters_look(&w));
    assert_false(w.will_look);
}

/* Who stands by asks a little after the invited one's time is over, not all at the same moment. */
static void stands_by_for_a_moment(void **state)
{
    (void)state;
    redis_waiters w = fresh();
    simba__redis_waiters_waits(&w, "a", 1);
    simba__redis_waiters_watch(&w, false);
    simba__redis_waiters_standby(&w, at(1000), 0);
    assert_int_equal(w.look_at.ns, at(1105).ns);
    simba__redis_waiters_standby(&w, at(1000), 44);
    assert_int_equal(w.look_at.ns, at(1149).ns);
    TRACE("changed", simba__redis_waiters_look(&w));
    simba__redis_waiters_standby(&w, at(2000), 45);
    assert_int_equal(w.look_at.ns, at(2105).ns);
    simba__redis_waiters_left(&w, "a", 1, true);
    TRACE("", simba__redis_waiters_look(&w)); /* nobody waits any more */
    simba__redis_waiters_fini(&w);
}

/* --- anything after anything ------------------------------------------------------------------------ */

/* The asserts of the machine hold whatever happens in whatever order, and only who watches is told. */
static void holds_in_any_order(void **state)
{
    (void)state;
    static const char *const ids[] = {"a", "b", "c"};
    uint64_t seed = 11;
    redis_waiters w = fresh();
    for (unsigned step = 0; step < 100000; step++) {
        const char *id = ids[simba__random_next(&seed) % 3];
        const uint64_t nonce = simba__random_next(&seed) % 2;
        const bool is_watched = simba__redis_waiters_watched(&w);
        unsigned actions = 0;
        switch (simba__random_next(&seed) % 13) {
        case 0:
            actions = simba__redis_waiters_watch(&w, true);
            break;
        case 1:
            actions = is_watched ? simba__redis_waiters_unwatch(&w, at(step)) : 0;
            break;
        case 2:
            actions = w.interest == REDIS_DUE ? simba__redis_waiters_woken(&w) : 0;
            break;
        case 3:
            actions = simba__redis_waiters_watch(&w, false);
            break;
        case 4:
            actions = simba__redis_waiters_waits(&w, id, nonce);
            break;
        case 5:
            actions = simba__redis_waiters_left(&w, id, nonce, step % 2 == 0);
            break;
        case 6:
            actions = simba__redis_waiters_foreign(&w, at(step), 10000, 1);
            break;
        case 7:
            actions = simba__redis_waiters_up(&w);
            break;
        case 8:
            actions = simba__redis_waiters_confirmed(&w);
            break;
        case 9:
            actions = step % 4 == 0 ? simba__redis_waiters_down(&w) : simba__redis_waiters_moved(&w);
            break;
        case 10:
            actions = simba__redis_waiters_news(&w);
            break;
        case 11:
            actions = simba__redis_waiters_invitation(&w, id);
            break;
        default:
            actions = w.will_look ? simba__redis_waiters_look(&w)
                                  : simba__redis_waiters_standby(&w, at(step), simba__random_next(&seed));
        }
        assert_true(is_watched || !(actions & (REDIS_TELL_CHANGED | REDIS_TELL_RELEASED)));
    }
    simba__redis_waiters_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subscribes_once_for_somebody),
        cmocka_unit_test(only_observers_want_news),
        cmocka_unit_test(many_share_an_echo),
        cmocka_unit_test(comes_back_after_a_loss),
        cmocka_unit_test(moves_with_its_mutex),
        cmocka_unit_test(tells_what_was_missed),
        cmocka_unit_test(ignores_what_comes_too_late),
        cmocka_unit_test(an_invitation_is_for_one_that_waits_here),
        cmocka_unit_test(an_invitation_may_come_before_its_waiter),
        cmocka_unit_test(keeps_some_channels),
        cmocka_unit_test(keeps_a_channel_that_another_needs),
        cmocka_unit_test(looks_at_a_foreign_grant),
        cmocka_unit_test(stands_by_for_a_moment),
        cmocka_unit_test(holds_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
