/* See support.h. */
#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WATCHDOG_S = 100 };
#define MUTEX "orders"

process contenders[CONTENDERS];
score *board;

static char folder[REF_FOLDER_MAX];

/* --- the fixture ------------------------------------------------------------------------------------- */

const char *in_folder(const char *name)
{
    static char paths[4][REF_FOLDER_MAX + 40];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

const char *database(void)
{
    return in_folder("store.db");
}

static const char *other_store;

void use_store(const char *url)
{
    other_store = url;
}

const char *store_url(void)
{
    static char url[REF_FOLDER_MAX + 60];
    if (other_store)
        return other_store;
    snprintf(url, sizeof url, "sqlite://%s", database());
    return url;
}

int setup(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    ref_scene("a test with processes");
    ref_watchdog(WATCHDOG_S);
    ref_make_folder(folder);
    board = score_map(in_folder("score"));
    return board ? 0 : -1;
}

int teardown(void **state)
{
    bool good = process_clean_up();
    if (atomic_load(&board->conflicts) > 0) {
        print_error("two valid leases at once, seen %u times\n", atomic_load(&board->conflicts));
        good = false;
    }
    score_unmap(board);
    ref_delete_folder(folder);
    ref_watchdog(0);
    return good ? 0 : -1;
}

/* --- the contenders ---------------------------------------------------------------------------------- */

process *contender(unsigned nth, const char *id, int64_t ttl_ms, int64_t transition_ms)
{
    char ttl[24];
    char transition[24];
    char slot[12];
    snprintf(ttl, sizeof ttl, "%" PRId64, ttl_ms);
    snprintf(transition, sizeof transition, "%" PRId64, transition_ms);
    snprintf(slot, sizeof slot, "%u", nth);
    const char *const args[] = {"--puppet", "contender", store_url(),        MUTEX, id ? id : "-",
                                ttl,        transition,  in_folder("score"), slot,  NULL};
    process_start(&contenders[nth], args);
    process_await(&contenders[nth], "ready", LONG_MS);
    return &contenders[nth];
}

process *short_contender(unsigned nth)
{
    return contender(nth, NULL, TTL_MS, TRANSITION_MS);
}

static grant parse_grant(const char *text)
{
    grant g = {0};
    if (sscanf(text, "%" SCNu64 " %" SCNd64 " %" SCNd64, &g.token, &g.at_ns, &g.held_ms) != 3)
        fail_msg("not a grant: %s", text);
    return g;
}

grant await_acquired(process *p, int64_t ms)
{
    return parse_grant(process_await(p, "acquired", ms));
}

grant await_any_acquired(process *const all[], int count, int64_t ms, int *ret_who)
{
    const char *text;
    *ret_who = process_await_any(all, count, "acquired", ms, &text);
    return parse_grant(text);
}

loss await_released(process *p)
{
    loss l = {0};
    const char *text = process_await(p, "released", LONG_MS);
    const char *last = strrchr(text, ' '); /* a reason may have several words */
    snprintf(l.reason, sizeof l.reason, "%.*s", (int)(last - text), text);
    l.at_ns = strtoll(last, NULL, 10);
    return l;
}

grant lead(process *p)
{
    process_say(p, "start");
    const grant g = await_acquired(p, LONG_MS);
    assert_true(g.token > 0);
    assert_true(g.held_ms > 0);
    return g;
}

void stand_behind(process *p)
{
    process_say(p, "start");
    while (process_await(p, "changed", LONG_MS)[0] == '-')
        ;
}

uint64_t await_renewal(process *p)
{
    process_say(p, "renewal");
    return strtoull(process_await(p, "renewed", LONG_MS), NULL, 10);
}

void stop(process *p)
{
    process_say(p, "stop");
    assert_string_equal("0", process_await(p, "stopped", LONG_MS));
}

int64_t claim_of(unsigned nth)
{
    return atomic_load(&board->slots[nth].valid_until_ns);
}
