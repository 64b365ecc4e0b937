/* See chronicle.h. */
#include "core/chronicle.h"

#include <stdio.h>

static const char *const ops[] = {"acquire", "renew", "release", "read", "list", "force-release"};
static const char *const pushes[] = {"changed",      "released",     "acquired", "freed",
                                     "session-lost", "session-back", "noted",    "wanted"};

static void say_event(const simba__event *event, char *words, size_t size)
{
    switch (event->kind) {
    case SIMBA__EV_START:
        snprintf(words, size, "start");
        break;
    case SIMBA__EV_STOP:
        snprintf(words, size, "stop");
        break;
    case SIMBA__EV_PUSH:
        snprintf(words, size, "push %s", pushes[event->push->kind]);
        break;
    case SIMBA__EV_REPLY:
        if (event->reply->status < 0)
            snprintf(words, size, "failed %s", simba_error_name(event->reply->status));
        break;
    case SIMBA__EV_TIMER:
    case SIMBA__EV_ACK:
        break;
    }
}

static void say_lease(const simba__contention *machine, const simba__event *event, int64_t shift_ns, char *words,
                      size_t size)
{
    const simba_local session = machine->timing->session ? event->session_until : SIMBA__NEVER;
    const simba_local until = simba__contention_valid_until(machine);
    const int64_t left_ns = simba__lease_left_ns(until, session, event->now);
    const int64_t ttl_ns = simba__lease_left_ns(simba__contention_ttl_until(machine), session, event->now);
    const int64_t at_ns = event->now.ns + shift_ns;
    if (left_ns > 0)
        snprintf(words, size, "lease %lld %lld %llu", (long long)(at_ns + ttl_ns), (long long)(at_ns + left_ns),
                 (unsigned long long)machine->token);
}

void simba__chronicle_step(const simba__contention *machine, const simba__event *event, const simba__actions *actions,
                           int64_t shift_ns, simba__chronicle_fn say, void *user)
{
    char words[128] = "";
    say_event(event, words, sizeof words);
    if (words[0])
        say(user, words);
    if (actions->released) {
        snprintf(words, sizeof words, "lost %s", simba_reason_name(actions->reason));
        say(user, words);
    }
    if (actions->submit) {
        snprintf(words, sizeof words, "request %s", ops[actions->op]);
        say(user, words);
    }
    words[0] = '\0';
    /* A session grows longer without a request: its owner finds the new end when it looks at the old one. */
    const bool looks = event->kind == SIMBA__EV_TIMER && machine->timing->session;
    if (event->kind == SIMBA__EV_REPLY || actions->released || looks)
        say_lease(machine, event, shift_ns, words, sizeof words);
    if (words[0])
        say(user, words);
    if (actions->done)
        say(user, "stopped");
}
