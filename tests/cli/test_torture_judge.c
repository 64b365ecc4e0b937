/* The judge of `simba torture`, its histories and its plans by themselves: what is a broken promise, and what is none. */
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"
#include "torture/judge.h"
#include "torture/plan.h"

#define MS INT64_C(1000000)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* A lease of 2 s; the next leader within 3 s, or within 1 s after a hand-over. */
static const torture_setup setup = {.contenders = 3,
                                    .mutexes = 1,
                                    .lease_ns = 2000 * MS,
                                    .outage_ns = 500 * MS,
                                    .takeover_ns = 3000 * MS,
                                    .handover_ns = 1000 * MS};

static torture_history history;
static torture_verdict verdict;

static torture_event *add(torture_kind kind, int contender, int64_t at_ms)
{
    const torture_event event = {.kind = kind, .contender = contender, .at_ns = at_ms * MS};
    torture_history_add(&history, &event);
    return &history.events[history.count - 1];
}

/* All contend from the beginning, and the run ends then. */
static void begin(int64_t end_ms)
{
    torture_verdict_free(&verdict);
    torture_history_free(&history);
    for (int contender = 0; contender < setup.contenders; contender++)
        add(TORTURE_CONTENDS, contender, 0);
    add(TORTURE_END, TORTURE_EVERYBODY, end_ms);
}

/* It looks from the one moment to the other, and its lease is valid until the third. */
static torture_event *hold(int contender, uint64_t token, int64_t from_ms, int64_t to_ms, int64_t until_ms)
{
    torture_event *event = add(TORTURE_HOLDS, contender, from_ms);
    event->seen_ns = event->at_ns;
    event->to_ns = to_ms * MS;
    event->until_ns = until_ms * MS;
    event->token = token;
    return event;
}

static void end(int contender, uint64_t token, int64_t at_ms, const char *why)
{
    torture_event *event = add(TORTURE_RELEASED, contender, at_ms);
    event->token = token;
    snprintf(event->what, sizeof event->what, "%s", why);
}

static void fault(int contender, const char *what, int64_t from_ms, int64_t to_ms)
{
    snprintf(add(TORTURE_FAULT, contender, from_ms)->what, sizeof history.events->what, "%s", what);
    snprintf(add(TORTURE_HEALED, contender, to_ms)->what, sizeof history.events->what, "%s", what);
}

static void kill_at(int contender, int64_t at_ms)
{
    add(TORTURE_KILLED, contender, at_ms)->to_ns = (at_ms + 1) * MS;
}

/* Judge, and nothing but this may be broken. */
static void expect(torture_check check, size_t times)
{
    torture_judge(&setup, &history, &verdict);
    for (size_t i = 0; i < verdict.finding_count; i++)
        print_message("# %s\n", verdict.findings[i].text);
    for (int other = 0; other < TORTURE_CHECKS; other++)
        assert_int_equal(verdict.broken[other], other == (int)check ? times : 0);
    assert_int_equal(verdict.kept, times == 0);
    if (times > 0)
        assert_int_equal(verdict.worst.check, check);
}

static void expect_kept(void)
{
    expect(TORTURE_CHECKS, 0);
}

/* --- S1 ------------------------------------------------------------------------------------------------- */

/* One hands over to the next, and that one is killed: nothing is wrong, and the times are told. */
static void healthy_run(void **state)
{
    begin(9000);
    hold(0, 1, 10, 3000, 4900);
    end(0, 1, 3000, "stopped");
    hold(1, 2, 3020, 5000, 6900);
    kill_at(1, 5000);
    hold(2, 3, 7100, 9100, 11000);
    end(2, 3, 9200, "stopped");
    expect_kept();
    assert_int_equal(verdict.reign_count, 3);
    assert_int_equal(verdict.times[TORTURE_END_START].longest_ns, 10 * MS);
    assert_int_equal(verdict.times[TORTURE_END_HAND_OVER].longest_ns, 20 * MS);
    assert_int_equal(verdict.times[TORTURE_END_KILL].median_ns, 2100 * MS);
    assert_int_equal(verdict.losses, 0);
}

/* Two that look at the same time, and both find that they lead. */
static void two_act(void **state)
{
    begin(4000);
    hold(0, 1, 10, 2000, 3900);
    hold(1, 2, 1900, 3900, 5900);
    end(0, 1, 2000, "stopped");
    expect(TORTURE_ALONE, 1);
    assert_non_null(strstr(verdict.worst.text, "both acted"));
    assert_int_equal(verdict.worst.for_ns, 100 * MS);
}

/* The third begins while the first has not ended, although a second came and went in between. */
static void an_old_claim_is_not_forgotten(void **state)
{
    begin(4000);
    hold(0, 1, 10, 3900, 5900);
    hold(1, 2, 1000, 1100, 3000);
    end(1, 2, 1100, "stopped");
    hold(2, 3, 1200, 3900, 5900);
    expect(TORTURE_ALONE, 2);
}

/* A dead leader's lease covers the mutex until it ends, and not a moment longer. */
static void lease_of_the_dead(void **state)
{
    for (int early = 0; early < 2; early++) {
        begin(4000);
        hold(0, 1, 10, 1000, 2900);
        kill_at(0, 1000);
        hold(1, 2, early ? 2899 : 2900, 3990, 5900);
        if (early)
            expect(TORTURE_ALONE, 1);
        else
            expect_kept();
    }
    begin(4000);
    hold(0, 1, 10, 1000, 2900);
    kill_at(0, 1000);
    hold(1, 2, 2899, 3990, 5900);
    expect(TORTURE_ALONE, 1);
    assert_non_null(strstr(verdict.worst.text, "was valid for another 0.001 s"));
}

/* A paused leader that looks when it wakes up, and still finds its lease valid, has led all the while. */
static void paused_leader_acts(void **state)
{
    begin(6000);
    hold(0, 1, 10, 1000, 2900);
    fault(0, "pause", 1000, 4500);
    hold(1, 2, 3000, 5900, 7000);
    expect_kept();
    begin(6000);
    hold(0, 1, 10, 1000, 2900);
    fault(0, "pause", 1000, 4500);
    hold(1, 2, 3000, 5900, 7000);
    hold(0, 1, 4500, 4500, 5000);
    torture_judge(&setup, &history, &verdict);
    assert_int_equal(verdict.broken[TORTURE_ALONE], 1);
    assert_int_equal(verdict.worst.for_ns, 2000 * MS);
}

/* A look that began in time and ended too late says nothing about any one moment, and nothing about the order of grants. */
static void a_slow_look_is_no_proof(void **state)
{
    begin(5000);
    torture_event *slow = hold(0, 1, 100, 100, 2000);
    slow->seen_ns = 3000 * MS; /* stopped in the middle of its first look */
    end(0, 1, 3001, "expired");
    fault(0, "pause", 100, 3000);
    hold(1, 2, 2500, 4900, 6900);
    expect_kept();
}

/* Nor is it a second leader because the clock was read while another one led. */
static void a_slow_look_begins_at_its_end(void **state)
{
    begin(5000);
    hold(1, 1, 50, 2400, 4000);
    end(1, 1, 2400, "stopped");
    hold(0, 2, 100, 100, 2100)->seen_ns = 3000 * MS;
    hold(0, 2, 3010, 4900, 6900);
    fault(0, "pause", 100, 3000);
    expect_kept();
}

/* --- S3 ------------------------------------------------------------------------------------------------- */

static void tokens_must_grow(void **state)
{
    for (uint64_t second = 4; second <= 6; second++) {
        begin(3000);
        hold(0, 5, 10, 1000, 2900);
        end(0, 5, 1000, "stopped");
        hold(1, second, 1010, 2900, 4000);
        if (second > 5)
            expect_kept();
        else
            expect(TORTURE_TOKENS, 1);
    }
    /* To the same contender, too. */
    begin(3000);
    hold(0, 5, 10, 1000, 2900);
    end(0, 5, 1000, "stopped");
    hold(0, 5, 1010, 2900, 4000);
    expect(TORTURE_TOKENS, 1);
}

/* A token that was passed on long ago counts as well. */
static void tokens_are_remembered(void **state)
{
    begin(4000);
    hold(0, 5, 10, 1000, 2900);
    end(0, 5, 1000, "stopped");
    hold(1, 7, 1010, 2000, 3900);
    end(1, 7, 2000, "stopped");
    hold(2, 5, 2010, 3990, 4000);
    expect(TORTURE_TOKENS, 1);
    assert_non_null(strstr(verdict.worst.text, "given again"));
}

/* --- losses --------------------------------------------------------------------------------------------- */

/* The store took back what it had granted. */
static void a_forgotten_grant(void **state)
{
    begin(4000);
    hold(0, 1, 10, 1000, 2900);
    end(0, 1, 1000, "superseded");
    hold(1, 2, 1010, 3900, 5900);
    expect(TORTURE_KEPT, 1);
    assert_non_null(strstr(verdict.worst.text, "1.900 s early: superseded"));
}

typedef void (*trouble_fn)(void);

static void no_trouble(void)
{
}

static void short_trouble(void)
{
    fault(0, "cut", 1000, 1499);
}

static void trouble_of_another(void)
{
    fault(1, "cut", 1000, 1999);
}

static void short_trouble_and_failures(void)
{
    short_trouble();
    add(TORTURE_FAILED, 0, 1400)->to_ns = 1600 * MS;
}

static void long_trouble(void)
{
    fault(0, "cut", 1000, 1500);
}

static void trouble_of_all(void)
{
    fault(TORTURE_EVERYBODY, "restart", 1000, 1500);
}

static void failures(void)
{
    add(TORTURE_FAILED, 0, 1400)->to_ns = 1600 * MS;
}

static void slow_host(void)
{
    add(TORTURE_LATE, 0, 1000)->to_ns = 1500 * MS;
}

/* An end against the holder's will wants a cause that lasted for long enough. */
static void losses_want_a_cause(void **state)
{
    static const struct {
        trouble_fn trouble;
        bool is_cause;
    } cases[] = {
        {no_trouble, false},
        {short_trouble, false},
        {trouble_of_another, false},
        {short_trouble_and_failures, false},
        {long_trouble, true},
        {trouble_of_all, true},
        {failures, true},
        {slow_host, true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        begin(5000);
        hold(0, 1, 10, 2900, 2900);
        cases[i].trouble();
        end(0, 1, 2901, "expired");
        hold(1, 2, 3010, 4900, 6900);
        if (cases[i].is_cause)
            expect_kept();
        else
            expect(TORTURE_CAUSE, 1);
        assert_int_equal(verdict.losses, 1);
    }
}

/* --- L1, L2 --------------------------------------------------------------------------------------------- */

/* After a kill the next one has the lease and some time; nobody at all is found too. */
static void next_leader_in_time(void **state)
{
    static const int64_t next_ms[] = {4000, 4001, 0};
    for (size_t i = 0; i < COUNT_OF(next_ms); i++) {
        begin(6000);
        hold(0, 1, 10, 1000, 2900);
        kill_at(0, 1000);
        if (next_ms[i] > 0)
            hold(1, 2, next_ms[i], 5900, 7000);
        if (next_ms[i] == 4000)
            expect_kept();
        else
            expect(TORTURE_IN_TIME, 1);
    }
    begin(3001);
    expect(TORTURE_IN_TIME, 1);
}

/* A hand-over is quick where nothing was wrong before; otherwise it has as long as a take-over. */
static void hand_over_in_time(void **state)
{
    for (int disturbed = 0; disturbed < 2; disturbed++) {
        begin(9000);
        hold(0, 1, 10, 5000, 6900);
        end(0, 1, 5000, "stopped");
        hold(1, 2, 6001, 8900, 9900);
        if (disturbed) {
            fault(2, "stall", 3000, 4000);
            expect_kept();
        } else {
            expect(TORTURE_IN_TIME, 1);
        }
    }
}

/* A leader that only does not hear the answers renews its lease in the store until it has ended here. */
static void a_deaf_leader_is_followed_later(void **state)
{
    for (int late = 0; late < 2; late++) {
        begin(9000);
        hold(0, 1, 10, 2900, 2900);
        fault(0, "deaf", 1000, 9500);
        end(0, 1, 2900, "expired");
        hold(1, 2, 6000 + late, 8900, 9900);
        if (late)
            expect(TORTURE_IN_TIME, 1);
        else
            expect_kept();
        assert_int_equal(verdict.times[TORTURE_END_NETWORK].longest_ns, (5000 + late) * MS);
    }
}

/* What happens to others meanwhile begins the time anew, and who cannot lead is not expected to. */
static void time_is_counted_from_the_last_trouble(void **state)
{
    begin(9000);
    hold(0, 1, 10, 1000, 2900);
    kill_at(0, 1000);
    kill_at(1, 3000);
    hold(2, 2, 5900, 8900, 9900);
    expect_kept();

    begin(9000);
    hold(0, 1, 10, 1000, 2900);
    kill_at(0, 1000);
    fault(1, "cut", 500, 8000);
    fault(2, "pause", 500, 8000);
    hold(2, 2, 8100, 8900, 9900);
    expect_kept();

    begin(9000);
    hold(0, 1, 10, 1000, 2900);
    kill_at(0, 1000);
    fault(1, "cut", 500, 9500);
    fault(2, "pause", 500, 9500);
    expect_kept();
}

/* What happens after the end of the run is not waited for. */
static void the_end_is_no_fault(void **state)
{
    begin(2000);
    hold(0, 1, 10, 2100, 3900);
    end(0, 1, 2100, "stopped");
    add(TORTURE_STOPPED, 0, 9000);
    expect_kept();
}

static void who_ends_by_itself_is_named(void **state)
{
    begin(3000);
    hold(0, 1, 10, 2900, 4000);
    snprintf(add(TORTURE_ENDED, 1, 1000)->what, sizeof history.events->what, "signal 11");
    expect(TORTURE_ALIVE, 1);
    assert_string_equal(verdict.worst.text, "contender 1 ended by itself: signal 11");
}

/* Of several the gravest is the worst, and of those the longest. */
static void the_worst_moment(void **state)
{
    begin(6000);
    hold(0, 5, 10, 1000, 2900);
    end(0, 5, 1000, "stopped");
    hold(1, 4, 1010, 2000, 3900);
    hold(2, 6, 1990, 3000, 4900);
    end(1, 4, 2000, "stopped");
    hold(0, 7, 2500, 5900, 6900);
    end(2, 6, 3000, "stopped");
    torture_judge(&setup, &history, &verdict);
    assert_int_equal(verdict.broken[TORTURE_ALONE], 2);
    assert_int_equal(verdict.broken[TORTURE_TOKENS], 1);
    assert_int_equal(verdict.worst.check, TORTURE_ALONE);
    assert_int_equal(verdict.worst.at_ns, 2500 * MS);
}

/* --- histories ------------------------------------------------------------------------------------------ */

/* What is written is read as it was, in order of time. */
static void lines_are_read_as_written(void **state)
{
    char line[TORTURE_LINE_MAX];
    begin(4000);
    hold(0, UINT64_MAX, 10, 1000, 2900)->life = 7;
    end(0, UINT64_MAX, 1000, "hold limit reached");
    fault(TORTURE_EVERYBODY, "restart", 5, 6);
    kill_at(2, 100);
    torture_history_sort(&history);
    for (size_t i = 0; i < history.count; i++) {
        torture_event read;
        assert_true(i == 0 || history.events[i].at_ns >= history.events[i - 1].at_ns);
        const size_t length = torture_event_write(&history.events[i], line);
        assert_int_equal(line[length - 1], '\n');
        line[length - 1] = '\0';
        assert_true(torture_event_read(line, &read, NULL));
        assert_memory_equal(&read, &history.events[i], sizeof read);
    }
    torture_setup read;
    line[torture_setup_write(&setup, line) - 1] = '\0';
    assert_true(torture_setup_read(line, &read, NULL));
    assert_memory_equal(&read, &setup, sizeof read);
}

/* Anybody may have written the file. What is wrong with a line is named. */
static void bad_lines_are_refused(void **state)
{
    static const struct {
        const char *line, *flaw;
    } bad[] = {
        {"", "no JSON object"},
        {"[]", "no JSON object"},
        {"{\"at\":1}", "\"kind\" is missing"},
        {"{\"at\":-1,\"kind\":\"end\"}", "\"at\" is -1"},
        {"{\"at\":99999999999999999999,\"kind\":\"end\"}", "\"at\" is 99999999999999999999"},
        {"{\"at\":1,\"kind\":\"nosuch\"}", "\"kind\" is nosuch"},
        {"{\"at\":1,\"kind\":\"contends\",\"contender\":64}", "\"contender\" is 64"},
        {"{\"at\":1,\"kind\":\"contends\",\"contender\":18446744073709551616}",
         "\"contender\" is 18446744073709551616"},
        {"{\"at\":1,\"kind\":\"contends\",\"contender\":0,\"life\":4294967296}", "\"life\" is 4294967296"},
        {"{\"at\":1,\"kind\":\"end\"} x", "no JSON object"},
        {"{\"at\":1 \"kind\":\"end\"}", "no JSON object"},
        {"{\"at\":5,\"kind\":\"holds\",\"contender\":0,\"token\":\"1\",\"seen\":5,\"to\":5,\"until\":6}",
         "\"mutex\" is missing"},
        {"{\"at\":5,\"kind\":\"holds\",\"contender\":0,\"mutex\":0,\"seen\":5,\"to\":5,\"until\":6}",
         "\"token\" is missing"},
        {"{\"at\":5,\"kind\":\"holds\",\"contender\":0,\"mutex\":0,\"token\":\"1\",\"seen\":5,\"to\":5}",
         "\"until\" is missing"},
        {"{\"at\":5,\"kind\":\"holds\",\"contender\":0,\"mutex\":0,\"token\":\"18446744073709551616\",\"seen\":5,"
         "\"to\":5,"
         "\"until\":6}",
         "\"token\" is 18446744073709551616"},
        {"{\"at\":5,\"kind\":\"holds\",\"contender\":0,\"mutex\":0,\"token\":\"1\",\"seen\":4,\"to\":5,\"until\":6}",
         "\"seen\" is before \"at\""},
        {"{\"at\":5,\"kind\":\"holds\",\"contender\":0,\"mutex\":0,\"token\":\"1\",\"seen\":5,\"to\":7,\"until\":6}",
         "\"until\" is before \"to\""},
        {"{\"at\":5,\"kind\":\"holds\",\"contender\":0,\"mutex\":16,\"token\":\"1\",\"seen\":5,\"to\":5,\"until\":6}",
         "\"mutex\" is 16"},
        {"{\"at\":5,\"kind\":\"released\",\"contender\":0,\"mutex\":0,\"token\":\"1\"}", "\"what\" is missing"},
        {"{\"at\":5,\"kind\":\"late\",\"contender\":0,\"to\":4}", "\"to\" is before \"at\""},
        {"{\"at\":5,\"kind\":\"killed\",\"contender\":0}", "\"to\" is missing"},
        {"{\"at\":5,\"kind\":\"fault\"}", "\"what\" is missing"},
        {"{\"at\":5,\"kind\":\"fault\",\"what\":\"a\\u0007\"}", "the value of \"what\""},
        {"{\"at\":5,\"kind\":\"fault\",\"what\":\"a word that is much longer than any word of a fault\"}",
         "the value of \"what\""},
    };
    torture_event event;
    torture_setup read;
    char flaw[TORTURE_FLAW_MAX];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (torture_event_read(bad[i].line, &event, flaw))
            fail_msg("accepted: %s", bad[i].line);
        if (strstr(flaw, bad[i].flaw) == NULL)
            fail_msg("of %s it is said: %s", bad[i].line, flaw);
        assert_false(torture_setup_read(bad[i].line, &read, NULL));
    }
    assert_true(
        torture_event_read(" { \"at\" : 5 , \"kind\":\"fault\", \"new\":\"x\",\"what\":\"cut\" } ", &event, NULL));
    assert_int_equal(event.contender, TORTURE_EVERYBODY);
}

/* The same for the first line. */
static void bad_first_lines_are_refused(void **state)
{
    static const struct {
        const char *line, *flaw;
    } bad[] = {
        {"{\"kind\":\"end\",\"contenders\":1,\"mutexes\":1,\"lease\":1,\"takeover\":1,\"handover\":1}", "not \"run\""},
        {"{\"kind\":\"run\",\"contenders\":65,\"mutexes\":1,\"lease\":1,\"takeover\":1,\"handover\":1}",
         "\"contenders\" is 65"},
        {"{\"kind\":\"run\",\"contenders\":0,\"mutexes\":1,\"lease\":1,\"takeover\":1,\"handover\":1}", "is 0"},
        {"{\"kind\":\"run\",\"contenders\":1,\"mutexes\":17,\"lease\":1,\"takeover\":1,\"handover\":1}",
         "\"mutexes\" is 17"},
        {"{\"kind\":\"run\",\"contenders\":1,\"mutexes\":1,\"takeover\":1,\"handover\":1}", "\"lease\" is missing"},
        {"{\"kind\":\"run\",\"contenders\":1,\"mutexes\":1,\"lease\":9223372036854775807,\"takeover\":1,\"handover\":"
         "1}",
         "\"lease\" is 9223372036854775807"},
        {"{\"kind\":\"run\",\"contenders\":1,\"mutexes\":1,\"lease\":1,\"takeover\":1}", "\"handover\" is missing"},
    };
    torture_setup read;
    char flaw[TORTURE_FLAW_MAX];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(torture_setup_read(bad[i].line, &read, flaw));
        if (strstr(flaw, bad[i].flaw) == NULL)
            fail_msg("of %s it is said: %s", bad[i].line, flaw);
    }
    assert_true(torture_setup_read(
        "{\"kind\":\"run\",\"contenders\":1,\"mutexes\":1,\"lease\":1,\"takeover\":1,\"handover\":1}", &read, NULL));
}

/* --- plans ---------------------------------------------------------------------------------------------- */

/* The same seed is the same plan, another is another; only what is allowed comes, and each of it does. */
static void plans_come_from_the_seed(void **state)
{
    enum { STEPS = 300 };
    torture_plan one, same, other;
    unsigned seen = 0;
    int differ = 0, longer = 0, shorter = 0;
    const unsigned allowed = TORTURE_ALL_FAULTS & ~TORTURE_FAULT_BIT(TORTURE_FAULT_CUT);
    torture_plan_init(&one, 42, allowed, 2, 2000, 500);
    torture_plan_init(&same, 42, allowed, 2, 2000, 500);
    torture_plan_init(&other, 43, allowed, 2, 2000, 500);
    for (int i = 0; i < STEPS; i++) {
        const torture_step a = torture_plan_next(&one);
        const torture_step b = torture_plan_next(&same);
        const torture_step c = torture_plan_next(&other);
        assert_int_equal(a.fault, b.fault);
        assert_int_equal(a.for_ms, b.for_ms);
        assert_int_equal(a.rest_ms, b.rest_ms);
        assert_int_equal(a.pick, b.pick);
        assert_in_range(a.mutex, 0, 1);
        differ += a.fault != c.fault || a.for_ms != c.for_ms;
        longer += a.for_ms >= 2000;
        shorter += a.for_ms < 500;
        seen |= TORTURE_FAULT_BIT(a.fault);
    }
    assert_int_equal(seen, allowed);
    assert_true(differ > STEPS / 2);
    assert_int_equal(longer + shorter, STEPS);
    assert_in_range(shorter, STEPS / 5, STEPS / 2);
}

static void faults_are_named(void **state)
{
    unsigned faults = 0;
    char bad[16];
    assert_true(torture_faults_parse("kill,pause", &faults, bad, sizeof bad));
    assert_int_equal(faults, TORTURE_FAULT_BIT(TORTURE_FAULT_KILL) | TORTURE_FAULT_BIT(TORTURE_FAULT_PAUSE));
    assert_true(torture_faults_parse("cut,delay", &faults, bad, sizeof bad));
    assert_int_equal(faults, TORTURE_NETWORK_FAULTS);
    static const char *const wrong[] = {"", "kill,", ",kill", "kill,,pause", "kil", "killl", "kill pause"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_false(torture_faults_parse(wrong[i], &faults, bad, sizeof bad));
    assert_false(torture_faults_parse("kill,something-that-is-none,pause", &faults, bad, sizeof bad));
    assert_string_equal(bad, "something-that-");
}

static int clean_up(void **state)
{
    torture_verdict_free(&verdict);
    torture_history_free(&history);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_run),
        cmocka_unit_test(two_act),
        cmocka_unit_test(an_old_claim_is_not_forgotten),
        cmocka_unit_test(lease_of_the_dead),
        cmocka_unit_test(paused_leader_acts),
        cmocka_unit_test(a_slow_look_is_no_proof),
        cmocka_unit_test(a_slow_look_begins_at_its_end),
        cmocka_unit_test(tokens_must_grow),
        cmocka_unit_test(tokens_are_remembered),
        cmocka_unit_test(a_forgotten_grant),
        cmocka_unit_test(losses_want_a_cause),
        cmocka_unit_test(next_leader_in_time),
        cmocka_unit_test(hand_over_in_time),
        cmocka_unit_test(a_deaf_leader_is_followed_later),
        cmocka_unit_test(time_is_counted_from_the_last_trouble),
        cmocka_unit_test(the_end_is_no_fault),
        cmocka_unit_test(who_ends_by_itself_is_named),
        cmocka_unit_test(the_worst_moment),
        cmocka_unit_test(lines_are_read_as_written),
        cmocka_unit_test(bad_lines_are_refused),
        cmocka_unit_test(bad_first_lines_are_refused),
        cmocka_unit_test(plans_come_from_the_seed),
        cmocka_unit_test(faults_are_named),
    };
    return cmocka_run_group_tests_name("torture_judge", tests, NULL, clean_up);
}
