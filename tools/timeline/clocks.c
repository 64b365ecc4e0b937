/* See clocks.h. */
#include "timeline/clocks.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define NOT_KNOWN (-1)

/* --- names --------------------------------------------------------------------------------------- */

void *timeline_grown(void *array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity ? *capacity * 2 : 64;
    array = realloc(array, *capacity * size);
    if (array == NULL)
        abort();
    return array;
}

typedef struct numbered {
    const char *name;
    size_t number;
} numbered;

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const numbered *)left)->name, ((const numbered *)right)->name);
}

size_t timeline_names_add(timeline_names *set, const char *name)
{
    const numbered key = {name, set->count};
    numbered *const *found = tfind(&key, &set->tree, compare_names);
    if (found != NULL)
        return (*found)->number;
    numbered *made = malloc(sizeof *made);
    if (made == NULL)
        abort();
    *made = key;
    if (tsearch(made, &set->tree, compare_names) == NULL)
        abort();
    set->names = timeline_grown(set->names, &set->capacity, set->count, sizeof *set->names);
    set->names[set->count] = name;
    return set->count++;
}

void timeline_names_free(timeline_names *set)
{
    free(set->names);
    tdestroy(set->tree, free);
    *set = (timeline_names){0};
}

/* --- clocks -------------------------------------------------------------------------------------- */

void timeline_clocks_init(timeline_clocks *set)
{
    *set = (timeline_clocks){.clocks = NULL};
    timeline_clocks_add(set, "");
}

void timeline_clocks_free(timeline_clocks *set)
{
    timeline_names_free(&set->boots);
    free(set->clocks);
}

size_t timeline_clocks_add(timeline_clocks *set, const char *boot)
{
    const size_t before = set->boots.count;
    const size_t at = timeline_names_add(&set->boots, boot);
    if (at == before) {
        set->clocks = timeline_grown(set->clocks, &set->capacity, before, sizeof *set->clocks);
        set->clocks[at] = (timeline_clock){.reading = {.wall_ns = NOT_KNOWN, .store_ns = NOT_KNOWN}};
    }
    return at;
}

/* The store's clock counts more than the lack of it, and of two readings the one with the shorter round trip. */
void timeline_clock_read(timeline_clock *clock, const timeline_reading *reading)
{
    const timeline_reading *best = &clock->reading;
    const bool better = best->wall_ns == NOT_KNOWN || (best->store_ns == NOT_KNOWN && reading->store_ns != NOT_KNOWN) ||
                        (reading->store_ns != NOT_KNOWN && reading->round_ns < best->round_ns);
    if (better)
        clock->reading = *reading;
}

timeline_agreement timeline_clocks_agree(timeline_clocks *set, int64_t *ret_wall_ns)
{
    size_t used = 0;
    size_t with_store = 0;
    const timeline_clock *reference = NULL; /* the first that is used and has a name */
    for (size_t i = 1; i < set->boots.count; i++) {
        const timeline_clock *clock = &set->clocks[i];
        if (!clock->used)
            continue;
        used++;
        with_store += clock->reading.store_ns != NOT_KNOWN;
        if (reference == NULL)
            reference = clock;
    }
    const bool by_store = with_store == used;
    *ret_wall_ns = INT64_MIN;
    for (size_t i = 1; used > 1 && i < set->boots.count; i++) {
        const timeline_reading *r = &set->clocks[i].reading;
        /* Half of the round trip lies before the store looked at its clock, as far as anybody knows. */
        set->clocks[i].shift_ns = by_store ? r->store_ns - (r->boot_ns - r->round_ns / 2) : r->wall_ns - r->boot_ns;
    }
    if (reference == NULL)
        return TIMELINE_AGREED;
    set->clocks[0].shift_ns = reference->shift_ns;
    *ret_wall_ns = reference->reading.wall_ns - reference->reading.boot_ns - reference->shift_ns;
    if (set->clocks[0].used && used > 1)
        return TIMELINE_UNRELATED;
    return by_store || used == 1 ? TIMELINE_AGREED : TIMELINE_BY_WALL;
}

int64_t timeline_clock_common(const timeline_clock *clock, int64_t boot_ns)
{
    int64_t ns;
    if (__builtin_add_overflow(boot_ns, clock->shift_ns, &ns) || ns > TIMELINE_TIME_MAX)
        return clock->shift_ns > 0 ? TIMELINE_TIME_MAX : 0;
    return ns > 0 ? ns : 0;
}
