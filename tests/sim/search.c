/* See search.h. Of a world that was seen a hash of 64 bits is kept and from which other one it came; of those at the edge the
 * world itself. */
#include "sim/search.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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
    const search_space *space;
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
    void *w, *after; /* worlds to work with */
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

static void go_on_from(worker *me, const void *w, uint32_t place)
{
    progress *s = me->s;
    const search_space *space = s->space;
    choice choices[SEARCH_CHOICES];
    const unsigned count = space->choices(w, choices);
    s->choices += count;
    for (unsigned i = 0; i < count; i++) {
        uint32_t to;
        memcpy(me->after, w, s->size);
        space->choose(me->after, choices[i]);
        if (space->broken(me->after)) {
            found_broken(s, BROKEN_BY_CHOICE, place, choices[i]);
            return;
        }
        space->normalise(me->after);
        if (!is_new(s, space->hash(me->after), &to))
            continue;
        s->origins[to] = (origin){place, choices[i]};
        if (++s->states >= space->states_max)
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
        s->space->future(me->w, me->after);
        if (s->space->broken(me->after))
            found_broken(s, BROKEN_IN_FUTURE, s->now->places[n], (choice){0});
    }
}

/* All worlds of the next distance. */
static void advance(progress *s, edge *e)
{
    pthread_t thread[JOBS_MAX];
    worker workers[JOBS_MAX];
    const unsigned jobs = s->space->jobs < JOBS_MAX ? s->space->jobs : JOBS_MAX;
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
static unsigned retell(const progress *s, uint32_t first, FILE *log, void *ret_broken)
{
    const search_space *space = s->space;
    choice way[4096];
    unsigned length = 0;
    if (s->found == BROKEN_BY_CHOICE)
        way[length++] = s->broken_by;
    for (uint32_t at = s->broken_from; at != first && length < sizeof way / sizeof *way; at = s->origins[at].from)
        way[length++] = s->origins[at].what;
    space->begin(space->user, ret_broken);
    space->normalise(ret_broken);
    space->tell(ret_broken, log);
    for (unsigned i = length; i-- > 0;) {
        space->choose(ret_broken, way[i]);
        space->normalise(ret_broken);
    }
    if (s->found == BROKEN_IN_FUTURE) {
        void *before = or_abort(malloc(s->size));
        memcpy(before, ret_broken, s->size);
        space->future(before, ret_broken);
        free(before);
    }
    return length;
}

uint64_t search_hash(const void *bytes, size_t size)
{
    uint64_t hash = 0x9e3779b97f4a7c15;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const unsigned char *)bytes + i, size - i < sizeof word ? size - i : sizeof word);
        hash = (hash ^ word) * 0xff51afd7ed558ccd;
        hash ^= hash >> 32;
    }
    hash = (hash ^ (hash >> 29)) * 0xc4ceb9fe1a85ec53;
    return hash ? hash : 1;
}

void search(const search_space *space, FILE *log, void *ret_broken, search_verdict *ret_verdict)
{
    progress *s = or_abort(calloc(1, sizeof *s));
    void *w = or_abort(calloc(1, space->size));
    edge e = {0};
    uint64_t slots = 1024;
    uint32_t first = 0;
    while (slots < 2 * space->states_max)
        slots *= 2;
    s->space = space;
    s->size = space->size;
    s->mask = slots - 1;
    s->seen = or_abort(calloc(slots, sizeof *s->seen));
    s->origins = or_abort(calloc(slots, sizeof *s->origins));
    pthread_mutex_init(&s->lock, NULL);
    space->begin(space->user, w);
    space->normalise(w);
    is_new(s, space->hash(w), &first);
    s->states = 1;
    edge_add(s, &e, w, first);
    memset(ret_verdict, 0, sizeof *ret_verdict);
    while (e.count > 0 && !s->found && !s->is_full) {
        advance(s, &e);
        ret_verdict->depth++;
    }
    ret_verdict->states = s->states;
    ret_verdict->choices = s->choices;
    ret_verdict->is_complete = !s->is_full && !s->found;
    ret_verdict->is_broken = s->found != NOTHING_BROKEN;
    if (s->found)
        ret_verdict->depth = retell(s, first, log, ret_broken);
    edge_free(&e);
    free(w);
    free((void *)s->seen);
    free(s->origins);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
