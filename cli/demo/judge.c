/* Judges `simba demo`: from the events alone, did simba keep its promises? Separate from the reporting, so that it
 * cannot influence the checks. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "demo/demo.h"

#define SLACK_MS 1000 /* for a busy machine */
#define HANDOVER_MAX_MS 1000
#define EXPECTED_REIGNS 3

int64_t demo_failover_limit_ms(const simba_timing *timing)
{
    return timing->ttl_ms + timing->transition_ms + timing->jitter_max_ms + SLACK_MS;
}

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

static int by_time(const void *left, const void *right)
{
    const demo_event *a = left;
    const demo_event *b = right;
    return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

static demo_reign *reign_of(demo_verdict *verdict, int node)
{
    for (size_t i = verdict->reign_count; i-- > 0;) {
        if (verdict->reigns[i].node == node && verdict->reigns[i].to_ns == 0)
            return &verdict->reigns[i];
    }
    return NULL;
}

static void find_reigns(const demo_cast *cast, demo_verdict *verdict)
{
    for (size_t i = 0; i < cast->event_count; i++) {
        const demo_event *event = &cast->events[i];
        demo_reign *reign = reign_of(verdict, event->node);
        if (event->kind == DEMO_ACQUIRED && verdict->reign_count < DEMO_REIGNS_MAX) {
            verdict->reigns[verdict->reign_count++] =
                (demo_reign){.node = event->node, .token = event->token, .from_ns = event->at_ns};
        } else if (event->kind == DEMO_LEASE && reign != NULL && event->token == reign->token) {
            reign->lease_until_ns = event->until_ns;
        } else if ((event->kind == DEMO_RELEASED || event->kind == DEMO_KILLED) && reign != NULL) {
            reign->killed = event->kind == DEMO_KILLED;
            reign->ended_ns = event->at_ns;
            reign->to_ns = reign->killed ? event->until_ns : event->at_ns;
        }
    }
}

static void __attribute__((format(printf, 4, 5)))
add_check(demo_verdict *verdict, bool passed, const char *what, const char *format, ...)
{
    demo_check *check = &verdict->checks[verdict->check_count++];
    va_list args;
    va_start(args, format);
    check->passed = passed;
    check->what = what;
    vsnprintf(check->detail, sizeof check->detail, format, args);
    va_end(args);
    verdict->passed = verdict->passed && passed;
}

/* The whole story has to be there before its parts mean anything. */
static bool check_story(const demo_cast *cast, demo_verdict *verdict)
{
    static const char *const what = "each of the three led once";
    const demo_reign *r = verdict->reigns;
    bool led[DEMO_NODES] = {false};
    if (verdict->reign_count != EXPECTED_REIGNS) {
        add_check(verdict, false, what, "%zu leaderships instead of %d", verdict->reign_count, EXPECTED_REIGNS);
        return false;
    }
    for (size_t i = 0; i < verdict->reign_count; i++) {
        const bool right_end = r[i].to_ns != 0 && r[i].killed == (i == 0) && !led[r[i].node];
        if (!right_end) {
            add_check(verdict, false, what, "leadership %zu, of %s, did not end as it should", i + 1,
                      cast->nodes[r[i].node].name);
            return false;
        }
        led[r[i].node] = true;
    }
    add_check(verdict, true, what, "%s, %s, %s", cast->nodes[r[0].node].name, cast->nodes[r[1].node].name,
              cast->nodes[r[2].node].name);
    return true;
}

static void check_exclusion(const demo_cast *cast, demo_verdict *verdict)
{
    static const char *const what = "never two leaders at once";
    const demo_reign *r = verdict->reigns;
    int64_t narrowest_ns = INT64_MAX;
    for (size_t i = 0; i + 1 < verdict->reign_count; i++) {
        const int64_t gap_ns = r[i + 1].from_ns - r[i].to_ns;
        narrowest_ns = gap_ns < narrowest_ns ? gap_ns : narrowest_ns;
        if (gap_ns < 0) {
            add_check(verdict, false, what, "%s and %s both led, for %.3f ms", cast->nodes[r[i].node].name,
                      cast->nodes[r[i + 1].node].name, (double)-gap_ns / 1e6);
            return;
        }
    }
    add_check(verdict, true, what, "narrowest gap %.1f ms", (double)narrowest_ns / 1e6);
}

static void check_tokens(demo_verdict *verdict)
{
    static const char *const what = "fencing tokens strictly increase";
    const demo_reign *r = verdict->reigns;
    for (size_t i = 0; i + 1 < verdict->reign_count; i++) {
        if (r[i + 1].token <= r[i].token) {
            add_check(verdict, false, what, "%" PRIu64 " came after %" PRIu64, r[i + 1].token, r[i].token);
            return;
        }
    }
    add_check(verdict, true, what, "%zu tokens", verdict->reign_count);
}

/* The dead leader could not say that it was dead: until its own clock ended its lease, it might have been at work. */
static void check_failover(demo_verdict *verdict, const simba_timing *timing)
{
    const demo_reign *dead = &verdict->reigns[0];
    const int64_t taken_ns = verdict->reigns[1].from_ns;
    const int64_t after_lease_ns = taken_ns - dead->lease_until_ns;
    const int64_t limit_ms = demo_failover_limit_ms(timing);

    verdict->failover_ns = taken_ns - dead->ended_ns;
    verdict->lease_left_ns = dead->lease_until_ns - dead->ended_ns;
    add_check(verdict, dead->lease_until_ns != 0 && after_lease_ns >= 0, "no take-over inside the dead leader's lease",
              "%.3f s %s it ended", seconds(llabs(after_lease_ns)), after_lease_ns >= 0 ? "after" : "before");
    add_check(verdict, verdict->failover_ns <= limit_ms * 1000000, "fail-over in time", "%.3f s, at most %.3f s",
              seconds(verdict->failover_ns), (double)limit_ms / 1e3);
}

static void check_handover(demo_verdict *verdict)
{
    verdict->handover_ns = verdict->reigns[2].from_ns - verdict->reigns[1].ended_ns;
    add_check(verdict, verdict->handover_ns < HANDOVER_MAX_MS * INT64_C(1000000), "hand-over in time",
              "%.1f ms, less than %d ms", (double)verdict->handover_ns / 1e6, HANDOVER_MAX_MS);
}

static void check_exits(const demo_cast *cast, demo_verdict *verdict)
{
    static const char *const what = "who was asked to stop did, without complaint";
    for (size_t i = 1; i < verdict->reign_count; i++) {
        const demo_node *node = &cast->nodes[verdict->reigns[i].node];
        if (!node->ended || !WIFEXITED(node->exit_status) || WEXITSTATUS(node->exit_status) != 0) {
            add_check(verdict, false, what, "%s did not exit with 0", node->name);
            return;
        }
    }
    add_check(verdict, true, what, "exit code 0, twice");
}

void demo_judge(demo_cast *cast, const simba_timing *timing, demo_verdict *ret_verdict)
{
    memset(ret_verdict, 0, sizeof *ret_verdict);
    ret_verdict->passed = true;
    qsort(cast->events, cast->event_count, sizeof cast->events[0], by_time);
    find_reigns(cast, ret_verdict);
    if (!check_story(cast, ret_verdict))
        return;
    check_exclusion(cast, ret_verdict);
    check_tokens(ret_verdict);
    check_failover(ret_verdict, timing);
    check_handover(ret_verdict);
    check_exits(cast, ret_verdict);
}
