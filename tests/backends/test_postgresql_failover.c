/* The whole conformance kit on a primary with a synchronous standby, which takes over in the middle: after half of the cases the
 * primary is killed and the standby promoted. The clients know both hosts. All through the kit somebody leads and somebody else
 * waits on the same pair: the leader keeps its leadership, and what it holds outlives the primary. The fail-over comes between two
 * cases: inside of a case, calls to the store may rightly answer that there is none. */
#include <signal.h>
#include <simba/tck.h>
#include <stdlib.h>
#include <string.h>

#include "faults/arena.h"
#include "lib/server.h"

static server pair;
static char url[200];

/* --- the fail-over --------------------------------------------------------------------------------------------- */

static void fail_over(void)
{
    server_signal(&pair, SIGQUIT);
    if (!server_tell_postgresql(server_nth(&pair, 1), "select pg_promote()"))
        REF_COMPLAIN("the standby is not promoted");
    printf("# fail-over\n");
}

/* --- the kit's output, in which each case has a line ----------------------------------------------------------- */

typedef struct progress {
    unsigned planned, done;
} progress;

/* The plan has one more case, which is ours. */
static void take_line(progress *p, const char *line)
{
    if (strncmp(line, "1..", 3) == 0) {
        p->planned = (unsigned)strtoul(line + 3, NULL, 10);
        printf("1..%u\n", p->planned + 1);
        return;
    }
    printf("%s\n", line);
    const bool is_case = strncmp(line, "ok ", 3) == 0 || strncmp(line, "not ok ", 7) == 0;
    if (is_case && ++p->done == p->planned / 2)
        fail_over();
}

/* The kit writes whole lines, and goes on when this has returned. */
static ssize_t take_lines(void *cookie, const char *bytes, size_t size)
{
    char text[4096], *rest = text;
    snprintf(text, sizeof text, "%.*s", (int)size, bytes);
    for (char *line; (line = strsep(&rest, "\n")) && rest;)
        take_line(cookie, line);
    fflush(stdout);
    return (ssize_t)size;
}

static FILE *open_output(progress *p)
{
    FILE *out = fopencookie(p, "w", (cookie_io_functions_t){.write = take_lines});
    if (!out || setvbuf(out, NULL, _IOLBF, 4096) != 0)
        abort();
    return out;
}

/* --- the play -------------------------------------------------------------------------------------------------- */

/* The number of cases that failed, or -1. */
static int run_kit(progress *p)
{
    simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    simba_tck_result result;
    simba_error err = {0};
    options.out = open_output(p);
    options.ttl_ms = ref_scaled_ms(options.ttl_ms);
    options.transition_ms = ref_scaled_ms(options.transition_ms);
    options.timeout_ms = ref_scaled_ms(options.timeout_ms);
    const int rc = simba_tck_run(url, &options, &err, &result);
    fclose(options.out);
    if (rc < 0)
        printf("Bail out! %s\n", err.text);
    return rc < 0 ? -1 : (int)result.failed;
}

/* The first one has led all the time, and the others have waited; now it goes round on the new primary. */
static bool is_kept_and_handed_over(unsigned grants)
{
    REF_EXPECT(grants_now() == grants);
    for (int i = 0; i < N; i++)
        assert_hands_over();
    return ref_complaints() == 0;
}

static int play(void)
{
    progress p = {0};
    ref_scene("fail-over");
    open_arena(url, arena_timing(ref_scaled_ms(1000), ref_scaled_ms(20000)));
    ref_watchdog(0); /* the kit has its own */
    const unsigned grants = grants_now();
    const int failed = run_kit(&p);
    const bool is_kept = is_kept_and_handed_over(grants);
    close_arena();
    printf("%s %u - who led before the fail-over leads after it\n", is_kept ? "ok" : "not ok", p.planned + 1);
    return failed == 0 && is_kept ? 0 : 1;
}

int main(void)
{
    if (!server_has("postgres")) {
        puts("1..0 # SKIP postgres is not installed");
        return 0;
    }
    signal(SIGPIPE, SIG_IGN);
    server_init(&pair);
    int status = 1;
    if (server_start_postgresql_pair(&pair)) {
        snprintf(url, sizeof url, "postgresql://postgres@%s/simba?sslmode=disable&create=yes", pair.hosts);
        status = play();
    } else {
        puts("Bail out! the pair does not start");
    }
    server_fini(&pair);
    return status;
}
