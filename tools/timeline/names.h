/* A set of names, numbered in the order in which they came. A name is found soon however many there are, because a log
 * may have as many rows as lines. */
#ifndef SIMBA_CLI_TIMELINE_NAMES_H
#define SIMBA_CLI_TIMELINE_NAMES_H

#include <stddef.h>

typedef struct timeline_names {
    const char **names; /* by number; they belong to the caller that added them */
    size_t count, capacity;
    void *tree; /* of tsearch(3): the names with their numbers */
} timeline_names;

/* The number of the name, which is added if it is new. The name has to outlive the set. */
size_t timeline_names_add(timeline_names *set, const char *name);
void timeline_names_free(timeline_names *set);

/* `array` with room for one more than `count` of `size` bytes. Ends the process if there is no memory. */
void *timeline_grown(void *array, size_t *capacity, size_t count, size_t size);

#endif
