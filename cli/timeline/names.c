/* See names.h. */
#include "timeline/names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* FNV-1a. Somebody who writes a log of names that collide makes their own picture slow. */
static uint64_t hash(const char *name)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return h;
}

/* Where the name is, or the empty slot where it belongs. */
static size_t *slot_of(const timeline_names *set, const char *name)
{
    size_t at = hash(name) & (set->slot_count - 1);
    while (set->slots[at] != 0 && strcmp(set->names[set->slots[at] - 1], name) != 0)
        at = (at + 1) & (set->slot_count - 1);
    return &set->slots[at];
}

/* At least half of the slots stay empty. */
static void grow_slots(timeline_names *set)
{
    if (set->count * 2 < set->slot_count)
        return;
    free(set->slots);
    set->slot_count = set->slot_count ? set->slot_count * 2 : 64;
    set->slots = calloc(set->slot_count, sizeof *set->slots);
    if (set->slots == NULL)
        abort();
    for (size_t i = 0; i < set->count; i++)
        *slot_of(set, set->names[i]) = i + 1;
}

size_t timeline_names_add(timeline_names *set, const char *name)
{
    grow_slots(set);
    size_t *slot = slot_of(set, name);
    if (*slot == 0) {
        set->names = timeline_grown(set->names, &set->capacity, set->count, sizeof *set->names);
        set->names[set->count++] = name;
        *slot = set->count;
    }
    return *slot - 1;
}

void timeline_names_free(timeline_names *set)
{
    free(set->names);
    free(set->slots);
    *set = (timeline_names){0};
}
