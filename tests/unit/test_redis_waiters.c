/* Who is listened for, as traces: what happens, and what must be done about it. Times are in ms. */
#include "stores/redis/waiters.h"

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
    } words[] = {{REDIS_SUBSCRIBE, "subscribe"},    {REDIS_UNSUBSCRIBE, "unsubscribe"}, {REDIS_TELL_CHANGED, "changed"},
                 {REDIS_TELL_RELEASED, "released"}, {REDIS_TELL_NOTED, "noted"},        {REDIS_DROP, "drop"}};
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

static redis_listener fresh(void)
{
    redis_listener l;
    simba__redis_listener_init(&l, at(1));
    return l;
}

/* One waits, and is heard of. */
static redis_listener waiting(void)
{
    redis_listener l = fresh();
    assert_true(simba__redis_listener_join(&l, 7));
    TRACE("subscribe", simba__redis_listener_up(&l, 1));
    TRACE("changed", simba__redis_listener_confirmed(&l));
    return l;
}

/* A contender says that it hears only once all its channels are confirmed, and is told to ask again then. */
static void hears_when_it_is_confirmed(void **state)
{
    redis_listener l = fresh();
    assert_int_equal(simba__redis_listener_says(&l), '0');
    assert_true(simba__redis_listener_join(&l, 7));
    TRACE("subscribe", simba__redis_listener_up(&l, 2));
    TRACE("", simba__redis_listener_up(&l, 2)); /* once */
    assert_int_equal(simba__redis_listener_says(&l), '0');
    TRACE("", simba__redis_listener_confirmed(&l));
    assert_int_equal(simba__redis_listener_says(&l), '0');
    TRACE("changed", simba__redis_listener_confirmed(&l));
    assert_int_equal(simba__redis_listener_says(&l), '1');
    TRACE("", simba__redis_listener_confirmed(&l)); /* of nobody */
    simba__redis_listener_fini(&l);
}

/* Nothing is subscribed for nobody. */
static void nobody_is_listened_for(void **state)
{
    redis_listener l = fresh();
    TRACE("", simba__redis_listener_up(&l, 1));
    TRACE("", simba__redis_listener_invited(&l));
}

/* The connection is lost: it may be in the queue still, and does not hear. Afterwards it asks again. */
static void subscribes_again(void **state)
{
    redis_listener l = waiting();
    l.queued = true;
    simba__redis_listener_down(&l);
    assert_int_equal(simba__redis_listener_says(&l), '2');
    TRACE("", simba__redis_listener_confirmed(&l));
    TRACE("subscribe", simba__redis_listener_up(&l, 1));
    TRACE("changed", simba__redis_listener_confirmed(&l));
    assert_int_equal(simba__redis_listener_says(&l), '1');
    simba__redis_listener_fini(&l);
}

/* A channel stays for a second after nobody waits, and hears meanwhile; one that is not confirmed stays until it is. */
static void outlives_the_interest(void **state)
{
    redis_listener l = waiting();
    simba__redis_listener_leave(&l, 7, at(100));
    assert_int_equal(simba__redis_listener_says(&l), '1');
    TRACE("", simba__redis_listener_invited(&l));
    TRACE("", simba__redis_listener_tick(&l, at(1099)));
    TRACE("unsubscribe drop", simba__redis_listener_tick(&l, at(1100)));
    assert_true(simba__redis_listener_join(&l, 8));
    TRACE("", simba__redis_listener_tick(&l, at(5000)));
    simba__redis_listener_fini(&l);

    l = fresh();
    assert_true(simba__redis_listener_join(&l, 7));
    TRACE("subscribe", simba__redis_listener_up(&l, 1));
    simba__redis_listener_leave(&l, 7, at(100));
    TRACE("", simba__redis_listener_tick(&l, at(5000)));
    TRACE("", simba__redis_listener_confirmed(&l));
    TRACE("unsubscribe drop", simba__redis_listener_tick(&l, at(5000)));
    simba__redis_listener_down(&l);
    TRACE("drop", simba__redis_listener_tick(&l, at(5000)));
}

/* An invitation is told at once; whoever stands by asks a little after those 100 ms. */
static void invited_and_standing_by(void **state)
{
    redis_listener l = waiting();
    TRACE("released", simba__redis_listener_invited(&l));
    simba__redis_listener_standby(&l, at(1000), 44);
    TRACE("", simba__redis_listener_tick(&l, at(1148)));
    TRACE("changed", simba__redis_listener_tick(&l, at(1149)));
    TRACE("", simba__redis_listener_tick(&l, at(9999)));
    simba__redis_listener_standby(&l, at(1000), 0);
    simba__redis_listener_leave(&l, 7, at(1001));
    TRACE("", simba__redis_listener_tick(&l, at(1200)));
    simba__redis_listener_fini(&l);
}

/* Beside a JVM contender one looks four times a second, further back less often, and not shortly before the lease ends. */
static void looks_at_a_foreign_owner(void **state)
{
    redis_listener l = waiting();
    simba__redis_listener_foreign(&l, at(1000), 250, 1);
    assert_int_equal(l.look_at.ns, 0);
    simba__redis_listener_foreign(&l, at(1000), 60000, 3);
    assert_int_equal(l.look_at.ns, at(1750).ns);
    simba__redis_listener_foreign(&l, at(1000), 60000, 0);
    assert_int_equal(l.look_at.ns, at(1250).ns);
    simba__redis_listener_foreign(&l, at(1100), 60000, 1); /* the earlier time stays */
    TRACE("changed", simba__redis_listener_tick(&l, at(1250)));
    simba__redis_listener_fini(&l);
}

/* Two of one id share a place in the queue: when it is gone, the other one is told. */
static void two_of_one_name(void **state)
{
    redis_listener l = waiting();
    assert_true(simba__redis_listener_join(&l, 8));
    l.queued = true;
    simba__redis_listener_leave(&l, 7, at(1));
    TRACE("changed", simba__redis_listener_unqueued(&l));
    simba__redis_listener_leave(&l, 8, at(1));
    TRACE("", simba__redis_listener_unqueued(&l));
    simba__redis_listener_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hears_when_it_is_confirmed),
        cmocka_unit_test(nobody_is_listened_for),
        cmocka_unit_test(subscribes_again),
        cmocka_unit_test(outlives_the_interest),
        cmocka_unit_test(invited_and_standing_by),
        cmocka_unit_test(looks_at_a_foreign_owner),
        cmocka_unit_test(two_of_one_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
