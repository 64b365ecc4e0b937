/* `simba run` when things go wrong: leadership ends, the store freezes, the wrapper is killed or frozen. In every case
 * the command and all that it started are dead before anybody else starts theirs. */
#include <errno.h>
#include <inttypes.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/referee.h"
#include "support.h"

/* A run whose command does not listen to SIGTERM, and neither does its child, which has left its group. */
static process start_family(void)
{
    last = START("run", "--grace", "200ms", "m", "--", helper, "family", in_dir("parent"), in_dir("child"));
    await_file(in_dir("parent"));
    await_file(in_dir("child"));
    return last;
}

static void take_away(const char *mutex)
{
    simba_client *client;
    assert_int_equal(simba_client_open(NULL, NULL, NULL, &client), 0);
    assert_int_equal(simba_client_force_release(client, mutex, NULL), 0);
    simba_client_close(client);
}

/* What two clocks may drift apart during a lease is left over when the holder has stopped. */
static void assert_dead_before_lease_end(int64_t lease_ms)
{
    const int64_t end_ns = lease_end_ns("m");
    assert_true(end_ns > 0);
    await_time(end_ns);
    assert_true(number_in(in_dir("parent")) < end_ns - lease_ms * 10000);
    assert_true(number_in(in_dir("child")) < end_ns - lease_ms * 10000);
}

/* The next to run starts after the last sign of life of the family. */
static void assert_dead_before_next(void)
{
    process next = START("run", "m", "--", helper, "stamp", in_dir("next"));
    assert_int_equal(finish(&next), 0);
    const int64_t started_ns = number_in(in_dir("next"));
    assert_true(started_ns > 0);
    assert_true(number_in(in_dir("parent")) < started_ns);
    assert_true(number_in(in_dir("child")) < started_ns);
}

/* The time is over: SIGTERM is not enough for this one, and the code says so. */
static void the_hold_limit_ends_the_family(void **state)
{
    /* The family ignores SIGTERM from the beginning: nobody knows how far it has come when its time is over. */
    signal(SIGTERM, SIG_IGN);
    process p = START("run", "--max-hold", "300ms", "--grace", "100ms", "m", "--", helper, "family", in_dir("parent"),
                      in_dir("child"));
    signal(SIGTERM, SIG_DFL);
    assert_int_equal(finish(&p), 79);
    assert_non_null(strstr(err_of(&p), "300 ms"));
    assert_non_null(strstr(err_of(&p), "SIGKILL"));
    assert_dead_before_next();
}

/* A command that ends in its grace has the time to tidy up. */
static void grace_is_for_tidying_up(void **state)
{
    process p = START("run", "--grace", "400ms", "m", "--", "sh", "-c",
                      "trap 'echo tidied; exit 3' TERM; echo > \"$0\"; sleep 1000 & wait", in_dir("ready"));
    await_file(in_dir("ready"));
    take_away("m");
    assert_int_equal(finish(&p), 79);
    assert_string_equal(out_of(&p), "tidied\n");
    assert_null(strstr(err_of(&p), "SIGKILL"));
}

/* An administrator takes it away: the command is stopped, and the line says why. */
static void a_revoked_lease_stops_the_command(void **state)
{
    process p = start_family();
    take_away("m");
    assert_int_equal(finish(&p), 79);
    assert_non_null(strstr(err_of(&p), "revoked"));
}

/* The command ends before the wrapper hears that the mutex was taken away: the line names the reason all the same. */
static void a_revocation_that_is_heard_late_is_named(void **state)
{
    process p = START("run", "m", "--", "sh", "-c", "echo > \"$0\"; cat", in_dir("ready"));
    await_file(in_dir("ready"));
    const pid_t command = child_of(child_of(p.pid));
    kill(p.pid, SIGSTOP);
    take_away("m");
    close(p.in);
    p.in = -1;
    await_death(command);
    kill(p.pid, SIGCONT);
    const int code = finish(&p); /* which of the two it sees first is up to the system */
    assert_true(code == 0 || code == 79);
    assert_non_null(strstr(err_of(&p), "revoked"));
    assert_null(strstr(err_of(&p), "superseded"));
}

/* The store freezes in the middle: our own clock decides, and decides in time. */
static void a_frozen_store_stops_the_command(void **state)
{
    process p = start_family();
    const pid_t freezer = start_helper("freeze", in_dir("store.db"), in_dir("frozen"));
    await_file(in_dir("frozen"));
    assert_int_equal(finish(&p), 79);
    assert_non_null(strstr(err_of(&p), "expired"));
    assert_non_null(strstr(err_of(&p), "the lease of m cannot be renewed; the command will be stopped in 0."));
    assert_dead_before_lease_end(2000);
    end_process(freezer);
    assert_dead_before_next();
}

/* The store comes back in time: that is said as well, and the command goes on. */
static void an_outage_that_ends_is_said(void **state)
{
    set_lease("1s", "4s");
    process p = START("run", "m", "--", "sh", "-c", "echo > \"$0\"; cat", in_dir("on"));
    await_file(in_dir("on"));
    const pid_t freezer = start_helper("freeze", in_dir("store.db"), in_dir("frozen"));
    await_text_in(p.err_path, "cannot be renewed");
    end_process(freezer);
    await_text_in(p.err_path, "the lease of m was renewed");
    assert_int_equal(finish(&p), 0);
}

/* kill -9 of the wrapper. */
static void a_killed_wrapper_takes_all_along(void **state)
{
    process p = start_family();
    const pid_t supervisor = child_of(p.pid);
    assert_true(supervisor > 0);
    kill(p.pid, SIGKILL);
    assert_int_equal(finish(&p), 1000 + SIGKILL);
    await_death(supervisor); /* it ends when nothing is left */
    const int64_t dead_ns = now_ns();
    assert_true(number_in(in_dir("parent")) < dead_ns);
    assert_dead_before_next();
}

/* The wrapper is frozen, and the supervisor alone has to see that the lease is about to end in the store. */
static void a_frozen_wrapper_is_in_time(void **state)
{
    set_lease("1s", "4s");
    process p = start_family();
    kill(p.pid, SIGSTOP);
    assert_dead_before_lease_end(5000);
    kill(p.pid, SIGCONT);
    assert_int_equal(finish(&p), 79);
}

/* The wrapper is frozen for much longer than its lease: the command is dead when the next one starts, and when the
 * wrapper wakes up it says what happened. */
static void a_frozen_wrapper_is_overtaken(void **state)
{
    process p = start_family();
    kill(p.pid, SIGSTOP);
    assert_dead_before_next();
    assert_int_equal(RUN("run", "m", "--", "sleep", "1.5"), 0);
    kill(p.pid, SIGCONT);
    assert_int_equal(finish(&p), 79);
    assert_non_null(strstr(err_of(&p), "was not running"));
}

/* Somebody kills the supervisor: nothing runs unsupervised. */
static void a_killed_supervisor_takes_all_along(void **state)
{
    process p = start_family();
    kill(child_of(p.pid), SIGKILL);
    assert_int_equal(finish(&p), 79);
    assert_non_null(strstr(err_of(&p), "supervisor"));
    assert_dead_before_next();
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(the_hold_limit_ends_the_family),      TEST(grace_is_for_tidying_up),
        TEST(a_revoked_lease_stops_the_command),   TEST(a_frozen_store_stops_the_command),
        TEST(a_killed_wrapper_takes_all_along),    TEST(a_frozen_wrapper_is_overtaken),
        TEST(a_killed_supervisor_takes_all_along), TEST(a_frozen_wrapper_is_in_time),
        TEST(an_outage_that_ends_is_said),         TEST(a_revocation_that_is_heard_late_is_named),
    };
    return cmocka_run_group_tests_name("run_lost", tests, NULL, NULL);
}
