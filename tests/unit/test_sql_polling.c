/* When a client polls the rows that somebody waits for, and what is news about them: without any server. */
#include <string.h>

#include "lib/cm.h"

#include "stores/sql/polling.h"
#include "util/clock.h"

static simba__sql_polling polling;
static simba_watch watch = {.mutex = "m"}, other = {.mutex = "other"};
static simba__sql_polled *polled;
static simba_push push;

static simba_local at(int64_t ms)
{
    return (simba_local){ms * SIMBA__NS_PER_MS};
}

static int setup(void **state)
{
    simba__sql_polling_init(&polling, 4711);
    polled = simba__sql_polling_add(&polling, &watch, at(0));
    return polled ? 0 : -1;
}

static int teardown(void **state)
{
    simba__sql_polling_fini(&polling);
    return 0;
}

/* A row that is free: an empty id. */
static simba_reply row(const char *id, uint64_t token, int64_t until_ms)
{
    simba_reply reply = {.owner = {.token = token, .transition_at_ms = until_ms}, .now_ms = 1};
    strcpy(reply.owner.id, id);
    return reply;
}

/* Read by a job that began at that moment. */
static bool is_news_since(uint64_t began, uint64_t version, simba_reply reply)
{
    return simba__sql_polled_read(&polling, polled, &reply, version, began, at(0), &push);
}

/* Read by a job that began and ended just now. */
static bool is_news(uint64_t version, simba_reply reply)
{
    return is_news_since(simba__sql_polling_begin(&polling), version, reply);
}

/* How many mutexes a poll takes now. */
static size_t take(simba_local now)
{
    simba__list asked = {0};
    simba__sql_polling_take(&polling, now, &asked);
    const size_t count = asked.count;
    while (asked.first)
        simba__list_remove(asked.first);
    return count;
}

/* Poll when it is due, with nothing new: how long until the next one. */
static int64_t poll_at(simba_local now)
{
    assert_int_equal(take(now), 1);
    simba__sql_polled_came_back(&polling, polled, true, simba__sql_polling_begin(&polling), now);
    return (simba__sql_polling_due(&polling).ns - now.ns) / SIMBA__NS_PER_MS;
}

/* --- when ------------------------------------------------------------------------------------------------ */

/* The longer nothing happens, the more seldom it is polled: from 40 ms to 900 ms, less a quarter at random at most. */
static void backs_off(void **state)
{
    static const int64_t level_ms[] = {40, 80, 160, 320, 640, 900, 900};
    simba_local now = at(0);
    for (size_t level = 0; level < sizeof level_ms / sizeof *level_ms; level++)
        for (int i = 0; i < 12; i++) {
            const int64_t expected_ms = level_ms[i < 11 || level == 6 ? level : level + 1];
            assert_in_range(poll_at(now), expected_ms * 3 / 4 - 1, expected_ms);
            now = simba__sql_polling_due(&polling);
        }
    assert_true(now.ns > at(13000).ns);
}

/* A change lowers the level; each time that somebody else was faster, less far. */
static void change_hurries(void **state)
{
    assert_true(is_news(1, row("you", 1, 100)));
    for (int i = 0; i < 6 * 12; i++)
        poll_at(simba__sql_polling_due(&polling));
    assert_int_equal(polled->level, 5);
    assert_true(is_news(2, row("", 0, 0)));
    assert_int_equal(polled->level, 0);
    assert_true(is_news(3, row("they", 3, 100)));
    assert_int_equal(polled->level, 1);
    for (uint64_t version = 4; version < 20; version++)
        is_news(version, version % 2 ? row("they", version, 100) : row("", 0, 0));
    assert_int_equal(polled->level, 3);
}

/* Where the server tells of releases, a mutex is read once, and then every five minutes. */
static void about_rarely(void **state)
{
    simba__sql_polling_set_pace(&polling, SIMBA__SQL_RARELY, at(0));
    assert_in_range(poll_at(at(0)), 224999, 300000);
    const simba_local later = simba__sql_polling_due(&polling);
    assert_in_range(poll_at(later), 224999, 300000);
    assert_true(is_news(1, row("you", 1, 100)));
    assert_true(is_news(2, row("", 0, 0)));
    assert_int_equal(polled->level, SIMBA__SQL_LEVEL_BACKUP);
}

/* Then a renewal is not told to who waits: it asks when the lease that it knows of ends, which keeps it in the server's queue. */
static void renewal_is_no_news_to_who_hears(void **state)
{
    simba__sql_polling_set_pace(&polling, SIMBA__SQL_RARELY, at(0));
    assert_true(is_news(1, row("you", 1, 100)));
    (void)poll_at(at(0));
    assert_int_equal(polled->level, SIMBA__SQL_LEVEL_BACKUP);
    assert_false(is_news(1, row("you", 1, 200)));
    assert_true(is_news(2, row("", 0, 0)));
}

/* The server tells of releases, and of nothing else: what an observer wants to hear of, only polls find out. */
static void observed_is_polled_often(void **state)
{
    watch.observed = true;
    simba__sql_polling_set_pace(&polling, SIMBA__SQL_RARELY, at(0));
    assert_in_range(poll_at(at(0)), 29, 40);
    assert_in_range(poll_at(simba__sql_polling_due(&polling)), 29, 40);
    watch.observed = false;
}

/* A poll that began before the server told of releases, or that was not answered, is no look at the row. */
static void rarely_after_a_look(void **state)
{
    const uint64_t began = simba__sql_polling_begin(&polling);
    simba__sql_polling_set_pace(&polling, SIMBA__SQL_RARELY, at(5));
    simba__sql_polled_came_back(&polling, polled, true, began, at(10));
    assert_int_equal(simba__sql_polling_due(&polling).ns, at(5).ns);
    simba__sql_polled_came_back(&polling, polled, false, simba__sql_polling_begin(&polling), at(10));
    assert_int_equal(polled->level, 0);
}

/* L2: a poll that was under way when the look was asked for is not that look. */
static void hastened_while_a_poll_is_under_way(void **state)
{
    simba__sql_polling_set_pace(&polling, SIMBA__SQL_RARELY, at(0));
    simba__sql_polled_came_back(&polling, polled, true, simba__sql_polling_begin(&polling), at(0));
    const uint64_t before = simba__sql_polling_begin(&polling);
    simba__sql_polled_hasten(&polling, polled, 1, at(10));
    simba__sql_polled_came_back(&polling, polled, true, before, at(20));
    assert_true(simba__sql_polling_due(&polling).ns <= at(100).ns);
    simba__sql_polled_came_back(&polling, polled, true, simba__sql_polling_begin(&polling), at(90));
    assert_int_equal(polled->level, SIMBA__SQL_LEVEL_BACKUP);
}

/* When the server does not tell any more, everything is due, and backs off anew. */
static void often_again(void **state)
{
    assert_non_null(simba__sql_polling_add(&polling, &other, at(0)));
    simba__sql_polling_set_pace(&polling, SIMBA__SQL_RARELY, at(0));
    simba__sql_polled_came_back(&polling, polled, true, simba__sql_polling_begin(&polling), at(0));
    simba__sql_polling_set_pace(&polling, SIMBA__SQL_OFTEN, at(100));
    assert_int_equal(simba__sql_polling_due(&polling).ns, at(100).ns);
    assert_int_equal(take(at(100)), 2);
    simba__sql_polled_came_back(&polling, polled, true, simba__sql_polling_begin(&polling), at(100));
    assert_int_equal(polled->level, 0);
    assert_true(simba__sql_polling_due(&polling).ns <= at(140).ns);
}

/* --- news ------------------------------------------------------------------------------------------------ */

/* Two answers overtake each other on two connections: of the older one nothing is told. */
static void overtaken_answer_is_no_news(void **state)
{
    const uint64_t early = simba__sql_polling_begin(&polling);
    assert_true(is_news(2, row("", 0, 0)));
    assert_false(is_news_since(early, 1, row("you", 1, 100)));
}

/* A promoted replica that is behind: a job that began after the newer version was told reads an older one, and that is how
 * the row is now. */
static void row_that_is_behind_is_news(void **state)
{
    assert_true(is_news(7, row("", 0, 0)));
    assert_true(is_news(4, row("you", 4, 100)));
    assert_int_equal(push.kind, SIMBA_PUSH_ACQUIRED);
    assert_int_equal(push.owner.token, 4);
}

/* A JVM contender's grants have no token: its renewal is told as one, another owner has everybody ask. */
static void grants_without_a_token(void **state)
{
    assert_true(is_news(1, row("jvm", 0, 100)));
    assert_int_equal(push.kind, SIMBA_PUSH_ACQUIRED);
    assert_true(is_news(2, row("jvm", 0, 200)));
    assert_int_equal(push.kind, SIMBA_PUSH_ACQUIRED);
    assert_int_equal(polled->level, 0);
    assert_true(is_news(3, row("jvm2", 0, 300)));
    assert_int_equal(push.kind, SIMBA_PUSH_CHANGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(backs_off, setup, teardown),
        cmocka_unit_test_setup_teardown(change_hurries, setup, teardown),
        cmocka_unit_test_setup_teardown(about_rarely, setup, teardown),
        cmocka_unit_test_setup_teardown(renewal_is_no_news_to_who_hears, setup, teardown),
        cmocka_unit_test_setup_teardown(observed_is_polled_often, setup, teardown),
        cmocka_unit_test_setup_teardown(rarely_after_a_look, setup, teardown),
        cmocka_unit_test_setup_teardown(hastened_while_a_poll_is_under_way, setup, teardown),
        cmocka_unit_test_setup_teardown(often_again, setup, teardown),
        cmocka_unit_test_setup_teardown(overtaken_answer_is_no_news, setup, teardown),
        cmocka_unit_test_setup_teardown(row_that_is_behind_is_news, setup, teardown),
        cmocka_unit_test_setup_teardown(grants_without_a_token, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
