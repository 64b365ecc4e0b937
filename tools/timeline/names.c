/* See names.h. */
#include "timeline/names.h"

#include <search.h>
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

typedef struct numbered {
    const char *name;
    size_t number;
} numbered;

static int by_name(const void *left, const void *right)
{
    return strcmp(((const numbered *)left)->name, ((const numbered *)right)->name);
}

size_t timeline_names_add(timeline_names *set, const char *name)
{
    const numbered key = {name, set->count};
    numbered *const *found = tfind(&key, &set->tree, by_name);
    if (found != NULL)
        return (*found)->number;
    numbered *made = malloc(sizeof *made);
    if (made == NULL)
        abort();
    *made = key;
    if (tsearch(made, &set->tree, by_name) == NULL)
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
