/* Every world that choices lead to, breadth first: all worlds that are n choices away before those that are n + 1 away, so the
 * first broken promise is one that no shorter way leads to. Of a world that was seen a hash of 64 bits is kept and from which
 * other one it came; of those at the edge the world itself. */
#include <pthread.h>
#include <stdatomic.h>
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
    return simba__timing_resolve(&ms, 10000, EXPLORE_OP_TIMEOUT * (int64_t)b->tick_ms, b->store == EXPLORE_SESSION,
                                 &err, ret_timing) == 0;
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

/* --- the search ------------------------------------------------------------------------------------------- */

enum { JOBS_MAX = 64 };

typedef struct origin {
    uint32_t from; /* the place of the world that it came from */
    choice what;
} origin;

/* The worlds of one distance, one after the other. */
typedef struct edge {
    unsigned char *worlds;
    uint32_t *places; /* in the table */
    size_t count, room;
} edge;

/* A world whose future is broken is one choice nearer than one that the next choice breaks, so it is the better finding. */
typedef enum finding { NOTHING_BROKEN, BROKEN_BY_CHOICE, BROKEN_IN_FUTURE } finding;

typedef struct progress {
    const explore_bounds *bounds;
    simba__timing timing;
    size_t size; /* of a world */
    _Atomic uint64_t *seen;
    origin *origins;
    uint64_t mask;
    const edge *now;
    _Atomic uint64_t next, states, choices;
    _Atomic bool is_full;
    _Atomic finding found;
    pthread_mutex_t lock;
    uint32_t broken_from;
    choice broken_by; /* BROKEN_BY_CHOICE */
} progress;

typedef struct worker {
    progress *s;
    edge next;
    world *w, *after; /* to work with */
} worker;

static void *or_abort(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static void edge_add(progress *s, edge *e, const void *w, uint32_t place)
{
    if (e->count == e->room) {
        e->room = e->room ? 2 * e->room : 256;
        e->worlds = or_abort(realloc(e->worlds, e->room * s->size));
        e->places = or_abort(realloc(e->places, e->room * sizeof *e->places));
    }
    memcpy(e->worlds + e->count * s->size, w, s->size);
    e->places[e->count++] = place;
}

static void edge_free(edge *e)
{
    free(e->worlds);
    free(e->places);
    *e = (edge){0};
}

/* Its place in the table. False: it was there before. */
static bool is_new(progress *s, uint64_t hash, uint32_t *ret_place)
{
    for (uint64_t at = hash & s->mask;; at = (at + 1) & s->mask) {
        uint64_t found = atomic_load(&s->seen[at]);
        if (found == 0 && atomic_compare_exchange_strong(&s->seen[at], &found, hash)) {
            *ret_place = (uint32_t)at;
            return true;
        }
        if (found == hash)
            return false;
    }
}

static void found_broken(progress *s, finding which, uint32_t from, choice what)
{
    pthread_mutex_lock(&s->lock);
    if (s->found < which) {
        s->broken_from = from;
        s->broken_by = what;
        s->found = which;
    }
    pthread_mutex_unlock(&s->lock);
}

static void go_on_from(worker *me, const world *w, uint32_t place)
{
    progress *s = me->s;
    choice choices[WORLD_CHOICES];
    const unsigned count = world_choices(w, choices);
    s->choices += count;
    for (unsigned i = 0; i < count; i++) {
        uint32_t to;
        memcpy(me->after, w, s->size);
        world_choose(me->after, choices[i]);
        if (me->after->promise) {
            found_broken(s, BROKEN_BY_CHOICE, place, choices[i]);
            return;
        }
        world_normalise(me->after);
        if (!is_new(s, world_hash(me->after), &to))
            continue;
        s->origins[to] = (origin){place, choices[i]};
        if (++s->states >= s->bounds->states_max)
            s->is_full = true;
        edge_add(s, &me->next, me->after, to);
    }
}

static void *work(void *arg)
{
    worker *me = arg;
    progress *s = me->s;
    for (;;) {
        const uint64_t n = atomic_fetch_add(&s->next, 1);
        if (n >= s->now->count || s->is_full || s->found == BROKEN_IN_FUTURE)
            return NULL;
        memcpy(me->w, s->now->worlds + n * s->size, s->size);
        if (s->found == NOTHING_BROKEN)
            go_on_from(me, me->w, s->now->places[n]);
        check_world_future(me->w, me->after);
        if (me->after->promise)
            found_broken(s, BROKEN_IN_FUTURE, s->now->places[n], (choice){0});
    }
}

/* All worlds of the next distance. */
static void advance(progress *s, edge *e)
{
    pthread_t thread[JOBS_MAX];
    worker workers[JOBS_MAX];
    const unsigned jobs = s->bounds->jobs < JOBS_MAX ? s->bounds->jobs : JOBS_MAX;
    s->now = e;
    s->next = 0;
    for (unsigned i = 0; i < jobs; i++) {
        workers[i] = (worker){.s = s, .w = or_abort(malloc(s->size)), .after = or_abort(malloc(s->size))};
        if (pthread_create(&thread[i], NULL, work, &workers[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < jobs; i++)
        pthread_join(thread[i], NULL);
    edge_free(e);
    for (unsigned i = 0; i < jobs; i++) {
        for (size_t k = 0; k < workers[i].next.count; k++)
            edge_add(s, e, (workers[i].next.worlds + k * s->size), workers[i].next.places[k]);
        edge_free(&workers[i].next);
        free(workers[i].w);
        free(workers[i].after);
    }
}

/* Go the way to what was broken once more, and write it down. */
static unsigned retell(const progress *s, uint32_t first, FILE *log, world *ret_broken)
{
    choice way[4096];
    unsigned length = 0;
    if (s->found == BROKEN_BY_CHOICE)
        way[length++] = s->broken_by;
    for (uint32_t at = s->broken_from; at != first && length < sizeof way / sizeof *way; at = s->origins[at].from)
        way[length++] = s->origins[at].what;
    world_begin(ret_broken, s->bounds, &s->timing);
    world_normalise(ret_broken);
    ret_broken->log = log;
    for (unsigned i = length; i-- > 0;) {
        world_choose(ret_broken, way[i]);
        world_normalise(ret_broken);
    }
    if (s->found == BROKEN_IN_FUTURE) {
        world *before = or_abort(malloc(s->size));
        memcpy(before, ret_broken, s->size);
        check_world_future(before, ret_broken);
        free(before);
    }
    return length;
}

void explore(const explore_bounds *bounds, FILE *log, explore_verdict *ret_verdict)
{
    progress *s = or_abort(calloc(1, sizeof *s));
    world *w = or_abort(calloc(1, sizeof *w));
    edge e = {0};
    uint64_t slots = 1024;
    uint32_t first = 0;
    while (slots < 2 * bounds->states_max)
        slots *= 2;
    s->bounds = bounds;
    if (!world_timing(bounds, &s->timing))
        abort(); /* explore_parse has looked at them */
    s->mask = slots - 1;
    s->seen = or_abort(calloc(slots, sizeof *s->seen));
    s->origins = or_abort(calloc(slots, sizeof *s->origins));
    pthread_mutex_init(&s->lock, NULL);
    world_begin(w, bounds, &s->timing);
    s->size = world_size(w);
    world_normalise(w);
    is_new(s, world_hash(w), &first);
    s->states = 1;
    edge_add(s, &e, w, first);
    *ret_verdict = (explore_verdict){0};
    while (e.count > 0 && !s->found && !s->is_full) {
        advance(s, &e);
        ret_verdict->depth++;
    }
    ret_verdict->states = s->states;
    ret_verdict->choices = s->choices;
    ret_verdict->is_complete = !s->is_full && !s->found;
    if (s->found) {
        ret_verdict->depth = retell(s, first, log, w);
        ret_verdict->promise = w->promise;
        ret_verdict->at_ns = w->log_ns;
        memcpy(ret_verdict->text, w->text, sizeof w->text);
    }
    edge_free(&e);
    free(w);
    free((void *)s->seen);
    free(s->origins);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
