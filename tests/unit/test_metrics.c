/* simba_stats_write: the text is what a strict parser of OpenMetrics takes, and it says what the statistics say. */
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cm.h"

enum { ROOM = 65536 };

static simba_stats sample(void)
{
    simba_stats stats = SIMBA_STATS_INIT;
    stats.contenders = 3;
    stats.waiting = 2;
    stats.held = 1;
    stats.grants = UINT64_C(18446744073709551615);
    stats.losses[SIMBA_REASON_SESSION_LOST] = 4;
    stats.errors = 6;
    stats.errors_by_code[0] = 1;
    stats.errors_by_code[-SIMBA_EUNAVAILABLE] = 5;
    stats.max_lag_ns = 1500000;
    stats.wait.buckets[0] = 1;
    stats.wait.buckets[10] = 2;
    stats.wait.buckets[SIMBA_HISTOGRAM_BUCKETS - 1] = 1;
    stats.wait.sum_ns = UINT64_C(100000000000250);
    return stats;
}

/* The text of one client, or of two with these names. */
static char *text_of(const char *first, const char *second)
{
    static char text[ROOM];
    const simba_stats stats = sample();
    const simba_stats *const all[] = {&stats, &stats};
    const char *const names[] = {first, second};
    const int length = simba_stats_write(all, first ? names : NULL, second ? 2 : 1, 0, text, sizeof text);
    assert_in_range(length, 1, ROOM - 1);
    assert_int_equal(strlen(text), length);
    return text;
}

static void assert_line(const char *text, const char *line)
{
    char wanted[256];
    snprintf(wanted, sizeof wanted, "\n%s\n", line);
    if (!strstr(text, wanted))
        fail_msg("there is no line %s", line);
}

static void says_what_was_counted(void **state)
{
    const char *text = text_of(NULL, NULL);
    assert_line(text, "# TYPE simba_waiting gauge");
    assert_line(text, "simba_waiting 2");
    assert_line(text, "# TYPE simba_grants counter");
    assert_line(text, "simba_grants_total 18446744073709551615");
    assert_line(text, "simba_losses_total{reason=\"session lost\"} 4");
    assert_line(text, "simba_losses_total{reason=\"revoked\"} 0");
    assert_null(strstr(text, "reason=\"none\""));
    assert_line(text, "simba_request_errors_total{error=\"SIMBA_EUNAVAILABLE\"} 5");
    assert_line(text, "simba_request_errors_total{error=\"SIMBA_ESYSTEM\"} 0");
    assert_line(text, "simba_request_errors_total{error=\"unknown\"} 1");
    assert_line(text, "# UNIT simba_max_timer_lag_seconds seconds");
    assert_line(text, "simba_max_timer_lag_seconds 0.001500000");
    assert_line(text, "# TYPE simba_wait_seconds histogram");
    assert_line(text, "simba_wait_seconds_bucket{le=\"1e-05\"} 1");
    assert_line(text, "simba_wait_seconds_bucket{le=\"0.3\"} 1");
    assert_line(text, "simba_wait_seconds_bucket{le=\"1.0\"} 3");
    assert_line(text, "simba_wait_seconds_bucket{le=\"86400.0\"} 3");
    assert_line(text, "simba_wait_seconds_bucket{le=\"+Inf\"} 4");
    assert_line(text, "simba_wait_seconds_count 4");
    assert_line(text, "simba_wait_seconds_sum 100000.000000250");
    assert_string_equal(text + strlen(text) - 7, "\n# EOF\n");
}

/* A metric is a block: its head once, then the samples of all clients. */
static void several_clients_share_the_metrics(void **state)
{
    const char *text = text_of("orders", "quote\" back\\slash\nline \xff \x1b[m ü");
    assert_line(text, "simba_held{client=\"orders\"} 1\n"
                      "simba_held{client=\"quote\\\" back\\\\slash\\nline \\\\xFF \\\\x1B[m ü\"} 1");
    assert_line(text, "simba_losses_total{client=\"orders\",reason=\"session lost\"} 4");
    assert_line(text, "simba_wait_seconds_bucket{client=\"orders\",le=\"1.0\"} 3");
    const char *head = strstr(text, "# TYPE simba_held ");
    assert_non_null(head);
    assert_null(strstr(head + 1, "# TYPE simba_held "));
}

/* As snprintf: any size will do, nothing is written past it, and the length is always that of the whole. */
static void fits_into_any_size(void **state)
{
    const simba_stats stats = sample();
    const simba_stats *const all[] = {&stats};
    const size_t length = strlen(text_of(NULL, NULL));
    assert_int_equal(simba_stats_write(all, NULL, 1, 0, NULL, 0), length);
    for (size_t size = 1; size <= length + 1; size += size < length - 40 ? 37 : 1) {
        char *text = malloc(size); /* of exactly this size, for the sanitizer */
        assert_non_null(text);
        assert_int_equal(simba_stats_write(all, NULL, 1, 0, text, size), length);
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, text_of(NULL, NULL), size - 1);
        free(text);
    }
    char text[ROOM];
    assert_int_equal(simba_stats_write(all, NULL, 1, SIMBA_STATS_MORE, text, sizeof text), length - 6);
    assert_null(strstr(text, "EOF"));
    const char *const mutex = "a\"b";
    assert_true(simba_stats_write(all, &mutex, 1, SIMBA_STATS_MUTEX, text, sizeof text) > (int)length);
    assert_line(text, "simba_waiting{mutex=\"a\\\"b\"} 2");
}

/* A program of an older header has fewer members: what it lacks is left out rather than told as zero. */
static void writes_what_an_older_program_has(void **state)
{
    const size_t size = offsetof(simba_stats, waiting);
    simba_stats *older = malloc(size);
    assert_non_null(older);
    simba_stats stats = sample();
    stats.size = size;
    memcpy(older, &stats, size);
    const simba_stats *const all[] = {older};
    char text[ROOM];
    assert_in_range(simba_stats_write(all, NULL, 1, 0, text, sizeof text), 1, sizeof text - 1);
    assert_line(text, "simba_max_timer_lag_seconds 0.001500000");
    assert_null(strstr(text, "simba_waiting 0"));
    assert_null(strstr(text, "simba_wait_seconds_count"));
    free(older);
}

static void refuses_what_makes_no_sense(void **state)
{
    const simba_stats stats = sample();
    simba_stats odd = stats;
    odd.size = 3;
    const simba_stats *const all[] = {&stats, &stats};
    const simba_stats *const bad[] = {&stats, &odd};
    const simba_stats *const missing[] = {&stats, NULL};
    const char *const names[] = {"a", "b"};
    const char *const same[] = {"a", "a"};
    const char *const unnamed[] = {"a", NULL};
    char text[16];
    assert_int_equal(simba_stats_write(NULL, NULL, 1, 0, text, sizeof text), SIMBA_EINVAL);
    assert_int_equal(simba_stats_write(all, names, 0, 0, text, sizeof text), SIMBA_EINVAL);
    assert_int_equal(simba_stats_write(all, NULL, 2, 0, text, sizeof text), SIMBA_EINVAL);
    assert_int_equal(simba_stats_write(all, same, 2, 0, text, sizeof text), SIMBA_EINVAL);
    assert_int_equal(simba_stats_write(all, unnamed, 2, 0, text, sizeof text), SIMBA_EINVAL);
    assert_int_equal(simba_stats_write(bad, names, 2, 0, text, sizeof text), SIMBA_EINVAL);
    assert_int_equal(simba_stats_write(missing, names, 2, 0, text, sizeof text), SIMBA_EINVAL);
    assert_int_equal(simba_stats_write(all, names, 2, 4, text, sizeof text), SIMBA_EINVAL);
    assert_int_equal(simba_stats_write(all, names, 2, 0, NULL, sizeof text), SIMBA_EINVAL);
    assert_true(simba_stats_write(all, names, 2, 0, text, sizeof text) > 0);
}

/* --- somebody else's parser ------------------------------------------------------------------------- */

/* The system's own Python, which is where a package of the system puts the parser. The exit status. */
static int run_parser(FILE *text, FILE *samples)
{
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(fileno(text), STDIN_FILENO);
        dup2(fileno(samples), STDOUT_FILENO);
        execl("/usr/bin/python3", "python3", SIMBA_TEST_SOURCES "/unit/openmetrics.py", (char *)NULL);
        _exit(77);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What the parser makes of a text; NULL: there is no parser here. */
static char *parsed(const char *text)
{
    static char samples[ROOM] = "\n";
    FILE *in = tmpfile();
    FILE *out = tmpfile();
    assert_true(in && out && fputs(text, in) >= 0);
    rewind(in);
    const int status = run_parser(in, out);
    rewind(out);
    samples[1 + fread(samples + 1, 1, sizeof samples - 2, out)] = '\0';
    fclose(in);
    fclose(out);
    assert_true(status == 0 || status == 77);
    return status == 0 ? samples : NULL;
}

static void a_strict_parser_takes_it(void **state)
{
    const char *samples = parsed(text_of("orders", "quote\" back\\slash\nline \xff ü"));
    if (!samples) {
        print_message("no prometheus_client here\n");
        skip();
    }
    assert_line(samples, "simba_held{client='orders'} 1.0");
    assert_line(samples, "simba_held{client='quote\" back\\\\slash\\nline \\\\xFF ü'} 1.0");
    assert_line(samples, "simba_losses_total{client='orders',reason='session lost'} 4.0");
    assert_line(samples, "simba_wait_seconds_bucket{client='orders',le='+Inf'} 4.0");
    assert_line(samples, "simba_wait_seconds_sum{client='orders'} 100000.00000025");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_was_counted),       cmocka_unit_test(several_clients_share_the_metrics),
        cmocka_unit_test(fits_into_any_size),          cmocka_unit_test(writes_what_an_older_program_has),
        cmocka_unit_test(refuses_what_makes_no_sense), cmocka_unit_test(a_strict_parser_takes_it),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
