/* The course of `simba torture`: one step of the plan after the other, until the time is over. */
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "signals.h"
#include "torture/contenders.h"

#define TIMEOUT_MS 10000 /* for contenders that were asked to end, beyond the end of their leases */

typedef struct run {
    const torture_options *options;
    torture_outcome *outcome;
    torture_contenders contenders;
    torture_plan plan;
    torture_step step; /* the next one, or the last one */
    cli_signals signals;
} run;

/* The contender that the step is for; TORTURE_NOBODY: there is none. At least one contender is always left alone. */
static int choose(const run *r)
{
    const torture_contenders *contenders = &r->contenders;
    const torture_step *step = &r->step;
    const int leader = contenders->leaders[step->mutex];
    int others[TORTURE_CONTENDERS_MAX];
    unsigned count = 0;
    if (torture_contenders_count_well(contenders) < 2)
        return TORTURE_NOBODY;
    if (step->to_leader)
        return leader != TORTURE_NOBODY && torture_contenders_is_well(contenders, leader) ? leader : TORTURE_NOBODY;
    for (int i = 0; i < contenders->count; i++)
        if (i != leader && torture_contenders_is_well(contenders, i))
            others[count++] = i;
    return count > 0 ? others[step->pick % count] : TORTURE_NOBODY;
}

/* Wait, for a signal too. */
static void wait_for_news(run *r, int64_t until_ns)
{
    if (!torture_contenders_listen(&r->contenders, r->signals.fd, until_ns))
        return;
    const int number = signals_read(&r->signals);
    if (signals_is_ending(number))
        r->outcome->interrupted = number;
}

/* One step of the plan after the other. */
static void take_steps(run *r)
{
    torture_contenders *contenders = &r->contenders;
    const int64_t takeover_ns = r->options->setup.takeover_ns;
    const int64_t end_ns = torture_contenders_now(contenders) + r->options->duration_ms * MS;
    bool rests = false; /* until the time before the next step is over; otherwise it waits until all are well */
    int64_t until_ns = torture_contenders_now(contenders) + takeover_ns; /* at the latest */
    for (;;) {
        const int64_t begun_ns = torture_contenders_now(contenders);
        if (begun_ns >= end_ns || r->outcome->interrupted != 0 || torture_contenders_has_ended(contenders))
            return;
        const int64_t heal_ns = torture_contenders_heal(contenders, begun_ns);
        wait_for_news(r, min64(min64(heal_ns, until_ns), end_ns));
        const int64_t now_ns = torture_contenders_now(contenders);
        bool settled = torture_contenders_count_well(contenders) == contenders->count;
        for (unsigned mutex = 0; mutex < r->options->setup.mutexes; mutex++)
            settled = settled && contenders->leaders[mutex] != TORTURE_NOBODY;
        if (!rests && (settled || now_ns >= until_ns)) {
            r->step = torture_plan_next(&r->plan);
            rests = true;
            until_ns = now_ns + r->step.rest_ms * MS;
        } else if (rests && now_ns >= until_ns) {
            const int number = choose(r);
            if (number != TORTURE_NOBODY)
                torture_contenders_inflict(contenders, number, &r->step);
            /* However it goes on, the next step comes when nothing more is to be expected of this one. */
            const bool goes_on = r->step.goes_on && number != TORTURE_NOBODY;
            rests = false;
            until_ns = torture_contenders_now(contenders) + (goes_on ? 0 : r->step.for_ms * MS + takeover_ns);
        }
    }
}

/* A second signal ends the waiting. */
static void stop_all(run *r)
{
    torture_contenders *contenders = &r->contenders;
    const int interrupted = r->outcome->interrupted;
    const int64_t timeout_ns = r->options->setup.lease_ns + TIMEOUT_MS * MS;
    torture_contenders_record(contenders, TORTURE_END);
    torture_contenders_dismiss(contenders);
    r->outcome->interrupted = 0;
    const int64_t until_ns = torture_contenders_now(contenders) + timeout_ns;
    while (!torture_contenders_has_ended(contenders) && torture_contenders_now(contenders) < until_ns &&
           r->outcome->interrupted == 0)
        wait_for_news(r, until_ns);
    if (r->outcome->interrupted == 0)
        r->outcome->interrupted = interrupted;
}

int torture_run(const torture_options *options, torture_outcome *ret_outcome)
{
    static run r;
    memset(&r, 0, sizeof r);
    memset(ret_outcome, 0, sizeof *ret_outcome);
    r.options = options;
    r.outcome = ret_outcome;
    int code = signals_open(options->command, &r.signals);
    if (code != CLI_GO)
        return code;
    const int64_t lease_ms = options->setup.lease_ns / MS;
    const int64_t outage_ms = options->setup.outage_ns / MS;
    torture_plan_init(&r.plan, options->setup.seed, options->faults, options->setup.mutexes, lease_ms,
                      outage_ms > 0 ? outage_ms : lease_ms / 4);
    const int started = torture_contenders_start(&r.contenders, options, ret_outcome);
    if (started == 0) {
        take_steps(&r);
        stop_all(&r);
    } else {
        code = cli_fail(options->command, CLI_SYSTEM, "the contenders could not be started: %s.", strerror(-started));
    }
    torture_contenders_end(&r.contenders);
    close(r.signals.fd);
    sigprocmask(SIG_SETMASK, &r.signals.original, NULL); /* nothing is left that would need to be ended with care */
    return code;
}
