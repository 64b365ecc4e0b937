/* The worlds of explore.h as a space to search. */
#include <stdlib.h>
#include <string.h>

#include "sim/explore_world.h"

bool world_timing(const explore_bounds *b, simba__timing *ret_timing)
{
    simba_timing ms = simba__timing_defaults;
    ms.ttl_ms = b->ttl * b->tick_ms;
    ms.transition_ms = b->transition * b->tick_ms;
    ms.stop_margin_ms = b->margin * b->tick_ms;
    ms.hold_limit_ms = b->limit * b->tick_ms;
    simba_error err;
    return simba__timing_resolve(&ms, 10000, 5 * (int64_t)b->tick_ms, b->store == EXPLORE_SESSION, &err, ret_timing) ==
           0;
}

const char *explore_store_name(explore_store store)
{
    static const char *const names[] = {
        [EXPLORE_PUSH] = "push", [EXPLORE_POLL] = "poll", [EXPLORE_SESSION] = "session"};
    return names[store];
}

/* A session has signs of life under way all the time: with pauses and delays there would be forty times as many worlds. */
void explore_default(explore_store store, explore_bounds *ret_bounds)
{
    const unsigned lateness = store == EXPLORE_SESSION ? 0 : 1;
    *ret_bounds = (explore_bounds){.store = store,
                                   .contenders = 2,
                                   .tick_ms = 1000,
                                   .ttl = 2,
                                   .transition = 2,
                                   .losses = 1,
                                   .kills = 1,
                                   .stops = 1,
                                   .pauses = lateness,
                                   .delays = lateness,
                                   .drifts = 1,
                                   .jobs = 2,
                                   .states_max = UINT64_C(1) << 26};
}

/* --- the space ---------------------------------------------------------------------------------------- */

struct beginning {
    const explore_bounds *bounds;
    simba__timing timing;
};

static void begin(const void *user, void *w)
{
    const struct beginning *beginning = user;
    world all;
    world_begin(&all, beginning->bounds, &beginning->timing);
    memcpy(w, &all, world_size(&all));
}

static unsigned choices(const void *w, choice *ret_choices)
{
    return world_choices(w, ret_choices);
}

static void choose(void *w, choice what)
{
    world_choose(w, what);
}

static void normalise(void *w)
{
    world_normalise(w);
}

static uint64_t hash(const void *w)
{
    return world_hash(w);
}

static void future(const void *w, void *ret_future)
{
    check_world_future(w, ret_future);
}

static const char *broken(const void *w)
{
    return ((const world *)w)->promise;
}

static void tell(void *w, FILE *log)
{
    ((world *)w)->log = log;
}

void explore(const explore_bounds *bounds, FILE *log, explore_verdict *ret_verdict)
{
    struct beginning beginning = {.bounds = bounds};
    world w;
    search_verdict found;
    if (!world_timing(bounds, &beginning.timing))
        abort(); /* explore_parse has looked at them */
    world_begin(&w, bounds, &beginning.timing);
    const search_space space = {.size = world_size(&w),
                                .user = &beginning,
                                .jobs = bounds->jobs,
                                .states_max = bounds->states_max,
                                .begin = begin,
                                .choices = choices,
                                .choose = choose,
                                .normalise = normalise,
                                .hash = hash,
                                .future = future,
                                .broken = broken,
                                .tell = tell};
    search(&space, log, &w, &found);
    *ret_verdict = (explore_verdict){
        .states = found.states, .choices = found.choices, .depth = found.depth, .is_complete = found.is_complete};
    if (!found.is_broken)
        return;
    ret_verdict->promise = w.promise;
    ret_verdict->at_ns = w.log_ns;
    memcpy(ret_verdict->text, w.text, sizeof w.text);
}
