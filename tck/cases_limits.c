/* Cases about many mutexes at once, and about the statistics, settings and lists of a client. */
#include <stdlib.h>
#include <string.h>

#include "probe.h"

/* How many of the probes have had the callback so far. With the lock. */
static unsigned sum(tck_probe **probes, unsigned count, bool released)
{
    unsigned total = 0;
    for (unsigned i = 0; i < count; i++)
        total += released ? probes[i]->released : probes[i]->acquired;
    return total;
}

static void start_numbered(tck *t, tck_client *client, tck_probe **probes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "%04u", i);
        probes[i] = tck_probe_new(tck_arena_new(t, suffix), client);
        /* Renewed as often as ever, but a machine that is slow with so many does not lose them. Nobody waits for them. */
        probes[i]->timing.transition_ms = t->timeout_ms;
        tck_probe_start(probes[i]);
    }
}

static int64_t lease_end_ns(const tck_probe *probe)
{
    return tck_now_ns() + simba_contender_held_for_ms(probe->contender) * TCK_NS_PER_MS;
}

/* Has each of them been renewed since its lease had that end? With the lock. */
static bool have_lasted(tck_probe **probes, const int64_t *ends_ns, unsigned count)
{
    /* Two readings of one lease may differ by what they round off. */
    for (unsigned i = 0; i < count; i++)
        if (lease_end_ns(probes[i]) <= ends_ns[i] + TCK_NS_PER_MS)
            return false;
    return true;
}

/* A thousand mutexes on one client: all gained, all renewed and renewed again, none lost, all given back. */
static void thousand(tck *t)
{
    enum { MANY = 1000, RENEWALS = 2 };
    tck_client *client = tck_client_new(t);
    tck_probe **probes = tck_alloc(t, MANY * sizeof *probes);
    int64_t *ends_ns = tck_alloc(t, MANY * sizeof *ends_ns);
    start_numbered(t, client, probes, MANY);
    TCK_AWAIT(t, sum(probes, MANY, false) == MANY);
    for (int renewal = 0; renewal < RENEWALS; renewal++) {
        for (unsigned i = 0; i < MANY; i++)
            ends_ns[i] = lease_end_ns(probes[i]);
        TCK_AWAIT(t, have_lasted(probes, ends_ns, MANY));
    }
    TCK_REQUIRE_NOW(t, sum(probes, MANY, true) == 0);
    for (unsigned i = 0; i < MANY; i++)
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(probes[i]));
    TCK_REQUIRE_NOW(t, sum(probes, MANY, false) == MANY && sum(probes, MANY, true) == MANY);
}

/* A client's own numbers add up. */
static void stats(tck *t)
{
    tck_client *client = tck_client_faulty(t, t->timeout_ms);
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, client);
    tck_probe *waiter = tck_probe_new(arena, client);
    leader->timing = waiter->timing = tck_timing_steady(t);
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    tck_probe_start(waiter);
    TCK_REQUIRE(t, tck_outlive(client, 1));
    TCK_AWAIT(t, tck_client_stats(client).renewals >= 1 || (t->caps & SIMBA_CAP_SESSION));
    simba_stats now = tck_client_stats(client);
    TCK_REQUIRE(t, now.contenders == 2 && now.held == 1 && now.grants == 1);
    TCK_REQUIRE(t, now.requests >= 3 || (t->caps & SIMBA_CAP_SESSION));
    TCK_REQUIRE(t, now.batches >= 1 && now.batches <= now.requests);
    TCK_REQUIRE(t, now.errors == 0 && now.renewals_failed == 0 && now.late_wins == 0);

    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    TCK_AWAIT(t, waiter->acquired == 1);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(waiter));
    now = tck_client_stats(client);
    TCK_REQUIRE(t, now.held == 0 && now.grants == 2 && now.losses[SIMBA_REASON_STOPPED] == 2);
    TCK_REQUIRE(t, now.callbacks >= 4);
    TCK_REQUIRE(t, now.requests == tck_client_count(client, TCK_ANY_OP, TCK_SUBMITTED));
    tck_probe_free(leader);
    TCK_AWAIT(t, tck_client_stats(client).contenders == 1);
}

enum { LISTED = 5 };

typedef struct listing {
    tck *kit;
    tck_probe **probes;
    unsigned owned;
    char last[SIMBA_MUTEX_BYTES + 1];
} listing;

static void take_row(const simba_listing *row, void *user)
{
    listing *self = user;
    if (strcmp(row->mutex, self->last) <= 0)
        tck_fail(self->kit, __FILE__, __LINE__, "\"%s\" after \"%s\"", row->mutex, self->last);
    snprintf(self->last, sizeof self->last, "%s", row->mutex);
    if (!simba_owner_has_owner(row->owner, row->now_ms))
        return;
    for (int i = 0; i < LISTED; i++) {
        const tck_probe *probe = self->probes[i];
        if (strcmp(probe->arena->mutex, row->mutex) == 0 &&
            simba_owner_is(row->owner, simba_contender_id(probe->contender)) &&
            row->owner->token == simba_contender_token(probe->contender))
            self->owned++;
    }
}

/* A list names the owners of all mutexes that match, in order, and of no others. */
static void list(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    tck_probe *probes[LISTED];
    start_numbered(t, clients[0], probes, LISTED);
    TCK_AWAIT(t, sum(probes, LISTED, false) == LISTED);

    listing all = {.kit = t, .probes = probes};
    char pattern[100];
    snprintf(pattern, sizeof pattern, "tck-%s-%s-*", t->slot, t->name);
    simba_error err;
    TCK_REQUIRE_RC(t, 0, simba_client_list(clients[1]->handle, pattern, take_row, &all, &err));
    TCK_REQUIRE(t, all.owned == LISTED);
    listing one = {.kit = t, .probes = probes};
    TCK_REQUIRE_RC(t, 0, simba_client_list(clients[1]->handle, probes[2]->arena->mutex, take_row, &one, &err));
    TCK_REQUIRE(t, one.owned == 1 && strcmp(one.last, probes[2]->arena->mutex) == 0);
    listing any = {.kit = t, .probes = probes};
    TCK_REQUIRE_RC(t, 0, simba_client_list(clients[1]->handle, NULL, take_row, &any, &err));
    TCK_REQUIRE(t, any.owned == LISTED);

    for (int i = 0; i < LISTED; i++)
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(probes[i]));
    listing none = {.kit = t, .probes = probes};
    TCK_REQUIRE_RC(t, 0, simba_client_list(clients[1]->handle, pattern, take_row, &none, &err));
    TCK_REQUIRE(t, none.owned == 0);
}

typedef struct line {
    int64_t waiters;
    char next[SIMBA_ID_MAX + 1]; /* "": not known */
} line;

static void take_line(const simba_listing *row, void *user)
{
    line *self = user;
    self->waiters = row->waiters;
    snprintf(self->next, sizeof self->next, "%s", row->next ? row->next : "");
}

/* List until `count` contenders wait, unless the store does not know. Without the lock: a list needs critical sections of its
 * client. */
static bool await_waiters(const tck_probe *probe, int64_t count, line *ret_line)
{
    tck *t = probe->arena->kit;
    const int64_t deadline_ns = tck_now_ns() + t->timeout_ms * TCK_NS_PER_MS;
    for (;;) {
        *ret_line = (line){.waiters = -1};
        const int rc = simba_client_list(probe->client->handle, probe->arena->mutex, take_line, ret_line, NULL);
        if (rc < 0 || ret_line->waiters < 0 || ret_line->waiters == count)
            return rc == 0;
        tck_lock(t);
        const bool goes_on = tck_pause(t, deadline_ns);
        tck_unlock(t);
        if (!goes_on)
            return false;
    }
}

/* A list says how many contenders wait and which comes next, or that the store does not know. */
static void list_line(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *owner = tck_probe_new(arena, clients[0]);
    tck_probe *waiters[2] = {tck_probe_new(arena, clients[1]), tck_probe_new(arena, clients[0])};
    tck_probe_start(owner);
    TCK_AWAIT(t, owner->acquired == 1);
    line seen;
    for (int i = 0; i < 2; i++) {
        tck_probe_start(waiters[i]);
        TCK_REQUIRE(t, await_waiters(owner, i + 1, &seen));
        TCK_REQUIRE(t, seen.waiters < 0 || strcmp(seen.next, simba_contender_id(waiters[0]->contender)) == 0);
    }
    for (int i = 0; i < 2; i++)
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(waiters[i]));
    TCK_REQUIRE(t, await_waiters(owner, 0, &seen));
    TCK_REQUIRE(t, !seen.next[0]);
}

const tck_case tck_cases_limits[] = {
    {"thousand-mutexes", 0, 0, thousand},
    {"stats", 0, 0, stats},
    {"list", SIMBA_CAP_LIST, 0, list},
    {"list-line", SIMBA_CAP_LIST, 0, list_line},
    {0},
};
