/* Judges `simba demo`: from the leaderships alone, did simba keep its promises? Separate from the reporting, so that it
 * cannot influence the checks. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "clock.h"
#include "demo/demo.h"

#define LESS_SLACK_MS 1000 /* one second for a busy machine, where `simba torture` allows two */
#define HANDOVER_MAX_MS 1000
#define EXPECTED_REIGNS 3

int64_t demo_failover_limit_ns(const torture_setup *setup)
{
    return setup->takeover_ns - LESS_SLACK_MS * MS;
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

static const char *name_of(const torture_contenders *contenders, const torture_reign *reign)
{
    return contenders->options->ids[reign->contender];
}

/* The whole scenario must be there before its parts mean anything. */
static bool check_scenario(const torture_contenders *contenders, const torture_verdict *found, demo_verdict *verdict)
{
    static const char *const what = "each of the three led once";
    const torture_reign *r = found->reigns;
    bool led[DEMO_NODES] = {false};
    if (found->reign_count != EXPECTED_REIGNS) {
        add_check(verdict, false, what, "%zu leaderships instead of %d", found->reign_count, EXPECTED_REIGNS);
        return false;
    }
    for (size_t i = 0; i < found->reign_count; i++) {
        const bool right_end = (i == 0 ? r[i].killed : r[i].released) && !led[r[i].contender];
        if (!right_end) {
            add_check(verdict, false, what, "leadership %zu, of %s, did not end as it should", i + 1,
                      name_of(contenders, &r[i]));
            return false;
        }
        led[r[i].contender] = true;
    }
    add_check(verdict, true, what, "%s, %s, %s", name_of(contenders, &r[0]), name_of(contenders, &r[1]),
              name_of(contenders, &r[2]));
    return true;
}

static void check_exclusion(const torture_contenders *contenders, const torture_verdict *found, demo_verdict *verdict)
{
    static const char *const what = "never two leaders at once";
    const torture_reign *r = found->reigns;
    int64_t narrowest_ns = INT64_MAX;
    for (size_t i = 0; i + 1 < found->reign_count; i++) {
        const int64_t gap_ns = r[i + 1].from_ns - r[i].claim_ns;
        narrowest_ns = gap_ns < narrowest_ns ? gap_ns : narrowest_ns;
        if (gap_ns < 0) {
            add_check(verdict, false, what, "%s and %s both led, for %.3f ms", name_of(contenders, &r[i]),
                      name_of(contenders, &r[i + 1]), (double)-gap_ns / 1e6);
            return;
        }
    }
    add_check(verdict, true, what, "narrowest gap %.1f ms", (double)narrowest_ns / 1e6);
}

static void check_tokens(const torture_verdict *found, demo_verdict *verdict)
{
    static const char *const what = "fencing tokens strictly increase";
    const torture_reign *r = found->reigns;
    for (size_t i = 0; i + 1 < found->reign_count; i++) {
        if (r[i + 1].token <= r[i].token) {
            add_check(verdict, false, what, "%" PRIu64 " came after %" PRIu64, r[i + 1].token, r[i].token);
            return;
        }
    }
    add_check(verdict, true, what, "%zu tokens", found->reign_count);
}

/* The dead leader could not say that it was dead: until its own clock ended its lease, it might have been at work. */
static void check_failover(const torture_setup *setup, const torture_reign *dead, const torture_reign *next,
                           demo_verdict *verdict)
{
    const int64_t after_lease_ns = next->begun_ns - dead->until_ns;
    const int64_t limit_ns = demo_failover_limit_ns(setup);
    verdict->failover_ns = next->begun_ns - dead->ended_ns;
    verdict->lease_left_ns = dead->until_ns - dead->ended_ns;
    add_check(verdict, after_lease_ns >= 0, "no take-over inside the dead leader's lease", "%.3f s %s it ended",
              seconds(llabs(after_lease_ns)), after_lease_ns >= 0 ? "after" : "before");
    add_check(verdict, verdict->failover_ns <= limit_ns, "fail-over in time", "%.3f s, at most %.3f s",
              seconds(verdict->failover_ns), seconds(limit_ns));
}

static void check_handover(const torture_reign *before, const torture_reign *next, demo_verdict *verdict)
{
    verdict->handover_ns = next->begun_ns - before->ended_ns;
    add_check(verdict, verdict->handover_ns < HANDOVER_MAX_MS * MS, "hand-over in time", "%.1f ms, less than %d ms",
              (double)verdict->handover_ns / 1e6, HANDOVER_MAX_MS);
}

static void check_exits(const torture_contenders *contenders, const torture_verdict *found, demo_verdict *verdict)
{
    static const char *const what = "the stopped processes ended without an error";
    for (size_t i = 1; i < found->reign_count; i++) {
        const torture_node *node = &contenders->nodes[found->reigns[i].contender];
        if (node->state != NODE_ENDED || !WIFEXITED(node->status) || WEXITSTATUS(node->status) != 0) {
            add_check(verdict, false, what, "%s did not exit with 0", name_of(contenders, &found->reigns[i]));
            return;
        }
    }
    add_check(verdict, true, what, "exit code 0, twice");
}

void demo_judge(const torture_contenders *contenders, const torture_verdict *found, demo_verdict *ret_verdict)
{
    const torture_reign *r = found->reigns;
    memset(ret_verdict, 0, sizeof *ret_verdict);
    ret_verdict->passed = true;
    if (!check_scenario(contenders, found, ret_verdict))
        return;
    check_exclusion(contenders, found, ret_verdict);
    check_tokens(found, ret_verdict);
    check_failover(&contenders->options->setup, &r[0], &r[1], ret_verdict);
    check_handover(&r[1], &r[2], ret_verdict);
    check_exits(contenders, found, ret_verdict);
}
