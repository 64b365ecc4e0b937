/* What the core relies on is checked in every build: a machine in a state that it cannot be in ends the process rather than
 * letting it lead. */
#include "util/assert.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/observation.h"
#include "lib/cm.h"

/* What a process says that runs this, and dies of it. */
static void dies(void (*run)(void), const char *says)
{
    int ends[2];
    char text[512] = "";
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(ends[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    if (!strstr(text, says))
        fail_msg("\"%s\" does not say \"%s\"", text, says);
}

static void wrong(void)
{
    SIMBA__ASSERT(1 + 1 == 3);
}

static void an_assertion_says_what_and_where(void **state)
{
    SIMBA__ASSERT(1 + 1 == 2);
    dies(wrong, "test_assert.c:");
    dies(wrong, "assertion failed: 1 + 1 == 3\n");
}

static simba__timing timing;
static simba__contention machine;

static void step(simba__event_kind kind, int64_t now_ms)
{
    simba__actions actions;
    const simba__event event = {.kind = kind, .now = {now_ms * 1000000}, .session_until = SIMBA__NEVER, .seed = 1};
    simba__contention_step(&machine, &event, &actions);
}

/* A contender that leads. */
static void lead(void)
{
    assert_int_equal(simba__timing_resolve(&simba__timing_defaults, 10000, 4000, false, NULL, &timing), 0);
    simba__contention_init(&machine, &timing, false);
    step(SIMBA__EV_START, 1000);
    simba__actions actions;
    const simba_reply reply = {.outcome = SIMBA_MINE, .owner = {.id = "me", .token = 7}};
    const simba__event event = {.kind = SIMBA__EV_REPLY,
                                .now = {INT64_C(1001000000)},
                                .session_until = SIMBA__NEVER,
                                .generation = machine.generation,
                                .sent_at = machine.sent_at,
                                .reply = &reply};
    simba__contention_step(&machine, &event, &actions);
    assert_true(actions.acquired);
}

static void is_started_twice(void)
{
    lead();
    step(SIMBA__EV_START, 1002);
}

static void leads_without_a_token(void)
{
    lead();
    machine.token = 0;
    step(SIMBA__EV_TIMER, 1002);
}

static void leads_with_nothing_to_give_back(void)
{
    lead();
    machine.maybe_granted = false;
    step(SIMBA__EV_TIMER, 1002);
}

static void seeks_what_it_leads(void)
{
    lead();
    machine.phase = SIMBA__SEEK;
    step(SIMBA__EV_TIMER, 1002);
}

static void is_done_while_it_asks(void)
{
    lead();
    machine.phase = SIMBA__IDLE;
    step(SIMBA__EV_STOP, 1002);
}

static void a_contender_in_an_impossible_state_ends(void **state)
{
    lead();
    step(SIMBA__EV_TIMER, 1002);
    dies(is_started_twice, "contention.c:");
    dies(leads_without_a_token, "contention.c:");
    dies(leads_with_nothing_to_give_back, "contention.c:");
    dies(seeks_what_it_leads, "contention.c:");
    dies(is_done_while_it_asks, "contention.c:");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_assertion_says_what_and_where),
        cmocka_unit_test(a_contender_in_an_impossible_state_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
