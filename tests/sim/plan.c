/* See plan.h. */
#include "sim/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/random.h"

/* Two clocks that each deviate by at most this differ by less than the drift bound of 1 %. */
#define RATE_MAX 4970
#define RATE_BROKEN 40000

const char *sim_item_name(sim_item_kind kind)
{
    static const char *const names[] = {
#define SIM_ITEM_NAME(name, text) text,
        SIM_ITEM_KINDS(SIM_ITEM_NAME)
#undef SIM_ITEM_NAME
    };
    return names[kind];
}

const char *sim_store_name(sim_store_kind store)
{
    static const char *const names[] = {"push", "poll",       "session", "redis",     "zookeeper",
                                        "sql",  "postgresql", "etcd",    "kubernetes"};
    return names[store];
}

const char *sim_topology_name(sim_topology topology)
{
    static const char *const names[] = {"redis-single", "redis-sentinel", "redis-cluster"};
    return names[topology];
}

static int64_t pick(uint64_t *seed, int64_t low, int64_t high)
{
    return simba__random_range(seed, low, high + 1);
}

static bool chance(uint64_t *seed, int64_t percent)
{
    return pick(seed, 1, 100) <= percent;
}

/* Short and long ones are equally likely: a duration between the two whose logarithm is spread evenly, or nearly. */
static int64_t spread(uint64_t *seed, int64_t low, int64_t high)
{
    int64_t top = low;
    for (int64_t doublings = pick(seed, 0, 40); doublings > 0 && top < high; doublings--)
        top *= 2;
    return pick(seed, low, top < high ? top : high);
}

static void draw_timing(sim_plan *plan, uint64_t *seed)
{
    simba_timing *t = &plan->timing;
    *t = (simba_timing){.ttl_ms = 10000, .transition_ms = 6000, .jitter_min_ms = -200, .jitter_max_ms = 1000};
    if (chance(seed, 50)) {
        t->ttl_ms = spread(seed, 1000, 60000);
        t->transition_ms = chance(seed, 10) ? 0 : spread(seed, 500, 30000);
    }
    if (chance(seed, 20))
        t->initial_delay_ms = pick(seed, 1, 3000);
    if (chance(seed, 15))
        t->stop_margin_ms = pick(seed, 1, t->transition_ms / 3);
    if (chance(seed, 10))
        t->hold_limit_ms = pick(seed, t->ttl_ms, 4 * t->ttl_ms);
    if (chance(seed, 10))
        t->jitter_min_ms = t->jitter_max_ms = 0;
}

static void draw_clocks(sim_plan *plan, uint64_t *seed)
{
    const int64_t most = plan->broken == SIM_BROKEN_DRIFT ? RATE_BROKEN : RATE_MAX;
    for (unsigned p = 0; p < plan->processes; p++) {
        plan->ppm[p] = chance(seed, 30) ? (chance(seed, 50) ? most : -most) : pick(seed, -most, most);
        plan->offset_ns[p] = pick(seed, SIM_S, 1000000 * SIM_S);
    }
    plan->store_ppm = chance(seed, 30) ? (chance(seed, 50) ? most : -most) : pick(seed, -most, most);
}

static void draw_contenders(sim_plan *plan, uint64_t *seed)
{
    for (unsigned i = 0; i < plan->contenders; i++) {
        sim_contender_plan *contender = &plan->contender[i];
        contender->process = (uint8_t)(i < plan->processes ? i : pick(seed, 0, plan->processes - 1));
        contender->mutex = (uint8_t)(chance(seed, 75) ? 0 : pick(seed, 0, plan->mutexes - 1));
        contender->locker = chance(seed, 20);
        contender->try_once = contender->locker && chance(seed, 30);
        snprintf(contender->id, sizeof contender->id, "%c%u", 'a' + contender->process, i);
        if (i > 0 && chance(seed, 10))
            strcpy(contender->id, plan->contender[i - 1].id); /* two under one name */
    }
}

/* A few applications with slots. Each has a contender for the turnstile, and one for each slot. */
static void draw_apps(sim_plan *plan, uint64_t *seed)
{
    const unsigned apps = (unsigned)pick(seed, 2, SIM_APPS);
    plan->processes = (unsigned)pick(seed, 2, apps);
    plan->slots = (unsigned)pick(seed, 1, SIM_MUTEXES - 1);
    plan->mutexes = plan->slots + 1;
    plan->contenders = apps * plan->mutexes;
    plan->timing.initial_delay_ms = plan->timing.hold_limit_ms = 0;
    for (unsigned i = 0; i < apps; i++) {
        const uint8_t process = (uint8_t)(i < plan->processes ? i : pick(seed, 0, plan->processes - 1));
        for (unsigned m = 0; m < plan->mutexes; m++) {
            sim_contender_plan *contender = &plan->contender[i * plan->mutexes + m];
            *contender = (sim_contender_plan){.process = process, .mutex = (uint8_t)m, .locker = true};
            snprintf(contender->id, sizeof contender->id, "%c%u", 'a' + process, i);
        }
    }
}

static sim_item *add(sim_plan *plan, sim_item_kind kind, uint8_t who, int64_t at_ns)
{
    static sim_item none;
    if (plan->items == SIM_ITEMS)
        return &none;
    sim_item *item = &plan->item[plan->items++];
    *item = (sim_item){.kind = (uint8_t)kind, .who = who, .at_ns = at_ns};
    return item;
}

static void draw_starts(sim_plan *plan, uint64_t *seed)
{
    for (unsigned i = 0; i < plan->contenders; i += plan->slots + 1)
        add(plan, SIM_ITEM_START, (uint8_t)i,
            chance(seed, 70) ? pick(seed, 0, 50 * SIM_MS) : pick(seed, 0, 20 * SIM_S));
    for (int64_t n = pick(seed, -2, SIM_OBSERVERS); n > 0; n--) {
        /* One draw per statement: in which order arguments are evaluated is the compiler's choice. */
        const uint8_t process = (uint8_t)pick(seed, 0, plan->processes - 1);
        sim_item *item = add(plan, SIM_ITEM_OBSERVE, process, pick(seed, 0, 5 * SIM_S));
        item->arg = pick(seed, 0, plan->mutexes - 1);
    }
}

static void draw_faults(sim_plan *plan, uint64_t *seed)
{
    static const uint8_t kinds[] = {
        SIM_ITEM_STOP,    SIM_ITEM_STOP,      SIM_ITEM_STOP_INSIDE, SIM_ITEM_SLOW,        SIM_ITEM_SLOW,
        SIM_ITEM_PAUSE,   SIM_ITEM_PAUSE,     SIM_ITEM_STALL,       SIM_ITEM_STALL,       SIM_ITEM_KILL,
        SIM_ITEM_RATE,    SIM_ITEM_LOSE,      SIM_ITEM_LOSE,        SIM_ITEM_DELAY,       SIM_ITEM_DELAY,
        SIM_ITEM_REPEAT,  SIM_ITEM_CUT,       SIM_ITEM_CUT,         SIM_ITEM_UNSUBSCRIBE, SIM_ITEM_FREEZE,
        SIM_ITEM_RESTART, SIM_ITEM_FAIL_OVER, SIM_ITEM_FORCE,       SIM_ITEM_STORE_RATE,  SIM_ITEM_STORE_EPOCH,
        SIM_ITEM_JUMP,
    };
    /* Where the servers are the question, more happens to them. */
    static const uint8_t of_replicas[] = {SIM_ITEM_STORE_EPOCH, SIM_ITEM_STORE_EPOCH, SIM_ITEM_REPEAT, SIM_ITEM_LOSE};
    static const uint8_t of_servers[] = {SIM_ITEM_FREEZE,    SIM_ITEM_RESTART,     SIM_ITEM_FAIL_OVER,
                                         SIM_ITEM_FAIL_OVER, SIM_ITEM_STORE_EPOCH, SIM_ITEM_MOVE_SLOT};
    static const uint8_t of_rows[] = {SIM_ITEM_LOCK_ROW,    SIM_ITEM_LOCK_ROW, SIM_ITEM_LOCK_ROW,
                                      SIM_ITEM_UNSUBSCRIBE, SIM_ITEM_RESTART,  SIM_ITEM_FAIL_OVER,
                                      SIM_ITEM_SLOW_STORE,  SIM_ITEM_CUT,      SIM_ITEM_REPEAT};
    const unsigned server_kinds = sim_is_ensemble(plan->store) ? 4 : plan->topology == SIM_CLUSTER ? 6 : 5;
    const int64_t lease_ns = (plan->timing.ttl_ms + plan->timing.transition_ms) * SIM_MS;
    const int64_t most = plan->broken == SIM_BROKEN_DRIFT ? RATE_BROKEN : RATE_MAX;
    const int64_t count = pick(seed, 0, 16);
    for (int64_t n = 0; n < count; n++) {
        sim_item_kind kind = kinds[pick(seed, 0, sizeof kinds - 1)];
        if ((sim_is_ensemble(plan->store) || plan->topology != SIM_SINGLE) && chance(seed, 25))
            kind = of_servers[pick(seed, 0, server_kinds - 1)];
        else if (plan->store == SIM_STORE_KUBERNETES && chance(seed, 40))
            kind = of_servers[pick(seed, 0, 4)];
        else if (sim_is_sql(plan->store) && chance(seed, 40))
            kind = of_rows[pick(seed, 0, sizeof of_rows - 1)];
        else if (plan->replicas > 0 && chance(seed, 30))
            kind = of_replicas[pick(seed, 0, sizeof of_replicas - 1)];
        /* There a waiter's clock decides, and it does not skip time that has not passed: a machine that sleeps is a pause. */
        if (plan->store == SIM_STORE_KUBERNETES && kind == SIM_ITEM_JUMP)
            kind = SIM_ITEM_PAUSE;
        const bool of_contender = kind <= SIM_ITEM_SLOW;
        uint8_t who = (uint8_t)pick(seed, 0, (of_contender ? plan->contenders : plan->processes) - 1);
        if (of_contender && plan->slots)
            who -= (uint8_t)(who % (plan->slots + 1)); /* the application */
        sim_item *item = add(plan, kind, who, pick(seed, 0, plan->horizon_ns - 1));
        item->for_ns = spread(seed, 5 * SIM_MS, 2 * lease_ns);
        switch (kind) {
        case SIM_ITEM_STOP:
            if (chance(seed, 70))
                add(plan, SIM_ITEM_START, who, item->at_ns + spread(seed, 1, lease_ns));
            break;
        case SIM_ITEM_KILL:
            if (chance(seed, 25))
                item->for_ns = 0;
            break;
        case SIM_ITEM_RATE:
        case SIM_ITEM_STORE_RATE:
            item->arg = pick(seed, -most, most);
            break;
        case SIM_ITEM_JUMP:
            item->arg = spread(seed, 1, 2 * lease_ns / SIM_MS);
            item->for_ns = 0;
            break;
        case SIM_ITEM_STORE_EPOCH:
            item->arg = pick(seed, -100000, 100000);
            break;
        case SIM_ITEM_LOSE:
        case SIM_ITEM_REPEAT:
            item->arg = pick(seed, 50, 900);
            break;
        case SIM_ITEM_DELAY:
            item->arg = spread(seed, 1, lease_ns / SIM_MS);
            break;
        case SIM_ITEM_CUT:
            item->arg = pick(seed, 1, 3);
            break;
        case SIM_ITEM_FAIL_OVER:
            if (plan->broken == SIM_BROKEN_LOST_WRITES)
                item->arg = spread(seed, 10, 2 * lease_ns / SIM_MS);
            break;
        case SIM_ITEM_FORCE:
        case SIM_ITEM_LOCK_ROW:
        case SIM_ITEM_MOVE_SLOT:
            item->arg = pick(seed, 0, plan->mutexes - 1);
            break;
        case SIM_ITEM_SLOW_STORE:
            item->arg = spread(seed, 1, lease_ns / SIM_MS / 4);
            break;
        case SIM_ITEM_SLOW:
        default:
            break;
        }
    }
}

static void draw_topology(sim_plan *plan, uint64_t *seed)
{
    plan->topology = chance(seed, 40) ? SIM_SINGLE : chance(seed, 50) ? SIM_SENTINEL : SIM_CLUSTER;
    plan->servers = (unsigned)(plan->topology == SIM_CLUSTER ? pick(seed, 2, 3) : pick(seed, 1, 2));
    if (plan->topology == SIM_CLUSTER && plan->replicas > 1)
        plan->replicas = 1; /* there are no more */
}

void sim_plan_draw(sim_plan *plan, uint64_t seed, sim_store_kind store, sim_broken broken)
{
    uint64_t s = seed * 3 + store;
    memset(plan, 0, sizeof *plan);
    plan->seed = seed;
    plan->store = store;
    plan->broken = broken;
    plan->notes = store != SIM_STORE_KUBERNETES || chance(&s, 75); /* otherwise Leases may be deleted */
    plan->queue = store == SIM_STORE_REDIS || (store == SIM_STORE_PUSH && chance(&s, 60));
    plan->watch_free = store == SIM_STORE_PUSH && !plan->queue;
    plan->latency_ns = spread(&s, 50000, 20 * SIM_MS);
    plan->poll_ns = pick(&s, 500, 1000) * SIM_MS;
    plan->session_ns = pick(&s, 2000, 10000) * SIM_MS;
    if (store == SIM_STORE_ETCD) /* it counts in seconds */
        plan->session_ns = plan->session_ns / SIM_S * SIM_S;
    draw_timing(plan, &s);
    if ((sim_is_sql(store) || store == SIM_STORE_KUBERNETES) && plan->timing.transition_ms < 1000)
        plan->timing.transition_ms += 1000; /* a write takes several round trips: docs/safety.md, L3 */
    plan->processes = (unsigned)pick(&s, 2, SIM_PROCESSES);
    plan->contenders = (unsigned)pick(&s, plan->processes, 8);
    plan->mutexes = (unsigned)pick(&s, 1, 2);
    plan->horizon_ns = pick(&s, 3, 8) * (plan->timing.ttl_ms + plan->timing.transition_ms) * SIM_MS;
    uint64_t other = s; /* so that the other runs stay what they are */
    if (broken == SIM_SOUND && chance(&other, 15))
        draw_apps(plan, &other);
    draw_clocks(plan, &s);
    if (!plan->slots)
        draw_contenders(plan, &s);
    draw_starts(plan, &s);
    plan->replicas =
        store == SIM_STORE_REDIS && broken != SIM_BROKEN_LOST_WRITES && chance(&s, 40) ? pick(&s, 1, 2) : 0;
    if (store == SIM_STORE_REDIS)
        draw_topology(plan, &s);
    draw_faults(plan, &s);
    if (store != SIM_STORE_REDIS)
        plan->servers = sim_is_ensemble(store) ? (chance(&s, 70) ? 3 : 5) : 1;
    plan->ticks = pick(&s, 2, 8);
    /* Grants of the JVM have no token on Redis: where writes are lost nothing could tell them from ours. */
    const bool mixed = (store == SIM_STORE_REDIS && plan->topology == SIM_SINGLE && broken != SIM_BROKEN_LOST_WRITES) ||
                       store == SIM_STORE_ETCD || store == SIM_STORE_SQL || store == SIM_STORE_KUBERNETES;
    plan->jvms = mixed && !plan->slots && chance(&s, 30) ? (unsigned)pick(&s, 1, 2) : 0;
    plan->password = store == SIM_STORE_ZOOKEEPER && chance(&s, 20);
    plan->forgets = store == SIM_STORE_REDIS && plan->topology == SIM_SINGLE && plan->replicas == 0 &&
                    broken == SIM_SOUND && plan->jvms == 0 && chance(&s, 60);
    if (plan->forgets) {
        sim_item *item = add(plan, SIM_ITEM_RESTART, 0, pick(&s, SIM_S, plan->horizon_ns));
        item->for_ns = spread(&s, 5 * SIM_MS, SIM_S);
    }
    if (broken == SIM_BROKEN_LOST_WRITES) {
        sim_item *item = add(plan, SIM_ITEM_FAIL_OVER, 0, pick(&s, SIM_S, plan->horizon_ns));
        item->for_ns = spread(&s, 5 * SIM_MS, SIM_S);
        item->arg = spread(&s, 10, plan->horizon_ns / SIM_MS);
    }
    if (store < SIM_STORE_REDIS && chance(&s, 25))
        plan->window = (unsigned)pick(&s, 1, 3);
}

bool sim_plan_scenario(sim_plan *plan, const char *name)
{
    const bool outage = strcmp(name, "outage") == 0;
    if (!outage && strcmp(name, "fail-over") != 0)
        return false;
    *plan = (sim_plan){
        .seed = 1,
        .store = SIM_STORE_PUSH,
        .queue = true,
        .latency_ns = SIM_MS,
        .timing = {.ttl_ms = 10000, .transition_ms = 6000, .jitter_min_ms = -200, .jitter_max_ms = 1000},
        .horizon_ns = 50 * SIM_S,
        .processes = 3,
        .contenders = 3,
        .mutexes = 1,
        .offset_ns = {SIM_S, SIM_S, SIM_S},
    };
    for (unsigned i = 0; i < plan->contenders; i++) {
        const uint8_t who = (uint8_t)i;
        snprintf(plan->contender[i].id, sizeof plan->contender[i].id, "node-%c", 'a' + who);
        plan->contender[i].process = who;
        add(plan, SIM_ITEM_START, who, who * 100 * SIM_MS);
        add(plan, SIM_ITEM_SLOW, who, 0)->for_ns = 300 * SIM_MS; /* callbacks that can be seen */
    }
    if (outage)
        add(plan, SIM_ITEM_RESTART, 0, 18 * SIM_S)->for_ns = 5900 * SIM_MS;
    else
        add(plan, SIM_ITEM_KILL, 0, 13 * SIM_S);
    add(plan, SIM_ITEM_STOP, outage ? 0 : 1, 42 * SIM_S);
    return true;
}

static void print_item(const sim_plan *plan, const sim_item *item, FILE *out)
{
    fprintf(out, "  %10.3f s  %s", (double)item->at_ns / 1e9, sim_item_name((sim_item_kind)item->kind));
    switch ((sim_item_kind)item->kind) {
    case SIM_ITEM_START:
    case SIM_ITEM_STOP:
    case SIM_ITEM_STOP_INSIDE:
    case SIM_ITEM_SLOW: {
        const sim_contender_plan *contender = &plan->contender[item->who];
        fprintf(out, " %s%s (process %c, mutex %u)", contender->locker ? "locker " : "", contender->id,
                'a' + contender->process, contender->mutex);
        break;
    }
    case SIM_ITEM_STORE_RATE:
    case SIM_ITEM_STORE_EPOCH:
    case SIM_ITEM_FREEZE:
    case SIM_ITEM_RESTART:
    case SIM_ITEM_FAIL_OVER:
    case SIM_ITEM_FORCE:
    case SIM_ITEM_SLOW_STORE:
    case SIM_ITEM_LOCK_ROW:
    case SIM_ITEM_MOVE_SLOT:
        break;
    default:
        fprintf(out, " process %c", 'a' + item->who);
    }
    if (item->arg)
        fprintf(out, " %" PRId64, item->arg);
    if (item->for_ns)
        fprintf(out, " for %.3f s", (double)item->for_ns / 1e9);
    fputc('\n', out);
}

void sim_plan_print(const sim_plan *plan, void *file)
{
    FILE *out = file;
    fprintf(out, "  store %s%s%s, ttl %" PRId64 " ms, transition %" PRId64 " ms", sim_store_name(plan->store),
            plan->topology == SIM_SINGLE    ? ""
            : plan->topology == SIM_CLUSTER ? " (cluster)"
                                            : " (sentinel)",
            plan->queue ? (plan->forgets ? " with a queue, that forgets at a restart" : " with a queue") : "",
            plan->timing.ttl_ms, plan->timing.transition_ms);
    if (plan->timing.stop_margin_ms)
        fprintf(out, ", stop margin %" PRId64 " ms", plan->timing.stop_margin_ms);
    if (plan->timing.hold_limit_ms)
        fprintf(out, ", hold limit %" PRId64 " ms", plan->timing.hold_limit_ms);
    if (plan->slots)
        fprintf(out, ", %u slots behind a turnstile", plan->slots);
    fprintf(out, "; %u processes, healed at %.3f s\n", plan->processes, (double)plan->horizon_ns / 1e9);
    for (unsigned i = 0; i < plan->items; i++)
        print_item(plan, &plan->item[i], out);
}
