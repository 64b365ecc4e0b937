/* What `simba serve` makes of two looks at a store (cli/serve/table.h), and whom it lets in (cli/serve/access.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "serve/access.h"
#include "serve/table.h"

/* What look.c has; here there is no store to look at. */
void *cli_alloc(size_t size)
{
    void *memory = calloc(1, size);
    assert_non_null(memory);
    return memory;
}

/* --- a store of one or many mutexes, whose clock is one hour ahead ------------------------------------- */

#define AHEAD INT64_C(3600000)

static table t;

static int setup(void **state)
{
    table_init(&t);
    return 0;
}

static int teardown(void **state)
{
    table_fini(&t);
    return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

/* A lease of 10 s and 6 more. */
static look_row held(const char *mutex, const char *id, uint64_t token, int64_t acquired_ms, int64_t renewed_ms)
{
    look_row row = {.mutex = mutex, .waiters = -1};
    snprintf(row.owner.id, sizeof row.owner.id, "%s", id);
    row.owner.token = token;
    row.owner.acquired_at_ms = AHEAD + acquired_ms;
    row.owner.ttl_at_ms = AHEAD + renewed_ms + 10000;
    row.owner.transition_at_ms = AHEAD + renewed_ms + 16000;
    return row;
}

static look_row unowned(const char *mutex)
{
    return (look_row){.mutex = mutex, .waiters = -1};
}

static void apply(int64_t now_ms, look_row *rows, size_t count)
{
    const look l = {.wall_ms = now_ms, .mono_ms = now_ms, .store_ms = AHEAD + now_ms, .rows = rows, .count = count};
    table_apply(&t, &l);
}

#define APPLY(now_ms, ...)                                                                                             \
    apply(now_ms, (look_row[]){__VA_ARGS__}, sizeof((look_row[]){__VA_ARGS__}) / sizeof(look_row))

static void apply_silence(int64_t now_ms)
{
    const look l = {.code = SIMBA_EUNAVAILABLE, .error = "no answer", .wall_ms = now_ms, .mono_ms = now_ms};
    table_apply(&t, &l);
}

static const table_change *newest(void)
{
    return TAILQ_LAST(&t.changes, table_changes);
}

static void assert_newest(table_kind kind, int64_t at_ms, const char *before, const char *after)
{
    assert_non_null(newest());
    assert_string_equal(table_kind_name(newest()->kind), table_kind_name(kind));
    assert_int_equal(newest()->at_ms, at_ms);
    assert_string_equal(newest()->before.id, before);
    assert_string_equal(newest()->after.id, after);
}

/* --- changes -------------------------------------------------------------------------------------------- */

/* The first look tells what is, not what has changed. */
static void the_first_look_is_no_news(void **state)
{
    APPLY(50000, held("m", "a", 1, 40000, 40000));
    assert_null(newest());
    assert_int_equal(t.owned, 1);
    assert_true(table_find(&t, "m")->is_owned);
}

/* Before the lease is over it was handed over; the moment is the store's own, on our clock. */
static void a_hand_over(void **state)
{
    APPLY(50000, held("m", "a", 1, 40000, 40000));
    APPLY(51000, held("m", "b", 2, 50600, 50600));
    assert_newest(TABLE_HANDED_OVER, 50600, "a", "b");
}

/* After the lease was over it was a fail-over. */
static void a_fail_over(void **state)
{
    APPLY(55500, held("m", "a", 1, 40000, 40000));
    APPLY(56500, held("m", "b", 2, 56200, 56200));
    assert_newest(TABLE_FAILED_OVER, 56200, "a", "b");
}

/* A lease that ran out has ended when it ended, although the store still has the row. */
static void an_expiry(void **state)
{
    APPLY(55500, held("m", "a", 1, 40000, 40000));
    assert_int_equal(t.overdue, 1);
    APPLY(56400, held("m", "a", 1, 40000, 40000));
    assert_newest(TABLE_EXPIRED, 56000, "a", "");
    assert_int_equal(t.owned, 0);
    APPLY(57000, held("m", "b", 2, 56900, 56900));
    assert_newest(TABLE_ACQUIRED, 56900, "", "b");
}

/* A change says for how long the holder had had it, as far as the store says since when. */
static void a_change_says_how_long_it_was_held(void **state)
{
    APPLY(50000, held("m", "a", 1, 40000, 40000), held("n", "a", 1, -AHEAD, 40000));
    APPLY(51000, held("m", "b", 2, 50600, 50600), unowned("n"));
    assert_int_equal(table_change_since(&t, 0)->held_ms, 10600);
    assert_int_equal(newest()->held_ms, LEASE_UNKNOWN);
    APPLY(52000, unowned("m"), held("n", "b", 2, 51500, 51500));
    assert_int_equal(newest()->held_ms, LEASE_UNKNOWN);
}

static void a_release(void **state)
{
    APPLY(50000, held("m", "a", 1, 40000, 49000));
    APPLY(51000, unowned("m"));
    assert_newest(TABLE_RELEASED, 51000, "a", "");
}

/* Only the look after a forced release, and only that grant: a later one of the same mutex ends as any other. */
static void a_forced_release(void **state)
{
    look_row beta = held("m", "b", 2, 50600, 50600);
    look after = {
        .wall_ms = 51000, .mono_ms = 51000, .store_ms = AHEAD + 51000, .rows = &beta, .count = 1, .forced = "m"};
    APPLY(50000, held("m", "a", 1, 40000, 40000));
    after.forced_token = 1;
    table_apply(&t, &after);
    assert_newest(TABLE_FORCED, 50600, "a", "b");
    beta = unowned("m");
    after.wall_ms = after.mono_ms = 52000;
    after.store_ms = AHEAD + 52000;
    table_apply(&t, &after);
    assert_newest(TABLE_RELEASED, 52000, "b", "");
}

/* A new grant to the same owner is a change, a renewal is none. */
static void renewals_are_no_changes(void **state)
{
    APPLY(50000, held("m", "a", 1, 40000, 40000));
    const uint64_t revision = t.revision;
    APPLY(51000, held("m", "a", 1, 40000, 50500));
    assert_null(newest());
    assert_true(table_find(&t, "m")->revision > revision);
    APPLY(52000, held("m", "a", 2, 51500, 51500));
    assert_newest(TABLE_HANDED_OVER, 51500, "a", "a");
}

/* A note is told with its row, also if nothing else is new; the next look may have another, or none. */
static void notes_come_with_rows(void **state)
{
    look_row row = held("m", "a", 1, 40000, 40000);
    apply(50000, &row, 1);
    assert_null(table_find(&t, "m")->note);
    const uint64_t known = t.revision;
    row.note = "42\0 done";
    row.note_length = 8;
    apply(50500, &row, 1);
    assert_memory_equal(table_find(&t, "m")->note, "42\0 done", 8);
    assert_non_null(table_row_since(&t, known));
    apply(50600, &row, 1);
    assert_int_equal(t.revision, known + 1);
    row.note_length = 0;
    apply(51000, &row, 1);
    assert_null(table_find(&t, "m")->note);
    assert_null(newest());
}

/* Who waits is told with its row; a row whose line is another one is new. */
static void lines_come_with_rows(void **state)
{
    look_row row = held("m", "a", 1, 40000, 40000);
    apply(50000, &row, 1);
    assert_int_equal(table_find(&t, "m")->waiters, -1);
    uint64_t known = t.revision;
    row.waiters = 2;
    row.next = "b";
    apply(50500, &row, 1);
    assert_string_equal(table_find(&t, "m")->next, "b");
    assert_int_equal(t.waiters, 2);
    assert_non_null(table_row_since(&t, known));
    known = t.revision;
    row.next = "c"; /* b has left, another has come */
    apply(50600, &row, 1);
    assert_string_equal(table_find(&t, "m")->next, "c");
    assert_non_null(table_row_since(&t, known));
    known = t.revision;
    apply(50700, &row, 1);
    assert_null(table_row_since(&t, known));
    row.waiters = 0;
    row.next = NULL;
    apply(50800, &row, 1);
    assert_null(table_find(&t, "m")->next);
}

static void apply_run(int64_t now_ms, int64_t begun_ms, const char *outcome, const char *rest)
{
    char note[400];
    const int length =
        snprintf(note, sizeof note,
                 "simba-schedule 1 anchor=1 through=%lld due=%lld begun=%lld ended=%lld %s "
                 "spec=every 1000\n%s",
                 (long long)begun_ms, (long long)begun_ms, (long long)begun_ms, (long long)begun_ms + 7, outcome, rest);
    look_row row = held("m", "a", 1, 40000, 40000);
    row.note = note;
    row.note_length = (size_t)length;
    apply(now_ms, &row, 1);
}

/* A note tells of one run; those before it are known from the notes before. A run that has begun ends in the same place. */
static void runs_are_remembered(void **state)
{
    apply_run(50000, 1000, "result=0 tries=0 missed=0 state=ended", "42");
    const runs *r = table_find(&t, "m")->runs;
    assert_string_equal(r->schedule.when, "every 1000");
    assert_string_equal(table_find(&t, "m")->note + r->record_length, "42");
    assert_int_equal(r->count, 1);
    apply_run(50100, 2000, "result=0 tries=0 missed=0 state=begun", "");
    assert_int_equal(r->count, 2);
    assert_int_equal(r->last[1].ended_at_ms, 0);
    apply_run(50200, 2000, "result=3 tries=0 missed=0 state=ended", "");
    assert_int_equal(r->count, 2);
    assert_int_equal(r->last[1].ended_at_ms, 2007);
    assert_int_equal(r->last[1].result, 3);
    for (int i = 0; i < RUNS_MAX; i++)
        apply_run(50300 + i, 3000 + i, "result=0 tries=0 missed=0 state=ended", "");
    assert_int_equal(r->count, RUNS_MAX);
    assert_int_equal(r->last[0].begun_at_ms, 3000);
    APPLY(51000, held("m", "a", 1, 40000, 40000));
    assert_null(table_find(&t, "m")->runs);
}

/* Times in a store may be anything; what differs happened between the looks. */
static void absurd_times_stay_between_the_looks(void **state)
{
    APPLY(50000, held("m", "a", 1, 40000, 40000));
    look_row row = held("m", "b", 2, 0, 50000);
    row.owner.acquired_at_ms = INT64_MIN + 1;
    apply(51000, &row, 1);
    assert_newest(TABLE_HANDED_OVER, 51000, "a", "b"); /* not known: when it was seen */
    row.owner.token = 3;
    row.owner.acquired_at_ms = 1;
    apply(52000, &row, 1);
    assert_newest(TABLE_HANDED_OVER, 51000, "b", "b");
    row.owner.token = 4;
    row.owner.acquired_at_ms = INT64_MAX;
    row.owner.transition_at_ms = AHEAD + 90000;
    apply(53000, &row, 1);
    assert_int_equal(newest()->at_ms, 53000);
    row.owner.transition_at_ms = INT64_MAX - 1;
    assert_int_equal(lease_look(&row.owner, -5).left_ms, INT64_MAX); /* further than can be counted */
}

/* What was not asked for is not known: an outage begins and ends, and rows stay as they were. */
static void an_outage(void **state)
{
    APPLY(50000, held("m", "a", 1, 40000, 49000));
    apply_silence(51000);
    apply_silence(52000);
    assert_newest(TABLE_STORE_LOST, 51000, "", "");
    assert_false(t.answers);
    assert_int_equal(t.since_ms, 51000);
    assert_true(table_find(&t, "m")->is_owned);
    APPLY(53000, held("m", "a", 1, 40000, 49000));
    assert_newest(TABLE_STORE_BACK, 53000, "", "");
    assert_int_equal(t.counts[TABLE_STORE_LOST], 1);
}

/* --- keeping up ------------------------------------------------------------------------------------------ */

/* Whoever knows a revision finds exactly what is newer. */
static void rows_and_changes_by_revision(void **state)
{
    APPLY(50000, held("a", "x", 1, 40000, 49000), held("b", "x", 2, 40000, 49000));
    const uint64_t known = t.revision;
    assert_null(table_row_since(&t, known));
    APPLY(51000, held("a", "x", 1, 40000, 49000), held("b", "y", 3, 50500, 50500));
    assert_string_equal(table_row_since(&t, known)->mutex, "b");
    assert_ptr_equal(table_change_since(&t, known), newest());
    assert_null(TAILQ_NEXT(table_row_since(&t, known), in_all));
}

/* A mutex that is gone is told of once more; one without a history is then forgotten, and raises the horizon. */
static void gone_mutexes(void **state)
{
    APPLY(50000, unowned("a"), held("b", "x", 1, 40000, 49000), unowned("c"));
    const uint64_t known = t.revision;
    apply(51000, NULL, 0);
    assert_false(table_find(&t, "a")->is_present);
    assert_string_equal(table_row_since(&t, known)->mutex, "a");
    assert_newest(TABLE_RELEASED, 51000, "x", "");
    assert_int_equal(t.horizon, 0);
    apply(52000, NULL, 0);
    assert_null(table_find(&t, "a"));
    assert_non_null(table_find(&t, "b")); /* it has a history */
    assert_true(t.horizon > known);
}

/* A mutex that changes all the time drops its own past, and nobody else's. */
static void history_is_bounded(void **state)
{
    APPLY(1000, held("calm", "x", 1, 500, 500), held("wild", "x", 1, 500, 500));
    APPLY(2000, held("calm", "y", 2, 1500, 1500), held("wild", "x", 1, 500, 500));
    for (int i = 0; i < 2 * TABLE_CHANGES_PER_MUTEX; i++)
        APPLY(3000 + i, held("calm", "y", 2, 1500, 1500), held("wild", "x", (uint64_t)(i + 5), 2500, 2500));
    assert_int_equal(table_find(&t, "wild")->change_count, TABLE_CHANGES_PER_MUTEX);
    assert_int_equal(table_find(&t, "calm")->change_count, 1);
    assert_int_equal(t.change_count, TABLE_CHANGES_PER_MUTEX + 1);
    assert_int_equal(t.counts[TABLE_HANDED_OVER], 2 * TABLE_CHANGES_PER_MUTEX + 1);
}

/* All of them together are bounded, too. */
static void history_of_many_is_bounded(void **state)
{
    enum { MANY = 400 };
    static look_row rows[MANY];
    static char names[MANY][8];
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < MANY; i++) {
            snprintf(names[i], sizeof names[i], "m%05d", i);
            rows[i] = held(names[i], "x", (uint64_t)(round + 1), 500, 500);
        }
        apply(1000 + round, rows, MANY);
    }
    assert_int_equal(t.change_count, TABLE_CHANGES_MAX);
    assert_in_range(t.horizon, 1, t.revision);
}

/* --- access ------------------------------------------------------------------------------------------------ */

static void without_a_token_only_this_machine_has_a_name(void **state)
{
    const access_rules open = {0};
    static const char *const ours[] = {"localhost:7460", "LOCALHOST", "127.0.0.1:1", "[::1]:7460"};
    static const char *const others[] = {
        "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7460", "localhost:7460.evil", "", "10.0.0.1"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        assert_int_equal(access_to_read(&open, &(access_request){.host = ours[i]}), ACCESS_GRANTED);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(access_to_read(&open, &(access_request){.host = others[i]}), ACCESS_WRONG_HOST);
    assert_int_equal(access_to_read(&open, &(access_request){0}), ACCESS_WRONG_HOST);
    assert_int_equal(access_to_change(&open, &(access_request){.host = "localhost"}), ACCESS_NO_TOKEN);
}

static void a_token_is_asked_for(void **state)
{
    const access_rules rules = {.token = "0123456789abcdef"};
    static const char *const wrong[] = {NULL,
                                        "",
                                        "Bearer ",
                                        "Bearer 0123456789abcde",
                                        "Bearer 0123456789abcdef0",
                                        "Bearer 0123456789abcdef0123456789abcdef",
                                        "Basic 0123456789abcdef",
                                        "0123456789abcdef"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(access_to_read(&rules, &(access_request){.host = "localhost", .authorization = wrong[i]}),
                         ACCESS_NO_TOKEN);
    const access_request right = {.host = "any.example", .authorization = "Bearer 0123456789abcdef"};
    assert_int_equal(access_to_read(&rules, &right), ACCESS_GRANTED);
    assert_int_equal(access_to_change(&rules, &right), ACCESS_GRANTED);
}

/* A certificate lets somebody read; to change something takes the token, which no browser sends by itself. */
static void a_certificate_is_for_reading(void **state)
{
    const access_rules rules = {.by_certificate = true, .has_tls = true};
    assert_int_equal(access_to_read(&rules, &(access_request){.host = "x"}), ACCESS_NO_TOKEN);
    assert_int_equal(access_to_read(&rules, &(access_request){.host = "x", .has_certificate = true}), ACCESS_GRANTED);
    assert_int_equal(access_to_change(&rules, &(access_request){.host = "x", .has_certificate = true}),
                     ACCESS_NO_TOKEN);
}

static void forged_requests_change_nothing(void **state)
{
    const access_rules rules = {.token = "0123456789abcdef"};
    access_request request = {.host = "localhost:7460", .authorization = "Bearer 0123456789abcdef"};
    request.origin = "http://localhost:7460";
    request.fetch_site = "same-origin";
    assert_int_equal(access_to_change(&rules, &request), ACCESS_GRANTED);
    request.fetch_site = "same-site";
    assert_int_equal(access_to_change(&rules, &request), ACCESS_FOREIGN);
    request.fetch_site = NULL;
    request.origin = "http://evil.example";
    assert_int_equal(access_to_change(&rules, &request), ACCESS_FOREIGN);
    request.origin = "https://localhost:7460";
    assert_int_equal(access_to_change(&rules, &request), ACCESS_FOREIGN);
    request.origin = "null";
    assert_int_equal(access_to_change(&rules, &request), ACCESS_FOREIGN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_look_is_no_news),
        TEST(a_hand_over),
        TEST(a_fail_over),
        TEST(an_expiry),
        TEST(a_change_says_how_long_it_was_held),
        TEST(a_release),
        TEST(a_forced_release),
        TEST(renewals_are_no_changes),
        TEST(notes_come_with_rows),
        TEST(lines_come_with_rows),
        TEST(runs_are_remembered),
        TEST(absurd_times_stay_between_the_looks),
        TEST(an_outage),
        TEST(rows_and_changes_by_revision),
        TEST(gone_mutexes),
        TEST(history_is_bounded),
        TEST(history_of_many_is_bounded),
        cmocka_unit_test(without_a_token_only_this_machine_has_a_name),
        cmocka_unit_test(a_token_is_asked_for),
        cmocka_unit_test(a_certificate_is_for_reading),
        cmocka_unit_test(forged_requests_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
